"""A bidirectional language model (ELMo; Peters et al., 2018, section 3.1): an LSTM language model
that reads from left to right and one that reads from right to left, with one token layer and one
softmax.

The forward half is a causal language model, and `ELMo.encode` is of it alone. The backward half is
read in training, and for vectors of words and mentions (`ELMo.encoder`); it begins with zeros at
each document's last token in a window, and nothing goes on from one window to another.

Dimensions: B rows side by side, T tokens, L layers, W width, H units of an LSTM (W without a
projection).
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from entity_transformers.kinds import KINDS, ModelEntry
from entity_transformers.models.base import IGNORED, Batch, opened
from entity_transformers.models.lstm import (
    Recurrent,
    RecurrentState,
    read_network,
    save_network,
    split_window,
)


@dataclass(frozen=True)
class ReadState(RecurrentState):
    """The forward half's (h, c) after a window of training, with what the backward half predicted
    in it: hidden states [B, T, W] and tokens [B, T], -100 for none. No state made from this one
    has that.
    """

    backward: tuple[Tensor, Tensor] | None = None


class Half(nn.Module):
    """L layers of LSTM in one direction, each with a dropout before it.

    ``hidden``: units of each, projected to the width; None: the width, and no projection.
    ``residual``: from the second layer on the inputs are added to the outputs.
    """

    def __init__(
        self, width: int, layers: int, dropout: float, hidden: int | None, residual: bool
    ) -> None:
        super().__init__()
        projected = 0 if hidden is None else width
        self.layers: Any = nn.ModuleList(
            nn.LSTM(width, hidden or width, batch_first=True, proj_size=projected)
            for _ in range(layers)
        )
        self.dropout, self.residual = nn.Dropout(dropout), residual

    def forward(
        self, inputs: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[tuple[Tensor, ...], Tensor, Tensor]:
        """Each layer's outputs [B, T, W] for inputs [B, T, W], and (h, c) after them, [B, L, W] and
        [B, L, H]; they begin with ``hidden`` and ``cell``.
        """
        outputs, ends, read = [], [], inputs
        for i, layer in enumerate(self.layers):
            given = self.dropout(read)
            start = (hidden[None, :, i].contiguous(), cell[None, :, i].contiguous())
            read, end = layer(given, start)
            if self.residual and i:
                read = read + given
            outputs.append(read)
            ends.append(end)
        h, c = (torch.cat(states).transpose(0, 1) for states in zip(*ends, strict=True))
        return tuple(outputs), h, c


class Network(nn.Module):
    """Both halves, and what they share: embeddings, and a projection with the embeddings again as
    the softmax (tied, as in `lstm`).
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        layers: int,
        dropout: float,
        hidden: int | None = None,
        residual: bool = True,
    ) -> None:
        super().__init__()
        self.hidden, self.residual = hidden, residual
        self.embeddings = nn.Embedding(vocabulary, width)
        self.forward_half = Half(width, layers, dropout, hidden, residual)
        self.backward_half = Half(width, layers, dropout, hidden, residual)
        self.dropout = nn.Dropout(dropout)
        self.projection = nn.Linear(width, width)
        nn.init.uniform_(self.embeddings.weight, -0.1, 0.1)

    @property
    def layers(self) -> int:
        """L."""
        return len(self.forward_half.layers)

    def predict(self, outputs: Tensor) -> Tensor:
        """Hidden states [B, T, W], whose product with the embeddings gives the logits, of a half's
        last outputs [B, T, W].
        """
        return self.projection(self.dropout(outputs))


