"""Which runs, files, values and code each step of a study has, for Snakemake's rules and for DVC's
stages.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Collection, Iterable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from entity_transformers.artifacts import read_json
from entity_transformers.digests import file_digests
from entity_transformers.kinds import KINDS, param_keys
from entity_transformers.provenance import list_files
from entity_transformers.study.code import digest_modules, reach
from entity_transformers.study.origin import (
    Origin,
    is_own_path,
    place,
    read_origin,
    read_tokenizer_origin,
    tokenizer_file,
)
from entity_transformers.study.params import PATHS, Params, load
from entity_transformers.study.steps import STEPS, Step

RECORDED = Path("results/report/values.json")
WORK = Path("work")  # of the study; digests of its user's files are kept there


def folder(step: Step, model: object = None, seed: object = None) -> str:
    """Where the results of a step lie, for a step that runs per model those of one run."""
    name = f"results/{step.name}"
    return name if step.needs is None else f"{name}/{model}/{seed}"


def inputs(step: Step, model: object = None, seed: object = None) -> dict[str, list[str]]:
    """The files that a step, or a run of it, reads, by the step that writes them."""
    return {
        name: [f"{folder(STEPS[name], model, seed)}/{file}" for file in files]
        for name, files in step.reads.items()
    }


def outputs(step: Step, model: object = None, seed: object = None) -> list[str]:
    """The files that a step, or a run of it, writes."""
    return [f"{folder(step, model, seed)}/{file}" for file in step.outputs]


class Plan:
    """The plan of a study."""

    def __init__(self, params: Params, home: Path | None = None) -> None:
        """``home``: the study's folder, if it is not the one that this process runs in."""
        self.params, self.home = params, home or Path()
        self.steps = [STEPS[name] for name in params.study.steps]

    def runs(self, step: Step) -> list[tuple[str, int]]:
        """Model and seed of each run of a step that runs per model: where the model's kind can do
        what the step needs.
        """
        models = self.params.entries(*step.needs or ())
        return [(entry.name, seed) for entry in models for seed in self.params.study.seeds]

    def files(self, step: Step, names: Iterable[str]) -> list[str]:
        """The files of a step with these names, of every run where it runs per model."""
        runs: Iterable[tuple[object, object]] = [(None, None)]
        if step.needs is not None:
            runs = self.runs(step)
        return [f"{folder(step, *run)}/{name}" for run in runs for name in names]

    def targets(self) -> list[str]:
        """What is there when the study is done: its summary, or the last file of each run."""
        last = [step for step in self.steps if step.summary] or self.steps
        return [file for step in last for file in self.files(step, (step.target,))]

    def measured(self) -> list[str]:
        """What the summary reads: the numbers of all steps, and what it names itself."""
        read = [(step, step.measured) for step in self.steps if not step.summary]
        for summary in (step for step in self.steps if step.summary):
            read += [
                (STEPS[name], files)
                for name, files in summary.reads.items()
                if STEPS[name] in self.steps
            ]
        return list(dict.fromkeys(file for step, files in read for file in self.files(step, files)))

    def value_keys(self, step: Step, model: str | None = None) -> list[str]:
        """The keys of params.yaml that a step, or a run of it, depends on."""
        keys = [key for key in step.params if self.params.has(key.split(".")[0])]
        if step.builds and model is not None:
            keys += param_keys(model, self.params.models, self.params.kinds)
        if step.trains is not None:
            used = {entry["kind"] for entry in self._own_entries(step).values()}
            keys += [f"kinds.{kind}" for kind in self.params.kinds if kind in used]
        return keys

    def code_keys(self, step: Step, model: str | None = None) -> list[str]:
        """The keys of code.json that a step, or a run of it, depends on."""
        if not loads_models(step):
            return [step.name]
        if model is None:
            used = {entry["kind"] for entry in self._own_entries(step).values()}
            return [f"{step.name}.{kind}" for kind in KINDS if kind in used]
        entry = self.params.models[model]
        keys = [f"{step.name}.{entry['kind']}"]
        if step.builds and entry.get("matched_to") is not None:
            keys.append(f"kinds.{self.params.models[entry['matched_to']]['kind']}")
        return keys

    def _own_entries(self, step: Step) -> Mapping[str, Mapping[str, Any]]:
        """The models that the step trains or loads itself."""
        owner = self.params if step.trains is None else getattr(self.params, step.name)
        entries: Mapping[str, Mapping[str, Any]] = owner.models
        return entries

    def digest(self, step: Step, model: str | None = None) -> str:
        """All that a step, or a run of it, depends on besides other steps' files, as one text:
        Snakemake compares params sorted and without their names, so several would let a swap of two
        values go unseen.
        """
        values = {key: self._value(key) for key in self.value_keys(step, model)}
        return self._text(self.code_keys(step, model), values)

    def recorded(self) -> dict[str, str]:
        """values.json: a digest of the values of each step but the summary, for one that runs per
        model of each STEP/MODEL.
        """
        found = {}
        for step in self.steps:
            runs = [None] if step.needs is None else dict.fromkeys(m for m, _ in self.runs(step))
            for model in () if step.summary else runs:
                values = {key: self._value(key) for key in self.value_keys(step, model)}
                values = place_paths(values, Path(), self.params.root)  # as commands are given them
                text = json.dumps(values, sort_keys=True).encode()
                name = step.name if model is None else f"{step.name}/{model}"
                found[name] = hashlib.sha256(text).hexdigest()[:16]
        return found

    def outdated(self) -> list[str]:
        """Files that are there, made with other values by what values.json records, of which
        Snakemake has no record of its own, by which it would know: in a clone, or after `make
        clean`. One of each run is enough to make it anew.
        """
        path = self.home / RECORDED
        if not path.is_file():
            return []
        try:
            before, now = read_json(path), self.recorded()
        except ValueError:
            return []  # damaged, as verify says
        changed = {name for name in now if before.get(name, now[name]) != now[name]}
        files = []
        for step in self.steps:
            for model, seed in [(None, None)] if step.needs is None else self.runs(step):
                if (step.name if model is None else f"{step.name}/{model}") in changed:
                    old = [file for file in outputs(step, model, seed) if self._is_unknown(file)]
                    files += old if model is None else old[:1]
        return files

    def _is_unknown(self, file: str) -> bool:
        name = base64.b64encode(file.encode()).decode()  # as Snakemake names its records
        record = self.home / ".snakemake/metadata" / name
        return (self.home / file).exists() and not record.exists()

    def digest_entry(self, step: Step, model: str) -> str:
        """`digest` for one of a step's own entries, which further ones do not change."""
        own = {key: self._value(key) for key in step.params}
        kind = self._own_entries(step)[model]["kind"]
        own["kind"] = self._values["kinds"].get(kind)
        own["model"] = self._value(f"{step.name}.models.{model}")
        own[step.name] = _leave_out(own[step.name], ("models", "seeds"))
        return self._text([f"{step.name}.{kind}"], own)

    def _text(self, code: Iterable[str], values: Mapping[str, Any]) -> str:
        files = [file for path in _named_paths(values) for file in list_files(self.home / path)]
        parts = {
            "code": {key: find_code(key) for key in code},
            "files": file_digests(files, WORK),
            "values": values,
        }
        return json.dumps(parts, sort_keys=True)

    @cached_property
    def origins(self) -> dict[str, Origin]:
        """The model of another study that an entry starts from, by entry."""
        found = {e.name: read_origin(e.initial_weights) for e in self.params.entries()}
        return {name: origin for name, origin in found.items() if origin is not None}

    def taken(self, step: Step, model: str | None = None) -> list[str]:
        """The files that a step, or a run of it, reads beside those that all its runs read: of
        other studies, relative to this one, and what a kind's trainer wants of the corpus.
        """
        files: tuple[str, ...] = ()
        own: list[str] = []
        encoder = read_tokenizer_origin(self.params.tokenizer.path)
        if step.name == "corpus" and encoder is not None:
            files = (tokenizer_file(encoder),)
        if step.builds and model in self.origins:
            files = self.origins[model].files
        if step.builds and model is not None:
            reads = self.params.model(model).kind.reads
            own = [f"{folder(STEPS['corpus'])}/{file}" for file in reads]
        return [*own, *(os.path.normpath(f"{self.params.root}/{file}") for file in files)]

    def missing_library(self) -> str:
        """What to install before what has still to be made, in a line; "" for nothing."""
        for step in self.steps:
            made = step.needs is not None or (self.home / folder(step) / step.target).exists()
            if step.missing and not made:
                return f"study.steps: {step.missing}"
            for model, seed in self.runs(step) if step.needs is not None else ():
                kind = self.params.model(model).kind
                own = kind.missing if step.name in kind.start else ""
                made = all((self.home / file).exists() for file in outputs(step, model, seed))
                if (own or step.missing) and not made:
                    return f"models.{model}: {own}" if own else f"study.steps: {step.missing}"
        return ""

    def studies(self) -> dict[tuple[str, str], list[str]]:
        """The files that this study takes from each other one, relative to that one, by (study,
        "encoder" or "weights"): an encoder is there long before weights.
        """
        found: dict[tuple[str, str], list[str]] = {}
        if (encoder := read_tokenizer_origin(self.params.tokenizer.path)) is not None:
            found[encoder, "encoder"] = [tokenizer_file(encoder)]
        for origin in self.origins.values():
            found.setdefault((origin.study, "weights"), []).extend(origin.files)
        return {
            (name, part): [file.removeprefix(f"studies/{name}/") for file in dict.fromkeys(files)]
            for (name, part), files in found.items()
        }

    def digest_study(self, name: str, part: str) -> str:
        """All that the files taken from another study depend on, as one text."""
        home = self.home / self.params.root / "studies" / name
        other = Plan(load(home / "params.yaml"), home)
        models = {origin.model for origin in self.origins.values() if origin.study == name}
        parts = {"corpus": other.digest(STEPS["corpus"])}
        if part == "weights":
            parts |= {model: other.digest(STEPS["lm"], model) for model in sorted(models)}
        below = [key for key in other.studies() if part in ("weights", key[1])]
        parts |= {"/".join(key): other.digest_study(*key) for key in below}
        return json.dumps(parts, sort_keys=True)

    def user_files(self, step: Step) -> list[str]:
        """The files and folders of the user's that the step's values name."""
        values = self.params.model_dump(mode="json")
        return _named_paths({key: _take(values, key) for key in self.value_keys(step)})

    @cached_property
    def _values(self) -> Any:
        return _plain(self.params.model_dump(mode="json"))

    def _value(self, key: str) -> Any:
        return _take(self._values, key)


