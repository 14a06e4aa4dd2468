"""A bidirectional language model (ELMo; Peters et al., 2018, section 3.1): an LSTM language model
that reads from left to right and one that reads from right to left, with one token layer and one
softmax. TagLM (Peters et al., 2017) has the same model; its tagger reads only the top LSTM layer.

The forward half is a causal language model, and `ELMo.encode` returns its states alone. The
backward half runs in training and for vectors of words and mentions (`ELMo.encoder`); it starts
from zeros at each document's last token in a window, and its state is not carried to other windows.

Dimensions: B rows side by side, T tokens, L layers, W width, H units of an LSTM (W without a
projection).
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from entity_transformers.kinds import KINDS
from entity_transformers.models.base import IGNORED, Batch
from entity_transformers.models.lstm import Recurrent, RecurrentState, Stack


class Network(nn.Module):
    """Both halves and what they share: embeddings, and a projection before the softmax, whose
    weights are the embeddings again (as in `lstm`). Its values are those of `ELMoParams`.
    """

    def __init__(
        self, vocabulary: int, width: int, layers: int, dropout: float, hidden: int | None = None
    ) -> None:
        super().__init__()
        self.width, self.layers, self.hidden = width, layers, hidden
        self.embeddings = nn.Embedding(vocabulary, width)
        sizes = [(width, hidden or width, width)] * layers
        self.forward_half = Stack(sizes, dropout, residual=True)
        self.backward_half = Stack(sizes, dropout, residual=True)
        self.dropout = nn.Dropout(dropout)
        self.projection = nn.Linear(width, width)
        nn.init.uniform_(self.embeddings.weight, -0.1, 0.1)

    def predict(self, outputs: Tensor) -> Tensor:
        """Map a half's last outputs to the hidden states [B, T, W] that give the logits."""
        return self.projection(self.dropout(outputs))


class ELMo(Recurrent):
    """A `LanguageModel` around a `Network`."""

    kind = KINDS["elmo"]
    network = Network
    shape = ("width", "layers", "dropout", "hidden")
    given: tuple[int, ...] = ()
    """The layers that `encode` returns side by side, 0 the token layer; if empty, hidden states."""

    def start(self, rows: int, entities: int = 0) -> RecurrentState:
        network, weight = self.module, self.output_weight
        hidden = weight.new_zeros(rows, network.layers, network.width)
        cell = weight.new_zeros(rows, network.layers, network.hidden or network.width)
        return RecurrentState(hidden, cell)

    def encode(self, batch: Batch, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Return hidden states [B, T, W] of the forward half, or the vectors of an `encoder`."""
        network, order = self.module, mirror(batch)
        embedded = network.embeddings(batch.tokens)
        ahead, state = self.run(network.forward_half, embedded, batch, state)
        if self.given:
            back = [turn(one, order) for one in self._read_back(turn(embedded, order), batch)]
            halves = zip([embedded, *ahead], [embedded, *back], strict=True)
            layers = [torch.cat(pair, -1) for pair in halves]
            return torch.cat([layers[i] for i in self.given], -1), state
        hidden = network.predict(ahead[-1])
        if not network.training:
            return hidden, state
        tokens = batch.tokens.gather(1, order)
        back = self._read_back(network.embeddings(tokens), batch)
        backward = network.predict(back[-1]), follow(tokens, batch.begins)
        return hidden, replace(state, backward=backward)

    def _read_back(self, turned: Tensor, batch: Batch) -> list[Tensor]:
        """Return the backward half's outputs by layer, [B, T, W], in its own reading order."""
        half = self.module.backward_half
        return self.run(half, turned, batch, self.start(len(turned)))[0]

    @property
    def word_layers(self) -> tuple[int, ...]:
        """The layers that a tagger reads: all of them."""
        return tuple(range(self.module.layers + 1))

    def encoder(self, layers: bool = False) -> Self:
        """Return a copy that gives [forward; backward] of the top layer, [B, T, 2 W], or with
        ``layers`` of all `word_layers` side by side, where the token layer occurs twice.
        """
        made = copy(self)
        made.given = self.word_layers if layers else (self.module.layers,)
        made.width = 2 * self.width * len(made.given)
        return made

    def split_layers(self, vectors: np.ndarray) -> dict[str, np.ndarray]:
        """Return ``vectors`` [N, L + 1, 2 W], whose layers a tagger mixes."""
        layers = len(self.word_layers)
        return {"vectors": vectors.reshape(len(vectors), layers, vectors.shape[1] // layers)}

    @property
    def parts(self) -> Sequence[nn.Module]:
        return [self.module.forward_half, self.module.backward_half]


class TagLM(ELMo):
    """An ELMo that gives a tagger other layers; the same values and seed give ELMo's weights."""

    kind = KINDS["taglm"]

    @property
    def word_layers(self) -> tuple[int, ...]:
        """The token layer and the top."""
        return (0, self.module.layers)

    def split_layers(self, vectors: np.ndarray) -> dict[str, np.ndarray]:
        """Return ``vectors`` [N, W], the token layer, for the tagger's first BiLSTM, and ``later``
        [N, 2 W], [forward; backward] of the top layer, which the second BiLSTM reads as well.
        """
        width = self.module.width
        return {"vectors": vectors[:, :width], "later": vectors[:, 2 * width :]}


def mirror(batch: Batch) -> Tensor:
    """Return columns int64 [B, T] that reverse the tokens within each document of the window, and
    leave the documents, and the padding after the last, where they are; their own inverse.
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
    """Return ``states`` [B, T, W] with their columns in another order [B, T]."""
    return states.gather(1, order[:, :, None].expand_as(states))


def follow(tokens: Tensor, begins: Tensor | None) -> Tensor:
    """Return each token's successor in its document, [B, T]; -100 where the window has none."""
    targets = tokens.roll(-1, 1)
    targets[:, -1] = IGNORED
    if begins is not None:
        targets[:, :-1].masked_fill_(begins[:, 1:], IGNORED)
    return targets
