"""Entity attention (section 3.1, figure 1): queries from the hidden states, keys from the entities,
values from the hidden states.

Dimensions: B batch, T tokens, P tokens in the cache before them, R rows of the memory, H heads, D
width of a head, W = H * D.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.cache_utils import Cache, DynamicLayer, StaticLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.gpt2.modeling_gpt2 import eager_attention_forward
from transformers.pytorch_utils import Conv1D

from .entities import Entities
from .memory import gather_rows

BLOCK = 32
STRIP = 64


class EntityAttention(nn.Module):
    """The layer behind a transformer block: [B, T, W] to [B, T, W] and the attention weights [B, H,
    T, P + T] (eager only).

    ``residual``, ``layer_norm``, ``gate`` (``none`` or ``zero``) and ``values`` (``hidden``,
    ``entity``, ``both``) are the switches of PAPER.md. Without entities every key is the same, so
    that the attention is the mean of the values: then no query, key or softmax is computed, unless
    dropout of attention weights or a mask of padding asks for the weights one by one.
    """

    def __init__(
        self,
        config: Any,
        slot: int,
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
        epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"width {width} is not divisible by heads {heads}")
        if gate not in ("none", "zero") or values not in ("hidden", "entity", "both"):
            raise ValueError(
                f"{gate=}, {values=}: expected gate 'none' or 'zero' and values 'hidden', 'entity'"
                " or 'both'"
            )
        if gate == "zero" and not residual:
            raise ValueError("gate 'zero' without a residual would give a constant output")
        self.config = config
        self.slot = slot
        self.heads = heads
        self.attention_dropout = attention_dropout
        self.scaling = (width // heads) ** -0.5 if scaling is None else scaling
        self.is_causal = is_causal
        self.residual = residual
        self.ln = nn.LayerNorm(width, eps=epsilon) if layer_norm else None
        self.q_attn = Conv1D(width, width)
        self.k_attn = Conv1D(width, width)
        self.v_attn = Conv1D(width, width) if values in ("hidden", "both") else None
        self.e_attn = Conv1D(width, width) if values in ("entity", "both") else None
        self.c_proj = Conv1D(width, width)
        self.gate = nn.Parameter(torch.zeros(1)) if gate == "zero" else None
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        hidden: Tensor,
        entities: Entities,
        attention_mask: Tensor | None = None,
        past_key_values: Cache | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Hidden states [B, T, W] after the layer, and the attention weights where they were
        computed and the kernel gives them.
        """
        inputs = hidden if self.ln is None else self.ln(hidden)
        weights = None
        if self._is_mean(entities, past_key_values):
            output = self._average(inputs, entities, past_key_values)
        else:
            output, weights = self._attend(
                inputs, entities, attention_mask, past_key_values, **kwargs
            )
        output = self.dropout(output)
        if self.gate is not None:
            output = output * self.gate
        return (hidden + output if self.residual else output), weights

    def _is_mean(self, entities: Entities, cache: Cache | None) -> bool:
        dropped = self.training and self.attention_dropout > 0
        return (
            entities.rows is None
            and entities.uniform
            and not dropped
            and (cache is None or _is_empty(cache, self.slot))
        )

    def _average(self, inputs: Tensor, entities: Entities, cache: Cache | None) -> Tensor:
        """Attention to equal keys, [B, T, W]: the mean of the values of all tokens so far."""
        batch, length, width = inputs.shape
        if cache is not None:
            values = self._values(inputs, entities) + self._nothing()
            self._cached(
                self._split(self._keys(entities, batch, length)), self._split(values), cache
            )
            return self.c_proj(mean_so_far(values, entities.starts, self.is_causal))
        bias = self._constant_value()
        if self.v_attn is None:
            return self.c_proj(bias).expand_as(inputs)
        means = mean_so_far(inputs, entities.starts, self.is_causal)
        if batch * length <= width:
            return self.c_proj(F.linear(means, self.v_attn.weight.T, bias))
        # Two matrices in a row are one: their product costs less than applying both to so many
        # tokens.
        return F.linear(means, (self.v_attn.weight @ self.c_proj.weight).T, self.c_proj(bias))

    def _constant_value(self) -> Tensor:
        """What does not depend on the hidden states in the value of a token without entity, [W]."""
        bias = self._nothing() if self.v_attn is None else self.v_attn.bias + self._nothing()
        return (
            bias if self.e_attn is None else bias + self.e_attn(torch.ones_like(self.e_attn.bias))
        )

    def _nothing(self) -> Tensor:
        """0, through which the parameters that equal keys make useless get a gradient of 0, and not
        none.

        Optimizers and DistributedDataParallel then do what they do in the plain form.
        """
        unused = [
            *self.q_attn.parameters(),
            *self.k_attn.parameters(),
            *([] if self.ln is None else self.ln.parameters()),
        ]
        return 0 * torch.stack([parameter.flatten()[0] for parameter in unused]).sum()

    def _attend(
        self,
        inputs: Tensor,
        entities: Entities,
        attention_mask: Tensor | None,
        cache: Cache | None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """The plain form: softmax(Q K' * scaling) V over the visible tokens, [B, T, W]."""
        value = self._split(self._values(inputs, entities))
        dropout = self.attention_dropout if self.training else 0.0
        strips = 0 < dropout < 1 and self._is_for_strips(value, attention_mask, cache)
        if entities.rows is None and entities.uniform and strips:
            return (
                self.c_proj(
                    attend_in_strips(None, None, value + self._nothing(), dropout).reshape(
                        inputs.shape
                    )
                ),
                None,
            )
        # equal keys: whatever the query, the weights of the visible tokens are equal
        if entities.rows is None and cache is None:
            query = key = self._nothing().expand(value.shape).contiguous()
        else:
            query = self._split(self.q_attn(inputs))
            key, value = self._cached(
                self._split(self._keys(entities, *inputs.shape[:2])), value, cache
            )
        if strips:
            return (
                self.c_proj(
                    attend_in_strips(query * self.scaling, key, value, dropout).reshape(
                        inputs.shape
                    )
                ),
                None,
            )
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        if (
            self.config._attn_implementation == "eager"
            and attention_mask is None
            and self.is_causal
            and query.shape[2] > 1
        ):
            attention_mask = _causal_mask(query, key)
        output, weights = attend(
            self, query, key, value, attention_mask, dropout=dropout, scaling=self.scaling, **kwargs
        )
        return self.c_proj(output.reshape(*inputs.shape).contiguous()), weights

    def _is_for_strips(
        self, value: Tensor, attention_mask: Tensor | None, cache: Cache | None
    ) -> bool:
        """On a CPU SDPA has no kernel with dropout: it computes all of the scores, also those that
        the causal mask then hides.
        """
        plain = attention_mask is None and cache is None and self.is_causal
        return plain and value.device.type == "cpu" and self.config._attn_implementation == "sdpa"

    def _keys(self, entities: Entities, batch: int, length: int) -> Tensor:
        """Keys [B, T, W]: each row of the memory is projected once and then handed to its tokens."""
        return _project(self.k_attn, entities, batch, length)

    def _values(self, inputs: Tensor, entities: Entities) -> Tensor:
        """Values [B, T, W] from the hidden states, the entities or both."""
        sources = [] if self.v_attn is None else [self.v_attn(inputs)]
        if self.e_attn is not None:
            sources.append(_project(self.e_attn, entities, *inputs.shape[:2]))
        return sources[0] if len(sources) == 1 else sources[0] + sources[1]

    def _split(self, states: Tensor) -> Tensor:
        """[B, T, W] as heads, [B, H, T, D]."""
        return states.view(*states.shape[:2], self.heads, -1).transpose(1, 2)

    def _cached(self, key: Tensor, value: Tensor, cache: Cache | None) -> tuple[Tensor, Tensor]:
        """Keys and values [B, H, P + T, D] with those of the tokens before."""
        if cache is None:
            return key, value
        _extend(cache, self.slot + 1)
        return cache.update(key, value, self.slot)


def _project(projection: Conv1D, entities: Entities, batch: int, length: int) -> Tensor:
    if entities.rows is None:
        constant = projection(projection.weight.new_ones(1, 1, projection.weight.shape[0]))
        return constant.expand(batch, length, -1).contiguous()
    projected = projection(entities.rows)
    return projected if entities.picks is None else gather_rows(projected, entities.picks)


def _is_empty(cache: Cache, slot: int) -> bool:
    """Has the cache nothing in this slot yet? (A static cache counts on the device: there the plain
    form is taken.)
    """
    if len(cache.layers) <= slot:
        return not isinstance(cache.layers[0] if cache.layers else None, StaticLayer)
    layer = cache.layers[slot]
    return isinstance(layer, DynamicLayer) and layer.get_seq_length() == 0


def _extend(cache: Cache, slots: int) -> None:
    """Give the cache, which has one layer a block, layers for the second attention of each block
    too.
    """
    while len(cache.layers) < slots:
        first = cache.layers[0] if cache.layers else None
        cache.layers.append(
            StaticLayer(first.max_cache_len) if isinstance(first, StaticLayer) else DynamicLayer()
        )


def _causal_mask(query: Tensor, key: Tensor) -> Tensor:
    """Additive mask [T, P + T] for the eager form where the model passed none."""
    shape = query.shape[2], key.shape[2]
    hidden = torch.ones(shape, dtype=torch.bool, device=query.device).triu(shape[1] - shape[0] + 1)
    return torch.zeros(shape, dtype=query.dtype, device=query.device).masked_fill(
        hidden, torch.finfo(query.dtype).min
    )


def attend_in_strips(
    query: Tensor | None, key: Tensor | None, value: Tensor, dropout: float
) -> Tensor:
    """Causal attention with dropout of weights, [B, T, H, D], that leaves out most of the scores
    behind the causal mask.

    Strips of 64 queries meet the keys up to their end: (T + 64) / 2T of all scores. ``query`` [B,
    H, T, D] is scaled already; without it and ``key`` every token weighs the same.
    """
    batch, heads, length, size = value.shape
    flat = value.flatten(0, 1)
    outputs = []
    for start in range(0, length, STRIP):
        end = min(start + STRIP, length)
        hidden = torch.full(
            (end - start, end), torch.finfo(flat.dtype).min, dtype=flat.dtype, device=flat.device
        ).triu(start + 1)
        if query is None or key is None:
            weights = hidden.softmax(-1).expand(len(flat), -1, -1)
        else:
            rows, columns = (
                query[:, :, start:end].flatten(0, 1),
                key[:, :, :end].flatten(0, 1).transpose(1, 2),
            )
            weights = torch.baddbmm(hidden.to(rows.dtype), rows, columns).softmax(-1)
        outputs.append(_DroppedProduct.apply(weights, flat[:, :end], dropout))
    return torch.cat(outputs, dim=1).view(batch, heads, length, size).transpose(1, 2)


class _DroppedProduct(torch.autograd.Function):
    """``dropout(weights) @ value``, of which the backward pass keeps the mask and not a second
    matrix of weights.
    """

    @staticmethod
    def forward(ctx: Any, weights: Tensor, value: Tensor, dropout: float) -> Tensor:
        threshold = round(dropout * 65536)
        ctx.scale = 65536 / (65536 - threshold)
        kept = _draw_mask(weights.shape, threshold, weights.device)
        ctx.save_for_backward(weights, value, kept)
        return (weights * kept).mul(ctx.scale).to(value.dtype) @ value

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, None]:
        weights, value, kept = ctx.saved_tensors
        for_value = (weights * kept).mul(ctx.scale).to(gradient.dtype).transpose(1, 2) @ gradient
        for_weights = None
        if ctx.needs_input_grad[0]:
            for_weights = (
                (gradient @ value.transpose(1, 2)).to(weights.dtype).mul(kept).mul(ctx.scale)
            )
        return for_weights, for_value, None


