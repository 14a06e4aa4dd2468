"""Unpacking untrusted archives: no path outside the folder, no link, no device, no excess."""

from __future__ import annotations

import errno
import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.files import shown

MOST_BYTES = 8_000_000_000
MOST_FILES = 500_000
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
_OURS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)  # of the disk it is unpacked on
_CHUNK = 1 << 20


class Member(NamedTuple):
    """Of an archive: name, size once unpacked, whether it is a plain file, and its bytes."""

    name: str
    size: int
    plain: bool
    open: Callable[[], IO[bytes] | None]


def is_archive(path: Path) -> bool:
    """Whether a file is a zip or a tar archive, compressed or not."""
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
    """Unpack an archive below ``target``; a bad member raises CorpusError and is not written."""
    total = count = 0
    try:
        for member in _members(archive):
            total, count = total + member.size, count + 1
            if total > most_bytes or count > most_files:
                limit = f"more than {most_bytes} bytes or {most_files} files"
                raise CorpusError(
                    f"{archive}: {limit} once unpacked: unpack it yourself and give the folder"
                )
            path = target / _check_member(member, archive)
            path.parent.mkdir(parents=True, exist_ok=True)
            with member.open() as content, path.open("wb") as file:  # type: ignore[union-attr]
                shutil.copyfileobj(content, file, _CHUNK)
    except _DAMAGED as error:
        if isinstance(error, OSError) and error.errno in _OURS:
            error.filename = error.filename or str(target)
            raise
        raise CorpusError(
            f"{archive}: not a whole archive ({shown(str(error))}): fetch it again"
        ) from None
    return target


def _check_member(member: Member, archive: Path) -> str:
    """Its name with slashes. Links and devices are refused, and names that lead out of the folder,
    which the libraries would rename: nobody packs those in good faith. So is a link within the
    folder, since by several of them a tarfile of before 3.11.13 can be led out (CVE-2025-4517).
    """
    name = member.name.replace("\\", "/")
    parts = PurePosixPath(name).parts
    if not parts or parts[0].startswith("/") or ".." in parts or ":" in parts[0] or "\0" in name:
        fault = "would leave the folder it is unpacked in"
    elif not member.plain:
        fault = "is a link or device, expected files"
    else:
        return name
    raise CorpusError(f"{archive}: member {shown(member.name)} {fault}: do not use this archive")


def _members(archive: Path) -> Iterator[Member]:
    """All but the folders of a zip or tar archive."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                if not info.is_dir():
                    plain = info.external_attr >> 28 in (0, 0o10)
                    yield Member(info.filename, info.file_size, plain, partial(packed.open, info))
        return
    with tarfile.open(archive) as tape:
        for entry in tape:
            if not entry.isdir():
                yield Member(
                    entry.name, entry.size, entry.isfile(), partial(tape.extractfile, entry)
                )
        if tape.fileobj:  # to the end, where the checksum of a compressed archive stands
            tape.fileobj.read(_CHUNK)
