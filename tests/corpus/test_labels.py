"""The layers of labels that a model is given: each against its meaning; gold stays as it is."""

from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest
from mixed import mixed_corpus
from tiny import plain_corpus, tiny_corpus

from entity_transformers.corpus.alignment import TOKEN_ARRAYS, AlignedCorpus
from entity_transformers.corpus.labels import (
    LAG,
    find_given_spans,
    give,
    place_spans,
    shuffle_given,
    shuffle_labels,
)
from entity_transformers.corpus.layers import CHANGES, LABELS
from entity_transformers.corpus.tokens import take_middle

CORPORA = pytest.mark.parametrize("corpus", [tiny_corpus(), mixed_corpus()], ids=["tiny", "mixed"])


@CORPORA
@pytest.mark.parametrize("layer", [*LABELS, "resolver:names"])
def test_no_layer_changes_anything_but_what_is_given(corpus: AlignedCorpus, layer: str) -> None:
    as_it_is = {"gold": corpus.gold, "none": None, "resolver:names": corpus.gold % 2}
    corpus = replace(corpus, layers={"resolver:names": as_it_is["resolver:names"]})
    before = {name: getattr(corpus, name).copy() for name in TOKEN_ARRAYS}
    given = give(corpus, layer, seed=1)
    assert given.layer == layer
    assert given.given is as_it_is.get(layer, given.given)
    if given.given is not None:
        assert (given.given.shape, given.given.dtype) == (corpus.gold.shape, np.int32)
    for name, array in before.items():
        np.testing.assert_array_equal(getattr(corpus, name), array)
        assert getattr(given, name) is getattr(corpus, name)
    assert (given.names, given.layers) == (corpus.names, corpus.layers)


@pytest.mark.parametrize("layer", ["resolver:other", "Gold", ""])
def test_an_unknown_layer_is_named_beside_those_there_are(layer: str) -> None:
    told = rf"'train' has no labels '{layer}', expected one of gold, none, .* resolver:names: to"
    with pytest.raises(ValueError, match=f"{told} have"):
        give(replace(tiny_corpus(), layers={"resolver:names": tiny_corpus().gold}), layer)


@CORPORA
def test_without_first_mentions_a_label_stands_where_its_entity_was_before(corpus):
    kept = give(corpus, "first-only").given
    for part in corpus.slices:
        seen: dict[int, int] = {}
        gold, mentions = corpus.gold[part].tolist(), corpus.mentions[part].tolist()
        for label, entity, mention in zip(kept[part].tolist(), gold, mentions, strict=True):
            first = seen.setdefault(entity, mention) == mention
            assert label == (0 if mention < 0 or first else entity)


@CORPORA
@pytest.mark.parametrize("middle", [False, True])
def test_shuffled_labels_keep_spans_and_the_counts_of_each_document(corpus, middle: bool) -> None:
    corpus = take_middle(corpus, 20, 1) if middle else corpus
    shuffled = give(corpus, "shuffled", seed=1).given
    np.testing.assert_array_equal(shuffled > 0, corpus.gold > 0)
    for part in corpus.slices:
        mentions = corpus.mentions[part]
        owned = [mentions == m for m in {*mentions.tolist()} - {-1}]
        assert all(len(set(shuffled[part][own].tolist())) == 1 for own in owned)
        firsts = [np.flatnonzero(own)[0] for own in owned]
        assert sorted(shuffled[part][firsts]) == sorted(corpus.gold[part][firsts])


