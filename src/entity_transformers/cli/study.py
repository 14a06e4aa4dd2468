"""Writes what is generated: a study's params.yaml and dvc.yaml, and code.json."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

from entity_transformers.artifacts import write_text
from entity_transformers.cli.flags import Flag
from entity_transformers.study.params import Params, load
from entity_transformers.study.resolve import DIFFERENCES
from entity_transformers.study.resolve import resolve_study as resolve
from entity_transformers.study.stages import CODE, render_code, render_stages, stands_alone

log = logging.getLogger(__name__)


def load_study(folder: Path) -> Params:
    """The params of a study's folder; FileNotFoundError where it is none."""
    path = folder / "params.yaml"
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder}: no params.yaml in it, expected the folder of a study, as studies/ontogum"
        )
    return load(path)


def check_params(params: Params) -> None:
    """Print the params as JSON, every value typed."""
    print(params.model_dump_json(indent=2))


def resolve_study(study: Path) -> None:
    """params.yaml of a study, from its study.yaml and what that is based on; it is told where that
    is not what it was.
    """
    path, text = study / "params.yaml", resolve(study)
    if path.is_file() and path.read_text(encoding="utf-8") != text:
        log.info("%s is written anew from %s", path, DIFFERENCES)
    write_text(path, text)


def write_study(study: Path) -> None:
    """params.yaml, where the study has a study.yaml, and dvc.yaml; code.json too in a study that is
    a DVC repository of its own.
    """
    if (study / DIFFERENCES).exists():
        resolve_study(study)
    params, alone = load(study / "params.yaml"), stands_alone(study)
    write_text(study / "dvc.yaml", render_stages(params, alone=alone))
    if alone:
        write_code(study / CODE)


def write_code(output: Annotated[Path, Flag("code.json", "FILE")]) -> None:
    """code.json: a digest of each step's code."""
    write_text(output, render_code())
