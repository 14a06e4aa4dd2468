"""A user's file as a resolver's answer (CoNLL-2012 or CorefUD), checked word by word."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from entity_transformers.corpus.brackets import match_chains
from entity_transformers.corpus.conll2012 import parse_block, parse_header, split_documents
from entity_transformers.corpus.conllu import Table, read_table
from entity_transformers.corpus.document import CorpusError, Document, Mention, WordError
from entity_transformers.corpus.files import find_files, is_html, open_lines, shown
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.resolve.base import ResolverError

_PATTERNS = ("*_conll", "*.conll", "*.conllu")
_OPENING = re.compile(r"\(([^()]+)(\))?|([^()]+)\)")
_PART = re.compile(r"(.*)\[([0-9]{1,4})/([0-9]{1,4})\]")
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Answer:
    """What a file says of one document; ``lines`` are those of its words."""

    name: str
    part: int
    words: tuple[str, ...]
    mentions: tuple[Mention, ...]
    path: Path
    lines: Sequence[int]

    def place(self, word: int) -> str:
        """File and line of a word, as errors name it."""
        return f"{self.path}, line {self.lines[word]}"


class Answers:
    """Resolver ``file``: the mentions of a file or of a folder of them (.gz or not).

    A document is found by name and part, or by name where the file has one such part; an answer
    that stands alone is taken for whatever is asked. ``name``: how the label layer is called.
    """

    causal = False

    def __init__(self, path: str | Path, name: str = "file") -> None:
        self.name = name
        self._path = Path(path)
        self._answers = _index(read_answers(self._path), self._path)
        self._used: set[tuple[str, int]] = set()

    def resolve(self, document: Document) -> tuple[Mention, ...]:
        """The document's mentions; ResolverError if it has no answer, or other words."""
        answer = self._find(document)
        _check_words(answer, document)
        self._used.add((answer.name, answer.part))
        return answer.mentions

    def unused(self) -> list[str]:
        """The answers that no document asked for."""
        return [f"{name}#{part}" for name, part in self._answers if (name, part) not in self._used]

    def _find(self, document: Document) -> Answer:
        exact = self._answers.get((document.name, document.part))
        named = [a for a in self._answers.values() if a.name == document.name]
        found = [exact] if exact else named or list(self._answers.values())
        if len(found) == 1 and found[0]:
            return found[0]
        names = [f"{name}#{part}" for name, part in self._answers]
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        raise ResolverError(
            f"{self._path}: no answer for document {document.id}; it has"
            f" {', '.join(names[:5])}{more}: name the documents as in the corpus"
        )


def _index(answers: Iterable[Answer], path: Path) -> dict[tuple[str, int], Answer]:
    index: dict[tuple[str, int], Answer] = {}
    for answer in answers:
        key = (answer.name, answer.part)
        if key in index:
            raise ResolverError(
                f"{answer.place(0)}: document {answer.name}#{answer.part} stands twice in {path},"
                f" first at {index[key].place(0)}: keep one"
            )
        index[key] = answer
    return index


def _check_words(answer: Answer, document: Document) -> None:
    for i, (theirs, ours) in enumerate(zip(answer.words, document.words, strict=False)):
        if theirs != ours:
            raise ResolverError(
                f"{answer.place(i)}: the word is {shown(theirs)}, expected {shown(ours)}, word"
                f" {i} of document {document.id}: resolve the same words"
            )
    if len(answer.words) != len(document.words):
        raise ResolverError(
            f"{answer.place(len(answer.words) - 1)}: {len(answer.words)} words, expected"
            f" {len(document.words)} as in document {document.id}: was the file cut?"
        )


def read_answers(path: Path) -> Iterator[Answer]:
    """The answers of a file or folder, in order.

    CorpusError, with file, line and value, for whatever the readers of the corpora refuse, for a
    file of neither format, and for a folder without any.
    """
    files = [path]
    if path.is_dir():
        files = find_files(path, (*_PATTERNS, *(f"{pattern}.gz" for pattern in _PATTERNS)))
    if not files:
        raise CorpusError(f"{path}: no file matches {', '.join(_PATTERNS)} (or the same with .gz)")
    for file in files:
        first = next((line for line in open_lines(file) if line.strip()), "")
        if first.startswith("#begin document"):
            yield from _read_conll(file)
        elif first.startswith("#") or first.count("\t") == 9:
            yield from _read_corefud(file)
        else:
            what = "a web page" if is_html(first) else shown(first.rstrip("\n"))
            raise CorpusError(
                f"{file}, line 1: {what}, expected #begin document (CoNLL-2012) or # newdoc id ="
                " (CorefUD)"
            )


