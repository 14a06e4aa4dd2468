"""What outlives a document (``lm.memory_life: epochs``): its entities' vectors, given back when
training reads it again.

Dimensions: B streams, R = entities + 1 rows of a stream's memory, C chains of the training split, W
width.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from entity_transformers.corpus.windows import Window
from entity_transformers.models.gpt2e.memory import EntityMemory
from entity_transformers.train.distributed import World


class KeptStates:
    """``states`` [C + 1, W]: each chain as the latest finished reading of its document left it,
    ones before the first; row 0 unused.

    A step gives back what was kept when it began, and keeps at its end what its documents left, the
    last window and then the last stream first in right. So neither the division of a step into
    passes nor into processes changes what is read. 4 C W bytes.
    """

    def __init__(self, chains: int, width: int, device: torch.device) -> None:
        self.states = torch.ones(chains + 1, width, device=device)
        self._begin(np.zeros((4, 0), np.int64))

    def begin(self, windows: Sequence[Window]) -> None:
        """A step of these windows begins."""
        self._begin(last_endings(windows))

    def _begin(self, endings: np.ndarray) -> None:
        self._endings = endings
        self._left = self.states.new_zeros(endings.shape[1], self.states.shape[1])

    def give_back(self, memory: EntityMemory, window: Window, part: slice) -> EntityMemory:
        """The memory of the streams ``part`` as the window begins: rows of documents that start in
        it as they were kept.
        """
        streams, rows = window.starting[part].nonzero()
        chains = torch.from_numpy(window.starting[part][streams, rows])
        vectors = self.states[chains.to(self.states.device)]
        return memory.put(torch.from_numpy(streams), torch.from_numpy(rows), vectors)

    def take(self, memory: EntityMemory, index: int, part: slice) -> None:
        """Note the rows of the documents that ended in the step's window ``index`` of the streams
        ``part``, as ``memory`` holds them.
        """
        window, stream, row, _ = self._endings
        chosen = np.flatnonzero((window == index) & (stream >= part.start) & (stream < part.stop))
        where = (torch.from_numpy(stream[chosen] - part.start), torch.from_numpy(row[chosen]))
        self._left[torch.from_numpy(chosen)] = memory.states.detach()[where]

    def load(self, states: Tensor) -> None:
        """Take the states [C + 1, W] of a checkpoint."""
        self.states = states.to(self.states.device)

    def commit(self, world: World) -> None:
        """The step has ended: keep what all processes noted."""
        if self._endings.shape[1]:
            chains = torch.from_numpy(self._endings[3]).to(self.states.device)
            self.states[chains] = world.sum(self._left)


def last_endings(windows: Sequence[Window]) -> np.ndarray:
    """Window, stream, row and chain (int64 [4, n]) of every chain that ends in the step, the last
    time it does, by window and stream.
    """
    endings = np.stack([window.ending for window in windows])
    places = np.array(endings.nonzero())
    chains = endings[tuple(places)]
    _, reverse = np.unique(chains[::-1], return_index=True)
    last = np.sort(len(chains) - 1 - reverse)
    return np.concatenate([places[:, last], chains[None, last]])
