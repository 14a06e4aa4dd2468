"""Transformer-XL (Dai et al., 2019), with segment recurrence and relative positions; and XLNet
(Yang et al., 2019), a permutation language model with the same layers.

The layers are transformers' XLNet's, which with ``attn_type`` "uni" are Transformer-XL's. Its model
lets every row see all of its memory, so the layers are called directly, with a mask that ends at
the beginning of each row's document. Segments and the output bias stay unused.

XLNet predicts a token by a query, which knows the token's position but not its content, from the
tokens that precede it in some order. The order is only a matter of masks: random in training, where
the last tokens of the order are predicted; left to right for a causal model; and none for vectors
of words, so that every token sees all.

Dimensions: B rows side by side, T tokens, M tokens of memory, P predicted ones, L layers, W width.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import XLNetConfig, XLNetLMHeadModel

from entity_transformers.artifacts import read_json
from entity_transformers.corpus.windows import Window
from entity_transformers.kinds import KINDS, ModelEntry
from entity_transformers.kinds.params import XLNetParams
from entity_transformers.models.base import IGNORED, Batch, State, refuse_context
from entity_transformers.models.folders import Pretrained

FIRST = -1  # the rank of the tokens that precede all predicted ones and see each other
NAMES = {"uni": "a Transformer-XL", "bi": "an XLNet"}


@dataclass(frozen=True)
class SegmentMemory(State):
    """Hidden states of the latest tokens of B rows.

    hidden  [B, L, M, W]  the input of each layer at these tokens, oldest first
    held    int64 [B]     how many of them, counted from the latest, are of the row's document
    """

    hidden: Tensor
    held: Tensor

    def add(self, inputs: Tensor, documents: Tensor) -> SegmentMemory:
        """Return the memory after a window with ``inputs`` of its layers [B, L, T, W], and with
        ``documents`` int64 [B, T] (`number_documents`).
        """
        tokens, memory = documents.shape[1], self.hidden.shape[2]
        last = documents[:, -1:]
        held = (documents == last).sum(1) + self.held.masked_fill(last[:, 0] > 0, 0)
        hidden = torch.cat([self.hidden, inputs], dim=2)[:, :, tokens:]
        return SegmentMemory(hidden, held.clamp(max=memory))


class TransformerXL(Pretrained):
    """A `LanguageModel` around an XLNetLMHeadModel that reads from left to right."""

    kind = KINDS["transformer-xl"]
    of = XLNetLMHeadModel
    direction = "uni"
    activation, epsilon = "relu", 1e-5  # as in the paper's code

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.context = None
        set_unused_aside(module, permuted=self.direction == "bi")
        self.memory_tokens = module.config.mem_len

    @property
    def parts(self) -> Sequence[nn.Module]:
        return self.module.transformer.layer

    def block_states(self, found: Any) -> Tensor:
        return super().block_states(found).transpose(0, 1)  # blocks have [T, B, W]

    def start(self, rows: int, entities: int = 0) -> SegmentMemory:
        layers, device = self.module.config.n_layer, self.device
        hidden = torch.zeros(rows, layers, self.memory_tokens, self.width, device=device)
        return SegmentMemory(hidden, torch.zeros(rows, dtype=torch.int64, device=device))

    def encode(self, batch: Batch, state: SegmentMemory) -> tuple[Tensor, SegmentMemory]:
        ranks = torch.arange(batch.tokens.shape[1], device=batch.tokens.device)
        return self._read(batch, state, see(batch, state, ranks.expand_as(batch.tokens))[1])

    def _read(
        self,
        batch: Batch,
        state: SegmentMemory,
        seen: Tensor,
        asked: Tensor | None = None,
        places: Tensor | None = None,
        read: int | None = None,
    ) -> tuple[Tensor, SegmentMemory]:
        """Return the final states of the queries [B, P, W], or those of the tokens [B, T, W] if
        there are none (section 2.3, "two-stream attention"), and the memory after the first
        ``read`` tokens; None: all. ``seen`` bool [B, T, M + T]: the tokens that each token sees;
        ``asked`` likewise for a query at each position; ``places`` float [P, T, B]: 1 at the token
        of each query; None: query t stands at token t.
        """
        refuse_context(batch, NAMES[self.direction])
        transformer, (rows, window) = self.module.transformer, batch.tokens.shape
        states = transformer.dropout(transformer.word_embedding(batch.tokens.T))
        # shared by all rows, as in the paper's code; transformers' model has one set per row
        distances = transformer.relative_positional_encoding(
            window, self.memory_tokens + window, device=self.device
        )
        distances = transformer.dropout(distances).to(states.dtype)
        queries = None
        if asked is not None:
            count = window if places is None else len(places)
            queries = transformer.dropout(transformer.mask_emb.expand(count, rows, -1))
        masks = hide(seen, states), None if asked is None else hide(asked, states)
        inputs = []
        for index, layer in enumerate(self.parts):
            inputs.append(states)
            earlier = state.hidden[:, index].transpose(0, 1)
            states, queries = layer(states, queries, *masks, distances, None, earlier, places)[:2]
        found = transformer.dropout(states if queries is None else queries)
        left = torch.stack(inputs).permute(2, 0, 1, 3)[:, :, :read]
        return found.transpose(0, 1), state.add(left, number_documents(batch)[:, :read])

    @classmethod
    def configure(cls, entry: ModelEntry, vocabulary: int, end: int) -> Any:
        lm = entry.lm
        memory = lm.window if lm.memory_tokens is None else lm.memory_tokens
        return XLNetConfig(
            vocab_size=vocabulary,
            d_model=lm.width,
            n_layer=lm.layers,
            n_head=lm.heads,
            d_inner=4 * lm.width,
            dropout=lm.dropout,
            mem_len=memory,
            # with a mem_len of 0 transformers would keep everything
            use_mems_eval=memory > 0,
            use_mems_train=memory > 0,
            bos_token_id=end,
            eos_token_id=end,
            pad_token_id=end,
            attn_type=cls.direction,
            ff_activation=cls.activation,
            layer_norm_eps=cls.epsilon,
        )

    @classmethod
    def check_type(cls, folder: Path, expected: Collection[str]) -> None:
        super().check_type(folder, expected)
        found = read_json(folder / "config.json").get("attn_type", "bi")
        if found != cls.direction:
            raise ValueError(
                f"{folder}: an XLNet with attn_type {found!r}, expected {cls.direction!r} of"
                f" {NAMES[cls.direction]}: name another folder"
            )


class XLNet(TransformerXL):
    """A `LanguageModel` around an XLNetLMHeadModel: `encode` reads from left to right, the
    `encoder` from both sides.
    """

    kind = KINDS["xlnet"]
    objective = "permuted"
    direction = "bi"
    activation, epsilon = "gelu", 1e-12
    from_both_sides = False

    def encode(self, batch: Batch, state: SegmentMemory) -> tuple[Tensor, SegmentMemory]:
        if self.from_both_sides:
            ranks = torch.full_like(batch.tokens, FIRST)
            return self._read(batch, state, see(batch, state, ranks)[1])
        window = batch.tokens.shape[1]
        # the query after the last token needs a position: pad with a token that no other sees
        longer = replace(
            batch,
            tokens=functional.pad(batch.tokens, (0, 1)),
            begins=None if batch.begins is None else functional.pad(batch.begins, (0, 1)),
        )
        ranks = torch.arange(window + 1, device=batch.tokens.device).expand_as(longer.tokens)
        # each query sees what the token before it sees, even if a document begins at the query
        own = see(longer, state, ranks)[1]
        asked = own.roll(1, dims=1)
        asked[:, 0] = asked[:, 1]  # the first query is unused, but its softmax needs a token
        hidden, state = self._read(longer, state, own, asked, read=window)
        return hidden[:, 1:], state

    def encoder(self, layers: bool = False) -> Self:
        """Return a copy whose vectors are those of tokens that see all of their window."""
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
        self, batch: Batch, targets: Tensor, state: SegmentMemory, share: float, params: XLNetParams
    ) -> tuple[Tensor, SegmentMemory]:
        """Sum the nats of the predicted tokens, each given those before it in its row's order."""
        ranks = batch.more["ranks"]
        # rows predict different numbers of tokens: the targets of spare queries are ignored
        count = max(1, int((ranks != FIRST).sum(1).max()))
        columns = (-ranks).argsort(1)[:, :count]
        asked, own = see(batch, state, ranks)
        places = functional.one_hot(columns, batch.tokens.shape[1]).permute(1, 2, 0)
        hidden, state = self._read(batch, state, own, asked, places.to(self.module.dtype))
        return self.nats(hidden, targets.gather(1, columns)).sum(), state


