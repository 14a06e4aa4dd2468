"""CoNLL-2012 / OntoNotes 5.0 rows, and the corpora that are written in them (WinoBias, LitBank).

Columns: 1 document, 2 part, 3 word number, 4 word, 5 part of speech, 11 named entity, and the last
one coreference. A row has at least 12 columns, and one more per predicate of its sentence; or it
has 3 to 5, the last two being the word and its coreference, as resolvers and scorers write them.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter

from entity_transformers.corpus.document import (
    CorpusError,
    Document,
    Mention,
    NamedEntity,
    reading_order,
)
from entity_transformers.corpus.files import check_lines, check_text, is_html, shown
from entity_transformers.corpus.ledger import Ledger

ONTONOTES_TYPES = [
    "PERSON", "NORP", "FAC", "ORG", "GPE", "LOC", "PRODUCT", "DATE", "TIME", "PERCENT", "MONEY",
    "QUANTITY", "ORDINAL", "CARDINAL",
    "EVENT", "WORK_OF_ART", "LAW", "LANGUAGE",
]  # fmt: skip
"""The 18 named-entity types of OntoNotes 5.0, in the order in which the hub numbers them."""
UNKNOWN = frozenset(("-", "_"))
"""The values of a column that is not annotated."""
_BRACKET = re.compile(r"(\()?([0-9]{1,18})(\))?")
_TYPE = re.compile(r"((?:\([^()*\s]+)*)(\*\)*|\)+)")
_SKELETON = "[WORD]"
_ORIGINALS = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}",
    "-AMP-": "&", "/.": ".", "/?": "?",
}  # fmt: skip

Bracket = tuple[bool, int, bool]
"""Whether the bracket opens at this word, its chain, and whether it closes here."""
FEWEST_COLUMNS, NARROW = 12, (3, 4, 5)
_HEADER = re.compile(
    r"#begin document (?:\((.+)\)|([^\s();]+))\s*(?:;\s*(?:part\s+([0-9]{1,9}))?)?\s*"
)
"""Matches the header of SemEval-2010 as well, whose document name has no parentheses."""


@dataclass
class Block:
    """The lines of one document in a file; ``first`` is the line number of the header."""

    source: str
    first: int
    header: str
    lines: list[str] = field(default_factory=list)
    ended: bool = False

    def fault(self, word: int, message: str, column: int | str) -> CorpusError:
        """Return the error for the row of a word."""
        numbers = [n for n, line in enumerate(self.lines, self.first + 1) if line.strip(" \n")]
        return CorpusError(f"{self.source}, line {numbers[word]}, column {column}: {message}")


def read_rows(
    lines: Iterable[str], source: str, split: str = "train", ledger: Ledger | None = None
) -> Iterator[Document]:
    """Yield the documents of one CoNLL-2012 file given as lines; ``source`` names it in errors.

    A bad document raises CorpusError or, if the ledger's policy is skip, is recorded and left out.
    """
    ledger = ledger or Ledger()
    return ledger.accept(_read_documents(lines, source, split, ledger), source)


def _read_documents(
    lines: Iterable[str], source: str, split: str, ledger: Ledger
) -> Iterator[Document]:
    for block in _split_documents(lines, source, ledger):
        where = f"{source}, line {block.first}"
        with ledger.recording(where):
            check_text(block.header, where)
            match = _HEADER.fullmatch(block.header)
            if not match:
                expected = "expected #begin document (NAME); part N"
                raise CorpusError(f"{where}: {shown(block.header)}, {expected}")
            name, part = match[1] or match[2], int(match[3] or 0)
            with ledger.recording(f"{name}#{part}"):
                if ledger.admits(name, part):
                    yield _parse(block, name, part, split)


def _split_documents(lines: Iterable[str], source: str, ledger: Ledger) -> Iterator[Block]:
    """Yield a file's documents, unparsed; reject text outside them, and a file without any."""
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
            strayed, where = True, f"{source}, line {number}"
            what = "is a web page" if is_html(line) else "is outside any document"
            fault = f"{shown(line)} {what}, expected #begin document (NAME); part N first"
            ledger.reject(where, CorpusError(f"{where}: {fault}"))
    if block:
        yield block
    elif not found and not strayed:
        fault = "no document in this file, expected a line #begin document (NAME); part N"
        ledger.reject(source, CorpusError(f"{source}: {fault}"))


