"""Files of a corpus that nobody vouches for: which of a folder, the split that a path names, and
lines that are checked before anything is made of them.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import TextIO

from entity_transformers.corpus.document import CorpusError, Split

SPLIT_NAMES: dict[str, Split] = {
    "train": "train", "training": "train", "dev": "dev", "development": "dev", "valid": "dev",
    "validation": "dev", "test": "test",
}  # fmt: skip


def split_from_path(path: PurePath) -> Split:
    """Split that a path names, the file's own name first, then its folders from the inside;
    ``train`` where none does.

    ``data/development/data/english/.../a.v4_gold_conll`` and ``dev.english.v4_gold_conll`` are both
    dev.
    """
    words = (word for name in reversed(path.parts) for word in split_name(name))
    return next((SPLIT_NAMES[word] for word in words if word in SPLIT_NAMES), "train")


def split_name(name: str) -> list[str]:
    """The words of a file's or folder's name: english, v4 of ``english_v4``."""
    return re.split(r"[._-]+", name.lower())


def find_root(folder: Path) -> Path:
    """The folder inside, where a folder holds nothing else (GitHub's archives), or itself."""
    inside = list(folder.iterdir()) if folder.is_dir() else []
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder


def find_packed(folder: Path, ending: str) -> dict[str, Path]:
    """Files right in a folder with an ending, ``.gz`` or not, by what stands before it, sorted."""
    files = sorted(file for end in ("", ".gz") for file in folder.glob(f"*{ending}{end}"))
    return {file.name.partition(ending)[0]: file for file in files}


def find_files(root: Path, patterns: Iterable[str]) -> list[Path]:
    """Files below a folder that match any pattern, each once, sorted by path."""
    return sorted({path for pattern in patterns for path in root.rglob(pattern) if path.is_file()})


LONGEST_LINE = 1_000_000
"""Characters of a line; the longest real one, of an article's metadata in GUM, has a few thousand.
"""

_SURROGATE = re.compile("[\ud800-\udfff]")


def open_lines(path: Path, longest: int = LONGEST_LINE) -> Iterator[str]:
    """The lines of a UTF-8 text file, ``.gz`` or not, with their line ends as they stand.

    Bytes that are no UTF-8 come back as surrogates, and of a line of more than ``longest``
    characters the first ``longest + 1``: `check_lines`, which knows document and line, refuses
    both.
    """
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(
            path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="\n"
        ) as file:
            yield from _bounded_lines(file, longest + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CorpusError(f"{path}: not a whole gzip file ({error}): fetch it again") from None
    except OSError as error:
        raise CorpusError(f"{path}: {error.strerror or error}: give a readable file") from None


def first_line(path: Path) -> str:
    """The first line of a file that is not blank; "" where there is none."""
    return next((line for line in open_lines(path) if line.strip()), "")


def _bounded_lines(file: TextIO, most: int) -> Iterator[str]:
    while line := file.readline(most):
        yield line
        if len(line) == most:
            while line and line[-1] != "\n":
                line = file.readline(most)


def check_lines(lines: Sequence[str], source: str, first: int, longest: int = LONGEST_LINE) -> None:
    """Refuse what no corpus file may hold; ``first`` is the number of the first line.

    CorpusError for bytes that are not UTF-8, NUL, a carriage return, or a line of more than
    ``longest`` characters.
    """
    text = "".join(lines)
    clean = (
        "\0" not in text and "\r" not in text and (text.isascii() or not _SURROGATE.search(text))
    )
    if clean and (len(text) <= longest or max(map(len, lines)) <= longest):
        return
    for number, line in enumerate(lines, first):
        check_text(line, f"{source}, line {number}", longest)


def check_text(line: str, where: str, longest: int) -> None:
    """`check_lines` of one text at the place ``where``."""
    if len(line) > longest:
        raise CorpusError(
            f"{where}, character {longest + 1}: a line of more than {longest} characters: not a"
            " corpus?"
        )
    if (column := line.find("\0")) >= 0:
        raise CorpusError(
            f"{where}, character {column + 1}: a NUL byte, expected UTF-8 text: the file is damaged"
            " or UTF-16"
        )
    if match := _SURROGATE.search(line):
        code = ord(match[0])
        shown = (
            f"byte 0x{code - 0xDC00:02x} is"
            if 0xDC80 <= code <= 0xDCFF
            else f"surrogate U+{code:04X} is"
        )
        raise CorpusError(
            f"{where}, character {match.start() + 1}: {shown} not UTF-8: convert the file (iconv -t"
            " UTF-8)"
        )
    if (column := line.find("\r")) >= 0:
        raise CorpusError(
            f"{where}, character {column + 1}: a carriage return, expected LF line ends: convert"
            " the file (dos2unix)"
        )


def is_html(text: str) -> bool:
    """Whether a file's first characters are those of a web page."""
    return text.lstrip("\ufeff \t\r\n").lower().startswith(("<!doctype html", "<html", "<?xml"))


def shown(value: object, longest: int = 60) -> str:
    """A value as an error message quotes it: never longer than ``longest`` characters."""
    text = (
        value
        if isinstance(value, str) and len(value) < 10 * longest
        else str(value)[: 10 * longest]
    )
    return ascii(text) if len(text) <= longest else ascii(text[:longest]) + "..."
