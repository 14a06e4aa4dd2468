"""An n-gram model with interpolated Witten-Bell smoothing (Witten and Bell 1991; Chen and Goodman
1999, section 2.6): counts of the training text, which any neural model has to beat.

    p_k(w | h) = (c(h w) + T(h) p_{k-1}(w | h')) / (c(h) + T(h)),    p_0 = 1 / V

h is the k - 1 tokens before w, h' is h without its first, c are counts, and T(h) is the number of
different tokens that have followed h; if h was never seen, p_k = p_{k-1}. Where neural models start
from weights learnt on another text, counts of two texts are mixed: p = s p_own + (1 - s) p_other
with the share s that makes dev likeliest (Jelinek and Mercer 1980). Dimensions: B documents side by
side, T tokens of a window, N tokens looked up at once, V tokens of the vocabulary, n the order.
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
from entity_transformers.models.weights import find_weights
from entity_transformers.step import Row, Run
from entity_transformers.tasks.perplexity import mean_loss
from entity_transformers.train.checkpoint import CURVE_COLUMNS
from entity_transformers.train.entry import list_rows

BITS, MASK = np.uint64(16), 2**16 - 1  # bits of a token in a key; four tokens fill 64 bits
WEIGHTS = "model.safetensors"


def pack(tokens: np.ndarray) -> np.ndarray:
    """Pack k-grams [N, k] into keys uint64 [N], the earliest token in the highest bits."""
    keys = np.zeros(len(tokens), np.uint64)
    for column in tokens.astype(np.uint64).T:
        keys = (keys << BITS) | column
    return keys


def list_grams(texts: Sequence[np.ndarray], order: int, end: int) -> np.ndarray:
    """List the n-grams [N, n] that end at each token of the documents except the first."""
    before = np.full(order - 1, end, np.int64)
    windows = [
        np.lib.stride_tricks.sliding_window_view(np.concatenate([before, text]), order)[1:]
        for text in texts
    ]
    return np.concatenate(windows)


class Counts:
    """The counts of all orders of a text with V different tokens: for each order k the sorted keys
    of its k-grams, uint64 [grams], and how often each occurs in the text.
    """

    def __init__(self, orders: Sequence[tuple[np.ndarray, np.ndarray]], vocabulary: int) -> None:
        self.orders, self.vocabulary = tuple(orders), vocabulary
        self.sums = [np.concatenate([[0], np.cumsum(counts)]) for _, counts in self.orders]

    @classmethod
    def of(cls, texts: Sequence[np.ndarray], order: int, vocabulary: int, end: int) -> Counts:
        """Count the n-grams of documents, each of which begins with ``end``; that token also pads
        the context before the first position.
        """
        if vocabulary > MASK + 1 or order * int(BITS) > 64:
            raise ValueError(
                f"an n-gram model of order {order} over {vocabulary} tokens, expected at most"
                f" order 4 and {MASK + 1} tokens"
            )
        grams, orders = list_grams(texts, order, end), range(1, order + 1)
        keys = [np.unique(pack(grams[:, order - k :]), return_counts=True) for k in orders]
        return cls(keys, vocabulary)

    def probabilities(self, contexts: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Return p_n of words [N] after contexts [N, n - 1], float64 [N]."""
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
    """The n - 1 tokens before the window, int64 [B, n - 1]; ``end`` pads the context before a
    document.
    """

    tokens: Tensor
    end: int

    def reset(self, rows: Tensor) -> Self:
        """Return the state at the start of a document for these rows."""
        return replace(self, tokens=self.tokens.masked_fill(rows[:, None], self.end))


