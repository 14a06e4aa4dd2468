"""Windows cover every input once; documents side by side read the same memory as one document
alone.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entity_transformers.encode.reader import batch_by_length, lay_out, plan_windows, read_documents


@given(length=st.integers(0, 60), window=st.integers(1, 20), data=st.data())
def test_plan_windows_each_input_is_new_once_and_no_window_is_too_long(length, window, data):
    stride = data.draw(st.integers(1, window))
    plan = list(plan_windows(length, window, stride))
    assert [i for _, new, end in plan for i in range(new, end)] == list(range(length))
    assert all(0 <= start <= new < end and end - start <= window for start, new, end in plan)
    assert all(end - start == window for start, _, end in plan[:-1])


def test_plan_windows_with_full_stride_is_training():
    assert list(plan_windows(10, 4, 4)) == [(0, 0, 4), (4, 4, 8), (8, 8, 10)]
    assert list(plan_windows(10, 4, 1))[:3] == [(0, 0, 4), (1, 4, 5), (2, 5, 6)]


def test_batches_go_from_long_to_short_and_leave_out_the_empty():
    assert [b.tolist() for b in batch_by_length(np.array([2, 0, 5, 2, 9]), 2)] == [[4, 2], [0, 3]]
    assert batch_by_length(np.array([], np.int64), 2) == []


def test_lay_out_pads_on_the_right():
    where, valid = lay_out(np.array([10, 3]), np.array([3, 1]))
    assert where.tolist() == [[10, 11, 12], [3, 3, 3]]
    assert valid.tolist() == [[True, True, True], [True, False, False]]


@pytest.mark.parametrize("stride", [12, 5])
def test_every_token_is_new_in_one_window_and_every_document_ends_once(gpt2e, corpus, stride):
    seen, ended = np.zeros(len(corpus.tokens), int), np.zeros(len(corpus), int)
    for reading in read_documents(gpt2e, corpus, window=12, stride=stride, batch=3, entities=True):
        np.add.at(seen, reading.where[reading.valid], 1)
        ended[reading.documents[reading.ended]] += 1
        assert reading.hidden.shape == (*reading.where.shape, 16)
        assert reading.memory is not None
        assert len(reading.memory.states) == len(reading.documents)
    assert (seen == 1).all()
    assert (ended == 1).all()


def test_wrong_use_is_refused(gpt2e, corpus):
    with pytest.raises(ValueError, match="stride 13 must lie between 1 and the window of 12"):
        next(read_documents(gpt2e, corpus, window=12, stride=13, batch=1, entities=True))
    gpt2e.train()
    try:
        with pytest.raises(ValueError, match="training mode"):
            next(read_documents(gpt2e, corpus, window=12, stride=12, batch=1, entities=True))
    finally:
        gpt2e.eval()
