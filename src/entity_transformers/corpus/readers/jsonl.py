"""Documents as JSON lines: the way in for a user's text with chains.

A row needs ``name`` and ``words``; everything else has a default: {"name": "letter-1", "split":
"train", "words": ["Ada", "met", "her", "friend", "."], "mentions": [[0, 1, 7], [2, 3, 7]]}
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from entity_transformers.corpus.document import (
    KEYS,
    SPLITS,
    CorpusError,
    Document,
    Mention,
    NamedEntity,
    Split,
    reading_order,
)
from entity_transformers.corpus.files import (
    check_text,
    find_files,
    first_line,
    is_html,
    open_lines,
    shown,
    split_from_path,
)
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.readers import Evidence, Match, Reader
from entity_transformers.corpus.readers.lambada import is_row
from entity_transformers.corpus.sources import Dataset

LONGEST_ROW = 100_000_000
"""Characters of a row, which holds a whole document."""
_PATTERNS = ("*.jsonl", "*.jsonl.gz")
_PARTS, _CHAINS = 2**31, 2**63

Index = Annotated[int, Field(ge=0)]
Flag = Annotated[int, Field(ge=0, le=1)] | bool
Chain = Annotated[int, Field(ge=-_CHAINS, lt=_CHAINS)]
Text = Annotated[str, Field(min_length=1)]
# JSON has lists only, which a strict tuple refuses; what is inside stays strict
Span = Annotated[tuple[Index, Index, Chain], Field(strict=False)]
Typed = Annotated[tuple[Index, Index, Text], Field(strict=False)]
Item = TypeVar("Item")
# a list of a million bad values is refused at the first
List = Annotated[list[Item], Field(fail_fast=True)]


class Row(BaseModel):
    """The types of a row; what its values have to do with each other is checked after them."""

    model_config = ConfigDict(strict=True)

    name: Text
    words: List[str]
    part: Annotated[Index, Field(lt=_PARTS)] = 0
    split: Split = "train"
    genre: str = ""
    sentence_starts: List[Index] = [0]
    mentions: List[Span] = []
    tags: List[str] | None = None
    space_after: List[Flag] | None = None
    named_entities: List[Typed] | None = None


_SPAN = "with 0 <= start < end <= {words} (the end is not part of the span)"
_EXPECTED: dict[str, tuple[str, str]] = {
    "name": ("a text that is not empty", ""),
    "part": (f"an integer from 0 to {_PARTS - 1}", ""),
    "split": (f"one of {', '.join(SPLITS)}", ""),
    "genre": ("a text", ""),
    "words": ("a list of texts", "a text without white space"),
    "tags": ("a list of texts", "a text without white space"),
    "space_after": ("a list of 0 and 1", "0 or 1"),
    "sentence_starts": ("a list that begins with 0", "an integer from 0 to {last}"),
    "mentions": (
        "a list of [start, end, chain]",
        f"[start, end, chain] {_SPAN}, chain an integer of 64 bits",
    ),
    "named_entities": (
        "a list of [start, end, label]",
        f"[start, end, label] {_SPAN}, label a text that is not empty",
    ),
}
"""Of each key: what its value must be, and what each item of its list."""


def read(path: Path, ledger: Ledger) -> Iterator[Document]:
    """Documents of a file or folder, by path; a file's name is the split of rows without one."""
    files = [path] if path.is_file() else find_files(path, _PATTERNS)
    if not files:
        raise CorpusError(
            f"{path}: no file matches *.jsonl: give a file or a folder of them (corpus.path)"
        )
    return (
        document
        for file in files
        for document in read_rows(
            open_lines(file, LONGEST_ROW), str(file), split_from_path(PurePath(file.name)), ledger
        )
    )


def read_rows(
    lines: Iterable[str], source: str, split: str = "train", ledger: Ledger | None = None
) -> Iterator[Document]:
    """Documents of a file's lines; a bad row raises CorpusError or is written down."""
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
            document = parse_row({"split": split, **_parse(line, where)}, where)
            if ledger.admits(document.name, document.part):
                yield document
        except CorpusError as error:
            ledger.reject(where, error)
    if empty:
        ledger.reject(
            source,
            CorpusError(f"{source}: no document in this file, expected one JSON object per line"),
        )


