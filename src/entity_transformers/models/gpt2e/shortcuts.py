"""The entity attention that models run: `EntityAttention` up to rounding, at a lower cost.

- Without entities every key is the same, so that attention is the mean of the values up to each
  token (`mean_so_far`): no query, key or softmax is computed, and the matrices before and after the
  mean are multiplied with each other where that is less work.
- With entities each row of the memory is projected once, and its tokens gather the result.
- Dropout of weights on a CPU leaves out most scores behind the causal mask (`attend_in_strips`).
- Everything else, and all attention with ALiBi, goes to the kernel that the config names (eager,
  SDPA, ...), with the keys and values of earlier tokens from a cache.

Dimensions: B batch, T tokens, P tokens in the cache before them, R rows of the memory, H heads, D
width of a head, W = H * D.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers.cache_utils import Cache, DynamicLayer, StaticLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.gpt2.modeling_gpt2 import eager_attention_forward
from transformers.pytorch_utils import Conv1D

from .attention import EntityAttention, causal_mask, distance_bias
from .memory import Entities, gather_rows

BLOCK = 32
STRIP = 64


class FastEntityAttention(EntityAttention):
    """`EntityAttention` with its arguments; ``config`` names the kernel, and ``slot`` is the
    layer's place in a cache.

    Only the eager kernel returns attention weights [B, H, T, P + T]; for the others they are None.
    """

    def __init__(self, config: Any, slot: int, **switches: Any) -> None:
        super().__init__(**switches)
        self.config = config
        self.slot = slot

    def attend(
        self,
        x: Tensor,
        entities: Entities,
        mask: Tensor | None,
        past_key_values: Cache | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Any]:
        """Attend by the mean, in strips or by a kernel; only this method chooses among them.

        ``mask`` is in the kernel's form (SDPA takes bool too), and ``kwargs`` are the kernel's.
        """
        cache, dropout = past_key_values, self.attention_dropout if self.training else 0.0
        equal_keys = entities.rows is None and (cache is None or _is_empty(cache, self.slot))
        # With dropout SDPA has no kernel for a CPU: it computes all of the scores, also those that
        # the causal mask then hides.
        sdpa_on_cpu = self.config._attn_implementation == "sdpa" and x.device.type == "cpu"
        only_causal = mask is None and cache is None and self.is_causal
        if not self.alibi and equal_keys and entities.uniform and dropout == 0:
            return self._average(x, entities, cache), None
        if not self.alibi and 0 < dropout < 1 and sdpa_on_cpu and only_causal:
            return self._attend_in_strips(x, entities, dropout), None
        return self._call_kernel(x, entities, mask, cache, dropout=dropout, **kwargs)

    def _average(self, x: Tensor, entities: Entities, cache: Cache | None) -> Tensor:
        """Attend to equal keys, [B, T, W]: take the mean of the values of all tokens so far."""
        if cache is None and self.v_attn is None:
            return self.c_proj(self._constant_value()).expand_as(x)
        # PEFT puts layers there that add more than their weight's product
        plain = type(self.v_attn) is Conv1D and type(self.c_proj) is Conv1D
        if cache is not None or not plain:
            values = self._values(x, entities) + self._nothing()
            if cache is not None:
                self._extend(cache, self._keys(x, entities), self.split(values))
            return self.c_proj(mean_so_far(values, entities.starts, self.is_causal))
        assert self.v_attn is not None
        bias = self._constant_value()
        means = mean_so_far(x, entities.starts, self.is_causal)
        if x.shape[0] * x.shape[1] <= x.shape[2]:
            return self.c_proj(F.linear(means, self.v_attn.weight.T, bias))
        # Two matrices in a row are one: their product costs less than applying both to so many
        # tokens.
        return F.linear(means, (self.v_attn.weight @ self.c_proj.weight).T, self.c_proj(bias))

    def _attend_in_strips(self, x: Tensor, entities: Entities, dropout: float) -> Tensor:
        """Compute causal attention [B, T, W] with dropout of weights."""
        value = self.split(self._values(x, entities))
        if entities.rows is None:
            output = attend_in_strips(None, None, value + self._nothing(), dropout)
        else:
            query = self.split(self.q_attn(x)) * self.scaling
            output = attend_in_strips(query, self._keys(x, entities), value, dropout)
        return self.c_proj(output.reshape(x.shape))

    def _call_kernel(
        self, x: Tensor, entities: Entities, mask: Tensor | None, cache: Cache | None, **kwargs: Any
    ) -> tuple[Tensor, Any]:
        """Compute softmax(Q K' * scaling + M) V W_o, [B, T, W], by the kernel of the config."""
        # V before Q and K: another order of summing gradients in backward changes the last bit
        value = self.split(self._values(x, entities))
        if entities.rows is None and cache is None:
            # whatever the query, the weights of the visible tokens are equal
            query = key = self._nothing().expand(value.shape).contiguous()
        else:
            query, key = self.split(self.q_attn(x)), self._keys(x, entities)
        past = 0
        if cache is not None:
            past = 0 if _is_empty(cache, self.slot) else cache.get_seq_length(self.slot)
            key, value = self._extend(cache, key, value)
        if isinstance(mask, Tensor):  # only the model's attention has PEFT's prefixes
            mask = mask[..., -key.shape[2] :]
        kernel = self.config._attn_implementation
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(kernel, eager_attention_forward)
        if self.alibi:
            mask = self._add_distances(query, key, mask, entities, past)
        elif kernel == "eager" and mask is None and self.is_causal:
            mask = causal_mask(query, past=key.shape[2] - query.shape[2])
        output, weights = attend(self, query, key, value, mask, scaling=self.scaling, **kwargs)
        return self.c_proj(output.reshape(x.shape).contiguous()), weights

    def _add_distances(
        self, query: Tensor, key: Tensor, mask: Tensor | None, entities: Entities, past: int
    ) -> Tensor:
        """Return the mask [.., T, keys] that is added to the scores, with ALiBi's distances."""
        kernel = self.config._attn_implementation
        if kernel not in ("eager", "sdpa"):
            raise ValueError(f"alibi: attention {kernel!r} can't add bias, expected sdpa or eager")
        bias = distance_bias(query, key, past)
        if mask is None and not self.is_causal:
            return bias
        if mask is None:
            mask = causal_mask(query, entities.starts, past)
            room = key.shape[2] - mask.shape[-1]  # in a static cache, for tokens to come
            mask = F.pad(mask, (0, room), value=-torch.inf)
        if mask.dtype is torch.bool:
            return bias.masked_fill(~mask, torch.finfo(bias.dtype).min)
        return bias + mask

    def _keys(self, x: Tensor, entities: Entities) -> Tensor:
        """Compute K [B, H, T, D]."""
        return self.split(_project(self.k_attn, entities, x))

    def _values(self, x: Tensor, entities: Entities) -> Tensor:
        """Compute V [B, T, W] from the hidden states, the entities or both."""
        sources = [] if self.v_attn is None else [self.v_attn(x)]
        if self.e_attn is not None:
            sources.append(_project(self.e_attn, entities, x))
        return sources[0] if len(sources) == 1 else sources[0] + sources[1]

    def _constant_value(self) -> Tensor:
        """Compute what no hidden state affects in the value of a token without entity, [W]."""
        bias = self._nothing() if self.v_attn is None else self.v_attn.bias + self._nothing()
        if self.e_attn is None:
            return bias
        return bias + self.e_attn(torch.ones_like(self.e_attn.bias))

    def _nothing(self) -> Tensor:
        """Return 0, through which the parameters that equal keys make useless get a gradient of 0
        instead of none, so that optimizers and DistributedDataParallel treat them as in the plain
        form.
        """
        layers = [layer for layer in (self.q_attn, self.k_attn, self.ln) if layer is not None]
        unused = [parameter for layer in layers for parameter in layer.parameters()]
        return 0 * torch.stack([parameter.flatten()[0] for parameter in unused]).sum()

    def _extend(self, cache: Cache, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Cache keys and values and return those of all tokens so far, [B, H, P + T, D]. The cache
        has one layer per block, and gets more for the second attention of each block.
        """
        first: Any = cache.layers[0] if cache.layers else None
        static = isinstance(first, StaticLayer)
        while len(cache.layers) <= self.slot:
            cache.layers.append(StaticLayer(first.max_cache_len) if static else DynamicLayer())
        return cache.update(key, value, self.slot)


def _project(projection: Conv1D, entities: Entities, x: Tensor) -> Tensor:
    """Compute E W [B, T, W] for the tokens of ``x``; a shared vector is projected only once."""
    if entities.rows is None:
        constant = projection(projection.weight.new_ones(1, 1, x.shape[2]))
        return constant.expand(x.shape).contiguous()
    projected = projection(entities.rows)
    return projected if entities.picks is None else gather_rows(projected, entities.picks)


def _is_empty(cache: Cache, slot: int) -> bool:
    """Is this slot of the cache empty? (A static cache counts on the device and is never taken as
    empty, so that the kernel runs.)
    """
    if len(cache.layers) <= slot:
        return not isinstance(cache.layers[0] if cache.layers else None, StaticLayer)
    layer = cache.layers[slot]
    return isinstance(layer, DynamicLayer) and layer.get_seq_length() == 0


def attend_in_strips(
    query: Tensor | None, key: Tensor | None, value: Tensor, dropout: float
) -> Tensor:
    """Compute causal attention with dropout of weights, [B, T, H, D], without most of the scores
    that the causal mask hides: strips of 64 queries meet the keys up to their end, which is
    (T + 64) / 2T of all scores. ``query`` [B, H, T, D] is already scaled; without it and ``key``
    every token weighs the same.
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
            rows = query[:, :, start:end].flatten(0, 1)
            columns = key[:, :, :end].flatten(0, 1).mT
            weights = torch.baddbmm(hidden.to(rows.dtype), rows, columns).softmax(-1)
        outputs.append(_drop(weights, dropout).to(flat.dtype) @ flat[:, :end])
    return torch.cat(outputs, dim=1).view(batch, heads, length, size).transpose(1, 2)


def _drop(weights: Tensor, dropout: float) -> Tensor:
    """Drop out weights and scale up the others."""
    threshold = round(dropout * 65536)
    kept = _draw_mask(weights.shape, threshold, weights.device)
    return (weights * kept).mul(65536 / (65536 - threshold))


def _draw_mask(shape: torch.Size, threshold: int, device: torch.device) -> Tensor:
    """Draw bools that are False with probability ``threshold`` / 65536, each by sixteen random
    bits; ``bernoulli_`` takes twice as long.
    """
    count = math.prod(shape)
    words = torch.empty(-(-count // 4), dtype=torch.int64, device=device).random_(-(2**63), None)
    return (words.view(torch.int16)[:count] >= threshold - 32768).view(shape)


def mean_so_far(states: Tensor, starts: Tensor | None = None, is_causal: bool = True) -> Tensor:
    """Return the mean [B, T, W] over the tokens of ``states`` [B, T, W] up to each one, from the
    start [B, T] of its document on, or over all tokens if not causal. Sums are at least float32
    (float64 where documents are packed).
    """
    if not is_causal:
        return states.mean(1, keepdim=True).expand_as(states)
    positions = torch.arange(states.shape[1], device=states.device)
    if starts is None:
        sums = _sum_so_far(states.to(torch.promote_types(states.dtype, torch.float32)))
        return (sums / (positions + 1).unsqueeze(1)).to(states.dtype)
    sums = F.pad(states.double().cumsum(1), (0, 0, 1, 0))
    before = sums.gather(1, starts.unsqueeze(-1).expand_as(states))
    counts = (positions - starts + 1).unsqueeze(-1)
    return ((sums[:, 1:] - before) / counts).to(states.dtype)


def _sum_so_far(states: Tensor) -> Tensor:
    """Return the running sum [B, T, W] over the tokens: a small triangular product inside blocks,
    plus the sums of the blocks before. On a CPU this is twice as fast as ``cumsum``, and its
    rounding error does not grow with T.
    """
    batch, length, width = states.shape
    blocks = F.pad(states, (0, 0, 0, -length % BLOCK)).view(batch, -1, BLOCK, width)
    with torch.autocast(states.device.type, enabled=False):
        within = torch.ones(BLOCK, BLOCK, dtype=states.dtype, device=states.device).tril() @ blocks
    before = F.pad(within[:, :-1, -1], (0, 0, 1, 0)).cumsum(1).unsqueeze(2)
    return (within + before).view(batch, -1, width)[:, :length]
