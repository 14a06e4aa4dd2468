"""Accuracy, entropy and calibration error against closed forms, sums by hand and a plain loop."""

from __future__ import annotations

import json
import math
import tracemalloc
from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mixed import VOCABULARY, WINDOW
from tiny import lively_model, tiny_corpus, tiny_entry
from torch.utils._python_dispatch import TorchDispatchMode

from entity_transformers.corpus import labels
from entity_transformers.encode.reader import CHUNK
from entity_transformers.report.calibration import build_calibration
from entity_transformers.report.cells import render_csv
from entity_transformers.report.measures import Tree, collect
from entity_transformers.report.results import Results
from entity_transformers.tasks import calibration
from entity_transformers.tasks.calibration import (
    BINS,
    Predictions,
    compute_calibration_error,
    judge_logits,
    predict_corpus,
    summarise_predictions,
)
from entity_transformers.tasks.perplexity import score_corpus


def predict(model, corpus, stride=WINDOW, batch=3, window=WINDOW):
    found = predict_corpus(model, corpus, window=window, stride=stride, batch=batch)
    return np.stack([getattr(found, field.name) for field in fields(Predictions)])


def test_uniform_logits_are_right_by_chance_and_sure_of_nothing():
    model = lively_model("gpt2", VOCABULARY, window=WINDOW)
    with torch.no_grad():
        model.output_weight.zero_()
    corpus = tiny_corpus(documents=40)
    found = summarise_predictions(predict_corpus(model, corpus, window=12, stride=12, batch=8))
    accuracy, chance = found["top1_accuracy"], 1 / VOCABULARY
    assert found["tokens"] == len(corpus.tokens) - 40
    assert accuracy == pytest.approx(chance, abs=0.02)
    assert found["top5_accuracy"] == pytest.approx(5 * chance, abs=0.04)
    assert found["entropy"] == pytest.approx(math.log(VOCABULARY), rel=1e-6)
    assert found["calibration_error"] == pytest.approx(abs(chance - accuracy), abs=1e-7)


def test_errors_counted_in_pieces_are_those_of_all_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    sure = rng.random(100_000).astype(np.float32)
    right = (rng.random(100_000) < sure).astype(np.float32)
    at_once = compute_calibration_error(sure, right)
    monkeypatch.setattr(calibration, "PART", 1_000)
    tracemalloc.start()
    try:
        assert compute_calibration_error(sure, right) == at_once
        assert tracemalloc.get_traced_memory()[1] < 100_000  # a byte per prediction
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["gpt2-pointer", "gpt2e-pointer"])
def test_a_pointers_predictions_are_of_its_mixture(kind):
    model, corpus = lively_model(kind), labels.give(tiny_corpus(3, seed=2), "gold")
    how = {"window": 8, "stride": 8, "batch": 1}
    first = predict_corpus(model, corpus, **how)
    losses = score_corpus(model, corpus, **how)
    losses = losses[~np.isin(np.arange(len(losses)), corpus.offsets)]
    right = first.top1 == 1
    # where the likeliest token came, its probability is the one that was scored
    np.testing.assert_allclose(-np.log(first.confidence[right]), losses[right], rtol=1e-4)
    assert right.any()


def test_a_model_that_knows_is_certain_and_calibrated():
    targets = torch.arange(7)
    judged = judge_logits(1000 * torch.eye(7), targets)
    assert judged.tolist() == [[1, 1, 1, 0]] * 7
    assert compute_calibration_error(judged[:, 2].numpy(), judged[:, 0].numpy()) == 0
    fooled = judge_logits(1000 * torch.eye(7), targets.roll(1)).numpy()
    assert compute_calibration_error(fooled[:, 2], fooled[:, 0]) == 1


def test_probabilities_and_ranks_by_hand():
    logits = torch.tensor([0.4, 0.25, 0.15, 0.1, 0.06, 0.04]).log().repeat(3, 1)
    judged = judge_logits(logits, torch.tensor([0, 4, 5])).numpy()
    assert judged[:, :2].tolist() == [[1, 1], [0, 1], [0, 0]]
    np.testing.assert_allclose(judged[:, 2], 0.4, rtol=1e-6)
    entropy = -sum(p * math.log(p) for p in (0.4, 0.25, 0.15, 0.1, 0.06, 0.04))
    np.testing.assert_allclose(judged[:, 3], entropy, rtol=1e-6)


def test_calibration_error_by_hand():
    """Two of five tokens at 0.9, one of them right; two at 0.3, both wrong; one at 1, right."""
    confidence, correct = np.array([0.9, 0.3, 0.9, 0.3, 1.0]), np.array([1, 0, 0, 0, 1])
    expected = 2 / 5 * abs(1 / 2 - 0.9) + 2 / 5 * abs(0 - 0.3) + 1 / 5 * 0
    assert compute_calibration_error(confidence, correct) == pytest.approx(expected, rel=1e-12)
    # in one bin the errors of opposite signs cancel
    assert compute_calibration_error(confidence, correct, bins=1) == pytest.approx(0.28)
    assert compute_calibration_error(np.zeros(0), np.zeros(0)) is None


def test_a_bin_ends_with_its_upper_border():
    """0.5 and 0.4 are of the first of two bins, 0.6 is of the second."""
    confidence, correct = np.array([0.5, 0.4, 0.6]), np.array([0, 1, 1])
    expected = (abs(-0.5 + 0.6) + 0.4) / 3
    assert compute_calibration_error(confidence, correct, bins=2) == pytest.approx(expected)


