"""An n-gram model with interpolated Witten-Bell smoothing (Witten and Bell 1991; Chen and Goodman
1999, section 2.6): counts of the training text, which any neural model has to beat.

    p_k(w | h) = (c(h w) + T(h) p_{k-1}(w | h')) / (c(h) + T(h)),    p_0 = 1 / V

h are the k - 1 tokens before w, h' without the first, c counts, and T(h) is how many different
tokens have followed h; where h was never seen, p_k = p_{k-1}. Dimensions: B documents side by side,
T tokens of a window, N tokens looked up at once, V tokens of the vocabulary, n the order.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from entity_transformers.artifacts import read_arrays, write_arrays, write_csv, write_json
from entity_transformers.corpus.alignment import find_end
from entity_transformers.corpus.labels import give
from entity_transformers.kinds import KINDS
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.step import Row, Run
from entity_transformers.tasks.perplexity import mean_loss
from entity_transformers.train.entry import LOSSES, list_rows
from entity_transformers.train.progress import CURVE_COLUMNS

BITS = 16  # of a token's number in a key; four tokens make one of 64 bits
WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Order:
    """The k-grams of one order: sorted keys uint64 [grams] and how often each stands in the text;
    their contexts likewise, with c(h) and T(h).
    """

    grams: np.ndarray
    counts: np.ndarray
    contexts: np.ndarray
    totals: np.ndarray
    types: np.ndarray


def make_order(grams: np.ndarray, counts: np.ndarray) -> Order:
    """The order with these k-grams, sorted and different, and how often each stands in the text."""
    contexts, first = np.unique(grams >> np.uint64(BITS), return_index=True)
    types = np.diff(np.append(first, len(grams)))
    return Order(grams, counts, contexts, np.add.reduceat(counts, first), types)


def pack(tokens: np.ndarray) -> np.ndarray:
    """The keys uint64 [N] of k-grams [N, k], the earliest token in the highest bits."""
    keys = np.zeros(len(tokens), np.uint64)
    for column in tokens.astype(np.uint64).T:
        keys = (keys << np.uint64(BITS)) | column
    return keys


def look_up(keys: np.ndarray, known: np.ndarray, *values: np.ndarray) -> list[np.ndarray]:
    """The values of ``keys`` [N] among the sorted ``known``, 0 for one that is not there."""
    places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    found = known[places] == keys
    return [np.where(found, one[places], 0) for one in values]


class Counts:
    """The counts of all orders of a text with V different tokens."""

    def __init__(self, orders: Sequence[Order], vocabulary: int) -> None:
        self.orders, self.vocabulary = tuple(orders), vocabulary

    @classmethod
    def of(cls, texts: Sequence[np.ndarray], order: int, vocabulary: int, end: int) -> Counts:
        """Of documents that each begin with ``end``, which also fills the context before it."""
        if vocabulary > 2**BITS or order * BITS > 64:
            raise ValueError(
                f"an n-gram model of order {order} over {vocabulary} tokens: at most 4 and"
                f" {2**BITS}"
            )
        before = np.full(order - 1, end, np.int64)
        windows = [
            np.lib.stride_tricks.sliding_window_view(np.concatenate([before, text]), order)[1:]
            for text in texts
        ]
        grams, orders = np.concatenate(windows), range(1, order + 1)
        keys = [np.unique(pack(grams[:, order - k :]), return_counts=True) for k in orders]
        return cls([make_order(*one) for one in keys], vocabulary)

    def probabilities(self, contexts: np.ndarray, words: np.ndarray) -> np.ndarray:
        """p_n of words [N] after contexts [N, n - 1], float64 [N]."""
        found = np.full(len(words), 1 / self.vocabulary)
        grams = np.column_stack([contexts, words])
        for k, one in enumerate(self.orders, start=1):
            keys = pack(grams[:, grams.shape[1] - k :])
            (count,) = look_up(keys, one.grams, one.counts)
            total, types = look_up(keys >> np.uint64(BITS), one.contexts, one.totals, one.types)
            seen = total > 0
            mixed = (count + types * found) / np.maximum(total + types, 1)
            found = np.where(seen, mixed, found)
        return found

    def distribution(self, context: np.ndarray) -> np.ndarray:
        """p_n of every token after one context [n - 1], float64 [V]."""
        found = np.full(self.vocabulary, 1 / self.vocabulary)
        for k, one in enumerate(self.orders, start=1):
            key = pack(context[None, len(context) - k + 1 :])[0]
            low, high = np.searchsorted(
                one.grams, [key << np.uint64(BITS), (key + np.uint64(1)) << np.uint64(BITS)]
            )
            if k == 1:
                low, high = 0, len(one.grams)
            counts = np.zeros(self.vocabulary)
            follow = (one.grams[low:high] & np.uint64(2**BITS - 1)).astype(np.int64)
            counts[follow] = one.counts[low:high]
            if high > low:
                total, types = counts.sum(), high - low
                found = (counts + types * found) / (total + types)
        return found

    def arrays(self) -> dict[str, np.ndarray]:
        """What a file keeps; contexts follow from it."""
        return {
            f"{name}_{k}": getattr(one, name)
            for k, one in enumerate(self.orders, start=1)
            for name in ("grams", "counts")
        }


@dataclass(frozen=True)
class LatestTokens:
    """The state: the n - 1 tokens before the window, int64 [B, n - 1], of which ``end`` stands for
    those before a document.
    """

    tokens_: Tensor
    end: int

    def reset(self, rows: Tensor) -> LatestTokens:
        """As at the start of a document."""
        return LatestTokens(self.tokens_.masked_fill(rows[:, None], self.end), self.end)

    def detach(self) -> LatestTokens:
        """Itself: nothing of it has a gradient."""
        return self

    def select(self, rows: Tensor | slice) -> LatestTokens:
        """The documents ``rows``."""
        return LatestTokens(self.tokens_[rows], self.end)

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint would keep."""
        return {"tokens": self.tokens_}

    def replace(self, tensors: Mapping[str, Tensor]) -> LatestTokens:
        """The same with these tensors."""
        return LatestTokens(tensors["tokens"], self.end)


