"""A cache of keys and values, for any decoder of transformers, that holds a window of the latest
tokens and, of earlier ones, only those that a policy keeps, such as names (`tasks.policies`).

Kept tokens retain their positions, keys and values in every block, so that a cache that keeps
everything gives the same states as reading the whole text. Comparable methods without labels are
StreamingLLM (Xiao et al., 2023), which keeps the first and the latest tokens, and the two of
`AttendedCache`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers.cache_utils import Cache, DynamicLayer

Keep = Callable[[np.ndarray], np.ndarray]
"""Given the tokens [n] that have left the window, the positions of those to keep, in order."""


class KeptLayer(DynamicLayer):
    """The keys and values of one block, some of which may have been dropped."""

    seen = 0
    """The number of tokens read, including dropped ones."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        self.seen += key_states.shape[-2]
        return super().update(key_states, value_states, *args, **kwargs)

    def get_seq_length(self) -> int:
        return self.seen

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        # whatever is held stands before the query, so its places in the mask are the last ones
        held = 0 if self.keys is None else self.keys.shape[-2]
        return held + query_length, self.seen - held

    def keep(self, which: Tensor) -> None:
        """Drop all but these, by their places in the layer: int64 [k], or [H, k] for each head."""
        assert self.keys is not None
        assert self.values is not None
        places = which.to(self.keys.device).view(1, -1, which.shape[-1], 1)
        self.keys = self.keys.take_along_dim(places, -2)
        self.values = self.values.take_along_dim(places, -2)


class EntityCache(Cache):
    """The keys and values of the latest ``window`` tokens, of the tokens that ``keep`` chooses, and
    of the first ``sinks`` tokens, without which models that have learnt to rest their attention on
    them fail.

    ``read`` reads a long text in pieces. To use it with ``generate``, pass it both as
    ``past_key_values`` and as a stopping criterion: every ``every`` tokens it drops what has left
    the window and is not kept. Dropped tokens do not come back. A cache holds a single text; a
    batch of several raises ValueError.
    """

    layers: list[Any]

    def __init__(self, keep: Keep, *, window: int, sinks: int = 4, every: int = 64) -> None:
        super().__init__(layer_class_to_replicate=KeptLayer)
        self.keep, self.window, self.sinks, self.every = keep, window, sinks, every
        self.places = np.zeros(0, np.int64)
        """The positions of the tokens that were held after the last drop."""

    @property
    def nbytes(self) -> int:
        """Bytes of all keys and values that are held."""
        held = [layer for layer in self.layers if layer.is_initialized]
        return sum(layer.keys.nbytes + layer.values.nbytes for layer in held)

    def drop(self, tokens: np.ndarray) -> None:
        """Drop what has left the window and is not kept. ``tokens`` [n] are all tokens read."""
        seen = self.get_seq_length()
        held = np.append(self.places, np.arange(self.places.max(initial=-1) + 1, seen))
        start = max(0, seen - self.window)
        kept = self.keep(tokens[:start])
        wanted = (held < self.sinks) | (held >= start) | np.isin(held, kept)
        self.places = held[wanted]
        for layer in self.layers:
            layer.keep(torch.from_numpy(np.flatnonzero(wanted)))

    @torch.inference_mode()
    def read(self, model: Any, tokens: np.ndarray) -> Tensor:
        """Return the final hidden states [n, W] of tokens int [n]. They are read ``every`` at a
        time, and after each piece what has left the window is dropped. A cache that is not empty
        raises ValueError.
        """
        if self.get_seq_length():
            raise ValueError("the cache has already read a text: make a new one for this text")
        ids = torch.from_numpy(tokens.astype(np.int64))[None].to(model.device)
        states = []
        for first in range(0, len(tokens), self.every):
            piece = ids[:, first : first + self.every]
            states.append(self.read_piece(model, piece).last_hidden_state[0])
            self.drop(tokens[: first + piece.shape[1]])
        return torch.cat(states)

    def read_piece(self, model: Any, piece: Tensor, **how: Any) -> Any:
        """Return the model's output for tokens int64 [1, T], which are all added to the cache."""
        return model.base_model(input_ids=piece, past_key_values=self, use_cache=True, **how)

    def __call__(self, input_ids: Tensor, scores: Any = None, **_: Any) -> Tensor:
        """The stopping criterion for ``generate``: it never stops, but drops what is due."""
        if len(input_ids) > 1:
            raise ValueError(f"EntityCache holds one text, but {len(input_ids)} were given")
        if self.get_seq_length() - self.places.max(initial=-1) > self.every:
            self.drop(input_ids[0].cpu().numpy())
        return torch.zeros(1, dtype=torch.bool, device=input_ids.device)


class AttendedCache(EntityCache):
    """Keeps, of what has left the window, the ``budget`` tokens that received most attention, in
    each block and for each head of keys separately.

    Attention is either summed over all tokens since a token was read (H2O, Zhang et al., 2023), or
    taken from the latest ``queries`` tokens and averaged over ``pool`` neighbours among the tokens
    held (SnapKV, Li et al., 2024). It is summed over query heads that share keys. This class works
    with `read`, not with ``generate``.

    Dimensions: G query heads, H heads of keys, T tokens in a piece, M tokens held.
    """

    def __init__(
        self, budget: int, *, queries: int | None = None, pool: int = 1, **how: Any
    ) -> None:
        super().__init__(lambda _: np.zeros(0, np.int64), **how)
        self.budget, self.queries, self.pool = budget, queries, pool
        self.scores: list[Tensor] = []
        """For each block, the attention that each held token received, float32 [H, M]."""

    @property
    def nbytes(self) -> int:
        """The size in bytes of all keys, values and sums of attention that are held."""
        return super().nbytes + sum(one.nbytes for one in self.scores if not self.queries)

    def read_piece(self, model: Any, piece: Tensor, **how: Any) -> Any:
        used = model.config._attn_implementation
        model.set_attn_implementation("eager")  # the form that gives its weights
        try:
            found = super().read_piece(model, piece, output_attentions=True, **how)
        finally:
            model.set_attn_implementation(used)
        self.scores = [self._add_up(number, one[0]) for number, one in enumerate(found.attentions)]
        return found

    def _add_up(self, number: int, weights: Tensor) -> Tensor:
        """Return a block's scores [H, M] after a piece with attention weights [G, T, M]."""
        latest = weights[:, -(self.queries or weights.shape[1]) :].float().sum(1)
        scores = latest.unflatten(0, (self.layers[number].keys.shape[1], -1)).sum(1)
        if self.scores and not self.queries:
            before = self.scores[number]
            scores[:, : before.shape[1]] += before
        return scores

    def drop(self, tokens: np.ndarray) -> None:
        heads, held = self.scores[0].shape
        start = held - self.window
        if start <= 0:
            return
        first = min(self.sinks, start)
        for number, (layer, scores) in enumerate(zip(self.layers, self.scores, strict=True)):
            pooled = functional.avg_pool1d(scores[:, :start], self.pool, 1, self.pool // 2)
            best = pooled[:, first:].topk(min(self.budget, start - first)).indices
            always = torch.arange(held, device=scores.device).expand(heads, -1)
            parts = always[:, :first], first + best.sort().values, always[:, start:]
            which = torch.cat(parts, 1)
            layer.keep(which)
            self.scores[number] = scores.take_along_dim(which, 1)
