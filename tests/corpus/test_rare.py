"""Rare words against a count of their own, and as much of them as there is of mentions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from mixed import mixed_corpus
from tiny import tiny_corpus

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.rare import RARE, choose_most, mark_rare
from entity_transformers.tasks.memory.training import cut_documents


def spellings(corpus: AlignedCorpus) -> list[list[tuple[int, ...] | None]]:
    """Of each document's tokens the tokens of its word; None: of no word."""
    found = []
    for d in range(len(corpus)):
        part = corpus.document(d)
        words, tokens = corpus.words[part].tolist(), corpus.tokens[part].tolist()
        found.append(
            [
                tuple(t for t, w in zip(tokens, words, strict=True) if w == word)
                if word >= 0
                else None
                for word in words
            ]
        )
    return found


@pytest.mark.parametrize(
    "splits",
    [
        (mixed_corpus(), tiny_corpus(3, seed=8, split="dev")),
        (tiny_corpus(9, seed=2), tiny_corpus(4, seed=3, split="test")),
    ],
    ids=["mixed", "tiny"],
)
def test_rare_words_are_those_of_few_other_documents(
    splits: tuple[AlignedCorpus, ...],
) -> None:
    written = [spellings(split) for split in splits]
    others = [
        [
            sum(form in other for o, other in enumerate(written[0]) if (s, d) != (0, o))
            if form is not None
            else 10**6
            for d, document in enumerate(own)
            for form in document
        ]
        for s, own in enumerate(written)
    ]
    wanted = (splits[0].mentions >= 0).mean()
    shares = {k: np.mean([n <= k for n in others[0]]) for k in range(len(splits[0]))}
    most = min(shares, key=lambda k: abs(shares[k] - wanted))
    assert 0 < shares[most] < 1
    for counted, split in zip(others, mark_rare(splits, "gold"), strict=True):
        assert split.layers[RARE].tolist() == [int(n <= most) for n in counted]


def test_no_rare_word_is_known_by_the_split_that_is_scored() -> None:
    """What other splits hold changes nothing but their own marks."""
    train, dev = tiny_corpus(9, seed=2), tiny_corpus(4, seed=3, split="dev")
    alone = mark_rare([train, dev], "gold")
    more = mark_rare([train, dev, tiny_corpus(30, seed=4, split="test")], "gold")
    for one, other in zip(alone, more, strict=False):
        assert np.array_equal(one.layers[RARE], other.layers[RARE])


def test_marks_go_with_their_tokens_and_other_layers_stay() -> None:
    train = replace(tiny_corpus(5), layers={"resolver:names": tiny_corpus(5).gold})
    (marked,) = mark_rare([train], "gold")
    assert np.array_equal(marked.layers["resolver:names"], train.gold)
    cut = cut_documents(marked, 6)
    for d in range(len(cut)):
        whole = marked.layers[RARE][marked.document(d)]
        assert np.array_equal(cut.layers[RARE][cut.document(d)], whole[:7])


def test_the_share_nearest_to_the_mentions_is_taken() -> None:
    counts = np.array([0, 0, 1, 1, 1, 5, 9, 9, 9, 9])
    assert [choose_most(counts, share) for share in (0.0, 0.3, 0.4, 0.5, 0.54, 0.9)] == [
        0,
        0,
        1,
        1,
        1,
        9,
    ]
