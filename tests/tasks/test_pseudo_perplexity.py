"""Pseudo-perplexity against a plain loop over transformers' own model, one token at a time."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from mixed import VOCABULARY, WINDOW
from tiny import lively_model

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.tasks.perplexity import hidden_rows, mention_distances, score_hidden


def score_plainly(model: LanguageModel, corpus: AlignedCorpus) -> np.ndarray:
    """One document, window and token at a time: minus its log-probability by transformers."""
    found = []
    for d in range(len(corpus)):
        tokens = corpus.tokens[corpus.document(d)].tolist()
        for start in range(0, len(tokens), WINDOW):
            window = tokens[start : start + WINDOW]
            for i, token in enumerate(window):
                if start + i == 0:
                    found.append(0.0)
                    continue
                shown = torch.tensor([[*window[:i], VOCABULARY, *window[i + 1 :]]])
                with torch.no_grad():
                    logits = model.module(shown).logits[0, i].double()
                found.append(-logits.log_softmax(-1)[token].item())
    return np.array(found)


def test_each_token_is_hidden_alone(corpus: AlignedCorpus) -> None:
    bert = lively_model("bert", VOCABULARY, window=WINDOW)
    expected = score_plainly(bert, corpus)
    for batch in (1, 5, 64):
        found = score_hidden(bert, corpus, window=WINDOW, batch=batch)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert (found[corpus.offsets[:-1]] == 0).all()
    assert (np.delete(found, corpus.offsets[:-1]) > 0).all()


def test_entities_and_their_memory_are_read_in_each_window(corpus: AlignedCorpus) -> None:
    """Against one window and one hidden token at a time, with a memory of its own."""
    model = lively_model("berte", VOCABULARY, window=WINDOW)
    found = {}
    for layer in ("gold", "none"):
        split, expected = give(corpus, layer), []
        for d in range(len(split)):
            part = split.document(d)
            tokens = torch.from_numpy(split.tokens[part].astype(np.int64))[None]
            labels = torch.from_numpy(give(corpus, "gold").given[part].astype(np.int64))[None]
            state = model.start(1, 9)
            for start in range(0, tokens.shape[1], WINDOW):
                window = slice(start, start + WINDOW)
                known = labels[:, window] if layer == "gold" else None
                for i in range(tokens[:, window].shape[1]):
                    shown = tokens[:, window].clone()
                    shown[0, i] = VOCABULARY
                    with torch.no_grad():
                        hidden, _ = model.encode(Batch(shown, known), state)
                        logits = model.module.cls(hidden)[0, i].log_softmax(-1)
                    hides = start + i > 0
                    expected.append(-logits[tokens[0, start + i]].item() if hides else 0.0)
                with torch.no_grad():
                    _, state = model.encode(Batch(tokens[:, window], known), state)
        found[layer] = score_hidden(model, split, window=WINDOW, batch=5)
        np.testing.assert_allclose(found[layer], expected, rtol=1e-4, atol=1e-4)
    assert np.abs(found["gold"] - found["none"]).max() > 0.1


def test_sums_are_those_of_the_tokens(corpus: AlignedCorpus) -> None:
    nll = np.random.default_rng(1).random(len(corpus.tokens)).astype(np.float32)
    nll[corpus.offsets[:-1]] = 0
    rows = list(hidden_rows(corpus, {"off": nll}))
    assert all(row["measure"].startswith("pseudo_") for row in rows)
    distances, text = mention_distances(corpus), corpus.words >= 0
    classes = {None: text, "outside": text & (corpus.mentions < 0)}
    classes |= {"first": text & (distances == 0), "later": text & (distances > 0)}
    for name, where in classes.items():
        own = [row for row in rows if "unit" not in row and row["class"] == name]
        found = {row["measure"]: row["value"] for row in own}
        assert {row["count"] for row in own} == {where.sum()} != {0}
        total = math.fsum(nll[where].tolist())
        loss = total / where.sum()
        expected = {"nll": total, "loss": loss, "perplexity": math.exp(loss)}
        assert found == pytest.approx({f"pseudo_{k}": v for k, v in expected.items()}, rel=1e-9)
    units = [row for row in rows if "unit" in row]
    for row, (start, end) in zip(units, pairwise(corpus.offsets), strict=True):
        assert row["count"] == end - start - 1
        assert row["value"] == pytest.approx(math.fsum(nll[start:end].tolist()), abs=1e-6)