def _parse(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line, object_pairs_hook=partial(_once, where))
    except CorpusError:
        raise
    except json.JSONDecodeError as error:
        what = "a web page" if is_html(line) else f"not JSON ({error.msg})"
        raise CorpusError(
            f"{where}, character {error.pos + 1}: {what}: {shown(line[error.pos :])}, expected one"
            " object per line"
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


def _once(where: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these keys and values; json would take the last of several equal keys."""
    row = dict(pairs)
    if len(row) < len(pairs):
        [(twice, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise CorpusError(f"{where}: key {shown(twice)} is given twice, expected once: remove one")
    return row


def parse_row(values: Mapping[str, Any], where: str) -> Document:
    """The document of a JSON object; CorpusError at ``where`` for whatever does not fit."""
    _check_keys(values, where)
    try:
        row = Row.model_validate(values)
    except ValidationError as error:
        raise _type_fault(error, values, where) from None
    _check_texts(row, values, where)
    _check_places(row, values, where)
    entities = row.named_entities
    mentions = [Mention(*span) for span in row.mentions]
    return Document(
        name=row.name,
        part=row.part,
        split=row.split,
        genre=row.genre,
        words=tuple(row.words),
        sentence_starts=tuple(row.sentence_starts),
        mentions=tuple(sorted(mentions, key=reading_order)),
        tags=None if row.tags is None else tuple(row.tags),
        space_after=None if row.space_after is None else tuple(map(bool, row.space_after)),
        named_entities=(
            None if entities is None else tuple(sorted(NamedEntity(*span) for span in entities))
        ),
    )


def _check_keys(values: Mapping[str, Any], where: str) -> None:
    """Not left to pydantic, which can't name a key that is no UTF-8."""
    for key in ("name", "words"):
        if key not in values:
            optional = ", ".join(other for other in KEYS if other not in ("name", "words"))
            raise CorpusError(
                f"{where}: no key {key!r}, expected at least name and words (and any of {optional})"
            )
    for key in values:
        if key not in KEYS:
            raise CorpusError(f"{where}: key {shown(key)}, expected one of {', '.join(KEYS)}")


def _type_fault(error: ValidationError, values: Mapping[str, Any], where: str) -> CorpusError:
    first = error.errors(include_url=False)[0]
    key, *inside = first["loc"]
    if first["type"] == "string_unicode":
        check_text(first["input"], f"{where}, {key}", LONGEST_ROW)
    return _fault(str(key), next(iter(inside), None), values, where)


def _fault(key: str, index: int | str | None, values: Mapping[str, Any], where: str) -> CorpusError:
    """The error at a key's value, or at an item of its list."""
    whole, item = _EXPECTED[key]
    if not isinstance(index, int):
        return CorpusError(f"{where}, {key}: {shown(values[key])}, expected {whole}")
    words = len(values["words"]) if isinstance(values["words"], list) else 0
    expected = item.format(words=words, last=words - 1)
    return CorpusError(f"{where}, {key}[{index}]: {shown(values[key][index])}, expected {expected}")


def _check_texts(row: Row, values: Mapping[str, Any], where: str) -> None:
    """Words, as many tags and flags, and no text that a corpus file may not hold."""
    if not row.words:
        raise CorpusError(f"{where}, words: none, expected at least one: remove the document")
    for key, texts in (("words", row.words), ("tags", row.tags or [])):
        if " ".join(texts).split() != texts:
            index = next(i for i, text in enumerate(texts) if text.split() != [text])
            raise _fault(key, index, values, where)
        check_text("".join(texts), f"{where}, {key}", LONGEST_ROW)
    for key, items in (("tags", row.tags), ("space_after", row.space_after)):
        if items is not None and len(items) != len(row.words):
            raise CorpusError(
                f"{where}, {key}: {len(items)} values, expected {len(row.words)} as many as words"
            )
    labels = "".join(label for *_, label in row.named_entities or [])
    for key, text in (("name", row.name), ("genre", row.genre), ("named_entities", labels)):
        check_text(text, f"{where}, {key}", LONGEST_ROW)


def _check_places(row: Row, values: Mapping[str, Any], where: str) -> None:
    """Sentences and spans lie within the words; named entities share none."""
    words, starts = len(row.words), row.sentence_starts
    if (index := next((i for i, start in enumerate(starts) if start >= words), None)) is not None:
        raise _fault("sentence_starts", index, values, where)
    if not starts:
        raise _fault("sentence_starts", None, values, where)
    if starts[0] or any(first >= second for first, second in pairwise(starts)):
        raise CorpusError(
            f"{where}, sentence_starts: {shown(starts)}, expected ascending word indices that begin"
            " with 0"
        )
    entities = row.named_entities or []
    for key, spans in (("mentions", row.mentions), ("named_entities", entities)):
        for index, (start, end, _) in enumerate(spans):
            if not start < end <= words:
                raise _fault(key, index, values, where)
    for one, two in pairwise(sorted(entities)):
        if two[0] < one[1]:
            raise CorpusError(
                f"{where}, named_entities: {shown(two)} overlaps {shown(one)}, expected spans that"
                " share no word"
            )


def recognise(path: Path) -> Match | None:
    """By a first line that begins as a JSON object does and is no row of LAMBADA."""
    if path.is_dir():
        found = find_files(path, _PATTERNS)
        if found and not is_row(first_line(found[0])):
            return Match(Evidence.NAME, f"it holds {found[0].name}")
        return None
    first = first_line(path)
    if first.lstrip().startswith("{") and not is_row(first):
        return Match(Evidence.CONTENT, "it begins with a JSON object")
    return None


READER = Reader(
    name="jsonl",
    form="JSON lines of documents with name and words",
    read=read,
    recognise=recognise,
    splits=SPLITS,
    data=(Dataset("jsonl", patterns=tuple(f"**/{pattern}" for pattern in _PATTERNS)),),
)
