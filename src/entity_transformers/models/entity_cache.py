"""A cache of keys and values for any decoder of transformers that holds a window and, of what has
left it, what a policy keeps: names, say (`tasks.policies`).

Kept tokens keep their positions and the keys and values that they had, in every block, so that with
everything kept the model is that of the whole text. The peers without labels are StreamingLLM (Xiao
et al., 2023), which keeps the first and the latest tokens, and those of `AttendedCache`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers.cache_utils import Cache, DynamicLayer

Keep = Callable[[np.ndarray], np.ndarray]
"""Of the tokens [n] that have left the window, the places of those that are kept, in order."""


class KeptLayer(DynamicLayer):
    """The keys and values of one block, of which some have been dropped."""

    seen = 0
    """Tokens that have been read, dropped ones included."""

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
    """The keys and values of the latest ``window`` tokens, of the first ``sinks``, without which a
    model that has learnt to rest its attention on them fails, and of what ``keep`` chooses.

    ``read`` takes a long text in pieces. For ``generate``, give it as ``past_key_values`` and as a
    stopping criterion: it then drops what leaves the window every ``every`` tokens. It holds one
    text: a batch of several raises ValueError. What has been dropped does not come back.
    """

    def __init__(self, keep: Keep, *, window: int, sinks: int = 4, every: int = 64) -> None:
        super().__init__(layer_class_to_replicate=KeptLayer)
        self.keep, self.window, self.sinks, self.every = keep, window, sinks, every
        self.places = np.zeros(0, np.int64)
        """The places of the tokens that are held, as of the last drop."""

    @property
    def nbytes(self) -> int:
        """The bytes of all keys and values that are held."""
        held = [layer for layer in self._kept if layer.is_initialized]
        return sum(layer.keys.nbytes + layer.values.nbytes for layer in held)

    @property
    def _kept(self) -> list[Any]:
        return list(self.layers)

    def drop(self, tokens: np.ndarray) -> None:
        """Drop what has left the window and is not kept. ``tokens`` [n]: all that was read."""
        seen = self.get_seq_length()
        held = np.append(self.places, np.arange(self.places.max(initial=-1) + 1, seen))
        start = max(0, seen - self.window)
        kept = self.keep(tokens[:start])
        wanted = (held < self.sinks) | (held >= start) | np.isin(held, kept)
        self.places = held[wanted]
        for layer in self._kept:
            layer.keep(torch.from_numpy(np.flatnonzero(wanted)))

    @torch.inference_mode()
    def read(self, model: Any, tokens: np.ndarray) -> Tensor:
        """The final hidden states [n, W] of tokens int [n] that follow what was read: ``every`` at
        a time, after each of which what has left the window is dropped. The cache has to have read
        nothing before, or through this.
        """
        ids = torch.from_numpy(tokens.astype(np.int64))[None].to(model.device)
        states = []
        for first in range(0, len(tokens), self.every):
            piece = ids[:, first : first + self.every]
            states.append(self.read_piece(model, piece).last_hidden_state[0])
            self.drop(tokens[: first + piece.shape[1]])
        return torch.cat(states)

    def read_piece(self, model: Any, piece: Tensor, **how: Any) -> Any:
        """What the model makes of tokens int64 [1, T], all of which are held then."""
        return model.base_model(input_ids=piece, past_key_values=self, use_cache=True, **how)

    def __call__(self, input_ids: Tensor, scores: Any = None, **_: Any) -> Tensor:
        """As a stopping criterion of ``generate``, which it never stops: drops what is due."""
        if len(input_ids) > 1:
            raise ValueError(f"EntityCache holds one text, {len(input_ids)} were given")
        if self.get_seq_length() - self.places.max(initial=-1) > self.every:
            self.drop(input_ids[0].cpu().numpy())
        return torch.zeros(1, dtype=torch.bool, device=input_ids.device)


class AttendedCache(EntityCache):
    """What has left the window is kept by the attention that it got: ``budget`` tokens in each
    block, for each head of keys its own.

    Attention is added up since a token was read (H2O, Zhang et al., 2023), or it is that of the
    latest ``queries`` tokens, as a mean over ``pool`` neighbours among what is held (SnapKV, Li et
    al., 2024); over query heads that share keys it is added up. What has been dropped does not come
    back. It is for `read`, not for ``generate``.

    Dimensions: G query heads, H heads of keys, T tokens of a piece, M that are held.
    """

    def __init__(
        self, budget: int, *, queries: int | None = None, pool: int = 1, **how: Any
    ) -> None:
        super().__init__(lambda _: np.zeros(0, np.int64), **how)
        self.budget, self.queries, self.pool = budget, queries, pool
        self.scores: list[Tensor] = []
        """Of each block the attention that each held token got, float32 [H, M]."""

    @property
    def nbytes(self) -> int:
        """The bytes of all keys, values and sums of attention that are held."""
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
        """A block's scores [H, M] after a piece in which its weights were [G, T, M]."""
        latest = weights[:, -(self.queries or weights.shape[1]) :].float().sum(1)
        scores = latest.unflatten(0, (self._kept[number].keys.shape[1], -1)).sum(1)
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
        for number, (layer, scores) in enumerate(zip(self._kept, self.scores, strict=True)):
            pooled = functional.avg_pool1d(scores[:, :start], self.pool, 1, self.pool // 2)
            best = pooled[:, first:].topk(min(self.budget, start - first)).indices
            always = torch.arange(held, device=scores.device).expand(heads, -1)
            parts = always[:, :first], first + best.sort().values, always[:, start:]
            which = torch.cat(parts, 1)
            layer.keep(which)
            self.scores[number] = scores.take_along_dim(which, 1)
