"""What DVC reads: the dvc.yaml of a study, a stage per step with the files, values and code that
Snakemake's rules have, and code.yaml with the digests of the code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from entity_transformers.study import plan
from entity_transformers.study.params import Params
from entity_transformers.study.steps import STEPS, Step

HEADER = """\
# Written by `make generate` from params.yaml and the steps of src/entity_transformers/study/steps.
"""
CODE = "${root}/code.yaml"
MODEL, SEED, KIND = "${item.model}", "${item.seed}", "${item.kind}"


def render_stages(params: Params) -> str:
    """The text of the dvc.yaml of a study."""
    stages = {name: _stage(params, STEPS[name]) for name in params.study.steps}
    return HEADER + yaml.dump(
        {"stages": stages}, Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True
    )


CODE_HEADER = """\
# Digests of the code of each step, without comments and docstrings; by kind of model where it builds
# or loads some. Written by `make generate`; DVC compares them, Snakemake computes its own.
"""


def render_code() -> str:
    """The text of code.yaml."""
    return CODE_HEADER + yaml.safe_dump(plan.list_code())


class _OneLine(dict[str, Any]):
    """A mapping that is written on one line."""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    _OneLine,
    lambda dumper, value: dumper.represent_mapping(
        "tag:yaml.org,2002:map", value.items(), flow_style=True
    ),
)


def _stage(params: Params, step: Step) -> dict[str, Any]:
    if step.needs is None:
        reads = [file for files in plan.inputs(step).values() for file in files]
        if step.summary:
            reads = plan.measured(params)
        values, code = plan.value_keys(params, step), plan.code_keys(params, step)
        return _body(step, values, code, [*reads, *plan.user_files(params, step)])
    runs = plan.list_runs(params, step)
    values, also = _share({m: plan.value_keys(params, step, m) for m, _ in runs}, params)
    code, code_also = _share({m: plan.code_keys(params, step, m) for m, _ in runs}, params)
    items = {}
    for model, seed in runs:
        item = _OneLine(model=model, seed=seed, kind=params.models[model]["kind"])
        if any(also.values()):
            item["values"] = also[model]
        if any(code_also.values()):
            item["code"] = code_also[model]
        items[f"{model}-{seed}"] = item
    values += [f"${{item.values[{i}]}}" for i in range(len(also[runs[0][0]]))]
    code += [f"${{item.code[{i}]}}" for i in range(len(code_also[runs[0][0]]))]
    reads = [file for files in plan.inputs(step, MODEL, SEED).values() for file in files]
    return {"foreach": items, "do": _body(step, values, code, reads)}


def _share(
    keys: Mapping[str, list[str]], params: Params
) -> tuple[list[str], dict[str, list[str]]]:
    """The keys of every model, its name and kind left open, and further ones by model.

    DVC puts no list in the place of a list, so all models have as many further ones, some twice.
    """
    templates = {}
    for model, own in keys.items():
        kind = params.models[model]["kind"]
        open_ = {f"models.{model}": f"models.{MODEL}"} | {
            f"{step}.{kind}": f"{step}.{KIND}" for step in STEPS
        }
        templates[model] = [open_.get(key, key) for key in own]
    lists = list(templates.values())
    shared = [key for key in lists[0] if all(key in other for other in lists)]
    further = {
        model: [key for key in own if key not in shared] for model, own in templates.items()
    }
    most = max(map(len, further.values()))
    filled = {
        model: own + keys[model][:1] * (most - len(own)) for model, own in further.items()
    }
    return shared, filled


def _body(step: Step, values: list[str], code: list[str], reads: list[str]) -> dict[str, Any]:
    folder = plan.folder(step, MODEL, SEED)
    kept = _OneLine(cache=False)
    outs: list[Any] = [f"{folder}/{file}" for file in step.large]
    outs += [{f"{folder}/{file}": kept} for file in step.kept]
    if step.folder:
        outs.append({folder: kept})
    body = {
        "cmd": (
            "snakemake --snakefile ${root}/Snakefile --allowed-rules"
            f" {' '.join(step.rules)} -- {folder}/{step.target}"
        ),
        "params": [*values, {CODE: code}],
        "deps": reads,
        "outs": outs,
        "metrics": [{f"{folder}/{file}": kept} for file in step.metrics],
        "plots": [
            {f"{folder}/{file}": _OneLine(cache=False, x=x, y=y)}
            for file, (x, y) in step.plots.items()
        ],
    }
    return {key: value for key, value in body.items() if value}
