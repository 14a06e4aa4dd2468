"""A study as one typed structure, and its only loader.

params.yaml has every value, those of the paper's study. Another study is ``studies/NAME.yaml``:
what differs from params.yaml, or from another study that it names as its ``base``:

    base: ontogum                 # left out: params.yaml
    lm: {width: 64}               # the same nesting
    models: {gpt2e: null}         # in a mapping of names, null takes one out

YAML 1.1 (Snakemake) and 1.2 (DVC) read numbers differently (``2e-5`` is text to one and a number to
the other), so these models own every type. Paths in values are relative to the folder in which the
commands run, the top of the checkout.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, ValidationError, create_model, model_validator

from entity_transformers.corpus.readers import find_reader
from entity_transformers.kinds import KINDS, KindError, LmParams, ModelEntry, resolve
from entity_transformers.resolve.registry import check_layer
from entity_transformers.step import find_steps
from entity_transformers.study.needs import check_needs, explain_needs, list_abilities
from entity_transformers.study.origin import Origin, read_origin, read_tokenizer_origin
from entity_transformers.study.sections import (
    RunParams,
    Section,
    StudyParams,
    TokenizerParams,
)
from entity_transformers.study.values import ParamsError, read_values

__all__ = ["STEPS", "Params", "ParamsError", "load", "parse", "read_study"]
STEPS = find_steps()
FILE, STUDIES, PAPER = "params.yaml", "studies", "paper"
"""The file of the paper's study, the folder of the others, and the paper's name beside theirs."""
PACKAGED = Path(__file__).resolve().parents[1] / FILE
"""The paper's values in an installed package; a checkout has them at its top."""
SHAPE = ("layers", "heads", "width", "window")
"""What of a model's parameters its weights fix."""
NAMED = ("models", "kinds", "recall.models", "transfer.variants", "similarity.groups",
         "probe.groups")  # fmt: skip
"""Mappings whose keys a study chooses."""
LABELLED = ("mentions", "decisions", "setlm")
"""Sections whose step reads the layer of labels that their key ``labels`` names."""


