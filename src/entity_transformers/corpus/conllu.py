"""CoNLL-U rows as GUM writes them, with the brackets of ``Entity=``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from entity_transformers.corpus.document import CorpusError, WordError
from entity_transformers.corpus.files import check_lines, is_html, shown

_COLUMNS = 10
_WORD_ID = re.compile(r"[0-9]{1,6}")
_RANGE_ID = re.compile(r"([0-9]{1,6})-([0-9]{1,6})")
_EMPTY_ID = re.compile(r"[0-9]{1,6}\.[0-9]{1,6}")
_ENTITY = re.compile(r"(?:^|\|)Entity=([^|]+)")
_OPENING = re.compile(r"\(([^()]+)(\))?|([^()]+)\)")


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


@dataclass(frozen=True, slots=True)
class TypedMention:
    """A mention of the GUM layer; ``minspan`` are the words of its head."""

    start: int
    end: int
    label: str
    minspan: tuple[int, ...]


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
            fields = _split_row(line, source, number)
            if match := _RANGE_ID.fullmatch(fields[0]):
                joined_until, space = int(match[2]), _has_space(fields[9])
            elif _WORD_ID.fullmatch(fields[0]):
                if fresh:
                    table.sentence_starts.append(len(table.words))
                    fresh = False
                _add_word(table, fields, number, joined_until, space)
    if not table.words:
        raise CorpusError(
            f"{source}: no words in this document: remove the file or leave it out with"
            " corpus.exclude"
        )
    return table


def _split_row(line: str, source: str, number: int) -> list[str]:
    fields = line[:-1].split("\t")
    if len(fields) != _COLUMNS:
        raise CorpusError(
            f"{source}, line {number}, column {len(fields)}: {len(fields)} columns ({shown(line)}),"
            f" expected {_COLUMNS}"
        )
    if not any(pattern.fullmatch(fields[0]) for pattern in (_WORD_ID, _RANGE_ID, _EMPTY_ID)):
        raise CorpusError(
            f"{source}, line {number}, column 1: {shown(fields[0])}, expected a word number such as"
            " 3, 3-4 or 3.1"
        )
    return fields


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


def _has_space(misc: str) -> bool:
    return "SpaceAfter=No" not in misc.split("|")


def _add_word(
    table: Table, fields: Sequence[str], number: int, joined_until: int, space: bool
) -> None:
    """Words of a joined form (``3-4 Mecca's``) have no space between; its row says what follows."""
    word, tag, misc = fields[1], fields[4], fields[9]
    if word.split() != [word]:
        raise CorpusError(
            f"{table.source}, line {number}, column 2: the word is {shown(word)}, expected one"
            " without white space"
        )
    if tag.split() != [tag] or tag == "_":
        raise CorpusError(
            f"{table.source}, line {number}, column 5: the tag is {shown(tag)}, expected a Penn"
            " Treebank tag"
        )
    if match := _ENTITY.search(misc):
        table.entities.append((len(table.words), match[1]))
    position = int(fields[0])
    table.words.append(word)
    table.tags.append(tag)
    table.lines.append(number)
    table.space_after.append(
        _has_space(misc) if position > joined_until else space and position == joined_until
    )


def match_typed(table: Table) -> list[TypedMention]:
    """Mentions of the GUM layer with type and head, one stack per chain; else WordError."""
    order = {name: index for index, name in enumerate(table.entity_fields)}
    if not {"GRP", "etype", "minspan"} <= order.keys():
        fields = shown("-".join(table.entity_fields))
        raise CorpusError(
            f"{table.source}: # global.Entity is {fields}, expected GRP, etype and minspan among"
            " its fields"
        )
    stacks: dict[str, list[tuple[int, list[str]]]] = {}
    mentions: list[TypedMention] = []
    for word, cell in table.entities:
        if _OPENING.sub("", cell):
            raise WordError(
                word, f"Entity={shown(cell)}: expected such as (7-time-new-nnnnn-cf8-1-sgl)6)"
            )
        for opening, closed, closing in _OPENING.findall(cell):
            values = opening.split("-")
            if opening and len(values) <= max(order["etype"], order["minspan"]):
                raise WordError(
                    word,
                    f"Entity=({shown(opening)}: {len(values)} fields, expected"
                    f" {'-'.join(table.entity_fields)}",
                )
            if opening:
                stacks.setdefault(values[order["GRP"]], []).append((word, values))
            if closed or closing:
                key = values[order["GRP"]] if opening else closing
                if not stacks.get(key):
                    raise WordError(word, f"Entity={shown(cell)}: {shown(key)}) was never opened")
                mentions.append(_typed(*stacks[key].pop(), word + 1, order))
    for key, opened in stacks.items():
        if opened:
            raise WordError(opened[0][0], f"Entity=({shown(key)} is never closed in this document")
    return mentions


def _typed(start: int, values: Sequence[str], end: int, order: dict[str, int]) -> TypedMention:
    minspan = values[order["minspan"]]
    heads = [
        start + int(position) - 1 for position in minspan.split(",") if _WORD_ID.fullmatch(position)
    ]
    if (
        not heads
        or len(heads) != minspan.count(",") + 1
        or not start <= min(heads) <= max(heads) < end
    ):
        raise WordError(
            start,
            f"minspan {shown(minspan)} of a mention of {end - start} words, expected positions"
            " inside it",
        )
    return TypedMention(start, end, values[order["etype"]].upper(), tuple(heads))
