"""The guided head against transformers' own attention weights, and what it learns."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import SMALL, VOCABULARY, lively_model, tiny_model
from torch import Tensor
from trainings import make_training, weights

from entity_transformers.models.base import Batch
from entity_transformers.models.gpt2_antecedent import antecedent_losses, score_head

WINDOW = SMALL["window"]
KIND = "gpt2-antecedent"
LABELS = torch.tensor([[1, 1, 0, 1, 2, 2, 1, 2], [0, 3, 0, 3, 0, 3, 3, 0], [0] * 8])
TOKENS = torch.randint(VOCABULARY, (3, WINDOW), generator=torch.Generator().manual_seed(1))
POSITIONS = torch.tensor([[*range(8)], [0, 1, 2, 0, 1, 2, 3, 4], [*range(8)]])


def losses_by_hand(weights: np.ndarray, labels: list[int], begins: list[int]) -> list[float]:
    """One row: -log of the sum of the weights on earlier mentions, found token by token."""
    losses = []
    for i, label in enumerate(labels):
        start = max(b for b in begins if b <= i)
        first = i  # of the mention that i is in
        while first > start and labels[first - 1] == label:
            first -= 1
        wanted = [weights[i, j] for j in range(start, first) if label and labels[j] == label]
        losses.append(-float(np.log(sum(wanted))) if wanted else 0.0)
    return losses


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("layer", "head"), [(1, 1), (1, 2), (2, 2)])
@torch.no_grad()
def test_the_loss_is_that_of_the_attention_weights_that_transformers_shows(layer, head, packed):
    model = lively_model(KIND, antecedent_layer=layer, antecedent_head=head, antecedent_weight=0.5)
    positions = POSITIONS if packed else None
    model.show_attention()
    given = {} if positions is None else {"position_ids": positions}
    shown = model.module.transformer(
        TOKENS, output_attentions=True, output_hidden_states=True, use_cache=False, **given
    )
    block = model.module.transformer.h[layer - 1]
    scores = score_head(block, shown.hidden_states[layer - 1], head - 1)
    found = antecedent_losses(scores, LABELS, positions)
    weights = shown.attentions[layer - 1][:, head - 1].double().numpy()
    expected = [
        losses_by_hand(weights[row], LABELS[row].tolist(), [0, 3] if packed and row == 1 else [0])
        for row in range(3)
    ]
    torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-5, atol=1e-6)
    assert found[0].count_nonzero() == 3
    assert found[1].count_nonzero() == (2 if packed else 3)

    hidden, state = model.encode(Batch(TOKENS, LABELS, positions), model.start(3))
    assert torch.equal(hidden, shown.last_hidden_state)  # in evaluation it is its GPT-2
    assert state.penalty is None
    model.module.train()
    model.module.transformer.drop.p = 0.0
    for block in model.module.transformer.h:
        block.attn.attn_dropout.p = block.attn.resid_dropout.p = block.mlp.dropout.p = 0.0
    _, state = model.encode(Batch(TOKENS, LABELS, positions), model.start(3))
    torch.testing.assert_close(state.penalty, 0.5 * found.sum(), rtol=1e-5, atol=1e-6)


def test_gradients_are_those_of_finite_differences() -> None:
    scores = torch.randn(3, 8, 8, dtype=torch.float64, requires_grad=True)

    def summed(scores: Tensor) -> Tensor:
        return antecedent_losses(scores, LABELS, POSITIONS).sum()

    assert torch.autograd.gradcheck(summed, scores)
    (gradient,) = torch.autograd.grad(summed(scores), scores)
    assert torch.isfinite(gradient).all()
    assert not gradient[2].any()  # no entity there


def test_weight_zero_trains_a_gpt2(tmp_path: Path) -> None:
    found = []
    for kind, changes in ((KIND, {"antecedent_weight": 0.0}), ("gpt2", {}), (KIND, {})):
        training = make_training(tmp_path / f"{kind}{len(found)}", kind, **changes)
        training.run()
        found.append(weights(training))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[1], found[2])


def test_the_default_head_is_the_first_of_the_middle_layer() -> None:
    made = [tiny_model(KIND, layers=layers) for layers in (1, 2, 5, 6)]
    assert [(one.layer, one.head) for one in made] == [(0, 0), (0, 0), (2, 0), (2, 0)]
