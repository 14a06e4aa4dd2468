"""What a step of the method is, and what it is given when it runs.

A step is one module of `entity_transformers.steps`: its typed parameters, a function that yields
rows, and its tables and figures as values. Snakemake's rules, DVC's stages, the command line and
the report all read the registry made of these modules.
"""

from __future__ import annotations

import pkgutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from entity_transformers import provenance
from entity_transformers.artifacts import (
    RECORD,
    read_json,
    read_record,
    read_tokenizer,
    recorded,
    write_csv,
    write_json,
    write_record,
)
from entity_transformers.corpus.document import SPLITS
from entity_transformers.kinds import CAPABILITIES
from entity_transformers.study.libraries import find_missing

if TYPE_CHECKING:
    from entity_transformers.corpus.alignment import AlignedCorpus
    from entity_transformers.corpus.document import Documents
    from entity_transformers.kinds import ModelEntry
    from entity_transformers.models.base import LanguageModel
    from entity_transformers.study.params import Params
    from entity_transformers.study.sections import Section

Row = dict[str, Any]
"""A number of a result: ``measure``, ``value`` and, where they apply, ``split``, ``count`` (the
number of items that it is a mean of), ``unit`` (the document, passage or book, if it is about a
single one) and any further column (``entities``, ``layer``, ...)."""
Rows = Iterator[Row]
Phase = Literal["corpus", "train", "score", "report"]
DOCUMENTS = tuple(f"{split}.jsonl" for split in SPLITS)
"""Files with the documents of each split; that of a split which the corpus lacks is empty."""
TOKENS = tuple(f"{split}.safetensors" for split in SPLITS)
MODEL = ("config.json", "model.safetensors")
ROWS = "rows.csv"
"""The file with a run's numbers, which every run writes besides `RECORD`."""
MANIFEST = "manifest.json"
"""The file that tells where the numbers of a study's report come from."""
COLUMNS = ("split", "unit", "measure", "value", "count")
FIRST = ("corpus", "passages", "lm", "perplexity", "lambada", "embeddings", "similarity", "probe")
LAST = ("ner", "recall", "report")
"""The first and last steps in the order of the paper's study; all other steps stand in between."""


@dataclass(frozen=True, eq=False)
class Step:
    """One step of the method, named like its section of params.yaml.

    about    what it does, in a line; the paper's section in brackets
    run      yields its rows, and writes its other files into `Run.folder`
    phase    the DVC stage that it belongs to
    params   the class of its section of params.yaml; None if it has no section
    also     keys of other sections that it depends on, SECTION or SECTION.KEY
    needs    capabilities required of a model (`kinds.CAPABILITIES`); None: it runs once per study
    reads    the files that it reads, by the step that writes them
    writes   its own files besides `ROWS` and `RECORD`; DVC keeps them
    own      capabilities of the entries of its own section (NAME.models), which it trains itself
    gpu      whether a run uses the GPU if there is one
    libraries  modules that it imports beyond the package's requirements
    data     patterns of the package's files, other than modules, that it reads
    gather   ``module:name`` of the function that makes the results' rows from those of all its
             runs; "" takes them as they are
    title    heading of its part of the report; "" if it has none
    tables   returns its tables for the report if `report` has no module of its name: tables as
             values (`report.pivot`), or functions of the results
    """

    name: str
    about: str
    run: Callable[[Run], Iterable[Row]]
    phase: Phase = "score"
    params: type[Section] | None = None
    also: tuple[str, ...] = ()
    needs: Collection[str] | None = None
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    writes: tuple[str, ...] = ()
    own: Collection[str] | None = None
    gpu: bool = True
    libraries: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    gather: str = ""
    title: str = ""
    tables: Callable[[], tuple[Any, ...]] | None = None

    def __post_init__(self) -> None:
        if unknown := {*(self.needs or ()), *(self.own or ())} - CAPABILITIES.keys():
            raise ValueError(f"step {self.name}: unknown capabilities {sorted(unknown)}")

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of params.yaml that it depends on, whichever model it runs for."""
        return (*([] if self.params is None else [self.name]), *self.also)

    @property
    def outputs(self) -> tuple[str, ...]:
        """All files of a run; the last one is written once the others are complete."""
        return (*self.writes, ROWS, RECORD)

    @property
    def missing(self) -> str:
        """A line on what to install before it can run; "" if nothing is missing."""
        return find_missing(f"step {self.name}", *self.libraries)


def step(name: str, about: str, **fields: Any) -> Callable[[Callable[[Run], Rows]], Step]:
    """Return a decorator that makes a `Step` with these ``fields`` of the function it runs."""
    return lambda function: Step(name, about, function, **fields)


def find_steps() -> dict[str, Step]:
    """Return every step by name, in the paper's order; each module of steps holds one."""
    from entity_transformers import steps

    names = {module.name for module in pkgutil.iter_modules(steps.__path__)}
    order = (*FIRST, *sorted(names.difference(FIRST, LAST)), *LAST)
    return {name: getattr(import_module(f"{steps.__name__}.{name}"), name) for name in order}