@cache
def loads_models(step: Step) -> bool:
    """Does the step's code build or load models? Then that of their kinds is part of it."""
    return any(name.startswith("models.") for name in reach(step.start))


def list_code() -> dict[str, Any]:
    """code.json: the digest of each step's code, by kind where it builds or loads models, and that
    of each kind's parameters.
    """
    found: dict[str, Any] = {}
    for step in STEPS.values():
        name = step.name
        if loads_models(step):
            found[name] = {kind: find_code(f"{name}.{kind}") for kind in KINDS}
        else:
            found[name] = find_code(name)
    return found | {"kinds": {kind: find_code(f"kinds.{kind}") for kind in KINDS}}


@cache
def find_code(key: str) -> str:
    """The digest of a key of code.json: STEP, STEP.KIND or kinds.KIND."""
    name, _, kind = key.partition(".")
    start: list[str] = []
    commands: tuple[str, ...] = STEPS[name].start if name in STEPS else ()
    if kind:
        home = KINDS[kind].params.__module__
        start.append(home.partition(".")[2])
    if name == "kinds":
        return digest_modules(start)
    if kind:
        start.append(KINDS[kind].home.partition(".")[2])
        own = KINDS[kind].start.get(name)
        commands = commands if own is None else (own,)
    return digest_modules([*start, *commands], STEPS[name].data)


def _take(values: Any, key: str) -> Any:
    for part in key.split("."):
        values = values[part]
    return values


def _leave_out(section: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in section.items() if key not in keys}


def _plain(value: Any) -> Any:
    """``value`` with numbers as DVC compares them, those that YAML 1.1 takes for text as well."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    try:
        return float(value)
    except ValueError:
        return value


def place_paths(value: Any, folder: Path, root: str) -> Any:
    """``value`` with the paths in it relative to ``folder``, those of studies below ``root``."""
    if not isinstance(value, Mapping):
        return value
    return {
        key: place(key, item, folder, root)
        if key in PATHS and key != "root" and isinstance(item, str)
        else place_paths(item, folder, root)
        for key, item in value.items()
    }


def _named_paths(values: Mapping[str, Any]) -> list[str]:
    sections = [section for section in values.values() if isinstance(section, Mapping)]
    return [section[key] for section in sections for key in PATHS if is_own_path(section.get(key))]
