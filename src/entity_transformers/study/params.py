"""A study as one typed structure, and its loader.

YAML 1.1 (Snakemake) and 1.2 (DVC) read numbers differently (``2e-5`` is text to one and a number to
the other), so these models own every type. Paths in values are relative to the folder in which the
commands run, the top of the checkout.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, ValidationError, create_model

from entity_transformers.corpus.readers import find_reader
from entity_transformers.kinds import (
    KINDS,
    KindError,
    LmParams,
    ModelEntry,
    explain_needs,
    list_abilities,
    resolve,
)
from entity_transformers.resolve.registry import check_layer
from entity_transformers.step import find_steps
from entity_transformers.study.origin import Origin, read_origin
from entity_transformers.study.sections import RunParams, Section, StudyParams, TokenizerParams
from entity_transformers.study.values import (
    PAPER,
    ParamsError,
    find_name,
    find_study,
    override,
    read_study,
)

__all__ = ["STEPS", "Params", "ParamsError", "load", "parse"]
STEPS = find_steps()
SHAPE = {"layers": "layers", "heads": "heads", "width": "width", "context": "window"}
"""What an entry and the weights that it starts from must share, and what messages call it."""
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
        Field(
            min_length=1,
            description="the models by name: kind, role, labels, only, seeds, what differs",
        ),
    ]
    if TYPE_CHECKING:  # `Params` adds the section of every step

        def __getattr__(self, name: str) -> Any: ...

    def runs_step(self, name: str) -> bool:
        """Tell whether the study has this step."""
        return name in self.study.steps

    def takes_part(self, model: str, step: str) -> bool:
        """Tell whether an entry takes part in a step; a list ``only`` limits it to those."""
        return step in self.models[model].get("only", (step,))

    def seeds_of(self, model: str) -> tuple[int, ...]:
        """Return the seeds of an entry: its own list ``seeds``, or the study's."""
        own = self.models[model].get("seeds", self.study.seeds)
        return tuple(own) if isinstance(own, list | tuple) else ()

    def model(self, name: str) -> ModelEntry:
        """Return entry ``name`` of section ``models``, complete; KindError if there is none."""
        if name not in self.models:
            raise KindError(f"model {name!r}, expected one of {', '.join(self.models)}")
        return self.resolve(name, self.models)

    def require(self, name: str, step: str) -> ModelEntry:
        """Return entry ``name``; KindError if its kind can't do what ``step`` needs."""
        return self.model(name).require(STEPS[step].needs or (), step, f"models.{name}")

    def resolve(
        self, name: str, models: Mapping[str, Mapping[str, Any]], section: str = "models"
    ) -> ModelEntry:
        """Return an entry of ``models``, over ``lm`` and its kind's values; KindError if wrong."""
        own = {
            key: {k: v for k, v in entry.items() if k not in ("only", "seeds")}
            for key, entry in models.items()
        }
        try:
            return resolve(name, own, self.lm.model_dump(), self.kinds, KINDS)
        except KindError as error:
            raise KindError(str(error).replace("models.", f"{section}.")) from None

    def entries(self, *needs: str) -> tuple[ModelEntry, ...]:
        """Return the entries whose kind has all these capabilities, in the study's order."""
        found = (self.model(name) for name in self.models)
        return tuple(entry for entry in found if entry.can(set(needs)))

    def reading(self, entry: ModelEntry) -> dict[str, int]:
        """Return the window and the stride, at most all of it, in which ``entry`` reads a text."""
        window = entry.lm.window
        return {"window": window, "stride": min(self.perplexity.stride, window)}

    def problems(self) -> Iterator[str]:
        yield from self._check_models()
        yield from self._check_steps()
        yield from self._check_sections()

    def _check_models(self) -> Iterator[str]:
        if unknown := self.kinds.keys() - KINDS.keys():
            yield f"kinds.{sorted(unknown)[0]}: no such kind, expected one of {', '.join(KINDS)}"
        for name, values in self.models.items():
            if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
                yield f"models.{name}: the name is used in paths: use only a-z, 0-9, - and _"
            if unknown := set(values.get("only", ())) - STEPS.keys():
                yield (
                    f"models.{name}.only: {sorted(unknown)[0]!r}, expected steps of"
                    f" {', '.join(STEPS)}"
                )
            own = self.seeds_of(name)
            if not own or len(set(own)) < len(own) or not all(type(one) is int for one in own):
                yield f"models.{name}.seeds: {values['seeds']}, expected a list of whole numbers"
            entry = self.model(name)
            check_layer(f"models.{name}.labels", entry.labels, self.corpus.resolvers, entry.lags)

    def _check_steps(self) -> Iterator[str]:
        named = self.study.steps
        for name in named:
            if name not in STEPS:
                yield f"study.steps: {name!r}, expected steps of {', '.join(sorted(STEPS))}"
            step = STEPS[name]
            missing = [other for other in step.reads if other not in named]
            if missing and step.phase != "report":
                yield (
                    f"study.steps: {name} reads the output of {' and '.join(missing)}: add"
                    f" {'them' if len(missing) > 1 else 'it'}, or leave {name} out"
                )
            if step.needs and not self.entries(*step.needs):
                yield (
                    f"study.steps: {name} needs {explain_needs(step.needs)}, but"
                    f" {list_abilities(self.entries())}: add a model that can, or leave {name} out"
                )
            if step.own is not None:
                for model, entry in getattr(self, name).models.items():
                    key = f"{name}.models"
                    # without the key that a step adds to those of the kind
                    own = {key: value for key, value in entry.items() if key != "reads"}
                    found = self.resolve(model, {model: own}, section=key)
                    found.require(step.own, name, f"{key}.{model}")

    def _check_sections(self) -> Iterator[str]:
        yield from self._check_splits()
        for section in filter(self.runs_step, LABELLED):
            check_layer(f"{section}.labels", getattr(self, section).labels, self.corpus.resolvers)
        kept = "text_memory", "kept_cache", "kept_keys", "kept_pointer"
        for step in filter(self.runs_step, kept):
            section = getattr(self, step)
            for labels in (section.parts, *(kept.labels for kept in section.kept)):
                check_layer(f"{step}.labels", labels, self.corpus.resolvers)
        read = {"transfer": self.transfer.named, "choices": self.choices.tasks}
        for step in filter(self.runs_step, read):
            if lacking := {*read[step]}.difference(self.examples.tasks):
                yield f"{step}.tasks: {sorted(lacking)[0]} is not among examples.tasks: add it"
        if self.runs_step("transfer"):
            tuned = (entry.name for entry in self.entries("finetunes"))
            seeds = {one: self.seeds_of(one) for one in tuned if self.takes_part(one, "transfer")}
            self.transfer.check_study(self.models, seeds)
        for step in filter(self.runs_step, ("mentions", "capacity")):
            entries = self.entries(*STEPS[step].needs or ())
            taking = [one for one in entries if self.takes_part(one.name, step)]
            windows = {self.reading(one)["window"] for one in taking}
            if len(windows) > 1:
                yield (
                    f"{step}: its models read windows of {' and '.join(map(str, sorted(windows)))}"
                    " tokens, but whether a mention is near or far depends on the window: give"
                    " them one, or limit the others' steps with `only`"
                )
        reads = any("perplexity.stride" in STEPS[step].also for step in self.study.steps)
        if (reads or self.runs_step("perplexity")) and self.perplexity.stride > self.lm.window:
            yield (
                f"perplexity.stride {self.perplexity.stride} is more than lm.window"
                f" {self.lm.window}"
            )

    def _check_splits(self) -> Iterator[str]:
        """Check that the corpus' format has the splits that sections name, and has its path."""
        reader = find_reader(self.corpus.format)
        there = {*reader.splits, *(["test2"] if self.corpus.second_test else [])}
        for name in self.study.steps:
            section = getattr(self, name, None)
            values = [getattr(section, key, ()) for key in ("splits", "choose", "report")]
            named = {s for v in values for s in ([v] if isinstance(v, str) else v)}
            if strange := sorted(named - there) if name != "transfer" else []:
                yield f"{name}: format {reader.name} has no split {', '.join(strange)}"
        if reader.needs_path and self.corpus.path is None:
            yield (
                f"corpus.path is null, but format {reader.name} is your own corpus: name its file"
                " or folder"
            )


