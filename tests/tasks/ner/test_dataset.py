"""Sentences, tags and vector rows of documents."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entity_transformers.corpus.document import CorpusError, Document, NamedEntity
from entity_transformers.tasks.ner.dataset import LONGEST, MOST_LABELS, build_sentences, list_labels


def make_document(
    n: int, starts: tuple[int, ...], spans: list[tuple[int, int, str]] | None, name: str = "a"
) -> Document:
    """A document of ``n`` words with named entities ``spans``."""
    entities = None if spans is None else tuple(NamedEntity(*span) for span in spans)
    words = tuple(f"w{i}" for i in range(n))
    return Document(name, 0, "train", "nw", words, starts, named_entities=entities)


def test_tags_rows_and_offsets() -> None:
    documents = [
        make_document(6, (0, 4), [(0, 2, "PERSON"), (3, 4, "GPE"), (4, 6, "GPE")]),
        make_document(3, (0,), None, "pt/one"),
        make_document(2, (0, 1), [(1, 2, "DATE")], "b"),
    ]
    labels = list_labels(documents)
    assert labels == ("DATE", "GPE", "PERSON")
    sentences = build_sentences(documents, np.arange(100, 111), labels)
    names = [sentences.tag_names[tag] for tag in sentences.tags]
    assert names == ["B-PERSON", "I-PERSON", "O", "B-GPE", "B-GPE", "I-GPE", "O", "B-DATE"]
    assert sentences.rows.tolist() == [100, 101, 102, 103, 104, 105, 109, 110]
    assert sentences.offsets.tolist() == [0, 4, 6, 7, 8]
    assert (sentences.documents, sentences.document_of.tolist()) == (("a#0", "b#0"), [0, 0, 1, 1])
    assert sentences.lengths.tolist() == [4, 2, 1, 1]
    assert (len(sentences), sentences.left_out, sentences.unseen_labels) == (4, 1, ())


def test_labels_absent_from_train_come_after_the_known_ones() -> None:
    document = make_document(3, (0,), [(0, 1, "LAW"), (1, 3, "GPE")])
    sentences = build_sentences([document], np.arange(3), ("GPE", "ORG"))
    assert sentences.unseen_labels == ("LAW",)
    assert sentences.tag_names == ("O", "B-GPE", "I-GPE", "B-ORG", "I-ORG", "B-LAW", "I-LAW")
    assert sentences.tags.tolist() == [5, 1, 2]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.sampled_from("ABC")), max_size=8),
    st.data(),
)
def test_spans_come_back_from_the_tags(tokens, data):
    """Any flat spans, cut at sentence ends by hand, are read back by the rule of IOB2."""
    spans, end = [], 0
    for gap, length, label in tokens:
        spans.append((end + gap, end + gap + length, label))
        end += gap + length
    n = end + 1
    starts = (0, *sorted(data.draw(st.sets(st.integers(1, n), max_size=3)) - {n}))
    sentences = build_sentences([make_document(n, starts, spans)], np.arange(n), ("A", "B", "C"))
    parts = list(itertools.pairwise(sorted({*starts, n})))
    pieces = [(max(s, a), min(e, b), x) for s, e, x in spans for a, b in parts]
    found: list[tuple[int, int, str]] = []
    for position, tag in enumerate(sentences.tags):
        name = sentences.tag_names[tag]
        if name.startswith("B-"):
            found.append((position, position + 1, name[2:]))
        elif name.startswith("I-"):
            assert found[-1][1:] == (position, name[2:])
            found[-1] = (found[-1][0], position + 1, name[2:])
    assert found == [piece for piece in pieces if piece[0] < piece[1]]


def test_a_sentence_without_an_end_is_read_in_pieces(caplog: pytest.LogCaptureFixture) -> None:
    """As a whole, one of 300,000 words takes 17 GB: it is a document without sentence_starts."""
    spans = [(998, 1003, "A"), (1500, 2000, "B")]
    document = make_document(2 * LONGEST + 900, (0, 500), spans)
    sentences = build_sentences([document], np.arange(2 * LONGEST + 900), ("A", "B"))
    assert sentences.lengths.tolist() == [500, LONGEST, LONGEST, 400]
    names = [sentences.tag_names[tag] for tag in sentences.tags]
    assert names[997:1004] == ["O", "B-A", "I-A", "I-A", "I-A", "I-A", "O"]
    assert [place for place, name in enumerate(names) if name == "B-B"] == [1500]
    assert "document a#0: a sentence of 2400 words" in caplog.text
    caplog.clear()
    whole = build_sentences([make_document(LONGEST, (0,), [])], np.arange(LONGEST), ())
    assert (whole.lengths.tolist(), caplog.text) == ([LONGEST], "")


def test_nothing_annotated_gives_an_empty_set() -> None:
    sentences = build_sentences([make_document(3, (0, 1), None)], np.arange(3), ("A",))
    assert (len(sentences), len(sentences.tags), sentences.left_out) == (0, 0, 2)
    empty = build_sentences([], np.zeros(0, np.int32), ())
    assert (len(empty), empty.tag_names) == (0, ("O",))


def test_an_index_of_another_corpus_is_an_error() -> None:
    with pytest.raises(ValueError, match="4 vector rows for 3 words"):
        build_sentences([make_document(3, (0,), [])], np.arange(4), ())


@pytest.mark.parametrize("label", ["", "-A", "A-"])
def test_labels_that_iob2_cannot_carry_are_errors(label: str) -> None:
    with pytest.raises(CorpusError, match="named-entity label"):
        list_labels([make_document(2, (0,), [(0, 1, label)])])


def test_labels_that_number_entities_are_refused() -> None:
    """With 3,000 a batch's best paths ask for 4.6 GB at each word; 20,000 overflow the tags."""
    spans = [(i, i + 1, f"Q{i}") for i in range(MOST_LABELS + 1)]
    document = make_document(len(spans), (0,), spans)
    with pytest.raises(CorpusError, match=r"501 named-entity labels, such as 'Q0', expected"):
        list_labels([document])
    assert len(list_labels([make_document(len(spans), (0,), spans[1:])])) == MOST_LABELS
