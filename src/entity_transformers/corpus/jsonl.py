"""Documents as JSON lines: the pipeline's own form, and the way in for a user's text with chains.

A user's row needs ``name`` and ``words``; everything else has a default: {"name": "letter-1",
"split": "train", "words": ["Ada", "met", "her", "friend", "."], "mentions": [[0, 1, 7], [2, 3, 7]]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from entity_transformers.corpus.document import CorpusError, Document, Mention, NamedEntity
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.lines import check_text, is_html, shown
from entity_transformers.study.sections import SPLITS

_OPTIONAL: dict[str, Any] = {
    "part": 0, "split": "train", "genre": "", "sentence_starts": [0], "mentions": [],
    "tags": None, "space_after": None, "named_entities": None,
}  # fmt: skip
LONGEST_ROW = 100_000_000
"""Characters of a row, which holds a whole document."""

KEYS = ("name", "words", *_OPTIONAL)


def to_row(document: Document) -> dict[str, Any]:
    """The JSON object of a document; `from_row` gives it back."""
    entities = document.named_entities
    return {
        "name": document.name,
        "part": document.part,
        "split": document.split,
        "genre": document.genre,
        "words": list(document.words),
        "sentence_starts": list(document.sentence_starts),
        "mentions": [[m.start, m.end, m.chain] for m in document.mentions],
        "tags": None if document.tags is None else list(document.tags),
        "space_after": (
            None if document.space_after is None else [int(space) for space in document.space_after]
        ),
        "named_entities": (
            None if entities is None else [[e.start, e.end, e.label] for e in entities]
        ),
    }


def read_rows(
    lines: Iterable[str], source: str, split: str = "train", ledger: Ledger | None = None
) -> Iterator[Document]:
    """Documents of one file given as lines; ``split`` is for rows without one. A bad row raises
    CorpusError or is written down.
    """
    ledger = ledger or Ledger()
    return ledger.accept(_read_lines(lines, source, split, ledger), source)


def _read_lines(
    lines: Iterable[str], source: str, split: str, ledger: Ledger
) -> Iterator[Document]:
    empty = True
    for number, line in enumerate(lines, 1):
        if line == "\n":
            continue
        empty = False
        where = f"{source}, line {number}"
        try:
            check_text(line, where, LONGEST_ROW)
            document = from_row({"split": split, **_parse(line, where)}, where)
            if ledger.admits(document.name, document.part):
                yield document
        except CorpusError as error:
            ledger.reject(where, error)
    if empty:
        ledger.reject(
            source,
            CorpusError(f"{source}: no document in this file, expected one JSON object a line"),
        )


def _parse(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        what = "a web page" if is_html(line) else f"not JSON ({error.msg})"
        raise CorpusError(
            f"{where}, character {error.pos + 1}: {what}: {shown(line[error.pos :])}, expected one"
            " object a line"
        ) from None
    except (ValueError, RecursionError) as error:
        raise CorpusError(
            f"{where}: not JSON that can be read ({shown(str(error))}): {shown(line)}"
        ) from None
    if not isinstance(row, dict):
        raise CorpusError(
            f"{where}: {shown(line)} is a JSON {type(row).__name__}, expected an object"
        )
    return row


def from_row(row: Mapping[str, Any], where: str) -> Document:
    """The document of a JSON object; ``where`` names it in errors. CorpusError for any key, type,
    length or span that does not fit.
    """
    _check_keys(row, where)
    row = {**_OPTIONAL, **row}
    words = _texts(row["words"], f"{where}, words")
    if not words:
        raise CorpusError(f"{where}, words: none, expected at least one: remove the document")
    tags = None if row["tags"] is None else _texts(row["tags"], f"{where}, tags")
    spaces = (
        None if row["space_after"] is None else _flags(row["space_after"], f"{where}, space_after")
    )
    for key, values in (("tags", tags), ("space_after", spaces)):
        if values is not None and len(values) != len(words):
            raise CorpusError(
                f"{where}, {key}: {len(values)} values, expected {len(words)} as many as words"
            )
    return Document(
        name=_text(row["name"], f"{where}, name", empty=False),
        part=_integer(row["part"], 0, 2**31 - 1, f"{where}, part"),
        split=_split(row["split"], f"{where}, split"),
        genre=_text(row["genre"], f"{where}, genre"),
        words=words,
        sentence_starts=_starts(row["sentence_starts"], len(words), f"{where}, sentence_starts"),
        mentions=_mentions(row["mentions"], len(words), f"{where}, mentions"),
        tags=tags,
        space_after=spaces,
        named_entities=(
            None
            if row["named_entities"] is None
            else _entities(row["named_entities"], len(words), f"{where}, named_entities")
        ),
    )


def _check_keys(row: Mapping[str, Any], where: str) -> None:
    for key in ("name", "words"):
        if key not in row:
            raise CorpusError(
                f"{where}: no key {key!r}, expected at least name and words (and any of"
                f" {', '.join(_OPTIONAL)})"
            )
    for key in row:
        if key not in KEYS:
            raise CorpusError(f"{where}: key {shown(key)}, expected one of {', '.join(KEYS)}")


def _text(value: Any, where: str, *, empty: bool = True) -> str:
    if not isinstance(value, str) or not (value or empty):
        raise CorpusError(
            f"{where}: {shown(value)}, expected a text{'' if empty else ' that is not empty'}"
        )
    check_text(value, where, LONGEST_ROW)
    return value


def _texts(values: Any, where: str) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise CorpusError(f"{where}: {shown(values)}, expected a list of texts")
    for index, value in enumerate(values):
        if not isinstance(value, str) or value.split() != [value]:
            raise CorpusError(
                f"{where}[{index}]: {shown(value)}, expected a text without white space"
            )
    check_text("".join(values), where, LONGEST_ROW)
    return tuple(values)


def _flags(values: Any, where: str) -> tuple[bool, ...]:
    if not isinstance(values, list):
        raise CorpusError(f"{where}: {shown(values)}, expected a list of 0 and 1")
    for index, value in enumerate(values):
        if not isinstance(value, int) or value not in (0, 1):
            raise CorpusError(f"{where}[{index}]: {shown(value)}, expected 0 or 1")
    return tuple(map(bool, values))


def _integer(value: Any, least: int, most: int, where: str) -> int:
    if type(value) is not int or not least <= value <= most:
        raise CorpusError(f"{where}: {shown(value)}, expected an integer from {least} to {most}")
    return value


def _split(value: Any, where: str) -> str:
    if value not in SPLITS:
        raise CorpusError(f"{where}: {shown(value)}, expected one of {', '.join(SPLITS)}")
    return str(value)


def _starts(values: Any, n_words: int, where: str) -> tuple[int, ...]:
    if not isinstance(values, list) or not values:
        raise CorpusError(f"{where}: {shown(values)}, expected a list that begins with 0")
    starts = [
        _integer(value, 0, n_words - 1, f"{where}[{index}]") for index, value in enumerate(values)
    ]
    if starts[0] != 0 or any(first >= second for first, second in pairwise(starts)):
        raise CorpusError(
            f"{where}: {shown(values)}, expected ascending word indices that begin with 0"
        )
    return tuple(starts)


def _triples(values: Any, n_words: int, third: str, where: str) -> Iterator[tuple[int, int, Any]]:
    if not isinstance(values, list):
        raise CorpusError(f"{where}: {shown(values)}, expected a list of [start, end, {third}]")
    for index, value in enumerate(values):
        whole = (
            isinstance(value, list)
            and len(value) == 3
            and type(value[0]) is int
            and type(value[1]) is int
        )
        if not whole or not 0 <= value[0] < value[1] <= n_words:
            message = (
                f"expected [start, end, {third}] with 0 <= start < end <= {n_words} (the end is not"
                " part of the span)"
            )
            raise CorpusError(f"{where}[{index}]: {shown(value)}, {message}")
        yield value[0], value[1], value[2]


def _mentions(values: Any, n_words: int, where: str) -> tuple[Mention, ...]:
    spans = _triples(values, n_words, "chain", where)
    mentions = [
        Mention(start, end, _integer(chain, -(2**63), 2**63 - 1, where))
        for start, end, chain in spans
    ]
    return tuple(sorted(mentions, key=lambda m: (m.start, -m.end, m.chain)))


def _entities(values: Any, n_words: int, where: str) -> tuple[NamedEntity, ...]:
    spans = _triples(values, n_words, "label", where)
    entities = sorted(
        NamedEntity(start, end, _text(label, where, empty=False)) for start, end, label in spans
    )
    for first, second in pairwise(entities):
        if second.start < first.end:
            raise CorpusError(
                f"{where}: {shown(second)} overlaps {shown(first)}, expected spans that share no"
                " word"
            )
    return tuple(entities)
