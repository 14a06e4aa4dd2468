"""Which files, values and code each step of a study has, for Snakemake's rules and DVC's stages."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from entity_transformers.kinds import KINDS, param_keys
from entity_transformers.provenance import file_digest, list_files
from entity_transformers.study.code import digest_modules, reach
from entity_transformers.study.params import PATHS, Params
from entity_transformers.study.stamps import Stamps
from entity_transformers.study.steps import STEPS, Step

Run = tuple[str, int]


def list_runs(params: Params, step: Step) -> list[Run]:
    """Model and seed of each run of a step that runs per model: where its kind can do what the step
    needs.
    """
    models = params.entries(*step.needs or ())
    return [(entry.name, seed) for entry in models for seed in params.study.seeds]


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


def targets(params: Params, step: Step) -> list[str]:
    """The last file of each run of a step."""
    return _over_runs(params, step, (step.target,))


def measured(params: Params) -> list[str]:
    """What the summary of a study reads: the numbers of all its steps, and what it names itself."""
    steps = [STEPS[name] for name in params.study.steps]
    files = [file for step in steps if not step.summary for file in _numbers(params, step)]
    for summary in (step for step in steps if step.summary):
        for name, extra in summary.reads.items():
            if name in params.study.steps:
                files += _over_runs(params, STEPS[name], extra)
    return list(dict.fromkeys(files))


def _numbers(params: Params, step: Step) -> list[str]:
    return _over_runs(params, step, step.measured)


def _over_runs(params: Params, step: Step, files: Iterable[str]) -> list[str]:
    if step.needs is None:
        return [f"{folder(step)}/{file}" for file in files]
    runs = list_runs(params, step)
    return [f"{folder(step, *run)}/{file}" for run in runs for file in files]


def value_keys(params: Params, step: Step, model: str | None = None) -> list[str]:
    """The keys of params.yaml that a step, or a run of it, depends on."""
    keys = [key for key in step.params if params.has(key.split(".")[0])]
    if step.name == "lm" and model is not None:
        keys += param_keys(model, params.models, params.kinds)
    if step.trains is not None:
        used = {entry.get("kind") for entry in getattr(params, step.name).models.values()}
        keys += [f"kinds.{kind}" for kind in params.kinds if kind in used]
    return keys


def code_keys(params: Params, step: Step, model: str | None = None) -> list[str]:
    """The keys of code.yaml that a step, or a run of it, depends on."""
    if not loads_models(step):
        return [step.name]
    if model is None:
        entries = getattr(params, step.name).models if step.trains is not None else params.models
        used = {entry["kind"] for entry in entries.values()}
        return [f"{step.name}.{kind}" for kind in KINDS if kind in used]
    entry = params.models[model]
    keys = [f"{step.name}.{entry['kind']}"]
    if step.name == "lm" and entry.get("matched_to") is not None:
        keys.append(f"kinds.{params.models[entry['matched_to']]['kind']}")
    return keys


@cache
def loads_models(step: Step) -> bool:
    """Does the step's code build or load models? Then that of their kinds is part of it."""
    return any(name.startswith("models.") for name in reach(step.start))


def list_code() -> dict[str, Any]:
    """code.yaml: the digest of each step's code, by kind where it builds or loads models, and of
    each kind's parameters.
    """
    steps = {
        step.name: {kind: digest_step(step, kind) for kind in KINDS}
        if loads_models(step)
        else digest_step(step)
        for step in STEPS.values()
    }
    return steps | {"kinds": {kind: digest_modules([_home(kind)]) for kind in KINDS}}


@cache
def digest_step(step: Step, kind: str | None = None) -> str:
    """Digest of the code of a step, with that of a kind of model."""
    start = [*step.start]
    if kind is not None:
        start += [_home(kind), KINDS[kind].home.partition(".")[2]]
    return digest_modules(start, step.data)


def _home(kind: str) -> str:
    return KINDS[kind].params.__module__.partition(".")[2]


def digest_run(
    params: Params, step: Step, model: str | None = None, without: Collection[str] = ()
) -> str:
    """All that a step, or a run of it, depends on besides the files of other steps, as one text.

    Snakemake compares params sorted and without their names, so several would let a swap of two
    values go unseen. ``without``: keys that only say which runs there are.
    """
    values = _plain(params.model_dump(mode="json"))
    kept = {key: _take(values, key) for key in value_keys(params, step, model)}
    for key in without:
        section, _, name = key.partition(".")
        kept[section] = {other: item for other, item in kept[section].items() if other != name}
    code = list_step_code(params, step, model)
    return json.dumps({"code": code, "files": _local_files(kept), "values": kept}, sort_keys=True)


def list_step_code(params: Params, step: Step, model: str | None = None) -> dict[str, str]:
    """The digests of the code that a step, or a run of it, depends on, by key of code.yaml."""
    found = {}
    for key in code_keys(params, step, model):
        home, _, kind = key.partition(".")
        found[key] = (
            digest_modules([_home(kind)])
            if home == "kinds"
            else digest_step(STEPS[home], kind or None)
        )
    return found


def _take(values: Any, key: str) -> Any:
    for part in key.split("."):
        values = values[part]
    return values


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


def user_files(params: Params, step: Step) -> list[str]:
    """The files and folders of the user's that the step's values name."""
    values = params.model_dump(mode="json")
    return _named_paths({key: _take(values, key) for key in value_keys(params, step)})


@cache
def _stamps() -> Stamps:
    return Stamps(Path("work") / "files.json")


def _named_paths(values: Mapping[str, Any]) -> list[str]:
    sections = [section for section in values.values() if isinstance(section, Mapping)]
    return [section[key] for section in sections for key in PATHS if section.get(key)]


def _local_files(values: Mapping[str, Any]) -> list[str]:
    """Digests of the user's files that values name: changed ones re-run what reads them."""
    files = [file for path in _named_paths(values) for file in list_files(path)]
    return [_stamps().get(file, file_digest) for file in files]
