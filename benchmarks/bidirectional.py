"""Tokens per second of ELMo's training, as ratios, against a plain loop over torch's LSTMs.

The peer has the same parameters: an embedding, one-layer nn.LSTMs in both directions with residual
connections, a projection, cross-entropy over the tied embeddings, AdamW and clipping. It reads
whole windows without documents and turns them round with a flip. With this project's loss in both,
what is left is the loop: documents that begin in windows, the states, the order of the tokens.
TagLM's language model is ELMo's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from common import Column, Report, interleave, make_parser, ratios
from torch import Tensor, nn
from torch.nn import functional
from training import SAMPLE, draw_lengths, make_corpus, make_training

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.kinds import KINDS, ModelEntry, resolve
from entity_transformers.train.loss import sum_losses

COLUMNS = {
    "speed": Column("speed", "tokens/s"),
    "ratio": Column("ratio", "ratio", spread=True),
    "cpu": Column("CPU time", "ratio", spread=True),
}
ROWS, WINDOW, WIDTH, LAYERS, VOCABULARY = 4, 128, 128, 2, 2000
STEPS = 2
TARGET = 0.95
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def make_entry(hidden: int | None) -> ModelEntry:
    """An ELMo of the size of the comparison."""
    size = {
        "layers": LAYERS,
        "width": WIDTH,
        "window": WINDOW,
        "documents_per_step": ROWS,
        "dropout": 0.1,
        "steps": 10_000,
        "warmup_steps": 0,
        "validate_every": 10_000,
        "learning_rate": 1e-4,
    }
    models = {"elmo": {"kind": "elmo", "hidden": hidden, **size}}
    return resolve("elmo", models, SAMPLE.lm.model_dump(), {}, KINDS)


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
            for i, layer in enumerate(half):
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


def plain_step(corpus: AlignedCorpus, hidden: int | None, loss: Loss) -> Callable[[], None]:
    """A step of the peer, of as many predictions."""
    model = Plain(hidden).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    generator = np.random.default_rng(1)

    def step() -> None:
        starts = generator.integers(0, len(corpus.tokens) - WINDOW - 1, ROWS)
        rows = [corpus.tokens[s : s + WINDOW + 1] for s in starts]
        model(torch.from_numpy(np.stack(rows).astype(np.int64)), loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__, __file__)
    parser.add_argument("--rounds", type=int, default=15, help="default %(default)s")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    report = Report(__doc__, COLUMNS, options)
    corpus = make_corpus(draw_lengths(), VOCABULARY)
    for hidden in (None, 2 * WIDTH):
        name = "elmo" if hidden is None else f"elmo, {hidden} units projected to {WIDTH}"
        with tempfile.TemporaryDirectory() as folder:
            run = make_training(make_entry(hidden), corpus, Path(folder), VOCABULARY)
            sides = {
                "ours": run.train_step,
                "plain": plain_step(corpus, hidden, torch_loss),
                "plain, our loss": plain_step(corpus, hidden, own_loss),
            }
            times = interleave(sides, options.rounds, calls=STEPS)
        for side, seconds in times.items():
            report.row(f"{name}: {side}", speed=[ROWS * WINDOW / t for t in seconds.wall])
        for peer, target in (("plain", TARGET), ("plain, our loss", None)):
            report.row(
                f"{name}: ours / {peer}",
                ratio=ratios(times[peer].wall, times["ours"].wall),
                cpu=ratios(times[peer].cpu, times["ours"].cpu),
                ratio_of=peer,
                at_least=target,
            )
    report.write()


if __name__ == "__main__":
    main()
