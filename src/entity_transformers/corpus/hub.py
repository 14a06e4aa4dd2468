"""CoNLL-2012 from the Hugging Face hub; every failure is reported in words that say what to do."""

from __future__ import annotations

from pathlib import Path

from entity_transformers.corpus.lines import shown
from entity_transformers.corpus.sources import DownloadError

REPOSITORY = "coref-data/conll2012_raw"
FOLDER = "english_v4"
_ELSEWHERE = (
    "To get it: (1) log in to the hub (hf auth login), agree to the terms on"
    " https://huggingface.co/datasets/coref-data/conll2012_raw and run this again; or (2) with the"
    " LDC's licence for OntoNotes 5.0 (LDC2013T19, free of charge), set corpus.path in params.yaml"
    " to your folder of *_gold_conll files. Without it, `snakemake --directory studies/ontogum`"
    " (open data, downloaded) and `snakemake --directory studies/sample` (nothing to download) run"
    " as they are."
)


def fetch_conll2012(cache: Path, *, revision: str | None = None, offline: bool = False) -> Path:
    """Folder with the parquet files of English CoNLL-2012, version 4; its name in the hub's cache
    is the commit.

    DownloadError in one line where the hub, the network or the licence is in the way.
    """
    import huggingface_hub

    try:
        folder = huggingface_hub.snapshot_download(
            REPOSITORY,
            repo_type="dataset",
            allow_patterns=[f"{FOLDER}/*"],
            revision=revision,
            cache_dir=cache / "hub",
            local_files_only=offline,
        )
    # its transports (httpx, hf_xet, ...) change by version, and each has errors of its own
    except Exception as error:
        raise DownloadError(
            f"The corpus of this study, CoNLL-2012 (OntoNotes 5.0), is missing: {_reason(error)}."
            f" {_ELSEWHERE}"
        ) from None
    if not any(Path(folder).glob(f"{FOLDER}/*.parquet")):
        raise DownloadError(
            f"The hub's copy of {REPOSITORY} has no {FOLDER}/*.parquet any more. {_ELSEWHERE}"
        )
    return Path(folder)


def _reason(error: Exception) -> str:
    """Why the hub did not give the files, the special error classes before the general ones."""
    from huggingface_hub import errors

    reasons: dict[type[Exception], str] = {
        errors.GatedRepoError: f"the hub gives {REPOSITORY} only to those who agreed to its terms",
        errors.RepositoryNotFoundError: (
            f"the hub has no {REPOSITORY}, or hides it from you until you log in"
        ),
        errors.RevisionNotFoundError: (
            f"the hub's {REPOSITORY} does not have the revision that was asked for"
        ),
        errors.LocalEntryNotFoundError: (
            "corpus.path is not set, no copy is in the cache, and the hub can't be reached (no"
            " network, or HF_HUB_OFFLINE)"
        ),
        errors.OfflineModeIsEnabled: (
            "corpus.path is not set, no copy is in the cache, and HF_HUB_OFFLINE forbids the hub"
        ),
    }
    other = (
        f"the hub can't be used, or the transfer broke off ({type(error).__name__}:"
        f" {shown(str(error))})"
    )
    return next((reason for kind, reason in reasons.items() if isinstance(error, kind)), other)