@given(
    st.lists(st.tuples(st.floats(0, 1, width=32), st.booleans()), min_size=1, max_size=60),
    st.integers(1, BINS),
)
def test_calibration_error_equals_the_loop_over_bins(pairs, bins):
    edges = np.linspace(0, 1, bins + 1)
    error = 0.0
    for b, (low, high) in enumerate(pairwise(edges)):
        inside = [(c, r) for c, r in pairs if low < c <= high or (b == 0 and c == 0)]
        if inside:
            gap = sum(r for _, r in inside) / len(inside) - sum(c for c, _ in inside) / len(inside)
            error += len(inside) / len(pairs) * abs(gap)
    confidence, correct = (np.array(column) for column in zip(*pairs, strict=True))
    assert compute_calibration_error(confidence, correct, bins) == pytest.approx(error, abs=1e-9)


def predict_plainly(model, corpus):
    """One document, one window, one token at a time: sorted probabilities of the model's own
    logits.
    """
    rows = []
    for d in range(len(corpus)):
        tokens = corpus.tokens[corpus.document(d)].tolist()
        for start in range(0, len(tokens) - 1, WINDOW):
            with torch.no_grad():
                window = model.module(torch.tensor([tokens[start : start + WINDOW]])).logits[0]
            for logits, target in zip(window.tolist(), tokens[start + 1 :], strict=False):
                total = math.fsum(math.exp(x) for x in logits)
                shares = [math.exp(x) / total for x in logits]
                order = sorted(range(len(shares)), key=lambda i: -shares[i])
                entropy = -math.fsum(p * math.log(p) for p in shares)
                rows.append((order[0] == target, target in order[:5], max(shares), entropy))
    return np.array(rows, float).T


def test_predictions_equal_the_plain_loop(gpt2, corpus):
    expected = predict_plainly(gpt2, corpus)
    found = predict(gpt2, corpus)
    np.testing.assert_array_equal(found[:2], expected[:2])
    np.testing.assert_allclose(found[2:], expected[2:], rtol=1e-4, atol=1e-5)
    assert found.dtype == np.float32
    assert 0 < found[0].sum() < found[1].sum() < found.shape[1]


def test_the_batch_changes_nothing_and_the_labels_that_are_given_do(gpt2e, corpus):
    alone, together = (predict(gpt2e, corpus, stride=5, batch=batch) for batch in (1, 8))
    np.testing.assert_allclose(alone, together, rtol=1e-4, atol=1e-5)
    none = predict(gpt2e, labels.give(corpus, "none"), stride=5)
    assert abs(none[2:] - alone[2:]).max() > 1e-2


@pytest.mark.parametrize("kind", ["gpt2", "gpt2e", "lstm"])
def test_window_and_stride_do_not_matter_within_one_window(kind):
    model = lively_model(kind, VOCABULARY, window=24)
    corpus = labels.give(tiny_corpus(shortest=2, longest=12), "gold")
    whole = predict(model, corpus, window=24, stride=24)
    for window, stride in ((24, 1), (12, 12), (12, 5)):
        np.testing.assert_allclose(
            predict(model, corpus, window=window, stride=stride), whole, rtol=1e-4, atol=1e-5
        )


class Largest(TorchDispatchMode):
    """The most rows of logits that were there at once."""

    rows = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple | list) else [made]:
            if isinstance(tensor, torch.Tensor) and tensor.shape[-1:] == (VOCABULARY,):
                self.rows = max(self.rows, tensor.numel() // VOCABULARY)
        return made


def test_logits_are_made_in_chunks(gpt2):
    corpus = tiny_corpus(documents=80, shortest=20)
    with Largest() as largest:
        predict(gpt2, corpus, batch=80)
    assert largest.rows == CHUNK < 80 * WINDOW < len(corpus.tokens)


def test_a_split_without_tokens_has_no_means(gpt2, corpus):
    found = predict_corpus(gpt2, corpus.head(0), window=12, stride=12, batch=2)
    assert summarise_predictions(found) == {
        "tokens": 0,
        "top1_accuracy": None,
        "top5_accuracy": None,
        "calibration_error": None,
        "entropy": None,
    }


def test_the_table_holds_means_over_seeds(tmp_path):
    splits = {
        seed: {"tokens": 90, "top1_accuracy": 0.25 * seed, "top5_accuracy": 0.5 * seed}
        | {"calibration_error": 0.125 * seed, "entropy": 3.0 * seed}
        for seed in (1, 2)
    }
    for seed, scores in splits.items():
        folder = tmp_path / "calibration" / "gpt2" / str(seed)
        folder.mkdir(parents=True)
        (folder / "calibration.json").write_text(json.dumps({"splits": {"dev": scores}}))
    frame = collect(Tree(tmp_path, (("gpt2", 1), ("gpt2", 2))), ["calibration"])
    entries = tuple(tiny_entry(kind) for kind in ("gpt2", "gpt2e"))
    table = build_calibration(Results("x", entries, (1, 2), frame, ("calibration",)))
    head, row = (line.split(",") for line in render_csv(table).splitlines())
    found = dict(zip(head, row, strict=True))
    assert [found.pop(name) for name in ("Split", "Model", "Tokens")] == ["dev", "GPT2", "90"]
    means = {name: float(value) for name, value in found.items() if not name.endswith("std")}
    assert means == {"Top-1": 0.375, "Top-5": 0.75, "ECE": 0.1875, "Entropy": 4.5}
