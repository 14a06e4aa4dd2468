"""Writes what is generated: a study's params.yaml and dvc.yaml, and code.json."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from entity_transformers.artifacts import write_text
from entity_transformers.cli.flags import Flag
from entity_transformers.study.params import Params, load
from entity_transformers.study.resolve import DIFFERENCES
from entity_transformers.study.resolve import resolve_study as resolve
from entity_transformers.study.stages import render_code, render_stages


def check_params(params: Params) -> None:
    """Print the params as JSON, every value typed."""
    print(params.model_dump_json(indent=2))


def resolve_study(study: Path) -> None:
    """params.yaml of a study, from its study.yaml and what that is based on."""
    write_text(study / "params.yaml", resolve(study))


def write_study(study: Path) -> None:
    """params.yaml, where the study has a study.yaml, and dvc.yaml."""
    if (study / DIFFERENCES).exists():
        resolve_study(study)
    write_text(study / "dvc.yaml", render_stages(load(study / "params.yaml")))


def write_code(output: Annotated[Path, Flag("code.json", "FILE")]) -> None:
    """code.json: a digest of each step's code."""
    write_text(output, render_code())
