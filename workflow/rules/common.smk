"""Parameters, code and parameter digests of each step.

dvc.yaml alone says which params sections and which code files belong to a step; from it comes here, for every rule of the
step, the input `code` and the one param `digest`.
"""

import json
import os
import sys
from pathlib import Path

import yaml

from entity_transformers import params as parameters

PROJECT = Path(workflow.basedir)
STAGES = yaml.safe_load((PROJECT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
try:
    PARAMS = parameters.load(Path("params.yaml"))
except parameters.ParamsError as error:
    sys.exit(f"snakemake: {error}")

MODELS, SEEDS = PARAMS.study.models, PARAMS.study.seeds
SPLITS = parameters.SPLITS  # one that the corpus lacks is an empty file
RUN = "{model}/{seed}"
BIN = Path(sys.executable).parent


shell.prefix(f'set -euo pipefail; export PATH="{BIN}:$PATH" PYTHONUNBUFFERED=1; ')


wildcard_constraints:
    model="|".join(MODELS),
    seed="|".join(map(str, SEEDS)),
    split="|".join(SPLITS),


def code(step):
    """The step's source files: an edited one re-runs its rules."""
    named = [
        dep.replace("${root}", str(PROJECT))
        for dep in STAGES[step]["deps"]
        if dep.startswith("${root}/src")
    ]
    return [
        str(file)
        for path in map(Path, named)
        for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])
    ]


def digest(step):
    """The step's params as one text: Snakemake compares params without their names."""
    return json.dumps(
        {
            name: getattr(PARAMS, name).model_dump(mode="json")
            for name in STAGES[step]["params"]
        },
        sort_keys=True,
    )


def runs(pattern):
    """`pattern` for every trained model: {model} and {seed}."""
    return expand(pattern, model=MODELS, seed=SEEDS)
