"""CoNLL-U whose column MISC has coreference, ``Entity=``: CorefUD's from 1.0 on, and GUM's.

The words are the syntactic ones. A multiword token (3-4) only tells where no space is, and an empty
node (3.1) is no word: a mention keeps its words, and one of empty nodes alone is left out and
counted. Mentions are spans, so a discontinuous one (``e5[1/2]``) extends from its first piece to
the end of its last, and is counted.

The line ``# global.Entity`` names the fields of brackets for the rest of its file. Without it, only
(e5 ... e5) and GUM's older (place-103 ... place-103) are read. Format: Nedoluzhko et al. (2022),
CorefUD 1.0, section 4.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import NamedTuple

from entity_transformers.corpus.document import CorpusError, Document, Mention, make_document
from entity_transformers.corpus.files import (
    check_lines,
    check_text,
    is_html,
    number_names,
    shown,
)
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.readers import File, Reader, read_files, recognise_files
from entity_transformers.corpus.readers.ontonotes import TAGS

PENN = frozenset((*TAGS, "#", "GW", "_"))
FROM_UNIVERSAL = {
    "ADJ": "JJ", "ADP": "IN", "ADV": "RB", "AUX": "VB", "CCONJ": "CC", "DET": "DT", "INTJ": "UH",
    "NOUN": "NN", "NUM": "CD", "PART": "RP", "PRON": "PRP", "PROPN": "NNP", "PUNCT": ".",
    "SCONJ": "IN", "SYM": "SYM", "VERB": "VB", "X": "FW",
}  # fmt: skip
"""The Penn Treebank tag that replaces a universal part of speech."""
_PATTERNS = ("*.conllu", "*.conllu.gz")
_COLUMNS = 10
_ID = re.compile(r"([0-9]{1,6})(-[0-9]{1,6}|\.[0-9]{1,6})?")
"""The id of a word (3), of a multiword token (3-4) or of an empty node (3.1)."""
_ENTITY = re.compile(r"(?:^|\|)Entity=([^|]+)")
_CHUNK = re.compile(r"\(([^()]+)(\))?|([^()]+)\)")
_PIECE = re.compile(r"(.+)\[([0-9]{1,4})/([0-9]{1,4})\]")
_HEADLESS = re.compile(r"(?:[a-zA-Z_]+-(?=[0-9]))?(?P<id>[a-zA-Z_]*[0-9]+(?:\[[0-9]+/[0-9]+\])?)")
_FIRST = re.compile(r"#\s*(newdoc|newpar|global\.|sent_id|text\s*=)")


class Cell(NamedTuple):
    """An ``Entity`` cell: an opening bracket in it starts at word ``start``, a closing one ends at
    ``end`` (exclusive). The two are equal at an empty node; ``line`` is the cell's line.
    """

    start: int
    end: int
    line: int
    text: str


@dataclass(slots=True)
class Bracket:
    """A mention, or one of its ``pieces``, while it is read; ``end`` is -1 until it is closed.

    fields  the values of the opening bracket, by the names of ``# global.Entity``
    """

    start: int
    line: int
    entity: str
    piece: int
    pieces: int
    fields: dict[str, str]
    end: int = -1


@dataclass
class Table:
    """The words of a document, the numbers of their lines, and its non-empty ``Entity`` cells."""

    source: str
    name: str
    entity_fields: tuple[str, ...]
    words: list[str] = field(default_factory=list)
    universal: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    space_after: list[bool] = field(default_factory=list)
    sentence_starts: list[int] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def fault(self, line: int, message: str, column: int) -> CorpusError:
        """Return the error at a line."""
        return CorpusError(f"{self.source}, line {line}, column {column}: {message}")


@dataclass
class Block:
    """The lines of one document in a file, the first one's number, and the fields of entities."""

    first: int = 1
    name: str = ""
    entity_fields: tuple[str, ...] = ()
    lines: list[str] = field(default_factory=list)


