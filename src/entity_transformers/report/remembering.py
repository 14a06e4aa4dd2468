"""What is worth remembering (studies/remembering.md): nats per token with what a policy keeps of
the text before a window: as text before it (step text_memory), in a cache (kept_cache), as its keys
and values (kept_keys), or for a trained pointer (kept_pointer).

The unit is the document or book: its nats per token are a mean over its own tokens, and all units
count alike. A difference is negative where the first is better.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from entity_transformers.corpus.layers import is_resolver, split_layer
from entity_transformers.report.figures import (
    INK,
    PALETTE,
    Bar,
    Line,
    Panel,
    Rows,
    draw_intervals,
    draw_lines,
)
from entity_transformers.report.frame import at
from entity_transformers.report.intervals import LEVEL, Estimate
from entity_transformers.report.pivot import Axis, Measure, Part, Pivot, Place
from entity_transformers.report.pivot import Line as Row
from entity_transformers.report.results import Results
from entity_transformers.report.table import MISSING, Number, Table

FLIPS = 9999
"""Sign flips of the differences of units, for a p value."""
EQUIVALENT = 0.005
"""Nats per token, either way."""
SEEN = ("lady_bridget", "miss_marjoribanks", "bleak_house", "persuasion")
"""Novels whose scores were seen before the study was run, as the plan says."""
KINDS = {
    "other words": ("outside",),
    "first mentions": ("first",),
    "later mentions": ("near", "far"),
}
"""Parts of a text that do not depend on the window: a longer one has more of its mentions near."""


class Kept(NamedTuple):
    """What was kept: a policy, by which labels, how many tokens, beside which window, of which
    text: the original one, or one with other names.
    """

    policy: str
    labels: str
    budget: int
    window: int
    text: str

    @property
    def source(self) -> str:
        """Where its mentions come from, in words."""
        change, base = split_layer(self.labels)
        base = "names" if is_resolver(base) else base
        return {None: base, "random": "random spans"}.get(change, f"{base}, {change}")

    @property
    def name(self) -> str:
        """As tables and figures write it: mentions that a resolver or chance has found are names
        and random spans.
        """
        if self.labels == "none":
            return self.policy
        if "mentions" in self.policy and self.source in ("names", "random spans"):
            return self.policy.replace("mentions", self.source)
        return f"{self.policy} ({self.source})"


def list_kept(results: Results, step: str) -> list[Kept]:
    """Everything that was scored, in the order of the study."""
    rows = results.frame.find(step, measure="loss", part="all")
    names = ["policy", "labels", "budget", "window", "text"]
    found = rows[names].drop_duplicates().to_dict("records") if "policy" in rows else []
    return [
        Kept(row["policy"], row["labels"], int(row["budget"]), int(row["window"]), row["text"])
        for row in found
    ]


def list_original(results: Results, step: str) -> tuple[dict[int, Kept], list[Kept]]:
    """Of the original text each window alone, by its length, and what is kept beside the shortest
    one.
    """
    listed = [kept for kept in list_kept(results, step) if kept.text == "original"]
    alone = {kept.window: kept for kept in listed if not kept.budget}
    short = min(alone, default=0)
    beside = [kept for kept in listed if kept.budget and kept.window == short]
    return dict(sorted(alone.items())), beside


def _read(results: Results, step: str, kept: Kept, part: str) -> Any:
    """The scores of each unit, of the study's one model and first seed; None for no such tokens."""
    [model, *_] = results.measured(step)
    key = at(step, "nll", results.split(step), part=part, **kept._asdict())
    seeds = results.units.find(model.name, key)
    return seeds[min(seeds)] if seeds else None


def read_losses(results: Results, step: str, kept: Kept, part: str = "all") -> pd.Series:
    """Nats per token by unit."""
    scores = _read(results, step, kept, part)
    if scores is None:
        return pd.Series(dtype=float)
    return pd.Series(scores.values / scores.counts, index=list(scores.units))


