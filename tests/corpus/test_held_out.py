"""Dev and test that are taken from train: which documents, and which words of a plain text."""

from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from entity_transformers.corpus.document import Document, Mention, NamedEntity
from entity_transformers.corpus.held_out import hold_out


def make(name: str, sentences: int, words: int = 5, split="train", part=0) -> Document:
    starts = tuple(range(0, sentences * words, words))
    texts = tuple(f"{name}.{part}.{i}" for i in range(sentences * words))
    return Document(name, part, split, "", texts, starts)


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=19),
    st.sampled_from([["dev", "test"], ["dev"], ["test"]]),
)
def test_a_text_s_end_is_cut_at_sentences_and_no_word_is_lost(sizes, missing):
    text = [make("book", size, part=part) for part, size in enumerate(sizes)]
    whole = list(chain.from_iterable(one.words for one in text))
    if len(whole) < 20 * 5 * 2:  # shorter than a sentence per twentieth, twice over
        return
    held = hold_out(text, missing)  # type: ignore[arg-type]
    assert list(chain.from_iterable(one.words for one in held)) == whole
    assert len({(one.name, one.part) for one in held}) == len(held)
    assert len({(one.name, one.split) for one in held}) == len({one.name for one in held})
    order = [one.split for one in held]
    assert order == sorted(order, key=["train", *missing].index)
    for split in missing:
        count = sum(len(one.words) for one in held if one.split == split)
        assert abs(count - len(whole) / 20) <= 5 + 1
    for one in held:
        assert one.sentence_starts[0] == 0
        assert all(int(one.words[start].split(".")[2]) % 5 == 0 for start in one.sentence_starts)


def test_many_documents_stay_whole_and_parts_of_a_name_together() -> None:
    text = [make(f"d{i}", 2, part=part) for i in range(60) for part in range(2)]
    held = hold_out(text, ["dev", "test"])
    assert [replace(one, split="train") for one in held] == text
    splits = {one.name: one.split for one in held}
    assert all(splits[one.name] == one.split for one in held)
    assert [list(splits.values()).count(split) for split in ("dev", "test")] == [5, 5]
    again = hold_out(text[::-1], ["dev", "test"])
    assert {one.name: one.split for one in again} == splits  # the order does not matter


@pytest.mark.parametrize(("names", "missing", "each"), [
    (20, ["dev", "test"], 1), (21, ["dev", "test"], 5), (20, ["test"], 5), (120, ["test"], 6),
])  # fmt: skip
def test_five_documents_are_drawn_where_train_keeps_most(names, missing, each):
    held = hold_out([make(f"d{i}", 2) for i in range(names)], missing)  # type: ignore[arg-type]
    assert [sum(one.split == split for one in held) for split in missing] == [each] * len(missing)


@pytest.mark.parametrize(("words", "parts"), [(5_995, 1), (6_000, 5), (60_000, 5)])
def test_the_end_of_a_long_text_is_in_five_parts(words: int, parts: int) -> None:
    (text,) = [make("book", words // 5)]
    held = hold_out([text], ["dev", "test"])
    assert list(chain.from_iterable(one.words for one in held)) == list(text.words)
    assert [one.split for one in held] == ["train", *["dev"] * parts, *["test"] * parts]
    assert len({(one.name, one.part) for one in held}) == len(held)
    sizes = [len(one.words) for one in held[1:]]
    assert max(sizes) - min(sizes) <= 5 + 1
    assert min(sizes) >= 195


def test_a_document_with_chains_is_cut_only_where_there_are_too_few() -> None:
    text = [replace(make(f"d{i}", 20), mentions=(Mention(0, 1, 1),)) for i in range(3)]
    held = hold_out([*text, make("other", 1, split="test2")], ["dev", "test"])
    assert sorted(one.split for one in held) == ["dev", "test", "test2", "train"]
    assert all(len(one.words) == 100 for one in held[:3])
    held = hold_out(text[:2], ["dev", "test"])
    assert [one.split for one in held] == ["train", "train", "dev", "test"]
    assert [len(one.words) for one in held] == [100, 80, 10, 10]


def test_what_is_annotated_stays_with_its_words_and_no_mention_is_cut() -> None:
    """The last two sentences would be test, but the first of them is inside a mention."""
    spans = (Mention(0, 1, 1), Mention(182, 192, 2), Mention(195, 196, 1))
    named = (NamedEntity(0, 1, "A"), NamedEntity(196, 198, "B"))
    book = make("book", 40)
    tags = tuple(f"T{word}" for word in book.words)
    book = replace(book, mentions=spans, tags=tags, named_entities=named)
    [train, dev, test] = hold_out([book], ["dev", "test"])
    assert [len(one.words) for one in (train, dev, test)] == [175, 5, 20]
    assert train.tags + dev.tags + test.tags == tags
    assert (train.mentions, dev.mentions) == (spans[:1], ())
    assert test.mentions == (Mention(2, 12, 2), Mention(15, 16, 1))
    assert (train.named_entities, dev.named_entities) == (named[:1], ())
    assert test.named_entities == (NamedEntity(16, 18, "B"),)


def test_a_text_without_a_sentence_near_its_end_is_refused() -> None:
    with refused("no sentence of this text of 400 words begins near"):
        hold_out([make("d", 1, words=400)], ["dev", "test"])