def _parse(block: Block, name: str, part: int, split: str) -> Document:
    check_lines(block.lines, block.source, block.first + 1)
    if not block.ended:
        last = block.first + len(block.lines)
        raise CorpusError(
            f"{block.source}, line {last}: document {name} has no #end document: the file is"
            " truncated, fetch it again"
        )
    rows, starts = _split_rows(block)
    if not rows:
        raise CorpusError(
            f"{block.source}, line {block.first}: document {name} has no words: remove it"
        )
    words = restore_words(block, [row[3] for row in rows])
    tags = restore_tags(block, [row[4] for row in rows])
    chains = [(word, row[-1]) for word, row in enumerate(rows) if row[-1] not in ("-", "", "_")]
    mentions = match_chains(block, chains)
    genre = name.partition("/")[0] if "/" in name else ""
    cells = [(word, row[10]) for word, row in enumerate(rows) if row[10] != "*"]
    entities: tuple[NamedEntity, ...] | None = None
    annotated = len(cells) < len(rows) or not UNKNOWN.issuperset(cell for _, cell in cells)
    if genre != "pt" and annotated:  # OntoNotes' translations have no named entities
        entities = tuple(match_types(block, cells))
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
    """Return the fields of every word, and each sentence's first word."""
    rows: list[list[str]] = []
    starts: list[int] = []
    fresh, width = True, 0
    for line in block.lines:
        text = line.strip(" \n")
        if not text:
            fresh = True
            continue
        # tabs preserve empty fields
        row = line.rstrip("\n").split("\t") if "\t" in line else [*filter(None, text.split(" "))]
        if fresh:
            starts.append(len(rows))
            fresh, width = False, len(row)
        word, columns = len(rows), len(row)
        if (columns < FEWEST_COLUMNS and columns not in NARROW) or columns != width:
            message = (
                f"a row of {columns} columns ({shown(text)}), expected at least {FEWEST_COLUMNS},"
                " or 3 to 5, as many as in the sentence's first row: is it truncated?"
            )
            raise block.fault(word, message, columns)
        if columns in NARROW:  # a row of fewer than 5 lacks the number of its word
            place = row[:3] if columns == max(NARROW) else ["", "", str(word)]
            row = [*place, row[-2], *["-"] * (FEWEST_COLUMNS - 5), row[-1]]
        rows.append(row)
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


@lru_cache(1 << 16)
def parse_chain_cell(cell: str) -> tuple[Bracket, ...]:
    """Parse the brackets of one word in the order written; none if the cell is anything else."""
    found = [_BRACKET.fullmatch(piece) for piece in cell.split("|")]
    if not all(match and (match[1] or match[3]) for match in found):
        return ()
    return tuple((bool(match[1]), int(match[2]), bool(match[3])) for match in found if match)


def match_chains(block: Block, cells: Iterable[tuple[int, str]]) -> list[Mention]:
    """Return the mentions of the (word, cell) pairs, in reading order. Each chain has its own
    stack, so chains may cross and a chain may nest in itself (the inner span closes first).
    """
    column = "coreference (the last)"
    stacks: dict[int, list[int]] = defaultdict(list)
    mentions: list[Mention] = []
    unmatched: list[tuple[int, str]] = []
    for word, cell in cells:
        brackets = parse_chain_cell(cell)
        if not brackets:
            expected = "expected something like (3, 3) or (3), joined by |"
            raise block.fault(word, f"chain brackets {shown(cell)}: {expected}", column)
        for opens, chain, closes in brackets:
            if opens:
                stacks[chain].append(word)
            if closes and stacks[chain]:
                mentions.append(Mention(stacks[chain].pop(), word + 1, chain))
            elif closes:
                fault = f"{chain}) closes a mention of chain {chain} that was never opened"
                unmatched.append((word, fault))
    for chain, words in stacks.items():
        fault = f"({chain} opens a mention of chain {chain} that is never closed"
        unmatched += [(word, fault) for word in words]
    if unmatched:
        word, fault = min(unmatched, key=itemgetter(0))
        raise block.fault(word, f"{fault} in this document", column)
    return sorted(mentions, key=reading_order)


def match_types(block: Block, cells: Iterable[tuple[int, str]]) -> list[NamedEntity]:
    """Return the typed spans of the (word, cell) pairs, which may nest, by descending ends and an
    outer one before an inner one.
    """
    entities: list[NamedEntity] = []
    opened: list[tuple[int, str]] = []
    for word, cell in cells:
        match = _TYPE.fullmatch(cell)
        labels = match[1].split("(")[1:] if match else []
        if not match or not set(labels).issubset(ONTONOTES_TYPES):
            message = (
                f"named entity {shown(cell)}: expected something like (ORG*, *), (ORG) or *, of"
                f" types {', '.join(ONTONOTES_TYPES)}"
            )
            raise block.fault(word, message, 11)
        opened += ((word, label) for label in labels)
        for _ in range(match[2].count(")")):
            if not opened:
                message = f"{shown(cell)} closes a named entity that was never opened"
                raise block.fault(word, message, 11)
            start, label = opened.pop()
            entities.append(NamedEntity(start, word + 1, label))
    if opened:
        word, label = opened[-1]
        raise block.fault(word, f"({label} opens a named entity that is never closed", 11)
    return entities[::-1]


def restore_words(block: Block, words: Sequence[str]) -> tuple[str, ...]:
    """Return the words as in running text, without the escapes of brackets, marks and ``&``."""
    if _SKELETON in words:
        message = (
            f"the word is {_SKELETON}, a skeleton without text: run skeleton2conll with the LDC's"
            " OntoNotes release first"
        )
        raise block.fault(words.index(_SKELETON), message, 4)
    _refuse_spaces(block, words, "word", 4)
    return tuple(_ORIGINALS.get(word, word) for word in words)


def restore_tags(block: Block, tags: Sequence[str]) -> tuple[str, ...] | None:
    """Return the tags, with OntoNotes' ``XX`` for missing ones; None if all are missing."""
    if UNKNOWN.issuperset(tags):
        return None
    _refuse_spaces(block, tags, "tag", 5)
    return tuple("XX" if tag in UNKNOWN else tag for tag in tags)


def _refuse_spaces(block: Block, values: Sequence[str], what: str, column: int) -> None:
    if " ".join(values).split() != [*values]:
        word = next(i for i, value in enumerate(values) if value.split() != [value])
        message = f"the {what} is {shown(values[word])}, expected a string without white space"
        raise block.fault(word, message, column)
