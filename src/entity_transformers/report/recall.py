"""Synthetic recall: what each way of reading and learning the memory carries beyond the window,
between two bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from entity_transformers.kinds import KINDS
from entity_transformers.report.colours import BASELINE, INK, PROPOSED
from entity_transformers.report.figures import draw_rows
from entity_transformers.report.frame import Key, at
from entity_transformers.report.results import Results, summarise
from entity_transformers.report.table import MISSING, Cell, Number, Table, show

TITLE, STEP, LATER = "What the memory can carry", "recall", "later"
DISTANCES = ("Same window", "1 window later")
ALL = at(STEP, "accuracy", distance=LATER)


def describe_models(models: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """What the table calls each entry of recall.models: what its memory is read for, and whether
    the gradient reaches it. Entries that this cannot tell apart have their names added.
    """
    texts = {name: _describe(entry) for name, entry in models.items()}
    counts = Counter(texts.values())
    return {n: text if counts[text] == 1 else f"{text} ({n})" for n, text in texts.items()}


def _describe(entry: Mapping[str, Any]) -> str:
    kind = KINDS[entry["kind"]]
    if not has_memory(entry):
        whole = entry.get("reads") == "document"
        plain = "" if "state" in kind.can else " (no memory)"
        return f"{kind.label} that sees the whole document" if whole else f"{kind.label}{plain}"
    values = entry.get("entity_values", "hidden")
    read = "keys from E" if values == "hidden" else "keys and values from E"
    if reaches_memory(entry):
        return f"{kind.label}: {read}, gradient through the memory"
    return f"{kind.label}: {read}, memory detached{' (the paper)' if values == 'hidden' else ''}"


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
    """What was trained, by what the table calls it."""
    there = {model for model, _ in results.frame.runs(ALL)}
    return {n: text for n, text in describe_models(results.recall).items() if n in there}


def carried(results: Results, model: str) -> int:
    """Runs whose accuracy in later windows is more than half way from chance to all right."""
    later, chance = (read_numbers(results, model, key) for key in (ALL, at(STEP, "chance")))
    return sum(one > (1 + guess) / 2 for one, guess in zip(later, chance, strict=True))


def build_recall(results: Results) -> Table:
    """Accuracy on synthetic recall by distance, for every row that was trained, chance below."""
    labels, columns = list_trained(results), _columns(results)
    seeds = {name: len(read_numbers(results, name, ALL)) for name in labels}
    rows: list[tuple[Cell, ...]] = [
        (
            label,
            *(show(summarise(read_numbers(results, name, key))) for key in columns),
            f"{carried(results, name)} of {seeds[name]} seeds",
        )
        for name, label in labels.items()
    ]
    if rows:
        chance = read_numbers(results, next(iter(labels)), at(STEP, "chance"))[0]
        rows.append(("chance", *(Number(chance) for _ in columns), MISSING))
    return Table(
        name="recall",
        title="Synthetic recall: what the memory carries beyond the window (not in the paper)",
        columns=("Reading and learning", *columns.values(), "Carried"),
        rows=tuple(rows),
        measures=(
            "A generated document states facts about its entities in its first window and asks for"
            " them there and in later windows, which see the first one only through the memory: the"
            " share of right answers."
        ),
        note=" ".join(_explain(results, labels)) if labels else "",
        marked=frozenset(
            i for i, name in enumerate(labels) if carried(results, name) == seeds[name]
        ),
    )


def _columns(results: Results) -> dict[Key, str]:
    """The accuracies that are shown, with their headings: by distance, all later windows, and by
    fact where several are asked for.
    """
    distances = results.frame.distinct("distance", STEP, measure="accuracy")
    windows = sorted(int(one) for one in distances if one != LATER)
    headings = (*DISTANCES, *(f"{window} windows later" for window in windows[2:]))
    shown = {at(STEP, "accuracy", distance=window): headings[window] for window in windows}
    facts = results.frame.distinct("fact", STEP, measure="accuracy")
    shown |= {ALL: "All later windows"} if distances else {}
    if len(facts) > 1:
        keys = {fact: at(STEP, "accuracy", distance=LATER, fact=fact) for fact in facts}
        shown |= {key: f"{fact}, later" for fact, key in keys.items()}
    return shown


def _explain(results: Results, labels: Mapping[str, str]) -> Iterator[str]:
    """The setting, and what the memory carries and does not, as sentences."""

    def first(measured: str) -> int:
        return int(read_numbers(results, next(iter(labels)), at(STEP, measured))[0])

    questions = next(iter(results.frame.runs(ALL).values())).count
    yield (
        "Chance and GPT2 are the lower bound, GPT2 that sees the whole document shows what reading"
        f" it gives. Every row read {first('documents'):,} documents of {first('entities')}"
        f" entities and {first('windows')} windows of {first('window')} tokens;"
        f" {questions:,} questions in later windows, means and standard deviations over seeds."
        " Carried: more than half way from chance to all right."
    )
    switched = [name for name in labels if has_memory(results.recall[name])]
    counts = {name: carried(results, name) for name in switched}
    runs = {name: len(read_numbers(results, name, ALL)) for name in switched}
    groups: dict[str, Sequence[str]] = {
        "Carried with": [name for name in switched if counts[name] == runs[name]],
        "In some seeds only with": [n for n in switched if 0 < counts[n] < runs[n]],
        "Not carried with": [name for name in switched if not counts[name]],
    }
    for verdict, names in groups.items():
        if names:
            yield f"{verdict}: {'; '.join(labels[name].partition(': ')[2] for name in names)}."
    if any(reaches_memory(results.recall[name]) and not counts[name] for name in switched):
        yield (
            "The gradient turns on late and suddenly: a row that read too few documents stays at"
            " chance."
        )


TABLES = (build_recall,)


def draw_recall(results: Results) -> Figure | None:
    """The share of facts recalled beyond the window, a row per way of reading and learning and a
    point per seed; the dashed line is chance. None where no row carries them.
    """
    labels = list_trained(results)
    if not any(carried(results, name) for name in labels):
        return None  # a picture of chance
    rows = []
    for name, label in labels.items():
        entry = results.recall[name]
        learns = has_memory(entry) and reaches_memory(entry)
        colour = PROPOSED if learns else BASELINE if has_memory(entry) else INK
        rows.append((label, colour, read_numbers(results, name, ALL)))
    chance = read_numbers(results, next(iter(labels)), at(STEP, "chance"))[0]
    return draw_rows(rows, "Facts recalled beyond the window", chance)


FIGURES = {
    "recall": (
        draw_recall,
        "Synthetic recall: the share of facts answered beyond the window that stated them, one"
        " point per seed; dashed: chance.",
    )
}
