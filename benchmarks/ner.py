"""NER speed: our CRF against pytorch-crf, and one training epoch against the same model in its
usual form.

The usual form is a packed bidirectional nn.LSTM, pytorch-crf, and batches in random order.

    python benchmarks/ner.py --threads 1
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
import torchcrf
from common import Column, Report, Seconds, interleave, make_parser, milliseconds, ratios
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from entity_transformers.steps.ner import NerParams
from entity_transformers.tasks.ner.crf import Crf
from entity_transformers.tasks.ner.dataset import TaggedSentences
from entity_transformers.tasks.ner.tagger import Tagger
from entity_transformers.tasks.ner.training import bucket, predict, train_epoch

LABELS = tuple(f"TYPE{i:02}" for i in range(18))  # OntoNotes has 18
WIDTH = 768
COLUMNS = {
    "time": Column("time", "ms"),
    "ratio": Column("speed", "ratio", "usual"),
}


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


def show(what: str, times: dict[str, Seconds], base: str, report: Report) -> None:
    """Milliseconds of each side, and how many times as fast as ``base`` it is."""
    for name, seconds in times.items():
        ratio = {} if name == base else {"ratio": ratios(times[base].wall, seconds.wall)}
        report.row(f"{what}: {name}", time=milliseconds(seconds.wall), **ratio)


def compare_crfs(batch: int, words: int, rounds: int, device: str, report: Report) -> None:
    """Loss with its gradient, and decoding, of a batch with lengths from ``words`` / 3 up."""
    tags = 2 * len(LABELS) + 1
    ours, usual = Crf(tags).to(device), torchcrf.CRF(tags, batch_first=True).to(device)
    lengths = torch.randint(words // 3, words + 1, (batch,)).clamp_min(1)
    lengths[0] = words
    mask = (torch.arange(words) < lengths[:, None]).to(device)
    emissions = torch.randn(batch, words, tags, device=device, requires_grad=True)
    ids = torch.randint(0, tags, (batch, words), device=device)
    title = f"B {batch}, T {words}, K {tags}"
    losses = {
        "ours": lambda: ours.log_likelihood(emissions, ids, mask).mean().backward(),
        "pytorch-crf": lambda: usual(emissions, ids, mask, reduction="mean").backward(),
    }
    wait = find_wait(device)
    times = interleave(losses, rounds, wait=wait)
    show(f"CRF loss and gradient, {title}", times, "pytorch-crf", report)
    decoders = {
        "ours": lambda: ours.decode(emissions, mask).tolist(),
        "pytorch-crf": lambda: usual.decode(emissions, mask),
    }
    times = interleave(decoders, rounds, wait=wait)
    show(f"CRF decoding, {title}", times, "pytorch-crf", report)


def compare_epochs(count: int, hidden: int, rounds: int, device: str, report: Report) -> None:
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
    wait = find_wait(device)
    times = interleave(sides, rounds, wait=wait)
    show(f"epoch, {title}", times, "usual, random batches", report)
    show(f"prediction, {title}", interleave(predictions, rounds, wait=wait), "usual", report)


def find_wait(device: str) -> Callable[[], object]:
    """What returns when the device has done all that was asked of it."""
    return (lambda: None) if device == "cpu" else torch.cuda.synchronize


def main() -> None:
    """The CRF in three sizes, then epochs and predictions."""
    parser = make_parser(__doc__, __file__, rounds=5, sentences=512, hidden=512)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.manual_seed(0)
    device, gpu = options.device, options.device != "cpu"
    packages = ("torch", "pytorch-crf", "numpy")
    name = torch.cuda.get_device_name(device) if gpu else None
    report = Report(__doc__, COLUMNS, options, packages, name)
    for batch, words in ((32, 50), (32, 18), (128, 50)):
        compare_crfs(batch, words, 4 * options.rounds, device, report)
    compare_epochs(options.sentences, options.hidden, options.rounds, device, report)
    report.write()


if __name__ == "__main__":
    main()
