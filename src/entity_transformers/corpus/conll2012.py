"""CoNLL-2012 / OntoNotes 5.0 rows, and the corpora that are written in them (WinoBias, LitBank).

Columns: 1 document, 2 part, 3 word number, 4 word, 5 part of speech, 11 named entity, the last one
coreference. There are at least 12 and as many more as a sentence has predicates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from entity_transformers.corpus.brackets import (
    UNKNOWN,
    match_chains,
    match_types,
    restore_tags,
    restore_words,
)
from entity_transformers.corpus.document import (
    CorpusError,
    Document,
    Mention,
    NamedEntity,
    WordError,
)
from entity_transformers.corpus.files import check_lines, is_html, shown
from entity_transformers.corpus.ledger import Ledger

FEWEST_COLUMNS = 12
Cell = TypeVar("Cell")
Value = TypeVar("Value")
_HEADER = re.compile(r"#begin document \((.+)\);(?: part ([0-9]{1,9}))?\s*")
_SPACES = re.compile(r"[ \t]+")
_ODD_SPACES = (
    "\t\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""White space to `str.split` that is none to the format, and tabs, which keep empty fields;
`check_lines` has refused carriage returns.
"""


def _is_blank(line: str) -> bool:
    return line == "\n" or not line.strip(" \n")


@dataclass
class Block:
    """The lines of one document in a file; ``first`` is the number of the header's line."""

    source: str
    first: int
    header: str
    lines: list[str] = field(default_factory=list)
    ended: bool = False

    def numbers(self) -> Iterator[int]:
        """Number of the line that holds each word."""
        return (n for n, line in enumerate(self.lines, self.first + 1) if not _is_blank(line))

    def fault(self, word: int, message: str, column: int | str) -> CorpusError:
        """The error at a word's row."""
        return CorpusError(
            f"{self.source}, line {[*self.numbers()][word]}, column {column}: {message}"
        )

    def at(
        self, column: int | str, function: Callable[[Sequence[Cell]], Value], cells: Sequence[Cell]
    ) -> Value:
        """``function`` of a column's cells, whose WordError is reported with line and column."""
        try:
            return function(cells)
        except WordError as error:
            raise self.fault(error.word, str(error), column) from None


def read_rows(
    lines: Iterable[str], source: str, split: str = "train", ledger: Ledger | None = None
) -> Iterator[Document]:
    """Documents of one CoNLL-2012 file given as lines; ``source`` names it in errors.

    A bad document raises CorpusError or, where the ledger says skip, is written down and left out.
    """
    ledger = ledger or Ledger()
    return ledger.accept(
        _read_blocks(split_documents(lines, source, ledger), split, ledger), source
    )


def _read_blocks(blocks: Iterable[Block], split: str, ledger: Ledger) -> Iterator[Document]:
    for block in blocks:
        label = f"{block.source}, line {block.first}"
        try:
            name, part = parse_header(block)
            label = f"{name}#{part}"
            if ledger.admits(name, part):
                yield parse_block(block, name, part, split)
        except CorpusError as error:
            ledger.reject(label, error)


def split_documents(lines: Iterable[str], source: str, ledger: Ledger) -> Iterator[Block]:
    """The documents of a file, unread. A line outside any is bad, and a file without one."""
    block: Block | None = None
    found, strayed = False, False
    for number, line in enumerate(lines, 1):
        if block and line[0] != "#":
            block.lines.append(line)
        elif line.startswith("#begin document"):
            if block:
                yield block
            found, strayed = True, False
            block = Block(source, number, line)
        elif line.startswith("#end document"):
            if block:
                block.ended = True
                yield block
                block = None
        elif block:
            block.lines.append(line)
        elif not strayed and not _is_blank(line):
            strayed = True
            ledger.reject(f"{source}, line {number}", _stray(line, source, number))
    if block:
        yield block
    elif not found and not strayed:
        ledger.reject(
            source,
            CorpusError(
                f"{source}: no document in this file, expected a line #begin document (NAME);"
                " part N"
            ),
        )


def _stray(line: str, source: str, number: int) -> CorpusError:
    try:
        check_lines([line], source, number)
    except CorpusError as error:
        return error
    where = f"{source}, line {number}"
    if is_html(line):
        return CorpusError(
            f"{where}: a web page ({shown(line)}), expected CoNLL-2012 rows: download the file"
            " itself"
        )
    return CorpusError(
        f"{where}: {shown(line)} stands outside any document, expected #begin document (NAME); part"
        " N first"
    )


def parse_header(block: Block) -> tuple[str, int]:
    """Name and part of the ``#begin document`` line."""
    check_lines([block.header], block.source, block.first)
    match = _HEADER.fullmatch(block.header)
    if not match:
        raise CorpusError(
            f"{block.source}, line {block.first}: {shown(block.header)}, expected #begin document"
            " (NAME); part N"
        )
    return match[1], int(match[2] or 0)


