"""Untrusted corpus files: which files of a folder are read, the split that a path names, lines that
are checked before they are parsed, and archives.
"""

import gzip
import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, count
from pathlib import Path, PurePath
from typing import IO, Any

from entity_transformers.corpus.document import CorpusError, Split

SPLIT_NAMES: dict[str, Split] = {
    "train": "train", "training": "train", "dev": "dev", "development": "dev", "val": "dev",
    "valid": "dev", "validation": "dev", "test": "test", "testing": "test", "eval": "test",
    "test2": "test2",
}  # fmt: skip
_DIGITS = "0123456789"
LONGEST_LINE = 1_000_000
"""Most characters of a line; the longest real one, of metadata in GUM, has a few thousand."""
UNPACKED, MOST_PACKED = 100_000_000, 100
"""Bytes that any packed file may unpack to, and the multiple of its size allowed to a larger one:
text packs to a third of its size, and blank lines to a thousandth.
"""
ENTRY = 512
"""Bytes counted for each entry of an archive beside its content: the size of a tar's header."""
_REFUSED = re.compile("[\0\r\ud800-\udfff]")
HALVES = re.compile("[\ud800-\udfff]")
"""Halves of a pair of UTF-16 code units (surrogates), which no tokenizer reads."""
_KINDS = {
    b"%PDF": "a PDF", b"{\\rtf": "RTF", b"\x89PNG": "an image", b"\xff\xd8\xff": "an image",
    b"GIF8": "an image", b"\xd0\xcf\x11\xe0": "a Word file", b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}  # fmt: skip
"""The first bytes of other kinds of files that people give in place of a text."""
_DAMAGED = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError,
            ValueError, LookupError, NotImplementedError, RuntimeError)  # fmt: skip


def split_from_path(path: PurePath) -> Split:
    """Return the split that a path names: the file's own name first, then its folders from the
    innermost out; ``train`` if none names a split.

    ``data/development/data/english/.../a.v4_gold_conll`` and ``dev.english.v4_gold_conll`` are both
    dev.
    """
    return find_split(reversed(path.parts)) or "train"


def find_split(names: Iterable[str], whole: bool = False) -> Split | None:
    """Return the split of the first name that contains a split's, perhaps with a number (test1), as
    a word; with ``whole``, of the first one that has no other words; None if there is none.
    """
    for name in names:
        words = [word for word in split_name(name) if word.strip(_DIGITS)]
        found = [SPLIT_NAMES.get(word) or SPLIT_NAMES.get(word.rstrip(_DIGITS)) for word in words]
        if any(found) and not (whole and None in found):
            return next(filter(None, found))
    return None


def split_name(name: str) -> list[str]:
    """Return the words of a file's or folder's name: english and v4 for ``english_v4``."""
    return re.split(r"[\W_]+", name.lower())


def find_root(folder: Path) -> Path:
    """Return a folder's only entry if that is a folder (GitHub's archives), else the folder."""
    inside = list(folder.iterdir()) if folder.is_dir() else []
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder


def find_packed(folder: Path, ending: str) -> dict[str, Path]:
    """Return a folder's own files with this ending, ``.gz`` or not, sorted, keyed by their names up
    to the ending; CorpusError if there are none.
    """
    files = sorted(file for end in ("", ".gz") for file in folder.glob(f"*{ending}{end}"))
    if not files:
        raise CorpusError(
            f"{folder}: no file matches *{ending} or *{ending}.gz: give the folder of a release"
            " (corpus.path)"
        )
    return {file.name.partition(ending)[0]: file for file in files}


def find_files(root: Path, patterns: Iterable[str]) -> list[Path]:
    """Return the files below a folder that match any pattern, each once, sorted by path."""
    return sorted({path for pattern in patterns for path in root.rglob(pattern) if path.is_file()})


def number_names(name: str) -> Iterator[str]:
    """Yield names for the nameless documents of a file: NAME, NAME-2, NAME-3, ..."""
    return chain([name], (f"{name}-{number}" for number in count(2)))


def is_archive(path: Path) -> bool:
    """Whether a file is a zip or a tar archive, compressed or not."""
    try:
        return zipfile.is_zipfile(path) or tarfile.is_tarfile(path)
    except _DAMAGED:
        return False


def extract(archive: Path, folder: Path) -> None:
    """Unpack the files of a zip or tar archive, each once and inside the folder, whatever its name,
    and a link as a copy of the archive's file. CorpusError for anything else, and for more bytes
    than `_find_room` allows.
    """
    seen, room = set[PurePath](), _find_room(archive)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for name, source in _open_entries(archive):
            parts = re.split(r"[\\/]", name)  # some packers of Windows write backslashes
            place = PurePath(*(part for part in parts if part not in ("", ".", "..")))
            if source is None:
                raise ValueError(f"{shown(name)} is neither a file nor a link to one")
            if not place.name:
                raise ValueError("a nameless entry")
            if place in seen:
                raise ValueError(f"{shown(name)} occurs twice")
            seen.add(place)
            room -= ENTRY
            (path := folder / place).parent.mkdir(parents=True, exist_ok=True)
            with source, path.open("wb") as file:
                while room >= 0 and (data := source.read(1 << 20)):
                    room -= len(data)
                    file.write(data)
            if room < 0:
                raise ValueError(f"it unpacks to more than {MOST_PACKED} times its size")
    except _DAMAGED as error:
        raise CorpusError(
            f"{archive}: can't be unpacked ({shown(str(error), 200)}): fetch it again, or unpack it"
            " yourself and give the folder"
        ) from None


