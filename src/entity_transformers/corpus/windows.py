"""Which tokens a training step sees: a pure function of (corpus, seed, step), so that resuming
needs no loader state.

Each of B streams reads documents one after another, in an order drawn anew each epoch, and is cut
into windows without gaps, so nothing is padded. Where a document ends inside a window the next one
begins: positions restart at 0, attention stays within a document, and its entities get rows of the
memory that no other document in the window uses.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from entity_transformers.corpus.alignment import AlignedCorpus


@dataclass(frozen=True)
class Stream:
    """The K documents of a stream, their starts in it, and their first memory rows minus 1."""

    documents: np.ndarray
    starts: np.ndarray
    rows: np.ndarray


@dataclass(frozen=True)
class Window:
    """One window of B streams side by side; T tokens each.

    tokens, targets  int64 [B, T]: inputs and the tokens that follow them
    entity_ids       int64 [B, T]: rows of the stream's memory, 0 for none
    positions        int64 [B, T]: place in the document's part of the window
    begins           bool [B, T]: whether a document begins with the token
    words            int64 [B, T]: index in its document of the word that a token is part of; -1 for
                     the first token of a document
    starting         int64 [B, rows + 1]: chains of documents that start in this window, by memory
                     row; 0 elsewhere
    ending           int64 [B, rows + 1]: likewise the chains of documents that end in this window
    documents        names of the documents read, stream by stream
    more             further arrays an objective draws (`LanguageModel.draw`), by name, [B, ...]

    Chains are numbered from 1 across the whole split. A chain that a stream reads to its end twice
    in a window ends once, the second time.
    """

    tokens: np.ndarray
    targets: np.ndarray
    entity_ids: np.ndarray
    positions: np.ndarray
    begins: np.ndarray
    words: np.ndarray
    starting: np.ndarray
    ending: np.ndarray
    documents: tuple[str, ...]
    more: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def packed(self) -> bool:
        """Whether any stream holds tokens of more than one document."""
        return bool((self.positions[:, 1:] == 0).any())

    @property
    def new_rows(self) -> np.ndarray:
        """Rows, bool [B, rows + 1], whose document starts in this window; they are set anew."""
        return self.starting > 0


class WindowPlan:
    """The windows of a training run: ``plan[i]`` is the i-th window of all streams."""

    def __init__(
        self, corpus: AlignedCorpus, *, streams: int, window: int, windows: int, seed: int
    ) -> None:
        self.corpus, self.window = corpus, window
        self.lengths = np.diff(corpus.offsets) - 1
        if not (self.lengths > 0).any():
            raise ValueError(
                f"split {corpus.split!r} has no document with words: nothing to train on"
            )
        self.given = np.zeros_like(corpus.gold) if corpus.given is None else corpus.given
        self.entities = corpus.highest(self.given)
        self.first_chains = np.cumsum(self.entities) - self.entities  # each first chain, minus 1
        how = {"streams": streams, "window": window, "tokens": windows * window, "seed": seed}
        self.streams = plan_streams(self.lengths, self.entities, **how)
        self.rows = max(
            int((stream.rows + self.entities[stream.documents]).max()) for stream in self.streams
        )

    def __getitem__(self, index: int) -> Window:
        streams = [self._stream_window(stream, index * self.window) for stream in self.streams]
        stacked: dict[str, Any] = {
            name: np.stack([arrays[name] for arrays, _ in streams]) for name in streams[0][0]
        }
        return Window(**stacked, documents=tuple(name for _, names in streams for name in names))

    def _stream_window(
        self, stream: Stream, start: int
    ) -> tuple[dict[str, np.ndarray], Sequence[str]]:
        end, corpus = start + self.window, self.corpus
        places = np.arange(start, end)
        order = np.searchsorted(stream.starts, places, side="right") - 1  # of each token's document
        begin = stream.starts[order]
        where = corpus.offsets[stream.documents[order]] + places - begin
        entity = self.given[where].astype(np.int64)
        starting, ending = np.zeros((2, self.rows + 1), np.int64)
        read = np.unique(order)
        for document, first, row in zip(
            stream.documents[read], stream.starts[read], stream.rows[read], strict=True
        ):
            chains = self.first_chains[document] + 1 + np.arange(self.entities[document])
            rows = slice(row + 1, row + 1 + len(chains))
            if first >= start:
                starting[rows] = chains
            if first + self.lengths[document] <= end:
                ending[np.isin(ending, chains)] = 0
                ending[rows] = chains
        arrays = {
            "tokens": corpus.tokens[where].astype(np.int64),
            "targets": corpus.tokens[where + 1].astype(np.int64),
            "entity_ids": np.where(entity > 0, entity + stream.rows[order], 0),
            "positions": places - np.maximum(begin, start),
            "begins": places == begin,
            "words": corpus.words[where].astype(np.int64),
            "starting": starting,
            "ending": ending,
        }
        return arrays, [corpus.names[document] for document in stream.documents[read]]


def plan_streams(
    lengths: np.ndarray, entities: np.ndarray, *, streams: int, window: int, tokens: int, seed: int
) -> list[Stream]:
    """Deal documents to the shortest stream until each has ``tokens`` predictions."""
    dealt: list[list[int]] = [[] for _ in range(streams)]
    totals = [(0, stream) for stream in range(streams)]
    epoch = 0
    while totals[0][0] < tokens:
        for document in np.random.default_rng([seed, epoch]).permutation(len(lengths)):
            if lengths[document] > 0:
                total, stream = heapq.heappop(totals)
                dealt[stream].append(int(document))
                heapq.heappush(totals, (total + int(lengths[document]), stream))
        epoch += 1
    return [_place(np.array(documents), lengths, entities, window) for documents in dealt]


def _place(documents: np.ndarray, lengths: np.ndarray, entities: np.ndarray, window: int) -> Stream:
    """Find where a stream's documents start, and the lowest memory rows that are free there."""
    starts = np.concatenate([[0], np.cumsum(lengths[documents])[:-1]])
    rows = np.zeros(len(documents), np.int64)
    # (row, end row, end position) of the documents in the current window
    taken: list[tuple[int, int, int]] = []
    for k, (document, start) in enumerate(zip(documents, starts, strict=True)):
        taken = sorted(t for t in taken if t[2] > start // window * window)
        for low, high, _ in taken:
            if rows[k] + entities[document] > low and rows[k] < high:
                rows[k] = high
        taken.append((rows[k], rows[k] + entities[document], start + lengths[document]))
    return Stream(documents, starts, rows)
