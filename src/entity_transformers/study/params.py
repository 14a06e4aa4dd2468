"""A study's params.yaml as one typed structure, and its only loader; the sections and their keys
are in sections.py, steps/ and kinds/.

Every value comes from params.yaml: no field has a default. YAML 1.1 (Snakemake) and 1.2 (DVC) read
numbers differently (``2e-5`` is text to one and a number to the other), so these models own every
type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, create_model, model_validator

from entity_transformers.corpus.readers import find_reader
from entity_transformers.kinds import KINDS, KindError, LmParams, ModelEntry, resolve
from entity_transformers.resolve.registry import check_layer
from entity_transformers.study.needs import check_needs, explain_needs, list_abilities
from entity_transformers.study.origin import Origin, read_origin, read_tokenizer_origin
from entity_transformers.study.sections import RunParams, Section, StudyParams
from entity_transformers.study.steps import STEPS
from entity_transformers.study.steps.analogies import AnalogiesParams
from entity_transformers.study.steps.anomalies import AnomaliesParams
from entity_transformers.study.steps.cache import CacheParams
from entity_transformers.study.steps.capacity import CapacityParams
from entity_transformers.study.steps.corpus import CorpusParams, TokenizerParams
from entity_transformers.study.steps.decisions import DecisionsParams, SetlmParams
from entity_transformers.study.steps.embeddings import EmbeddingsParams
from entity_transformers.study.steps.examples import ExamplesParams
from entity_transformers.study.steps.memory import MemoryParams
from entity_transformers.study.steps.mentions import MentionsParams
from entity_transformers.study.steps.ner import NerParams
from entity_transformers.study.steps.passages import LambadaParams
from entity_transformers.study.steps.perplexity import PerplexityParams
from entity_transformers.study.steps.probe import ProbeParams
from entity_transformers.study.steps.pseudo_perplexity import PseudoPerplexityParams
from entity_transformers.study.steps.recall import RecallParams
from entity_transformers.study.steps.report import ReportParams
from entity_transformers.study.steps.search import SearchParams
from entity_transformers.study.steps.short_windows import ShortWindowsParams
from entity_transformers.study.steps.similarity import SimilarityParams
from entity_transformers.study.steps.transfer import TransferParams
from entity_transformers.study.steps.zero_shot import ZeroShotParams
from entity_transformers.study.values import Absent, ParamsError, read_values

ALWAYS = ("root", "study", "run", "corpus", "tokenizer", "lm", "kinds", "models")
"""Sections that every study has; the others it has where one of its steps reads them."""
SHAPE = ("layers", "heads", "width", "window")
"""What of a model's parameters its weights fix."""
PATHS = ("root", "path", "initial_weights")
"""Keys whose value names a file or folder, relative to the params.yaml."""


