"""CoNLL-2012 / OntoNotes 5.0 rows, and the corpora that are written in them (WinoBias, LitBank).

Columns: 1 document, 2 part, 3 word number, 4 word, 5 part of speech, 11 named entity, the last one
coreference. There are at least 12 and as many more as a sentence has predicates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
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
    NamedEntity,
    WordError,
)
from entity_transformers.corpus.files import check_lines, is_html, shown
from entity_transformers.corpus.ledger import Ledger

FEWEST_COLUMNS = 12
Cells = TypeVar("Cells")
Value = TypeVar("Value")
_HEADER = re.compile(r"#begin document \((.+)\);(?: part ([0-9]{1,9}))?\s*")


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
        return (n for n, line in enumerate(self.lines, self.first + 1) if line.strip(" \n"))

    def fault(self, word: int, message: str, column: int | str) -> CorpusError:
        """The error at a word's row."""
        return CorpusError(
            f"{self.source}, line {[*self.numbers()][word]}, column {column}: {message}"
        )

    def at(self, column: int | str, function: Callable[[Cells], Value], cells: Cells) -> Value:
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
    found = strayed = False
    for number, line in enumerate(lines, 1):
        if line.startswith("#begin document"):
            if block:
                yield block
            found, strayed = True, False
            block = Block(source, number, line)
        elif block and line.startswith("#end document"):
            block.ended = True
            yield block
            block = None
        elif block:
            block.lines.append(line)
        elif not strayed and line.strip(" \n") and not line.startswith("#end document"):
            strayed = True
            what = "is a web page" if is_html(line) else "stands outside any document"
            fault = (
                f"{source}, line {number}: {shown(line)} {what}, expected #begin document (NAME);"
                " part N first"
            )
            ledger.reject(f"{source}, line {number}", CorpusError(fault))
    if block:
        yield block
    elif not found and not strayed:
        fault = "no document in this file, expected a line #begin document (NAME); part N"
        ledger.reject(source, CorpusError(f"{source}: {fault}"))


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
    rows, starts = _split_rows(block)
    if not rows:
        raise CorpusError(
            f"{block.source}, line {block.first}: document {name} has no words: remove it"
        )
    words = block.at(4, restore_words, [row[3] for row in rows])
    tags = block.at(5, restore_tags, [row[4] for row in rows])
    chains = [(word, row[-1]) for word, row in enumerate(rows) if row[-1] not in ("-", "", "_")]
    column = "coreference (the last)"
    mentions, unmatched = block.at(column, partial(match_chains, separator="|"), chains)
    if unmatched:
        raise block.fault(unmatched[0].word, str(unmatched[0]), column)
    genre = name.partition("/")[0] if "/" in name else ""
    cells = [(word, row[10]) for word, row in enumerate(rows) if row[10] != "*"]
    entities: tuple[NamedEntity, ...] | None = None
    annotated = len(cells) < len(rows) or not UNKNOWN.issuperset(cell for _, cell in cells)
    if genre != "pt" and annotated:  # OntoNotes' translated texts have no named entities
        entities = tuple(block.at(11, match_types, cells))
    return Document(
        name=name,
        part=part,
        split=split,
        genre=genre,
        words=words,
        sentence_starts=tuple(starts),
        mentions=tuple(mentions),
        tags=tags,
        named_entities=None if tags is None and not entities else entities,
    )


def _split_rows(block: Block) -> tuple[list[list[str]], list[int]]:
    """The fields of every word, and each sentence's first word. Enough columns, as many in each row
    of a sentence, one document, one part, numbered words: else CorpusError.
    """
    rows: list[list[str]] = []
    starts: list[int] = []
    fresh = True
    for line in block.lines:
        text = line.strip(" \n")
        if not text:
            fresh = True
            continue
        # tabs keep empty fields
        row = line.rstrip("\n").split("\t") if "\t" in line else [*filter(None, text.split(" "))]
        if fresh:
            starts.append(len(rows))
            fresh = False
        rows.append(row)
        word, columns = len(rows) - 1, len(row)
        if columns < FEWEST_COLUMNS or columns != len(rows[starts[-1]]):
            message = (
                f"a row of {columns} columns ({shown(text)}), expected at least {FEWEST_COLUMNS},"
                " as many as in the sentence's first row: was the row cut?"
            )
            raise block.fault(word, message, columns)
        if row[:2] != rows[0][:2]:
            message = (
                f"{shown(' '.join(row[:2]))} after {shown(' '.join(rows[0][:2]))}, expected one"
                " document and part between #begin and #end"
            )
            raise block.fault(word, message, 1)
        if not row[2].isdigit():
            message = f"word number {shown(row[2])}, expected digits: has the row lost a column?"
            raise block.fault(word, message, 3)
    return rows, starts