if TYPE_CHECKING:
    Params = _Base
else:
    sections = {name: (step.params, ...) for name, step in STEPS.items() if step.params}
    Params = create_model("Params", __base__=_Base, **sections)


def load(path: Path, overrides: Mapping[str, Any] | None = None) -> Any:
    """Load the study of a file, ``params.yaml`` or ``studies/NAME.yaml``, or of a name, with
    ``overrides`` (values by SECTION.KEY) applied. Anything wrong with it, or with the studies whose
    weights or encoder it names, raises ParamsError with file, key and value.
    """
    if str(path) == path.stem and not path.exists():
        path = find_study(path.name)
    values = read_study(path)
    override(values, overrides or {}, path)
    params = parse({**values, "name": find_name(path)}, str(path))
    check_origins(params, path)
    return params


def parse(values: Any, source: str) -> Any:
    """Check the values of study ``source``; ParamsError lists every wrong key with its value."""
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        lines = [_explain(problem) for problem in error.errors()]
        many = "" if len(lines) == 1 else f"{len(lines)} bad parameters\n  "
        raise ParamsError(f"{source}: {many}" + "\n  ".join(lines)) from None


def _explain(problem: Any) -> str:
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
    """Refuse weights and encoders of other studies that do not exist or do not fit; ``path`` is
    the study's file, ``above`` are the studies that name this one.
    """
    encoder = read_origin(params.tokenizer.path)
    named = [("tokenizer.path", None, encoder)] + [
        (f"models.{e.name}: initial_weights {e.initial_weights}", e, read_origin(e.initial_weights))
        for e in params.entries()
    ]
    for key, entry, origin in named:
        if origin is None:
            continue
        chain = (*above, params.name)
        if entry is not None and origin.study == params.name:
            if problem := _misfit(entry, params, origin) or _find_circle(entry, params):
                raise ParamsError(f"{path}: {key}: {problem}")
            continue
        if origin.study in chain:
            raise ParamsError(f"{path}: {key}: circular: {' -> '.join((*chain, origin.study))}")
        file = find_study(origin.study, path, f"{path}: {key}: ")
        other = parse({**read_study(file), "name": origin.study}, str(file))
        check_origins(other, file, chain)
        if entry is None:
            continue
        theirs = read_origin(other.tokenizer.path) or origin
        if encoder is None or encoder.study not in (origin.study, theirs.study):
            raise ParamsError(
                f"{path}: {key}: its tokens are those of study {origin.study}: set tokenizer to"
                f" {{kind: study, path: study:{origin.study}}}"
            )
        if problem := _misfit(entry, other, origin):
            raise ParamsError(f"{path}: {key}: {problem}")


