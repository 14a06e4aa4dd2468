"""XLNet (Yang et al., 2019): a permutation language model on Transformer-XL's layers.

A token is predicted by a query, which knows its place but not its content, from the tokens that
stand before it in some order. Which order is a matter of masks alone: in training a random one,
whose last tokens are predicted; from left to right where it is to be a causal model; and none for
vectors of words, so that every token sees all. The layers are transformers' with ``attn_type``
"bi", called here, as Transformer-XL's are, with masks that end at the begin of each row's document.

Dimensions: B rows side by side, T tokens, M tokens of memory, P predicted ones, L layers, W width.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import XLNetConfig

from entity_transformers.corpus.windows import Window
from entity_transformers.kinds import KINDS, ModelEntry
from entity_transformers.kinds.params import XLNetParams
from entity_transformers.models.base import IGNORED, Batch, refuse_context
from entity_transformers.models.transformer_xl import (
    SegmentMemory,
    TransformerXL,
    build_module,
    load_module,
    number_documents,
    shape,
)

FIRST = -1  # the rank of tokens before all those that are predicted, which see each other


@dataclass(frozen=True)
class Queries:
    """What is asked of a window.

    places  float [P, T, B]: 1 where the query stands; None: query t stands at token t
    seen    bool [B, T, M + T]: the tokens that a query at each place reads
    """

    places: Tensor | None
    seen: Tensor


class XLNet(TransformerXL):
    """An XLNetLMHeadModel as the steps see it: `encode` is from left to right, `encoder` reads both
    sides.
    """

    kind = KINDS["xlnet"]
    objective = "permuted"

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self._read = read_streams
        self.from_both_sides = False

    def encode(self, batch: Batch, state: SegmentMemory) -> tuple[Tensor, SegmentMemory]:
        refuse_context(batch, "an XLNet")
        if self.from_both_sides:
            ranks = torch.full_like(batch.tokens, FIRST)
            return self._encode(batch, state, self._see(batch, state, ranks)[1], None)
        window = batch.tokens.shape[1]
        # the query after the last token needs a place, at which a token stands that none reads
        longer = replace(
            batch,
            tokens=functional.pad(batch.tokens, (0, 1)),
            begins=None if batch.begins is None else functional.pad(batch.begins, (0, 1)),
            lengths=None,  # padding is later than every token
        )
        ranks = torch.arange(window + 1, device=batch.tokens.device).expand_as(longer.tokens)
        # each query reads what the token before it reads: of that one's document, if a new begins
        own = self._see(longer, state, ranks)[1]
        seen = own.roll(1, dims=1)
        seen[:, 0] = seen[:, 1]  # nobody asks for the first, but its softmax wants something
        hidden, state = self._encode(longer, state, own, Queries(None, seen), read=window)
        return hidden[:, 1:], state

    def encoder(self, layers: bool = False) -> XLNet:
        """Its vectors are of tokens that see all of their window."""
        made = copy(self)
        made.from_both_sides = True
        return made

    def draw(self, window: Window, params: XLNetParams, generator: np.random.Generator) -> Window:
        firsts = window.positions == 0
        chosen = choose_spans(~firsts, params.partial_prediction, params.longest_span, generator)
        order = np.where(chosen, generator.random(chosen.shape), 2.0).argsort(1).argsort(1)
        targets = np.where(chosen, window.tokens, IGNORED)
        return replace(window, targets=targets, more={"ranks": np.where(chosen, order, FIRST)})

    def sum_losses(
        self,
        batch: Batch,
        targets: Tensor,
        state: SegmentMemory,
        share: float,
        params: XLNetParams,
    ) -> tuple[Tensor, SegmentMemory]:
        """Nats of the tokens that are predicted, each after those before it in its order."""
        ranks = batch.more["ranks"]
        # rows predict different numbers of tokens: spare queries ask for one that does not count
        count = max(1, int((ranks != FIRST).sum(1).max()))
        columns = (-ranks).argsort(1)[:, :count]
        seen, own = self._see(batch, state, ranks)
        places = functional.one_hot(columns, batch.tokens.shape[1]).permute(1, 2, 0)
        queries = Queries(places.to(self.module.dtype), seen)
        hidden, state = self._encode(batch, state, own, queries)
        return self.nats(hidden, targets.gather(1, columns)).sum(), state

    def _see(self, batch: Batch, state: SegmentMemory, ranks: Tensor) -> tuple[Tensor, Tensor]:
        """Which tokens a query and a token at each place read, bool [B, T, M + T] each."""
        documents, valid = number_documents(batch), batch.valid
        if valid is not None:
            documents = documents.masked_fill(~valid, -1)
        return see(documents, state.held, self.memory_tokens, ranks)

    def _encode(
        self,
        batch: Batch,
        state: SegmentMemory,
        seen: Tensor,
        queries: Queries | None,
        read: int | None = None,
    ) -> tuple[Tensor, SegmentMemory]:
        """Final states of the queries [B, P, W], or of the tokens [B, T, W] where nothing is asked,
        and the memory after the first ``read`` tokens; None: all. ``seen``: what the tokens read.
        """
        hidden, inputs = self._read(
            self.module.transformer,
            batch.tokens,
            state.hidden,
            seen,
            queries,
            self.recompute and self.module.training,
        )
        return hidden, state.add(inputs[:, :, :read], number_documents(batch)[:, :read])


def read_streams(
    transformer: Any,
    tokens: Tensor,
    memory: Tensor,
    seen: Tensor,
    queries: Queries | None,
    recompute: bool,
) -> tuple[Tensor, Tensor]:
    """Final hidden states of the queries [B, P, W], or of tokens [B, T] where there are none, and
    what each layer was given of the tokens [B, L, T, W] (section 2.3, "two-stream attention").

    ``memory`` [B, L, M, W] as in `SegmentMemory`; ``seen`` bool [B, T, M + T]: what the tokens
    read; ``recompute``: layers are computed again in the backward pass.
    """
    rows, window = tokens.shape
    states = transformer.dropout(transformer.word_embedding(tokens.T))
    # one row for all, as in the paper's program, where transformers' model has one per row
    distances = transformer.relative_positional_encoding(
        window, memory.shape[2] + window, device=tokens.device
    )
    distances = transformer.dropout(distances).to(states.dtype)
    asked, places, hidden_from_asked = None, None, None
    if queries is not None:
        count = window if queries.places is None else len(queries.places)
        asked = transformer.dropout(transformer.mask_emb.expand(count, rows, -1))
        places, hidden_from_asked = queries.places, hide(queries.seen, states)
    inputs, hidden_from_states = [], hide(seen, states)
    for index, layer in enumerate(transformer.layer):
        inputs.append(states)
        earlier = memory[:, index].transpose(0, 1)
        given = (states, asked, hidden_from_states, hidden_from_asked, distances, None, earlier)
        states, asked = (
            checkpoint(layer, *given, places, use_reentrant=False)
            if recompute
            else layer(*given, places)
        )[:2]
    found = transformer.dropout(states if asked is None else asked)
    return found.transpose(0, 1), torch.stack(inputs).permute(2, 0, 1, 3)


def see(documents: Tensor, held: Tensor, memory: int, ranks: Tensor) -> tuple[Tensor, Tensor]:
    """Which tokens a query, and which a token reads at each place, bool [B, T, M + T] each: those
    of its document with a lower rank, the token itself as well, and what the memory holds of it.
    Those of rank -1 read each other.

    ``documents`` int64 [B, T]: 0 in the document that the memory is of, then 1, 2, ..., -1 for
    padding; ``held`` int64 [B]: how many of the memory's ``memory`` latest tokens are of it;
    ``ranks`` int64 [B, T]: the order.
    """
    ages = torch.arange(memory, 0, -1, device=held.device)
    remembered = (documents == 0)[:, :, None] & (ages <= held[:, None])[:, None]
    together = documents[:, :, None] == documents[:, None]
    earlier = (ranks[:, None] < ranks[:, :, None]) | (ranks[:, None] == FIRST)
    itself = torch.eye(ranks.shape[1], dtype=torch.bool, device=ranks.device)
    return (
        torch.cat([remembered, together & earlier], dim=2),
        torch.cat([remembered, together & (earlier | itself)], dim=2),
    )


def hide(seen: Tensor, like: Tensor) -> Tensor:
    """As transformers' layers want it: [P, M + T, B, 1], 1 where nothing is seen; the dtype of
    ``like``.
    """
    return (~seen).to(like.dtype).permute(1, 2, 0)[..., None]


def choose_spans(
    text: np.ndarray, partial: float, longest: int, generator: np.random.Generator
) -> np.ndarray:
    """Which tokens are predicted, bool [B, T]: each run of ``text`` (bool [B, T]) is cut into
    contexts of K L tokens, L of 1 ... ``longest`` and K = ``partial``, and a span of L is taken of
    each (section 3.1); of the n tokens that are left at its end n / K, rounded at random.
    """
    chosen = np.zeros_like(text)
    for row, allowed in enumerate(text):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], allowed.astype(np.int8), [0]])))
        for start, end in edges.reshape(-1, 2):
            while start < end:
                wanted = int(generator.integers(1, longest + 1))
                context = round(partial * wanted)
                if context > end - start:
                    context = end - start
                    wanted = min(context, int(context / partial + generator.random()))
                first = start + generator.integers(0, context - wanted + 1)
                chosen[row, first : first + wanted] = True
                start += context
    return chosen


def build_config(entry: ModelEntry, vocabulary: int, end: int) -> XLNetConfig:
    """The transformers config; ``end`` is the id of ``<|endoftext|>``."""
    return XLNetConfig(**shape(entry.lm, vocabulary, end), attn_type="bi")


def build(entry: ModelEntry, vocabulary: int, end: int, seed: int) -> XLNet:
    """An XLNet with random weights from ``seed``, or those of ``initial_weights``; weights of
    another shape raise ValueError.
    """
    return XLNet(build_module(entry.lm, build_config(entry, vocabulary, end), seed))


def load(folder: Path) -> XLNet:
    """A saved XLNet in float32; none saved there: FileNotFoundError."""
    return XLNet(load_module(folder, "bi"))