def read_share(results: Results, step: str, kept: Kept, parts: tuple[str, ...]) -> pd.Series:
    """What parts of a unit add to its nats per token, by unit; 0 where it has no such tokens."""
    every, *some = (_read(results, step, kept, part) for part in ("all", *parts))
    sums = pd.Series(0.0, index=list(every.units))
    for scores in some:
        if scores is not None:
            sums = sums.add(pd.Series(scores.values, index=list(scores.units)), fill_value=0.0)
    return sums / np.asarray(every.counts)


def subtract(
    results: Results,
    step: str,
    ours: Kept,
    theirs: Kept,
    part: str = "all",
    without: tuple[str, ...] = (),
) -> Estimate | None:
    """The nats per token of one less those of another, over the units that have such tokens, but
    not those with one of the words ``without`` in their names; None for fewer than two.
    """
    first, second = (read_losses(results, step, one, part) for one in (ours, theirs))
    kept = [not any(word in name for word in without) for name in first.index]
    if not first.index.equals(second.index) or sum(kept) < 2:
        return None
    return estimate((first - second)[kept].to_numpy())


def estimate(gaps: np.ndarray) -> Estimate:
    """The mean of the differences of two or more units, with Student's interval and the p of sign
    flips.
    """
    low, high = stats.ttest_1samp(gaps, 0).confidence_interval(LEVEL)
    flips = np.random.default_rng(1).choice([-1.0, 1.0], (FLIPS, len(gaps)))
    extreme = (np.abs(flips @ gaps) >= abs(gaps.sum()) * (1 - 1e-12)).sum()
    p = (1 + int(extreme)) / (FLIPS + 1)
    return Estimate(float(gaps.mean()), (float(low), float(high)), p, len(gaps), 1)


def are_equivalent(gap: Estimate) -> bool:
    """Two one-sided tests at 5 %: is all of the 90 % interval within ± `EQUIVALENT`?"""
    assert gap.interval is not None
    half = (gap.interval[1] - gap.value) / stats.t.ppf((1 + LEVEL) / 2, gap.units - 1)
    return abs(gap.value) + half * stats.t.ppf(0.95, gap.units - 1) < EQUIVALENT


def read_mean(results: Results, step: str, kept: Kept, part: str = "all") -> float:
    """Nats per token, the mean over units."""
    return float(np.mean(read_losses(results, step, kept, part).to_numpy()))


def read_bytes(results: Results, step: str, kept: Kept) -> float | None:
    """The bytes that it holds at most."""
    [model, *_] = results.measured(step)
    key = at(step, "bytes", results.split(step), **kept._asdict())
    return results.statistic(model, key).mean


def read_window_bytes(results: Results, window: int) -> float | None:
    """The bytes of the keys and values of a window."""
    for model in results.measured("kept_cache"):
        about = {"window": window, "text": "original"}
        key = at("kept_cache", "window_bytes", results.split("kept_cache"), **about)
        return results.statistic(model, key).mean
    return None


def _list_policies(results: Results, place: Place) -> Iterator[Row]:
    """Each window alone, and what is kept beside it, by budget."""
    listed = list_kept(results, place["step"])
    for nothing in (kept for kept in listed if not kept.budget):
        head, about = (nothing.text, Number(nothing.window, 0)), {"nothing": nothing}
        yield (*head, "nothing"), {**about, "own": {0: nothing}}
        beside = [k for k in listed if k.budget and k[3:] == nothing[3:]]
        for name in dict.fromkeys(kept.name for kept in beside):
            own = {kept.budget: kept for kept in beside if kept.name == name}
            yield (*head, name), {**about, "own": own}


def _loss(results: Results, row: Place) -> Number:
    alone = row["own"].get(0)
    return Number(alone and read_mean(results, row["step"], alone), 4)


def _budgets(results: Results, step: str) -> Iterator[Measure]:
    def gap(size: int) -> Measure:
        def cell(results: Results, row: Place) -> Number:
            kept = row["own"].get(size)
            found = kept and subtract(results, step, kept, row["nothing"])
            return found.number() if found else Number(None)

        return Measure(f"{size:,} tokens", cell=cell)

    sizes = {kept.budget for kept in list_kept(results, step) if kept.budget}
    yield from map(gap, sorted(sizes))


