"""What each step of a study costs as words, chains, width and window grow: CPU seconds and peak
memory of its command.

Copies of the sample corpus at four sizes of each, the others as they are at the least. Seconds and
megabytes per million words are the slopes of straight lines; the ratios are of seconds at the
largest to the least size. The commands are the study's own. Each runs in a fork of a process that
has imported what they import and done nothing else: this, which costs the same at any size, is no
part of the seconds, and no memory that another command has freed is there to be used again. Memory
is what the fork has at most beyond one that does nothing.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import json
import os
import shlex
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from common import ROOT, Column, Report, make_parser, write_sample
from entity_transformers.cli.study import write_study

from entity_transformers import cli
from entity_transformers.artifacts import write_json_lines
from entity_transformers.corpus.document import Document, to_row
from entity_transformers.corpus.readers import read_corpus

sys.path.insert(0, str(ROOT / "workflow"))
from commands import list_jobs

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads do not survive a fork

COLUMNS = {
    "seconds": Column("time, least size", "s"),
    "per_million": Column("time per million words", "s"),
    "chains": Column("time, chains x 4", "ratio", "the least"),
    "width": Column("time, width x 8", "ratio", "the least"),
    "window": Column("time, window x 8", "ratio", "the least"),
    "memory": Column("memory, least size", "MB"),
    "memory_per_million": Column("memory per million words", "MB"),
}
GROWTH = (1, 2, 4, 8)
STEPS = ["corpus", "lm", "perplexity", "embeddings", "similarity", "probe", "cache", "memory"]
STEPS += ["excerpts", "ner", "report"]
NEURAL = {"train-lm", "score-perplexity", "extract-embeddings", "align-corpus"}


@dataclass(frozen=True)
class Size:
    """A study: words of its corpus, eighths of the chains that are kept, width and window."""

    words: int
    eighths: int = 8
    width: int = 64
    window: int = 64


@dataclass(frozen=True)
class Cost:
    """CPU seconds of the user, and the largest resident memory in MB, less the parent's."""

    seconds: float
    memory: float


