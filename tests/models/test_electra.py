"""ELECTRA against transformers' two models with the same tokens put in; sampling; its folder."""

import math
from pathlib import Path

import pytest
import tiny
import torch
from tiny import lively_model, tiny_entry
from torch import Tensor
from transformers import AutoModel, AutoModelForPreTraining, ElectraForMaskedLM
from transformers import ElectraForPreTraining as Discriminator

from entity_transformers.artifacts import read_json
from entity_transformers.models.base import IGNORED, Batch
from entity_transformers.models.electra import ELECTRA, sample, shrink


@pytest.fixture
def model() -> ELECTRA:
    return lively_model("electra")


def two_models(model: ELECTRA, folder: Path) -> tuple[ElectraForMaskedLM, Discriminator]:
    """Generator and discriminator as transformers has them, with weights of their own."""
    model.save(folder)
    discriminator = AutoModelForPreTraining.from_pretrained(folder).eval()
    assert type(discriminator) is Discriminator
    generator = ElectraForMaskedLM(shrink(model.module.config)).eval()
    found = model.module.generator.state_dict()
    assert not generator.load_state_dict(found, strict=True).missing_keys
    return generator, discriminator


def hidden_window() -> tuple[Batch, Tensor]:
    """64 rows with masks in them and the points to sample at, and the targets."""
    tokens, targets = tiny.hidden_window(64, 0.4)
    points = torch.rand(tokens.shape, generator=torch.Generator().manual_seed(1))
    return Batch(tokens, more={"points": points}), targets


@pytest.mark.parametrize("weight", [50.0, 3.0, 0.0])
def test_loss_and_gradients_are_those_of_transformers_two_models(model, weight, tmp_path):
    batch, targets = hidden_window()
    chosen = targets != IGNORED
    generator, discriminator = two_models(model, tmp_path)
    answer = generator(batch.tokens, labels=targets)
    sampled = sample(answer.logits[chosen], batch.more["points"][chosen])
    filled = batch.tokens.masked_scatter(chosen, sampled)
    original = torch.where(chosen, targets, batch.tokens)
    assert 0 < (filled != original).sum() < chosen.sum()  # some guesses are right
    told = discriminator(filled, labels=(filled != original).long())
    expected = answer.loss + weight * told.loss
    expected.backward()

    params = tiny_entry("electra", discriminator_weight=weight).lm
    share = chosen.sum().item() / chosen.numel()
    summed, _ = model.sum_losses(batch, targets, None, share, params)
    loss = summed / chosen.sum()
    loss.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)

    wanted = {name: p.grad for name, p in discriminator.named_parameters()}
    for name, parameter in generator.named_parameters():
        if name in wanted and "embeddings." in name:
            wanted[name] = wanted[name] + parameter.grad  # shared here, apart there
        else:
            wanted[f"generator.{name}"] = parameter.grad
    found = {name: p.grad for name, p in model.module.named_parameters()}
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=2e-6)


def test_tokens_are_sampled_as_often_as_they_are_likely() -> None:
    """200,000 draws from one distribution, each token within five standard errors."""
    count = 200_000
    probabilities = torch.tensor([0.5, 0.25, 0.0, 0.125, 0.1, 0.025])
    points = torch.rand(count, generator=torch.Generator().manual_seed(1))
    found = sample(probabilities.log().expand(count, -1), points)
    assert found.dtype == torch.int64
    shares = torch.bincount(found, minlength=6) / count
    assert shares[2] == 0
    for share, expected in zip(shares.tolist(), probabilities.tolist(), strict=True):
        assert abs(share - expected) <= 5 * math.sqrt(expected * (1 - expected) / count)


def test_points_at_the_ends_give_a_token() -> None:
    logits = torch.randn(2, 1000, generator=torch.Generator().manual_seed(1))
    logits[:, 0] = -math.inf
    assert sample(logits, torch.tensor([0.0, 1 - 2**-24])).tolist() == [1, 999]


def test_transformers_reads_the_folder_as_a_discriminator(model: ELECTRA, tmp_path: Path) -> None:
    batch, _ = hidden_window()
    _, discriminator = two_models(model, tmp_path)
    assert read_json(tmp_path / "config.json")["architectures"] == ["ElectraForPreTraining"]
    bare = AutoModel.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        hidden, _ = model.encode(batch, None)
        torch.testing.assert_close(bare(batch.tokens).last_hidden_state, hidden, rtol=0, atol=1e-6)
        found, expected = model.discriminate(batch), discriminator(batch.tokens).logits
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_the_generator_comes_back_with_the_folder(model, tmp_path, caplog):
    batch, targets = hidden_window()
    model.save(tmp_path)
    again = ELECTRA.load(tmp_path)
    assert not caplog.records  # transformers misses nothing there
    given = batch, targets, None, 0.4, tiny_entry("electra").lm
    assert torch.equal(*(one.sum_losses(*given)[0] for one in (model, again.eval())))
    assert again.count_parameters() == model.count_parameters()
