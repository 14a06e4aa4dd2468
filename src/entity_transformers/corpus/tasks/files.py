"""Lines and rows of tasks' files: of a folder, or of a zip archive that is read as it is."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from entity_transformers.corpus.archives import is_archive
from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.files import check_lines, is_html, open_lines, shown
from entity_transformers.corpus.ledger import Ledger

Line = tuple[str, str]
"""Where it stands, as errors say it, and its text without the line break."""


def read_lines(root: Path, name: str) -> Iterator[Line]:
    """The lines of the file ``name`` below ``root``, which may be that file or a zip archive.

    A file that is missing or damaged, a web page, or a line that is no UTF-8 raises CorpusError.
    """
    lines, source = _open(root, name)
    for number, line in enumerate(lines, 1):
        if number == 1 and is_html(line):
            raise CorpusError(f"{source}: a web page ({shown(line)}): download the file itself")
        text = line.removesuffix("\n").removesuffix("\r")
        check_lines([text], source, number)
        yield f"{source}, line {number}", text


def _open(root: Path, name: str) -> tuple[Iterator[str], str]:
    if root.is_file() and not is_archive(root):
        return open_lines(root), str(root)
    for path in (root / name, root / f"{name}.gz", root / Path(name).name):
        if path.is_file():
            return open_lines(path), str(path)
    archive = root if root.is_file() else next(iter(sorted(root.glob("*.zip"))), None)
    if archive is None:
        raise CorpusError(f"{root}: no file {name} there: name the folder that has it")
    return _unpack(archive, name), f"{archive}, {name}"


def _unpack(archive: Path, name: str) -> Iterator[str]:
    try:
        with zipfile.ZipFile(archive) as opened, opened.open(name) as member:
            yield from io.TextIOWrapper(
                member, encoding="utf-8-sig", errors="surrogateescape", newline="\n"
            )
    except KeyError:
        raise CorpusError(f"{archive}: no file {name} in it: is it another archive?") from None
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise CorpusError(f"{archive}: not a whole archive ({error}): fetch it again") from None


def read_table(
    root: Path, name: str, columns: Sequence[str], ledger: Ledger
) -> Iterator[tuple[str, dict[str, str]]]:
    """Rows of a table with tabs between its cells and no quotes, by column, each with its place.

    A missing column raises CorpusError under every policy; a row with another number of cells is
    written down where the ledger skips.
    """
    lines = read_lines(root, name)
    where, first = next(lines, (f"{root}, {name}", ""))
    names = first.split("\t")
    if missing := [column for column in columns if column not in names]:
        raise CorpusError(
            f"{where}: no column {missing[0]!r} in {shown(first)}, expected columns"
            f" {', '.join(columns)} with tabs between them"
        )
    for where, line in lines:
        cells = line.split("\t")
        if len(cells) != len(names):
            problem = f"{where}: {len(cells)} cells ({shown(line)}), expected {len(names)}"
            ledger.reject(where, CorpusError(problem))
            continue
        yield where, dict(zip(names, cells, strict=True))


def read_objects(
    root: Path, name: str, keys: Sequence[str], ledger: Ledger
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The JSON objects of a file, one per line, each with its place; ``keys`` are texts that every
    one has. Another line raises CorpusError or is written down.
    """
    for where, line in read_lines(root, name):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        cells = row if isinstance(row, dict) else {}
        wrong = next((key for key in keys if not isinstance(cells.get(key), str)), None)
        if wrong is None:
            yield where, cells
        else:
            lacks = f"has no text {wrong!r}" if cells else "is no JSON object"
            problem = f"{where}: {shown(line)} {lacks}, expected texts {', '.join(keys)}"
            ledger.reject(where, CorpusError(problem))
