"""GPT-2 with one attention head that learns to look from each token of a mention back to the
entity's earlier mentions. Only training reads labels; what they teach is in the weights.

Dimensions: B rows side by side, T tokens, W width, D width of a head.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from entity_transformers.kinds import KINDS, ModelEntry
from entity_transformers.models.base import Batch, State, find_together
from entity_transformers.models.gpt2 import GPT2


class GPT2Antecedent(GPT2):
    """A `GPT2` whose head ``head`` (from 0) of layer ``layer`` (from 0) is guided by labels in
    training, with ``weight``.
    """

    kind = KINDS["gpt2-antecedent"]
    weight, layer, head = 0.0, 0, 0

    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        if batch.entity_ids is None or not self.weight or not self.module.training:
            return super().encode(batch, state)
        read = self.read(batch, output_hidden_states=True)
        block = self.module.transformer.h[self.layer]
        scores = score_head(block, read.hidden_states[self.layer], self.head)
        loss = antecedent_losses(scores, batch.entity_ids, batch.positions).sum()
        return read.last_hidden_state, State(penalty=self.weight * loss)

    @classmethod
    def build(cls, entry: ModelEntry, vocabulary: int, end: int, seed: int) -> GPT2Antecedent:
        """Build a GPT-2 and choose the head that is guided."""
        model, lm = super().build(entry, vocabulary, end, seed), entry.lm
        model.weight, model.head = lm.antecedent_weight, lm.antecedent_head - 1
        model.layer = (lm.antecedent_layer or (lm.layers + 1) // 2) - 1
        return model


def score_head(block: Any, hidden: Tensor, head: int) -> Tensor:
    """Return one head's attention scores before masks and softmax, float32 [B, T, T]: queries by
    keys, over √D, as the block computes them from its input hidden states [B, T, W].
    """
    attention, width = block.attn, hidden.shape[-1]
    size = width // attention.num_heads
    columns = torch.arange(head * size, (head + 1) * size, device=hidden.device)
    normed, weight, bias = block.ln_1(hidden), attention.c_attn.weight, attention.c_attn.bias
    queries, keys = (
        normed @ weight[:, columns + start] + bias[columns + start] for start in (0, width)
    )
    return (queries @ keys.transpose(1, 2)).float() / size**0.5


def antecedent_losses(scores: Tensor, labels: Tensor, positions: Tensor | None = None) -> Tensor:
    """Return each token's antecedent loss in nats, float32 [B, T]: -log of the share of its
    attention on earlier mentions of the token's entity; 0 for a token with none in its window.

    ``scores`` [B, T, T] of queries by keys; ``labels`` int64 [B, T], 0 for no entity, equal for one
    entity of one document; ``positions`` [B, T] as in `Batch`. Adjacent tokens with one label are
    one mention. The sum over antecedents is the marginal likelihood of Lee et al. (2017), equation
    1, which does not prescribe the antecedent to attend to.
    """
    later = torch.zeros_like(labels)
    later[:, 1:] = labels[:, 1:] != labels[:, :-1]
    mention = later.cumsum(1)
    place = torch.arange(labels.shape[1], device=labels.device)
    seen = place[:, None] >= place
    if positions is not None:
        seen = seen & find_together(positions)
    antecedent = (
        seen
        & (labels[:, :, None] == labels[:, None, :])
        & (labels > 0)[:, :, None]
        & (mention[:, :, None] != mention[:, None, :])
    )
    total = scores.masked_fill(~seen, -torch.inf).logsumexp(-1)
    has = antecedent.any(-1)
    # a token without antecedents keeps all its scores, so that no gradient is that of -inf
    found = scores.masked_fill(~torch.where(has[..., None], antecedent, seen), -torch.inf)
    return torch.where(has, total - found.logsumexp(-1), 0.0)