class _Base(Section):
    """What every study has, whatever its steps, and the rules between sections."""

    name: Annotated[str, Field(description="of the study, by its file")] = PAPER
    study: StudyParams
    run: RunParams
    tokenizer: TokenizerParams
    lm: LmParams
    kinds: Annotated[
        dict[str, dict[str, Any]],
        Field(description="values that only one kind of model has, or that differ for it"),
    ]
    models: Annotated[
        dict[str, dict[str, Any]],
        Field(min_length=1, description="the models by name: kind, role, labels, what differs"),
    ]

    @model_validator(mode="after")
    def _known_models(self) -> _Base:
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
    def _possible_steps(self) -> _Base:
        named = self.study.steps
        for name in named:
            if name not in STEPS:
                raise ValueError(
                    f"study.steps: {name!r}, expected steps of {', '.join(sorted(STEPS))}"
                )
            step = STEPS[name]
            missing = [other for other in step.reads if other not in named]
            if missing and step.phase != "report":
                raise ValueError(
                    f"study.steps: {name} reads what {' and '.join(missing)} writes: name"
                    f" {'them' if len(missing) > 1 else 'it'} too, or leave {name} out"
                )
            if step.needs and not self.entries(*step.needs):
                raise ValueError(
                    f"study.steps: {name} needs {explain_needs(step.needs)}, but"
                    f" {list_abilities(self.entries())}: add a model that can, or leave {name} out"
                )
            if step.own is not None:
                for model, entry in getattr(self, name).models.items():
                    # what a step gives its entries beside their kind's keys
                    own = {key: value for key, value in entry.items() if key != "reads"}
                    found = self.resolve(model, {model: own}, section=f"{name}.models")
                    check_needs(f"{name}.models.{model}", found, step.own, name)
        return self

    def runs_step(self, name: str) -> bool:
        """Does the study have this step?"""
        return name in self.study.steps

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
        own = {
            key: {k: v for k, v in entry.items() if k != "only"} for key, entry in models.items()
        }
        try:
            return resolve(name, own, self.lm.model_dump(), self.kinds, KINDS)
        except KindError as error:
            raise KindError(str(error).replace("models.", f"{section}.")) from None

    def entries(self, *needs: str) -> tuple[ModelEntry, ...]:
        """The entries whose kind has all these capabilities, in the study's order."""
        found = (self.model(name) for name in self.models)
        return tuple(entry for entry in found if entry.can(set(needs)))

    if TYPE_CHECKING:  # `Params` adds the section of every step

        def __getattr__(self, name: str) -> Any: ...

    def takes_part(self, model: str, step: str) -> bool:
        """Does this entry take part in a step? One with a list ``only`` is in those alone."""
        return step in self.models[model].get("only", (step,))

    @model_validator(mode="after")
    def _fit_together(self) -> _Base:
        for entry in self.entries():
            key = f"models.{entry.name}.labels"
            check_layer(key, entry.labels, self.corpus.resolvers, entry.lags)
        for name, values in self.models.items():
            if unknown := [one for one in values.get("only", ()) if one not in STEPS]:
                raise ValueError(
                    f"models.{name}.only: {unknown[0]!r}, expected steps of {', '.join(STEPS)}"
                )
        for section in filter(self.runs_step, LABELLED):
            check_layer(f"{section}.labels", getattr(self, section).labels, self.corpus.resolvers)
        self._check_splits()
        if self.runs_step("transfer"):
            if lacking := {*self.transfer.named}.difference(self.examples.tasks):
                raise ValueError(
                    f"transfer.tasks: {sorted(lacking)[0]} is not among examples.tasks: add it"
                )
            self.transfer.check_study(self.models, self.study.seeds)
        reads = any("perplexity.stride" in STEPS[step].also for step in self.study.steps)
        if (reads or self.runs_step("perplexity")) and self.perplexity.stride > self.lm.window:
            raise ValueError(
                f"perplexity.stride {self.perplexity.stride} is more than lm.window"
                f" {self.lm.window}"
            )
        return self

    def _check_splits(self) -> None:
        """The splits that sections name are among those of the corpus' format."""
        reader = find_reader(self.corpus.format)
        for name in filter(self.runs_step, self.study.steps):
            section = getattr(self, name, None)
            values = [getattr(section, key, ()) for key in ("splits", "choose", "report")]
            named = {s for v in values for s in ([v] if isinstance(v, str) else v)}
            if strange := sorted(named - {*reader.splits}) if name != "transfer" else []:
                raise ValueError(f"{name}: format {reader.name} has no split {', '.join(strange)}")
        if reader.needs_path and self.corpus.path is None:
            raise ValueError(
                f"corpus.path is null, but format {reader.name} is your own corpus: name its file"
                " or folder"
            )


_SECTIONS: dict[str, Any] = {
    step.name: (step.params, ...) for step in STEPS.values() if step.params is not None
}
if TYPE_CHECKING:
    Params = _Base
else:
    Params = create_model("Params", __base__=_Base, **_SECTIONS)


def load(path: Path, overrides: Mapping[str, Any] | None = None) -> Any:
    """The study of a file, ``params.yaml`` or ``studies/NAME.yaml``, with ``overrides`` (values by
    SECTION.KEY) put over it. Anything wrong with it, or with the studies whose weights or encoder
    it names, raises ParamsError with file, key and value.
    """
    values = read_study(path)
    for name, value in (overrides or {}).items():
        *sections, key = name.split(".")
        held: Any = values
        for section in sections:
            held = held.get(section) if isinstance(held, dict) else None
        if not isinstance(held, dict) or (key not in held and ".".join(sections) not in NAMED):
            raise ParamsError(f"--set {name}: {path} has no such value")
        held[key] = value
    params = parse({**values, "name": find_name(path)}, str(path))
    check_origins(params, path)
    return params


def find_name(path: Path) -> str:
    """What a study is called, by its file."""
    name = PAPER if path.name == FILE else path.stem
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise ParamsError(f"{path}: the name is part of paths: give it of a-z, 0-9, - and _")
    return name