def number_documents(batch: Batch) -> Tensor:
    """Number the documents, int64 [B, T]: 0 for the one of a row's state, then 1, 2, ..."""
    begins = torch.zeros_like(batch.tokens) if batch.begins is None else batch.begins
    return begins.cumsum(1)


def see(batch: Batch, state: SegmentMemory, ranks: Tensor) -> tuple[Tensor, Tensor]:
    """Return which tokens a query and a token at each position see, bool [B, T, M + T] each: those
    of its document with a lower rank (``ranks`` int64 [B, T]), those of it in the memory, and for a
    token also itself. Tokens of rank -1 see each other; padding is a document of its own.
    """
    documents = number_documents(batch)
    if (valid := batch.valid) is not None:
        documents = documents.masked_fill(~valid, -1)
    ages = torch.arange(state.hidden.shape[2], 0, -1, device=ranks.device)
    remembered = (documents == 0)[:, :, None] & (ages <= state.held[:, None])[:, None]
    together = documents[:, :, None] == documents[:, None]
    earlier = (ranks[:, None] < ranks[:, :, None]) | (ranks[:, None] == FIRST)
    itself = torch.eye(ranks.shape[1], dtype=torch.bool, device=ranks.device)
    return (
        torch.cat([remembered, together & earlier], dim=2),
        torch.cat([remembered, together & (earlier | itself)], dim=2),
    )


def hide(seen: Tensor, like: Tensor) -> Tensor:
    """Return the mask that transformers' layers expect, [P, M + T, B, 1] in the dtype of ``like``:
    1 where nothing is seen.
    """
    return (~seen).to(like.dtype).permute(1, 2, 0)[..., None]


def choose_spans(
    text: np.ndarray, partial: float, longest: int, generator: np.random.Generator
) -> np.ndarray:
    """Choose the tokens to predict, bool [B, T]: each run of ``text`` (bool [B, T]) is cut into
    contexts of K L tokens, with L drawn from 1 ... ``longest`` and K = ``partial``, and a span of L
    tokens is taken of each (section 3.1); of the n tokens left at its end, n / K, randomly rounded.
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


def set_unused_aside(module: Any, permuted: bool = False) -> None:
    """Turn the parameters for segments, an output bias and, if not ``permuted``, the queries of a
    permutation model into buffers of zeros: they are neither trained nor counted, but are saved to
    the folder for transformers.
    """
    owners = [(module.lm_loss, "bias")]
    if not permuted:
        owners.append((module.transformer, "mask_emb"))
    for layer in module.transformer.layer:
        owners += [(layer.rel_attn, "r_s_bias"), (layer.rel_attn, "seg_embed")]
    for owner, name in owners:
        zeros = torch.zeros_like(getattr(owner, name).data)
        delattr(owner, name)
        owner.register_buffer(name, zeros)
