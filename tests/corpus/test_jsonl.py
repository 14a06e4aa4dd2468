"""Documents as JSON lines: there and back, defaults for a user's rows, and every key that can be
wrong.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

from entity_transformers.corpus.document import Document, Mention, NamedEntity, from_row, to_row
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.readers.jsonl import parse_row, read_rows

WORD = st.text(st.characters(codec="utf-8", exclude_categories=("Z", "C")), min_size=1, max_size=5)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    words = draw(st.lists(WORD, min_size=1, max_size=8))
    n = len(words)
    spans = st.tuples(st.integers(0, n - 1), st.integers(1, 4), st.integers(-(2**63), 2**63 - 1))
    mentions = [
        Mention(start, min(start + size, n), chain)
        for start, size, chain in draw(st.lists(spans, max_size=5))
    ]
    optional = {
        "tags": st.lists(WORD, min_size=n, max_size=n).map(tuple),
        "space_after": st.lists(st.booleans(), min_size=n, max_size=n).map(tuple),
        "named_entities": st.just(tuple(NamedEntity(i, i + 1, "ORG") for i in range(0, n, 2))),
    }
    return Document(
        name=draw(WORD),
        part=draw(st.integers(0, 99)),
        split=draw(st.sampled_from(["train", "dev", "test", "test2"])),
        genre=draw(st.text("ab", max_size=2)),
        words=tuple(words),
        sentence_starts=(
            0,
            *sorted(draw(st.sets(st.integers(1, n - 1), max_size=3)) if n > 1 else ()),
        ),
        mentions=tuple(sorted(mentions, key=lambda m: (m.start, -m.end, m.chain))),
        **{key: draw(st.none() | values) for key, values in optional.items()},
    )


@settings(max_examples=200, deadline=None)
@given(documents())
def test_a_document_comes_back_through_json(document: Document) -> None:
    line = json.dumps(to_row(document), ensure_ascii=False)
    assert list(read_rows([line + "\n"], "f")) == [document]
    assert from_row(json.loads(line)) == document


def test_a_users_row_needs_a_name_and_words_only() -> None:
    row = {"name": "letter", "words": ["Ada", "met", "Eve", "."]}
    assert parse_row(row, "f") == Document(
        name="letter",
        part=0,
        split="train",
        genre="",
        words=("Ada", "met", "Eve", "."),
        sentence_starts=(0,),
    )
    [document] = read_rows(
        [json.dumps({**row, "mentions": [[2, 3, 7], [0, 3, 1], [0, 1, 7]]})], "f", split="dev"
    )
    assert document.split == "dev"
    assert document.mentions == (Mention(0, 3, 1), Mention(0, 1, 7), Mention(2, 3, 7))


def test_flags_may_be_true_and_false() -> None:
    document = parse_row({"name": "n", "words": ["a", "b"], "space_after": [True, 0]}, "f")
    assert document.space_after == (True, False)


def test_a_list_of_bad_values_is_refused_at_the_first() -> None:
    started = time.perf_counter()
    with refused(r"words\[0\]: '0', expected a text"):
        parse_row({"name": "n", "words": [0] * 1_000_000}, "f")
    assert time.perf_counter() - started < 1  # a list of a million errors takes more


BAD: list[tuple[dict[str, Any], str]] = [
    ({"words": None}, r"words: 'None', expected a list of texts"),
    ({"words": []}, r"words: none, expected at least one"),
    ({"words": ["a", "b c"]}, r"words\[1\]: 'b c', expected a text without white space"),
    ({"words": ["a", ""]}, r"words\[1\]: '', expected a text without white space"),
    ({"words": ["a", 3]}, r"words\[1\]: '3', expected a text"),
    ({"words": ["a", "\ud800"]}, r"words, character 2: surrogate U\+D800 is not UTF-8"),
    ({"words": ["a", "b\0"]}, r"words, character 3: a NUL byte"),
    ({"name": ""}, r"name: '', expected a text that is not empty"),
    ({"part": True}, r"part: 'True', expected an integer from 0"),
    ({"part": -1}, r"part: '-1', expected an integer from 0"),
    ({"split": "validation"}, r"split: 'validation', expected one of train, dev, test, test2"),
    ({"split": ["train"]}, r"split: .*expected one of train"),
    ({"genre": 3}, r"genre: '3', expected a text"),
    ({"sentence_starts": [1]}, r"sentence_starts: .*begin with 0"),
    ({"sentence_starts": [0, 2, 1]}, r"sentence_starts\[1\]: '2', expected an integer from 0 to 1"),
    ({"sentence_starts": [0, 1, 1]}, r"sentence_starts: .*ascending"),
    ({"sentence_starts": []}, r"sentence_starts: '\[\]', expected a list that begins with 0"),
    (
        {"mentions": [[0, 3, 1]]},
        r"mentions\[0\]: '\[0, 3, 1\]', expected \[start, end, chain\] with 0 <= start < end <= 2",
    ),
    ({"mentions": [[0, 1, 1], [1, 1, 1]]}, r"mentions\[1\]"),
    ({"mentions": [[0, 1]]}, r"mentions\[0\]"),
    (
        {"mentions": [[0, 1, 2**63]]},
        r"mentions\[0\]: '\[0, 1, 9223372036854775808\]', expected .*, chain an integer of 64 bits",
    ),
    ({"mentions": [[0, 1, "a"]]}, r"mentions\[0\]: .*, chain an integer of 64 bits"),
    ({"mentions": [[0, True, 1]]}, r"mentions\[0\]: '\[0, True, 1\]', expected \[start, end"),
    ({"mentions": [[0, 1, 1], [0.0, 1, 1]]}, r"mentions\[1\]: '\[0.0, 1, 1\]', expected \[start"),
    ({"mentions": [[-1, 1, 1]]}, r"mentions\[0\]: '\[-1, 1, 1\]', expected \[start, end, chain\]"),
    ({"mentions": ["abc"]}, r"mentions\[0\]: 'abc', expected \[start, end, chain\]"),
    ({"mentions": {"0": 1}}, r"mentions: .*expected a list of \[start, end, chain\]"),
    ({"tags": ["NN"]}, r"tags: 1 values, expected 2 as many as words"),
    ({"space_after": [1, 2]}, r"space_after\[1\]: '2', expected 0 or 1"),
    ({"space_after": [1]}, r"space_after: 1 values, expected 2"),
    ({"space_after": [1, 1.0]}, r"space_after\[1\]: '1.0', expected 0 or 1"),
    ({"space_after": 1}, r"space_after: '1', expected a list of 0 and 1"),
    ({"tags": ["NN", " "]}, r"tags\[1\]: ' ', expected a text without white space"),
    ({"named_entities": [[0, 2, "ORG"], [1, 2, "GPE"]]}, r"named_entities: .*overlaps"),
    (
        {"named_entities": [[0, 1, None]]},
        r"named_entities\[0\]: '\[0, 1, None\]', expected .*, label a text that is not empty",
    ),
    ({"named_entities": [[0, 1, ""]]}, r"named_entities\[0\]: .*, label a text that is not empty"),
    ({"named_entities": [[0, 1, "\ud800"]]}, r"named_entities, character 1: surrogate U\+D800"),
    ({"name": "\ud800"}, r"name, character 1: surrogate U\+D800"),
    ({"\ud800part": 0}, r"key '\\ud800part', expected one of name, part"),
    ({"": 0}, r"key '', expected one of name, part"),
    ({"entities": []}, r"key 'entities', expected one of name, part, split, genre, words"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[message[:24] for _, message in BAD])
def test_a_wrong_value_is_named(change: dict[str, Any], message: str) -> None:
    with refused(r"^f, line 3[,:] " + message):
        parse_row({"name": "n", "words": ["a", "b"], **change}, "f, line 3")


@pytest.mark.parametrize("key", ["name", "words"])
def test_a_missing_key_is_named(key: str) -> None:
    row = {"name": "n", "words": ["a"]}
    del row[key]
    with refused(f"f, line 1: no key '{key}', expected at least name and words"):
        list(read_rows([json.dumps(row)], "f"))


LINES = [
    ("[1, 2]\n", r"line 1: '\[1, 2\]\\n' is a JSON list, expected an object"),
    ('{"name": "n", "words": ["a"\n', r"line 1, character 29: not JSON"),
    ("<!doctype html>\n", r"line 1, character 1: a web page"),
    (
        '{"name": "n", "words": ["a"], "part": ' + "9" * 5000 + "}\n",
        r"line 1: not JSON that can be read",
    ),
    ("[" * 100_000 + "\n", r"line 1"),
    ("", r"f: no document in this file"),
    ('{"name": "n", "words": ["a"], "words": ["b"]}\n', r"line 1: key 'words' is given twice"),
]


@pytest.mark.parametrize(
    ("line", "message"), LINES, ids=["list", "cut", "html", "digits", "depth", "empty", "twice"]
)
def test_a_bad_line_is_named_or_left_out(line: str, message: str) -> None:
    lines = [line] if line else []
    with refused(message):
        list(read_rows(lines, "f"))
    ledger = Ledger("skip")
    assert list(read_rows(lines, "f", ledger=ledger)) == []
    assert len(ledger.bad) == 1


def test_the_same_name_and_part_twice_is_bad() -> None:
    row = json.dumps({"name": "n", "words": ["a"]})
    with refused("document n#0 stands twice"):
        list(read_rows([row, row], "f"))