class NGram(LanguageModel):
    """Counts as a language model: the hidden state of a token is the context that it ends."""

    kind = KINDS["ngram"]

    def __init__(
        self, counts: Counts, end: int, other: Counts | None = None, share: float = 1.0
    ) -> None:
        """``other``: counts of another text; ``share``: the weight of ``counts`` in the mixture."""
        self.counts, self.end, self.share = counts, end, share
        self.mixed = {"": counts} if other is None else {"": counts, "other_": other}
        self.width = len(counts.orders) - 1
        self.module = nn.Module()

    def to(self, device: torch.device | str) -> NGram:
        return self  # its counts stay in main memory

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def vocabulary(self) -> int:
        return self.counts.vocabulary

    def count_parameters(self) -> int:
        """Count the different n-grams of all orders."""
        return sum(len(grams) for counts in self.mixed.values() for grams, _ in counts.orders)

    def probabilities(self, contexts: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Return p of words [N] after contexts [N, n - 1], float64 [N]."""
        own, *other = (one.probabilities(contexts, words) for one in self.mixed.values())
        return self.share * own + (1 - self.share) * other[0] if other else own

    def start(self, rows: int, entities: int = 0) -> LatestTokens:
        return LatestTokens(torch.full((rows, self.width), self.end), self.end)

    def encode(self, batch: Batch, state: LatestTokens) -> tuple[Tensor, LatestTokens]:
        whole = torch.cat([state.tokens, batch.tokens], 1)
        hidden = whole.unfold(1, self.width, 1)[:, 1:]
        return hidden.float(), LatestTokens(whole[:, -self.width :], self.end)

    def nats(self, hidden: Tensor, targets: Tensor) -> Tensor:
        wanted = targets.flatten().numpy()
        contexts = hidden.flatten(0, -2).long().numpy()
        found = -np.log(self.probabilities(contexts, np.maximum(wanted, 0)))
        return torch.from_numpy(np.where(wanted < 0, 0.0, found)).float().view(targets.shape)

    def logits(self, hidden: Tensor) -> Tensor:
        contexts = hidden.flatten(0, -2).long().numpy()
        every = np.arange(self.counts.vocabulary)
        found = [self.probabilities(np.tile(one, (len(every), 1)), every) for one in contexts]
        return torch.from_numpy(np.log(found)).float().view(*hidden.shape[:-1], -1)

    def save(self, folder: Path) -> None:
        facts: dict[str, Any] = {"model_type": self.kind.name, "end": self.end}
        facts |= {"vocabulary": self.counts.vocabulary, "share": self.share}
        arrays: dict[str, np.ndarray] = {}
        for part, counts in self.mixed.items():
            for k, (grams, numbers) in enumerate(counts.orders, start=1):
                arrays |= {f"{part}grams_{k}": grams, f"{part}counts_{k}": numbers}
        write_json(folder / "config.json", facts)
        write_arrays(folder / WEIGHTS, arrays, facts)

    @classmethod
    def load(cls, folder: Path) -> NGram:
        arrays, facts = read_arrays(folder / WEIGHTS)

        def read(part: str) -> Counts:
            count = sum(name.startswith(f"{part}grams_") for name in arrays)
            orders = range(1, count + 1)
            pairs = [(arrays[f"{part}grams_{k}"], arrays[f"{part}counts_{k}"]) for k in orders]
            return Counts(pairs, facts["vocabulary"])

        other = read("other_") if "other_grams_1" in arrays else None
        return cls(read(""), facts["end"], other, facts.get("share", 1.0))


def find_share(own: np.ndarray, other: np.ndarray) -> float:
    """Find by EM the share of ``own`` [N] that makes the tokens likeliest in a mixture with
    ``other``.
    """
    share = 0.5
    for _ in range(100):
        share = float(np.mean(share * own / (share * own + (1 - share) * other)))
    return share


def mix(run: Run, counts: Counts, weights: Path, end: int) -> NGram:
    """Mix the counts of the study's text with those of another n-gram model; one with another order
    or vocabulary raises ValueError.
    """
    other = NGram.load(weights).counts
    shapes = [(len(one.orders), one.vocabulary) for one in (counts, other)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"models.{run.model}.initial_weights: {weights} has order {shapes[1][0]} and"
            f" {shapes[1][1]:,} tokens, expected order {shapes[0][0]} and {shapes[0][1]:,} tokens"
        )
    dev = run.tokens("dev")
    grams = list_grams([dev.tokens[part] for part in dev.slices], len(counts.orders), end)
    found = [one.probabilities(grams[:, :-1], grams[:, -1]) for one in (counts, other)]
    return NGram(counts, end, other, find_share(found[0], found[1]))


def train(run: Run) -> list[Row]:
    """Count the training text of a study and save the model: step lm for this kind."""
    started = time.time()
    corpus, end = run.tokens("train"), find_end(run.tokenizer)
    texts = [corpus.tokens[part] for part in corpus.slices]
    vocabulary = run.tokenizer.get_vocab_size()
    counts = Counts.of(texts, run.entry.lm.order, vocabulary, end)
    weights = find_weights(run.entry.initial_weights)
    model = NGram(counts, end) if weights is None else mix(run, counts, weights, end)
    seconds = time.time() - started
    model.eval()
    model.save(run.folder)
    write_csv(run.folder / "curve.csv", [], CURVE_COLUMNS)
    held_out = run.tokens("dev").head(run.entry.lm.validation_documents)
    loss = mean_loss(model, give(held_out, "none"), window=run.entry.lm.window)
    read = len(corpus.tokens) - len(corpus)
    numbers = {
        "parameters": model.count_parameters(),
        "tokens_seen": read,
        **dict.fromkeys(("dev_loss_on", "dev_loss_off", "best_dev_loss"), loss),
        "tokens_per_second": read / seconds,
        "seconds_total": seconds,
    }
    return list_rows(numbers, run.entry)
