"""CoNLL-U rows as GUM writes them, with the brackets of ``Entity=``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.files import check_lines, is_html, shown

_COLUMNS = 10
_ID = re.compile(r"([0-9]{1,6})(-[0-9]{1,6}|\.[0-9]{1,6})?")
"""Of a word (3), of a joined form (3-4) or of a word that is not in the text (3.1)."""
_ENTITY = re.compile(r"(?:^|\|)Entity=([^|]+)")


@dataclass
class Table:
    """The words of a CoNLL-U document, their line numbers, and the non-empty ``Entity`` cells."""

    source: str
    name: str = ""
    entity_fields: tuple[str, ...] = ()
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    space_after: list[bool] = field(default_factory=list)
    sentence_starts: list[int] = field(default_factory=list)
    entities: list[tuple[int, str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def fault(self, word: int, message: str, column: int) -> CorpusError:
        """The error at a word's row."""
        return CorpusError(f"{self.source}, line {self.lines[word]}, column {column}: {message}")


def read_table(lines: Sequence[str], source: str) -> Table:
    """The table of one document's lines; CorpusError names line, column and value of a fault."""
    check_lines(lines, source, 1)
    if lines and is_html(lines[0]):
        raise CorpusError(
            f"{source}, line 1: a web page ({shown(lines[0])}), expected CoNLL-U: download the file"
            " itself"
        )
    if lines and not lines[-1].endswith("\n"):
        raise CorpusError(
            f"{source}, line {len(lines)}: the last line has no end: the file was cut, fetch it"
            " again"
        )
    table = Table(source)
    fresh, joined_until, space = True, 0, True
    for number, line in enumerate(lines, 1):
        if line == "\n":
            fresh, joined_until = True, 0
        elif line[0] == "#":
            _read_comment(table, line)
        else:
            fields, match = _split_row(line, f"{source}, line {number}")
            spaced = "SpaceAfter=No" not in fields[9].split("|")
            if match[2] is None:
                if fresh:
                    table.sentence_starts.append(len(table.words))
                    fresh = False
                position = int(match[1])  # words of a joined form have no space between
                inside = position <= joined_until
                after = (space and position == joined_until) if inside else spaced
                _add_word(table, fields, number, after)
            elif match[2][0] == "-":
                joined_until, space = int(match[2][1:]), spaced
    if not table.words:
        raise CorpusError(
            f"{source}: no words in this document: remove the file or leave it out with"
            " corpus.exclude"
        )
    return table


def _split_row(line: str, where: str) -> tuple[list[str], re.Match[str]]:
    fields = line[:-1].split("\t")
    if len(fields) != _COLUMNS:
        raise CorpusError(f"{where}: {len(fields)} columns ({shown(line)}), expected {_COLUMNS}")
    match = _ID.fullmatch(fields[0])
    if not match:
        raise CorpusError(
            f"{where}, column 1: {shown(fields[0])}, expected a word number such as 3, 3-4 or 3.1"
        )
    return fields, match


def _read_comment(table: Table, line: str) -> None:
    key, _, value = line[1:].partition("=")
    if key.strip() == "newdoc id":
        if table.name:
            raise CorpusError(
                f"{table.source}: holds the documents {table.name} and {shown(value.strip())},"
                " expected one per file"
            )
        table.name = value.strip()
    elif key.strip() == "global.Entity":
        table.entity_fields = tuple(value.strip().split("-"))


def _add_word(table: Table, fields: Sequence[str], number: int, space_after: bool) -> None:
    word, tag, misc = fields[1], fields[4], fields[9]
    for column, value in ((2, word), (5, tag)):
        if value.split() != [value] or (column == 5 and value == "_"):
            what = "word without white space" if column == 2 else "Penn Treebank tag"
            raise CorpusError(
                f"{table.source}, line {number}, column {column}: {shown(value)}, expected a {what}"
            )
    if match := _ENTITY.search(misc):
        table.entities.append((len(table.words), match[1]))
    table.words.append(word)
    table.tags.append(tag)
    table.lines.append(number)
    table.space_after.append(space_after)
