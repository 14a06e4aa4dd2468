"""The plan of a training run: each prediction once an epoch, a pure function of the step."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import plain_corpus

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.corpus.windows import WindowPlan


def make_corpus(lengths: list[int], entities: int = 3) -> AlignedCorpus:
    """Documents of these lengths that give gold labels, 0..entities; each token is another."""
    generator = np.random.default_rng(0)
    labels = ([0, *generator.integers(0, entities + 1, length - 1)] for length in lengths)
    column = np.concatenate(list(labels))
    corpus = plain_corpus(column, np.where(column > 0, 0, -1), np.cumsum([0, *lengths]))
    return give(corpus, "gold")


@settings(max_examples=60)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=12).filter(lambda ls: max(ls) > 1),
    streams=st.integers(1, 4), window=st.integers(2, 16), seed=st.integers(0, 5),
)  # fmt: skip
def test_streams_read_whole_documents_in_order_without_gaps(lengths, streams, window, seed):
    corpus = make_corpus(lengths)
    plan = WindowPlan(corpus, streams=streams, window=window, windows=6, seed=seed)
    windows = [plan[i] for i in range(6)]
    for one in windows:  # a document begins with its first token, not where a window goes on
        np.testing.assert_array_equal(one.begins, np.isin(one.tokens, corpus.offsets[:-1]))
    for stream in range(streams):
        tokens = np.concatenate([w.tokens[stream] for w in windows])
        targets = np.concatenate([w.targets[stream] for w in windows])
        np.testing.assert_array_equal(targets, tokens + 1)
        starts = np.isin(tokens, corpus.offsets[:-1])
        assert starts[0]
        jumps = np.flatnonzero(np.diff(tokens) != 1) + 1
        assert starts[jumps].all()
        ends = corpus.offsets[np.searchsorted(corpus.offsets, tokens[jumps - 1], side="right")] - 2
        np.testing.assert_array_equal(tokens[jumps - 1], ends)


@settings(max_examples=60)
@given(
    lengths=st.lists(st.integers(2, 30), min_size=1, max_size=10),
    streams=st.integers(1, 3), window=st.integers(2, 40), seed=st.integers(0, 5),
)  # fmt: skip
def test_memory_rows_of_a_window_belong_to_one_document_each(lengths, streams, window, seed):
    corpus = make_corpus(lengths)
    plan = WindowPlan(corpus, streams=streams, window=window, windows=8, seed=seed)
    owner: list[dict[int, tuple[int, int]]] = [{} for _ in range(streams)]
    document_of = np.searchsorted(corpus.offsets, np.arange(len(corpus.tokens)), side="right") - 1
    for window_ in (plan[i] for i in range(8)):
        for stream in range(streams):
            for row in np.flatnonzero(window_.new_rows[stream]):
                owner[stream].pop(int(row), None)
            for token, row in zip(window_.tokens[stream], window_.entity_ids[stream], strict=True):
                assert (row == 0) == (corpus.gold[token] == 0)
                if row:
                    key = int(document_of[token]), int(corpus.gold[token])
                    assert owner[stream].setdefault(int(row), key) == key


def test_positions_restart_where_a_document_starts_and_new_rows_are_its_own() -> None:
    window = WindowPlan(make_corpus([6, 6, 6], 2), streams=1, window=8, windows=4, seed=0)[0]
    np.testing.assert_array_equal(window.positions[0], [0, 1, 2, 3, 4, 0, 1, 2])
    assert window.packed
    assert not window.new_rows[0, 0]
    assert len(window.documents) == 2


def test_an_epoch_predicts_every_token_once() -> None:
    corpus = make_corpus([5, 9, 13, 2])
    total = 29 - 4  # all but the first of each document
    plan = WindowPlan(corpus, streams=1, window=5, windows=10, seed=3)
    targets = np.concatenate([plan[i].targets[0] for i in range(10)])[:total]
    assert sorted(targets) == sorted({*range(29)} - {*corpus.offsets[:-1].tolist()})


@settings(max_examples=40)
@given(st.lists(st.integers(2, 20), min_size=1, max_size=6), st.integers(2, 24), st.integers(0, 5))
def test_chains_start_and_end_with_their_document(lengths, window, seed):
    """Chains end as often as they start, in the same rows; twice in one window counts once."""
    plan = WindowPlan(make_corpus(lengths), streams=1, window=window, windows=12, seed=seed)
    stream = plan.streams[0]
    for index, found in enumerate(plan[i] for i in range(12)):
        starting, ending = dict[int, int](), dict[int, int]()
        for k, document in enumerate(stream.documents):
            before = int(plan.entities[:document].sum())
            own = range(1, int(plan.entities[document]) + 1)
            rows = {before + e: int(stream.rows[k]) + e for e in own}
            first, last = int(stream.starts[k]), int(stream.starts[k] + plan.lengths[document] - 1)
            starting |= {row: chain for chain, row in rows.items() if first // window == index}
            ending |= rows if last // window == index else {}
        begun = np.flatnonzero(found.starting[0])
        assert {row: found.starting[0, row] for row in begun} == starting
        assert {found.ending[0, row]: row for row in np.flatnonzero(found.ending[0])} == ending


def test_a_window_depends_on_corpus_seed_and_index_alone() -> None:
    corpus = make_corpus([20, 30, 25, 10])
    how = {"streams": 2, "window": 8, "windows": 30}
    one, again, other = (WindowPlan(corpus, **how, seed=seed) for seed in (1, 1, 2))
    _ = [one[i] for i in range(10)]
    for name in ("tokens", "targets", "entity_ids", "positions", "begins", "starting", "ending"):
        np.testing.assert_array_equal(getattr(one[17], name), getattr(again[17], name))
    assert (one[17].tokens != other[17].tokens).any()


def test_a_window_has_the_labels_that_are_given_and_none_without_any() -> None:
    corpus = make_corpus([9, 9, 9])
    found = replace(corpus, given=np.where(corpus.gold == 2, 1, 0).astype(np.int32))
    plan = WindowPlan(found, streams=1, window=8, windows=6, seed=1)
    assert plan.entities.max() == 1
    for window in (plan[i] for i in range(6)):
        np.testing.assert_array_equal(window.entity_ids > 0, corpus.gold[window.tokens] == 2)
    plan = WindowPlan(give(corpus, "none"), streams=1, window=8, windows=6, seed=1)
    assert (plan.rows, plan[0].entity_ids.any()) == (0, False)


def test_a_split_without_words_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to train on"):
        WindowPlan(make_corpus([1, 1]), streams=1, window=4, windows=1, seed=0)
