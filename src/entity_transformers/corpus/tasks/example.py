"""What every reader of a task returns and step transfer reads, and how the lines of a task's files
are read: of a folder, or of a zip archive as it is.

Three shapes, those of GPT-1's figure 1, and that of a pronoun:

classification  one text, a label
entailment      premise and hypothesis, a label
pronoun         a sentence, the place of a pronoun in it, and what may take its place
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter

from entity_transformers.artifacts import read_json_lines
from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.files import (
    HALVES,
    check_text,
    is_archive,
    is_html,
    open_lines,
    shown,
)
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.sources import Dataset

log = logging.getLogger(__name__)
Shape = Literal["classification", "entailment", "pronoun"]
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Example:
    """One example of a task.

    name     unique within its task
    split    train, dev or test
    texts    two of shape entailment, else one
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


_EXAMPLE = TypeAdapter(Example)


@dataclass(frozen=True)
class Task:
    """A task: its examples' shape, and where they are and how they are read.

    dataset  its files
    splits   those that its files fill
    read     examples of a path that is there, each checked; what is left out is written down
    labels   names of the labels, in the order of their indices; () where each example has options
    """

    dataset: Dataset
    shape: Shape
    splits: tuple[str, ...]
    read: Callable[[Path, Ledger], Iterator[Example]]
    labels: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """That of its files."""
        return self.dataset.name


def read_lines(root: Path, name: str) -> Iterator[tuple[str, str]]:
    """The lines of the file ``name`` below ``root``, which may be that file or a zip archive: where
    each is, as errors say it, and its text without the line break.

    A file that is missing or damaged, a web page, or a line that is no UTF-8 raises CorpusError.
    """
    places = (root / name, root / Path(name).name, root, *sorted(root.glob("*.zip")))
    paths = [path for path in places if path.is_file()]
    if not paths:
        raise CorpusError(f"{root}: no file {name} there: name the folder that has it")
    packed = is_archive(paths[0])
    source = f"{paths[0]}, {name}" if packed else str(paths[0])
    for number, line in enumerate(open_lines(paths[0], member=name if packed else ""), 1):
        if number == 1 and is_html(line):
            raise CorpusError(f"{source}: a web page ({shown(line)}): download the file itself")
        text = line.removesuffix("\n").removesuffix("\r")
        where = f"{source}, line {number}"
        check_text(text, where)
        yield where, text


def read_each(
    rows: Iterable[tuple[str, Row]], parse: Callable[[Row], Example], ledger: Ledger
) -> Iterator[Example]:
    """The example of each row, which comes after its place; one that ``parse`` can't read raises
    CorpusError or is written down.
    """
    for where, row in rows:
        try:
            example = parse(row)
            texts = "".join((example.name, *example.texts, *example.options))
            check_text(texts, "its texts", refused=HALVES)
        except (ValueError, LookupError, TypeError, RecursionError, StopIteration) as error:
            message = f"{where}: {shown(row)}: {type(error).__name__}: {shown(str(error))}"
            ledger.reject(where, CorpusError(f"{message}: correct the line or remove it"))
        else:
            yield example


def thin_out(examples: Sequence[Example], most: int | None) -> list[Example]:
    """At most so many of each split, evenly spaced, in their order; all of them for None."""
    kept: set[int] = set()
    for split in {example.split for example in examples}:
        own = [i for i, example in enumerate(examples) if example.split == split]
        count = len(own) if most is None else min(most, len(own))
        kept.update(own[i * len(own) // count] for i in range(count))
    return [example for i, example in enumerate(examples) if i in kept]


def group_examples(
    examples: Sequence[Example], keys: Sequence[str]
) -> Iterator[tuple[dict[str, str], list[int]]]:
    """The groups of examples that have the same values of these keys, in their order: the values,
    and the examples' numbers.
    """
    found: dict[tuple[str, ...], list[int]] = {}
    for number, example in enumerate(examples):
        found.setdefault(tuple(example.groups[key] for key in keys), []).append(number)
    for values, numbers in sorted(found.items()):
        yield dict(zip(keys, values, strict=True)), numbers


def _name_label(task: Task, label: int | None) -> str:
    if label is None:
        return "neither"
    return task.labels[label] if task.labels else f"option {label}"


def read_all(
    roots: Mapping[str, Path], policy: Any, statistics: dict[str, dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """The examples of each task as rows; what was counted of a task, bad ones included, is in
    ``statistics`` when its examples have been read.
    """
    from entity_transformers.corpus.tasks import find_task

    for name, root in roots.items():
        ledger, task = Ledger(policy=policy), find_task(name)
        examples = list(task.read(root, ledger))
        if not examples:
            raise CorpusError(f"{root}: no example of task {name} in it: is it another data set?")
        labels = Counter(_name_label(task, example.label) for example in examples)
        statistics[name] = {
            "splits": dict(sorted(Counter(example.split for example in examples).items())),
            "labels": dict(sorted(labels.items())),
            "bad": ledger.bad,
            "left_out": dict(sorted(ledger.counts.items())),
        }
        log.info("%s: %d examples, %d left out", name, len(examples), len(ledger.bad))
        yield from ({"task": name} | asdict(example) for example in examples)


def load_examples(path: Path, tasks: tuple[str, ...]) -> dict[str, list[Example]]:
    """The examples of the named tasks in examples.jsonl; ValueError for a task that has none."""
    found: dict[str, list[Example]] = {name: [] for name in tasks}
    for row in read_json_lines(path):
        if (name := row.pop("task")) in found:
            found[name].append(_EXAMPLE.validate_python(row))
    for name, examples in found.items():
        if not examples:
            raise ValueError(f"{path}: no example of task {name}: add it to examples.tasks")
    return found