def _draw_mask(shape: torch.Size, threshold: int, device: torch.device) -> Tensor:
    """Bools that are False with probability ``threshold`` / 65536.

    Sixteen random bits decide one; ``bernoulli_`` takes twice as long.
    """
    count = math.prod(shape)
    words = torch.empty(-(-count // 4), dtype=torch.int64, device=device).random_(-(2**63), None)
    return (words.view(torch.int16)[:count] >= threshold - 32768).view(shape)


def mean_so_far(states: Tensor, starts: Tensor | None = None, is_causal: bool = True) -> Tensor:
    """Mean [B, T, W] over the tokens of ``states`` [B, T, W] up to each one, from the start [B, T]
    of its document on.

    Not causal: the mean over all tokens. Sums are at least float32 (float64 where documents are
    packed).
    """
    if not is_causal:
        return states.mean(1, keepdim=True).expand_as(states)
    positions = torch.arange(states.shape[1], device=states.device)
    if starts is None:
        return (
            _sum_so_far(states.to(torch.promote_types(states.dtype, torch.float32)))
            / (positions + 1).unsqueeze(1)
        ).to(states.dtype)
    sums = F.pad(states.double().cumsum(1), (0, 0, 1, 0))
    before = sums.gather(1, starts.unsqueeze(-1).expand_as(states))
    counts = (positions - starts + 1).unsqueeze(-1)
    return ((sums[:, 1:] - before) / counts).to(states.dtype)


def _sum_so_far(states: Tensor) -> Tensor:
    """Running sum [B, T, W] over the tokens: a small triangular product inside blocks, then the
    sums of the blocks before.

    Twice as fast as ``cumsum`` forward and backward on a CPU, and its rounding error does not grow
    with T.
    """
    batch, length, width = states.shape
    blocks = F.pad(states, (0, 0, 0, -length % BLOCK)).view(
        batch, math.ceil(length / BLOCK), BLOCK, width
    )
    with torch.autocast(states.device.type, enabled=False):
        within = torch.ones(BLOCK, BLOCK, dtype=states.dtype, device=states.device).tril() @ blocks
    before = F.pad(within[:, :-1, -1], (0, 0, 1, 0)).cumsum(1).unsqueeze(2)
    return (within + before).view(batch, -1, width)[:, :length]
