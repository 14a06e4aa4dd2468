"""A language model in a small window, beside which it reads what a policy keeps of the text that
has left the window: what that changes for each token, who is known, and a text that goes on.

Dimension: N tokens of the text, the first one the token before a document.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import torch

from entity_transformers.corpus.alignment import word_labels
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.files import HALVES, check_text
from entity_transformers.corpus.splitting import WordSplitter
from entity_transformers.encode.document import POLICY, DocumentReader
from entity_transformers.encode.reader import compute_token_losses
from entity_transformers.resolve.base import Resolver
from entity_transformers.resolve.registry import make_resolver
from entity_transformers.tasks.policies import POLICIES, Past, keep_recent
from entity_transformers.tasks.text_memory import (
    Keep,
    keep_nothing,
    plan_memory,
    read_remembered,
    score_text_memory,
)

BATCH = 8
"""Windows that are read side by side."""
KEPT = {name.replace("mentions", "names"): policy for name, policy in POLICIES.items()}


class Known(NamedTuple):
    """An entity that the text has named: its forms, the latest first, its mentions so far, words
    since the last one, and is any of them kept?
    """

    forms: tuple[str, ...]
    mentions: int
    ago: int
    kept: bool


@dataclass(frozen=True)
class Way:
    """What one way of reading gave.

    losses    float32 [N]  nats of each token; 0 at the first
    expected  int64 [N]    the token that was the likeliest in its place
    """

    losses: np.ndarray
    expected: np.ndarray


class TextMemory:
    """The model of ``reader`` in its windows, and what ``policy`` keeps of a text before each, at
    most ``budget`` tokens. Names and entities are those that the resolver finds, or the text's own
    (marks, or a document's mentions).

    A policy that needs more than that, a resolver that reads on before it decides, a document
    without words, and a window and budget that are together too long for the model raise
    ValueError.
    """

    def __init__(
        self,
        reader: DocumentReader,
        text: str | Document,
        resolver: str | Resolver | None = None,
        *,
        policy: str = "names",
        budget: int = 64,
    ) -> None:
        if policy not in KEPT:
            raise ValueError(f"policy {policy!r}, expected one of {', '.join(KEPT)}")
        if isinstance(resolver, str):
            resolver = make_resolver(resolver)
        if resolver is not None and not resolver.causal:
            raise ValueError(
                f"resolver {resolver.name} reads on before it decides, which writing can't: take"
                " one whose name ends in -causal"
            )
        if isinstance(text, Document) and not text.words:
            raise ValueError(f"{text.id}: no words to read")
        longest = reader.model.context
        if longest is not None and reader.window + budget > longest:
            raise ValueError(
                f"a window of {reader.window} tokens and {budget} kept ones, but the model reads at"
                f" most {longest}"
            )
        self.reader, self.resolver, self.policy, self.budget = reader, resolver, policy, budget
        self.source = reader.encode(text, resolver)
        self.document = document = cast(Document, self.source.document)
        words = self.source.words
        _, spans = word_labels(document, POLICY)
        spans = np.where(words < 0, -1, spans[words])
        text_of = self.source.tokens, words, spans, self.source.entity_ids
        self.past = Past(*text_of, np.zeros(len(words)))
        self._paid = self.past.tokens[:0], np.zeros(0, np.float32)

    def keep(self, place: int) -> np.ndarray:
        """The places [M] of the tokens that are kept of those before ``place``."""
        past = self.past
        if self.policy == "surprising":
            past = replace(past, nats=self.nats)
        return KEPT[self.policy](past.before(place), self.budget)

    @cached_property
    def nats(self) -> np.ndarray:
        """What the model pays for each token in its window alone, float32 [N]; of a text that was
        extended, the further tokens alone are read for it.
        """
        (before, paid), tokens, reader = self._paid, self.past.tokens, self.reader
        alike = min(len(tokens), len(before))
        known = int(np.logical_and.accumulate(tokens[:alike] == before[:alike]).sum())
        how = {"window": reader.window, "stride": reader.stride, "batch": BATCH, "known": known}
        nats = score_text_memory(reader.model, tokens, keep_nothing, **how)
        nats[:known] = paid[:known]
        return nats

    def keep_recent(self, place: int) -> np.ndarray:
        """The latest tokens before ``place``, as many as the policy may keep."""
        return keep_recent(self.past.before(place), self.budget)

    @torch.inference_mode()
    def read(self, ways: Mapping[str, Keep]) -> Iterator[tuple[int, dict[str, Way]]]:
        """Read the text in each of these ways, a few windows at a time: how many tokens have been
        read, and what was found until then; of later tokens there is nothing yet.
        """
        tokens, model = self.source.tokens, self.reader.model
        how = len(tokens), self.reader.window, self.reader.stride
        plans = {name: list(plan_memory(*how, keep)) for name, keep in ways.items()}
        found = {
            name: Way(np.zeros(len(tokens), np.float32), np.zeros(len(tokens), np.int64))
            for name in ways
        }
        for first in range(0, max(map(len, plans.values()), default=0), BATCH):
            for name, way in found.items():
                some = plans[name][first : first + BATCH]
                places, states = read_remembered(model, tokens, some)
                way.losses[places] = compute_token_losses(model, states, tokens[places])
                way.expected[places] = model.guess(states).cpu().numpy()
            yield int(some[-1].places[-1]) + 2, found

    def known(self) -> list[Known]:
        """Every entity that the text has named, the latest mentioned first."""
        words, mentions = self.document.words, self.document.mentions
        end, kept = len(words), set(self.past.spans[self.keep(len(self.past))].tolist())
        found: dict[int, list[int]] = {}
        for number, mention in enumerate(mentions):
            found.setdefault(mention.chain, []).append(number)

        def describe(own: list[int]) -> Known:
            spans = (mentions[i] for i in reversed(own))
            forms = dict.fromkeys(" ".join(words[one.start : one.end]) for one in spans)
            ago = end - mentions[own[-1]].end
            return Known(tuple(forms), len(own), ago, not kept.isdisjoint(own))

        return [describe(own) for own in sorted(found.values(), key=lambda own: -own[-1])]

    @property
    def kept(self) -> np.ndarray:
        """The tokens that are kept of the whole text, int32 [M]."""
        return self.past.tokens[self.keep(len(self.past))].astype(np.int32)

    def prompt(self, keep: Keep) -> np.ndarray:
        """What is read before the text goes on: the kept tokens, then the latest ones, of which a
        window has room for ``stride`` more.
        """
        start = max(0, len(self.past) - max(1, self.reader.window - self.reader.stride))
        return self.source.tokens[np.concatenate([keep(start), np.arange(start, len(self.past))])]

    def extend(self, text: str) -> TextMemory:
        """The same after more text; ValueError for half of a surrogate pair in it."""
        check_text(text, "text", math.inf, HALVES)
        line = " ".join(text.split())
        words, spaces, _ = WordSplitter().split([line] if line else [])
        old = self.document
        flags = None if old.space_after is None else (*old.space_after[:-1], True, *spaces)
        longer = replace(
            old,
            words=(*old.words, *words),
            space_after=flags,
            mentions=() if self.resolver else old.mentions,
            tags=None,
        )
        memory = TextMemory(
            self.reader, longer, self.resolver, policy=self.policy, budget=self.budget
        )
        if self.policy == "surprising":
            memory._paid = self.past.tokens, self.nats
        return memory

    def write_on(
        self, count: int, seed: int, *, remembers: bool = True, streamer: Any = None, **how: Any
    ) -> str:
        """``count`` tokens that go on with the text, drawn as transformers' ``generate`` does
        (``how`` are its keywords); what has left the window is kept as it is in reading.
        """
        if not hasattr(self.reader.model.module, "generate"):
            raise ValueError(f"{self.reader.model.kind.label} reads documents, but writes none")
        memory, written = self, ""
        torch.manual_seed(seed)
        module: Any = self.reader.model.module
        while count:
            size = min(count, self.reader.stride)
            prompt = memory.prompt(memory.keep if remembers else keep_nothing)
            ids = torch.from_numpy(prompt)[None].to(self.reader.model.device)
            made = module.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                min_new_tokens=size,
                max_new_tokens=size,
                pad_token_id=module.config.eos_token_id,
                streamer=streamer,
                **how,
            )
            written += self.reader.decode(made[0, len(prompt) :].cpu().numpy())
            memory, count = self.extend(written), count - size
        return written