def read_documents(file: File, ledger: Ledger) -> Iterator[Document]:
    """Yield a file's documents, nameless ones named after the file; a bad one raises CorpusError or
    is recorded.
    """
    names, empty = number_names(file.name), True
    for block in split_documents(file.lines):
        empty = False
        where = f"{file.path}, line {block.first}"
        with ledger.recording(where):
            check_text(block.name, where)
            name = block.name or next(names)
            with ledger.recording(f"{name}#0"):
                if ledger.admits(name, 0):
                    table = read_table(block, file.path)
                    if 2 * sum(not word.strip("_") for word in table.words) > len(table.words):
                        message = "most words are _, expected the words of the text: leave it out"
                        raise table.fault(table.lines[0], f"{message} with corpus.exclude", 2)
                    yield make_document(
                        name,
                        file.split,
                        table.words,
                        table.sentence_starts,
                        read_mentions(table, ledger),
                        tags=choose_tags(table),
                        spaces=table.space_after,
                    )
    if empty:
        raise CorpusError(f"{file.path}: no words in this file, expected CoNLL-U: remove it")


def split_documents(lines: Iterable[str]) -> Iterator[Block]:
    """Split a file into documents, each of which begins with its ``# newdoc``; the lines before the
    first one are a document if they have words.
    """
    block = Block()
    for number, line in enumerate(lines, 1):
        key, _, value = line[1:].partition("=") if line.startswith("#") else ("", "", "")
        key, value = key.strip(), value.strip()
        if key in ("newdoc", "newdoc id"):
            if block.name or any(one[0] not in "#\n" for one in block.lines):
                yield block
            block = Block(number, value, block.entity_fields)
        elif key == "global.Entity":
            block.entity_fields = tuple(value.split("-"))
        block.lines.append(line)
    if block.name or any(one[0] not in "#\n" for one in block.lines):
        yield block


def read_table(block: Block, source: str) -> Table:
    """Return the table of a document; CorpusError names line, column and value of a fault."""
    lines, first = block.lines, block.first
    check_lines(lines, source, first)
    if is_html(lines[0]):
        raise CorpusError(
            f"{source}, line {first}: a web page ({shown(lines[0])}), expected CoNLL-U: download"
            " the file itself"
        )
    if not lines[-1].endswith("\n"):
        raise CorpusError(
            f"{source}, line {first + len(lines) - 1}: the last line has no line break: it is"
            " truncated, fetch the file again"
        )
    table = Table(source, block.name, block.entity_fields)
    fresh, joined_until, space = True, 0, True
    for number, line in enumerate(lines, first):
        if line == "\n":
            fresh, joined_until = True, 0
            continue
        if line[0] == "#":
            continue
        fields, position, kind = _split_row(line, f"{source}, line {number}")
        spaced = "SpaceAfter=No" not in fields[9].split("|")
        if kind.startswith("-"):
            joined_until, space = int(kind[1:]), spaced
        elif not kind:
            if fresh:
                table.sentence_starts.append(len(table.words))
                fresh = False
            for column in (2, 4, 5):
                if fields[column - 1].split() != [fields[column - 1]]:
                    found = shown(fields[column - 1])
                    message = f"{found}, expected a string without white space"
                    raise table.fault(number, message, column)
            table.words.append(fields[1])
            table.universal.append(fields[3])
            table.tags.append(fields[4])
            table.lines.append(number)
            # no space inside a multiword token
            inside = position <= joined_until
            table.space_after.append((space and position == joined_until) if inside else spaced)
        _add_cell(table, fields[9], number, kind)
    if not table.words:
        raise CorpusError(
            f"{source}, line {first}: no words in this document: remove it or leave it out with"
            " corpus.exclude"
        )
    return table


