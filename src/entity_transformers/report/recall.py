"""The table of synthetic recall: what each way of reading and learning the memory carries beyond
the window, between two bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from entity_transformers.kinds import KINDS
from entity_transformers.report.cells import MISSING, Cell, Number, Table, show
from entity_transformers.report.frame import Key, Row, read_condition, write_condition
from entity_transformers.report.measures import Tree, write_machine
from entity_transformers.report.results import Results, summarise

UNITS = {
    "accuracy": "fraction",
    "chance": "fraction",
    "loss": "nats per token",
    "documents": "documents",
    "steps": "steps",
    "seconds_per_step": "seconds",
    "seconds_total": "seconds",
    "windows_per_step": "windows",
    "entities": "entities per document",
    "windows": "windows per document",
    "window": "tokens",
    "names": "names",
    "values": "values",
    "vocabulary": "tokens",
}
STEP, LATER = "recall", "later"
DISTANCES = ("Same window", "1 window later")


def measure(tree: Tree) -> Iterator[Row]:
    """accuracy.json, which holds every run, and each run's timing.json. Models are entries of
    recall.models; ``distance`` counts windows from the fact, ``later`` all after its own.
    """
    for found in (tree.read(f"{STEP}/accuracy.json") or {}).get("runs", ()):
        run: dict[str, Any] = {"model": found["model"], "seed": found["seed"]}
        for name in ("chance", "documents", "steps"):
            yield Row(STEP, name, found[name], **run)
        yield Row(STEP, "loss", found["train_loss"], "train", **run)
        for name, value in found["task"].items():
            if name != "kinds":
                yield Row(STEP, name, value, **run)
        scores = {(distance, ""): one for distance, one in found["by_distance"].items()}
        scores[LATER, ""] = found["later"]
        scores |= {(LATER, fact): one for fact, one in found["by_kind"].items()}
        for (distance, fact), one in scores.items():
            about = {"distance": distance} | ({"fact": fact} if fact else {})
            condition, n = write_condition(**about), one["questions"]
            yield Row(STEP, "accuracy", one["accuracy"], "", condition, n, **run)
        timing = tree.read(f"{STEP}/{found['model']}/{found['seed']}/timing.json") or {}
        for name, value in timing.items():
            if name not in ("device", "processes", "threads"):
                yield Row(STEP, name, value, "", write_machine(timing), **run)


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


def build_recall(results: Results) -> Table:
    """Accuracy on synthetic recall by distance, for every row that was trained, chance below."""
    labels = describe_models(results.recall)
    found = results.frame.distinct("model", step=STEP)
    trained = [name for name in labels if name in found]
    columns = _columns(results)
    return Table(
        name="recall",
        title="Synthetic recall: what the memory carries beyond the window (not in the paper)",
        columns=("Reading and learning", *columns.values(), "Carried"),
        rows=_rows(results, {name: labels[name] for name in trained}, list(columns)),
        measures=(
            "A generated document states facts about its entities in its first window and asks for"
            " them there and in later windows, which see the first one only through the memory: the"
            " share of right answers."
        ),
        note=_write_note(results, trained, labels) if trained else "",
        marked=frozenset(
            i for i, name in enumerate(trained) if carried(results, name) == _seeds(results, name)
        ),
    )


def _columns(results: Results) -> dict[Key, str]:
    """The accuracies that are shown, with their headings: by distance, all later windows, and by
    fact where several are asked for.
    """
    parts = [
        read_condition(condition)
        for condition in results.frame.distinct("condition", step=STEP, measure="accuracy")
    ]
    windows = sorted(int(part["distance"]) for part in parts if part["distance"] != LATER)
    headings = (*DISTANCES, *(f"{window} windows later" for window in windows[2:]))
    shown = {_at(distance=window): headings[window] for window in windows}
    shown |= {_at(distance=LATER): "All later windows"} if parts else {}
    facts = [part["fact"] for part in parts if "fact" in part]
    if len(facts) > 1:
        shown |= {_at(distance=LATER, fact=fact): f"{fact}, later" for fact in facts}
    return shown


def _at(**about: str | int) -> Key:
    return Key(STEP, "accuracy", condition=write_condition(**about))


def _numbers(results: Results, model: str, key: Key) -> list[float]:
    """One per seed."""
    rows = results.frame.runs(key).items()
    return [row.value for (name, _), row in rows if name == model and row.value is not None]


def _seeds(results: Results, model: str) -> int:
    return len(_numbers(results, model, _at(distance=LATER)))


def _rows(
    results: Results, trained: Mapping[str, str], columns: Sequence[Key]
) -> tuple[tuple[Cell, ...], ...]:
    rows: list[tuple[Cell, ...]] = [
        (
            label,
            *(show(summarise(_numbers(results, name, key))) for key in columns),
            f"{carried(results, name)} of {_seeds(results, name)} seeds",
        )
        for name, label in trained.items()
    ]
    if not rows:
        return ()
    chance = _numbers(results, next(iter(trained)), Key(STEP, "chance"))[0]
    return (*rows, ("chance", *(Number(chance) for _ in columns), MISSING))


def carried(results: Results, model: str) -> int:
    """Runs whose accuracy in later windows is more than half way from chance to all right."""
    later = _numbers(results, model, _at(distance=LATER))
    chance = _numbers(results, model, Key(STEP, "chance"))
    return sum(one > (1 + guess) / 2 for one, guess in zip(later, chance, strict=True))


def _write_note(results: Results, trained: Sequence[str], labels: Mapping[str, str]) -> str:
    def first(measured: str) -> int:
        return int(_numbers(results, trained[0], Key(STEP, measured))[0])

    questions = next(iter(results.frame.runs(_at(distance=LATER)).values())).count
    setting = (
        "Chance and GPT2 are the lower bound, GPT2 that sees the whole document shows what reading"
        f" it gives. Every row read {first('documents'):,} documents of {first('entities')}"
        f" entities and {first('windows')} windows of {first('window')} tokens;"
        f" {questions:,} questions in later windows, means and standard"
        " deviations over seeds. Carried: more than half way from chance to all right."
    )
    switched = [name for name in trained if has_memory(results.recall[name])]
    return " ".join([setting, *(_write_finding(results, switched, labels) if switched else ())])


def _write_finding(
    results: Results, switched: Sequence[str], labels: Mapping[str, str]
) -> list[str]:
    """What the memory carries and does not, in words."""
    groups: dict[str, list[str]] = {
        "Carried with": [],
        "In some seeds only with": [],
        "Not carried with": [],
    }
    always, sometimes, never = groups.values()
    for name in switched:
        count = carried(results, name)
        (always if count == _seeds(results, name) else sometimes if count else never).append(
            labels[name].partition(": ")[2]
        )
    sentences = [f"{verdict}: {'; '.join(names)}." for verdict, names in groups.items() if names]
    waiting = any(
        reaches_memory(results.recall[name]) and not carried(results, name) for name in switched
    )
    late = (
        "The gradient turns on late and suddenly: a row that read too few documents stays at"
        " chance."
    )
    return sentences + ([late] if waiting else [])