class Params(Section):
    """A whole params.yaml."""

    root: Annotated[
        str,
        Field(description="the checkout, relative to the study (DVC finds the code through it)"),
    ]
    study: StudyParams
    run: RunParams
    corpus: CorpusParams
    tokenizer: TokenizerParams
    lambada: LambadaParams
    lm: LmParams
    search: SearchParams
    kinds: Annotated[
        dict[str, dict[str, Any]],
        Field(description="values that only one kind of model has, or that differ for it"),
    ]
    models: Annotated[
        dict[str, dict[str, Any]],
        Field(min_length=1, description="the models by name: kind, role, labels, what differs"),
    ]
    perplexity: PerplexityParams
    pseudo_perplexity: PseudoPerplexityParams
    embeddings: EmbeddingsParams
    similarity: SimilarityParams
    probe: ProbeParams
    ner: NerParams
    analogies: AnalogiesParams
    cache: CacheParams
    memory: MemoryParams
    mentions: MentionsParams
    short_windows: ShortWindowsParams
    capacity: CapacityParams
    decisions: DecisionsParams
    setlm: SetlmParams
    examples: ExamplesParams
    transfer: TransferParams
    zero_shot: ZeroShotParams
    anomalies: AnomaliesParams
    recall: RecallParams
    report: ReportParams

    @model_validator(mode="after")
    def _known_models(self) -> Params:
        if unknown := self.kinds.keys() - KINDS.keys():
            raise ValueError(
                f"kinds.{sorted(unknown)[0]}: no such kind, expected one of {', '.join(KINDS)}"
            )
        for name in self.models:
            if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
                raise ValueError(
                    f"models.{name}: the name is part of paths: give it of a-z, 0-9, - and _"
                )
            self.model(name)
        return self

    @model_validator(mode="after")
    def _possible_steps(self) -> Params:
        named = self.study.steps
        for name in named:
            if name not in STEPS:
                raise ValueError(
                    f"study.steps: {name!r}, expected steps of {', '.join(sorted(STEPS))}"
                )
            step = STEPS[name]
            missing = [] if step.summary else [other for other in step.reads if other not in named]
            if missing:
                raise ValueError(
                    f"study.steps: {name} reads what {' and '.join(missing)} writes: name"
                    f" {'them' if len(missing) > 1 else 'it'} too, or leave {name} out"
                )
            if step.needs and not self.entries(*step.needs):
                raise ValueError(
                    f"study.steps: {name} needs {explain_needs(step.needs)}, but"
                    f" {list_abilities(self.entries())}: add a model that can, or leave {name} out"
                )
            if step.trains is not None:
                for model, entry in getattr(self, name).models.items():
                    # what a step gives its entries beside their kind's keys
                    own = {key: value for key, value in entry.items() if key != "reads"}
                    found = self.resolve(model, {model: own}, section=f"{name}.models")
                    check_needs(f"{name}.models.{model}", found, step.trains, name)
        return self

    def has(self, section: str) -> bool:
        """Is the section there? One that no step of the study reads may be left out."""
        return section in self.model_fields_set

    def require(self, name: str, step: str) -> ModelEntry:
        """Entry ``name``; KindError if its kind can't do what ``step`` needs."""
        entry = self.model(name)
        check_needs(f"models.{name}", entry, STEPS[step].needs or frozenset(), step)
        return entry

    def model(self, name: str) -> ModelEntry:
        """Entry ``name`` of section ``models``, complete; KindError if there is none."""
        if name not in self.models:
            raise KindError(f"model {name!r}, expected one of {', '.join(self.models)}")
        return self.resolve(name, self.models)

    def reading(self, entry: ModelEntry) -> dict[str, int]:
        """How ``entry`` reads a text, in tokens: its window, and by how many that moves on, at most
        all of it.
        """
        window = entry.lm.window
        return {"window": window, "stride": min(self.perplexity.stride, window)}

    def resolve(
        self, name: str, models: Mapping[str, Mapping[str, Any]], section: str = "models"
    ) -> ModelEntry:
        """An entry of ``models``, over the values of ``lm`` and of its kind; KindError if wrong."""
        try:
            return resolve(name, models, self.lm.model_dump(), self.kinds, KINDS)
        except KindError as error:
            raise KindError(str(error).replace("models.", f"{section}.")) from None

    def entries(self, *needs: str) -> tuple[ModelEntry, ...]:
        """The entries whose kind has all these capabilities, in the study's order."""
        found = (self.model(name) for name in self.models)
        return tuple(entry for entry in found if entry.can(set(needs)))

    @model_validator(mode="after")
    def _fit_together(self) -> Params:
        for entry in self.entries():
            key = f"models.{entry.name}.labels"
            check_layer(key, entry.labels, self.corpus.resolvers, entry.lags)
        for section in filter(self.has, ("memory", "mentions", "decisions", "setlm")):
            check_layer(f"{section}.labels", getattr(self, section).labels, self.corpus.resolvers)
        splits: set[str] = set()
        for section, keys in _SPLIT_KEYS.items():
            for key in keys if self.has(section) else ():
                value = getattr(getattr(self, section), key)
                splits.update([value] if isinstance(value, str) else value)
        reader = find_reader(self.corpus.format)
        if strange := sorted(splits - {*reader.splits}):
            raise ValueError(
                f"{', '.join(_SPLIT_KEYS)}: no split {', '.join(strange)} in format {reader.name}"
            )
        if reader.needs_path and self.corpus.path is None:
            raise ValueError(
                f"corpus.path is null, but format {reader.name} is your own corpus: name its file"
                " or folder"
            )
        if reader.generate and self.corpus.path is not None:
            raise ValueError(
                f"corpus.path names {self.corpus.path}, but format {reader.name} is generated and"
                " reads no file: name the file's format, or set path to null"
            )
        for section, key in (("memory", "windows"), ("short_windows", "sizes")):
            read = section in self.study.steps
            longest = max((0, *(getattr(getattr(self, section), key) if read else ())))
            if short := [one for one in self.entries("causal") if one.lm.window < longest]:
                raise ValueError(
                    f"{section}.{key} {longest} is more than models.{short[0].name}'s window,"
                    f" {short[0].lm.window}"
                )
        for section in filter(self.study.steps.__contains__, ("zero_shot", "transfer")):
            if lacking := {*getattr(self, section).named}.difference(self.examples.tasks):
                raise ValueError(
                    f"{section}.tasks: {sorted(lacking)[0]} is not among examples.tasks: add it"
                )
        if "transfer" in self.study.steps:
            self.transfer.check_study(self.models, self.study.seeds)
        reads = any("perplexity" in STEPS[step].sections for step in self.study.steps)
        if reads and self.perplexity.stride > self.lm.window:
            raise ValueError(
                f"perplexity.stride {self.perplexity.stride} is more than lm.window"
                f" {self.lm.window}"
            )
        return self


_SPLIT_KEYS = {
    **dict.fromkeys(("perplexity", "pseudo_perplexity", "embeddings"), ("splits",)),
    **dict.fromkeys(
        ("probe", "cache", "memory", "mentions", "decisions", "setlm"), ("choose", "report")
    ),
}


