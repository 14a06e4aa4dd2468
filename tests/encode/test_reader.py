"""Windows cover every input once; documents side by side are read as each alone."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mixed import VOCABULARY, WINDOW, mixed_corpus
from tiny import lively_model

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.encode.reader import plan_windows, read_windows
from entity_transformers.models.base import Batch, LanguageModel


@given(length=st.integers(0, 60), window=st.integers(1, 20), data=st.data())
def test_plan_windows_each_input_is_new_once_and_no_window_is_too_long(length, window, data):
    stride = data.draw(st.integers(1, window))
    plan = list(plan_windows(length, window, stride))
    assert [i for _, new, end in plan for i in range(new, end)] == list(range(length))
    assert all(0 <= start <= new < end and end - start <= window for start, new, end in plan)
    assert all(end - start == window for start, _, end in plan[:-1])


MODELS = ["gpt2", "gpt2e-hidden-last", "gpt2e-both-mean", "bert", "lstm"]


@pytest.fixture(scope="module")
def corpus() -> AlignedCorpus:
    return mixed_corpus()


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> LanguageModel:
    kind, *switches = request.param.split("-")
    changes = dict(zip(("entity_values", "memory_write"), switches, strict=False))
    return lively_model(kind, VOCABULARY, window=WINDOW, **changes)


def read_hidden(model, corpus, stride: int, batch: int) -> np.ndarray:
    """The hidden state of every token of the split, [N, width], from the one window where it is
    new; every document ends once.
    """
    found, seen, ended = np.zeros((len(corpus.tokens), model.width), np.float32), [], []
    with torch.inference_mode():
        for reading in read_windows(model, corpus, window=WINDOW, stride=stride, batch=batch):
            assert reading.hidden.shape == (*reading.where.shape, 16)
            assert len(reading.hidden) == len(reading.documents) == len(reading.ended)
            seen += (where := reading.where[reading.valid]).tolist()
            ended += reading.documents[reading.ended].tolist()
            found[where] = reading.hidden.numpy()[reading.valid]
    assert sorted(seen) == list(range(len(corpus.tokens)))
    assert sorted(ended) == list(range(len(corpus)))
    return found


@pytest.mark.parametrize("labels", ["gold", "none"])
@pytest.mark.parametrize("stride", [12, 5])
def test_states_are_those_of_each_document_alone_whatever_the_batch(model, corpus, stride, labels):
    given = give(corpus, labels, seed=3)
    alone = read_hidden(model, given, stride, 1)
    assert np.isfinite(alone).all()
    for batch in (2, 3, 8):
        found = read_hidden(model, given, stride, batch)
        np.testing.assert_allclose(found, alone, rtol=1e-4, atol=1e-5)
    for d, part in enumerate(corpus.slices):  # a document beside none at all
        found = read_hidden(model, given.part(slice(d, d + 1)), stride, 4)
        np.testing.assert_allclose(found, alone[part], rtol=1e-4, atol=1e-5)
        if model.context is None:  # a model without a longest window reads every token once
            tokens = torch.from_numpy(corpus.tokens[part].astype(np.int64))[None]
            with torch.no_grad():
                hidden, _ = model.encode(Batch(tokens), model.start(1))
            np.testing.assert_allclose(found, hidden[0], rtol=1e-4, atol=1e-5)


def test_wrong_use_is_refused(model, corpus):
    with pytest.raises(ValueError, match="stride 13 must lie between 1 and the window of 12"):
        next(read_windows(model, corpus, window=12, stride=13, batch=1))
    model.module.train()
    try:
        with pytest.raises(ValueError, match="training mode"):
            next(read_windows(model, corpus, window=12, stride=12, batch=1))
    finally:
        model.eval()
