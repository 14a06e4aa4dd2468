"""An LSTM language model (Zaremba et al., 2014) with tied embeddings (Press and Wolf, 2017); with
the right parameters an AWD-LSTM (Merity, Keskar and Socher, 2018): dropout masks that stay for a
window, dropped hidden-to-hidden weights, layers of different widths, and the penalties AR and TAR.

Its (h, c) is carried from window to window of a document, so that its context is not limited;
training cuts the gradient between windows as it does for an entity memory. A document that begins
inside a packed window starts from zeros.

Dimensions: B rows side by side, T tokens, V vocabulary, L layers, W width, S the largest width of a
layer, H the units of one.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from entity_transformers.artifacts import read_json, write_json, write_with
from entity_transformers.kinds import KINDS, ModelEntry
from entity_transformers.models.base import Batch, LanguageModel, State, refuse_context
from entity_transformers.models.folders import check_type, opened
from entity_transformers.study.processor import has_bfloat16

RECURRENT = "weight_hh_l0"


@dataclass(frozen=True)
class RecurrentState(State):
    """``hidden`` and ``cell`` [B, L, S] after the tokens so far; zeros at a document's start."""

    hidden: Tensor
    cell: Tensor


class Recurrent(LanguageModel):
    """Base class of recurrent models: a ``network`` whose ``embeddings`` are the output matrix too,
    and a state that carries all context.
    """

    network: ClassVar[Any]
    shape: ClassVar[tuple[str, ...]]
    """The entry's values that the network is built with, besides the vocabulary."""

    def __init__(self, module: Any) -> None:
        self.module, self.width = module, module.embeddings.embedding_dim

    @property
    def output_weight(self) -> Tensor:
        return self.module.embeddings.weight

    @classmethod
    def build(cls, entry: ModelEntry, vocabulary: int, end: int, seed: int) -> Self:
        torch.manual_seed(seed)
        network = cls.network(vocabulary, **{name: getattr(entry.lm, name) for name in cls.shape})
        if entry.lm.initial_weights is not None:
            folder = Path(entry.lm.initial_weights)
            with opened(folder):
                cls._take_weights(network, folder)
        return cls(network)

    @classmethod
    def load(cls, folder: Path) -> Self:
        with opened(folder):
            check_type(folder, {cls.kind.name, *cls.kind.also})
            values = read_json(folder / "config.json")
            shape = {name: values[name] for name in ("vocabulary", *cls.shape) if name in values}
            cls._take_weights(network := cls.network(**shape), folder)
        return cls(network)

    @classmethod
    def _take_weights(cls, network: nn.Module, folder: Path) -> None:
        """Load a folder's weights into the network; another shape raises torch's RuntimeError."""
        check_type(folder, {cls.kind.name, *cls.kind.also})
        tensors = load_file(folder / "model.safetensors")
        own = {stacked_name(name): name for name in network.state_dict()}
        network.load_state_dict({own.get(name, name): tensor for name, tensor in tensors.items()})

    def run(
        self, call: Callable[..., Any], inputs: Tensor, batch: Batch, state: RecurrentState
    ) -> tuple[list[Tensor], RecurrentState]:
        """Apply ``call`` to ``inputs`` [B, T, ...] and (h, c), zeros where a document begins;
        return its outputs for the window, each [B, T, W], and the state after it.
        """
        refuse_context(batch, "an LSTM")
        # the window is cut at every column at which a document begins in some row
        cuts = [] if batch.begins is None else batch.begins.any(0).nonzero().flatten().tolist()
        parts = []
        for start, end in pairwise([*sorted({0, *cuts}), batch.tokens.shape[1]]):
            if batch.begins is not None:
                state = state.reset(batch.begins[:, start])
            outputs, h, c = call(inputs[:, start:end], state.hidden, state.cell)
            state = RecurrentState(h, c)
            parts.append(outputs)
        return [torch.cat(part, dim=1) for part in zip(*parts, strict=True)], state

    def save(self, folder: Path) -> None:
        network = self.module
        values = {"model_type": self.kind.name, "vocabulary": len(network.embeddings.weight)}
        values |= {name: getattr(network, name) for name in self.shape}
        values["dropout"] = network.dropout.p
        own = network.state_dict()
        tensors = {stacked_name(name): tensor.contiguous() for name, tensor in own.items()}
        write_json(folder / "config.json", values)
        write_with(folder / "model.safetensors", lambda path: save_file(tensors, path))


