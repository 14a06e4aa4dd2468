"""Text as memory: what a policy keeps of the text so far is put before the window, so that any
language model can read it, even one behind an API.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import find_given_spans, give
from entity_transformers.corpus.tokens import join_splits, take_middle
from entity_transformers.encode.reader import compute_token_losses, lay_out, plan_windows
from entity_transformers.logs import log_progress
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.step import Row, Rows, Run
from entity_transformers.tasks.perplexity import mention_distances, sum_parts
from entity_transformers.tasks.policies import POLICIES, describe
from entity_transformers.tasks.renaming import rename

Keep = Callable[[int], np.ndarray]
"""Maps the place where a window begins to the places that are kept of the text before it."""
Kept = tuple[str, str, int]
"""A policy, its layer of labels and its budget."""
NOTHING: Kept = ("none", "none", 0)
UNREAD = {"texts", "windows", "renamed_windows"}
"""Keys of a section that do not affect the numbers of one text in one window."""


@dataclass(frozen=True)
class Remembered:
    """One window of a document and what is remembered beside it.

    places  int64 [M + T]  positions of the tokens that are read: M kept ones, then the window's
    new     how many of them, at the end, no earlier window has read
    """

    places: np.ndarray
    new: int


def plan_memory(length: int, window: int, stride: int, keep: Keep) -> Iterator[Remembered]:
    """Yield the windows of a document, each with what is kept; the last token is not an input."""
    for start, new, end in plan_windows(length - 1, window, stride):
        yield Remembered(np.concatenate([keep(start), np.arange(start, end)]), end - new)


@torch.inference_mode()
def score_text_memory(
    model: LanguageModel,
    tokens: np.ndarray,
    keep: Keep,
    *,
    window: int,
    stride: int,
    batch: int,
    known: int = 0,
) -> np.ndarray:
    """Return the nats, float32 [N], of each token of a document, which begins with the token that
    precedes every document, given its window and the kept text; 0 for the first. Windows of similar
    size are scored side by side; those that predict only the first ``known`` tokens are left out.
    """
    nats = np.zeros(len(tokens), np.float32)
    asked = (p for p in plan_memory(len(tokens), window, stride, keep) if p.places[-1] + 2 > known)
    plans = sorted(asked, key=lambda p: len(p.places))
    for first in range(0, len(plans), batch):
        targets, states = read_remembered(model, tokens, plans[first : first + batch])
        nats[targets] = compute_token_losses(model, states, tokens[targets])
    return nats


def read_remembered(
    model: LanguageModel, tokens: np.ndarray, plans: Sequence[Remembered]
) -> tuple[np.ndarray, Tensor]:
    """Read windows of a document side by side: return the places [n] of the tokens that they are
    the first to predict, and the hidden states [n, W] that these are predicted from.
    """
    lengths = np.array([len(plan.places) for plan in plans])
    where, valid = lay_out(np.cumsum(lengths) - lengths, lengths)
    places = np.concatenate([plan.places for plan in plans])[where]
    ids = torch.from_numpy(tokens[places].astype(np.int64)).to(model.device)
    hidden, _ = model.encode(Batch(ids), model.start(len(plans)))
    fresh = valid & (np.arange(valid.shape[1]) >= (lengths - [p.new for p in plans])[:, None])
    return places[fresh] + 1, hidden[torch.from_numpy(fresh).to(model.device)]


def keep_nothing(_: int) -> np.ndarray:
    """Keep nothing."""
    return np.zeros(0, np.int64)


def name_parts(corpus: AlignedCorpus, window: int) -> dict[str, np.ndarray]:
    """Return the kinds of tokens by the split's labels, bool [N] each: all; outside mentions; in an
    entity's first mention; at most ``window`` tokens after its last one (near), or more (far).
    """
    assert corpus.given is not None
    spans = np.where(corpus.given > 0, find_given_spans(corpus), -1)
    distance = mention_distances(replace(corpus, gold=corpus.given, mentions=spans))
    predicted = corpus.words >= 0
    return {
        "all": predicted,
        "outside": predicted & (distance < 0),
        "first": predicted & (distance == 0),
        "near": predicted & (distance > 0) & (distance <= window),
        "far": predicted & (distance > window),
    }


@dataclass(frozen=True)
class Reading:
    """A split that a model reads in windows of ``window`` tokens, beside what is kept of the text
    before each window.

    section  the parameters of the step
    home     the folder of the model's weights
    once     keeps earlier results (`Run.once`)
    """

    model: LanguageModel
    corpus: AlignedCorpus
    section: Any
    window: int
    seed: int = 0
    home: Path = Path()
    once: Callable[..., Any] = lambda make, *_: make()

    @property
    def stride(self) -> int:
        """Number of tokens by which the window advances."""
        return int(self.window - self.section.context)

    @cached_property
    def keys(self) -> list[Kept]:
        """Every combination of policy, labels and budget."""
        listed = product(self.section.kept, self.section.budgets)
        return list(dict.fromkeys((kept.policy, kept.labels, budget) for kept, budget in listed))

    @cached_property
    def _layers(self) -> dict[str, AlignedCorpus]:
        names = [kept.labels for kept in self.section.kept]
        return {name: give(self.corpus, name, self.seed) for name in names}

    @cached_property
    def _parts(self) -> dict[str, np.ndarray]:
        return name_parts(give(self.corpus, self.section.parts), self.window)

    def list_keeps(self, d: int, nats: np.ndarray) -> dict[Kept, Keep]:
        """Return what each of `keys` keeps of document ``d``; ``nats`` [N] are the model's."""
        pasts = {name: describe(text, d, nats) for name, text in self._layers.items()}

        def keep(key: Kept, place: int) -> np.ndarray:
            policy, labels, budget = key
            return POLICIES[policy](pasts[labels].before(place), budget)

        return {key: partial(keep, key) for key in self.keys}

    def list_rows(self, key: Kept, held: int, nats: np.ndarray) -> Rows:
        """Yield the bytes held, bits per byte, the loss by kind of token, and documents' nats."""
        about = dict(zip(("policy", "labels", "budget"), key, strict=True))
        about |= {"window": self.window}
        size = int(self.corpus.bytes.sum(dtype=np.int64))
        bits = float(nats.sum(dtype=np.float64)) / math.log(2) / size if size else None
        split = {"split": self.corpus.split}
        yield {"measure": "bytes", "value": held, **split, **about}
        yield {"measure": "bits_per_byte", "value": bits, "count": size, **split, **about}
        yield from sum_parts(self.corpus, nats, self._parts, about)