def find_study(name: str, beside: Path = Path(FILE)) -> Path:
    """The file of a study by its name; ParamsError where there is none. ``beside``: the file of
    another study of the same checkout.
    """
    top = beside.parent if beside.name == FILE else beside.parent.parent
    if name == PAPER:
        return top / FILE if (top / FILE).is_file() else PACKAGED
    path = top / STUDIES / f"{name}.yaml"
    if not path.is_file():
        known = sorted(file.stem for file in (top / STUDIES).glob("*.yaml"))
        raise ParamsError(
            f"no study {name!r}: {path} is not there; expected one of {', '.join([PAPER, *known])}"
        )
    return path


def read_study(path: Path, above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """All values of a study, not checked yet. A base that is not there, or that leads back to the
    study, and a key that its base does not have raise ParamsError.
    """
    if path in above:
        chain = " -> ".join(map(str, (*above[above.index(path) :], path)))
        raise ParamsError(f"{path}: base: circular, {chain}")
    values = read_values(path)
    if path.name == FILE:
        return values
    base = values.pop("base", PAPER)
    if not isinstance(base, str):
        raise ParamsError(f"{path}: base: {base!r}, expected the name of another study")
    try:
        below = find_study(base, path)
    except ParamsError as error:
        raise ParamsError(f"{path}: base: {error}") from None
    return _merge(read_study(below, (*above, path)), values, path, "")


def _merge(base: Mapping[str, Any], over: Any, path: Path, where: str) -> dict[str, Any]:
    """``base`` with the values of ``over`` in the place of its own."""
    if not isinstance(over, Mapping):
        raise ParamsError(f"{path}: {where}: {over!r}, expected a mapping: {', '.join(base)}")
    # an entry of such a mapping has the keys of its kind, which are checked when it is read
    free = where in NAMED or where.rpartition(".")[0] in NAMED
    merged = dict(base)
    for key, value in over.items():
        name = f"{where}.{key}".lstrip(".")
        if key not in base and (not free or (value is None and where in NAMED)):
            raise ParamsError(
                f"{path}: {name}: {value!r}, but its base has no such key, expected one of"
                f" {', '.join(map(str, base))}"
            )
        if value is None and where in NAMED:
            del merged[key]
        elif isinstance(base.get(key), Mapping):
            merged[key] = _merge(base[key], value, path, name)
        else:
            merged[key] = value
    return merged


def parse(values: Any, source: str) -> Any:
    """Check the values of a study named ``source``; ParamsError lists every key that is wrong, with
    its value.
    """
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        told = [_tell(problem) for problem in error.errors()]
        many = "" if len(told) == 1 else f"{len(told)} bad parameters\n  "
        raise ParamsError(f"{source}: {many}" + "\n  ".join(told)) from None


def _tell(problem: Any) -> str:
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


def check_origins(params: Any, path: Path, above: tuple[str, ...] = ()) -> None:
    """Refuse weights and encoders of other studies that are not there or do not fit; ``path`` is
    the study's file, ``above`` are the studies that name this one.
    """
    wanted = read_tokenizer_origin(params.tokenizer.path)
    others: dict[str, Any] = {}

    def open_study(name: str, key: str) -> Any:
        if name in above or name == params.name:
            raise ParamsError(f"{path}: {key}: circular: {' -> '.join((*above, name))}")
        if name not in others:
            try:
                file = find_study(name, path)
            except ParamsError as error:
                raise ParamsError(f"{path}: {key}: {error}") from None
            others[name] = parse({**read_study(file), "name": name}, str(file))
            check_origins(others[name], file, (*above, params.name))
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


def _misfit(entry: ModelEntry, other: Any, origin: Origin) -> str:
    """Why an entry can't start from a model of another study; "" if it can."""
    if origin.model not in other.models or not other.runs_step("lm"):
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


def list_studies(top: Path = Path()) -> Iterable[Path]:
    """The files of all studies of a checkout, the paper's first."""
    return [top / FILE, *sorted((top / STUDIES).glob("*.yaml"))]
