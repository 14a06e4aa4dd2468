"""A cache of keys and values for any decoder of transformers that holds a window and, of what has
left it, what a policy keeps: names, say (`tasks.policies`).

Kept tokens keep their positions and the keys and values that they had, in every block, so that with
everything kept the model is that of the whole text. The peers without labels are StreamingLLM (Xiao
et al., 2023), which keeps the first tokens, and H2O (Zhang et al., 2023).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
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
        """Drop all but these, by their places in the layer."""
        assert self.keys is not None
        assert self.values is not None
        self.keys, self.values = self.keys[..., which, :], self.values[..., which, :]


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
        which = torch.from_numpy(np.flatnonzero(wanted))
        for layer in self._kept:
            layer.keep(which.to(layer.keys.device))

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
            found = model.base_model(input_ids=piece, past_key_values=self, use_cache=True)
            states.append(found.last_hidden_state[0])
            self.drop(tokens[: first + piece.shape[1]])
        return torch.cat(states)

    def __call__(self, input_ids: Tensor, scores: Any = None, **_: Any) -> Tensor:
        """As a stopping criterion of ``generate``, which it never stops: drops what is due."""
        if len(input_ids) > 1:
            raise ValueError(f"EntityCache holds one text, {len(input_ids)} were given")
        if self.get_seq_length() - self.places.max(initial=-1) > self.every:
            self.drop(input_ids[0].cpu().numpy())
        return torch.zeros(1, dtype=torch.bool, device=input_ids.device)
