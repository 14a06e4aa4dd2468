"""Documents as JSON lines: the way in for a user's text with chains.

A row needs ``name`` and ``words``; everything else has a default: {"name": "letter-1", "split":
"train", "words": ["Ada", "met", "her", "friend", "."], "mentions": [[0, 1, 7], [2, 3, 7]]}
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from entity_transformers.corpus.document import (
    KEYS,
    SPLITS,
    CorpusError,
    Document,
    Split,
    from_row,
    reading_order,
)
from entity_transformers.corpus.files import (
    check_text,
    find_files,
    first_line,
    is_html,
    shown,
)
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.readers import Evidence, File, Match, Reader, read_files

LONGEST_ROW = 100_000_000
"""Most characters of a row, which holds a whole document."""
PATTERNS = ("*.jsonl", "*.jsonl.gz")
_CLUSTERS = re.compile(r'(?<!\\)"(?:predicted_)?clusters(?:_token_offsets)?"\s*:')

Index = Annotated[int, Field(ge=0)]
Flag = Annotated[int, Field(ge=0, le=1)] | bool
Chain = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Text = Annotated[str, Field(min_length=1)]
# JSON has only lists, which a strict tuple refuses; their items stay strict
Span = Annotated[tuple[Index, Index, Chain], Field(strict=False)]
Typed = Annotated[tuple[Index, Index, Text], Field(strict=False)]
Item = TypeVar("Item")
# stop at the first of a million bad values
List = Annotated[list[Item], Field(fail_fast=True)]


class Row(BaseModel):
    """The values of a row; mentions are [start, end, chain], the end exclusive."""

    model_config = ConfigDict(strict=True)

    name: Text
    words: Annotated[List[str], Field(min_length=1)]
    part: Annotated[Index, Field(lt=2**31)] = 0
    split: Split = "train"
    genre: str = ""
    sentence_starts: List[Index] = [0]
    mentions: List[Span] = []
    tags: List[str] | None = None
    space_after: List[Flag] | None = None
    named_entities: List[Typed] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Check the values against each other."""
        count, starts = len(self.words), self.sentence_starts
        for key, texts in (("words", self.words), ("tags", self.tags or [])):
            if " ".join(texts).split() != texts:
                i = next(i for i, text in enumerate(texts) if text.split() != [text])
                raise ValueError(f"{key}[{i}]: {shown(texts[i])}, expected a string without spaces")
        for key, values in (("tags", self.tags), ("space_after", self.space_after)):
            if values is not None and len(values) != count:
                raise ValueError(f"{key}: {len(values)} values, expected {count}, one per word")
        ascending = all(first < second for first, second in pairwise(starts))
        if starts[:1] != [0] or not ascending or starts[-1] >= count:
            raise ValueError(
                f"sentence_starts: {shown(starts)}, expected ascending indices of the {count}"
                " words, beginning with 0"
            )
        for key, spans in (("mentions", self.mentions), ("named_entities", self.named_entities)):
            for i, (start, end, _) in enumerate(spans or ()):
                if not start < end <= count:
                    raise ValueError(
                        f"{key}[{i}]: {shown([start, end])}, expected 0 <= start < end <= {count}"
                        " (the end is not part of the span)"
                    )
        return self


def parse_row(values: Mapping[str, Any], where: str) -> Document:
    """Return the document of a JSON object; CorpusError at ``where`` for anything invalid."""
    for key in values:  # pydantic can't name a key that is not UTF-8
        if key not in KEYS:
            raise CorpusError(f"{where}: key {shown(key)}, expected one of {', '.join(KEYS)}")
    try:
        row = Row.model_validate(values)
    except ValidationError as error:
        raise CorpusError(f"{where}, {describe_fault(error)}") from None
    labels = [label for *_, label in row.named_entities or []]
    texts = (row.name, row.genre, *row.words, *(row.tags or []), *labels)
    check_text("".join(texts), where, LONGEST_ROW)
    document = from_row(dict(row))
    return replace(document, mentions=tuple(sorted(document.mentions, key=reading_order)))


def read_rows(
    file: File, ledger: Ledger, parse: Callable[[Mapping[str, Any], str], Document] = parse_row
) -> Iterator[Document]:
    """Yield the documents that ``parse`` makes of each line's JSON object and its place; a bad row
    raises CorpusError or is recorded.
    """
    empty = True
    for number, line in enumerate(file.lines, 1):
        if line == "\n":
            continue
        empty = False
        where = f"{file.path}, line {number}"
        with ledger.recording(where):
            check_text(line, where, LONGEST_ROW)
            document = parse({"split": file.split, **_parse(line, where)}, where)
            if ledger.admits(document.name, document.part):
                yield document
    if empty:
        fault = f"{file.path}: no document in this file, expected one JSON object per line"
        ledger.reject(file.path, CorpusError(fault))


def _parse(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line, object_pairs_hook=_read_object)
    except (ValueError, RecursionError) as error:
        what = "a web page" if is_html(line) else f"not JSON ({shown(str(error))})"
        raise CorpusError(f"{where}: {what}: {shown(line)}, expected one object per line") from None
    if not isinstance(row, dict):
        raise CorpusError(f"{where}: {shown(line)}, expected a JSON object")
    return row


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object that gives a key twice; JSON would silently take the last value."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is given twice in " + ", ".join(key for key, _ in pairs))
    return found


def describe_fault(error: ValidationError) -> str:
    """Describe the first fault: its key and place in a list, its value, and what was expected."""
    first = error.errors(include_url=False)[0]
    if not first["loc"]:
        return first["msg"].removeprefix("Value error, ")
    key, *inside = first["loc"]
    place = f"{key}" + "".join(f"[{i}]" for i in inside if isinstance(i, int))
    value = "" if first["type"] == "missing" else f"{shown(first['input'])}, "
    return f"{place}: {value}{first['msg']}"


def tell_row(line: str) -> str:
    """Tell the format of JSON lines by the first one: clusters by its keys, lambada if it has a
    text and none of our keys, otherwise jsonl; "" for a line that begins no object.
    """
    if not line.lstrip().startswith("{"):
        return ""
    if _CLUSTERS.search(line):  # the line may be cut
        return "clusters"
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return "jsonl"
    return "lambada" if "text" in row and row.keys().isdisjoint(KEYS) else "jsonl"


def recognise_rows(path: Path, format: str, why: str) -> Match | None:
    """Recognise a format by the first row of a file, or of a folder's first file."""
    if not path.is_dir():
        return Match(Evidence.CONTENT, why) if tell_row(first_line(path)) == format else None
    found = find_files(path, PATTERNS)
    if found and (tell_row(first_line(found[0])) or "jsonl") == format:
        return Match(Evidence.NAME, f"it holds {found[0].name}")
    return None


READER = Reader(
    name="jsonl",
    read=read_files(PATTERNS, read_rows, LONGEST_ROW),
    recognise=partial(recognise_rows, format="jsonl", why="it begins with a JSON object"),
    splits=SPLITS,
    patterns=PATTERNS,
)
