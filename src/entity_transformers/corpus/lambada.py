"""LAMBADA passages (section 4.2): the original release (tokenised, lower case) and OpenAI's text, told apart and never mixed.

The target is what follows the last space, as in the harness that published scores come from: in 7 of OpenAI's 5,153
passages that is a word, a line break and the last word.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from .document import CorpusError, Document
from .lines import LONGEST_LINE, check_lines, check_text, is_html, shown

Text = Literal["original", "openai"]
_FILES = {"original": "lambada_test_plain_text.txt", "openai": "lambada_test.jsonl"}
_SAMPLE = 200
_FEWEST = 20
"""Passages that tell the two texts apart by their capitals; fewer may be anything."""


def read_passages(lines: Iterable[str], source: str, text: Text) -> Iterator[dict[str, Any]]:
    """Rows {"text": whole passage, "target_start": character offset of the target word} of one file given as lines.

    CorpusError names the line for a passage of one word, of the other kind or damaged, and for a file without any.
    """
    if text not in _FILES:
        raise CorpusError(f"lambada.text is {text!r}, expected one of {', '.join(_FILES)}")
    parse = _parse_original if text == "original" else _parse_openai
    count = capitals = 0
    for number, line in enumerate(lines, 1):
        check_lines([line], source, number)
        if line == "\n":
            continue
        passage = parse(line.removesuffix("\n"), f"{source}, line {number}")
        yield {"text": passage, "target_start": _target_start(passage, f"{source}, line {number}")}
        count += 1
        capitals += passage != passage.lower()
        if count == _SAMPLE:
            _check_case(capitals, count, source, text)
    if not count:
        raise CorpusError(f"{source}: no passage in this file, expected one a line")
    _check_case(capitals, count, source, text)


def _parse_original(line: str, where: str) -> str:
    if is_html(line):
        raise CorpusError(f"{where}: a web page ({shown(line)}), expected a passage: download the file itself")
    if line.startswith('{"'):
        raise CorpusError(f"{where}: {shown(line)} is a passage of OpenAI's text, expected the original one: set lambada.text to openai")
    return line.strip(" ")


def _parse_openai(line: str, where: str) -> str:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        hint = "set lambada.text to original if this is the original text"
        raise CorpusError(f'{where}: {shown(line)}, expected a JSON object {{"text": ...}} of OpenAI\'s text: {hint}') from None
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        raise CorpusError(f'{where}: {shown(line)}, expected a JSON object {{"text": ...}}')
    check_text(row["text"], where, LONGEST_LINE)
    return row["text"].strip(" ")


def _target_start(passage: str, where: str) -> int:
    start = passage.rfind(" ") + 1
    if not start or not passage[:start].strip():
        raise CorpusError(f"{where}: {shown(passage)} is a passage of one word, expected a context and the word to be predicted")
    return start


def _check_case(capitals: int, count: int, source: str, text: Text) -> None:
    """The original is in lower case throughout, OpenAI's text has capitals in every passage: most decide."""
    if count < _FEWEST:
        return
    if text == "original" and 2 * capitals > count:
        kind = "OpenAI's or another detokenised text, expected the original one in lower case"
    elif text == "openai" and 2 * capitals < count:
        kind = "the original text in lower case, expected OpenAI's"
    else:
        return
    raise CorpusError(f"{source}: {capitals} of the first {count} passages have capitals: this is {kind} ({_FILES[text]})")


def tell_text(first: str) -> Text:
    """Which text a file's first line is from."""
    return "openai" if first.startswith("{") else "original"


def read_documents(lines: Iterable[str], source: str, text: Text, split: str) -> Iterator[Document]:
    """Each passage as a document without chains, to be counted like any corpus."""
    for number, row in enumerate(read_passages(lines, source, text)):
        yield Document(name="lambada", part=number, split=split, genre="", words=tuple(row["text"].split()), sentence_starts=(0,))
