"""What DVC reads: the dvc.yaml of a study, a stage per step with the files, values and code that
Snakemake's rules have, and code.yaml with the digests of the code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from entity_transformers.study.params import Params
from entity_transformers.study.plan import Plan, folder, inputs, list_code
from entity_transformers.study.resolve import DIFFERENCES, resolve_study
from entity_transformers.study.steps import STEPS, Step

HEADER = """\
# Written by `make generate` from params.yaml and the steps of src/entity_transformers/study/steps.
"""
CODE = "${root}/code.yaml"
TOKENIZER = "results/corpus/tokenizer.json"
MODEL, SEED, KIND = "${item.model}", "${item.seed}", "${item.kind}"


def render_stages(params: Params) -> str:
    """The text of the dvc.yaml of a study."""
    plan = Plan(params)
    stages = {step.name: _stage(plan, step) for step in plan.steps}
    return HEADER + yaml.dump(
        {"stages": stages}, Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True
    )


CODE_HEADER = """\
# Digests of the code of each step, without comments and docstrings; by kind of model where it
# builds or loads some. Written by `make generate`; DVC compares them, Snakemake computes its own.
"""


def render_code() -> str:
    """The text of code.yaml."""
    return CODE_HEADER + yaml.safe_dump(list_code())


def find_stale(study: Path, root: Path) -> list[str]:
    """A line for each generated file of a study, and of the checkout, that is not what it would be
    if it were written now. Snakemake goes by params.yaml and by the code itself, DVC by both files.
    """
    found = []
    if (study / DIFFERENCES).is_file() and _differs(
        study / "params.yaml", lambda: resolve_study(study)
    ):
        found.append(f"params.yaml is not what {DIFFERENCES} comes to: make generate")
    if _differs(root / "code.yaml", render_code):
        found.append(
            "code.yaml is older than the code, so DVC would re-run too little: make generate"
        )
    return found


def _differs(path: Path, render: Callable[[], str]) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") != render()


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


def _stage(plan: Plan, step: Step) -> dict[str, Any]:
    if step.needs is None:
        reads = [file for files in inputs(step).values() for file in files]
        if step.summary:
            reads = plan.measured()
        values, code = plan.value_keys(step), plan.code_keys(step)
        return _body(step, values, code, [*reads, *plan.taken(step), *plan.user_files(step)])
    runs, models = plan.runs(step), plan.params.models
    values, also = _share({m: plan.value_keys(step, m) for m, _ in runs}, models)
    code, code_also = _share({m: plan.code_keys(step, m) for m, _ in runs}, models)
    taken = {model: plan.taken(step, model) for model, _ in runs}
    most = max(map(len, taken.values()))
    items = {}
    for model, seed in runs:
        item = _OneLine(model=model, seed=seed, kind=models[model]["kind"])
        if also[model]:
            item["values"] = also[model]
        if code_also[model]:
            item["code"] = code_also[model]
        if most:
            # DVC puts no list in the place of a list, so a model with less names a file twice
            item["taken"] = (taken[model] + [TOKENIZER] * most)[:most]
        items[f"{model}-{seed}"] = item
    values += [f"${{item.values[{i}]}}" for i in range(len(also[runs[0][0]]))]
    code += [f"${{item.code[{i}]}}" for i in range(len(code_also[runs[0][0]]))]
    reads = [file for files in inputs(step, MODEL, SEED).values() for file in files]
    reads += [f"${{item.taken[{i}]}}" for i in range(most)]
    return {"foreach": items, "do": _body(step, values, code, reads)}


def _share(
    keys: Mapping[str, list[str]], models: Mapping[str, Mapping[str, Any]]
) -> tuple[list[str], dict[str, list[str]]]:
    """The keys of every model, its name and kind left open, and further ones by model.

    DVC puts no list in the place of a list, so all models have as many further ones, some twice.
    """
    templates = {}
    for model, own in keys.items():
        kind = models[model]["kind"]
        open_ = {f"models.{model}": f"models.{MODEL}"} | {
            f"{step}.{kind}": f"{step}.{KIND}" for step in STEPS
        }
        templates[model] = [open_.get(key, key) for key in own]
    lists = list(templates.values())
    shared = [key for key in lists[0] if all(key in other for other in lists)]
    further = {model: [key for key in own if key not in shared] for model, own in templates.items()}
    most = max(map(len, further.values()))
    filled = {model: own + keys[model][:1] * (most - len(own)) for model, own in further.items()}
    return shared, filled


def _body(step: Step, values: list[str], code: list[str], reads: list[str]) -> dict[str, Any]:
    home = folder(step, MODEL, SEED)
    kept = _OneLine(cache=False)
    outs: list[Any] = [f"{home}/{file}" for file in step.large]
    outs += [{f"{home}/{file}": kept} for file in step.kept]
    if step.folder:
        outs.append({home: kept})
    body = {
        "cmd": (
            "snakemake --snakefile ${root}/Snakefile --allowed-rules"
            f" {' '.join(step.rules)} -- {home}/{step.target}"
        ),
        "params": [*values, {CODE: code}],
        "deps": reads,
        "outs": outs,
        "metrics": [{f"{home}/{file}": kept} for file in step.metrics],
        "plots": [
            {f"{home}/{file}": _OneLine(cache=False, x=x, y=y)}
            for file, (x, y) in step.plots.items()
        ],
    }
    return {key: value for key, value in body.items() if value}
