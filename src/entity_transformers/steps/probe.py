"""Step probe (section 6): which attention heads point from a mention to its antecedent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from entity_transformers.corpus.document import Split
from entity_transformers.step import DOCUMENTS, MODEL, TOKENS, Rows, Run, step
from entity_transformers.study.sections import PositiveInt, Section, Size

BASELINES = ("nearest", "same_head", "chance")
OF_SPLIT = {"later": "mentions_later", "asked": "mentions_asked", "left_out": "mentions_left_out"}
OF_HEAD = {"by_distance": "accuracy_by_distance"}


class ProbeParams(Section):
    """Which attention heads point to a mention's antecedent (section 6, Clark et al., 2019)."""

    choose: Split
    """split on which the best head is chosen"""
    report: Split
    """another split, on which it is scored"""
    documents: PositiveInt | None
    """first documents of each split; null: all"""
    tokens: Literal["head", "mention"]
    """tokens that stand for a mention: its head word's or all"""
    pooling: Literal["sum", "max"]
    """attention to a mention: sum or maximum over those tokens"""
    groups: Annotated[dict[str, tuple[str, ...]], Field(min_length=1)]
    """name of a group: Penn Treebank tags of its head words"""
    batch: Size
    """documents of one forward pass"""

    @model_validator(mode="after")
    def _fair(self) -> ProbeParams:
        if self.choose == self.report:
            raise ValueError(
                f"choose and report are both {self.report}: the best head must be scored on text"
                " that it was not chosen on"
            )
        if taken := {"all", "other"} & set(self.groups):
            raise ValueError(
                f"groups names {', '.join(sorted(taken))}, which the results use for all mentions"
                " and for those of no group"
            )
        return self


@step(
    "probe",
    "[6] which heads point from a mention to an earlier one of its chain",
    params=ProbeParams,
    reads={"corpus": (*DOCUMENTS, *TOKENS), "lm": MODEL},
    needs={"attend"},
    title="Which heads find the antecedent",
    units={
        "accuracy": "fraction",
        "accuracy_by_distance": "fraction",
        "accuracy_nearest": "fraction",
        "accuracy_same_head": "fraction",
        "accuracy_chance": "fraction",
        "best_accuracy": "fraction",
        "chosen_accuracy": "fraction",
        "layer": "layer, from 1",
        "head": "head, from 1",
        "documents": "documents",
        "mentions": "mentions",
        "mentions_later": "mentions",
        "mentions_asked": "mentions",
        "mentions_left_out": "fraction",
        "candidates": "mentions per question",
        "head_correct": "right answers",
        "head_by_distance": "right answers",
        "correct": "right answers",
        "by_distance": "right answers",
        "nearest": "right answers",
        "same_head": "right answers",
        "chance": "right answers",
    },
)
def probe(run: Run) -> Rows:
    """The questions of each split with the baselines, the head chosen on one split and scored on
    the other, right answers of every head, and of the chosen heads in each document.
    """
    from entity_transformers.corpus.labels import give
    from entity_transformers.tasks.probe.heads import score_heads
    from entity_transformers.tasks.probe.questions import ask
    from entity_transformers.tasks.probe.scoring import (
        choose_heads,
        document_rows,
        head_rows,
        summarise_heads,
        summarise_questions,
    )

    section, window = run.section, run.entry.lm.window
    how: dict[str, Any] = {"window": window, "batch": section.batch, "pooling": section.pooling}
    splits = (section.choose, section.report)
    gold = [run.tokens(split).head(section.documents) for split in splits]
    asked = tuple(
        ask(
            run.documents(split)[: section.documents],
            text,
            section.groups,
            window=window,
            tokens=section.tokens,
        )
        for split, text in zip(splits, gold, strict=True)
    )
    given = [give(text, run.entry.labels, run.seed) for text in gold]
    first = score_heads(run.trained, given[0], asked[0], **how)
    profiles = {key: scores.profile for key, scores in first.items()}
    second = score_heads(run.trained, given[1], asked[1], **how, profiles=profiles)
    groups = list(section.groups)
    chosen = choose_heads(first, asked[0], groups)
    described = {
        split: summarise_questions(questions, groups)
        for split, questions in zip(splits, asked, strict=True)
    }
    for split, found in described.items():
        yield from _describe_split(split, found)
    for entry in summarise_heads(chosen, (first, second), (asked[0], asked[1]), groups):
        kind = {"attention": entry["attention"], "entities": entry["entities"]}
        for group, best in entry["groups"].items():
            for name, value in best.items():
                if name == "n":
                    continue
                split = splits[0] if name == "chosen_accuracy" else splits[1]
                counted = "accuracy" in name or name in OF_HEAD
                n = described[split]["groups"][group]["n"] if counted else None
                about = {"split": split, "group": group, "count": n, **kind}
                yield {"measure": OF_HEAD.get(name, name), "value": value, **about}
    for split, scores, questions in zip(splits, (first, second), asked, strict=True):
        yield from head_rows(split, scores, questions, groups)
    yield from document_rows(chosen, second, asked[1], gold[1].names, groups, splits[1])


def _describe_split(split: str, found: Mapping[str, Any]) -> Rows:
    for name, value in found.items():
        if name != "groups":
            yield {"measure": OF_SPLIT.get(name, name), "value": value, "split": split}
    for group, cell in found["groups"].items():
        for name in BASELINES:
            if name in cell:
                about = {"split": split, "group": group, "count": cell["n"]}
                yield {"measure": f"accuracy_{name}", "value": cell[name], **about}
