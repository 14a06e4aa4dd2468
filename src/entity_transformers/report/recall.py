"""The table of synthetic recall: what each way of reading and learning the memory carries beyond
the window, between two bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from entity_transformers.report.cells import MISSING, Cell, Number, Table, show
from entity_transformers.report.results import Results, summarise

ROWS = {
    "gpt2": "GPT2 (no memory)",
    "gpt2-document": "GPT2 that sees the whole document",
    "keys-detached": "GPT2E: keys from E, memory detached (the paper)",
    "keys-values-detached": "GPT2E: keys and values from E, memory detached",
    "keys-gradient": "GPT2E: keys from E, gradient through the memory",
    "keys-values-gradient": "GPT2E: keys and values from E, gradient through the memory",
}
SWITCHED = tuple(ROWS)[2:]
DISTANCES = ("Same window", "1 window later")


def build_recall(results: Results) -> Table:
    """Accuracy on synthetic recall by distance, for every row that was trained, with chance below."""
    runs = {name: [run for run in results.recall if run["variant"] == name] for name in ROWS}
    trained = {name: found for name, found in runs.items() if found}
    columns = _columns(results.recall)
    return Table(
        name="recall",
        title="Synthetic recall: what the memory carries beyond the window (not in the paper)",
        columns=("Reading and learning", *columns, "Carried"),
        rows=_rows(trained, columns) or (("not run", *(MISSING for _ in columns), MISSING),),
        measures=(
            "A generated document states facts about its entities in its first window and asks for"
            " them there and in later windows, which see the first one only through the memory: the"
            " share of right answers."
        ),
        note=_write_note(trained),
        marked=frozenset(
            i for i, name in enumerate(trained) if carried(trained[name]) == len(trained[name])
        ),
    )


def _columns(runs: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    if not runs:
        return (*DISTANCES, "All later windows")
    task = runs[0]["task"]
    further = tuple(f"{distance} windows later" for distance in range(2, task["windows"]))
    kinds = tuple(f"{kind}, later" for kind in task["kinds"]) if len(task["kinds"]) > 1 else ()
    return (*DISTANCES, *further, "All later windows", *kinds)


def _rows(
    trained: Mapping[str, Sequence[Mapping[str, Any]]], columns: Sequence[str]
) -> tuple[tuple[Cell, ...], ...]:
    if not trained:
        return ()
    rows: list[tuple[Cell, ...]] = []
    for name, runs in trained.items():
        shares = zip(*(_shares(run) for run in runs), strict=True)
        rows.append(
            (
                ROWS[name],
                *(show(summarise(values)) for values in shares),
                f"{carried(runs)} of {len(runs)} seeds",
            )
        )
    chance = next(iter(trained.values()))[0]["chance"]
    return (*rows, ("chance", *(Number(chance) for _ in columns), MISSING))


def _shares(run: Mapping[str, Any]) -> list[float | None]:
    """The accuracies of one run in the order of the columns."""
    kinds = run["by_kind"].values() if len(run["by_kind"]) > 1 else ()
    return [part["accuracy"] for part in (*run["by_distance"].values(), run["later"], *kinds)]


def carried(runs: Sequence[Mapping[str, Any]]) -> int:
    """Runs whose accuracy in later windows is more than half way from chance to all right."""
    return sum(run["later"]["accuracy"] > (1 + run["chance"]) / 2 for run in runs)


def _write_note(trained: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    if not trained:
        return "recall.variants is empty."
    first = next(iter(trained.values()))[0]
    setting = (
        "Chance and GPT2 are the lower bound, GPT2 that sees the whole document shows what reading"
        f" it gives. Every row read {first['documents']:,} documents of {first['task']['entities']}"
        f" entities and {first['task']['windows']} windows of {first['task']['window']} tokens;"
        f" {first['later']['questions']:,} questions in later windows, means and standard"
        " deviations over seeds. Carried: more than half way from chance to all right."
    )
    switched = {name: runs for name, runs in trained.items() if name in SWITCHED}
    return " ".join([setting, *(_write_finding(switched) if switched else ())])


def _write_finding(switched: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """What the memory carries and does not, in words."""
    groups: dict[str, list[str]] = {
        "The memory carries the fact with": [],
        "With some seeds only, with": [],
        "It does not, with": [],
    }
    always, sometimes, never = groups.values()
    for name, runs in switched.items():
        count = carried(runs)
        (always if count == len(runs) else sometimes if count else never).append(
            ROWS[name].removeprefix("GPT2E: ")
        )
    sentences = [f"{verdict}: {'; '.join(names)}." for verdict, names in groups.items() if names]
    waiting = any("gradient" in name and not carried(runs) for name, runs in switched.items())
    late = (
        "The gradient turns on late and suddenly (PAPER.md): a row that read too few documents"
        " stays at chance."
    )
    return sentences + ([late] if waiting else [])
