"""Step probe (section 6): which attention heads point from a mention to its antecedent."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from entity_transformers.corpus.document import Split
from entity_transformers.step import DOCUMENTS, MODEL, TOKENS, Rows, Run, step
from entity_transformers.study.sections import PositiveInt, Section, Size


class ProbeParams(Section):
    """Which attention heads point to a mention's antecedent (section 6, Clark et al., 2019)."""

    choose: Split
    """split on which the best head is chosen"""
    report: Split
    """another split, on which it is scored"""
    documents: PositiveInt | None
    """first documents of each split; null: all"""
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
    from entity_transformers.tasks import probe as task

    section, window = run.section, run.entry.lm.window
    how = {"window": window, "batch": section.batch}
    splits, groups = (section.choose, section.report), list(section.groups)
    gold = [run.tokens(split).head(section.documents) for split in splits]
    one, other = (
        task.ask(run.documents(split)[: section.documents], text, section.groups, window=window)
        for split, text in zip(splits, gold, strict=True)
    )
    given = [give(text, run.entry.labels, run.seed) for text in gold]
    first = task.score_heads(run.trained, given[0], one, **how)
    profiles = {key: scores.profile for key, scores in first.items()}
    second = task.score_heads(run.trained, given[1], other, **how, profiles=profiles)
    chosen = task.choose_heads(first, one, groups)
    yield from task.question_rows(splits[0], one, groups)
    yield from task.question_rows(splits[1], other, groups)
    yield from task.choice_rows(chosen, (first, second), (one, other), splits, groups)
    yield from task.head_rows(splits[0], first, one, groups)
    yield from task.head_rows(splits[1], second, other, groups)
    yield from task.document_rows(chosen, second, other, gold[1].names, groups, splits[1])
