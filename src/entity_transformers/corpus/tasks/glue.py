"""Tasks of GLUE (Wang et al., 2019) that GPT-1 was fine-tuned on, by download alone: CoLA, SST-2,
MRPC, STS-B and RTE.

The labels of GLUE's test files are kept by its server, so that test here is the published dev; dev
is every tenth example of the published train. MRPC's test is the one that its authors published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.lines import shown
from entity_transformers.corpus.sources import Dataset, RemoteFile, Source
from entity_transformers.corpus.tasks.example import Example, Shape, Task, read_label, read_text
from entity_transformers.corpus.tasks.files import read_table

_GLUE = "https://dl.fbaipublicfiles.com/glue/data"
_SENTEVAL = "https://dl.fbaipublicfiles.com/senteval/senteval_data"
_TENTH = 10


@dataclass(frozen=True)
class _Form:
    """A table: its files of train and test, the columns of the texts and of the label, the names of
    the labels in the file (none where it is a number from 0 to ``most``).
    """

    files: tuple[str, str]
    texts: tuple[str, ...]
    label: str
    names: tuple[str, ...] = ()
    most: float = 0.0
    columns: tuple[str, ...] = ()
    """All columns of a table without a header."""


def _read(form: _Form, root: Path, ledger: Ledger) -> Iterator[Example]:
    columns = form.columns or (*form.texts, form.label)
    for part, file in zip(("train", "test"), form.files, strict=True):
        rows = read_table(root, file, columns, ledger, header=not form.columns)
        for number, (where, row) in enumerate(rows, 1):
            try:
                texts = tuple(read_text(row[column], where, column) for column in form.texts)
                label = _read_label(row[form.label], form, where)
            except CorpusError as error:
                ledger.reject(where, error)
                continue
            split = "dev" if part == "train" and number % _TENTH == 0 else part
            yield Example(f"{part}-{number}", split, texts, label)


def _read_label(value: str, form: _Form, where: str) -> int | float:
    if form.names:
        names = {name: index for index, name in enumerate(form.names)}
        return read_label(value, names, where, form.label)
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number <= form.most:
        raise CorpusError(
            f"{where}, {form.label}: {shown(value)}, expected a number from 0 to {form.most:g}"
        )
    return number


def _task(
    name: str,
    shape: Shape,
    form: _Form,
    size: Sequence[int],
    files: tuple[RemoteFile, ...],
    labels: tuple[str, ...] = (),
    metric: Literal["accuracy", "matthews", "f1", "pearson"] = "accuracy",
) -> Task:
    source: Callable[[], Source] = partial(Source, f"{name}, {files[0].url}", "its own", files)
    splits = ("train", "dev", "test")
    patterns = (*(file.path for file in files), *form.files)
    data = Dataset(name, folder=name, patterns=patterns, source=source)
    read = partial(_read, form)
    counts = dict(zip(splits, size, strict=True))
    return Task(name, shape, splits, "its own terms", counts, data, read, labels, metric)


def _zip(name: str, size: int, sha256: str) -> tuple[RemoteFile, ...]:
    return (RemoteFile(f"{_GLUE}/{name}.zip", f"{name}.zip", size, sha256),)


TASKS = (
    _task(
        "cola",
        "classification",
        _Form(
            ("CoLA/train.tsv", "CoLA/dev.tsv"),
            ("sentence",),
            "label",
            ("0", "1"),
            columns=("source", "label", "star", "sentence"),
        ),
        (7696, 855, 1043),
        _zip("CoLA", 376971, "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff"),
        ("unacceptable", "acceptable"),
        "matthews",
    ),
    _task(
        "sst-2",
        "classification",
        _Form(("SST-2/train.tsv", "SST-2/dev.tsv"), ("sentence",), "label", ("0", "1")),
        (60615, 6734, 872),
        _zip("SST-2", 7439277, "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa"),
        ("negative", "positive"),
    ),
    _task(
        "mrpc",
        "similarity",
        _Form(
            ("msr_paraphrase_train.txt", "msr_paraphrase_test.txt"),
            ("#1 String", "#2 String"),
            "Quality",
            ("0", "1"),
        ),
        (3669, 407, 1725),
        (
            RemoteFile(
                f"{_SENTEVAL}/msr_paraphrase_train.txt",
                "msr_paraphrase_train.txt",
                1047044,
                "60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89",
            ),
            RemoteFile(
                f"{_SENTEVAL}/msr_paraphrase_test.txt",
                "msr_paraphrase_test.txt",
                441275,
                "a04e271090879aaba6423d65b94950c089298587d9c084bf9cd7439bd785f784",
            ),
        ),
        ("different", "paraphrase"),
        "f1",
    ),
    _task(
        "sts-b",
        "similarity",
        _Form(("STS-B/train.tsv", "STS-B/dev.tsv"), ("sentence1", "sentence2"), "score", most=5.0),
        (5175, 574, 1500),
        _zip("STS-B", 802872, "e60a6393de5a8b5b9bac5020a1554b54e3691f9d600b775bd131e613ac179c85"),
        metric="pearson",
    ),
    _task(
        "rte",
        "entailment",
        _Form(
            ("RTE/train.tsv", "RTE/dev.tsv"),
            ("sentence1", "sentence2"),
            "label",
            ("entailment", "not_entailment"),
        ),
        (2241, 249, 277),
        _zip("RTE", 697150, "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee"),
        ("entailment", "not entailment"),
    ),
)