def write_size(folder: Path, size: Size, steps: Sequence[str], models: Sequence[str]) -> None:
    """The study and its corpus."""
    folder.mkdir()
    text = folder / "text"
    write_sample(text, size.words)
    kept = [keep_chains(document, size.eighths) for document in read_corpus("ontonotes", text)]
    for split in ("train", "dev", "test"):
        rows = (to_row(document) for document in kept if document.split == split)
        write_json_lines(folder / "corpus" / f"{split}.jsonl", rows)
    values: dict[str, Any] = {
        "base": os.path.relpath(ROOT / "studies/sample/study.yaml", folder),
        "study": {"steps": [*steps]},
        "corpus": {"format": "jsonl", "path": "corpus"},
        "tokenizer": {"vocabulary": 500},
        "lm": {"layers": 1, "heads": 2, "width": size.width, "window": size.window, "steps": 8,
               "documents_per_step": 2, "validate_every": 8, "warmup_steps": 1},
        "models": {name: None for name in ("gpt2", "gpt2e", "lstm") if name not in models},
        "perplexity": {"stride": size.window},
        "memory": {"sizes": [8], "width": 8, "steps": 2, "joint_size": 8, "joint_steps": 1},
        "ner": {"hidden": 8, "epochs": 1},
        "report": {"bootstrap_samples": 100},
    }  # fmt: skip
    (folder / "study.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    write_study(folder)


def keep_chains(document: Document, eighths: int) -> Document:
    """The document with so many eighths of its chains."""
    kept = tuple(m for m in document.mentions if m.chain % 8 < eighths)
    return replace(document, mentions=kept)


def list_commands(folder: Path) -> list[list[str]]:
    """The arguments of each command of a study's seed 1, in an order in which it can be run."""
    lines = [job.command.partition(" 2>&1 |")[0] for _, job in list_jobs(folder, [])]
    return [words[1:] for words in map(shlex.split, lines) if words[0] == "entity-transformers"]


def apart(work: Callable[[], object], what: str) -> Cost:
    """Do this in a fork, and say what it cost; RuntimeError with ``what`` if it failed."""
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status, usage = os.wait4(child, 0)
    if status:
        raise RuntimeError(f"{what} failed")
    return Cost(usage.ru_utime, usage.ru_maxrss / 1024)


def measure(folder: Path, words: Sequence[str]) -> Cost:
    """What a command costs in a process of its own."""
    return apart(lambda: call(folder, words), f"{' '.join(words)} at {folder}")


def import_all(folder: Path, todo: Sequence[Sequence[str]]) -> None:
    """Import what the commands import, which another process runs to find out."""
    found = folder / "modules.json"

    def run_once() -> None:
        for words in todo:
            call(folder, words)
        found.write_text(json.dumps(sorted(sys.modules)))

    apart(run_once, f"a command at {folder}")
    for name in json.loads(found.read_text()):
        try:
            importlib.import_module(name)
        except Exception as error:  # each command imports it anew: say so
            print(f"{name} is not imported beforehand: {error}", file=sys.stderr)


def call(folder: Path, words: Sequence[str]) -> None:
    """Run a command, if there is one, in the study's folder; what it says is shown if it fails."""
    if not words:
        return
    log = io.StringIO()
    try:
        with contextlib.chdir(folder), contextlib.redirect_stderr(log):
            cli.main(words)
    except SystemExit as stop:
        if stop.code:
            print(log.getvalue()[-2000:], file=sys.stderr, flush=True)
            raise


def name_command(words: Sequence[str]) -> str:
    """The command, and the model that it is for."""
    flags = dict(itertools.pairwise(words))
    return " ".join([words[0], flags.get("--model", "")]).strip()


def run_size(folder: Path, size: Size, todo: Sequence[Sequence[str]]) -> dict[str, Cost]:
    """The cost of each command."""
    costs = {}
    for words in todo:
        cost, nothing = measure(folder, words), measure(folder, [])
        costs[name_command(words)] = replace(cost, memory=cost.memory - nothing.memory)
        print(f"{size} {name_command(words)}: {costs[name_command(words)]}", file=sys.stderr)
    return costs


def choose(todo: Sequence[list[str]]) -> list[list[str]]:
    """What makes the corpus, and what reads it with a model's width and window."""
    end = next(i for i, words in enumerate(todo) if words[0] == "align-corpus")
    return [*todo[: end + 1], *(words for words in todo if words[0] in NEURAL - {"align-corpus"})]


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Of the straight line by least squares."""
    return float(np.polyfit(sizes, values, 1)[0])


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__, __file__, words=50_000)
    parser.add_argument("--steps", nargs="+", default=STEPS, help="default %(default)s")
    parser.add_argument("--models", nargs="+", default=["gpt2", "gpt2e"], help="%(default)s")
    parser.add_argument("--only-words", action="store_true", help="no chains, widths and windows")
    options = parser.parse_args()
    options.threads = 1
    least = Size(options.words)
    longer = [replace(least, words=n * least.words) for n in GROWTH]
    others = {
        "chains": [replace(longer[1], eighths=n) for n in (2, 4, 6, 8)],
        "width": [replace(longer[1], width=n * least.width) for n in GROWTH],
        "window": [replace(longer[1], window=n * least.window) for n in GROWTH],
    }
    if options.only_words:
        others = {}
    costs: dict[Size, dict[str, Cost]] = {}
    with tempfile.TemporaryDirectory() as name:
        first = Path(name) / "first"
        apart(partial(write_size, first, least, options.steps, options.models), str(first))
        todo = list_commands(first)
        import_all(first, todo)
        for size in dict.fromkeys([*longer, *(one for sizes in others.values() for one in sizes)]):
            folder = Path(name) / f"{size.words}-{size.eighths}-{size.width}-{size.window}"
            write = partial(write_size, folder, size, options.steps, options.models)
            apart(write, str(folder))
            costs[size] = run_size(folder, size, todo if size in longer else choose(todo))
    tell(Report(__doc__, COLUMNS, options), costs, longer, others)


def tell(
    report: Report,
    costs: Mapping[Size, Mapping[str, Cost]],
    longer: Sequence[Size],
    others: Mapping[str, Sequence[Size]],
) -> None:
    """A row per command; ``longer`` are the sizes that differ in words, ``others`` those by column
    that differ in something else.
    """
    millions = [size.words / 1e6 for size in longer]
    for what, cost in costs[longer[0]].items():
        more = {
            key: costs[sizes[-1]][what].seconds / max(1e-3, costs[sizes[0]][what].seconds)
            for key, sizes in others.items()
            if what in costs[sizes[0]] and what in costs[sizes[-1]]
        }
        report.row(
            what,
            seconds=cost.seconds,
            per_million=slope(millions, [costs[size][what].seconds for size in longer]),
            **more,
            memory=cost.memory,
            memory_per_million=slope(millions, [costs[size][what].memory for size in longer]),
        )
    report.write()


if __name__ == "__main__":
    main()
