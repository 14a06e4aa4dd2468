"""Clusters of other tools as JSON lines: each tool's row, and what is refused as ambiguous."""

import json
from pathlib import Path
from typing import Any

import pytest
from conll_files import write
from refused import refused

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.readers import File, clusters, detect_format, read_corpus

WORDS = ["Ada", "met", "her", "friend", "."]
SPANS = [[[0, 0], [2, 2]], [[2, 3]]]
MENTIONS = (Mention(0, 1, 0), Mention(2, 4, 1), Mention(2, 3, 0))
TEXT = "Ada met her friend."


def read_row(row: dict[str, Any], ledger: Ledger | None = None) -> Document:
    lines = [json.dumps(row) + "\n"]
    [document] = clusters.read_clusters(File(lines, "f", "f", "train"), ledger or Ledger())
    return document


@pytest.mark.parametrize(("tool", "row"), [
    ("AllenNLP", {"top_spans": [[0, 0]], "predicted_antecedents": [-1], "document": WORDS,
                  "clusters": SPANS}),
    ("Lee et al.", {"doc_key": "bn/abc_0", "sentences": [WORDS[:2], [], WORDS[2:]],
                    "speakers": [["A"]], "clusters": SPANS}),
    ("maverick", {"tokens": WORDS, "clusters_token_offsets": SPANS, "clusters_char_offsets": None,
                  "clusters_token_text": [["Ada", "her"], ["her friend"]], "text": TEXT}),
    ("fastcoref", {"text": TEXT, "clusters": [[[0, 3], [8, 11]], [[8, 18]]],
                   "clusters_strings": [["Ada", "her"], ["her friend"]]}),
    ("a model's answer", {"id": 7, "split": "test", "words": WORDS, "predicted_clusters": SPANS}),
    ("equal keys", {"tokens": WORDS, "sentences": [WORDS], "clusters": SPANS,
                    "predicted_clusters": SPANS}),
])  # fmt: skip
def test_the_rows_of_each_tool_are_recognised_and_read(tmp_path: Path, tool: str, row: Any) -> None:
    path = write(tmp_path / "dev.jsonl.gz", json.dumps(row) + "\n")
    assert detect_format(path)[0] == detect_format(tmp_path)[0] == "clusters"
    [document] = read_corpus("clusters", path)
    named = {"Lee et al.": "bn/abc_0", "a model's answer": "7"}
    assert document.name == named.get(tool, "dev")
    assert document.split == ("test" if tool == "a model's answer" else "dev")
    assert (document.words, document.mentions) == (tuple(WORDS), MENTIONS)
    assert document.sentence_starts == ((0, 2) if tool == "Lee et al." else (0,))


def test_rows_without_a_name_are_numbered(tmp_path: Path) -> None:
    row = json.dumps({"document": WORDS, "clusters": SPANS}) + "\n"
    path = write(tmp_path / "book.jsonl", row + "\n" + row)
    assert [d.id for d in read_corpus("clusters", path)] == ["book#0", "book-2#0"]


def test_words_of_white_space_are_left_out_and_counted() -> None:
    """spaCy's tokens have them; a mention keeps its other words, or is left out."""
    ledger = Ledger()
    row = {"sentences": [["\n\n"], ["Ada", "\n", "Byron"], [" "]],
           "clusters": [[[0, 3], [1, 2]], [[2, 2]]]}  # fmt: skip
    document = read_row(row, ledger)
    assert document.words == ("Ada", "Byron")
    assert document.mentions == (Mention(0, 2, 0), Mention(0, 1, 0))
    assert document.sentence_starts == (0,)
    assert ledger.counts == {"words_of_white_space": 3, "mentions_of_white_space": 1}


def test_a_word_is_cut_where_a_mention_of_characters_begins() -> None:
    row = {"text": "The unRoman\n  league met.",
           "clusters": [[[6, 11]], [[0, 20]]],
           "clusters_strings": [["Roman"], ["The unRoman\n  league"]]}  # fmt: skip
    document = read_row(row)
    assert document.words == ("The", "un", "Roman", "league", "met", ".")
    assert document.mentions == (Mention(0, 4, 1), Mention(2, 3, 0))
    assert document.space_after == (True, False, True, True, False, True)
    assert document.sentence_starts == (0, 3)


@pytest.mark.parametrize(("row", "message"), [
    ({"tokens": WORDS}, r"keys split, tokens, expected one of clusters, .*and words"),
    ({"tokens": WORDS, "clusters": SPANS, "predicted_clusters": []}, r".* disagree"),
    ({"tokens": WORDS, "document": ["a"], "clusters": []}, r"tokens and document disagree"),
    ({"tokens": WORDS, "sentences": [["a"]], "clusters": []}, r"tokens and sentences disagree"),
    ({"text": TEXT, "tokens": WORDS, "clusters": SPANS}, r"keys .*: do the clusters count"),
    ({"tokens": WORDS, "clusters": [[[0, 5]]]}, r"clusters\[0\]\[0\]: \[0, 5\], .*of 5"),
    ({"tokens": WORDS, "clusters": [[[0]]]}, r"clusters\[0\]\[0\]\[1\]: Field required"),
    ({"tokens": ["New York"], "clusters": []}, r"words\[0\]: 'New York', expected"),
    ({"tokens": [" "], "clusters": []}, r"words: '\[\]', List should have at least 1"),
    ({"document": TEXT, "clusters": []}, r"document: 'Ada .*Input should be a valid list"),
    ({"sentences": [["[CLS]", "Ada"]], "clusters": []}, r"the first word is \[CLS\]"),
    ({"sentences": [["Ada"]], "clusters": [], "subtoken_map": [0]}, r"key subtoken_map"),
    ({"tokens": WORDS * 20, "clusters": [[[i, i + 1] for i in range(20)]]},
     r"clusters: none of 20 mentions has a single word: their ends seem to be excluded"),
    ({"text": TEXT, "clusters": [[[0, 2], [8, 10]]]}, r"clusters: most spans split words \('Ad'\)"),
    ({"text": "\ud83d " + TEXT, "clusters": []}, "character 1: surrogate U.D83D is not UTF-8"),
    ({"text": TEXT, "clusters": [[[3, 4]]]}, r"clusters\[0\]\[0\]: \[3, 4\]"),
    ({"text": TEXT, "clusters": [[[0, 3]]], "clusters_strings": [["her"]]}, r"clusters_strings"),
    ({"tokens": WORDS, "clusters": SPANS, "split": "x"}, r"split: 'x', Input should be 'train'"),
])  # fmt: skip
def test_what_is_wrong_or_ambiguous_is_refused_by_name(row: dict[str, Any], message: str) -> None:
    with refused(r"^f, line 1[,:] " + message):
        read_row(row)