def stacked_name(name: str) -> str:
    """Return a weight's name in an nn.LSTM of all layers, which is its name in a saved file."""
    return re.sub(r"^lstm\.layers\.(\d+)\.(\w+)_l0$", r"lstm.\2_l\1", name)


class Masks(NamedTuple):
    """The dropout masks of a window; None: no mask.

    words      [V, 1]: for the embedding of each word of the vocabulary
    inputs     [B, 1, W]: for the embeddings, the same at every token
    recurrent  per layer [4 H, H]: for its hidden-to-hidden weights
    outputs    per layer [B, 1, H]: for its outputs, the same at every token
    """

    words: Tensor | None
    inputs: Tensor | None
    recurrent: Sequence[Tensor | None]
    outputs: Sequence[Tensor | None]


def drop(tensor: Tensor, mask: Tensor | None) -> Tensor:
    return tensor if mask is None else tensor * mask


_has_bfloat16 = cache(partial(has_bfloat16, "cpu"))


class AnyLSTM(nn.LSTM):
    """torch's LSTM on any processor: oneDNN has no LSTM in bfloat16 for those without instructions
    for it, on which this class computes in float32.
    """

    def forward(self, inputs: Tensor, start: Any = None) -> Any:  # type: ignore[override]
        mixed = inputs.device.type == "cpu" and torch.is_autocast_enabled("cpu")
        if not mixed or _has_bfloat16() is not False:
            return super().forward(inputs, start)
        with torch.autocast("cpu", enabled=False):
            first = None if start is None else tuple(one.float() for one in start)
            return super().forward(inputs.float(), first)


class Stack(nn.Module):
    """LSTM layers with inputs, units and outputs of the given ``sizes``, and dropout before each.
    With ``residual``, from the second layer on, a layer's inputs are added to its outputs.
    """

    def __init__(
        self, sizes: Iterable[tuple[int, int, int]], dropout: float, residual: bool
    ) -> None:
        super().__init__()
        self.residual = residual
        self.layers: Any = nn.ModuleList(
            AnyLSTM(inputs, units, batch_first=True, proj_size=outputs if outputs < units else 0)
            for inputs, units, outputs in sizes
        )
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, inputs: Tensor, hidden: Tensor, cell: Tensor, masks: Masks | None = None
    ) -> tuple[list[Tensor], Tensor, Tensor]:
        """Return each layer's outputs for inputs [B, T, W], before dropout, then h and c after
        them, like ``hidden`` and ``cell`` before [B, L, S]: narrower layers are padded with zeros.
        """
        nothing = [None] * len(self.layers)
        masks = masks or Masks(None, None, nothing, nothing)
        found, last_h, last_c, outputs = [], [], [], inputs
        for i, layer in enumerate(self.layers):
            given = drop(self.dropout(outputs), (masks.inputs, *masks.outputs)[i])
            h = hidden[None, :, i, : layer.proj_size or layer.hidden_size].contiguous()
            c = cell[None, :, i, : layer.hidden_size].contiguous()
            outputs, (h, c) = call_dropped(layer, masks.recurrent[i], given, (h, c))
            if self.residual and i:
                outputs = outputs + given
            found.append(outputs)
            last_h.append(functional.pad(h[0], (0, hidden.shape[-1] - h.shape[-1])))
            last_c.append(functional.pad(c[0], (0, cell.shape[-1] - c.shape[-1])))
        return found, torch.stack(last_h, 1), torch.stack(last_c, 1)


