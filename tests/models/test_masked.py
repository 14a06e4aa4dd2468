"""What BERT and ELECTRA share: the tokens that are hidden against their rates, whom a token sees,
windows with several documents, padding, draws, resuming, the held-out loss.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from compiling import needs_compiler
from hypothesis import given
from hypothesis import strategies as st
from tiny import SMALL, VOCABULARY, lively_model, tiny_corpus, tiny_entry, tiny_model
from torch import Tensor
from trainings import assert_close, gradients, make_training, weights

from entity_transformers.corpus.windows import WindowPlan
from entity_transformers.kinds import KindError
from entity_transformers.models.base import IGNORED, Batch, LanguageModel
from entity_transformers.models.masked import choose, corrupt, pick, see
from entity_transformers.tasks.held_out import mean_objective, measure_held_out
from entity_transformers.tasks.perplexity import mean_loss
from entity_transformers.train.loop import Training
from entity_transformers.train.streams import show_window

KINDS = ["bert", "electra"]
WINDOW = SMALL["window"]
LENGTHS = [[3, 5], [8], [1, 1, 6], [2, 4, 2]]
both = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def tokens() -> Tensor:
    return torch.randint(VOCABULARY, (4, WINDOW), generator=torch.Generator().manual_seed(1))


def read(model: LanguageModel, batch: Batch) -> Tensor:
    with torch.no_grad():
        return model.encode(batch, model.start(len(batch.tokens)))[0]


def draw(rate: float = 0.15, rows: int = 400, width: int = 64, seed: int = 0) -> Any:
    """Tokens, which of them are text (all but about a tenth) and which are chosen."""
    generator = np.random.default_rng(seed)
    tokens = generator.integers(0, VOCABULARY, (rows, width))
    text = generator.random((rows, width)) > 0.1
    return tokens, text, choose(text, rate, generator)


@pytest.mark.parametrize("rate", [0.01, 0.15, 0.5, 0.99])
def test_of_each_row_s_text_the_rate_is_chosen(rate: float) -> None:
    _, text, chosen = draw(rate)
    count = text.sum(1)
    assert chosen.sum(1).tolist() == [max(1, round(rate * n)) for n in count.tolist()]
    assert not chosen[~text].any()


def test_a_row_of_little_text_or_none_has_what_there_is() -> None:
    text = np.zeros((3, 20), bool)
    text[1, 4] = text[2, [3, 9]] = True
    chosen = choose(text, 0.99, np.random.default_rng(0))
    assert chosen.tolist() == text.tolist()


def test_every_place_is_chosen_as_often_as_another() -> None:
    """Of 20 places 3, 20,000 times: each within five standard errors of 0.15, each pair of
    neighbours of 3/20 2/19.
    """
    rows = 20_000
    chosen = choose(np.ones((rows, 20), bool), 0.15, np.random.default_rng(3))
    pairs = chosen & np.roll(chosen, 1, axis=1)
    for found, share in ((chosen, 0.15), (pairs, 3 / 20 * 2 / 19)):
        error = math.sqrt(share * (1 - share) / rows)
        assert abs(found.mean(0) - share).max() < 5 * error


def test_what_stands_in_the_place_of_chosen_tokens() -> None:
    """Masks, random tokens and tokens left alone within five standard errors of their shares; each
    text token is as often put in as another, the end and the mask never.
    """
    end, shares = 7, (0.8, 0.1)
    tokens, _, chosen = draw(0.5, rows=4000)
    tokens = np.where(tokens == end, end + 1, tokens)
    generator = np.random.default_rng(5)
    shown = corrupt(tokens, chosen, mask=VOCABULARY, shares=shares, generator=generator, end=end)
    assert np.array_equal(shown[~chosen], tokens[~chosen])
    was, now = tokens[chosen], shown[chosen]
    masked, other = now == VOCABULARY, (now != VOCABULARY) & (now != was)
    others = VOCABULARY - 1
    # a random token is the token itself once in so many times
    expected = (0.8, 0.1 * (1 - 1 / others), 0.1 + 0.1 / others)
    for found, share in zip((masked, other, now == was), expected, strict=True):
        assert abs(found.mean() - share) < 5 * math.sqrt(share * (1 - share) / len(was))
    counts = np.bincount(now[other], minlength=VOCABULARY)
    assert counts[end] == 0
    mean = counts.sum() / others
    assert abs(np.delete(counts, end) - mean).max() < 5 * math.sqrt(mean)


@given(st.integers(1, 6), st.integers(0, 5), st.data())
def test_a_token_sees_its_document_and_no_padding(rows: int, more: int, data: Any) -> None:
    length = data.draw(st.integers(1, 6))
    lengths = data.draw(st.lists(st.integers(1, length + more), min_size=rows, max_size=rows))
    window = length + more
    tokens = torch.zeros(rows, window, dtype=torch.int64)
    begins = torch.tensor(
        data.draw(
            st.lists(
                st.lists(st.booleans(), min_size=window, max_size=window),
                min_size=rows,
                max_size=rows,
            )
        )
    )
    begins[:, 0] = True
    places = torch.arange(window)
    positions = places - torch.where(begins, places, 0).cummax(1).values
    found = see(Batch(tokens, positions=positions, lengths=torch.tensor(lengths)))
    assert found is not None
    for row in range(rows):
        documents = begins[row].cumsum(0).tolist()
        for i in range(window):
            for j in range(window):
                expected = documents[i] == documents[j] and j < lengths[row]
                assert bool(found[row, 0, i, j]) == expected
    assert see(Batch(tokens)) is None


def test_where_something_is_predicted() -> None:
    targets = torch.tensor([[IGNORED, 4, 0], [IGNORED, IGNORED, 2]])
    assert pick(targets).tolist() == [1, 2, 5]


@both
def test_each_document_of_a_window_is_read_as_if_it_were_alone(kind: str, tokens: Tensor) -> None:
    model = lively_model(kind)
    model.module.double()
    positions = torch.tensor([[i for n in row for i in range(n)] for row in LENGTHS])
    packed = read(model, Batch(tokens, positions=positions))
    assert not torch.allclose(packed, read(model, Batch(tokens)), atol=1e-2)
    for row, lengths in enumerate(LENGTHS):
        start = 0
        for length in lengths:
            part = slice(start, start + length)
            alone = read(model, Batch(tokens[row : row + 1, part]))
            torch.testing.assert_close(packed[row : row + 1, part], alone, rtol=0, atol=1e-12)
            start += length


@both
def test_another_document_of_the_window_changes_nothing(kind: str, tokens: Tensor) -> None:
    model = lively_model(kind)
    positions = torch.tensor([[0, 1, 2, 0, 1, 2, 3, 4]]).expand(4, -1)
    changed = tokens.clone()
    changed[:, 1] = (changed[:, 1] + 1) % VOCABULARY
    one, other = (read(model, Batch(t, positions=positions)) for t in (tokens, changed))
    assert torch.equal(one[:, 3:], other[:, 3:])
    assert not torch.allclose(one[:, 0], other[:, 0], atol=1e-3)  # from right to left
    assert not torch.allclose(one[:, 2], other[:, 2], atol=1e-3)  # and from left to right


@both
def test_no_gradient_passes_between_documents(kind: str) -> None:
    model = lively_model(kind)
    positions = torch.tensor([[0, 1, 2, 0, 1, 2, 3, 4]])
    hidden, _ = model.encode(Batch(torch.arange(8)[None], positions=positions), model.start(1))
    hidden[:, 3:].square().sum().backward()
    encoder = model.module.bert if kind == "bert" else model.module.electra
    reached = encoder.embeddings.word_embeddings.weight.grad.abs().sum(1) > 0
    assert reached.tolist() == [False] * 3 + [True] * 5 + [False] * (VOCABULARY - 7)


@both
def test_padding_changes_nothing(kind: str, tokens: Tensor) -> None:
    model, lengths = lively_model(kind), torch.tensor([3, 8, 1, 5])
    found = read(model, Batch(tokens, lengths=lengths))
    other = tokens.clone()
    for row, length in enumerate(lengths.tolist()):
        other[row, length:] = 9
        alone = read(model, Batch(tokens[row : row + 1, :length]))
        torch.testing.assert_close(found[row, :length], alone[0], rtol=0, atol=1e-5)
    changed = read(model, Batch(other, lengths=lengths))
    for row, length in enumerate(lengths.tolist()):
        assert torch.equal(changed[row, :length], found[row, :length])


@both
def test_draws_are_of_corpus_seed_and_step_alone(kind: str) -> None:
    entry, model = tiny_entry(kind), tiny_model(kind)
    corpus = tiny_corpus()
    plan = WindowPlan(corpus, streams=3, window=WINDOW, windows=6, seed=2)
    one, again, later, seeded = (
        show_window(model, plan, index, entry.lm, seed)
        for index, seed in ((0, 2), (0, 2), (1, 2), (0, 3))
    )
    plain = plan[0]
    for name in ("tokens", "targets"):
        assert np.array_equal(getattr(one, name), getattr(again, name))
    hidden = one.targets != IGNORED
    assert not np.array_equal(hidden, later.targets != IGNORED)
    assert not np.array_equal(hidden, seeded.targets != IGNORED)
    assert np.array_equal(one.targets[hidden], plain.tokens[hidden])
    assert np.array_equal(one.tokens[~hidden], plain.tokens[~hidden])
    for window in (show_window(model, plan, index, entry.lm, 2) for index in range(6)):
        assert not (window.targets == 0).any()  # <|endoftext|>
        assert (window.tokens[window.begins] == 0).all()
        assert window.tokens.max() == VOCABULARY  # the mask
        assert window.targets.max() < VOCABULARY


def train(folder: Path, kind: str, **changes: Any) -> Training:
    training = make_training(folder, kind, **changes)
    while training.progress.step < training.params.steps:
        training.train_step()
        training._after_step()
    return training


@both
@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_resumed_run_ends_in_the_same_bytes(kind: str, accumulation: int, tmp_path: Path) -> None:
    how: dict[str, Any] = {"accumulation": accumulation, "checkpoint_every": 7}
    whole = train(tmp_path / "whole", kind, **how)
    first = make_training(tmp_path / "parts", kind, **how)
    for _ in range(9):  # two steps more than the checkpoint has
        first.train_step()
        first._after_step()
    resumed = make_training(tmp_path / "parts", kind, **how)
    assert resumed.progress.step == 7
    resumed = train(tmp_path / "parts", kind, **how)
    assert torch.equal(weights(whole), weights(resumed))
    curves = [(tmp_path / name / "curve.csv").read_bytes() for name in ("whole", "parts")]
    assert curves[0] == curves[1]


@both
@pytest.mark.parametrize("changes", [{}, {"memory_gradient_windows": 1}], ids=str)
def test_accumulation_gives_the_gradients_of_one_pass(
    kind: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    how: dict[str, Any] = {"documents_per_step": 4, "dropout": 0.0, **changes}
    one, two = (
        gradients(make_training(tmp_path / str(n), kind, accumulation=n, **how)) for n in (1, 2)
    )
    assert_close(one, two, 2e-5 if kind == "electra" else 1e-6)


@both
@pytest.mark.parametrize("changes", [{}, {"memory_gradient_windows": 1}], ids=str)
def test_recomputed_blocks_give_the_same_gradients(
    kind: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    plain, again = (
        gradients(make_training(tmp_path / str(on), kind, gradient_checkpointing=on, **changes))
        for on in (False, True)
    )
    assert_close(again, plain, 1e-6)


@both
def test_the_held_out_loss_is_the_same_whenever_it_is_asked_for(kind: str) -> None:
    model, dev = lively_model(kind), tiny_corpus(5, seed=9, split="dev")
    params = tiny_entry(kind).lm
    before = torch.get_rng_state()
    first = measure_held_out(model, dev, params)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(77)
    assert measure_held_out(model, dev, params) == first == mean_objective(model, dev, params)
    assert mean_objective(model, dev.head(0), params) == 0.0


def test_the_held_out_loss_of_a_causal_kind_is_that_of_all_its_tokens() -> None:
    model, dev = lively_model("gpt2"), tiny_corpus(5, seed=9, split="dev")
    expected = mean_loss(model, dev, window=WINDOW)
    assert measure_held_out(model, dev, tiny_entry("gpt2").lm) == expected


@both
def test_training_lowers_the_held_out_loss(kind: str, tmp_path: Path) -> None:
    """Each document repeats one token: what is hidden can be read off its neighbours."""
    corpora = []
    for seed, split in ((0, "train"), (9, "dev")):
        corpus = tiny_corpus(12, seed=seed, split=split)
        names = np.repeat(np.arange(12) % 5 + 1, np.diff(corpus.offsets)).astype(np.int32)
        names[corpus.offsets[:-1]] = 0
        corpora.append(replace(corpus, tokens=names))
    steps = 150 if kind == "bert" else 300
    training = make_training(
        tmp_path, kind, corpus=corpora[0], steps=steps, learning_rate=5e-3, documents_per_step=8,
        dropout=0.0, validate_every=steps, width=32, heads=4, window=16,
    )  # fmt: skip
    before = measure_held_out(training.model.eval(), corpora[1], training.params)
    for _ in range(steps):
        training.train_step()
    after = measure_held_out(training.model.eval(), corpora[1], training.params)
    assert after < before / 4


@pytest.mark.slow
@needs_compiler
@both
def test_a_compiled_model_trains_as_the_plain_one(kind: str, tmp_path: Path) -> None:
    how: dict[str, Any] = {"kind": kind, "dropout": 0.0, "layers": 1}
    plain, compiled = (
        make_training(tmp_path / mode, compile=mode, **how) for mode in ("off", "default")
    )
    assert_close(gradients(compiled), gradients(plain), 1e-5)
    for training in (plain, compiled):
        for _ in range(6):
            training.train_step()
    torch.testing.assert_close(weights(compiled), weights(plain), rtol=0, atol=1e-4)


@both
def test_another_kernel_is_refused(kind: str) -> None:
    with pytest.raises(KindError, match=r"attention flex is not to be had with a kind that sees"):
        tiny_entry(kind, attention="flex", dropout=0.0)


@both
def test_a_folder_of_another_model_is_refused(kind: str, tmp_path: Path) -> None:
    tiny_model("gpt2").save(tmp_path)
    with pytest.raises(ValueError, match=rf"type 'gpt2', expected '{kind}': name another"):
        tiny_model(kind, initial_weights=str(tmp_path))
