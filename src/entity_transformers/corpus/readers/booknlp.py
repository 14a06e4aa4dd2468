"""BookNLP's output: the words of a book (``BOOK.tokens``) and its entities (``BOOK.entities``),
both tab-separated with the column names in the first line. A document is a book.

Entities are spans [start_token, end_token], the last word included, and COREF is their chain; a
proper one (prop PROP) is also a named entity of type ``cat``, the outermost where they nest. An
entity whose COREF is negative has no chain; it is counted and is not a mention. Byte offsets tell
where spaces are. Format: the README of booknlp/booknlp, version 1.0.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from entity_transformers.corpus.document import (
    CorpusError,
    Document,
    Mention,
    NamedEntity,
    make_document,
)
from entity_transformers.corpus.files import check_text, find_files, first_line, open_lines, shown
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.readers import Evidence, File, Match, Reader, read_files

_TOKENS = ("token_ID_within_document", "sentence_ID", "byte_onset", "byte_offset", "word",
           "fine_POS_tag")  # fmt: skip
_ENTITIES = ("COREF", "start_token", "end_token", "prop", "cat")
_PATTERNS = ("*.tokens",)


def read(path: Path, ledger: Ledger) -> Iterator[Document]:
    """Yield the book of either of its two files, or the books of a folder, sorted by path."""
    if path.suffix == ".entities":
        path = path.with_suffix(".tokens")
    return read_files(_PATTERNS, _read_pair)(path, ledger)


def _read_pair(file: File, ledger: Ledger) -> Iterator[Document]:
    if ledger.admits(file.name):
        entities = Path(file.path).with_suffix(".entities")
        if not entities.is_file():
            raise CorpusError(f"{entities}: no such file, but BookNLP writes one per book: add it")
        yield read_book(file, open_lines(entities), ledger)


def read_book(file: File, entities: Iterable[str], ledger: Ledger) -> Document:
    """Return the document of both files' lines; CorpusError names file and line of a fault."""
    words: list[str] = []
    tags: list[str] = []
    bounds: list[tuple[int, int]] = []
    starts: list[int] = []
    sentence = -1
    numbers = ("token_ID_within_document", "sentence_ID", "byte_onset", "byte_offset")
    for where, row in _read_columns(file.lines, file.path, _TOKENS):
        place, current, *ends = _as_numbers([row[name] for name in numbers], where)
        if place != len(words):
            raise CorpusError(
                f"{where}: token_ID_within_document is {place}, expected {len(words)}: is a row"
                " missing?"
            )
        word, tag = row["word"], row["fine_POS_tag"]
        for text in (word, tag):
            if text.split() != [text]:
                raise CorpusError(f"{where}: {shown(text)}, expected a string without white space")
        if current != sentence:
            starts.append(place)
            sentence = current
        words.append(word)
        tags.append(tag)
        bounds.append((ends[0], ends[1]))
    if not words:
        raise CorpusError(
            f"{file.path}: no words in this file, expected BookNLP's tokens: remove it"
        )
    mentions, named = _read_entities(
        entities, file.path.removesuffix(".tokens") + ".entities", len(words), ledger
    )
    spaces = [*(after[0] > before[1] for before, after in pairwise(bounds)), True]
    return make_document(
        file.name,
        file.split,
        words,
        starts,
        mentions,
        tags=tags,
        spaces=spaces,
        named_entities=named,
    )


def _read_entities(
    lines: Iterable[str], source: str, words: int, ledger: Ledger
) -> tuple[list[Mention], list[NamedEntity]]:
    mentions: list[Mention] = []
    named: list[NamedEntity] = []
    for where, row in _read_columns(lines, source, _ENTITIES):
        numbers = [row[name] for name in ("COREF", "start_token", "end_token")]
        chain, start, end = _as_numbers(numbers, where)
        if not 0 <= start <= end < words:
            raise CorpusError(
                f"{where}: start_token {start} and end_token {end}, expected an entity's first and"
                f" last word, out of {words} words"
            )
        if chain >= 0:
            mentions.append(Mention(start, end + 1, chain))
        else:
            ledger.counts["entities_without_chain"] += 1
        if row["prop"] == "PROP" and row["cat"]:
            named.append(NamedEntity(start, end + 1, row["cat"]))
    return mentions, named


def _read_columns(
    lines: Iterable[str], source: str, names: Sequence[str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the place of each row, and its values by the columns' names, which include these."""
    header: list[str] = []
    for number, line in enumerate(lines, 1):
        where = f"{source}, line {number}"
        check_text(line, where)
        row = line.removesuffix("\n").split("\t")
        if number == 1:
            header = row
            if missing := [name for name in names if name not in header]:
                raise CorpusError(
                    f"{where}: {shown(line)}, expected the names of BookNLP's columns, including"
                    f" {', '.join(missing)}"
                )
        elif len(row) != len(header):
            raise CorpusError(f"{where}: {len(row)} columns, expected {len(header)}: truncated?")
        else:
            yield where, dict(zip(header, row, strict=True))


def _as_numbers(values: Sequence[str], where: str) -> list[int]:
    for value in values:
        if not (value.removeprefix("-").isdecimal() and value.isascii() and len(value) < 19):
            raise CorpusError(f"{where}: {shown(value)}, expected a number")
    return [int(value) for value in values]


def recognise(path: Path) -> Match | None:
    """Recognise the first line of a book's words, or of the first such file of a folder."""
    if path.suffix == ".entities":
        path = path.with_suffix(".tokens")
    found = find_files(path, _PATTERNS) if path.is_dir() else [path]
    if found and found[0].is_file() and _TOKENS[0] in first_line(found[0]):
        return Match(Evidence.CONTENT, f"{found[0].name} has the columns of BookNLP")
    return None


READER = Reader(name="booknlp", read=read, recognise=recognise, patterns=("*.tokens", "*.entities"))
