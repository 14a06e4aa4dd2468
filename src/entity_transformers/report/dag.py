"""The steps of a study as a drawn graph: which reads what another writes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import count

from markupsafe import Markup

from entity_transformers.study.steps import STEPS

WIDE, HIGH, ACROSS, DOWN = 130, 34, 175, 52
"""Of a box, and from one box to the next, in units of the picture."""
Graph = Mapping[str, Collection[str]]


def link_steps(names: Iterable[str]) -> dict[str, set[str]]:
    """The steps that each of these reads from, without those that another of them reads already."""
    steps = list(names)
    reads = {
        name: {*steps}.intersection(steps if STEPS[name].summary else STEPS[name].reads) - {name}
        for name in steps
    }
    return {
        name: {
            one
            for one in direct
            if not any(one in _ancestors(reads, other) for other in direct - {one})
        }
        for name, direct in reads.items()
    }


def _ancestors(reads: Graph, name: str) -> set[str]:
    found: set[str] = set()
    for other in reads[name]:
        found |= {other} | _ancestors(reads, other)
    return found


def place_steps(links: Graph) -> dict[str, tuple[int, int]]:
    """Column and row of each step: one column to the right of the last that it reads from; what
    only the summary reads stands in the column before that. Rows by how near the sources are, so
    that arrows run level behind no other box.
    """
    columns: dict[str, int] = {}

    def column(name: str) -> int:
        if name not in columns:
            columns[name] = 1 + max((column(other) for other in links[name]), default=-1)
        return columns[name]

    last = max(map(column, links))
    for name in links:
        readers = [other for other in links if name in links[other]]
        if readers and all(STEPS[reader].summary for reader in readers):
            columns[name] = last - 1
    sources = {name: [columns[other] for other in links[name]] or [-1] for name in links}
    taken: set[tuple[int, int]] = set()
    places = {}
    for name in sorted(links, key=lambda one: -max(sources[one])):
        passed = range(min(min(sources[name]) + 1, columns[name]), columns[name] + 1)
        row = next(row for row in count() if not taken & {(one, row) for one in passed})
        taken |= {(one, row) for one in passed}
        places[name] = columns[name], row
    return {name: places[name] for name in links}


def draw_dag(names: Iterable[str], shown: Collection[str], absent: Collection[str]) -> Markup:
    """An <svg>: steps that have a section on the page (``shown``) lead there, those without numbers
    (``absent``) are dashed. Nothing for no steps.
    """
    links = link_steps(names)
    if not links:
        return Markup("")
    places = place_steps(links)
    wide = ACROSS * (1 + max(column for column, _ in places.values()))
    high = DOWN * (1 + max(row for _, row in places.values()))
    arrows = Markup("").join(
        _arrow(places[other], places[name]) for name in links for other in sorted(links[name])
    )
    boxes = Markup("").join(
        _box(name, place, name in shown, name in absent) for name, place in places.items()
    )
    head = Markup(
        '<defs><marker id="dag-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
        ' markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>'
    )
    return Markup('<svg class="dag" viewBox="0 0 {} {}">{}{}{}</svg>').format(
        wide, high, head, arrows, boxes
    )


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> Markup:
    x, y = start[0] * ACROSS + WIDE + 4, start[1] * DOWN + HIGH // 2 + 4
    to_x, to_y = end[0] * ACROSS + 4, end[1] * DOWN + HIGH // 2 + 4
    bend = x + ACROSS - WIDE - 8
    return Markup('<path d="M{} {}C{} {} {} {} {} {}H{}" marker-end="url(#dag-head)"/>').format(
        x, y, x + 22, y, bend - 22, to_y, bend, to_y, to_x
    )


def _box(name: str, place: tuple[int, int], shown: bool, absent: bool) -> Markup:
    x, y = place[0] * ACROSS + 4, place[1] * DOWN + 4
    frame = Markup('<rect x="{}" y="{}" width="{}" height="{}" rx="5"/>').format(x, y, WIDE, HIGH)
    label = Markup('<text x="{}" y="{}">{}</text>')
    box = frame + label.format(x + WIDE // 2, y + HIGH // 2 + 5, name)
    if shown:
        box = Markup('<a href="#step-{}">{}</a>').format(name, box)
    return Markup('<g class="{}">{}</g>').format("absent" if absent else "there", box)