def make_losses(step: str) -> Pivot:
    """A row for each window and policy, with a column for each budget."""
    return Pivot(
        name=step,
        title="What is kept beside the window",
        step=step,
        rows=(Axis(("Text", "Window", "Kept"), _list_policies),),
        columns=(Measure("Loss", cell=_loss), partial(_budgets, step=step)),
        measures=(
            "Nats per token without a memory, and how much more (+) or less (−) they are with so"
            " many tokens kept of the text before the window."
        ),
        note=(
            "Means over documents or books, with Student's intervals of 95 %. Recent: the tokens"
            " before the window. Names, mentions: the latest tokens of names by their spelling, of"
            " labelled mentions; random spans: of as many spans of the same lengths, anywhere."
            " Entities: the latest mention of each entity, by the labels in brackets. Half: with as"
            " many recent tokens. Rare, surprising: of the text so far, by count and by the model's"
            " loss. Slots: the latest place of each token. Heavy hitters, lately attended: those"
            " with the most attention, so far (H2O) or of the latest tokens (SnapKV). Shuffled: the"
            " chains permuted among the mentions; surface: one entity for each spelling. Renamed:"
            " the same text with invented names."
        ),
    )


@dataclass(frozen=True)
class Contrast:
    """A hypothesis of the plan: ``ours`` and ``theirs`` are policies with a word that their labels
    begin with. Supported if the difference is at most ``most``, its interval below 0; where that is
    None, if it is better or equivalent.
    """

    name: str
    step: str
    ours: tuple[str, str]
    theirs: tuple[str, str]
    window: int
    budget: int
    most: float | None
    decided: bool = True


def _contrasts(step: str) -> Iterator[Contrast]:
    names = "mentions", "resolver"
    for window, budget in (
        (256, 256), (256, 64), (256, 1024), (512, 256), (1024, 256), (2048, 256),
    ):  # fmt: skip
        place = window, budget
        for name, against, most in (
            ("P1", ("recent", "none"), -0.03),
            ("P2", ("mentions", "random"), -0.015),
            ("P2", ("rare", "none"), -0.015),
            ("P2", ("surprising", "none"), -0.015),
        ):
            decided = step == "kept_cache" and place == (256, 256)
            yield Contrast(name, step, names, against, *place, most, decided)
    peers = [(policy, "none") for policy in ("heavy hitters", "lately attended")]
    others = (names, ("recent", "none"))
    for ours, peer in product((("half mentions", "resolver"), *others), peers):
        yield Contrast("P8", step, ours, peer, 256, 256, -EQUIVALENT, ours not in others)
    for window in (256, 1024):
        for other in ("shuffled", "surface"):
            ours, theirs = (("half entities", layer) for layer in ("gold", other))
            decided = step == "text_memory" and window == 256
            yield Contrast("P3", step, ours, theirs, window, 64, None, decided)


def _find(results: Results, one: Contrast, side: tuple[str, str], text: str) -> Kept | None:
    for kept in list_kept(results, one.step):
        same = kept.policy, kept.budget, kept.window, kept.text
        if same == (side[0], one.budget, one.window, text) and kept.labels.startswith(side[1]):
            return kept
    return None