@dataclass
class Run:
    """One run of a step: for a study, or for one of its models and a seed."""

    params: Params
    step: Step
    model: str = ""
    seed: Any = None

    def home(self, name: str) -> Path:
        """Return the folder of another step of this study, for the same model and seed."""
        from entity_transformers.study.plan import folder

        return Path(folder(self.params.name, name, self.model, self.seed))

    @property
    def folder(self) -> Path:
        """The folder of this run's files."""
        return self.home(self.step.name)

    @property
    def work(self) -> Path:
        """The folder for files from which a stopped run resumes."""
        return Path("work") / self.step.name

    @cached_property
    def _sources(self) -> list[str]:
        """What its numbers depend on besides values: code, model, seed and input files."""
        from entity_transformers.study.plan import Plan

        code = Plan(self.params).code(self.step, self.model)
        read = [str(read_record(self.home(name)).get("files")) for name in self.step.reads]
        return [code, self.model, str(self.seed), *read]

    def once(self, make: Callable[[], Any], *key: object) -> Any:
        """Return what ``make`` returns as JSON, kept by ``key`` so that a stopped run resumes."""
        kept = self.work / f"{provenance.digest(*self._sources, *map(str, key))}.json"
        if not kept.is_file():
            write_json(kept, {"found": make()})
        return read_json(kept)["found"]

    @property
    def cache(self) -> Path:
        """The folder of downloads."""
        return Path("work/downloads")

    @property
    def section(self) -> Any:
        """The step's own section of the study's values."""
        return getattr(self.params, self.step.name)

    @cached_property
    def entry(self) -> ModelEntry:
        """The model's entry in the study; KindError if its kind lacks what the step needs."""
        return self.params.require(self.model, self.step.name)

    @cached_property
    def trained(self) -> LanguageModel:
        """The trained model on the study's device, every source of randomness fixed by the seed."""
        from entity_transformers import runtime
        from entity_transformers.models.base import load_model

        device = runtime.start(self.params.run.device, self.params.run.threads, self.seed)
        return load_model(self.home("lm"), self.entry.kind, device)

    @property
    def above(self) -> Any:
        """What keeps the states below the blocks of the trained model that have learnt, and reads
        these alone from them; None for a kind that learns as a whole.
        """
        read = getattr(self.trained, "read_above", None)
        if read is None:
            return None
        [weights] = self.home("lm").glob("model*.safetensors")
        return partial(read, weights=weights)

    @property
    def reading(self) -> dict[str, Any]:
        """How the model reads a text: its window, stride, and number of documents side by side."""
        return {**self.params.reading(self.entry), "batch": self.params.perplexity.batch}

    def tokens(self, split: str) -> AlignedCorpus:
        """Return the aligned tokens of a split, which may have no documents."""
        from entity_transformers.corpus.alignment import AlignedCorpus

        return AlignedCorpus.load(self.home("corpus") / f"{split}.safetensors")

    def split(self, name: str) -> AlignedCorpus:
        """Return the aligned tokens of a split that a value names; ValueError for an empty one."""
        found = self.tokens(name)
        if not len(found):
            raise ValueError(
                f"section {self.step.name} names split {name!r}, for which the corpus has no"
                " document: leave it out, or name another"
            )
        return found

    def documents(self, split: str) -> Documents:
        """Return the documents of a split, which are read one by one."""
        from entity_transformers.corpus.document import Documents

        return Documents(self.home("corpus") / f"{split}.jsonl")

    @cached_property
    def tokenizer(self) -> Any:
        """The study's tokenizer. A model with tokens of its own has its own, and so has every model
        that others have trained if it is fine-tuned.
        """
        finetuned = self.step.name == "transfer" and self.entry.can({"pretrained"})
        own = bool(self.model) and (finetuned or self.entry.can({"own-tokens"}))
        return read_tokenizer(self.home("lm" if own else "corpus") / "tokenizer.json")


def execute(run: Run) -> None:
    """Run a step, and write its rows and the record of where they come from. Files that earlier or
    stopped runs with other values left in its folder are deleted. ValueError if its inputs were
    made with other values, or a library that it needs is missing.
    """
    from entity_transformers.study.plan import Plan

    if run.step.missing:
        raise ValueError(run.step.missing)
    plan = Plan(run.params)
    for other, read, model, seed in plan.above(run.step, run.model, run.seed):
        other.require_run(read, model, seed)
    started = time.time()
    with recorded() as written:
        rows = list(run.step.run(run))
        if run.step.phase == "report":
            return
        own = sorted({key for row in rows for key in row}.difference(COLUMNS))
        write_csv(run.folder / ROWS, rows, [*COLUMNS, *own])
    home = run.folder.absolute()
    for path in home.iterdir():
        if path.is_file() and path not in written and path.name[0] != ".":
            path.unlink()
    files = (path for path in written if home in path.parents and path.name != RECORD)
    names = sorted(str(path.relative_to(home)) for path in files)
    facts = provenance.describe_run(started, run.params.run.device)
    key, values = plan.digest(run.step, run.model), plan.values_of(run.step, run.model)
    made = {"place": str(run.folder), "digest": key, "values": values}
    write_record(run.folder, names, {**made, **facts})