class NGram(LanguageModel):
    """Counts as a language model: the hidden state of a token is the context that it ends."""

    kind = KINDS["ngram"]
    context = None

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
        return sum(len(one.grams) for one in self.counts.orders)

    def start(self, rows: int, entities: int = 0) -> LatestTokens:
        return LatestTokens(torch.full((rows, self.width), self.end), self.end)

    def encode(self, batch: Batch, state: LatestTokens) -> tuple[Tensor, LatestTokens]:
        whole = torch.cat([state.tokens_, batch.tokens], 1)
        hidden = whole.unfold(1, self.width, 1)[:, 1:]
        return hidden.float(), LatestTokens(whole[:, -self.width :], self.end)

    def nats(self, hidden: Tensor, targets: Tensor) -> Tensor:
        wanted = targets.flatten().numpy()
        contexts = hidden.flatten(0, -2).long().numpy()
        found = -np.log(self.counts.probabilities(contexts, np.maximum(wanted, 0)))
        return torch.from_numpy(np.where(wanted < 0, 0.0, found)).float().view(targets.shape)

    def logits(self, hidden: Tensor) -> Tensor:
        contexts = hidden.flatten(0, -2).long().numpy()
        found = np.stack([self.counts.distribution(one) for one in contexts])
        return torch.from_numpy(np.log(found)).float().view(*hidden.shape[:-1], -1)

    def guess(self, hidden: Tensor) -> Tensor:
        return self.logits(hidden).argmax(-1)

    def save(self, folder: Path) -> None:
        facts: dict[str, Any] = {"model_type": self.kind.name, "end": self.end}
        facts["vocabulary"] = self.counts.vocabulary
        write_json(folder / "config.json", facts)
        write_arrays(folder / WEIGHTS, self.counts.arrays(), facts)


def load(folder: Path) -> NGram:
    """A saved model; none saved there: FileNotFoundError."""
    arrays, facts = read_arrays(folder / WEIGHTS)
    orders = range(1, len(arrays) // 2 + 1)
    counts = [make_order(arrays[f"grams_{k}"], arrays[f"counts_{k}"]) for k in orders]
    return NGram(Counts(counts, facts["vocabulary"]), facts["end"])


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
        **dict.fromkeys((*LOSSES, "steps", "best_step", "skipped_steps", "seconds_per_step")),
        "parameters": model.count_parameters(),
        "tokens_seen": read,
        **dict.fromkeys(("dev_loss_on", "dev_loss_off", "best_dev_loss"), loss),
        "seconds_validation_step": None,
        "seconds_total": seconds,
        "tokens_per_second": read / seconds,
        "device": "cpu",
        "processes": 1,
        "threads": 1,
    }
    return list_rows(numbers, run.entry)
