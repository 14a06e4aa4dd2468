"""Next-sentence prediction: segments by a plain loop, its rates, and transformers' own loss."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import SMALL, VOCABULARY, lively_model, tiny_corpus, tiny_entry, tiny_model
from trainings import make_training, weights
from transformers import AutoModelForPreTraining, BertForPreTraining

from entity_transformers.corpus.windows import Window, WindowPlan
from entity_transformers.kinds import KindError
from entity_transformers.models.base import IGNORED, Batch
from entity_transformers.models.bert import BERT, load
from entity_transformers.models.next_sentence import IS_NEXT, IS_OTHER, pair_segments
from entity_transformers.tasks.held_out import mean_objective
from entity_transformers.train.streams import show_window

WINDOW, END = 12, 0


def plan_of(streams: int, windows: int = 30, longest: int = 30) -> WindowPlan:
    corpus = tiny_corpus(9, shortest=2, longest=longest)
    return WindowPlan(corpus, streams=streams, window=WINDOW, windows=windows, seed=1)


def pair(window: Window, seed: int = 0) -> Window:
    return pair_segments(window, END, np.random.default_rng(seed))


def find_pieces(begins: np.ndarray) -> list[range]:
    """The documents of a row, by their columns."""
    starts = sorted({0, *np.flatnonzero(begins).tolist()})
    return [range(a, b) for a, b in zip(starts, [*starts[1:], WINDOW], strict=True)]


@pytest.mark.parametrize("streams", [2, 3, 8])
def test_segments_are_those_of_a_plain_loop(streams: int) -> None:
    plan, kinds, half = plan_of(streams), set(), WINDOW // 2
    # each token tells where it stood
    tokens_of = np.arange(streams)[:, None] * WINDOW + np.arange(WINDOW) + 1
    for index in range(30):
        window = replace(plan[index], tokens=tokens_of)
        found = pair(window, index)
        for row in range(streams):
            left = found.tokens[row, half:]
            (source,) = {(token - 1) // WINDOW for token in left.tolist() if token != END}
            begins = np.concatenate([window.begins[row, :half], window.begins[source, half:]])
            tokens = np.concatenate([window.tokens[row, :half], window.tokens[source, half:]])
            expected, segments, answer = tokens.copy(), np.zeros(WINDOW, int), IGNORED
            positions = np.zeros(WINDOW, int)
            special = begins.copy()
            for piece in find_pieces(begins):
                positions[piece.start : piece.stop] = range(len(piece))
                a, b = half - piece.start, piece.stop - half
                if piece.start < half < piece.stop and a >= 3 and b >= 2:
                    places = [piece.start, half - 1, piece.stop - 1]
                    expected[places], special[places] = END, True
                    segments[half : piece.stop] = 1
                    answer = IS_NEXT if source == row else IS_OTHER
                    assert found.more["first"][row] == piece.start
            kinds.add(answer)
            assert found.tokens[row].tolist() == expected.tolist()
            assert found.positions[row].tolist() == positions.tolist()
            assert found.begins[row].tolist() == special.tolist()
            assert found.more["segments"][row].tolist() == segments.tolist()
            assert found.more["next"][row] == answer
    assert kinds == {IS_NEXT, IS_OTHER, IGNORED}


@pytest.mark.parametrize("streams", [2, 8])
def test_half_of_the_pairs_are_of_other_text(streams: int) -> None:
    plan = plan_of(streams, 1, longest=200)
    answers = np.concatenate([pair(plan[0], seed).more["next"] for seed in range(4000)])
    answers = answers[answers != IGNORED]
    # two rows exchange together: half as many draws as rows
    error = math.sqrt(0.25 / (len(answers) / 2))
    assert abs((answers == IS_OTHER).mean() - 0.5) < 5 * error


def test_no_text_is_lost_but_where_special_tokens_stand() -> None:
    for index, window in enumerate(map(plan_of(8).__getitem__, range(20))):
        found = pair(window, index)
        before, after = (
            np.bincount(w.tokens.ravel(), minlength=VOCABULARY) for w in (window, found)
        )
        pairs = (found.more["next"] != IGNORED).sum()
        assert (after[1:] <= before[1:]).all()
        assert (before[1:] - after[1:]).sum() <= 3 * pairs


def next_bert(**changes: Any) -> BERT:
    made = lively_model("bert", next_sentence=True, window=WINDOW, **changes)
    assert isinstance(made, BERT)
    return made


def test_loss_and_gradients_are_those_of_transformers(tmp_path: Path) -> None:
    """Windows of one document: transformers' [CLS] is the first column."""
    model = next_bert()
    params = tiny_entry("bert", next_sentence=True, window=WINDOW).lm
    corpus = tiny_corpus(9, shortest=60, longest=61)
    plan = WindowPlan(corpus, streams=8, window=WINDOW, windows=3, seed=1)
    window = show_window(model, plan, 1, params, 3)
    answers = window.more["next"]
    assert set(answers.tolist()) == {IS_NEXT, IS_OTHER}
    assert not window.more["first"].any()
    model.save(tmp_path)
    other = AutoModelForPreTraining.from_pretrained(tmp_path).eval()
    assert type(other) is BertForPreTraining
    tokens, targets = torch.from_numpy(window.tokens), torch.from_numpy(window.targets)
    more = {name: torch.from_numpy(array) for name, array in window.more.items()}
    expected = other(
        tokens,
        token_type_ids=more["segments"],
        labels=targets,
        next_sentence_label=more["next"],
    ).loss
    expected.backward()
    summed, _ = model.sum_losses(Batch(tokens, more=more), targets, None, 0.15, params)
    loss = summed / (targets != IGNORED).sum()
    loss.backward()
    assert loss.item() == pytest.approx(expected.item(), abs=1e-6)
    gradients = {name: p.grad for name, p in other.named_parameters()}
    for name, parameter in model.module.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-4, atol=1e-6)