Read = Callable[[np.ndarray, Keep, Kept], tuple[np.ndarray, int]]
"""Reads a text's tokens [N] with what is kept; returns nats [N] and bytes."""


def score_windows(run: Run, score: Callable[[Reading], Rows]) -> Rows:
    """Yield the rows of a section's texts and windows; ValueError for windows that are too long."""
    section, context = run.section, run.trained.context
    corpus = join_splits([run.split(split) for split in section.splits])
    if section.tokens is not None:
        corpus = take_middle(corpus, section.tokens, edge=1000)
    most = section.count_read(int(np.diff(corpus.offsets).max(initial=0)))
    if context is not None and most > context:
        raise ValueError(
            f"{run.step.name}: reads {most} tokens at once, but {run.model} reads at most {context}"
        )
    seed, own = run.seed or 0, section.model_dump_json(exclude=UNREAD)

    def score_window(text: str, read: AlignedCorpus, window: int) -> list[Row]:
        def once(make: Callable[[], Any], *key: object) -> Any:
            return run.once(make, own, text, window, *key)

        reading = Reading(run.trained, read, section, window, seed, run.home("lm"), once)
        found: list[Row] = once(lambda: list(score(reading)))
        return found

    for text in section.texts:
        read = corpus
        if text == "renamed":
            read = rename(corpus, section.parts, run.tokenizer, seed)
        for window in section.list_windows(text):
            yield from ({**row, "text": text} for row in score_window(text, read, window))


def score_policies(reading: Reading, read: Read) -> Rows:
    """Yield the rows of each policy; bytes are those beyond what is held without a memory."""
    corpus = reading.corpus
    found: dict[Kept, list[np.ndarray]] = {key: [] for key in (NOTHING, *reading.keys)}
    held = dict.fromkeys(found, 0)

    def read_once(d: int, keep: Keep, key: Kept) -> tuple[np.ndarray, int]:
        def make() -> list[Any]:
            nats, held = read(corpus.tokens[corpus.document(d)], keep, key)
            return [nats.tolist(), held]

        nats, size = reading.once(make, d, key)
        return np.array(nats, np.float32), size

    for d in log_progress(range(len(corpus)), f"window {reading.window}: texts"):
        plain, least = read_once(d, keep_nothing, NOTHING)
        found[NOTHING].append(plain)
        for key, keep in reading.list_keeps(d, plain).items():
            nats, whole = read_once(d, keep, key)
            found[key].append(nats)
            held[key] = max(held[key], whole - least)
    for key, each in found.items():
        yield from reading.list_rows(key, held[key], np.concatenate(each))


def score_texts(reading: Reading) -> Rows:
    """Yield the rows of step text_memory: what is kept is put before each window."""
    section, window = reading.section, reading.window
    batch = max(1, section.batch_tokens // (window + max(section.budgets)))
    how = {"window": window, "stride": reading.stride, "batch": batch}

    def read(tokens: np.ndarray, keep: Keep, _: Kept) -> tuple[np.ndarray, int]:
        nats = score_text_memory(reading.model, tokens, keep, **how)
        return nats, tokens[keep(len(tokens))].nbytes

    yield from score_policies(reading, read)
