"""What every reader of a task returns and step transfer reads: one example.

Three shapes, those of GPT-1's figure 1, and that of a pronoun:

classification  one text, a label
entailment      premise and hypothesis, a label
pronoun         a sentence, the place of a pronoun in it, and what may take its place
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from entity_transformers.artifacts import read_json_lines
from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.files import shown
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.sources import Dataset

log = logging.getLogger(__name__)
Shape = Literal["classification", "entailment", "pronoun"]
TEXTS: Mapping[Shape, int] = {"classification": 1, "entailment": 2, "pronoun": 1}
"""Texts of an example of each shape."""


@dataclass(frozen=True, slots=True)
class Example:
    """One example of a task.

    name     unique within its task
    split    train, dev or test
    texts    as many as its shape has (`TEXTS`)
    label    index of the right label or option; None: none of the options is right (GAP)
    options  what may take the pronoun's place; () where labels are those of the task
    blank    characters [start, end) of the text that an option takes the place of; None: no pronoun
    groups   what scores are also told apart by, such as the pronoun's gender
    """

    name: str
    split: str
    texts: tuple[str, ...]
    label: int | None
    options: tuple[str, ...] = ()
    blank: tuple[int, int] | None = None
    groups: Mapping[str, str] = field(default_factory=dict)

    def fill(self, option: int) -> tuple[str, str]:
        """The sentence up to the end of an option in the pronoun's place, and its rest."""
        assert self.blank is not None
        start, end = self.blank
        return self.texts[0][:start] + self.options[option], self.texts[0][end:]


@dataclass(frozen=True)
class Task:
    """A task: its examples' shape, and where they are and how they are read.

    labels   names of the labels, in the order of their indices; () where each example has options
    splits   those that its files fill
    licence, size   for documents: under which terms, and how many examples by split
    dataset  its files; those of one that is not pinned are the user's own
    read     examples of a path that is there, each checked; what is left out is written down
    """

    name: str
    shape: Shape
    splits: tuple[str, ...]
    licence: str
    size: Mapping[str, int]
    dataset: Dataset
    read: Callable[[Path, Ledger], Iterator[Example]]
    labels: tuple[str, ...] = ()


def to_row(example: Example) -> dict[str, Any]:
    """The JSON object of an example; `from_row` gives it back."""
    return asdict(example)


def from_row(row: Mapping[str, Any]) -> Example:
    """The example of an object that `to_row` made; one that is cut raises KeyError or TypeError."""
    blank = row["blank"]
    return Example(
        row["name"],
        row["split"],
        tuple(row["texts"]),
        row["label"],
        tuple(row["options"]),
        None if blank is None else (blank[0], blank[1]),
        dict(row["groups"]),
    )


def read_label(value: str, labels: Mapping[str, int], where: str, column: str = "label") -> int:
    """The index of a label; one outside the set raises CorpusError."""
    if value not in labels:
        raise CorpusError(
            f"{where}, {column}: {shown(value)}, expected one of {', '.join(map(repr, labels))}:"
            " correct the line or remove it"
        )
    return labels[value]


def read_text(value: str, where: str, column: str) -> str:
    """A text with single spaces, none at its ends; an empty one raises CorpusError."""
    if text := " ".join(value.split()):
        return text
    raise CorpusError(f"{where}, {column}: an empty text: correct the line or remove it")


def check_options(options: tuple[str, ...], text: str, where: str) -> None:
    """CorpusError for an option that does not stand in the text, or for two that are equal."""
    for option in options:
        if option.lower() not in text.lower():
            raise CorpusError(
                f"{where}: {shown(option)} does not stand in the sentence {shown(text)}, expected a"
                " candidate that does: correct the line or remove it"
            )
    if len({option.lower() for option in options}) < len(options):
        raise CorpusError(f"{where}: the candidate {shown(options[0])} twice, expected others")


def thin_out(examples: Sequence[Example], most: int | None) -> list[Example]:
    """At most so many of each split, evenly spaced, in their order; all of them for None."""
    kept: set[int] = set()
    for split in {example.split for example in examples}:
        own = [i for i, example in enumerate(examples) if example.split == split]
        count = len(own) if most is None else min(most, len(own))
        kept.update(own[i * len(own) // count] for i in range(count))
    return [example for i, example in enumerate(examples) if i in kept]


def count_examples(task: Task, examples: Sequence[Example]) -> dict[str, Any]:
    """Examples by split, and of each label: its name, the option's index, or neither."""
    splits = Counter(example.split for example in examples)
    names = dict(enumerate(task.labels))
    labels = Counter(
        "neither" if example.label is None else names.get(example.label, f"option {example.label}")
        for example in examples
    )
    counts = {"splits": splits, "labels": labels}
    return {"shape": task.shape} | {name: dict(sorted(one.items())) for name, one in counts.items()}


def read_all(
    roots: Mapping[str, Path], policy: Any, most: int | None, statistics: dict[str, dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """The examples of each task as rows, evenly thinned out to ``most`` of a split; what was
    counted of a task, bad ones included, is in ``statistics`` when its examples have been read.
    """
    from entity_transformers.corpus.tasks import find_task

    for name, root in roots.items():
        ledger, task = Ledger(policy=policy), find_task(name)
        examples = list(task.read(root, ledger))
        if not examples:
            raise CorpusError(f"{root}: no example of task {name} in it: is it another data set?")
        examples = thin_out(examples, most)
        statistics[name] = count_examples(task, examples) | {"bad": ledger.bad}
        statistics[name]["left_out"] = dict(sorted(ledger.counts.items()))
        log.info("%s: %d examples, %d left out", name, len(examples), len(ledger.bad))
        for example in examples:
            yield {"task": name} | to_row(example)


def load_examples(path: Path, tasks: tuple[str, ...]) -> dict[str, list[Example]]:
    """The examples of the named tasks in examples.jsonl; ValueError for a task that has none."""
    found: dict[str, list[Example]] = {name: [] for name in tasks}
    for row in read_json_lines(path):
        if row["task"] in found:
            found[row["task"]].append(from_row(row))
    for name, examples in found.items():
        if not examples:
            raise ValueError(f"{path}: no example of task {name}: add it to examples.tasks")
    return found
