"""GPT-2, one head of which learns to look from each token of a mention back to the entity's earlier
mentions. What it learns from them is in its weights: it reads no labels.

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
    """A GPT-2 of transformers whose head ``head`` (from 0) of layer ``layer`` is guided by labels
    in training, with ``weight``.
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
        """A GPT-2, and the head that is guided."""
        model, lm = super().build(entry, vocabulary, end, seed), entry.lm
        model.weight, model.head = lm.antecedent_weight, lm.antecedent_head - 1
        model.layer = (lm.antecedent_layer or (lm.layers + 1) // 2) - 1
        return model


def score_head(block: Any, hidden: Tensor, head: int) -> Tensor:
    """Attention scores of one head before masks and softmax, float32 [B, T, T]: queries by keys,
    over √D, as the block makes them of the hidden states [B, T, W] that come into it.
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
    """What each token's attention lacks, in nats, float32 [B, T]: -log of the part of it that falls
    on earlier mentions of the token's entity; 0 for a token without one in its window.

    ``scores`` [B, T, T] of queries by keys; ``labels`` int64 [B, T], 0 for no entity, equal for
    one entity of one document; ``positions`` [B, T] as in `Batch`. Tokens in a row with one label
    are one mention. The sum over antecedents is the marginal likelihood of Lee et al. (2017),
    equation 1: which of them is looked at stays free.
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
    # a token without antecedents keeps its own score, so that no gradient is that of -inf
    found = scores.masked_fill(~torch.where(has[..., None], antecedent, seen), -torch.inf)
    return torch.where(has, total - found.logsumexp(-1), 0.0)
