"""LAMBADA passages (section 4.2): the original release (tokenised, lower case) and OpenAI's text,
told apart and never mixed.

The target is what follows the last space, as in the harness that published scores come from: in 7
of OpenAI's 5,153 passages that is a word, a line break and the last word.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path, PurePath
from typing import Any, Literal

from entity_transformers.corpus.document import KEYS, CorpusError, Document, Split
from entity_transformers.corpus.files import (
    LONGEST_LINE,
    check_lines,
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
from entity_transformers.corpus.sources import RAW, Dataset, pinned

Text = Literal["original", "openai"]
Row = dict[str, Any]
_FILES: dict[Text, str] = {
    "original": "lambada_test_plain_text.txt",
    "openai": "lambada_test.jsonl",
}
_LAMBADA = f"{RAW}/Victorwz/VaLM/161accd153943a502ec7e3983c448dda07f9d975/data/lambada"
_SAMPLE = 200
_FEWEST = 20
"""Passages that tell the two texts apart by their capitals; fewer may be anything."""


def parse_passages(
    lines: Iterable[str], source: str, text: Text, ledger: Ledger | None = None
) -> Iterator[Row]:
    """Rows {"text": whole passage, "target_start": character offset of the target word} of one file
    given as lines.

    A passage of the other kind, damaged or without a word raises CorpusError with its line, or is
    written down in the ledger. A file without any passage, or whose capitals are those of the other
    text, raises CorpusError under every policy; the first 200 passages are looked at before any is
    given. A passage of one word is its target, at offset 0.
    """
    if text not in _FILES:
        raise CorpusError(f"lambada.text is {text!r}, expected one of {', '.join(_FILES)}")
    rows = _read_lines(
        lines, source, _parse_original if text == "original" else _parse_openai, ledger or Ledger()
    )
    first = list(islice(rows, _SAMPLE))
    if not first:
        raise CorpusError(f"{source}: no passage in this file, expected one per line")
    count, capitals = len(first), sum(map(_has_capitals, first))
    _check_case(capitals, count, source, text)
    yield from first
    for row in rows:
        count += 1
        capitals += _has_capitals(row)
        yield row
    _check_case(capitals, count, source, text)


def _read_lines(
    lines: Iterable[str], source: str, parse: Callable[[str, str], str], ledger: Ledger
) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        if line == "\n":
            continue
        where = f"{source}, line {number}"
        try:
            check_lines([line], source, number)
            passage = parse(line.removesuffix("\n"), where)
            yield {"text": passage, "target_start": _target_start(passage, where)}
        except CorpusError as error:
            ledger.reject(where, error)


def _has_capitals(row: Row) -> bool:
    return bool(row["text"] != row["text"].lower())


def _parse_original(line: str, where: str) -> str:
    if is_html(line):
        raise CorpusError(
            f"{where}: a web page ({shown(line)}), expected a passage: download the file itself"
        )
    if line.startswith('{"'):
        raise CorpusError(
            f"{where}: {shown(line)} is a passage of OpenAI's text, expected the original one: set"
            " lambada.text to openai"
        )
    return line.strip(" ")


def _parse_openai(line: str, where: str) -> str:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        hint = "set lambada.text to original if this is the original text"
        raise CorpusError(
            f'{where}: {shown(line)}, expected a JSON object {{"text": ...}} of OpenAI\'s text:'
            f" {hint}"
        ) from None
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        raise CorpusError(f'{where}: {shown(line)}, expected a JSON object {{"text": ...}}')
    check_text(row["text"], where, LONGEST_LINE)
    return row["text"].strip(" ")


def _target_start(passage: str, where: str) -> int:
    start = passage.rfind(" ") + 1
    if not passage[start:].strip():
        raise CorpusError(
            f"{where}: {shown(passage)} has no last word, expected a context and the word to be"
            " predicted: remove the line"
        )
    return start


def _check_case(capitals: int, count: int, source: str, text: Text) -> None:
    """The original is in lower case, OpenAI's text has capitals: most passages decide."""
    if count < _FEWEST:
        return
    if text == "original" and 2 * capitals > count:
        kind = "OpenAI's or another detokenised text, expected the original one in lower case"
    elif text == "openai" and 2 * capitals < count:
        kind = "the original text in lower case, expected OpenAI's"
    else:
        return
    raise CorpusError(
        f"{source}: {capitals} of the first {count} passages have capitals: this is {kind}"
        f" ({_FILES[text]})"
    )


def tell_text(first: str) -> Text:
    """Which text a file's first line is from."""
    return "openai" if first.startswith("{") else "original"


def make_documents(
    lines: Iterable[str], source: str, text: Text, split: Split, ledger: Ledger | None = None
) -> Iterator[Document]:
    """Each passage as a document without chains, to be counted like any corpus."""
    for number, row in enumerate(parse_passages(lines, source, text, ledger)):
        yield Document(
            name="lambada",
            part=number,
            split=split,
            genre="",
            words=tuple(row["text"].split()),
            sentence_starts=(0,),
        )


def read(path: Path, ledger: Ledger) -> Iterator[Document]:
    """The passages of one file, of the text that its first line is from."""
    if not path.is_file():
        raise CorpusError(
            f"{path}: a folder, expected one file of LAMBADA ({' or '.join(_FILES.values())})"
        )
    text = tell_text(next(open_lines(path), ""))
    split = split_from_path(PurePath(path.name))
    return ledger.accept(
        make_documents(open_lines(path), str(path), text, split, ledger), str(path)
    )


def recognise(path: Path) -> Match | None:
    """OpenAI's text by its rows, the original, which is running text, by its name."""
    if path.is_dir():
        found = find_files(path, ("*.jsonl", "*.jsonl.gz"))
        if found and is_row(first_line(found[0])):
            return Match(Evidence.NAME, f"it holds {found[0].name}, whose rows have a text alone")
        return None
    if is_row(first_line(path)):
        return Match(Evidence.CONTENT, "its rows have a text and none of the keys of jsonl")
    name = path.name.lower().removesuffix(".gz")
    if name.startswith("lambada") and name.endswith(".txt"):
        return Match(Evidence.NAME, "a file lambada*.txt")
    return None


def is_row(line: str) -> bool:
    """Whether a line is a JSON object with a ``text`` and none of our keys: OpenAI's text."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(row, dict) and "text" in row and row.keys().isdisjoint(KEYS)


READER = Reader(
    name="lambada",
    form="LAMBADA's passages (lambada*.txt, or JSON lines with a text)",
    read=read,
    recognise=recognise,
    splits=("dev", "test"),
    data=tuple(
        Dataset(
            f"lambada-{text}",
            folder="lambada",
            patterns=(name,),
            source=pinned(f"lambada-{text}", f"LAMBADA, {_LAMBADA}", "CC BY 4.0", _LAMBADA),
        )
        for text, name in _FILES.items()
    ),
)
