"""NER speed: our CRF against pytorch-crf, and one training epoch against the same model in its
usual form.

The usual form is a packed bidirectional nn.LSTM, pytorch-crf, and batches in random order. Both
sides run by turns, so that a busy machine slows both; ratios are medians over the turns. Run:
python benchmarks/ner.py --threads 1
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
import torchcrf
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from entity_transformers.study.steps.ner import NerParams
from entity_transformers.tasks.ner.crf import Crf
from entity_transformers.tasks.ner.dataset import TaggedSentences
from entity_transformers.tasks.ner.tagger import Tagger
from entity_transformers.tasks.ner.training import bucket, predict, train_epoch

LABELS = tuple(f"TYPE{i:02}" for i in range(18))  # OntoNotes has 18
WIDTH = 768


class UsualTagger(nn.Module):
    """The same layers as `Tagger`: packed BiLSTM and pytorch-crf."""

    def __init__(self, vectors: np.ndarray, params: NerParams) -> None:
        super().__init__()
        self.register_buffer("vectors", torch.from_numpy(vectors), persistent=False)
        self.labels, tags = LABELS, 2 * len(LABELS) + 1
        self.lstm = nn.LSTM(vectors.shape[1], params.hidden, batch_first=True, bidirectional=True)
        self.emission = nn.Linear(2 * params.hidden, tags)
        self.dropout = nn.Dropout(params.dropout)
        self.crf = torchcrf.CRF(tags, batch_first=True)

    def forward(self, rows: Tensor, mask: Tensor) -> Tensor:
        words = self.dropout(self.vectors[rows].float())
        packed = pack_padded_sequence(
            words, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False
        )
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.emission(self.dropout(states))

    def loss(self, rows: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        return -self.crf(self(rows, mask), tags, mask, reduction="mean")

    def decode(self, rows: Tensor, mask: Tensor) -> Tensor:
        paths = self.crf.decode(self(rows, mask), mask)
        return nn.utils.rnn.pad_sequence([torch.tensor(path) for path in paths], batch_first=True)


def make_sentences(count: int, rows: int) -> TaggedSentences:
    """Random words and tags; lengths are skewed as in OntoNotes (mean 18, 95 % under 40)."""
    generator = np.random.default_rng(1)
    lengths = np.clip(generator.gamma(2.2, 8.2, count).astype(int), 1, 120)
    n, offsets = int(lengths.sum()), np.concatenate([[0], np.cumsum(lengths)])
    tags = generator.integers(0, 2 * len(LABELS) + 1, n).astype(np.int16)
    return TaggedSentences(generator.integers(0, rows, n).astype(np.int32), tags, offsets, LABELS)


def measure(repeat: int, **sides: Callable[[], object]) -> dict[str, list[float]]:
    """Seconds of each side, run by turns ``repeat`` times after one turn that isn't counted."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(repeat + 1):
        for name, run in sides.items():
            start = time.perf_counter()
            run()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def show(title: str, seconds: dict[str, list[float]], base: str) -> None:
    """Print median milliseconds and the median of the turns' ratios to ``base``."""
    for name, values in seconds.items():
        ratios = np.array(seconds[base]) / np.array(values)
        low, middle, high = np.quantile(ratios, [0, 0.5, 1])
        print(
            f"{title:<42} {name:<28} {1e3 * np.median(values):9.2f} ms   {middle:5.2f} x as fast"
            f" ({low:.2f} to {high:.2f})"
        )


def compare_crfs(batch: int, words: int, repeat: int, device: str) -> None:
    """Loss with its gradient, and decoding, of a batch with lengths from a third of ``words`` up."""
    tags = 2 * len(LABELS) + 1
    ours, usual = Crf(tags).to(device), torchcrf.CRF(tags, batch_first=True).to(device)
    lengths = torch.randint(words // 3, words + 1, (batch,)).clamp_min(1)
    lengths[0] = words
    mask = (torch.arange(words) < lengths[:, None]).to(device)
    emissions = torch.randn(batch, words, tags, device=device, requires_grad=True)
    ids = torch.randint(0, tags, (batch, words), device=device)
    title = f"B {batch}, T {words}, K {tags}"
    losses = {
        "ours": (
            lambda: ours.log_likelihood(emissions, ids, mask).mean().backward() or _wait(device)
        ),
        "pytorch-crf": (
            lambda: usual(emissions, ids, mask, reduction="mean").backward() or _wait(device)
        ),
    }
    show(f"CRF loss and gradient, {title}", measure(repeat, **losses), "pytorch-crf")
    decoders = {
        "ours": lambda: ours.decode(emissions, mask).tolist(),
        "pytorch-crf": lambda: usual.decode(emissions, mask),
    }
    show(f"CRF decoding, {title}", measure(repeat, **decoders), "pytorch-crf")


def compare_epochs(count: int, hidden: int, repeat: int, device: str) -> None:
    """A training epoch and a prediction of ``count`` sentences, batch 32."""
    params = NerParams(
        hidden=hidden, dropout=0.5, learning_rate=1e-4, decay=0.9, epochs=1, patience=1, batch=32
    )
    vectors = np.random.default_rng(2).normal(size=(5000, WIDTH)).astype(np.float32)
    sentences = make_sentences(count, len(vectors))
    generator = np.random.default_rng(3)
    sides: dict[str, Callable[[], object]] = {}
    predictions: dict[str, Callable[[], object]] = {}
    for name, tagger in {
        "ours": Tagger(vectors, LABELS, params),
        "usual": UsualTagger(vectors, params),
    }.items():
        epoch = partial(
            train_epoch,
            tagger.to(device),
            torch.optim.Adam(tagger.parameters(), lr=1e-4),
            sentences,
        )
        sides[f"{name}, bucketed"] = lambda epoch=epoch: epoch(
            bucket(sentences.lengths, 32, generator)
        )
        sides[f"{name}, random batches"] = lambda epoch=epoch: epoch(
            np.array_split(generator.permutation(count), -(-count // 32))
        )
        predictions[name] = partial(predict, tagger, sentences, batch=32)
    title = f"{count} sentences, {WIDTH} -> 2 x {hidden}"
    show(f"epoch, {title}", measure(repeat, **sides), "usual, random batches")
    show(f"prediction, {title}", measure(repeat, **predictions), "usual")


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def main() -> None:
    """Print the three comparisons."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--repeat",
        type=int,
        default=5,
        help="turns of the epochs; the CRF takes four times as many",
    )
    parser.add_argument("--sentences", type=int, default=512)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    for batch, words in ((32, 50), (32, 18), (128, 50)):
        compare_crfs(batch, words, 4 * arguments.repeat, arguments.device)
    compare_epochs(arguments.sentences, arguments.hidden, arguments.repeat, arguments.device)


if __name__ == "__main__":
    main()
