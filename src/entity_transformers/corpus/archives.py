"""Unpacking archives that nobody vouches for: no path outside the folder, no link, no device, and
not too much.
"""

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

from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.lines import shown

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

Member = tuple[str, int, Callable[[], object]]
"""Name, size in bytes once unpacked, and what unpacks it."""


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
    members = _zip_members if zipfile.is_zipfile(archive) else _tar_members
    total = count = 0
    try:
        for name, size, unpack in members(archive, target):
            total, count = total + size, count + 1
            if total > most_bytes or count > most_files:
                limit = f"more than {most_bytes} bytes or {most_files} files"
                raise CorpusError(
                    f"{archive}: {limit} once unpacked: unpack it yourself and give the folder"
                )
            _check_name(name, archive)
            unpack()
    except _DAMAGED as error:
        if isinstance(error, OSError) and error.errno in _OURS:
            error.filename = error.filename or str(target)
            raise
        raise CorpusError(
            f"{archive}: not a whole archive ({shown(str(error))}): fetch it again"
        ) from None
    return target


def _check_name(name: str, archive: Path) -> None:
    """Refuse what the libraries would rename and unpack: nobody packs that in good faith."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if not parts or parts[0].startswith("/") or ".." in parts or ":" in parts[0] or "\0" in name:
        raise CorpusError(
            f"{archive}: member {shown(name)} would leave the folder it is unpacked in: do not use"
            " this archive"
        )


def _not_a_file(name: str, archive: Path) -> CorpusError:
    return CorpusError(
        f"{archive}: member {shown(name)} is a link or device, expected files: do not use this"
        " archive"
    )


def _zip_members(archive: Path, target: Path) -> Iterator[Member]:
    with zipfile.ZipFile(archive) as file:
        for info in file.infolist():
            if info.external_attr >> 28 not in (0, 0o4, 0o10):
                raise _not_a_file(info.filename, archive)
            info.filename = info.filename.replace("\\", "/")
            if not info.is_dir():
                yield info.filename, info.file_size, partial(file.extract, info, target)


def _tar_members(archive: Path, target: Path) -> Iterator[Member]:
    with tarfile.open(archive) as file:
        for info in file:
            # tarfile's own filter lets a link within the folder pass; by several of them Pythons
            # before 3.11.13 and 3.12.11 can be led out of it (CVE-2025-4517), and 3.11.2 has none
            if not info.isfile() and not info.isdir():
                raise _not_a_file(info.name, archive)
            if info.isfile():
                yield info.name, info.size, partial(_write, file, info, target / info.name)
        if file.fileobj:
            # to the end, where the checksum of a compressed archive stands
            file.fileobj.read(_CHUNK)


def _write(archive: tarfile.TarFile, info: tarfile.TarInfo, path: Path) -> None:
    """Unpack a file to a path, of what the archive says of its rights no more than whether it can
    be run.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    content = archive.extractfile(info)
    assert content is not None  # it is a file
    with content, path.open("wb") as file:
        shutil.copyfileobj(content, file, _CHUNK)
    path.chmod(0o755 if info.mode & 0o100 else 0o644)