def adjust(values: list[float]) -> list[float]:
    """p values adjusted by Holm's method."""
    order, adjusted, highest = np.argsort(values), [0.0] * len(values), 0.0
    for rank, place in enumerate(order.tolist()):
        highest = max(highest, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = highest
    return adjusted


def build_contrasts(results: Results, step: str) -> Table:
    """The plan's contrasts that this study has scored, each with its verdict."""
    found = []
    texts = dict.fromkeys(kept.text for kept in list_kept(results, step))
    for one, text in product(_contrasts(step), texts):
        sides = [_find(results, one, side, text) for side in (one.ours, one.theirs)]
        if sides[0] and sides[1]:
            about = results, step, sides[0], sides[1]
            gap, *later = (subtract(*about, part) for part in ("all", "near", "far"))
            if gap is not None:
                unseen = subtract(*about, without=SEEN)
                found.append((one, sides[0], sides[1], gap, unseen, later))
    decided = [gap.p or 0.0 for one, kept, _, gap, *_ in found if _is_decided(one, kept)]
    adjusted = iter(adjust(decided))
    original = {one: gap for one, kept, _, gap, *_ in found if kept.text == "original"}
    rows = []
    for one, ours, theirs, gap, unseen, later in found:
        p = next(adjusted) if _is_decided(one, ours) else None
        again = ours.text == "renamed" and one.decided and one in original
        verdict = _compare(gap, original[one]) if again else _decide(one, gap, p)
        rows.append((
            one.name, ours.text, Number(one.window, 0), Number(one.budget, 0), ours.name,
            theirs.name, gap.number(),
            MISSING if unseen is None or unseen.units == gap.units else unseen.number(),
            *(MISSING if part is None else part.number() for part in later),
            MISSING if p is None else Number(p, 4), verdict,
        ))  # fmt: skip
    return Table(
        name=f"{step}_contrasts",
        title="The plan's contrasts",
        columns=(
            "", "Text", "Window", "Kept", "First", "Second", "First less second",
            "In unseen texts", "Near mentions", "Far mentions", "p (Holm)", "Verdict",
        ),
        rows=tuple(rows),
        measures="What studies/remembering.md, written before any score, asks of these numbers.",
        note=(
            "Nats per token, less is better. Unseen texts: without the novels whose scores were"
            " seen before the plan's study was run, if it has any. Near and far mentions: later"
            " ones, whose entity was mentioned last within as many tokens as the window has, or"
            " before that. p: of sign flips, adjusted over the decided rows of this table."
            f" Supported: better by 0.03 (P1), 0.015 (P2) or {EQUIVALENT} (P8) at least."
            f" Equivalent: within {EQUIVALENT} by two one-sided tests. Decided rows of renamed"
            " texts: memorised if less than half of a difference for the better is left."
        ),
    )  # fmt: skip


def _is_decided(one: Contrast, kept: Kept) -> bool:
    return one.decided and kept.text == "original"


def _decide(one: Contrast, gap: Estimate, p: float | None) -> str:
    if p is None:
        return "reported"
    better = gap.beats and p < 1 - LEVEL
    if one.most is not None:
        return "supported" if better and gap.value <= one.most else "not supported"
    if better:
        return "better"
    worse = gap.interval is not None and gap.interval[0] > 0
    return "equivalent" if are_equivalent(gap) else "worse" if worse else "undecided"


def _compare(renamed: Estimate, original: Estimate) -> str:
    """Is a difference for the better still there when the names are others?"""
    if not original.beats:
        return "reported"
    return "memorised" if renamed.value > original.value / 2 else "not memorised"


def build_prices(results: Results) -> Table:
    """A row for each policy and budget beside the smallest window: which window has its loss."""
    step, rows = "kept_cache", []
    alone, beside = list_original(results, step)
    windows = list(alone)
    losses = [read_mean(results, step, one) for one in alone.values()]
    sizes = [read_window_bytes(results, window) for window in windows]
    for kept in beside:
        loss, held = read_mean(results, step, kept), read_bytes(results, step, kept)
        share = (losses[0] - loss) / (losses[0] - losses[-1]) if len(losses) > 1 else math.nan
        # the longer a window, the lower its loss: by the logarithm of its length in between
        length = 2 ** float(np.interp(-loss, [-one for one in losses], np.log2(windows)))
        more: float | None = None
        if sizes[0] is not None and loss < losses[0]:
            more = (length / windows[0] - 1) * sizes[0]
        rows.append((
            kept.name, Number(kept.budget, 0), Number(loss, 4), Number(share, 0, percent=True),
            Number(held and held / 1024, 0), Number(length, 0),
            Number(more and more / 1024, 0), Number(more / held if more and held else None, 0),
        ))  # fmt: skip
    return Table(
        name="prices",
        title="What a memory costs against a longer window",
        columns=(
            "Kept", "Tokens", "Loss", "Share of the gain", "KiB", "As a window of",
            "KiB of that", "Times as many",
        ),
        rows=tuple(rows),
        measures=(
            f"Beside a window of {windows[0]:,} tokens: the share of what a window of"
            f" {windows[-1]:,} gains over it, and the longer window that has the same loss."
        )
        if windows
        else "",
        note=(
            "KiB: what the memory's tensors hold, and the keys and values that the longer window"
            " has beyond the short one's. Windows that were not read are interpolated by the"
            " logarithm of their length; a memory is never said to be worth more than the longest."
        ),
    )  # fmt: skip


def list_gains(results: Results) -> dict[tuple[str, int], list[Estimate]]:
    """By what is held and its budget (0: a longer window) the gain over the smallest window alone
    of each of `KINDS`, per token of the whole text.
    """
    step = "kept_cache"
    alone, beside = list_original(results, step)
    if not alone:
        return {}
    short, *longer = alone.values()
    named = {(f"a window of {kept.window:,}", 0): kept for kept in longer}
    named |= {(kept.name, kept.budget): kept for kept in beside}
    found = {}
    for name, kept in named.items():
        shares = (
            [read_share(results, step, one, parts) for one in (kept, short)]
            for parts in KINDS.values()
        )
        found[name] = [estimate((ours - theirs).to_numpy()) for ours, theirs in shares]
    return found


def _list_held(results: Results, _: Place) -> Iterator[Row]:
    for (name, budget), gaps in list_gains(results).items():
        yield (name, Number(budget, 0) if budget else MISSING), {"gaps": gaps}


def _gain(number: int, kind: str) -> Measure:
    return Measure(kind, cell=lambda _, row: row["gaps"][number].number())


GAINS = Pivot(
    name="gains",
    title="Where the gain falls",
    step="kept_cache",
    rows=(Axis(("What is held", "Tokens"), _list_held),),
    columns=tuple(_gain(number, kind) for number, kind in enumerate(KINDS)),
    measures=(
        "Nats per token of the whole text less those of the smallest window alone, by the kind"
        " of token that they are of: the columns add up to the whole difference."
    ),
    note="Mentions: of names by their spelling. Means over books, with Student's intervals.",
)


def draw_gains(results: Results) -> Figure | None:
    """Nats per token that a longer window gains over the smallest, and that 256 tokens gain which
    are kept beside it, by the kind of token that the gain is of.
    """
    found = list_gains(results)
    bars = {name: gaps for (name, budget), gaps in found.items() if budget in (0, 256)}
    if len(bars) < 2:
        return None
    figure = Figure(figsize=(8.0, 1.4 + 0.34 * len(bars)), layout="constrained")
    axes = figure.subplots()
    names = sorted(bars, key=lambda name: sum(gap.value for gap in bars[name]))
    left, right = np.zeros(len(bars)), np.zeros(len(bars))
    for number, (kind, colour) in enumerate(zip(KINDS, PALETTE, strict=False)):
        gains = np.array([-bars[name][number].value for name in names])
        start = np.where(gains > 0, right, left)
        axes.barh(names, gains, left=start, color=colour, label=kind, height=0.7)
        right, left = right + np.maximum(gains, 0), left + np.minimum(gains, 0)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("Nats per token gained")
    axes.legend(loc="lower right")
    return figure


PLACES = {
    "text_memory": "As text",
    "kept_cache": "In a cache",
    "kept_keys": "As keys and values",
    "kept_pointer": "For a trained pointer",
}


def say_remembering(results: Results, step: str) -> tuple[str, ...]:
    """The best policy at 256 tokens beside the smallest window, and what the plan decides."""
    alone, beside = list_original(results, step)
    if not beside:
        return ()
    window = min(alone)
    gaps = {one: subtract(results, step, one, alone[window]) for one in beside}
    known = {one: gap for one, gap in gaps.items() if gap is not None}
    said = []
    for size in sorted({one.budget for one in known}):
        own = {one: gap for one, gap in known.items() if one.budget == size}
        best = min(own, key=lambda one: own[one].value)
        said.append(f"{best.name} with {size:,} tokens ({own[best].number()})")
    verdicts = (
        f"{row[0]}{' in renamed texts,' * (row[1] == 'renamed')} {row[4]} against {row[5]}:"
        f" {row[6]}, {row[-1]}"
        for row in build_contrasts(results, step).rows
        if row[-1] != "reported"
    )
    return (
        f"{PLACES[step]} beside a window of {window:,} tokens the most is gained by"
        f" {', '.join(said)}, in nats per token less what the window has alone.",
        *(f"{verdict}." for verdict in verdicts),
    )


def draw_prices(results: Results) -> Figure | None:
    """Nats per token by what is held beside a window, in KiB: in a cache of kept tokens, or as the
    keys and values of a longer window (black). Left: all tokens. Right: later mentions whose entity
    was mentioned last before the window.
    """
    step = "kept_cache"
    alone, own = list_original(results, step)
    if len(alone) < 2:
        return None
    short, *longer = alone
    panels = []
    for part in ("all", "far"):
        lines = []
        for number, name in enumerate(dict.fromkeys(kept.name for kept in own)):
            some = [kept for kept in own if kept.name == name]
            x = [(read_bytes(results, step, kept) or 0) / 1024 for kept in some]
            y = [read_mean(results, step, kept, part) for kept in some]
            look: Any = {"dash": "-" if number < len(PALETTE) else "--", "mark": "o"}
            lines.append(Line(name, PALETTE[number % len(PALETTE)], x, y, **look))
        base = read_window_bytes(results, short)
        if part == "all" and base is not None:
            more = [(read_window_bytes(results, window) or 0) - base for window in longer]
            y = [read_mean(results, step, alone[window]) for window in longer]
            line = Line("a longer window", INK, [one / 1024 for one in more], y, mark="s")
            lines.append(line)
        up = "Nats per token" if part == "all" else ""
        title = "All tokens" if part == "all" else "Far later mentions"
        panels.append(Panel(lines, "KiB held beside the window", up, title, log=True))
    return draw_lines(panels)


def draw_contrasts(results: Results) -> Figure | None:
    """P1 and P2: nats per token with 256 tokens of names less those with as many others, in a cache
    beside each window, as keys and values, and for a trained pointer. Hollow: reported without a
    decision; grey: equivalent.
    """
    panels: dict[str, dict[str, Bar]] = {}
    for step in filter(results.ran, ("kept_cache", "kept_keys", "kept_pointer")):
        rows: Any = build_contrasts(results, step).rows
        for name, text, window, kept, _, theirs, gap, *_, verdict in rows:
            if text == "original" and name in ("P1", "P2") and kept.value == 256:
                title = f"{PLACES[step]}, window {window.value:,.0f}"
                bar = Bar(f"{name}: less {theirs}", gap, PALETTE[0], verdict == "reported")
                panels.setdefault(title, {})[bar.label] = bar
    labels = dict.fromkeys(label for panel in panels.values() for label in panel)
    drawn = [Rows(title, [*map(panel.get, labels)]) for title, panel in panels.items()]
    return draw_intervals(drawn, "Nats per token", EQUIVALENT, across=3)


def _part(step: str, title: str) -> Part:
    tables: list[Any] = [partial(build_contrasts, step=step), make_losses(step)]
    say = partial(say_remembering, step=step)
    if step == "kept_cache":
        figures = {"prices": draw_prices, "gains": draw_gains, "contrasts": draw_contrasts}
        return Part(step, title, (*tables, build_prices, GAINS), figures, say)
    return Part(step, title, tuple(tables), say=say)


PARTS = (
    _part("text_memory", "Text as memory"),
    _part("kept_cache", "A cache of what is kept"),
    _part("kept_keys", "Keys and values of what is kept"),
    _part("kept_pointer", "A pointer into what is kept"),
)
