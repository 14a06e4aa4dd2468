"""Tasks with labelled examples (steps examples, transfer and choices): what an example is, and how
the lines of a task's files are read, from a folder or directly from a zip archive.

Every `Task` that a module of this folder defines is discovered automatically. There are three
shapes of examples: two of those in figure 1 of GPT-1, and one for pronouns:

classification  one text, a label
entailment      premise and hypothesis, a label
pronoun         a sentence, the place of a pronoun in it, and the candidates for that place
"""

import importlib
import logging
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
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
    texts    two for entailment, otherwise one
    label    index of the right label or option; None: none of the options is right (GAP)
    options  candidates for the pronoun's place; () if the labels are the task's
    blank    characters [start, end) of the text that an option replaces; None: no pronoun
    groups   properties by which scores are also broken down, such as the pronoun's gender
    """

    name: str
    split: str
    texts: tuple[str, ...]
    label: int | None
    options: tuple[str, ...] = ()
    blank: tuple[int, int] | None = None
    groups: Mapping[str, str] = field(default_factory=dict)

    def fill(self, option: int) -> tuple[str, str]:
        """Return the sentence up to the end of an option in the pronoun's place, and the rest."""
        assert self.blank is not None
        start, end = self.blank
        return self.texts[0][:start] + self.options[option], self.texts[0][end:]


_EXAMPLE = TypeAdapter(Example)


@dataclass(frozen=True)
class Task:
    """A task: the shape of its examples, where its files are, and how they are read.

    dataset  its files
    read     yields the examples below a path, each checked; the ledger records those left out
    splits   the splits that its files provide
    labels   names of the labels, in the order of their indices; () if each example has options
    """

    dataset: Dataset
    shape: Shape
    read: Callable[[Path, Ledger], Iterator[Example]]
    splits: tuple[str, ...] = ("train", "dev", "test")
    labels: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the task, which is that of its data set."""
        return self.dataset.name


@cache
def registry() -> Mapping[str, Task]:
    """Return every task by its name, sorted."""
    names = [f"{__name__}.{one.name}" for one in pkgutil.iter_modules(__path__)]
    values = [value for name in names for value in vars(importlib.import_module(name)).values()]
    tasks = {one.name: one for one in values if isinstance(one, Task)}
    return MappingProxyType(dict(sorted(tasks.items())))


def find_task(name: str) -> Task:
    """Return the task of this name. CorpusError for an unknown name."""
    if name not in registry():
        raise CorpusError(f"unknown task {name!r}, expected one of {', '.join(registry())}")
    return registry()[name]


def read_lines(root: Path, name: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of the file ``name`` below ``root``, which may also be that file or a zip
    archive: each line's place, for error messages, and its text without the line break.

    CorpusError for a missing or damaged file, a web page, or a line that is not UTF-8.
    """
    places = (root / name, root / Path(name).name, root, *sorted(root.glob("*.zip")))
    paths = [path for path in places if path.is_file()]
    if not paths:
        raise CorpusError(f"{root}: no file {name} in it: name the folder that has it")
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
    """Yield the example of each (place, row); a row that ``parse`` can't read raises CorpusError or
    is recorded in the ledger.
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
    """Keep at most ``most`` examples of each split, evenly spaced and in order; None: all."""
    kept: set[int] = set()
    for split in {example.split for example in examples}:
        own = [i for i, example in enumerate(examples) if example.split == split]
        count = len(own) if most is None else min(most, len(own))
        kept.update(own[i * len(own) // count] for i in range(count))
    return [example for i, example in enumerate(examples) if i in kept]


def group_examples(
    examples: Sequence[Example], keys: Sequence[str]
) -> Iterator[tuple[dict[str, str], list[int]]]:
    """Group examples that share the values of these keys; yield the values, in sorted order, and
    the indices of the examples.
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
    """Yield the examples of each task as rows; when a task has been read, ``statistics`` holds its
    counts and its bad examples.
    """
    for name, root in roots.items():
        ledger, task = Ledger(policy=policy), find_task(name)
        examples = list(task.read(root, ledger))
        if not examples:
            raise CorpusError(f"{root}: no example of task {name}: is this a different data set?")
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
    """Load the named tasks' examples from examples.jsonl; ValueError for a task without any."""
    found: dict[str, list[Example]] = {name: [] for name in tasks}
    for row in read_json_lines(path):
        if (name := row.pop("task")) in found:
            found[name].append(_EXAMPLE.validate_python(row))
    for name, examples in found.items():
        if not examples:
            raise ValueError(f"{path}: no example of task {name}: add it to examples.tasks")
    return found