def sections_of(steps: Iterable[str]) -> set[str]:
    """The sections that a study with these steps has."""
    known = (STEPS[name] for name in steps if name in STEPS)
    return {*ALWAYS, *(section for step in known for section in step.sections)}


def _fitting(values: Any) -> type[Params]:
    """`Params` without the sections that ``values`` leaves out and no step of it reads."""
    try:
        read = sections_of(values["study"]["steps"])
        out = [name for name in Params.model_fields if name not in {*read, *values}]
    except (KeyError, TypeError):
        return Params  # which says what is wrong
    absent = {
        name: (Any, Field(default_factory=lambda name=name: Absent(name), exclude=True))
        for name in out
    }
    return create_model("Params", __base__=Params, **absent) if out else Params  # type: ignore[call-overload]


def parse(values: Any, source: str) -> Params:
    """Check the values of a params.yaml named ``source``; ParamsError lists every key that is
    wrong, with its value.
    """
    try:
        return _fitting(values).model_validate(values)
    except ValidationError as error:
        told = [_told(problem) for problem in error.errors()]
        many = "" if len(told) == 1 else f"{len(told)} bad parameters\n  "
        raise ParamsError(f"{source}: {many}" + "\n  ".join(told)) from None


def _told(problem: Any) -> str:
    """One line: key, what is wrong, value."""
    key = ".".join(map(str, problem["loc"]))
    if problem["type"] == "value_error":  # a rule between keys: its message has their values
        return f"{key}: {problem['ctx']['error']}" if key else str(problem["ctx"]["error"])
    if problem["type"] == "extra_forbidden":
        section = Params.model_fields.get(str(problem["loc"][0]))
        holder = Params if len(problem["loc"]) == 1 or section is None else section.annotation
        known = ", ".join(getattr(holder, "model_fields", ()))
        return f"{key}: no such key (value: {problem['input']!r}), expected one of {known}"
    value = "none given" if problem["type"] == "missing" else repr(problem["input"])
    return f"{key or '(file)'}: {problem['msg']} (value: {value})"


def load(path: Path) -> Params:
    """Read a params.yaml; anything wrong with it, or with the studies whose weights or encoder it
    names, raises ParamsError.
    """
    params = parse(read_values(path, for_dvc=True), str(path))
    check_origins(params, path)
    return params


def check_origins(params: Params, path: Path, above: tuple[str, ...] = ()) -> None:
    """Refuse weights and encoders of other studies that are not there or do not fit; ``path`` is
    that of the params.yaml, ``above`` are the studies that name this one.
    """
    wanted = read_tokenizer_origin(params.tokenizer.path)
    others: dict[str, Params] = {}

    def open_study(name: str, key: str) -> Params:
        if name in above:
            raise ParamsError(f"{path}: {key}: circular: {' -> '.join((*above, name))}")
        if name not in others:
            file = path.parent / params.root / "studies" / name / "params.yaml"
            if not file.is_file():
                raise ParamsError(f"{path}: {key}: no study {name}: {file} is not there")
            others[name] = parse(read_values(file), str(file))
            check_origins(others[name], file, (*above, name))
        return others[name]

    if wanted is not None:
        open_study(wanted, "tokenizer.path")
    for entry in params.entries():
        if (origin := read_origin(entry.initial_weights)) is not None:
            key = f"models.{entry.name}: initial_weights {entry.initial_weights}"
            other = open_study(origin.study, key)
            encoder = read_tokenizer_origin(other.tokenizer.path) or origin.study
            if wanted not in (origin.study, encoder):
                raise ParamsError(
                    f"{path}: {key}: its tokens are those of study {origin.study}: set tokenizer to"
                    f" {{kind: study, path: study:{origin.study}}}"
                )
            if problem := _misfit(entry, other, origin):
                raise ParamsError(f"{path}: {key}: {problem}")


def _misfit(entry: ModelEntry, other: Params, origin: Origin) -> str:
    """Why an entry can't start from a model of another study; "" if it can."""
    if origin.model not in other.models or "lm" not in other.study.steps:
        return f"study {origin.study} trains {', '.join(other.models)}"
    if origin.seed not in other.study.seeds:
        seeds = ", ".join(map(str, other.study.seeds))
        return f"study {origin.study} trains seeds {seeds}"
    found = other.model(origin.model)
    if found.kind.name not in {entry.kind.name, *entry.kind.also}:
        return f"it is of kind {found.kind.name}, from which kind {entry.kind.name} can't start"
    parts = [name for name in SHAPE if hasattr(entry.lm, name)]
    shapes = [{name: getattr(one.lm, name) for name in parts} for one in (entry, found)]
    wrong = [
        f"{k} {v} here, {shapes[1][k]} there"
        for k, v in shapes[0].items()
        if v != shapes[1][k] and not (k == "window" and entry.kind.cuts and v < shapes[1][k])
    ]
    if entry.kind.name == found.kind.name and entry.extra != found.extra:
        wrong.append(f"{entry.extra} matched numbers per layer here, {found.extra} there")
    return "; ".join(wrong)
