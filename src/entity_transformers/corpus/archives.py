"""Unpacking archives that nobody vouches for: no path outside the folder, no link, no device, and
not too much.
"""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.lines import shown

MOST_BYTES = 8_000_000_000
MOST_FILES = 500_000
_CHUNK = 1 << 20
_DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
)

Member = tuple[str, int, IO[bytes]]
"""Name, size in bytes, and an open stream."""


def is_archive(path: Path) -> bool:
    """Whether a file is a zip or a tar archive (compressed or not); one cut within its first header
    is not.
    """
    try:
        return (
            path.is_file()
            and path.suffix != ".parquet"
            and (zipfile.is_zipfile(path) or tarfile.is_tarfile(path))
        )
    except _DAMAGED:
        return False


def extract(
    archive: Path, target: Path, *, most_bytes: int = MOST_BYTES, most_files: int = MOST_FILES
) -> Path:
    """Unpack a zip or tar archive below ``target``; CorpusError, before anything is written for it,
    at a bad member.
    """
    members = _zip_members(archive) if zipfile.is_zipfile(archive) else _tar_members(archive)
    total = count = 0
    try:
        for name, size, stream in members:
            total, count = total + size, count + 1
            if total > most_bytes or count > most_files:
                limit = f"more than {most_bytes} bytes or {most_files} files"
                raise CorpusError(
                    f"{archive}: {limit} once unpacked: unpack it yourself and give the folder"
                )
            _write(stream, _inside(name, target, archive), size, archive)
    except _DAMAGED as error:
        raise CorpusError(
            f"{archive}: not a whole archive ({shown(str(error))}): fetch it again"
        ) from None
    return target


def _inside(name: str, target: Path, archive: Path) -> Path:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if not parts or parts[0].startswith("/") or ".." in parts or ":" in parts[0] or "\0" in name:
        raise CorpusError(
            f"{archive}: member {shown(name)} would leave the folder it is unpacked in: do not use"
            " this archive"
        )
    return target.joinpath(*parts)


def _write(stream: IO[bytes], path: Path, size: int, archive: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        while chunk := stream.read(_CHUNK):
            size -= len(chunk)
            if size < 0:
                raise CorpusError(
                    f"{archive}: member {shown(path.name)} is longer than the archive says: do not"
                    " use this archive"
                )
            file.write(chunk)


def _zip_members(archive: Path) -> Iterator[Member]:
    with zipfile.ZipFile(archive) as file:
        for info in file.infolist():
            kind = info.external_attr >> 28
            if kind not in (0, 0o4, 0o10):
                raise CorpusError(
                    f"{archive}: member {shown(info.filename)} is a link or device, expected files:"
                    " do not use this archive"
                )
            if not info.is_dir():
                with file.open(info) as stream:
                    yield info.filename, info.file_size, stream


def _tar_members(archive: Path) -> Iterator[Member]:
    with tarfile.open(archive) as file:
        for info in file:
            if not (info.isreg() or info.isdir()):
                raise CorpusError(
                    f"{archive}: member {shown(info.name)} is a link or device, expected files: do"
                    " not use this archive"
                )
            if info.isreg() and (stream := file.extractfile(info)):
                with stream:
                    yield info.name, info.size, stream
        if file.fileobj:
            # to the end, where the checksum of a compressed archive stands
            file.fileobj.read(_CHUNK)
