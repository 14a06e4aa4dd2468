"""What each step depends on.

dvc.yaml alone says which params sections and which code files belong to a step; from it comes here, for every rule of the
step, its one param `digest`.
"""

import json
import sys
from pathlib import Path

import yaml

from entity_transformers import params as parameters
from entity_transformers import runtime, sections

STAGES = yaml.safe_load(
    (Path(workflow.basedir) / "dvc.yaml").read_text(encoding="utf-8")
)["stages"]
try:
    PARAMS = parameters.load(Path("params.yaml"))
except parameters.ParamsError as error:
    sys.exit(f"snakemake: {error}")

MODELS, SEEDS = PARAMS.study.models, PARAMS.study.seeds
SPLITS = sections.SPLITS  # one that the corpus lacks is an empty file
RUN = "{model}/{seed}"
BIN = Path(sys.executable).parent


shell.prefix(f'set -euo pipefail; export PATH="{BIN}:$PATH" PYTHONUNBUFFERED=1; ')


wildcard_constraints:
    model="|".join(MODELS),
    seed="|".join(map(str, SEEDS)),
    split="|".join(SPLITS),
    anomaly="|".join(PARAMS.anomalies.candidates),


def digest(step, without=()):
    """All that the step depends on besides its files, as one text: its params sections and a checksum of its code.

    Snakemake compares params sorted and without their names, so several would let a swap of two values go unseen.
    `without` names values that only say which runs there are.
    """
    source = "${root}/src/entity_transformers/"
    code = [
        dep.removeprefix(source)
        for dep in STAGES[step]["deps"]
        if dep.startswith(source)
    ]
    sections = {
        name: getattr(PARAMS, name).model_dump(mode="json", exclude=set(without))
        for name in STAGES[step]["params"]
    }
    files = {name: local_files(section) for name, section in sections.items()}
    return json.dumps(
        {"code": runtime.code_digest(*code), "files": files, **sections}, sort_keys=True
    )


def local_files(section):
    """Checksums of the files that a section names by a path of the user's: changed ones re-run what reads them."""
    paths = [section[key] for key in ("path", "initial_weights") if section.get(key)]
    return [
        runtime.file_digest(file) for path in paths for file in runtime.list_files(path)
    ]


def runs(pattern):
    """`pattern` for every trained model: {model} and {seed}."""
    return expand(pattern, model=MODELS, seed=SEEDS)
