"""An LSTM language model (Zaremba et al., 2014) with tied embeddings (Press and Wolf, 2017), by its
parameters an AWD-LSTM (Merity et al., 2018; `awd_lstm`).

Its (h, c) goes on from window to window of a document, so that it has no longest context; training
cuts the gradient between windows as it does for an entity memory. A document that begins inside a
packed window begins with zeros.

Dimensions: B rows side by side, T tokens, L layers, W width, S the largest width of a layer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from entity_transformers.artifacts import read_json, write_json, write_with
from entity_transformers.kinds import KINDS, ModelEntry
from entity_transformers.models.awd_lstm import (
    NO_MASKS,
    Layers,
    Masks,
    Rates,
    draw_masks,
    drop,
    penalise,
)
from entity_transformers.models.base import Batch, LanguageModel, opened, refuse_context
from entity_transformers.models.folders import check_type


@dataclass(frozen=True)
class RecurrentState:
    """``hidden`` and ``cell`` [B, L, S] after the tokens so far; zeros at a document's start.

    ``penalty`` [B]: AR and TAR of the window that left it, where there are any; no state made from
    this one has it.
    """

    hidden: Tensor
    cell: Tensor
    penalty: Tensor | None = None

    def _map(self, change: Any) -> RecurrentState:
        return RecurrentState(change(self.hidden), change(self.cell))

    def reset(self, rows: Tensor) -> RecurrentState:
        """Zeros again in the rows, bool [B]."""
        return self._map(lambda state: state.masked_fill(rows[:, None, None], 0.0))

    def detach(self) -> RecurrentState:
        """Without gradient."""
        return self._map(Tensor.detach)

    def select(self, rows: Tensor | slice) -> RecurrentState:
        """The rows: int64 indices, bool [B] or a slice."""
        return self._map(lambda state: state[rows])

    def tensors(self) -> dict[str, Tensor]:
        """``hidden`` and ``cell``, without gradient."""
        return {"hidden": self.hidden.detach(), "cell": self.cell.detach()}

    def replace(self, tensors: Mapping[str, Tensor]) -> RecurrentState:
        """The state of `tensors`, where this one is."""
        like = self.hidden
        return RecurrentState(tensors["hidden"].to(like), tensors["cell"].to(like))


class Network(nn.Module):
    """Embeddings, L layers of LSTM, a projection, and the embeddings again as the output matrix.

    ``hidden``: units of all layers but the last, None: the width. ``dropout`` draws for each token
    anew, ``rates`` are of masks that stay for a window.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        layers: int,
        dropout: float,
        hidden: int | None = None,
        rates: Rates = Rates(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__()
        self.hidden, self.rates = hidden or width, rates
        self.sizes = (width, *[self.hidden] * (layers - 1), width)
        self.embeddings = nn.Embedding(vocabulary, width)
        between = dropout if layers > 1 else 0.0
        # all layers in one call where nothing has to be done between them or to their weights
        one_by_one = self.hidden != width or rates.weight_drop or rates.hidden_dropout
        self.lstm: nn.LSTM | Layers = (
            Layers(self.sizes, between)
            if one_by_one
            else nn.LSTM(width, width, layers, batch_first=True, dropout=between)
        )
        self.dropout = nn.Dropout(dropout)
        # an LSTM's outputs lie between -1 and 1: the logits of tied embeddings need more room
        self.projection = nn.Linear(width, width)
        nn.init.uniform_(self.embeddings.weight, -0.1, 0.1)

    def forward(
        self, tokens: Tensor, hidden: Tensor, cell: Tensor, masks: Masks = NO_MASKS
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Hidden states [B, T, W] of tokens [B, T], (h, c) after them, each [B, L, S], and the last
        layer's outputs [B, T, W] before and after dropout.
        """
        start = (hidden.transpose(0, 1).contiguous(), cell.transpose(0, 1).contiguous())
        embedded = self.embeddings(tokens)
        if masks.words is not None:
            embedded = embedded * masks.words[tokens]
        embedded = drop(self.dropout(embedded), masks.inputs)
        given = (masks,) if isinstance(self.lstm, Layers) else ()
        outputs, (h, c) = self.lstm(embedded, start, *given)
        dropped = drop(self.dropout(outputs), masks.outputs)
        return self.projection(dropped), h.transpose(0, 1), c.transpose(0, 1), outputs, dropped


class Recurrent(LanguageModel):
    """What recurrent models share: a module with ``embeddings``, which are the output matrix too,
    and a state that carries everything.
    """

    context = None
    module: Any
    recompute = False

    def read_part(self, network: Any, *inputs: Any) -> Any:
        """What the network makes of the inputs, computed again in the backward pass if need be."""
        if self.recompute and self.module.training:
            return checkpoint(network, *inputs, use_reentrant=False)
        return network(*inputs)

    def checkpoint_activations(self) -> None:
        self.recompute = True

    @property
    def output_weight(self) -> Tensor:
        return self.module.embeddings.weight


def split_window(batch: Batch) -> Iterator[tuple[int, int]]:
    """The columns of a window from each at which a document begins in some row to the next; tokens
    that were read before raise ValueError.
    """
    refuse_context(batch, "an LSTM")
    cuts = [] if batch.begins is None else batch.begins.any(0).nonzero().flatten().tolist()
    return pairwise([*sorted({0, *cuts}), batch.tokens.shape[1]])


class LSTM(Recurrent):
    """A `Network` as the steps see it."""

    kind = KINDS["lstm"]
    module: Network

    def __init__(
        self, module: Network, activation_penalty: float = 0.0, temporal_penalty: float = 0.0
    ) -> None:
        self.module, self.width = module, module.embeddings.embedding_dim
        self.penalties = (activation_penalty, temporal_penalty)

    def start(self, rows: int, entities: int = 0) -> RecurrentState:
        shape = (rows, self.module.lstm.num_layers, max(self.module.sizes))
        zeros = torch.zeros(shape, device=self.device)
        return RecurrentState(zeros, zeros)

    def encode(self, batch: Batch, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        parts: list[tuple[Tensor, ...]] = []
        masks = self._draw_masks(len(batch.tokens))
        penalised = self.module.training and any(self.penalties)
        for start, end in split_window(batch):
            if batch.begins is not None:
                state = state.reset(batch.begins[:, start])
            inputs = batch.tokens[:, start:end], state.hidden, state.cell, masks
            hidden, h, c, outputs, dropped = self.read_part(self.module, *inputs)
            state = RecurrentState(h, c)
            parts.append((hidden, outputs, dropped) if penalised else (hidden,))
        hidden, *both = (torch.cat(part, dim=1) for part in zip(*parts, strict=True))
        if penalised:
            outputs, dropped = both
            penalty = penalise(outputs, dropped, batch.begins, *self.penalties)
            state = replace(state, penalty=penalty)
        return hidden, state

    def penalty(self, state: RecurrentState) -> Tensor | None:
        return None if state.penalty is None else state.penalty.sum()

    def _draw_masks(self, rows: int) -> Masks:
        """Masks of a window, the same whatever documents begin in it; none in evaluation."""
        network = self.module
        if not network.training:
            return NO_MASKS
        vocabulary = network.embeddings.num_embeddings
        return draw_masks(network.rates, rows, vocabulary, network.sizes, self.device)

    def save(self, folder: Path) -> None:
        network = self.module
        shape = {
            "model_type": "lstm",
            "vocabulary": network.embeddings.num_embeddings,
            "width": self.width,
            "layers": network.lstm.num_layers,
            "dropout": network.dropout.p,
            "hidden": network.hidden,
            **asdict(network.rates),
        }
        tensors = {
            stacked_name(name): tensor.contiguous() for name, tensor in network.state_dict().items()
        }
        save_network(folder, shape, tensors)


def save_network(folder: Path, shape: Mapping[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write config.json and model.safetensors."""
    write_json(folder / "config.json", shape)
    write_with(folder / "model.safetensors", lambda path: save_file(tensors, path))


def read_network(folder: Path, *types: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What `save_network` wrote of a model of one of the types; another raises ValueError."""
    check_type(folder, sorted(types))
    return read_json(folder / "config.json"), load_file(folder / "model.safetensors")


def stacked_name(name: str) -> str:
    """A weight's name in an nn.LSTM of all layers, which is its name in a saved file."""
    return re.sub(r"\.layers\.(\d+)\.(\w+)_l0$", r".\2_l\1", name)


def take_weights(network: Network, tensors: Mapping[str, Tensor]) -> None:
    """Put the weights of a saved file into the network; those of another shape raise RuntimeError
    with torch's words.
    """
    own = {stacked_name(name): name for name in network.state_dict()}
    network.load_state_dict({own.get(name, name): tensor for name, tensor in tensors.items()})


def build(entry: ModelEntry, vocabulary: int, end: int, seed: int) -> LSTM:
    """An LSTM with random weights from ``seed``, or those of ``initial_weights``; weights of
    another shape raise ValueError.
    """
    lm = entry.lm
    rates = Rates(*(getattr(lm, field.name) for field in fields(Rates)))
    torch.manual_seed(seed)
    network = Network(vocabulary, lm.width, lm.layers, lm.dropout, lm.hidden, rates)
    if lm.initial_weights is not None:
        folder = Path(lm.initial_weights)
        with opened(folder):
            _, tensors = read_network(folder, "lstm")
        try:
            take_weights(network, tensors)
        except RuntimeError as error:
            raise ValueError(f"{folder}: not an LSTM checkpoint of this shape: {error}") from None
    return LSTM(network, lm.activation_penalty, lm.temporal_penalty)


def load(folder: Path) -> LSTM:
    """A saved LSTM in float32, without penalties; none saved there: FileNotFoundError."""
    with opened(folder):
        shape, tensors = read_network(folder, "lstm")  # one saved before it had rates lacks them
        rates = {field.name: shape[field.name] for field in fields(Rates) if field.name in shape}
        plain = {name: shape[name] for name in ("vocabulary", "width", "layers", "dropout")}
        network = Network(**plain, hidden=shape.get("hidden"), rates=Rates(**rates))
        take_weights(network, tensors)
    return LSTM(network)
