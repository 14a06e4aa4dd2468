"""BERT against transformers' loss, and what it shares with ELECTRA: hidden tokens, draws."""

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.torch import load_file
from tiny import SMALL, VOCABULARY, lively_model, tiny_corpus, tiny_entry
from trainings import make_training
from transformers import AutoModelForMaskedLM, BertForMaskedLM
from transformers.data.data_collator import DataCollatorForLanguageModeling

from entity_transformers import add_entity_attention
from entity_transformers.corpus.labels import give
from entity_transformers.corpus.windows import WindowPlan
from entity_transformers.models.base import IGNORED, Batch, LanguageModel
from entity_transformers.models.bert import choose, choose_words, corrupt, see
from entity_transformers.tasks.perplexity import mean_loss
from entity_transformers.train.entry import measure_held_out
from entity_transformers.train.loop import mean_objective, show_window

WINDOW, DEV = SMALL["window"], tiny_corpus(5, seed=9, split="dev")
both = pytest.mark.parametrize("kind", ["bert", "electra"])


@pytest.mark.parametrize("rate", [0.01, 0.15, 0.5, 0.99])
def test_of_each_row_s_text_the_rate_is_chosen(rate: float) -> None:
    """About a tenth of each row is no text; some rows have little, and one has none."""
    generator = np.random.default_rng(0)
    text = generator.random((400, 64)) > 0.1
    text[:3] = False
    text[1, 4] = text[2, [3, 9]] = True
    chosen = choose(text, rate, generator)
    count = text.sum(1).tolist()
    assert chosen.sum(1).tolist() == [min(n, max(1, round(rate * n))) for n in count]
    assert not chosen[~text].any()


def test_every_place_is_chosen_as_often_as_another() -> None:
    """3 of 20 places, 20,000 times: within five standard errors, neighbours too."""
    rows = 20_000
    chosen = choose(np.ones((rows, 20), bool), 0.15, np.random.default_rng(3))
    pairs = chosen & np.roll(chosen, 1, axis=1)
    for found, share in ((chosen, 0.15), (pairs, 3 / 20 * 2 / 19)):
        error = math.sqrt(share * (1 - share) / rows)
        assert abs(found.mean(0) - share).max() < 5 * error


def test_whole_words_are_chosen() -> None:
    """transformers' collator, which completes words, has nothing to complete; of each row's text no
    more than the rate is chosen, and less by less than a word; short words are chosen as often as
    each other.
    """
    generator = np.random.default_rng(2)
    rows, width = 4000, 40
    words = np.sort(generator.integers(0, 16, (rows, width)), 1)
    words[:, 20:] = np.sort(generator.integers(0, 16, (rows, 20)), 1)  # a second document
    text = np.ones((rows, width), bool)
    text[:, 20] = False
    chosen = choose_words(text, words, 0.25, generator)
    numbers = np.where(text, words + 100 * (np.arange(width) >= 20), -1)
    completed = DataCollatorForLanguageModeling._whole_word_mask(numbers, chosen)
    assert np.array_equal(completed, chosen)
    wanted, longest = round(0.25 * (width - 1)), 5
    assert chosen.sum(1).max() == wanted
    assert chosen[:, :20].sum(1).min() == 0
    assert (wanted - chosen.sum(1) < longest).mean() > 0.999
    single = np.tile(np.arange(width), (rows, 1))
    found = choose_words(text, single, 0.25, generator)
    assert (found.sum(1) == wanted).all()
    share = wanted / (width - 1)
    error = math.sqrt(share * (1 - share) / rows)
    assert abs(np.delete(found.mean(0), 20) - share).max() < 5 * error