class ELMo(Recurrent):
    """A `Network` as the steps see it."""

    kind = KINDS["elmo"]
    module: Network

    def __init__(self, module: Network) -> None:
        self.module, self.width = module, module.embeddings.embedding_dim
        self.given: tuple[int, ...] = ()

    def start(self, rows: int, entities: int = 0) -> RecurrentState:
        network, weight = self.module, self.output_weight
        hidden = weight.new_zeros(rows, network.layers, weight.shape[1])
        cell = weight.new_zeros(rows, network.layers, network.hidden or weight.shape[1])
        return RecurrentState(hidden, cell)

    def encode(self, batch: Batch, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Hidden states [B, T, W] of the forward half, and the state that it leaves; of an
        `encoder` its vectors.
        """
        network, order = self.module, mirror(batch)
        embedded = network.embeddings(batch.tokens)
        ahead, state = self._read(network.forward_half, embedded, batch, state)
        if self.given:
            back = [
                turn(outputs, order) for outputs in self._read_back(turn(embedded, order), batch)
            ]
            layers = [torch.cat(pair, -1) for pair in zip(ahead, back, strict=True)]
            layers.insert(0, torch.cat([embedded, embedded], -1))
            return torch.cat([layers[i] for i in self.given], -1), state
        hidden = network.predict(ahead[-1])
        if not network.training:
            return hidden, state
        tokens = batch.tokens.gather(1, order)
        back = self._read_back(network.embeddings(tokens), batch)
        backward = network.predict(back[-1]), follow(tokens, batch.begins)
        return hidden, ReadState(state.hidden, state.cell, backward=backward)

    def _read_back(self, turned: Tensor, batch: Batch) -> list[Tensor]:
        """Each layer's outputs [B, T, W] of the backward half for embeddings [B, T, W], both in the
        order in which it reads.
        """
        half = self.module.backward_half
        return self._read(half, turned, batch, self.start(len(turned)))[0]

    def _read(
        self, half: Half, embedded: Tensor, batch: Batch, state: RecurrentState
    ) -> tuple[list[Tensor], RecurrentState]:
        """Each layer's outputs [B, T, W], with zeros as the state where a document begins."""
        parts = []
        for start, end in split_window(batch):
            if batch.begins is not None:
                state = state.reset(batch.begins[:, start])
            inputs = embedded[:, start:end], state.hidden, state.cell
            outputs, h, c = self.read_part(half, *inputs)
            state = RecurrentState(h, c)
            parts.append(outputs)
        return [torch.cat(layer, dim=1) for layer in zip(*parts, strict=True)], state

    def backward_half(self, state: RecurrentState) -> tuple[Tensor, Tensor] | None:
        return state.backward if isinstance(state, ReadState) else None

    @property
    def word_layers(self) -> tuple[int, ...]:
        """The layers that a tagger reads, 0 the token layer: all of them."""
        return tuple(range(self.module.layers + 1))

    def encoder(self, layers: bool = False) -> ELMo:
        """It gives [forward; backward] of the top layer [B, T, 2 W], or with ``layers`` of all
        `word_layers` side by side; the token layer is there twice.
        """
        made = copy(self)
        made.given = self.word_layers if layers else (self.module.layers,)
        made.width = 2 * self.width * len(made.given)
        return made

    def split_layers(self, vectors: np.ndarray) -> dict[str, np.ndarray]:
        """``vectors`` [N, L + 1, 2 W]: a tagger mixes the layers."""
        layers = len(self.word_layers)
        return {"vectors": vectors.reshape(len(vectors), layers, vectors.shape[1] // layers)}

    def compile(self, mode: str) -> None:
        for half in (self.module.forward_half, self.module.backward_half):
            half.compile(mode=mode)

    def save(self, folder: Path) -> None:
        network = self.module
        shape = {
            "model_type": self.kind.name,
            "vocabulary": network.embeddings.num_embeddings,
            "width": network.embeddings.embedding_dim,
            "layers": network.layers,
            "dropout": network.dropout.p,
            "hidden": network.hidden,
            "residual": network.residual,
        }
        save_network(folder, shape, network.state_dict())


def mirror(batch: Batch) -> Tensor:
    """Columns int64 [B, T] that turn round the tokens of each document of the window, and leave the
    documents, and the padding after the last, where they are; its own inverse.
    """
    rows, window = batch.tokens.shape
    places = torch.arange(window, device=batch.tokens.device)
    first = torch.zeros(rows, window + 1, dtype=torch.bool, device=batch.tokens.device)
    first[:, [0, window]] = True
    if batch.begins is not None:
        first[:, :window] |= batch.begins
    if batch.valid is not None:
        first[:, 1:window] |= batch.valid[:, :-1] & ~batch.valid[:, 1:]
    start = places.where(first[:, :window], 0).cummax(1).values
    last = places.where(first[:, 1:], window).flip(1).cummin(1).values.flip(1)
    return start + last - places


def turn(states: Tensor, order: Tensor) -> Tensor:
    """``states`` [B, T, W] in another order of columns [B, T]."""
    return states.gather(1, order[:, :, None].expand_as(states))


def follow(tokens: Tensor, begins: Tensor | None) -> Tensor:
    """The token after each of tokens [B, T] in its document; -100 where the window has none."""
    targets = tokens.roll(-1, 1)
    targets[:, -1] = IGNORED
    if begins is not None:
        targets[:, :-1].masked_fill_(begins[:, 1:], IGNORED)
    return targets


def build(entry: ModelEntry, vocabulary: int, end: int, seed: int, of: type[ELMo] = ELMo) -> ELMo:
    """A model of class ``of`` with random weights from ``seed``, or those of ``initial_weights``;
    weights of another shape raise ValueError.
    """
    lm = entry.lm
    torch.manual_seed(seed)
    network = Network(vocabulary, lm.width, lm.layers, lm.dropout, lm.hidden, lm.residual)
    if lm.initial_weights is not None:
        folder = Path(lm.initial_weights)
        with opened(folder):
            shape, tensors = read_network(folder, of.kind.name, *of.kind.also)
        problem = f"{folder}: not an {KINDS['elmo'].label} checkpoint of this shape: "
        if shape["residual"] != lm.residual:
            raise ValueError(f"{problem}residual {shape['residual']} there, {lm.residual} here")
        try:
            network.load_state_dict(tensors)
        except RuntimeError as error:
            raise ValueError(f"{problem}{error}") from None
    return of(network)


def load(folder: Path, of: type[ELMo] = ELMo) -> ELMo:
    """A saved model in float32, of class ``of``; none saved there: FileNotFoundError."""
    with opened(folder):
        shape, tensors = read_network(folder, of.kind.name, *of.kind.also)
        del shape["model_type"]
        network = Network(**shape)
        network.load_state_dict(tensors)
    return of(network)
