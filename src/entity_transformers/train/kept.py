"""What outlives a document (``memory_life: epochs``): its entities' vectors, given back when
training reads it again.

Dimensions: B streams, R = entities + 1 rows of a stream's memory, C chains of the training split, W
width.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from entity_transformers.corpus.windows import Window
from entity_transformers.models.gpt2e.memory import EntityMemory


class KeptStates:
    """``states`` [C + 1, W]: each chain as the latest finished reading of its document left it,
    ones before the first; row 0 unused.

    A step gives back what was kept when it began, and keeps at its end what its documents left: of
    a chain that ended several times, in the last window and there in the last stream. 4 C W bytes.
    """

    def __init__(self, chains: int, width: int, device: torch.device) -> None:
        self.states = torch.ones(chains + 1, width, device=device)

    def begin(self, windows: Sequence[Window]) -> None:
        """A step of these windows begins."""
        ending = np.stack([window.ending for window in windows])
        window, stream, row = ending.nonzero()
        chain = ending[window, stream, row]
        ends = pd.DataFrame({"window": window, "stream": stream, "row": row, "chain": chain})
        self._ends = ends.drop_duplicates("chain", keep="last", ignore_index=True)
        self._left = self.states.new_zeros(len(self._ends), self.states.shape[1])

    def give_back(self, memory: EntityMemory, window: Window) -> EntityMemory:
        """The memory as the window begins: rows of documents that start in it as they were kept."""
        streams, rows = window.starting.nonzero()
        vectors = self.states[torch.from_numpy(window.starting[streams, rows])]
        return memory.put(torch.from_numpy(streams), torch.from_numpy(rows), vectors)

    def take(self, memory: EntityMemory, index: int) -> None:
        """Note the rows of the documents that ended in the step's window ``index``, as ``memory``
        holds them.
        """
        ends = self._ends[self._ends["window"] == index]
        streams, rows = torch.tensor(ends[["stream", "row"]].to_numpy()).T
        self._left[torch.tensor(ends.index.tolist(), dtype=torch.int64)] = memory.states.detach()[
            streams, rows
        ]

    def commit(self) -> None:
        """The step has ended: keep what was noted."""
        if len(self._ends):
            self.states[torch.tensor(self._ends["chain"].tolist())] = self._left
