"""Weights and encoders that a study takes over from another one, by name: ``study:NAME/MODEL/SEED``
and ``study:NAME``. Snakemake and DVC make them from the other study's files an edge of the DAG.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STUDY, HUB = "study:", "hub:"
_WEIGHTS = re.compile(r"study:([A-Za-z0-9][\w.-]*)/([a-z0-9][a-z0-9_-]*)/(\d+)")
_TOKENIZER = re.compile(r"study:([A-Za-z0-9][\w.-]*)")
WEIGHTS = ("config.json", "model.safetensors")


@dataclass(frozen=True)
class Origin:
    """A model of another study: study, entry of its section models, seed."""

    study: str
    model: str
    seed: int

    @property
    def folder(self) -> str:
        """Where its weights lie, relative to the checkout."""
        return f"studies/{self.study}/results/lm/{self.model}/{self.seed}"

    @property
    def files(self) -> tuple[str, ...]:
        """The files of its weights, relative to the checkout."""
        return tuple(f"{self.folder}/{name}" for name in WEIGHTS)


def read_origin(value: str | None) -> Origin | None:
    """The model that ``initial_weights`` names in another study; None for a folder, the hub and
    null. A ``study:`` that is none raises ValueError.
    """
    if value is None or not value.startswith(STUDY):
        return None
    if not (match := _WEIGHTS.fullmatch(value)):
        raise ValueError(f"{value!r}, expected study:NAME/MODEL/SEED, as in study:books/gpt2/1")
    return Origin(match[1], match[2], int(match[3]))


def check_weights(value: str | None) -> str | None:
    """``value``, or ValueError for a ``study:`` that is none."""
    read_origin(value)
    return value


def read_tokenizer_origin(value: str | None) -> str | None:
    """The study whose encoder ``tokenizer.path`` names; None for a folder and null."""
    if value is None or not value.startswith(STUDY):
        return None
    if not (match := _TOKENIZER.fullmatch(value)):
        raise ValueError(f"{value!r}, expected study:NAME, as in study:books")
    return match[1]


def tokenizer_file(study: str) -> str:
    """Where a study's encoder lies, relative to the checkout."""
    return f"studies/{study}/results/corpus/tokenizer.json"


def place(key: str, value: str, folder: Path, root: str) -> str:
    """The path that a value of params.yaml stands for: relative to ``folder``, that of the
    params.yaml, or to the checkout ``root`` where it names a study. The hub's names stay as they
    are.
    """
    if value.startswith(HUB):
        return value
    if not value.startswith(STUDY):
        return str(folder / Path(value).expanduser())
    if key == "initial_weights":
        origin = read_origin(value)
        return str(folder / root / origin.folder) if origin else value
    study = read_tokenizer_origin(value)
    return str(folder / root / tokenizer_file(study)) if study else value


def is_own_path(value: Any) -> bool:
    """Does a value name a file or folder of the user's, and not a study or a model of the hub?"""
    return isinstance(value, str) and not value.startswith((STUDY, HUB))
