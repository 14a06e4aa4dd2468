"""Folders that a model of transformers was saved to, read back and started from."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from entity_transformers.artifacts import named_errors, read_json
from entity_transformers.models.base import LanguageModel, opened

TRUSTED = {"use_safetensors": True, "trust_remote_code": False, "local_files_only": True}

logging.disable_progress_bar()  # a log has no use for the bars of loading and saving


class Pretrained(LanguageModel):
    """A `LanguageModel` whose module is transformers' own."""

    module: Any

    def save(self, folder: Path) -> None:
        save_folder(self.module, folder)

    def checkpoint_activations(self) -> None:
        # transformers 5.23 has renamed it
        enable = getattr(self.module, "activation_checkpointing_enable", None)
        (enable or self.module.gradient_checkpointing_enable)()


class ReadByLayer(Pretrained):
    """One whose layers ``_read`` calls one by one; it shows or recomputes what it is told to."""

    _read: Callable[..., Any]
    shown = recompute = False

    def show_attention(self) -> None:
        self.shown = True

    @property
    def heads(self) -> int:
        return self.module.config.n_head

    def compile(self, mode: str) -> None:
        self._read = torch.compile(self._read, mode=mode)

    def checkpoint_activations(self) -> None:
        self.recompute = True


def make(
    of: Any,
    config: Any,
    seed: int,
    weights: str | None,
    also: str = "",
    new: str = "",
    under: Callable[[], Any] | None = None,
) -> Any:
    """A model of class ``of`` and of ``config`` with random weights from ``seed``, but those that
    it shares with ``under()``; or with the ``weights`` of a folder, as `start_from` takes them.
    """
    torch.manual_seed(seed)
    if weights is not None:
        return start_from(Path(weights), config, of, also, new)
    shared = {} if under is None else under().state_dict()
    model = of(config)
    if shared:
        model.load_state_dict(shared, strict=False)
    return model


def save_folder(module: Any, folder: Path) -> None:
    """Write config.json and model.safetensors; whatever goes wrong is an OSError that names the
    folder.
    """
    with named_errors(folder):
        module.save_pretrained(folder)


def read_folder(folder: Path, of: Any) -> Any:
    """The saved model in float32, of the class ``of``.

    Nothing saved there raises FileNotFoundError, a model of another type or weights that are no
    safetensors ValueError.
    """
    with opened(folder):
        check_type(folder, [of.config_class.model_type])
        return of.from_pretrained(folder, dtype=torch.float32, **TRUSTED)


def start_from(folder: Path, config: Any, of: Any, also: str = "", new: str = "") -> Any:
    """A model of class ``of`` and of ``config`` with the weights of a folder, in float32; those
    whose names have ``new`` in them may be missing there. ``also``: another type that it may be of.
    Of a GPT with more positions than ``config`` the first are taken: a shorter window.

    Nothing saved there raises FileNotFoundError, a model of another type or shape ValueError.
    """
    with opened(folder):
        check_type(folder, [config.model_type, *filter(None, [also])])
        longer = _find_longer(folder, config)
        model, info = of.from_pretrained(
            folder,
            config=longer or config,
            dtype=torch.float32,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are told below, with the folder
            **TRUSTED,
        )
    wrong = [
        f"{key} is {list(found)}, not {list(wanted)}"
        for key, found, wanted in info["mismatched_keys"]
    ]
    missing = [key for key in info["missing_keys"] if not new or new not in key]
    wrong += [f"{key} is not there" for key in missing]
    wrong += [f"{key} is too many" for key in info["unexpected_keys"]]
    if wrong:
        raise ValueError(
            f"{folder}: no {config.model_type} checkpoint of this shape ({sorted(wrong)[0]}):"
            " give the entry its layers, heads, width and window, or leave initial_weights out"
        )
    return model if longer is None else _shorten(model, of(config))


def _find_longer(folder: Path, config: Any) -> Any:
    """The config with as many positions as the saved model has, if that has more."""
    saved = read_json(folder / "config.json").get("n_positions")
    wanted = getattr(config, "n_positions", None)
    if not (isinstance(saved, int) and isinstance(wanted, int) and saved > wanted):
        return None
    longer = copy.deepcopy(config)
    longer.n_positions = saved
    return longer


def _shorten(model: Any, short: Any) -> Any:
    """``short``, which differs in nothing but that it has fewer positions, with the weights."""
    weights = model.state_dict()
    for name, own in short.state_dict().items():
        weights[name] = weights[name][: len(own)]  # all of it, but of the embeddings of positions
    short.load_state_dict(weights)
    return short.eval()  # as transformers gives one


def check_type(folder: Path, expected: list[str]) -> None:
    """ValueError for a saved model of another type than those ``expected``."""
    found = read_json(folder / "config.json").get("model_type")
    if found not in expected:
        raise ValueError(
            f"{folder}: a model of type {found!r}, expected {' or '.join(map(repr, expected))}:"
            " name another folder"
        )
