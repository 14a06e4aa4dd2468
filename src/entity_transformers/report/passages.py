"""LAMBADA's passages: how many there are, and what their target words are (section 4.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import fsum
from typing import Any

from entity_transformers.report import paper
from entity_transformers.report.cells import MISSING, Cell, Number
from entity_transformers.report.frame import Key, Row, read_condition, write_condition
from entity_transformers.report.measures import Tree
from entity_transformers.report.results import GENERATED, Results

UNITS = {
    "passages": "passages",
    "bad_passages": "passages",
    "target_share": "fraction",
    "tagger_accuracy": "fraction",
    "tagger_precision": "fraction",
    "tagger_recall": "fraction",
}
STEP, SPLIT = "passages", "lambada"
WORDS = {"words": "all", "last_words": "last"}  # of dev's sentences, which the tagger is tried on
GROUPS = {
    "nouns": "common nouns",
    "proper_nouns": "proper nouns",
    "pronouns": "pronouns",
    "other": "others",
}
_NOUNS = ("nouns", "proper_nouns")
_TARGETS = (
    ("common nouns", ("nouns",)),
    ("proper nouns", ("proper_nouns",)),
    ("common and proper nouns together", _NOUNS),
    ("pronouns", ("pronouns",)),
)


def measure(tree: Tree) -> Iterator[Row]:
    """Counts of the passages, shares of their target words' parts of speech, and the tagger's
    scores on dev.
    """
    counts = tree.read("passages/lambada_statistics.json")
    if counts is not None:
        yield Row(STEP, "passages", counts["passages"], SPLIT)
        yield Row(STEP, "bad_passages", len(counts["bad"]), SPLIT)
    tags = tree.read("passages/lambada_tags.json")
    for group, share in ((tags or {}).get("shares") or {}).items():
        assert tags is not None
        yield Row(STEP, "target_share", share, SPLIT, write_condition(group=group), tags["n"])
    for words, scores in ((tags or {}).get("dev") or {}).items():
        assert tags is not None
        about = {"case": "lower" if tags["lower_case"] else "kept", "words": WORDS[words]}
        yield from _measure_tagger(scores, about)


def _measure_tagger(scores: Mapping[str, Any], about: Mapping[str, str]) -> Iterator[Row]:
    yield Row(
        STEP, "tagger_accuracy", scores["accuracy"], "dev", write_condition(**about), scores["n"]
    )
    for group, score in scores["groups"].items():
        condition = write_condition(**about, group=group)
        for name in ("precision", "recall"):
            yield Row(STEP, f"tagger_{name}", score[name], "dev", condition, score["n"])


def list_rows(results: Results, splits: int) -> list[tuple[Cell, ...]]:
    """The passages' rows of the table of corpus statistics, their number in the last of ``splits``
    columns; none where the step did not run.
    """
    passages = results.frame.get(Key(STEP, "passages", SPLIT))
    if passages is None:
        return []
    blank, of = [""] * (splits - 1), "Generated" if results.passages == GENERATED else "LAMBADA"
    rows: list[tuple[Cell, ...]] = [
        (f"{of} passages", *blank, Number(passages.value, 0), MISSING, MISSING)
    ]
    shares = _shares(results)
    for label, groups in _TARGETS if shares else ():
        noun = Number(paper.LAMBADA_NOUN_SHARE, 0, percent=True) if groups == _NOUNS else MISSING
        ours = Number(fsum(shares[group] for group in groups), 1, percent=True)
        rows.append((f"{of} targets: {label}", *blank, ours, MISSING, noun))
    return rows


def _shares(results: Results) -> dict[str, float]:
    rows = results.frame.find(step=STEP, measure="target_share")
    return {read_condition(row.condition)["group"]: row.value or 0.0 for row in rows}


def describe_tagger(results: Results) -> str:
    """How the target words' parts of speech were found, and how far they can be trusted."""
    if not results.ran(STEP):
        return ""
    last = [
        row
        for row in results.frame.find(step=STEP, split="dev")
        if read_condition(row.condition)["words"] == "last"
    ]
    overall = next((row for row in last if row.measure == "tagger_accuracy"), None)
    if overall is None or not _shares(results):
        return (
            "The parts of speech of the passages' targets are left out: the training split has none"
            " to learn them from."
        )
    recalls = {
        read_condition(r.condition)["group"]: r for r in last if r.measure == "tagger_recall"
    }
    right = ", ".join(
        f"{label} {Number(recalls[group].value, 1, percent=True)} of {recalls[group].count:,}"
        for group, label in GROUPS.items()
        if recalls[group].count
    )
    checked = (
        f"it gets {Number(overall.value, 1, percent=True)} of {overall.count:,} right: {right}"
        if right
        else "none has a tag"
    )
    lower = read_condition(overall.condition)["case"] == "lower"
    return (
        "The parts of speech of the passages' targets are those of a tagger trained on the training"
        f" split{', without capitals as LAMBADA has none' if lower else ''}; they are not corrected"
        f" for its errors. Of the last words of dev's sentences {checked}."
    )