def _split_row(line: str, where: str) -> tuple[list[str], int, str]:
    """Return a row's fields and the two parts of its id: 3 and "", 3 and -4, or 3 and .1."""
    fields = line[:-1].split("\t")
    if len(fields) != _COLUMNS:
        raise CorpusError(f"{where}: {len(fields)} columns ({shown(line)}), expected {_COLUMNS}")
    match = _ID.fullmatch(fields[0])
    if not match:
        raise CorpusError(
            f"{where}, column 1: {shown(fields[0])}, expected a word number such as 3, 3-4 or 3.1"
        )
    return fields, int(match[1]), match[2] or ""


def _add_cell(table: Table, misc: str, number: int, kind: str) -> None:
    """Keep a row's ``Entity``; ``kind`` is "" for a word, else the rest of its id (-4 or .1)."""
    if "ClusterId" in misc:
        message = "ClusterId, as in CorefUD before 1.0, expected Entity: use a newer release"
        raise table.fault(number, message, 10)
    if match := _ENTITY.search(misc):
        if _ENTITY.search(misc, match.end()):
            raise table.fault(number, "Entity occurs twice in this row, expected once", 10)
        if kind.startswith("-"):
            message = f"{shown(match[0])} on a multiword token, expected it on one of its words"
            raise table.fault(number, message, 10)
        end = len(table.words)
        table.cells.append(Cell(end if kind else end - 1, end, number, match[1]))


def choose_tags(table: Table) -> tuple[str, ...] | None:
    """Return Penn Treebank tags: those of column XPOS if all are valid, else replacements for those
    of UPOS; XX for a word without a tag, None if no word has one.
    """
    tags = table.tags
    if not PENN.issuperset(tags) or not {*tags} - {"_"}:
        tags = [FROM_UNIVERSAL.get(tag, "_") for tag in table.universal]
    return tuple("XX" if tag == "_" else tag for tag in tags) if {*tags} - {"_"} else None


def read_mentions(table: Table, ledger: Ledger) -> list[Mention]:
    """Return the document's mentions by start, the longest first. Chains have the numbers in their
    entities' names, such as 5 in e5, if those all differ, and are otherwise numbered by first
    mention.

    A bracket or piece without a partner raises CorpusError; if the ledger's policy is skip, only
    the bracket is dropped, and counted as ``unmatched_brackets``.
    """
    found, unmatched = match_brackets(table)
    if unmatched and ledger.policy == "strict":
        line, message = unmatched[0]
        advice = (
            "correct the file, name it in corpus.exclude, or set corpus.bad_documents to skip to"
            " drop the bracket"
        )
        raise table.fault(line, f"{message} in this document: {advice}", 10)
    kept = [one for one in found if one.start < one.end]
    counts = Counter(
        unmatched_brackets=len(unmatched),
        discontinuous_mentions=sum(one.pieces > 1 for one in kept),
        mentions_of_empty_nodes=len(found) - len(kept),
    )
    ledger.counts.update(+counts)  # those that are not 0
    kept.sort(key=lambda one: (one.start, -one.end))
    names = [*dict.fromkeys(one.entity for one in kept)]
    digits = [re.search(r"[0-9]{1,18}\Z", name) for name in names]
    numbers = [int(match[0]) for match in digits if match]
    distinct = len({*numbers}) == len(names)
    chains = dict(zip(names, numbers if distinct else count(1), strict=False))
    return [Mention(one.start, one.end, chains[one.entity]) for one in kept]


