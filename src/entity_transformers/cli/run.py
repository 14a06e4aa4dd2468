"""Runs one step of a study, and says what the steps are."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from entity_transformers.cli.flags import Flag, describe_section
from entity_transformers.kinds import KINDS, LmParams
from entity_transformers.step import Run, execute
from entity_transformers.study.params import STEPS, load
from entity_transformers.study.plan import runs_per_model
from entity_transformers.study.values import read_yaml

STUDY = Annotated[Path, Flag("name or file of the study", "STUDY")]


def run(
    step: Annotated[str, Flag("see `entity-transformers steps`", positional=True)],
    study: STUDY = Path("params.yaml"),
    model: Annotated[str, Flag("one of the study's models, for a step that runs per model")] = "",
    seed: Annotated[int | None, Flag("one of its seeds, for a step that runs per model")] = None,
    set: Annotated[tuple[str, ...], Flag("override a study's value", "SECTION.KEY=VALUE")] = (),
) -> None:
    """Run one step: its files go below data/STUDY, and with them run.json, which says where they
    come from.
    """
    if step not in STEPS:
        raise ValueError(f"step {step!r}, expected one of {', '.join(STEPS)}")
    params, one = load(study, _read_overrides(set)), STEPS[step]
    if runs_per_model(one) and (not model or seed is None):
        raise ValueError(f"step {step} runs per model: name one by --model and --seed")
    if not runs_per_model(one) and model:
        raise ValueError(f"step {step} runs once per study: leave out --model and --seed")
    if one.needs is not None:
        params.require(model, step)
    elif one.own is not None and model not in getattr(params, step).models:
        known = ", ".join(getattr(params, step).models)
        raise ValueError(f"--model {model}: expected an entry of {step}.models: {known}")
    execute(Run(params, one, model, seed))


def _read_overrides(texts: tuple[str, ...]) -> dict[str, Any]:
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or "." not in key:
            raise ValueError(f"--set {text}: expected SECTION.KEY=VALUE, as in lm.steps=100")
        found[key] = read_yaml(value)
    return found


def steps(
    step: Annotated[str, Flag("explain the values of this step's section", positional=True)] = "",
) -> None:
    """List the steps in the paper's order, or the values of the section that a step reads."""
    if not step:
        width = max(map(len, STEPS))
        print("\n".join(f"{one.name:{width}}  {one.about}" for one in STEPS.values()))
    elif step == "lm":
        print("\n".join(_describe_models()))
    elif step in STEPS and (section := STEPS[step].params) is not None:
        print("\n".join(describe_section(section, step)))
    else:
        raise ValueError(
            f"step {step!r} has no section of its own, expected one of"
            f" {', '.join(one.name for one in STEPS.values() if one.params or one.name == 'lm')}"
        )


def _describe_models() -> Iterator[str]:
    """The values of section lm, then those that only one kind has."""
    yield from describe_section(LmParams, "lm")
    for kind in KINDS.values():
        for line in describe_section(kind.params, f"kinds.{kind.name}"):
            if line.split(":")[0].rpartition(".")[2] not in LmParams.model_fields:
                yield line


def check_study(study: STUDY = Path("params.yaml")) -> None:
    """Check a study and print it whole as JSON, every value typed."""
    print(json.dumps(load(study).model_dump(mode="json"), indent=2))
