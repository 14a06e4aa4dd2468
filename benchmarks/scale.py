"""CPU seconds and peak memory of each step's command as words, chains, width and window grow.

Copies of the sample corpus at four sizes of each, the others as they are at the least. Seconds and
megabytes per million words are the slopes of straight lines; the ratios are of seconds at the
largest to the least size. Each run is a fork of a process that has imported what it imports and
done nothing else: this, which costs the same at any size, is no part of the seconds, and no memory
that another step has freed is there to be used again. Memory is what the fork has at most beyond
one that does nothing.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from contextlib import chdir
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from common import ROOT, Column, Report, make_parser, write_sample

from entity_transformers.artifacts import write_json_lines
from entity_transformers.corpus.document import to_row
from entity_transformers.corpus.readers import read_corpus
from entity_transformers.step import Run, execute
from entity_transformers.study.params import load
from entity_transformers.study.plan import Plan

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
STEPS = ["corpus", "lm", "perplexity", "embeddings", "similarity", "probe", "cache", "excerpts"]
STEPS += ["ner", "report"]
NEURAL = {"corpus", "lm", "perplexity", "embeddings"}
"""What depends on more than words: these alone are run as the others grow."""


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
    """The study, those that it is based on, and its corpus."""
    write_sample(folder / "text", size.words)
    rows = [
        to_row(replace(d, mentions=tuple(m for m in d.mentions if m.chain % 8 < size.eighths)))
        for d in read_corpus("ontonotes", folder / "text")
    ]
    for split in ("train", "dev", "test"):
        kept = (row for row in rows if row["split"] == split)
        write_json_lines(folder / "corpus" / f"{split}.jsonl", kept)
    (folder / "studies").mkdir()
    shutil.copy(ROOT / "params.yaml", folder)
    shutil.copy(ROOT / "studies/sample.yaml", folder / "studies")
    entries = load(ROOT / "studies/sample.yaml").models
    values: dict[str, Any] = {
        "base": "sample",
        "study": {"steps": [*steps]},
        "corpus": {"format": "jsonl", "path": "corpus"},
        "tokenizer": {"vocabulary": 500},
        "lm": {"layers": 1, "heads": 2, "width": size.width, "window": size.window, "steps": 8,
               "documents_per_step": 2, "validate_every": 8, "warmup_steps": 1},
        "models": {name: None for name in entries if name not in models},
        "perplexity": {"stride": size.window},
        "ner": {"hidden": 8, "epochs": 1},
        "report": {"bootstrap_samples": 100},
    }  # fmt: skip
    (folder / "studies/size.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")


def list_runs(folder: Path) -> list[tuple[str, Run]]:
    """A name, and the run, of each step of a study and each of its models, in order."""
    with chdir(folder):
        params = load(Path("studies/size.yaml"))
    plan = Plan(params)
    return [
        (f"{step.name} {model}".strip(), Run(params, step, model, seed))
        for step in plan.steps
        for model, seed in plan.runs(step)
        if seed in (None, params.study.seeds[0])
    ]


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


def execute_in(folder: Path, run: Run) -> None:
    """Do a run in the study's folder."""
    with chdir(folder):
        execute(run)


def import_all(folder: Path) -> None:
    """Import what the runs import, which another process does to find out, and read their code."""
    found = folder / "modules.json"

    def run_once() -> None:
        for _, run in list_runs(folder):
            execute_in(folder, run)
        found.write_text(json.dumps(sorted(sys.modules)))

    apart(run_once, f"a run at {folder}")
    for name in json.loads(found.read_text()):
        try:
            importlib.import_module(name)
        except Exception as error:  # each run imports it anew: say so
            print(f"{name} is not imported beforehand: {error}", file=sys.stderr)
    for _, run in list_runs(folder):
        Plan(run.params).digest(run.step, run.model)  # of the code, which is kept


def run_size(folder: Path, size: Size, chosen: set[str]) -> dict[str, Cost]:
    """The cost of each run of these steps."""
    costs = {}
    for name, run in list_runs(folder):
        if run.step.name in chosen:
            cost = apart(partial(execute_in, folder, run), f"{name} at {size}")
            nothing = apart(lambda: None, "nothing")
            costs[name] = replace(cost, memory=cost.memory - nothing.memory)
            print(f"{size} {name}: {costs[name]}", file=sys.stderr)
    return costs


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
    others = {} if options.only_words else {
        "chains": [replace(longer[1], eighths=n) for n in (2, 4, 6, 8)],
        "width": [replace(longer[1], width=n * least.width) for n in GROWTH],
        "window": [replace(longer[1], window=n * least.window) for n in GROWTH],
    }  # fmt: skip
    costs: dict[Size, dict[str, Cost]] = {}
    with tempfile.TemporaryDirectory() as name:
        sizes = dict.fromkeys([*longer, *(size for some in others.values() for size in some)])
        for size in [None, *sizes]:
            folder = Path(name) / str(len(costs) if size else "first")
            write = partial(write_size, folder, size or least, options.steps, options.models)
            apart(write, str(folder))
            if size is None:
                import_all(folder)
            else:
                costs[size] = run_size(folder, size, set(STEPS) if size in longer else NEURAL)
    report, millions = Report(__doc__, COLUMNS, options), [size.words / 1e6 for size in longer]
    for what, cost in costs[least].items():
        more: dict[str, Any] = {
            key: costs[some[-1]][what].seconds / max(1e-3, costs[some[0]][what].seconds)
            for key, some in others.items()
            if all(what in costs[size] for size in some)
        }
        seconds, memory = (
            slope(millions, [getattr(costs[size][what], key) for size in longer])
            for key in ("seconds", "memory")
        )
        report.row(what, seconds=cost.seconds, per_million=seconds, **more, memory=cost.memory,
                   memory_per_million=memory)  # fmt: skip
    report.write()


if __name__ == "__main__":
    main()
