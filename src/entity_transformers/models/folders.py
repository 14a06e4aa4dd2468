"""Folders that a model of transformers was saved to, read back and started from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from entity_transformers.artifacts import read_json
from entity_transformers.models.base import check_folder

logging.disable_progress_bar()  # a log has no use for the bars of loading and saving


def read_folder(folder: Path, of: Any) -> Any:
    """The saved model in float32, of the class ``of``.

    Nothing saved there raises FileNotFoundError, a model of another type ValueError.
    """
    _check_type(folder, of.config_class)
    return of.from_pretrained(folder, dtype=torch.float32, local_files_only=True)


def start_from(folder: Path, config: Any, of: Any) -> Any:
    """A model of class ``of`` and of ``config`` with the weights of a folder, in float32.

    Nothing saved there raises FileNotFoundError, a model of another type or shape ValueError.
    """
    _check_type(folder, type(config))
    model, info = of.from_pretrained(
        folder,
        config=config,
        dtype=torch.float32,
        local_files_only=True,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # they are told below, with the folder
    )
    wrong = [
        f"{key} is {list(found)}, not {list(wanted)}"
        for key, found, wanted in info["mismatched_keys"]
    ]
    wrong += [f"{key} is not there" for key in info["missing_keys"]]
    wrong += [f"{key} is too many" for key in info["unexpected_keys"]]
    if wrong:
        raise ValueError(
            f"{folder}: no {config.model_type} checkpoint of this shape ({sorted(wrong)[0]}):"
            " give the entry its layers, heads, width and window, or leave initial_weights out"
        )
    return model


def _check_type(folder: Path, config_class: Any) -> None:
    check_folder(folder)
    found, expected = read_json(folder / "config.json").get("model_type"), config_class.model_type
    if found != expected:
        raise ValueError(
            f"{folder}: a model of type {found!r}, expected {expected!r}: name another folder"
        )
