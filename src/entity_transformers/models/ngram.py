"""An n-gram model with interpolated Witten-Bell smoothing (Witten and Bell 1991; Chen and Goodman
1999, section 2.6): counts of the training text, which any neural model has to beat.

    p_k(w | h) = (c(h w) + T(h) p_{k-1}(w | h')) / (c(h) + T(h)),    p_0 = 1 / V

h are the k - 1 tokens before w, h' without the first, c counts, and T(h) is how many different
tokens have followed h; where h was never seen, p_k = p_{k-1}. Dimensions: B documents side by side,
T tokens of a window, N tokens looked up at once, V tokens of the vocabulary, n the order.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from entity_transformers.artifacts import read_arrays, write_arrays, write_csv, write_json
from entity_transformers.corpus.alignment import find_end
from entity_transformers.corpus.labels import give
from entity_transformers.kinds import KINDS
from entity_transformers.models.base import Batch, LanguageModel, State
from entity_transformers.step import Row, Run
from entity_transformers.tasks.perplexity import mean_loss
from entity_transformers.train.checkpoint import CURVE_COLUMNS
from entity_transformers.train.entry import list_rows

BITS, MASK = np.uint64(16), 2**16 - 1  # of a token in a key; four tokens make one of 64 bits
WEIGHTS = "model.safetensors"


def pack(tokens: np.ndarray) -> np.ndarray:
    """The keys uint64 [N] of k-grams [N, k], the earliest token in the highest bits."""
    keys = np.zeros(len(tokens), np.uint64)
    for column in tokens.astype(np.uint64).T:
        keys = (keys << BITS) | column
    return keys


class Counts:
    """The counts of all orders of a text with V different tokens: of each the sorted keys of its
    k-grams, uint64 [grams], and how often each stands in the text.
    """

    def __init__(self, orders: Sequence[tuple[np.ndarray, np.ndarray]], vocabulary: int) -> None:
        self.orders, self.vocabulary = tuple(orders), vocabulary
        self.sums = [np.concatenate([[0], np.cumsum(counts)]) for _, counts in self.orders]

    @classmethod
    def of(cls, texts: Sequence[np.ndarray], order: int, vocabulary: int, end: int) -> Counts:
        """Of documents that each begin with ``end``, which also fills the context before it."""
        if vocabulary > MASK + 1 or order * int(BITS) > 64:
            raise ValueError(
                f"an n-gram model of order {order} over {vocabulary} tokens: at most 4 and"
                f" {MASK + 1}"
            )
        before = np.full(order - 1, end, np.int64)
        windows = [
            np.lib.stride_tricks.sliding_window_view(np.concatenate([before, text]), order)[1:]
            for text in texts
        ]
        grams, orders = np.concatenate(windows), range(1, order + 1)
        keys = [np.unique(pack(grams[:, order - k :]), return_counts=True) for k in orders]
        return cls(keys, vocabulary)

    def probabilities(self, contexts: np.ndarray, words: np.ndarray) -> np.ndarray:
        """p_n of words [N] after contexts [N, n - 1], float64 [N]."""
        found = np.full(len(words), 1 / self.vocabulary)
        whole = np.column_stack([contexts, words])
        for k, ((grams, counts), sums) in enumerate(zip(self.orders, self.sums, strict=True), 1):
            keys = pack(whole[:, whole.shape[1] - k :])
            place = np.searchsorted(grams, keys).clip(max=len(grams) - 1)
            count = np.where(grams[place] == keys, counts[place], 0)
            first = np.searchsorted(grams, keys & ~np.uint64(MASK))
            last = np.searchsorted(grams, keys | np.uint64(MASK), side="right")
            total, types = sums[last] - sums[first], last - first
            mixed = (count + types * found) / np.maximum(total + types, 1)
            found = np.where(total > 0, mixed, found)
        return found


@dataclass(frozen=True)
class LatestTokens(State):
    """The n - 1 tokens before the window, int64 [B, n - 1], of which ``end`` stands for those
    before a document.
    """

    tokens: Tensor
    end: int

    def reset(self, rows: Tensor) -> Self:
        """As at the start of a document."""
        return replace(self, tokens=self.tokens.masked_fill(rows[:, None], self.end))


class NGram(LanguageModel):
    """Counts as a language model: the hidden state of a token is the context that it ends."""

    kind = KINDS["ngram"]

    def __init__(self, counts: Counts, end: int) -> None:
        self.counts, self.end = counts, end
        self.width = len(counts.orders) - 1
        self.module = nn.Module()

    def to(self, device: torch.device | str) -> NGram:
        """Itself: the counts stay in main memory."""
        return self

    @property
    def device(self) -> torch.device:
        """Where its tensors are."""
        return torch.device("cpu")

    def count_parameters(self) -> int:
        """The numbers that are counted: the different n-grams of all orders."""
        return sum(len(grams) for grams, _ in self.counts.orders)

    def start(self, rows: int, entities: int = 0) -> LatestTokens:
        return LatestTokens(torch.full((rows, self.width), self.end), self.end)

    def encode(self, batch: Batch, state: LatestTokens) -> tuple[Tensor, LatestTokens]:
        whole = torch.cat([state.tokens, batch.tokens], 1)
        hidden = whole.unfold(1, self.width, 1)[:, 1:]
        return hidden.float(), LatestTokens(whole[:, -self.width :], self.end)

    def nats(self, hidden: Tensor, targets: Tensor) -> Tensor:
        wanted = targets.flatten().numpy()
        contexts = hidden.flatten(0, -2).long().numpy()
        found = -np.log(self.counts.probabilities(contexts, np.maximum(wanted, 0)))
        return torch.from_numpy(np.where(wanted < 0, 0.0, found)).float().view(targets.shape)

    def logits(self, hidden: Tensor) -> Tensor:
        contexts = hidden.flatten(0, -2).long().numpy()
        every = np.arange(self.counts.vocabulary)
        found = [
            self.counts.probabilities(np.tile(one, (len(every), 1)), every) for one in contexts
        ]
        return torch.from_numpy(np.log(found)).float().view(*hidden.shape[:-1], -1)

    def save(self, folder: Path) -> None:
        facts: dict[str, Any] = {"model_type": self.kind.name, "end": self.end}
        facts["vocabulary"] = self.counts.vocabulary
        write_json(folder / "config.json", facts)
        arrays = {
            f"{name}_{k}": array
            for k, pair in enumerate(self.counts.orders, start=1)
            for name, array in zip(("grams", "counts"), pair, strict=True)
        }
        write_arrays(folder / WEIGHTS, arrays, facts)

    @classmethod
    def load(cls, folder: Path) -> NGram:
        arrays, facts = read_arrays(folder / WEIGHTS)
        orders = range(1, len(arrays) // 2 + 1)
        counts = [(arrays[f"grams_{k}"], arrays[f"counts_{k}"]) for k in orders]
        return cls(Counts(counts, facts["vocabulary"]), facts["end"])


def train(run: Run) -> list[Row]:
    """Count the training text of a study and save the model: what step lm does for this kind."""
    started = time.time()
    corpus, end = run.tokens("train"), find_end(run.tokenizer)
    texts = [corpus.tokens[corpus.document(d)] for d in range(len(corpus))]
    vocabulary = run.tokenizer.get_vocab_size()
    counts = Counts.of(texts, run.entry.lm.order, vocabulary, end)
    model, seconds = NGram(counts, end).eval(), time.time() - started
    model.save(run.folder)
    write_csv(run.folder / "curve.csv", [], CURVE_COLUMNS)
    loss = mean_loss(model, give(run.tokens("dev"), "none"), window=run.entry.lm.window)
    read = len(corpus.tokens) - len(corpus)
    numbers = {
        "parameters": model.count_parameters(),
        "tokens_seen": read,
        **dict.fromkeys(("dev_loss_on", "dev_loss_off", "best_dev_loss"), loss),
        "tokens_per_second": read / seconds,
        "seconds_total": seconds,
    }
    return list_rows(numbers, run.entry)
