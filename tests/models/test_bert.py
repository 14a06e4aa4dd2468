"""BERT against transformers' own loss and folder."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import SMALL, VOCABULARY, lively_model, tiny_corpus, tiny_entry, tiny_model
from torch import Tensor
from transformers import AutoModel, AutoModelForMaskedLM, BertForMaskedLM

from entity_transformers.corpus.windows import WindowPlan
from entity_transformers.kinds import KindError
from entity_transformers.models.base import IGNORED, Batch
from entity_transformers.models.bert import BERT
from entity_transformers.tasks.held_out import mean_objective
from entity_transformers.train.streams import show_window

WINDOW = SMALL["window"]


@pytest.fixture
def model() -> BERT:
    made = lively_model("bert")
    assert isinstance(made, BERT)
    return made


def reference(model: BERT, folder: Path) -> BertForMaskedLM:
    """What transformers reads of the saved folder, by its own choice of class."""
    model.save(folder)
    found = AutoModelForMaskedLM.from_pretrained(folder).eval()
    assert type(found) is BertForMaskedLM
    return found


def hidden_window(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Tokens of four rows with masks among them, and the targets there."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(1, VOCABULARY, (4, WINDOW), generator=generator)
    chosen = torch.rand(4, WINDOW, generator=generator) < 0.3
    return tokens.masked_fill(chosen, VOCABULARY), tokens.masked_fill(~chosen, IGNORED)


@torch.no_grad()
def test_a_window_is_read_as_transformers_reads_it(model: BERT, tmp_path: Path) -> None:
    tokens, _ = hidden_window()
    other = reference(model, tmp_path)
    bare = AutoModel.from_pretrained(tmp_path).eval()
    for part in (tokens, tokens[:, :5]):
        found, _ = model.encode(Batch(part), model.start(4))
        torch.testing.assert_close(found, other.bert(part).last_hidden_state, rtol=0, atol=1e-6)
        torch.testing.assert_close(found, bare(part).last_hidden_state, rtol=0, atol=1e-6)
        expected = other(part).logits.log_softmax(-1)
        wanted = part.clamp(max=VOCABULARY - 1)
        nats = -expected.gather(-1, wanted[..., None])[..., 0]
        torch.testing.assert_close(model.nats(found, wanted), nats, rtol=0, atol=1e-5)
        assert torch.equal(model.guess(found), expected.argmax(-1))
    assert model.nats(found, torch.full_like(part, IGNORED)).tolist() == [[0.0] * 5] * 4


def test_loss_and_gradients_are_those_of_transformers(model: BERT, tmp_path: Path) -> None:
    tokens, targets = hidden_window()
    other = reference(model, tmp_path)
    expected = other(tokens, labels=targets).loss
    expected.backward()
    summed, _ = model.sum_losses(Batch(tokens), targets, model.start(4), 0.3, tiny_entry("bert").lm)
    loss = summed / (targets != IGNORED).sum()
    loss.backward()
    assert loss.item() == pytest.approx(expected.item(), abs=1e-6)
    gradients = {name: p.grad for name, p in other.named_parameters()}
    for name, parameter in model.module.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-4, atol=1e-6)


@torch.no_grad()
def test_the_held_out_loss_is_that_of_transformers_window_by_window(
    model: BERT, tmp_path: Path
) -> None:
    """Windows of one row each, cut where documents meet."""
    other, params = reference(model, tmp_path), tiny_entry("bert").lm
    dev, total, count = tiny_corpus(5, seed=9, split="dev"), 0.0, 0
    streams = SMALL["documents_per_step"]
    windows = max(1, round((len(dev.tokens) - 5) / (streams * WINDOW)))
    plan = WindowPlan(dev, streams=streams, window=WINDOW, windows=windows, seed=0)
    for index in range(windows):
        window = show_window(model, plan, index, params, 0)
        for row in range(streams):
            starts = [*np.flatnonzero(window.positions[row] == 0), WINDOW]
            for start, end in pairwise(starts):
                tokens, targets = (
                    torch.from_numpy(array[row : row + 1, start:end])
                    for array in (window.tokens, window.targets)
                )
                if (targets != IGNORED).any():
                    number = int((targets != IGNORED).sum())
                    total += number * other(tokens, labels=targets).loss.item()
                    count += number
    assert mean_objective(model, dev, params) == pytest.approx(total / count, abs=1e-5)


def test_the_mask_is_a_row_of_its_own(model: BERT) -> None:
    config = model.module.config
    assert (model.mask, config.mask_token_id, config.vocab_size) == (40, 40, 41)
    assert config.pad_token_id is None
    embedded = model.module.bert.embeddings.word_embeddings.weight
    assert embedded.shape == (VOCABULARY + 1, SMALL["width"])
    assert model.module.cls.predictions.decoder.weight is embedded


@pytest.mark.parametrize(("layers", "width", "window"), [(1, 8, 4), (3, 16, 32)])
def test_parameters_are_as_many_as_the_formula_says(layers: int, width: int, window: int) -> None:
    """Embeddings of tokens, the mask, positions and two segments with their layer norm; a block has
    12 width² + 13 width; the head width² + 3 width and a bias per token.
    """
    model = tiny_model("bert", layers=layers, width=width, window=window)
    embeddings = (VOCABULARY + 1 + window + 2) * width + 2 * width
    head = width**2 + 3 * width + VOCABULARY + 1
    assert model.count_parameters() == embeddings + layers * (12 * width**2 + 13 * width) + head


def test_dropout_falls_where_transformers_has_it(tmp_path: Path) -> None:
    model, (tokens, targets) = tiny_model("bert", dropout=0.3), hidden_window()
    assert isinstance(model, BERT)
    other = reference(model, tmp_path).train()
    model.module.train()
    torch.manual_seed(5)
    summed, _ = model.sum_losses(Batch(tokens), targets, None, 0.3, tiny_entry("bert").lm)
    torch.manual_seed(5)
    expected = other(tokens, labels=targets).loss
    assert summed.item() / int((targets != IGNORED).sum()) == pytest.approx(expected.item())


def test_shares_of_more_than_all_are_refused() -> None:
    with pytest.raises(KindError, match=r"mask_share 0\.8 and random_share 0\.3 are more than 1"):
        tiny_entry("bert", random_share=0.3)
    for rate in (0, 1):
        with pytest.raises(KindError, match=r"models\.bert\.mask_rate: Input should be"):
            tiny_entry("bert", mask_rate=rate)
