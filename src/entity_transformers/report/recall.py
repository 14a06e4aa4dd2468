"""Synthetic recall: what each way of reading and learning the memory carries beyond the window,
between two bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from entity_transformers.kinds import KINDS
from entity_transformers.report.figures import BASELINE, INK, PROPOSED, Bar, Rows, draw_intervals
from entity_transformers.report.frame import Key, at
from entity_transformers.report.pivot import Part
from entity_transformers.report.results import Results, summarise
from entity_transformers.report.table import MISSING, Cell, Number, Table, show

STEP, LATER = "recall", "later"
ALL, CHANCE = at(STEP, "accuracy", distance=LATER), at(STEP, "chance")


def describe(entry: Mapping[str, Any]) -> str:
    """What the table calls an entry of recall.models: what its memory is read for, and whether the
    gradient reaches it.
    """
    kind = KINDS[entry["kind"]]
    if not has_memory(entry):
        if entry.get("reads") == "document":
            return f"{kind.label} that sees the whole document"
        return kind.label if "state" in kind.can else f"{kind.label} (no memory)"
    papers = entry.get("entity_values", "hidden") == "hidden"
    read = f"{kind.label}: keys{'' if papers else ' and values'} from E"
    if reaches_memory(entry):
        return f"{read}, gradient through the memory"
    return f"{read}, memory detached{' (the paper)' if papers else ''}"


def has_memory(entry: Mapping[str, Any]) -> bool:
    """Does this entry of recall.models keep entities?"""
    return "entities" in KINDS[entry["kind"]].can


def reaches_memory(entry: Mapping[str, Any]) -> bool:
    """Does the gradient flow through what it keeps?"""
    return bool(entry.get("memory_gradient_windows", 0))


def read_numbers(results: Results, model: str, key: Key) -> list[float]:
    """One per seed."""
    cells = results.frame.runs(key).items()
    return [cell.value for (name, _), cell in cells if name == model and cell.value is not None]


def list_trained(results: Results) -> dict[str, str]:
    """What was trained and what the table calls it, with the entry's name if two are alike."""
    there = {model for model, _ in results.frame.runs(ALL)}
    texts = {name: describe(entry) for name, entry in results.recall.items()}
    alike = [text for text in texts.values() if list(texts.values()).count(text) > 1]
    named = {name: f"{text} ({name})" if text in alike else text for name, text in texts.items()}
    return {name: text for name, text in named.items() if name in there}


def carried(results: Results, model: str) -> tuple[int, int]:
    """Runs whose accuracy in later windows is more than half way from chance to all right, and all
    runs.
    """
    later, chance = (read_numbers(results, model, key) for key in (ALL, CHANCE))
    halves = [one > (1 + guess) / 2 for one, guess in zip(later, chance, strict=True)]
    return sum(halves), len(halves)


def _list_columns(results: Results) -> Iterator[tuple[str, Key]]:
    """The accuracies that are shown, with their headings: by distance, and all later windows."""
    headings = {"0": "Same window", "1": "1 window later"}
    distances = results.frame.distinct("distance", STEP, measure="accuracy")
    for distance in sorted(set(distances) - {LATER}, key=int):
        heading = headings.get(distance, f"{distance} windows later")
        yield heading, at(STEP, "accuracy", distance=distance)
    yield "All later windows", ALL


def build_recall(results: Results) -> Table:
    """Accuracy on synthetic recall by distance, for every row that was trained, chance below."""
    labels, columns = list_trained(results), dict(_list_columns(results))
    runs = {name: carried(results, name) for name in labels}
    rows: list[tuple[Cell, ...]] = [
        (
            label,
            *(show(summarise(read_numbers(results, name, key))) for key in columns.values()),
            "{} of {} seeds".format(*runs[name]),
        )
        for name, label in labels.items()
    ]
    note = ""
    if labels:
        first = next(iter(labels))
        chance = Number(read_numbers(results, first, CHANCE)[0])
        rows.append(("chance", *(chance for _ in columns), MISSING))
        documents, entities, windows, window = (
            int(read_numbers(results, first, at(STEP, measure))[0])
            for measure in ("documents", "entities", "windows", "window")
        )
        questions = next(iter(results.frame.runs(ALL).values())).count
        note = (
            f"Every row read {documents:,} documents of {entities} entities and {windows} windows"
            f" of {window} tokens; {questions:,} questions in later windows. Carried: more than"
            " half way from chance to all right."
        )
    return Table(
        name="recall",
        title="Synthetic recall: what the memory carries beyond the window (not in the paper)",
        columns=("Reading and learning", *columns, "Carried"),
        rows=tuple(rows),
        measures=(
            "The share of right answers about facts that the first window of a generated document"
            " states, and that later windows see only through the memory."
        ),
        note=note,
        marked=frozenset(i for i, (some, every) in enumerate(runs.values()) if some == every),
    )


def draw_recall(results: Results) -> Figure | None:
    """Synthetic recall: the share of facts answered beyond the window that stated them, the mean
    over seeds from the lowest to the highest; dotted: chance.
    """
    labels, bars = list_trained(results), list[Bar]()
    if not any(carried(results, name)[0] for name in labels):
        return None  # a picture of chance
    for name, label in labels.items():
        memory = PROPOSED if reaches_memory(results.recall[name]) else BASELINE
        shares = read_numbers(results, name, ALL)
        number = Number(fmean(shares), low=min(shares), high=max(shares))
        bars.append(Bar(label, number, memory if has_memory(results.recall[name]) else INK))
    chance = read_numbers(results, next(iter(labels)), CHANCE)[0]
    return draw_intervals([Rows("", bars, chance)], "Facts recalled beyond the window")


PARTS = (Part(STEP, "What the memory can carry", (build_recall,), {"recall": draw_recall}),)
