"""What DVC reads: the dvc.yaml of a study, a stage per step with the files, values and code that
Snakemake's rules have, and code.json with the digests of the code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from entity_transformers.artifacts import DIGESTS
from entity_transformers.study.params import Params
from entity_transformers.study.plan import Plan, folder, inputs, list_code
from entity_transformers.study.resolve import DIFFERENCES, resolve_study
from entity_transformers.study.steps import STEPS, Step

HEADER = """\
# Written by `make generate` from params.yaml and the steps of src/entity_transformers/study/steps.
"""
CODE = "code.json"
REPOSITORY = ".dvc"
TOKENIZER = "results/corpus/tokenizer.json"
MODEL, SEED, KIND = "${item.model}", "${item.seed}", "${item.kind}"


def stands_alone(study: Path) -> bool:
    """Whether the folder is a DVC repository of its own, as the checkout's root is and a study may
    be: DVC then reads no other study, which it does slowly, and knows nothing of any. Such a study
    has a code.json of its own, since DVC compares no file that lies outside with an earlier commit.
    """
    return (study / REPOSITORY).is_dir()


def render_stages(params: Params, *, alone: bool = False) -> str:
    """The text of the dvc.yaml of a study; ``alone``: of one that `stands_alone`."""
    plan = Plan(params)
    # dvc.lock has no ./: DVC would hold the root's own code for new each time
    where = CODE if alone or params.root == "." else f"${{root}}/{CODE}"
    stages = {step.name: _stage(plan, step, where) for step in plan.steps}
    return HEADER + yaml.dump(
        _share_runs(stages), Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True
    )


def _share_runs(stages: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The stages with the runs of most of them listed once: DVC reads every study of a repository
    whenever it is called, and slowly.
    """
    foreach = {name: stage["foreach"] for name, stage in stages.items() if "foreach" in stage}
    lists = [tuple(items) for items in foreach.values()]
    common = max(lists, key=lists.count, default=())
    if lists.count(common) < 2:
        return {"stages": stages}
    runs: dict[str, _OneLine] = {run: _OneLine() for run in common}
    for name, items in foreach.items():
        if tuple(items) == common:
            stages[name]["foreach"] = "${runs}"
            for run, item in items.items():
                runs[run].update(item)
    return {"vars": [{"runs": runs}], "stages": stages}


def render_code() -> str:
    """The text of code.json: digests of the code of each step, without comments and docstrings, by
    kind of model where it builds or loads some. DVC compares them, Snakemake computes its own.
    (JSON: DVC reads it once per stage, YAML costs it twenty times the time.)
    """
    return json.dumps(list_code(), indent=1, sort_keys=True) + "\n"


def find_stale(study: Path, root: Path) -> dict[str, str]:
    """A line for each generated file of a study, and of the checkout, that is not what it would be
    if it were written now: params.yaml, by which Snakemake goes, and code.json, by which DVC does.
    Anything wrong with study.yaml raises ParamsError.
    """
    found = {}
    home = study if stands_alone(study) else root
    if (study / DIFFERENCES).is_file() and _differs(
        study / "params.yaml", lambda: resolve_study(study)
    ):
        found["params.yaml"] = (
            f"params.yaml is not what {DIFFERENCES} comes to: `make generate` writes it anew"
            f" (a value of your own belongs in {DIFFERENCES})"
        )
    if _differs(home / CODE, render_code):
        found["code.json"] = (
            "code.json is older than the code, so DVC would re-run too little: make generate"
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


def _stage(plan: Plan, step: Step, where: str) -> dict[str, Any]:
    if step.needs is None:
        reads = [file for files in inputs(step).values() for file in files]
        if step.summary:
            reads = plan.measured()
        values, code = plan.value_keys(step), plan.code_keys(step)
        reads += [*plan.taken(step), *plan.user_files(step)]
        return _body(step, values, {where: code}, reads)
    runs, models = plan.runs(step), plan.params.models
    values, also = _share({m: plan.value_keys(step, m) for m, _ in runs}, models)
    code, code_also = _share({m: plan.code_keys(step, m) for m, _ in runs}, models)
    taken = {model: plan.taken(step, model) for model, _ in runs}
    most = max(map(len, taken.values()))
    items = {}
    for model, seed in runs:
        item = _OneLine(model=model, seed=seed, kind=models[model]["kind"])
        # DVC puts no list in the place of a list, so a model with less names a file twice
        own = [*also[model], *code_also[model], *(taken[model] + [TOKENIZER] * most)[:most]]
        if own:
            item[step.name] = own
        items[f"{model}-{seed}"] = item
    count = len(also[runs[0][0]]), len(code_also[runs[0][0]]), most
    places = iter(f"${{item.{step.name}[{i}]}}" for i in range(sum(count)))
    values += islice(places, count[0])
    code += islice(places, count[1])
    reads = [file for files in inputs(step, MODEL, SEED).values() for file in files]
    body = _body(step, values, {where: code}, [*reads, *places])
    return {"foreach": items, "do": body}


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


def _body(
    step: Step, values: list[str], code: dict[str, list[str]], reads: list[str]
) -> dict[str, Any]:
    home = folder(step, MODEL, SEED)
    kept = _OneLine(cache=False)
    outs: list[Any] = [f"{home}/{file}" for file in step.large]
    outs += [{f"{home}/{file}": kept} for file in step.small]
    # a folder that is one output holds its own
    outs.append({home if step.folder else f"{home}/{DIGESTS}": kept})
    body = {
        "cmd": (
            "snakemake --snakefile ${root}/Snakefile --allowed-rules"
            f" {' '.join(step.rules)} -- {home}/{step.target}"
        ),
        "params": [*values, code],
        "deps": reads,
        "outs": outs,
    }
    return {key: value for key, value in body.items() if value}
