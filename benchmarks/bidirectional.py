"""Training speed of ELMo, compared with a plain loop over torch's LSTMs.

The peer has the same parameters: an embedding, one-layer nn.LSTMs in both directions with residual
connections, a projection, cross-entropy over the tied embeddings, AdamW and clipping. It reads
whole windows without documents and turns them round with a flip. With this project's loss in both,
what is left is the loop: documents that begin in windows, the states, the order of the tokens.
TagLM's language model is ELMo's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import torch
import training
from common import SPEEDS, Report, Sides, interleave, make_parser
from torch import Tensor, nn
from torch.nn import functional
from training import draw_lengths, draw_windows, make_corpus, make_training, plain_loop

from entity_transformers.kinds import ModelEntry
from entity_transformers.models.loss import sum_losses

ROWS, WINDOW, WIDTH, LAYERS, VOCABULARY = 4, 128, 128, 2, 2000
STEPS = 2
TARGET = 0.95
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def make_entry(hidden: int | None) -> ModelEntry:
    """An ELMo of the size of the comparison."""
    size = {"layers": LAYERS, "width": WIDTH, "window": WINDOW, "documents_per_step": ROWS}
    return training.make_entry("elmo", hidden=hidden, dropout=0.1, **size)


class Plain(nn.Module):
    """The peer."""

    def __init__(self, hidden: int | None, vocabulary: int = VOCABULARY) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(vocabulary, WIDTH)
        projected = {} if hidden is None else {"proj_size": WIDTH}
        self.halves = nn.ModuleList(
            nn.ModuleList(
                nn.LSTM(WIDTH, hidden or WIDTH, batch_first=True, **projected)
                for _ in range(LAYERS)
            )
            for _ in range(2)
        )
        self.dropout, self.projection = nn.Dropout(0.1), nn.Linear(WIDTH, WIDTH)

    def forward(self, tokens: Tensor, loss: Loss) -> Tensor:
        """The mean of both directions' losses per token."""
        losses = []
        for half, order in zip(self.halves, (tokens, tokens.flip(1)), strict=True):
            states = self.embeddings(order[:, :-1])
            for i, layer in enumerate(cast(nn.ModuleList, half)):
                given = self.dropout(states)
                states, _ = layer(given)
                states = states + given if i else states
            hidden = self.projection(self.dropout(states)).flatten(0, 1)
            losses.append(loss(hidden, self.embeddings.weight, order[:, 1:].flatten()))
        return torch.stack(losses).mean()


def torch_loss(states: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """The usual one."""
    return functional.cross_entropy(states @ weight.T, targets)


def own_loss(states: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """That of the training loop."""
    return sum_losses(states, weight, targets) / len(targets)


def main() -> None:
    """Measure and print."""
    options = make_parser(__doc__, __file__, rounds=15).parse_args()
    report = Report(__doc__, SPEEDS, options)
    corpus = make_corpus(draw_lengths(), VOCABULARY)
    for hidden in (None, 2 * WIDTH):
        name = "elmo" if hidden is None else f"elmo, {hidden} units projected to {WIDTH}"
        draw, sides = draw_windows(corpus, ROWS, WINDOW + 1), Sides()
        with tempfile.TemporaryDirectory() as folder:
            run = make_training(make_entry(hidden), corpus, Path(folder), VOCABULARY)
            sides[name] = run.train_step
            for peer, loss in (("plain", torch_loss), ("plain with our loss", own_loss)):
                model = Plain(hidden)
                sides[f"{peer} {name}"] = plain_loop(model, partial(model, loss=loss), draw)
            times = interleave(sides, options.rounds, calls=STEPS)
        pairs = zip([name] * 2, [*sides][1:], (TARGET, None), strict=True)
        report.speeds(times, dict.fromkeys(sides, ROWS * WINDOW), pairs)
    report.write()


if __name__ == "__main__":
    main()