def _read_conll(path: Path) -> Iterator[Answer]:
    for block in split_documents(open_lines(path), str(path), Ledger()):
        name, part = parse_header(block)
        document = parse_block(block, name, part, "train")
        yield Answer(name, part, document.words, document.mentions, path, list(block.numbers()))


def _read_corefud(path: Path) -> Iterator[Answer]:
    """One answer per ``# newdoc``; what comes before the first one belongs to it."""
    lines: list[str] = []
    first, number, fields = 1, 0, ""
    for number, line in enumerate(open_lines(path), 1):
        if line.startswith("# global.Entity"):
            fields = line  # stands in a file's first document, holds for all of them
        if line.startswith("# newdoc") and any(row[0] not in "#\n" for row in lines):
            yield _read_block(path, lines, first, fields)
            lines, first = [], number
        lines.append(line)
    yield _read_block(path, lines, first, fields)


def _read_block(path: Path, lines: list[str], first: int, fields: str) -> Answer:
    counts: Counter[str] = Counter()
    rows = [_make_readable(line, counts) for line in lines]
    try:
        table = read_table(rows, str(path))
    except CorpusError:
        # again, with the lines before it, so that the error has the file's own line numbers
        table = read_table(["#\n"] * (first - 1) + rows, str(path))
    table.lines = [number + first - 1 for number in table.lines]
    order = fields.partition("=")[2].strip().split("-")
    column = next((order.index(key) for key in ("eid", "GRP") if key in order), 0)
    try:
        mentions, unmatched = match_chains(_number_cells(table, column, counts), None)
    except WordError as error:
        raise table.fault(error.word, str(error), 10) from None
    if unmatched:
        word = unmatched[0].word
        cell = shown(dict(table.entities)[word])
        message = f"Entity={cell}: one of its brackets has no partner in this document"
        raise table.fault(word, message, 10)
    if counts:
        found = ", ".join(f"{number} {what}" for what, number in sorted(counts.items()))
        _logger.warning("%s, line %d: %s", path, first, found)
    return Answer(
        table.name or path.name, 0, tuple(table.words), tuple(mentions), path, table.lines
    )


def _make_readable(line: str, counts: Counter[str]) -> str:
    """The row with a sign in place of a part of speech that is not known, which CorefUD allows."""
    if line[0] in "#\n":
        return line
    cells = line.split("\t")
    if len(cells) == 10:
        if "." in cells[0] and "Entity=" in cells[9]:
            counts["mentions of words that the text does not have, left out"] += 1
        if cells[4] == "_":
            cells[4] = "XX"
    return "\t".join(cells)


def _number_cells(table: Table, column: int, counts: Counter[str]) -> Iterator[tuple[int, str]]:
    """The brackets with numbers, by first appearance, for names such as ``e12``; of a mention of
    several pieces the first one's opening and the last one's end.
    """
    numbers: dict[str, int] = {}
    for word, cell in table.entities:
        if _OPENING.sub("", cell):
            raise table.fault(word, f"Entity={shown(cell)}: expected such as (e7-person-1)e6)", 10)
        brackets = ""
        for opening, closed, closing in _OPENING.findall(cell):
            values = (opening or closing).split("-")
            entity = values[column] if opening and column < len(values) else values[0]
            piece, pieces = 1, 1
            if match := _PART.fullmatch(entity):
                entity, piece, pieces = match[1], int(match[2]), int(match[3])
            opens = bool(opening) and piece == 1
            closes = bool(closed or closing) and piece == pieces
            if opens and pieces > 1:
                counts["mentions of several pieces, taken with what lies between"] += 1
            number = numbers.setdefault(entity, len(numbers) + 1)
            brackets += f"({number}" if opens else ""
            brackets += f"{'' if opens else number})" if closes else ""
        if brackets:
            yield word, brackets
