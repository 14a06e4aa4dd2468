"""LAMBADA: both texts, told apart, their published counts, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.lambada import Text, read_documents, read_passages, tell_text
from entity_transformers.corpus.lines import open_lines

ORIGINAL = "in my palm is a stone , `` she said , and i looked at the stone\n"
OPENAI = json.dumps({"text": 'In my palm is a stone," she said,\n\n“and I looked at the stone'}) + "\n"


@pytest.mark.parametrize(("line", "text"), [(ORIGINAL, "original"), (OPENAI, "openai")])
def test_the_target_follows_the_last_space(line: str, text: Text) -> None:
    [row] = read_passages([line], "f", text)
    assert row["text"][row["target_start"] :] == "stone"
    assert row["text"][row["target_start"] - 1] == " "
    assert row["text"] == (json.loads(line)["text"] if text == "openai" else line.rstrip("\n"))
    assert tell_text(line) == text


CAPITALS = ["He said no\n"] * 30
LOWER = [json.dumps({"text": "he said no"}) + "\n"] * 30
BAD: list[tuple[str, Text, list[str], str]] = [
    ("openai as original", "original", [OPENAI], r"line 1: .*is a passage of OpenAI's text, expected the original one: set lambada.text"),
    ("original as openai", "openai", [ORIGINAL], r"line 1: .*set lambada.text to original"),
    ("mix in original", "original", [ORIGINAL, OPENAI], r"line 2: .*is a passage of OpenAI's text"),
    ("mix in openai", "openai", [OPENAI, ORIGINAL], r"line 2: .*expected a JSON object"),
    ("detokenised as original", "original", CAPITALS, r"30 of the first 30 passages have capitals: .*expected the original"),
    ("original in jsonl", "openai", LOWER, r"0 of the first 30 passages have capitals: .*expected OpenAI's"),
    ("one word", "original", [ORIGINAL, "stone\n"], r"line 2: 'stone' is a passage of one word"),
    ("one word in jsonl", "openai", ['{"text": "stone"}\n'], r"line 1: 'stone' is a passage of one word"),
    ("spaces", "original", ["   stone  \n"], r"line 1: 'stone' is a passage of one word"),
    ("empty", "original", [], r"f: no passage in this file"),
    ("no key", "openai", ['{"passage": "a b"}\n'], r"line 1: .*expected a JSON object"),
    ("no text", "openai", ['{"text": 3}\n'], r"line 1: .*expected a JSON object"),
    ("web page", "original", ["<html>\n"], r"line 1: a web page"),
    ("carriage return", "original", ["a b\r\n"], r"line 1, character 4: a carriage return"),
    ("surrogate", "openai", ['{"text": "a \\ud800"}\n'], r"line 1, character 3: surrogate U\+D800"),
]


@pytest.mark.parametrize(("name", "text", "lines", "message"), BAD, ids=[row[0] for row in BAD])
def test_a_wrong_file_is_refused(name: str, text: Text, lines: list[str], message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        list(read_passages(lines, "f", text))


def test_another_text_is_refused() -> None:
    with pytest.raises(CorpusError, match=r"lambada.text is 'sample', expected one of original, openai"):
        list(read_passages([ORIGINAL], "f", "sample"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "text", "passages", "words"),
    [
        ("lambada_test_plain_text.txt", "original", 5153, 379883),
        ("lambada_development_plain_text.txt", "original", 4869, 360944),
        ("lambada_test.jsonl", "openai", 5153, 306006),
    ],
)
def test_published_counts(shared_data: Path, name: str, text: Text, passages: int, words: int) -> None:
    path = shared_data / "lambada" / name
    documents = list(read_documents(open_lines(path), str(path), text, "test"))
    assert (len(documents), sum(len(document.words) for document in documents)) == (passages, words)
    assert tell_text(next(open_lines(path))) == text


def test_both_texts_have_the_same_targets(shared_data: Path) -> None:
    """Same passages in the same order, but for quotes, two targets without their space (PROVENANCE.md) and seven after a line break."""
    originals = read_targets(shared_data / "lambada" / "lambada_test_plain_text.txt", "original")
    detokenised = read_targets(shared_data / "lambada" / "lambada_test.jsonl", "openai")
    different = [(one, two) for one, two in zip(originals, detokenised, strict=True) if one != two.strip("\"'“‘’_*")]
    assert all(two.endswith(one) for one, two in different)
    assert len(different) == 2 + 7


def read_targets(path: Path, text: Text) -> list[str]:
    return [row["text"][row["target_start"] :].lower() for row in read_passages(open_lines(path), path.name, text)]
