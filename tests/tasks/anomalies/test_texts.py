"""The candidates' texts token by token, and the closed forms against counting."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tiny import tiny_corpus

from entity_transformers.corpus.labels import give
from entity_transformers.tasks.anomalies.texts import (
    join,
    pad_documents,
    pick,
    predicted,
    real_share,
    split_sentences,
    spread,
    unigram_entropy,
)


def documents(corpus) -> list[list[int]]:
    return [corpus.tokens[corpus.document(d)].tolist() for d in range(len(corpus))]


@pytest.mark.parametrize("window", [1, 7, 8, 64])
def test_padding_fills_whole_windows_with_the_end_token_and_keeps_the_text(window: int) -> None:
    corpus = tiny_corpus(5)
    padded = pad_documents(corpus, window)
    for before, after in zip(documents(corpus), documents(padded), strict=True):
        assert after[: len(before)] == before
        assert set(after[len(before) :]) <= {0}
        assert (len(after) - 1) % window == 0
        assert len(after) - len(before) < window
    assert (padded.words >= 0).sum() == (corpus.words >= 0).sum()
    assert not padded.gold[padded.words < 0].any()
    lengths = np.array([len(d) - 1 for d in documents(corpus)])
    assert real_share(lengths, window) == pytest.approx(
        (padded.words >= 0).sum() / predicted(padded).sum()
    )


def test_sentences_become_documents_behind_an_end_token() -> None:
    corpus = tiny_corpus(4)
    starts = [(0, 3, 4), (0,), (0, 5), (0, 1, 2)]
    cut = split_sentences(corpus, starts)
    expected = []
    for document, firsts in zip(documents(corpus), starts, strict=True):
        words = document[1:]  # one token a word here
        expected += [[0, *words[a:b]] for a, b in zip(firsts, [*firsts[1:], None], strict=True)]
    assert documents(cut) == expected
    assert cut.names[:3] == ("d0#0/0", "d0#0/1", "d0#0/2")


def test_spread_takes_documents_at_equal_distances_and_never_more_than_there_are() -> None:
    corpus = tiny_corpus(6)
    assert spread(corpus, 3).names == ("d0#0", "d2#0", "d4#0")
    assert documents(spread(corpus, 99)) == documents(corpus)
    assert documents(pick(corpus, [4, 1])) == [documents(corpus)[4], documents(corpus)[1]]


def test_what_is_cut_out_gives_no_labels_but_keeps_the_gold_ones() -> None:
    corpus = give(tiny_corpus(3), "gold")
    corpus = replace(corpus, layers={"resolver:x": corpus.gold})
    for part in (
        pick(corpus, [2]),
        pad_documents(corpus, 8),
        split_sentences(corpus, [(0,)] * 3),
        join(corpus, corpus),
    ):
        assert not part.layers
        assert (part.given, part.layer) == (None, "none")
        assert part.gold.any()


def test_a_split_without_words_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"'dev' holds no words .*anomalies\.candidates to \[\]"):
        spread(tiny_corpus(2, split="dev", shortest=1, longest=2), 3)


def test_joined_splits_keep_documents_entities_and_tags() -> None:
    one, other = tiny_corpus(2, seed=1), tiny_corpus(3, seed=2)
    both = join(one, other)
    assert documents(both) == documents(one) + documents(other)
    assert both.gold.tolist() == [*one.gold, *other.gold]
    assert [both.tag_names[t] for t in both.tags] == [
        c.tag_names[t] for c in (one, other) for t in c.tags
    ]


def test_unigram_entropy_is_that_of_the_counts() -> None:
    corpus = tiny_corpus(5)
    counts = Counter(token for document in documents(corpus) for token in document[1:])
    total = sum(counts.values())
    assert unigram_entropy(corpus) == pytest.approx(
        -sum(n / total * math.log(n / total) for n in counts.values()), rel=1e-12
    )


def test_the_unigram_entropy_of_equal_frequencies_is_their_logarithm() -> None:
    corpus = tiny_corpus(1, shortest=9, longest=10)
    corpus.tokens[1:] = np.arange(1, 9)
    assert unigram_entropy(corpus) == pytest.approx(math.log(8), rel=1e-12)


def test_the_real_share_of_nothing_is_0() -> None:
    assert real_share(np.zeros(0, np.int64), 8) == 0.0