def _open_entries(archive: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    """Yield the name and the content of each entry but folders; None for what is no file."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for entry in packed.infolist():
                if not entry.filename.endswith(("/", "\\")):
                    yield entry.filename, packed.open(entry)
    else:
        with tarfile.open(archive) as tape:
            for member in tape:
                if not member.isdir():
                    yield member.name, tape.extractfile(member)
            if tape.fileobj:  # read to the end, where a compressed archive has its checksum
                tape.fileobj.read(1 << 20)


def _find_room(path: Path) -> int:
    """Return how many bytes a file may unpack to."""
    return max(UNPACKED, MOST_PACKED * path.stat().st_size)


class _Bounded(io.RawIOBase):
    """The unpacked bytes of a file; reading more than `_find_room` allows raises CorpusError."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path, self._room = file, path, _find_room(path)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self._room -= len(data)
        if self._room < 0:
            fault = f"unpacks to more than {MOST_PACKED} times its size: not a corpus"
            raise CorpusError(f"{self._path}: {fault}")
        return len(data)


@contextmanager
def unpacked(path: Path, member: str = "") -> Iterator[io.BufferedReader]:
    """Open the content of a file, unpacked if it is a ``.gz``, or of a ``member`` of a zip archive.
    CorpusError for a file that can't be read, is not a regular file, is one of `_KINDS`, or unpacks
    to more than `_find_room`.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise CorpusError(f"{path}: a pipe or a device, expected a file: save it first")
    try:
        with ExitStack() as files:
            file: Any
            if member:
                archive = files.enter_context(zipfile.ZipFile(path))
                if archive.namelist().count(member) > 1:
                    raise CorpusError(f"{path}: {shown(member)} occurs twice in it: fetch it again")
                file = files.enter_context(archive.open(member))
            else:
                file = files.enter_context(path.open("rb"))
            if path.suffix == ".gz":
                file = files.enter_context(gzip.GzipFile(fileobj=file))
            opened: io.BufferedReader = io.BufferedReader(_Bounded(file, path), 1 << 16)
            for start, kind in _KINDS.items():
                if opened.peek(len(start)).startswith(start):
                    raise CorpusError(f"{path}: {kind}, expected text: save it as text in UTF-8")
            yield opened
    except (EOFError, KeyError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as error:
        what = f"can't read {member} in it" if member else "not a complete gzip file"
        raise CorpusError(f"{path}: {what} ({error}): fetch it again") from None
    except OSError as error:
        raise CorpusError(f"{path}: {error.strerror or error}: give a readable file") from None


def open_lines(path: Path, longest: int = LONGEST_LINE, member: str = "") -> Iterator[str]:
    """Yield the lines of a UTF-8 text file opened by `unpacked`, with their line ends as they
    stand.

    Bytes that are not UTF-8 become surrogates, and a line of more than ``longest`` characters is
    cut to ``longest + 1``; `check_lines`, which knows document and line, refuses both.
    """
    how: Any = {"encoding": "utf-8-sig", "errors": "surrogateescape", "newline": "\n"}
    with unpacked(path, member) as file, io.TextIOWrapper(file, **how) as text:
        while line := text.readline(longest + 1):
            yield line
            if len(line) > longest:
                while line and line[-1] != "\n":
                    line = text.readline(longest + 1)


def first_line(path: Path) -> str:
    """Return the first line of a file that is not blank; "" if there is none."""
    return next((line for line in open_lines(path) if line.strip()), "")


def check_lines(lines: Sequence[str], source: str, first: int) -> None:
    """Apply `check_text` to lines, the first of which has the number ``first``; they are looked at
    one by one only if their joint text is suspicious.
    """
    text = "".join(lines)
    if len(text) > LONGEST_LINE or _REFUSED.search(text):
        for number, line in enumerate(lines, first):
            check_text(line, f"{source}, line {number}")


def check_text(
    text: str, where: str, longest: float = LONGEST_LINE, refused: re.Pattern[str] = _REFUSED
) -> None:
    """Raise CorpusError, at the place ``where``, for what no corpus file may hold: bytes that are
    not UTF-8, NUL, a carriage return, or a line of more than ``longest`` characters.
    """
    if len(text) > longest:
        at, fault = longest, f"a line of more than {longest} characters: not a corpus?"
    elif match := refused.search(text):
        at, code = match.start(), ord(match[0])
        if code == 0:
            fault = "a NUL byte, expected UTF-8 text: the file is damaged or UTF-16"
        elif match[0] == "\r":
            fault = "a carriage return, expected LF line ends: convert the file (dos2unix)"
        else:
            escaped = 0xDC80 <= code <= 0xDCFF
            value = f"byte 0x{code - 0xDC00:02x}" if escaped else f"surrogate U+{code:04X}"
            fault = f"{value} is not UTF-8: convert the file (iconv -t UTF-8)"
    else:
        return
    raise CorpusError(f"{where}, character {at + 1}: {fault}")


def is_html(text: str) -> bool:
    """Whether a text begins as a web page does."""
    return text.lstrip("\ufeff \t\r\n").lower().startswith(("<!doctype html", "<html", "<?xml"))


def shown(value: object, longest: int = 60) -> str:
    """Quote a value for an error message, cut to ``longest`` characters."""
    text = value[: longest + 1] if isinstance(value, str) else str(value)
    return ascii(text) if len(text) <= longest else ascii(text[:longest]) + "..."