def parse_block(block: Block, name: str, part: int, split: str) -> Document:
    """The document of a block; CorpusError names line, column and value of a fault."""
    check_lines(block.lines, block.source, block.first + 1)
    if not block.ended:
        last = block.first + len(block.lines)
        raise CorpusError(
            f"{block.source}, line {last}: document {name} has no #end document: the file was cut,"
            " fetch it again"
        )
    rows, starts = split_rows(block)
    if not rows:
        raise CorpusError(
            f"{block.source}, line {block.first}: document {name} has no words: remove it"
        )
    _check_rows(block, rows, starts)
    words = block.at(4, restore_words, [row[3] for row in rows])
    tags = block.at(5, restore_tags, [row[4] for row in rows])
    genre = name.partition("/")[0] if "/" in name else ""
    entities = _named_entities(block, rows, annotated=genre != "pt")
    return Document(
        name=name,
        part=part,
        split=split,
        genre=genre,
        words=words,
        sentence_starts=tuple(starts),
        mentions=_mentions(block, rows),
        tags=tags,
        named_entities=None if tags is None and not entities else entities,
    )


def split_rows(block: Block) -> tuple[list[list[str]], list[int]]:
    """The fields of every word, and each sentence's first word. Tabs keep empty fields."""
    text = "".join(block.lines)
    split = _split_row if any(space in text for space in _ODD_SPACES) else str.split
    rows: list[list[str]] = []
    starts: list[int] = []
    fresh = True
    for line in block.lines:
        if fields := split(line):
            if fresh:
                starts.append(len(rows))
                fresh = False
            rows.append(fields)
        else:
            fresh = True
    return rows, starts


def _split_row(line: str) -> list[str]:
    if _is_blank(line):
        return []
    if "\t" in line:
        return line.rstrip("\n").split("\t")
    return (line.split() if line.isascii() else []) or _SPACES.split(line.strip(" \n"))


def _check_rows(block: Block, rows: Sequence[Sequence[str]], starts: Sequence[int]) -> None:
    """Enough columns, as many in each row of a sentence, one document, one part, numbered words."""
    widths = [len(row) for row in rows]
    if min(widths) < FEWEST_COLUMNS:
        word = next(i for i, width in enumerate(widths) if width < FEWEST_COLUMNS)
        message = (
            f"a row of {widths[word]} columns ({shown(' '.join(rows[word]))}), expected at least"
            f" {FEWEST_COLUMNS}: was the row cut?"
        )
        raise block.fault(word, message, widths[word])
    if len(set(widths)) > 1:
        _check_widths(block, widths, starts)
    for column in (0, 1):
        values = [row[column] for row in rows]
        if values.count(values[0]) != len(values):
            word = next(i for i, value in enumerate(values) if value != values[0])
            message = (
                f"{shown(values[word])} after {shown(values[0])}, expected one document and part"
                " between #begin and #end"
            )
            raise block.fault(word, message, column + 1)
    numbers = [row[2] for row in rows]
    if not all(numbers) or not "".join(numbers).isdigit():
        word = next(i for i, number in enumerate(numbers) if not number.isdigit())
        raise block.fault(
            word,
            f"word number {shown(numbers[word])}, expected digits: has the row lost a column?",
            3,
        )


def _check_widths(block: Block, widths: Sequence[int], starts: Sequence[int]) -> None:
    for start, end in zip(starts, (*starts[1:], len(widths)), strict=True):
        for word in range(start + 1, end):
            if widths[word] != widths[start]:
                message = (
                    f"a row of {widths[word]} columns, expected {widths[start]} as in the"
                    " sentence's first row"
                )
                raise block.fault(word, message, widths[word])


def _mentions(block: Block, rows: Sequence[Sequence[str]]) -> tuple[Mention, ...]:
    cells = [
        (word, cell) for word, row in enumerate(rows) if (cell := row[-1]) not in {"-", "", "_"}
    ]
    column = "coreference (the last)"
    mentions, unmatched = block.at(column, partial(match_chains, separator="|"), cells)
    if unmatched:
        raise block.fault(unmatched[0].word, str(unmatched[0]), column)
    return tuple(mentions)


def _named_entities(
    block: Block, rows: Sequence[Sequence[str]], *, annotated: bool
) -> tuple[NamedEntity, ...] | None:
    if not annotated:
        return None
    cells = [(word, cell) for word, row in enumerate(rows) if (cell := row[10]) != "*"]
    if len(cells) == len(rows) and all(cell in UNKNOWN for _, cell in cells):
        return None
    return tuple(block.at(11, match_types, cells))
