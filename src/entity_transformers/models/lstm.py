"""An LSTM language model (Zaremba et al., 2014) with tied embeddings (Press and Wolf, 2017).

Its (h, c) goes on from window to window of a document, so that it has no longest context; training
cuts the gradient between windows as it does for an entity memory. A document that begins inside a
packed window begins with zeros.

Dimensions: B rows side by side, T tokens, L layers, W width.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from entity_transformers.artifacts import read_json, write_json, write_with
from entity_transformers.kinds import ModelEntry
from entity_transformers.kinds.lstm import KIND
from entity_transformers.models.base import Batch, LanguageModel, opened


@dataclass(frozen=True)
class RecurrentState:
    """``hidden`` and ``cell`` [B, L, W] after the tokens so far; zeros at a document's start."""

    hidden: Tensor
    cell: Tensor

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
    """Embeddings, L layers of LSTM, a projection, and the embeddings again as the output matrix."""

    def __init__(self, vocabulary: int, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(
            width, width, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0
        )
        self.dropout = nn.Dropout(dropout)
        # an LSTM's outputs lie between -1 and 1: the logits of tied embeddings need more room
        self.projection = nn.Linear(width, width)
        nn.init.uniform_(self.embeddings.weight, -0.1, 0.1)

    def forward(
        self, tokens: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Hidden states [B, T, W] of tokens [B, T], and (h, c) after them, each [B, L, W]."""
        start = (hidden.transpose(0, 1).contiguous(), cell.transpose(0, 1).contiguous())
        output, (h, c) = self.lstm(self.dropout(self.embeddings(tokens)), start)
        return self.projection(self.dropout(output)), h.transpose(0, 1), c.transpose(0, 1)


class LSTM(LanguageModel):
    """A `Network` as the steps see it."""

    kind = KIND
    context = None
    module: Network

    def __init__(self, module: Network) -> None:
        self.module, self.width = module, module.embeddings.embedding_dim
        self.recompute = False

    def start(self, rows: int, entities: int = 0) -> RecurrentState:
        zeros = torch.zeros(rows, self.module.lstm.num_layers, self.width, device=self.device)
        return RecurrentState(zeros, zeros)

    def encode(self, batch: Batch, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        if batch.new:
            raise ValueError(
                f"the first {batch.new} tokens of the window were read before: an LSTM reads each"
                " once"
            )
        parts = []
        for start, end in pairwise([*self._cuts(batch), batch.tokens.shape[1]]):
            if batch.begins is not None:
                state = state.reset(batch.begins[:, start])
            inputs = batch.tokens[:, start:end], state.hidden, state.cell
            recompute = self.recompute and self.module.training
            hidden, h, c = (
                checkpoint(self.module, *inputs, use_reentrant=False)
                if recompute
                else self.module(*inputs)
            )
            state = RecurrentState(h, c)
            parts.append(hidden)
        return torch.cat(parts, dim=1), state

    def _cuts(self, batch: Batch) -> list[int]:
        """Columns at which a document begins in some row, and 0."""
        if batch.begins is None:
            return [0]
        return sorted({0, *batch.begins.any(0).nonzero().flatten().tolist()})

    def checkpoint_activations(self) -> None:
        self.recompute = True

    @property
    def output_weight(self) -> Tensor:
        return self.module.embeddings.weight

    def save(self, folder: Path) -> None:
        network = self.module
        shape = {
            "model_type": "lstm",
            "vocabulary": network.embeddings.num_embeddings,
            "width": self.width,
            "layers": network.lstm.num_layers,
            "dropout": network.dropout.p,
        }
        write_json(folder / "config.json", shape)
        tensors = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
        write_with(folder / "model.safetensors", lambda path: save_file(tensors, path))


def build(entry: ModelEntry, vocabulary: int, end: int, seed: int) -> LSTM:
    """An LSTM with random weights from ``seed``, or those of ``initial_weights``; weights of
    another shape raise ValueError.
    """
    torch.manual_seed(seed)
    model = LSTM(Network(vocabulary, entry.lm.width, entry.lm.layers, entry.lm.dropout))
    if entry.lm.initial_weights is not None:
        folder = Path(entry.lm.initial_weights)
        saved = load(folder).module.state_dict()
        try:
            model.module.load_state_dict(saved)
        except RuntimeError as error:
            raise ValueError(f"{folder}: not an LSTM checkpoint of this shape: {error}") from None
    return model


def load(folder: Path) -> LSTM:
    """A saved LSTM in float32; none saved there: FileNotFoundError."""
    with opened(folder):
        shape = read_json(folder / "config.json")
        if shape.get("model_type") != "lstm":
            kind = shape.get("model_type")
            raise ValueError(f"{folder}: a model of type {kind!r}, expected 'lstm'")
        network = Network(*(shape[name] for name in ("vocabulary", "width", "layers", "dropout")))
        network.load_state_dict(load_file(folder / "model.safetensors"))
    return LSTM(network)
