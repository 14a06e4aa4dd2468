"""A text goes in, its entities are found as it is read, and a model that remembers them writes on.

The pointer is one of step memory, which was trained with a memory of some policy and size. What is
written is read like the rest: its words go through the resolver, and a mention enters the memory
once it is known (`entries.find_mentions`). A new token is predicted from the last window of tokens.
Dimensions: T tokens read so far, W the model's width, V the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from entity_transformers.corpus.alignment import align_split, word_labels
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.encoding import END
from entity_transformers.corpus.splitting import WordSplitter
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.resolve.base import Resolver, resolve
from entity_transformers.tasks.cache import read_documents
from entity_transformers.tasks.memory.entries import (
    KEPT,
    POLICIES,
    Entries,
    Mention,
    Text,
    find_mentions,
)
from entity_transformers.tasks.memory.pointer import Pointer
from entity_transformers.tasks.memory.training import find_facts


@dataclass(frozen=True)
class TrainedPointer:
    """A pointer and the memory that it was trained with; ``window``: of the model's reading."""

    pointer: Pointer
    policy: str
    size: int
    forms: int
    window: int

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> TrainedPointer:
        """What step memory kept: the pointer's weights, and what it says of its memory."""
        size, width = arrays["query.weight"].shape
        pointer = Pointer(width, size)
        pointer.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()})
        about = (facts[name] for name in ("policy", "size", "forms", "window"))
        return cls(pointer.eval().requires_grad_(False), *about)


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


class RememberingReader:
    """A model, a pointer and a causal resolver in the course of one document.

    A resolver that reads on, or a document without words, raises ValueError.
    """

    def __init__(
        self,
        model: LanguageModel,
        trained: TrainedPointer,
        tokenizer: Tokenizer,
        resolver: Resolver,
        document: Document,
    ) -> None:
        if not resolver.causal:
            raise ValueError(
                f"resolver {resolver.name} reads on before it decides, which writing can't: take"
                " one whose name ends in -causal"
            )
        if not document.words:
            raise ValueError(f"{document.id}: no words to read")
        self.model, self.trained, self.resolver = model, trained, resolver
        self.tokenizer, self.splitter = tokenizer, WordSplitter()
        self.document = document
        corpus = align_split(
            [document], tokenizer, split="train", policy="outermost", spacing="natural"
        )
        self.inputs = corpus.tokens.astype(np.int64)  # <|endoftext|> and the T tokens
        self.words = corpus.words[1:].astype(np.int64)
        self.read = len(self.words)
        reads = {"window": trained.window, "stride": trained.window, "batch": 1}
        with torch.inference_mode():
            states, _ = next(read_documents(model, corpus, **reads))
        self.states = states.half().cpu()
        self.last = self._encode_last()
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
        """The tokens that the memory holds for what is named, recent ones among them."""
        kept, now = self.trained, len(self.words)
        name = kept.policy.removeprefix("half-")
        if name not in KEPT:
            return set()
        size = kept.size // 2 if name != kept.policy else kept.size
        return set(
            KEPT[name](self._text(), size, kept.forms, 0).between(now, now + 1).where.tolist()
        )

    @torch.inference_mode()
    def predict(self) -> tuple[Tensor, Tensor]:
        """Probabilities of every token to come next, with the memory and without: float32 [V]
        each.
        """
        weight = self.model.output_weight
        alone = torch.softmax(self.last.to(weight.device) @ weight.T, -1).float().cpu()
        now = len(self.words)
        entries = self._memory().between(now, now + 1)
        where, tokens = torch.from_numpy(entries.where), torch.from_numpy(self.inputs[1:])
        facts = find_facts(tokens, entries, now, now + 1)
        state, kept = self.last.half().float(), self.states[where].float()
        share, shares = self.trained.pointer(state[None], kept, facts)
        mixed = share.exp() * alone
        mixed.index_add_(0, tokens[where], shares[0].exp())
        return mixed, alone

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
        end = self.tokenizer.token_to_id(END)
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
        self.states = torch.cat([self.states, self.last.half()[None]])
        self.last = self._encode_last()
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

    def _encode_last(self) -> Tensor:
        """The state before the token to come, float32 [W], from the last window of tokens."""
        tokens = torch.from_numpy(self.inputs[-self.trained.window :])[None].to(self.model.device)
        with torch.inference_mode():
            hidden, _ = self.model.encode(Batch(tokens), self.model.start(1))
        return hidden[0, -1].float().cpu()

    def _find_mentions(self) -> list[Mention]:
        resolved = resolve(self.resolver, self.document, "outermost").document
        labels, spans = word_labels(resolved, "outermost")
        # a word to come has no label yet
        labels, spans = np.append(labels, 0), np.append(spans, -1)
        words = self.words
        return find_mentions(labels[words], spans[words], words, self.inputs[1:])

    def _text(self) -> Text:
        return Text(self.mentions, self.words, self.inputs[1:])

    def _memory(self) -> Entries:
        kept = self.trained
        return POLICIES[kept.policy](self._text(), kept.size, kept.forms, 0)

    def _write(self, tokens: Sequence[int] | np.ndarray) -> str:
        return self.tokenizer.decode([int(token) for token in tokens], skip_special_tokens=False)


def _count(text: str) -> int:
    """Characters that are no white space."""
    return len("".join(text.split()))