@CORPORA
@pytest.mark.parametrize("layer", ["shuffled", "random"])
def test_what_is_drawn_depends_on_the_seed_and_the_document_alone(corpus, layer: str) -> None:
    one, again, other = (give(corpus, layer, seed).given for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
    assert (one != corpus.gold).any()
    first = give(corpus.head(2), layer, 1).given
    np.testing.assert_array_equal(first, one[: len(first)])


def test_what_is_given_is_shuffled_and_not_the_gold() -> None:
    corpus = tiny_corpus()
    corpus = give(replace(corpus, layers={"resolver:one": corpus.gold * 0 + 7}), "resolver:one")
    shuffled = shuffle_given(corpus, 1)
    np.testing.assert_array_equal(shuffled.given, np.where(corpus.mentions >= 0, 7, 0))
    assert shuffled.layer == "resolver:one, shuffled"
    gold = give(corpus, "gold")
    np.testing.assert_array_equal(
        shuffle_given(gold, 3).given, shuffle_labels(corpus, corpus.gold, 3, corpus.mentions)
    )


def find_mentions(corpus: AlignedCorpus, part: slice) -> list[tuple[int, int]]:
    """Where each mention of a document begins and ends, in its tokens."""
    numbers = corpus.mentions[part].tolist()
    runs = [[i for i, _ in run] for n, run in groupby(enumerate(numbers), lambda p: p[1]) if n >= 0]
    return [(run[0], run[-1] + 1) for run in runs]


@CORPORA
def test_lagged_labels_are_those_that_a_memory_may_use(corpus: AlignedCorpus) -> None:
    """Document by document: a mention is known when the second word after it has begun, and by
    nothing that comes later.
    """
    given = give(corpus, "lagged").given
    for part in corpus.slices:
        known: dict[int, int] = {}
        words = corpus.words[part].tolist()
        for _, end in find_mentions(corpus, part):
            begun = [i for i, word in enumerate(words) if word >= words[end - 1] + LAG]
            if begun:
                known[begun[0]] = int(corpus.gold[part][end - 1])
        assert {i: e for i, e in enumerate(given[part].tolist()) if e} == known


@CORPORA
def test_a_resolver_s_labels_are_changed_by_its_own_mentions(corpus: AlignedCorpus) -> None:
    """The gold ones under another name, with gold chains and mentions that are something else."""
    layers = {"resolver:names": corpus.gold, "mentions:names": corpus.mentions}
    none = np.zeros_like(corpus.gold)
    empty = replace(corpus, gold=none, mentions=none - 1, layers=layers)
    changed = [(change, f"{change}-resolver:names") for change in CHANGES]
    for gold, named in (*changed, ("gold", "resolver:names")):
        one, other = give(corpus, gold, 5), give(empty, named, 5)
        np.testing.assert_array_equal(one.given, other.given)
        np.testing.assert_array_equal(shuffle_given(one, 3).given, shuffle_given(other, 3).given)
    with pytest.raises(ValueError, match="has no labels 'lagged-resolver:other'"):
        give(empty, "lagged-resolver:other")


@CORPORA
@pytest.mark.parametrize("layer", ["lagged", "next", "nouns"])
def test_shuffled_labels_stand_where_the_moved_ones_do(corpus: AlignedCorpus, layer: str) -> None:
    moved = give(corpus, layer)
    shuffled = shuffle_given(moved, 1).given
    np.testing.assert_array_equal(shuffled > 0, moved.given > 0)
    assert not np.array_equal(shuffled, moved.given)
    for part in corpus.slices:
        numbers, firsts = np.unique(find_given_spans(moved)[part], return_index=True)
        firsts = firsts[numbers >= 0]
        assert sorted(shuffled[part][firsts]) == sorted(moved.given[part][firsts])


@CORPORA
def test_what_is_spelt_the_same_is_one_entity_of_surface(corpus: AlignedCorpus) -> None:
    given = give(corpus, "surface").given
    np.testing.assert_array_equal(given > 0, corpus.gold > 0)
    for part in corpus.slices:
        expected, numbers = np.zeros(part.stop - part.start, int), dict[tuple[int, ...], int]()
        for start, end in find_mentions(corpus, part):
            form = tuple(corpus.tokens[part][start:end].tolist())
            expected[start:end] = numbers.setdefault(form, len(numbers) + 1)
        np.testing.assert_array_equal(given[part], expected)


@CORPORA
def test_random_spans_are_as_many_and_as_long_as_the_mentions(corpus: AlignedCorpus) -> None:
    given = give(corpus, "random", 1).given
    for part in corpus.slices:
        assert given[part][0] == 0  # <|endoftext|>
        assert (given[part] > 0).sum() == (corpus.gold[part] > 0).sum()


def test_spans_lie_anywhere_and_none_over_another() -> None:
    """A span of one token and one of two are drawn in all the twelve ways that five have."""
    drawn = {
        tuple(place_spans(np.array([1, 2]), 5, np.random.default_rng(seed)).tolist())
        for seed in range(400)
    }
    assert len(drawn) == 12
    assert place_spans(np.array([2, 3]), 5, np.random.default_rng(0)).min() == 0
    assert (place_spans(np.array([], int), 3, np.random.default_rng(0)) == -1).all()
    sizes = np.array([1, 4, 2, 2])
    for seed in range(50):
        spans = place_spans(sizes, 11, np.random.default_rng(seed))
        assert sorted(np.unique(spans[spans >= 0], return_counts=True)[1]) == sorted(sizes)


def test_without_parts_of_speech_there_are_no_nouns() -> None:
    with pytest.raises(ValueError, match="has no part-of-speech tags for labels 'nouns'"):
        give(plain_corpus([0, 1], [-1, 0], [0, 2]), "nouns")


@CORPORA
def test_nouns_are_entities_by_their_spelling(corpus: AlignedCorpus) -> None:
    tags = np.array([name.startswith("NN") for name in corpus.tag_names])[corpus.tags]
    assert tags.any()
    given = give(corpus, "nouns")
    np.testing.assert_array_equal(given.given > 0, tags & (corpus.words >= 0))
    for part in corpus.slices:
        forms: dict[int, set[tuple[int, ...]]] = {}
        for word in np.unique(corpus.words[part][given.given[part] > 0]):
            own = corpus.words[part] == word
            form = tuple(corpus.tokens[part][own].tolist())
            forms.setdefault(int(given.given[part][own][0]), set()).add(form)
        spelt = [form for several in forms.values() for form in several]
        assert len(spelt) == len(set(spelt)) == len(forms)
        assert sorted(forms) == list(range(1, len(forms) + 1))