class Network(nn.Module):
    """Embeddings, L LSTM layers, a projection, and the embeddings again as the output matrix; its
    values are those of `LSTMParams` (sections 2, 4.2 and 4.3).
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        layers: int,
        dropout: float,
        hidden: int | None = None,
        weight_drop: float = 0.0,
        embedding_dropout: float = 0.0,
        input_dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        output_dropout: float = 0.0,
        residual: bool = False,
    ) -> None:
        super().__init__()
        self.width, self.layers, self.hidden = width, layers, hidden or width
        self.weight_drop, self.embedding_dropout = weight_drop, embedding_dropout
        self.input_dropout, self.hidden_dropout = input_dropout, hidden_dropout
        self.output_dropout, self.residual = output_dropout, residual
        self.sizes = (width, *[self.hidden] * (layers - 1), width)
        self.embeddings = nn.Embedding(vocabulary, width)
        self.lstm = Stack(((a, b, b) for a, b in pairwise(self.sizes)), dropout, residual)
        self.dropout = nn.Dropout(dropout)
        # an LSTM's outputs lie between -1 and 1: the logits of tied embeddings need more room
        self.projection = nn.Linear(width, width)
        nn.init.uniform_(self.embeddings.weight, -0.1, 0.1)

    def draw_masks(self, rows: int) -> Masks:
        """Draw the masks of a window of ``rows`` rows from torch's generator: 0 with a rate's
        probability p, else 1 / (1 - p), so that the mean is 1; no masks in evaluation.
        """

        def draw(rate: float, *shape: int) -> Tensor | None:
            if rate == 0 or not self.training:
                return None
            mask = torch.empty(shape, device=self.embeddings.weight.device)
            return mask.bernoulli_(1 - rate).div_(1 - rate)

        words = draw(self.embedding_dropout, len(self.embeddings.weight), 1)
        inputs = draw(self.input_dropout, rows, 1, self.sizes[0])
        rates = [*[self.hidden_dropout] * (self.layers - 1), self.output_dropout]
        pairs = [
            (draw(self.weight_drop, 4 * size, size), draw(rate, rows, 1, size))
            for size, rate in zip(self.sizes[1:], rates, strict=True)
        ]
        return Masks(words, inputs, *zip(*pairs, strict=True))

    def forward(
        self, tokens: Tensor, hidden: Tensor, cell: Tensor, masks: Masks
    ) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor, Tensor]:
        """Return the hidden states [B, T, W] of tokens [B, T], and the last layer's outputs
        [B, T, W] before and after dropout; then h and c after the tokens, as in `Stack`.
        """
        embedded = self.embeddings(tokens)
        if masks.words is not None:
            embedded = embedded * masks.words[tokens]
        (*_, outputs), h, c = self.lstm(embedded, hidden, cell, masks)
        dropped = drop(self.dropout(outputs), masks.outputs[-1])
        return (self.projection(dropped), outputs, dropped), h, c


def call_dropped(layer: Any, mask: Tensor | None, *given: Any) -> Any:
    """Run ``layer``, its hidden-to-hidden weights times ``mask`` (section 2).

    The product replaces the parameter for one call, so that the gradient flows through the mask to
    the parameter, of which there is no other copy.
    """
    if mask is None:
        return layer(*given)
    return functional_call(layer, {RECURRENT: layer.get_parameter(RECURRENT) * mask}, given)


class LSTM(Recurrent):
    """A `LanguageModel` around a `Network`."""

    kind = KINDS["lstm"]
    network = Network
    shape = (
        *("width", "layers", "dropout", "hidden", "weight_drop", "embedding_dropout"),
        *("input_dropout", "hidden_dropout", "output_dropout", "residual"),
    )
    penalties = (0.0, 0.0)
    """The weights of AR and TAR."""

    @classmethod
    def build(cls, entry: ModelEntry, vocabulary: int, end: int, seed: int) -> Self:
        model, lm = super().build(entry, vocabulary, end, seed), entry.lm
        model.penalties = lm.activation_penalty, lm.temporal_penalty
        return model

    def start(self, rows: int, entities: int = 0) -> RecurrentState:
        zeros = torch.zeros(rows, self.module.layers, max(self.module.sizes), device=self.device)
        return RecurrentState(zeros, zeros)

    def encode(self, batch: Batch, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        # the same masks for all documents in the window
        masks = self.module.draw_masks(len(batch.tokens))
        read = partial(self.module, masks=masks)
        (hidden, outputs, dropped), state = self.run(read, batch.tokens, batch, state)
        if self.module.training and any(self.penalties):
            penalty = penalise(outputs, dropped, batch.begins, *self.penalties)
            state = replace(state, penalty=penalty)
        return hidden, state


class AWDLSTM(LSTM):
    """An `LSTM` under its own name, whose study sets the rates of its masks."""

    kind = KINDS["awd-lstm"]


def penalise(
    outputs: Tensor, dropped: Tensor, begins: Tensor | None, alpha: float, beta: float
) -> Tensor:
    """Return the penalties AR and TAR (section 4.6) of a window, summed over its tokens, float32.

    ``outputs`` [B, T, W]: of the last layer; ``dropped``: the same after output dropout; ``begins``
    bool [B, T]: does a document begin with this token? Changes from one document to the next do not
    count. With means over W, as in the authors' code, the sum is
    alpha sum_t mean(dropped_t^2) + beta sum_t mean((outputs_t - outputs_(t-1))^2).
    """
    total = alpha * dropped.float().square().mean(-1).sum()
    if beta:
        changes = outputs.float().diff(dim=1).square().mean(-1)
        if begins is not None:
            changes = changes.masked_fill(begins[:, 1:], 0.0)
        total = total + beta * changes.sum()
    return total
