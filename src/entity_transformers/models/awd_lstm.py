"""What AWD-LSTM (Merity, Keskar and Socher, 2018) adds to an LSTM: masks that stay for a window,
dropped hidden-to-hidden weights, layers of different widths, and the penalties AR and TAR.

Dimensions: B rows side by side, T tokens, V vocabulary, L layers, W width, S the largest width of a
layer, H the width of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

RECURRENT = "weight_hh_l0"


@dataclass(frozen=True)
class Rates:
    """Shares of zeros in each kind of mask (sections 2, 4.2 and 4.3): of hidden-to-hidden weights,
    words of the vocabulary, embeddings, outputs of all layers but the last, and of the last.
    """

    weight_drop: float = 0.0
    embedding_dropout: float = 0.0
    input_dropout: float = 0.0
    hidden_dropout: float = 0.0
    output_dropout: float = 0.0


@dataclass(frozen=True)
class Masks:
    """What a window's numbers are multiplied by; None or no mask at all: by one.

    words      [V, 1]: the embedding of each word of the vocabulary
    inputs     [B, 1, W]: embeddings, alike at every token
    recurrent  per layer [4 H, H]: its hidden-to-hidden weights
    hidden     per layer but the last [B, 1, H]: its outputs, alike at every token
    outputs    [B, 1, W]: the last layer's outputs
    """

    words: Tensor | None = None
    inputs: Tensor | None = None
    recurrent: tuple[Tensor | None, ...] = ()
    hidden: tuple[Tensor | None, ...] = ()
    outputs: Tensor | None = None


NO_MASKS = Masks()


def drop(tensor: Tensor, mask: Tensor | None) -> Tensor:
    """``tensor`` times ``mask``, itself without one."""
    return tensor if mask is None else tensor * mask


def draw_masks(
    rates: Rates, rows: int, vocabulary: int, sizes: Sequence[int], device: torch.device
) -> Masks:
    """Masks of a window of ``rows`` rows from torch's generator: 0 with a rate's probability p,
    else 1 / (1 - p), so that each one's mean is 1.

    ``sizes``: W of the embeddings, then each layer's width.
    """

    def draw(rate: float, *shape: int) -> Tensor | None:
        if rate == 0:
            return None
        return torch.empty(shape, device=device).bernoulli_(1 - rate).div_(1 - rate)

    words = draw(rates.embedding_dropout, vocabulary, 1)
    inputs = draw(rates.input_dropout, rows, 1, sizes[0])
    recurrent, hidden = [], []
    for size in sizes[1:]:
        recurrent.append(draw(rates.weight_drop, 4 * size, size))
        if len(recurrent) < len(sizes) - 1:
            hidden.append(draw(rates.hidden_dropout, rows, 1, size))
    outputs = draw(rates.output_dropout, rows, 1, sizes[-1])
    return Masks(words, inputs, tuple(recurrent), tuple(hidden), outputs)


class Layers(nn.Module):
    """LSTM layers of any widths, one after another, called as an nn.LSTM of all of them is.

    A dropped weight is the parameter times its mask, put in the parameter's place for one call: so
    the gradient goes through the mask to the parameter, the only weight that there is.
    """

    def __init__(self, sizes: Sequence[int], dropout: float) -> None:
        super().__init__()
        self.layers: Any = nn.ModuleList(
            nn.LSTM(before, after, batch_first=True) for before, after in pairwise(sizes)
        )
        self.dropout = nn.Dropout(dropout)

    @property
    def num_layers(self) -> int:
        """L."""
        return len(self.layers)

    def forward(
        self, inputs: Tensor, start: tuple[Tensor, Tensor], masks: Masks = NO_MASKS
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The last layer's outputs [B, T, W] for inputs [B, T, W], and (h, c) after them, each
        [L, B, S]; narrower layers have zeros at the end of their rows.
        """
        output, ends, widest = inputs, [], start[0].shape[-1]
        recurrent = masks.recurrent or (None,) * len(self.layers)
        hidden = masks.hidden or (None,) * (len(self.layers) - 1)
        for i, layer in enumerate(self.layers):
            size = layer.hidden_size
            h, c = (state[i : i + 1, :, :size].contiguous() for state in start)
            output, end = call_dropped(layer, recurrent[i], output, (h, c))
            ends.append([functional.pad(state, (0, widest - size)) for state in end])
            if i < len(self.layers) - 1:
                output = drop(self.dropout(output), hidden[i])
        h, c = (torch.cat(states) for states in zip(*ends, strict=True))
        return output, (h, c)


def call_dropped(
    layer: nn.LSTM, mask: Tensor | None, inputs: Tensor, start: tuple[Tensor, Tensor]
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """``layer`` on inputs [B, T, W], its hidden-to-hidden weights times ``mask`` (section 2)."""
    if mask is None:
        return layer(inputs, start)
    weights = {RECURRENT: layer.get_parameter(RECURRENT) * mask}
    return functional_call(layer, weights, (inputs, start))


def penalise(
    outputs: Tensor, dropped: Tensor, begins: Tensor | None, alpha: float, beta: float
) -> Tensor:
    """AR and TAR (section 4.6) of a window, each row's sum over its tokens, float32 [B].

    ``outputs`` [B, T, W]: of the last layer; ``dropped``: the same after output dropout; ``begins``
    bool [B, T]: does a document begin with this token? A change from one document to the next is
    none. With squares' means over W, as in the authors' program:
    alpha sum_t mean(dropped_t^2) + beta sum_t mean((outputs_t - outputs_(t-1))^2).
    """
    total = alpha * dropped.float().square().mean(-1).sum(1)
    if beta:
        changes = outputs.float().diff(dim=1).square().mean(-1)
        if begins is not None:
            changes = changes.masked_fill(begins[:, 1:], 0.0)
        total = total + beta * changes.sum(1)
    return total
