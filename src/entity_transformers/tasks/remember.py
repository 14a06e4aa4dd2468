"""A text goes in, its entities are found as it is read, and a model with an entity pointer of its
own (kind gpt2-pointer) writes on.

What is written is read like the rest: its words go through the resolver, and a mention enters the
memory once it is known, as late as the model's labels lag.
Dimensions: N tokens read so far, <|endoftext|> first, V the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from entity_transformers.corpus.alignment import align_split, find_end, word_labels
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.splitting import WordSplitter
from entity_transformers.models.base import Batch
from entity_transformers.models.pointer.model import GPT2Pointer
from entity_transformers.resolve.base import Resolver, resolve
from entity_transformers.tasks.mentions import Mention, find_mentions

ROOM = 256
"""Entities that the memory has room for at first, and by how many it grows."""


@dataclass(frozen=True)
class Known:
    """An entity that the text has named: its forms, the latest first, its mentions so far, words
    since the last one, and does the memory hold it?
    """

    forms: tuple[str, ...]
    mentions: int
    ago: int
    held: bool


@dataclass(frozen=True)
class Guess:
    """What may come next: the token's text, its probability, and that without the memory."""

    text: str
    p: float
    alone: float


class EntityReader:
    """The model and a causal resolver in the course of one document, in windows of ``window``
    tokens. Where the resolver has thought better of a mention, the windows from there on are read
    again.

    A model without a pointer, a resolver that reads on, or a document without words raises
    ValueError.
    """

    def __init__(
        self,
        model: GPT2Pointer,
        tokenizer: Tokenizer,
        resolver: Resolver,
        document: Document,
        window: int,
    ) -> None:
        if getattr(model, "pointer", None) is None:
            raise ValueError(f"{type(model).__name__} has no entity pointer: name another model")
        if not resolver.causal:
            raise ValueError(
                f"resolver {resolver.name} reads on before it decides, which writing can't: take"
                " one whose name ends in -causal"
            )
        if not document.words:
            raise ValueError(f"{document.id}: no words to read")
        self.model, self.resolver, self.window = model, resolver, window
        self.tokenizer, self.splitter = tokenizer, WordSplitter()
        self.document = document
        corpus = align_split(
            [document], tokenizer, split="train", policy="outermost", spacing="natural"
        )
        self.inputs = corpus.tokens.astype(np.int64)
        self.words = corpus.words[1:].astype(np.int64)
        self.read = len(self.words)
        self.windows: list[tuple[np.ndarray, Any]] = []  # labels read, and the state after them
        self.mentions = self._find_mentions()

    def known(self) -> list[Known]:
        """Every entity that the memory may know by now, the latest mentioned first."""
        now, held = len(self.words), self._held()
        found: dict[int, list[Mention]] = {}
        for mention in self.mentions:
            if mention.known <= now:
                found.setdefault(mention.entity, []).append(mention)
        latest = sorted(found.values(), key=lambda own: -own[-1].end)
        return [
            Known(
                tuple(dict.fromkeys(self._write(m.form).strip() for m in reversed(own))),
                len(own),
                int(self.words[-1] - self.words[own[-1].end - 1]),
                any(m.start in held for m in own),
            )
            for own in latest
        ]

    def _held(self) -> set[int]:
        """The first tokens of the mentions that the memory holds: all that have been known for as
        long as the model's labels lag, and are short enough to be kept.
        """
        config, now = self.model.module.config, len(self.inputs)
        return {
            m.start
            for m in self.mentions
            if m.end + 1 + config.entity_lag <= now and m.end - m.start <= config.pointer_tokens
        }

    def labels(self) -> np.ndarray:
        """The entity of each token, int64 [N]; 0: none."""
        found = np.zeros(len(self.inputs), np.int64)
        for mention in self.mentions:
            found[mention.start + 1 : mention.end + 1] = mention.entity
        return found

    @torch.inference_mode()
    def predict(self) -> tuple[Tensor, Tensor]:
        """Probabilities of every token to come next, with the memory and without: float32 [V]
        each.
        """
        labels, size = self.labels(), self.window
        room = int(labels.max(initial=0)) // ROOM * ROOM + ROOM
        last = (len(labels) - 1) // size * size
        state = self.model.start(1, room)
        for index, start in enumerate(range(0, last, size)):
            given = labels[start : start + size]
            if index < len(self.windows) and not np.array_equal(self.windows[index][0], given):
                del self.windows[index:]
            if index == len(self.windows):
                _, left = self.model.encode(self._batch(start, start + size, labels), state)
                self.windows.append((given, left))
            state = self.windows[index][1].grow(room)
        hidden, _ = self.model.encode(self._batch(last, len(labels), labels), state)
        said = self.model.logits(hidden[0, -1]).log_softmax(-1)
        alone = hidden[0, -1, : self.model.width] @ self.model.output_weight.T
        return said.exp().float().cpu(), alone.float().softmax(-1).cpu()

    def _batch(self, start: int, end: int, labels: np.ndarray) -> Batch:
        tokens, given = (
            torch.from_numpy(array[start:end])[None].to(self.model.device)
            for array in (self.inputs, labels)
        )
        return Batch(tokens, given)

    def guess(self, most: int) -> list[Guess]:
        """The likeliest next tokens."""
        mixed, alone = self.predict()
        values, places = mixed.topk(min(most, len(mixed)))
        pairs = zip(places.tolist(), values.tolist(), strict=True)
        return [Guess(self._write([i]), p, float(alone[i])) for i, p in pairs]

    def write_on(self, count: int, seed: int, temperature: float = 1.0) -> Iterator[str]:
        """The texts of ``count`` drawn tokens, each read before the next is drawn; temperature 0:
        always the likeliest. ``<|endoftext|>`` ends it.
        """
        generator = torch.Generator().manual_seed(seed)
        end = find_end(self.tokenizer)
        written = ""
        for _ in range(count):
            mixed, _ = self.predict()
            token = (
                int(mixed.argmax())
                if temperature == 0
                else int(torch.multinomial(mixed ** (1 / temperature), 1, generator=generator))
            )
            if token == end:
                return
            self.append(token)
            whole = self._write(self.inputs[1 + self.read :])
            if not whole.endswith("\N{REPLACEMENT CHARACTER}"):  # a character's first bytes
                yield whole[len(written) :]
                written = whole

    def append(self, token: int) -> None:
        """Read one more token."""
        self.inputs = np.append(self.inputs, token)
        before = int(self.words[-1])
        self._split_words()
        if self.words[-1] != before:  # else the resolver would be asked the same
            self.mentions = self._find_mentions()

    def _split_words(self) -> None:
        """The words of what was written. A token is of the word that it begins in; one that is
        nothing but a space, of the word to come.
        """
        new = self.inputs[1 + self.read :].tolist()
        line = " ".join(self._write(new).split())
        words, spaces, _ = self.splitter.split([line] if line else [])
        begun = [0, *accumulate(map(_count, words))]
        before = [_count(self._write(new[:i])) for i in range(len(new))]
        own, old = self.words[: self.read], self.document
        count = int(own[-1]) + 1
        self.words = np.append(own, count + np.searchsorted(begun, before, side="right") - 1)
        flags = None if old.space_after is None else (*old.space_after[:count], *spaces)
        self.document = replace(
            old, words=(*old.words[:count], *words), space_after=flags, tags=None, mentions=()
        )

    def _find_mentions(self) -> list[Mention]:
        resolved = resolve(self.resolver, self.document, "outermost")
        labels, spans = word_labels(resolved, "outermost")
        # a word to come has no label yet
        labels, spans = np.append(labels, 0), np.append(spans, -1)
        words = self.words
        return find_mentions(labels[words], spans[words], words, self.inputs[1:])

    def _write(self, tokens: Sequence[int] | np.ndarray) -> str:
        return self.tokenizer.decode([int(token) for token in tokens], skip_special_tokens=False)


def _count(text: str) -> int:
    """Characters that are no white space."""
    return len("".join(text.split()))