def test_a_saved_model_comes_back_with_what_tells_the_next(tmp_path: Path) -> None:
    model = next_bert()
    model.save(tmp_path)
    again = load(tmp_path).eval()
    assert (again.objective, again.tells_next) == ("masked-next", True)
    params = tiny_entry("bert", next_sentence=True, window=WINDOW).lm
    dev = tiny_corpus(4, seed=9, split="dev")
    assert mean_objective(again, dev, params) == mean_objective(model, dev, params)
    plain = tiny_model("bert", window=WINDOW)
    assert (plain.objective, plain.tells_next) == ("masked", False)
    width = SMALL["width"]
    extra = width**2 + width + 2 * width + 2
    assert model.count_parameters() == plain.count_parameters() + extra
    with pytest.raises(ValueError, match=r"bert\.pooler\.dense\.bias is too many"):
        tiny_model("bert", window=WINDOW, initial_weights=str(tmp_path))


def test_windows_without_a_pair_have_no_answer(tmp_path: Path) -> None:
    """Documents of three tokens."""
    training = make_training(
        tmp_path, "bert", next_sentence=True, corpus=tiny_corpus(9, shortest=4, longest=5),
        window=6, documents_per_step=4,
    )  # fmt: skip
    window = training.window(0)
    assert (window.more["next"] == IGNORED).all()
    training.train_step()
    assert math.isfinite(training.streams.accumulate_gradients([window]))


def test_accumulation_and_resuming(tmp_path: Path) -> None:
    how: dict[str, Any] = {
        "kind": "bert", "next_sentence": True, "documents_per_step": 4, "steps": 8,
        "checkpoint_every": 3,
    }  # fmt: skip
    runs = {}
    for name, changes in {"one": {}, "two": {"accumulation": 2}}.items():
        training = make_training(tmp_path / name, dropout=0.0, **how, **changes)
        training.run()
        runs[name] = weights(training)
    torch.testing.assert_close(runs["one"], runs["two"], rtol=0, atol=1e-4)
    whole = make_training(tmp_path / "whole", **how)
    whole.run()
    begun = make_training(tmp_path / "parts", **how)
    for _ in range(5):
        begun.train_step()
        begun._after_step()
    resumed = make_training(tmp_path / "parts", **how)
    assert resumed.progress.step == 3
    resumed.run()
    assert torch.equal(weights(whole), weights(resumed))


def test_one_stream_has_no_other_text() -> None:
    with pytest.raises(KindError, match=r"next_sentence takes other second halves from other"):
        tiny_entry("bert", next_sentence=True, documents_per_step=1)
