"""Entity attention (section 3.1, figure 1) as the paper has it; `shortcuts` computes it faster.

Dimensions: B batch, T tokens, H heads, D width of a head, W = H * D. Biases are not written out.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.pytorch_utils import Conv1D

from .memory import Entities, gather_rows


class EntityAttention(nn.Module):
    """The layer behind a transformer block: [B, T, W] to [B, T, W] and the weights [B, H, T, T].

    ``residual``, ``layer_norm``, ``gate`` and ``values`` are the switches of PAPER.md. ``alibi``
    subtracts a head's slope times the distance from each score (Press et al. 2022, "Train Short,
    Test Long", section 3). Keys come from entities and have no positions, so that without it a
    token cannot tell its own entity from those of the tokens before it.
    """

    def __init__(
        self,
        *,
        width: int,
        heads: int,
        attention_dropout: float = 0.0,
        dropout: float = 0.0,
        scaling: float | None = None,
        is_causal: bool = True,
        residual: bool = True,
        layer_norm: bool = False,
        gate: str = "none",
        values: str = "hidden",
        alibi: bool = False,
        epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"width {width} is not divisible by heads {heads}")
        if gate not in ("none", "zero") or values not in ("hidden", "entity", "both"):
            raise ValueError(f"{gate=}, {values=}: expected none or zero; hidden, entity or both")
        if gate == "zero" and not residual:
            raise ValueError("gate 'zero' without a residual would give a constant output")
        self.heads, self.is_causal, self.residual = heads, is_causal, residual
        self.alibi = alibi
        self.attention_dropout = attention_dropout
        self.scaling = (width // heads) ** -0.5 if scaling is None else scaling
        self.ln = nn.LayerNorm(width, eps=epsilon) if layer_norm else None
        self.q_attn, self.k_attn = Conv1D(width, width), Conv1D(width, width)
        self.v_attn = Conv1D(width, width) if values in ("hidden", "both") else None
        self.e_attn = Conv1D(width, width) if values in ("entity", "both") else None
        self.c_proj = Conv1D(width, width)
        self.gate = nn.Parameter(torch.zeros(1)) if gate == "zero" else None
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, hidden: Tensor, entities: Entities, attention_mask: Tensor | None = None, **more: Any
    ) -> tuple[Tensor, Any]:
        """Apply the layer, adding a mask [B, 1, T, T] to the scores (default: by ``is_causal``)."""
        x = hidden if self.ln is None else self.ln(hidden)  # X: the block's final residual output
        output, weights = self.attend(x, entities, attention_mask, **more)  # O = attention(X, E)
        output = self.dropout(output)
        if self.gate is not None:
            output = output * self.gate  # g O
        return (hidden + output if self.residual else output), weights  # X + O

    def attend(self, x: Tensor, entities: Entities, mask: Tensor | None) -> tuple[Tensor, Any]:
        """Masked multi-head attention "which considers Entities (E) as the Key (K) value"."""
        e = entity_vectors(entities, x)  # E: the vector of each token's entity
        query = self.split(self.q_attn(x))  # Q = X W_q
        key = self.split(self.k_attn(e))  # K = E W_k
        value = torch.zeros_like(x) if self.v_attn is None else self.v_attn(x)  # V = X W_v
        value = value if self.e_attn is None else value + self.e_attn(e)  # or E W_e, or both
        if mask is None:  # M
            mask = causal_mask(query, entities.starts) if self.is_causal else x.new_zeros(())
        if self.alibi:
            mask = mask + distance_bias(query, key)
        scores = query @ key.mT * self.scaling + mask  # S = Q K' / sqrt(D) + M, for each head
        weights = F.dropout(scores.softmax(-1), self.attention_dropout, self.training)  # softmax(S)
        output = weights @ self.split(value)  # softmax(S) V
        return self.c_proj(output.transpose(1, 2).flatten(2)), weights  # O = softmax(S) V W_o

    def split(self, states: Tensor) -> Tensor:
        """Split [B, T, W] into heads [B, H, T, D]."""
        return states.view(*states.shape[:2], self.heads, -1).transpose(1, 2)


def entity_vectors(entities: Entities, x: Tensor) -> Tensor:
    """Return E [B, T, W], the vector of each token's entity; ones if it has none (section 3.2)."""
    if entities.rows is None:
        return torch.ones_like(x)
    return entities.rows if entities.picks is None else gather_rows(entities.rows, entities.picks)


def causal_mask(query: Tensor, starts: Tensor | None = None, past: int = 0) -> Tensor:
    """Return M [.., T, past + T]: 0 from the start of a document up to the query, else -inf."""
    j = torch.arange(past + query.shape[2], device=query.device)
    t = j[past:].unsqueeze(1)
    visible = j <= t if starts is None else (j <= t) & (j >= starts[:, None, :, None])
    return torch.where(visible, 0.0, -torch.inf).to(query.dtype)


def distance_bias(query: Tensor, key: Tensor, past: int = 0) -> Tensor:
    """Return what ALiBi adds to the scores of T queries at positions ``past`` and after,
    [H, T, keys]: -2^(-8 h / H) times the distance, for heads h = 1 .. H.
    """
    heads = torch.arange(1, query.shape[1] + 1, device=query.device)
    slopes = 2.0 ** (-8 * heads / query.shape[1])
    t = past + torch.arange(query.shape[2], device=query.device)
    distance = (t.unsqueeze(1) - torch.arange(key.shape[2], device=query.device)).abs()
    return (-slopes[:, None, None] * distance).to(query.dtype)