def _find_circle(entry: ModelEntry, params: Any) -> str:
    """Return why an entry starts from itself, maybe by way of others of its study; "" if not."""
    names, origin = [entry.name], read_origin(entry.initial_weights)
    while origin and origin.study == params.name and origin.model in params.models:
        names.append(origin.model)
        if origin.model in names[:-1]:
            return f"circular: {' -> '.join(names)}"
        origin = read_origin(params.model(origin.model).initial_weights)
    return ""


def _misfit(entry: ModelEntry, other: Any, origin: Origin) -> str:
    """Return why an entry can't start from a model of another study; "" if it can."""
    if origin.model not in other.models or not other.runs_step("lm"):
        return f"study {origin.study} trains {', '.join(other.models)}"
    if origin.seed not in (seeds := other.seeds_of(origin.model)):
        known = ", ".join(map(str, seeds))
        return f"study {origin.study} trains {origin.model} with seeds {known}"
    found = other.model(origin.model)
    if found.kind.name not in {entry.kind.name, *entry.kind.also}:
        return f"kind {entry.kind.name} cannot start from kind {found.kind.name}"
    for name, called in SHAPE.items():
        if not hasattr(entry.lm, name):  # static vectors have only a width
            continue
        here, there = getattr(entry.lm, name), getattr(found.lm, name)
        if here != there and not (name == "context" and entry.kind.cuts and here < there):
            return f"{called} {here} here, {there} there"
    if entry.kind.name == found.kind.name and entry.extra != found.extra:
        return f"{entry.extra} matched numbers per layer here, {found.extra} there"
    return ""