def match_brackets(table: Table) -> tuple[list[Bracket], list[tuple[int, str]]]:
    """Return the mentions, their pieces joined, in any order, and (line, message) of each bracket
    without a partner, by line.

    Each piece of an entity has its own stack, so mentions may cross, and those of one entity may
    nest (the inner one closes first). CorpusError for a cell that is no bracket expression.
    """
    opened: list[Bracket] = []
    stacks: dict[str, list[Bracket]] = defaultdict(list)
    unmatched: list[tuple[int, str]] = []
    for cell in table.cells:
        if _CHUNK.sub("", cell.text):
            raise _wrong(table, cell, "expected brackets such as (e5-person-1- and e5)")
        for opening, closed, closing in _CHUNK.findall(cell.text):
            key, fields = _split_fields(table, cell, opening or closing, opens=bool(opening))
            if opening:
                match = _PIECE.fullmatch(key)
                entity, piece, pieces = match.groups() if match else (key, 1, 1)
                bracket = Bracket(cell.start, cell.line, entity, int(piece), int(pieces), fields)
                if "[" in entity or not 1 <= bracket.piece <= bracket.pieces:
                    raise _wrong(table, cell, "expected pieces such as e5[1/2] and e5[2/2]")
                opened.append(bracket)
                stacks[key].append(bracket)
            if (closed or closing) and stacks[key]:
                stacks[key].pop().end = cell.end
            elif closed or closing:
                unmatched.append((cell.line, f"{closing}) closes a mention that was never opened"))
    unmatched += [
        (one.line, f"({key} opens a mention that is never closed")
        for key, stack in stacks.items()
        for one in stack
    ]
    mentions = _join_pieces([one for one in opened if one.end >= 0], unmatched)
    return mentions, sorted(unmatched)


def _wrong(table: Table, cell: Cell, expected: str) -> CorpusError:
    names = f" with the fields {'-'.join(table.entity_fields)}" if table.entity_fields else ""
    return table.fault(cell.line, f"Entity={shown(cell.text)}: {expected}{names}", 10)


def _split_fields(
    table: Table, cell: Cell, text: str, *, opens: bool
) -> tuple[str, dict[str, str]]:
    """Return the entity of a bracket, with its piece, and the bracket's values by field name."""
    names = table.entity_fields
    if not names:
        match = _HEADLESS.fullmatch(text)
        if not match:
            expected = "no line # global.Entity lists its fields: add one, or write (e5 and e5)"
            raise _wrong(table, cell, expected)
        return match["id"], {}
    if not opens and "-" not in text:
        return text, {}
    fields = dict(zip(names, text.split("-", len(names) - 1), strict=False))
    found = fields.get("eid") or fields.get("GRP")
    if not found:
        raise _wrong(table, cell, "expected an entity, eid or GRP, among the values")
    return found, fields


def _join_pieces(found: list[Bracket], unmatched: list[tuple[int, str]]) -> list[Bracket]:
    """Join the pieces of each mention, from the first word of any to the end of the last; a piece
    belongs to the latest mention of its entity that lacks it.
    """
    mentions: list[Bracket] = []
    lacking: dict[tuple[str, int, int], list[list[Bracket]]] = defaultdict(list)
    for one in found:
        begun = lacking[one.entity, one.pieces, one.piece]
        if one.piece > 1 and not begun:
            message = f"{one.entity}[{one.piece}/{one.pieces}] has no piece before it"
            unmatched.append((one.line, message))
            continue
        parts = [*(begun.pop() if one.piece > 1 else ()), one]
        if one.piece < one.pieces:
            lacking[one.entity, one.pieces, one.piece + 1].append(parts)
            continue
        real = [part for part in parts if part.start < part.end] or parts[:1]
        start, end = min(part.start for part in real), max(part.end for part in real)
        mentions.append(replace(parts[0], start=start, end=end, pieces=len(real)))
    unmatched += [
        (parts[-1].line, f"{entity}[{piece}/{pieces}] is missing")
        for (entity, pieces, piece), begun in lacking.items()
        for parts in begun
    ]
    return mentions


READER = Reader(
    name="conllu",
    read=read_files(_PATTERNS, read_documents),
    recognise=partial(
        recognise_files,
        patterns=_PATTERNS,
        begins=_FIRST.match,
        why="it begins with a CoNLL-U comment",
    ),
    patterns=_PATTERNS,
)
