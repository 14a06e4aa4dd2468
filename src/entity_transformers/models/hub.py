"""Weights from the Hugging Face hub, to start from."""

from __future__ import annotations

import logging
from pathlib import Path

from entity_transformers.corpus.files import shown
from entity_transformers.corpus.sources import DownloadError
from entity_transformers.models.base import PATTERNS
from entity_transformers.study.origin import HUB

log = logging.getLogger(__name__)


def find_weights(value: str | None) -> Path | None:
    """The folder with the weights that ``initial_weights`` names; those of ``hub:NAME`` or
    ``hub:NAME@COMMIT`` are downloaded where the hub's cache does not have them (DownloadError where
    that fails).
    """
    if value is None or not value.startswith(HUB):
        return None if value is None else Path(value)
    name, _, commit = value.removeprefix(HUB).partition("@")
    folder = _download(name, commit or None)
    if not commit:
        log.warning(
            "%s: the newest commit; hub:%s@%s gives these weights again", value, name, folder.name
        )
    return folder


def _download(name: str, commit: str | None) -> Path:
    import huggingface_hub

    try:
        folder = Path(
            huggingface_hub.snapshot_download(name, revision=commit, allow_patterns=list(PATTERNS))
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
