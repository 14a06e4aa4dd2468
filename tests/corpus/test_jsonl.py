"""Documents as JSON lines: there and back, defaults for a user's rows, keys that are wrong."""

import json
import time
from typing import Any

import pytest
from conll_files import write
from drawn import documents
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

from entity_transformers.corpus.document import Document, Mention, from_row, to_row
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.readers import File, read_corpus
from entity_transformers.corpus.readers.jsonl import parse_row, read_rows


def read(*lines: str, split: str = "train", ledger: Ledger | None = None) -> list[Document]:
    ledger = ledger or Ledger()
    return list(ledger.accept(read_rows(File(lines, "f", "f", split), ledger), "f"))


@settings(max_examples=200)
@given(documents(chain=st.integers(-(2**63), 2**63 - 1)))
def test_a_document_comes_back_through_json(document: Document) -> None:
    line = json.dumps(to_row(document), ensure_ascii=False)
    assert read(line + "\n") == [document]
    assert from_row(json.loads(line)) == document


def test_a_users_row_needs_a_name_and_words_only() -> None:
    row = {"name": "letter", "words": ["Ada", "met", "Eve", "."]}
    assert parse_row(row, "f") == Document("letter", 0, "train", "", tuple(row["words"]), (0,))
    more = {**row, "mentions": [[2, 3, 7], [0, 3, 1], [0, 1, 7]]}
    [document] = read(json.dumps(more), split="dev")
    assert document.split == "dev"
    assert document.mentions == (Mention(0, 3, 1), Mention(0, 1, 7), Mention(2, 3, 7))


@pytest.mark.parametrize(("spans", "kept"), [
    ([[1, 2, "GPE"], [0, 3, "ORG"], [2, 3, "LOC"], [3, 4, "TIME"]], [(0, 3), (3, 4)]),
    ([[1, 3, "ORG"], [0, 2, "GPE"]], [(0, 2)]),
    ([], []),
], ids=["nested", "crossing", "none"])  # fmt: skip
def test_the_outermost_named_entities_are_kept_and_the_others_counted(spans, kept):
    row = {"name": "n", "words": ["Bank", "of", "England", "today"], "named_entities": spans}
    ledger = Ledger()
    [document] = read(json.dumps(row), ledger=ledger)
    assert [(one.start, one.end) for one in document.named_entities or ()] == kept
    assert ledger.counts["named_entities_inside_others"] == len(spans) - len(kept)


def test_a_row_without_a_split_has_that_of_its_path(tmp_path):
    for path in ("dev/a.jsonl", "dev/test.jsonl", "more/b.jsonl.gz"):
        write(tmp_path / path, json.dumps({"name": path, "words": ["a"]}) + "\n")
    found = {document.name: document.split for document in read_corpus("jsonl", tmp_path)}
    assert found == {"dev/a.jsonl": "dev", "dev/test.jsonl": "test", "more/b.jsonl.gz": "train"}


def test_a_list_of_bad_values_is_refused_at_the_first() -> None:
    started = time.perf_counter()
    with refused(r"words\[0\]: '0', Input should be a valid string"):
        parse_row({"name": "n", "words": [0] * 1_000_000}, "f")
    assert time.perf_counter() - started < 1  # a list of a million errors takes more


@pytest.mark.parametrize(("change", "message"), [
    ({"words": None}, r"words: 'None', Input should be a valid list"),
    ({"words": ["a", "b c"]}, r"words\[1\]: 'b c', expected a string without spaces"),
    ({"words": ["a", 3]}, r"words\[1\]: '3', Input should be a valid string"),
    ({"words": ["a", "\ud800"]}, r"character 3: surrogate U\+D800 is not UTF-8"),
    ({"split": "validation"}, r"split: 'validation', Input should be 'train', 'dev', 'test'"),
    ({"sentence_starts": [1]}, r"sentence_starts: .*beginning with 0"),
    ({"sentence_starts": [0, 1, 1]}, r"sentence_starts: .*ascending"),
    ({"mentions": [[0, 3, 1]]}, r"mentions\[0\]: '\[0, 3\]', expected 0 <= start < end <= 2"),
    ({"mentions": [[0, 1]]}, r"mentions\[0\]\[2\]: Field required"),
    ({"mentions": [[0, 1, 2**63]]}, r"mentions\[0\]\[2\]: .*less than 9223372036854775808"),
    ({"mentions": ["abc"]}, r"mentions\[0\]: 'abc', Input should be a valid tuple"),
    ({"tags": ["NN"]}, r"tags: 1 values, expected 2, one per word"),
    ({"space_after": [1, 2]}, r"space_after\[1\]: '2', Input should be less than or equal to 1"),
    ({"named_entities": [[0, 1, ""]]}, r"named_entities\[0\]\[2\]: '', String should have"),
    ({"name": "\ud800"}, r"name: '\\ud800', Input should be a valid string, unable to parse"),
    ({"entities": []}, r"key 'entities', expected one of name, part, split, genre, words"),
])  # fmt: skip
def test_a_wrong_value_is_named(change: dict[str, Any], message: str) -> None:
    with refused(r"^f, line 3[,:] " + message):
        parse_row({"name": "n", "words": ["a", "b"], **change}, "f, line 3")


@pytest.mark.parametrize(("kind", "line", "message"), [
    ("key", '{"name": "n"}\n', r"line 1, words: Field required"),
    ("list", "[1, 2]\n", r"line 1: '\[1, 2\]\\n', expected a JSON object"),
    ("cut", '{"name": "n", "words": ["a"\n', r"line 1: not JSON .*char 28"),
    ("html", "<!doctype html>\n", r"line 1: a web page"),
    ("digits", '{"name": "n", "words": ["a"], "part": ' + "9" * 5000 + "}\n", "line 1: not JSON"),
    ("depth", "[" * 100_000 + "\n", r"line 1"),
    ("twice", '{"name": "n", "words": [], "words": []}\n', r"line 1: not JSON \(.* given twice"),
    ("empty", "", r"f: no document in this file"),
], ids=lambda value: str(value)[:30])  # fmt: skip
def test_a_bad_line_is_named_or_left_out(kind: str, line: str, message: str) -> None:
    lines = [line] if line else []
    with refused(message):
        read(*lines)
    ledger = Ledger("skip")
    assert read(*lines, ledger=ledger) == []
    assert len(ledger.bad) == 1