@pytest.mark.parametrize("kind", ["bert", "electra"])
def test_a_model_hides_whole_words_where_it_is_told(kind: str) -> None:
    entry, corpus = tiny_entry(kind, whole_words=True, mask_rate=0.5), tiny_corpus()
    corpus = replace(corpus, words=corpus.words // 2)  # words of two tokens
    window = WindowPlan(corpus, streams=2, window=WINDOW, windows=3, seed=2)[0]
    shown = tiny.tiny_model(kind).draw(window, entry.lm, np.random.default_rng(0))
    hidden = shown.targets != IGNORED
    assert hidden.any()
    same = window.words[:, 1:] == window.words[:, :-1]
    same &= ~window.begins[:, 1:] & ~window.begins[:, :-1]
    assert same.any()
    assert (hidden[:, 1:] == hidden[:, :-1])[same].all()


def test_what_stands_in_the_place_of_chosen_tokens() -> None:
    """Masks, random and left tokens have their shares, within five standard errors."""
    end, shares, generator = 7, (0.8, 0.1), np.random.default_rng(5)
    tokens = generator.integers(0, VOCABULARY, (4000, 64))
    tokens[tokens == end] += 1
    chosen = generator.random(tokens.shape) < 0.5
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
    begins = torch.from_numpy(data.draw(arrays(bool, (rows, window))))
    begins[:, 0] = True
    places = torch.arange(window)
    positions = places - torch.where(begins, places, 0).cummax(1).values
    found = see(Batch(tokens, positions=positions, lengths=torch.tensor(lengths)))
    assert found is not None
    for row, length in enumerate(lengths):
        documents = begins[row].cumsum(0)
        expected = (documents[:, None] == documents) & (places < length)
        assert torch.equal(found[row, 0], expected)
    assert see(Batch(tokens)) is None


@both
def test_draws_are_of_corpus_seed_and_step_alone(kind: str) -> None:
    entry, model = tiny_entry(kind), tiny.tiny_model(kind)
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


@both
def test_the_held_out_loss_is_the_same_whenever_it_is_asked_for(kind: str) -> None:
    model, params = lively_model(kind), tiny_entry(kind).lm
    before = torch.get_rng_state()
    first = measure_held_out(model, DEV, params)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(77)
    assert measure_held_out(model, DEV, params) == first == mean_objective(model, DEV, params)
    assert mean_objective(model, DEV.head(0), params) == 0.0


def test_the_held_out_loss_of_a_causal_kind_is_that_of_all_its_tokens() -> None:
    model = lively_model("gpt2")
    expected = mean_loss(model, DEV, window=WINDOW)
    assert measure_held_out(model, DEV, tiny_entry("gpt2").lm) == expected


def reference(model: LanguageModel, folder: Path) -> BertForMaskedLM:
    """What transformers reads of the saved folder."""
    model.save(folder)
    return AutoModelForMaskedLM.from_pretrained(folder).eval()


def test_loss_and_gradients_are_those_of_transformers(tmp_path: Path) -> None:
    model = lively_model("bert")
    tokens, targets = tiny.hidden_window(4, 0.3)
    other = reference(model, tmp_path)
    expected = other(tokens, labels=targets).loss
    expected.backward()
    summed, _ = model.sum_losses(Batch(tokens), targets, model.start(4), 0.3, tiny_entry("bert").lm)
    loss = summed / (targets != IGNORED).sum()
    loss.backward()
    assert loss.item() == pytest.approx(expected.item(), abs=1e-6)
    pair = ({n: p.grad for n, p in m.named_parameters()} for m in (model.module, other))
    torch.testing.assert_close(*pair, rtol=1e-4, atol=1e-6)


@torch.no_grad()
def test_the_held_out_loss_is_that_of_transformers_window_by_window(tmp_path: Path) -> None:
    """Windows of one row each, cut where documents meet."""
    model = lively_model("bert")
    other, params = reference(model, tmp_path), tiny_entry("bert").lm
    total, count, streams = 0.0, 0, SMALL["documents_per_step"]
    windows = max(1, round((len(DEV.tokens) - 5) / (streams * WINDOW)))
    plan = WindowPlan(DEV, streams=streams, window=WINDOW, windows=windows, seed=0)
    for index in range(windows):
        window = show_window(model, plan, index, params, 0)
        for row in range(streams):
            starts = [*np.flatnonzero(window.positions[row] == 0), WINDOW]
            for start, end in pairwise(starts):
                both = torch.from_numpy(np.stack([window.tokens, window.targets]))
                tokens, targets = both[:, row : row + 1, start:end]
                if number := int((targets != IGNORED).sum()):
                    total += number * other(tokens, labels=targets).loss.item()
                    count += number
    assert mean_objective(model, DEV, params) == pytest.approx(total / count, abs=1e-5)


@torch.no_grad()
def test_transformers_bert_through_the_adapter_reads_the_folder(tmp_path: Path) -> None:
    model = lively_model("berte")
    plain = reference(model, tmp_path)
    assert type(plain) is BertForMaskedLM
    other = add_entity_attention(plain, gate="none").eval()
    missing = other.load_state_dict(load_file(tmp_path / "model.safetensors"), strict=False)
    assert not missing.unexpected_keys
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(1, VOCABULARY + 1, (4, WINDOW), generator=generator)
    labels = torch.randint(0, 4, (4, WINDOW), generator=generator)
    batch, memory = Batch(tokens, labels), tiny.random_memory(4, 3, SMALL["width"])
    found, written = model.encode(batch, memory)
    hidden = other.bert(batch.tokens, entity_ids=batch.entity_ids, memory=memory).last_hidden_state
    torch.testing.assert_close(found, hidden, rtol=0, atol=1e-5)
    assert torch.equal(written.states, memory.write(batch.entity_ids, found).states)


def test_the_held_out_loss_is_with_the_labels_that_are_given() -> None:
    model, params = lively_model("berte"), tiny_entry("berte").lm
    on, off, again = (
        measure_held_out(model, give(DEV, layer), params) for layer in ("gold", "none", "gold")
    )
    assert abs(on - off) > 0.01
    assert again == on


@pytest.mark.parametrize("kind", ["gpt2", "bert", "xlnet"])
def test_training_counts_the_tokens_that_it_predicts(kind: str, tmp_path: Path) -> None:
    training = make_training(tmp_path, kind, documents_per_step=4)
    drawn = training.next_windows()
    training.train_step()
    predicted = sum(int((window.targets >= 0).sum()) for window in drawn)
    assert training.progress.predicted == predicted
    assert (predicted == training.progress.tokens) == (kind == "gpt2")
