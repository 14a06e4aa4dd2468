"""Weights and encoders that a study takes over from another one, by name: ``study:NAME/MODEL/SEED``
and ``study:NAME``. They are inputs of the same DAG as everything else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

STUDY, HUB, PIP = "study:", "hub:", "pip:"
_WEIGHTS = re.compile(r"study:([a-z0-9][\w-]*)/([a-z0-9][a-z0-9_-]*)/(\d+)")
_TOKENIZER = re.compile(r"study:([a-z0-9][\w-]*)")
WEIGHTS = ("config.json", "model.safetensors")


@dataclass(frozen=True)
class Origin:
    """A model of another study: study, entry of its section models, seed."""

    study: str
    model: str
    seed: int

    @property
    def folder(self) -> str:
        """Where its weights lie, relative to the top folder."""
        return f"data/{self.study}/models/{self.model}/{self.seed}"

    @property
    def files(self) -> list[str]:
        """The files of its weights."""
        return [f"{self.folder}/{name}" for name in WEIGHTS]


def read_origin(value: str | None) -> Origin | None:
    """The model that ``initial_weights`` names in another study; None for a folder, the hub and
    null. Text that begins with ``study:`` and names no model raises ValueError.
    """
    if value is None or not value.startswith(STUDY):
        return None
    if not (match := _WEIGHTS.fullmatch(value)):
        raise ValueError(f"{value!r}, expected study:NAME/MODEL/SEED, as in study:books/gpt2/1")
    return Origin(match[1], match[2], int(match[3]))


def check_weights(value: str | None) -> str | None:
    """``value``; ValueError where it begins with ``study:`` and names no model."""
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
    """Where a study's encoder lies, relative to the top folder."""
    return f"data/{study}/text/corpus/tokenizer.json"


def find_path(value: str | None) -> str | None:
    """The path that a value stands for: a model's or an encoder's of another study, or the user's
    own, relative to the folder in which a command runs. Names of the hub stay as they are.
    """
    if value is None or not value.startswith(STUDY):
        return value
    if origin := _WEIGHTS.fullmatch(value) and read_origin(value):
        return origin.folder
    study = read_tokenizer_origin(value)
    return tokenizer_file(study) if study else value


def is_own_path(value: Any) -> bool:
    """Does a value name a file or folder of the user's, and not a study, package or model of the
    hub?
    """
    return isinstance(value, str) and not value.startswith((STUDY, HUB, PIP))
