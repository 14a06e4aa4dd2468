"""A language model that reads a text in a small window, preceded by the tokens that a policy keeps
of the text that has left the window: how this changes the loss of each token, which entities are
known, and how the text continues.

Dimension: N tokens of the text, of which the first is the one that precedes every document.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import torch

from entity_transformers.corpus.alignment import word_labels
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.files import HALVES, check_text
from entity_transformers.corpus.marked import has_marks
from entity_transformers.corpus.splitting import split_text
from entity_transformers.encode.document import POLICY, DocumentReader, list_ends
from entity_transformers.encode.reader import compute_token_losses
from entity_transformers.resolve.registry import Resolver, make_resolver
from entity_transformers.tasks.policies import POLICIES, Past, keep_recent
from entity_transformers.tasks.text_memory import (
    Keep,
    keep_nothing,
    plan_memory,
    read_remembered,
    score_text_memory,
)

BATCH = 8
"""Number of windows that are read side by side."""
KEPT = {name.replace("mentions", "names"): policy for name, policy in POLICIES.items()}


class Known(NamedTuple):
    """An entity that the text has named: its forms (the latest first), the number of its mentions,
    the number of words since the last one, and whether any word of its mentions is kept.
    """

    forms: tuple[str, ...]
    mentions: int
    ago: int
    kept: bool


@dataclass(frozen=True)
class Way:
    """The result of one way of reading.

    losses    float32 [N]  nats of each token; 0 for the first token
    expected  int64 [N]    the token that was most likely at each place
    """

    losses: np.ndarray
    expected: np.ndarray


class TextMemory:
    """Puts at most ``budget`` tokens of the earlier text, chosen by ``policy``, before each window
    that the model of ``reader`` reads. Names and entities are the text's own (its marks, or a
    document's mentions) or those that the resolver finds. ValueError for an unknown policy, a
    resolver that is not causal, no words, or a window and budget that are longer than the model can
    read.
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
                f"resolver {resolver.name} reads ahead, but generated text has no later words: use"
                " one whose name ends in -causal"
            )
        if isinstance(text, Document) and not text.words:
            raise ValueError(f"{text.id}: has no words to read")
        longest = reader.model.context
        if longest is not None and reader.window + budget > longest:
            raise ValueError(
                f"a window of {reader.window} tokens plus {budget} kept ones, but the model reads"
                f" at most {longest} tokens: reduce one of them"
            )
        self.reader, self.resolver, self.policy, self.budget = reader, resolver, policy, budget
        marked = has_marks(text) if isinstance(text, str) else bool(text.mentions)
        self._resolved = resolver is not None and not marked
        self.source = reader.encode(text, resolver)
        self.document = document = cast(Document, self.source.document)
        words = self.source.words
        _, spans = word_labels(document, POLICY)
        text_of = self.source.tokens, words, spans[words], self.source.entity_ids
        self.past = Past(*text_of, np.zeros(len(words)))
        self._paid = self.past.tokens[:0], np.zeros(0, np.float32)

    def keep(self, place: int) -> np.ndarray:
        """Return the positions [M] of the tokens before ``place`` that are kept."""
        past = self.past
        if self.policy == "surprising":
            past = replace(past, nats=self.nats)
        return KEPT[self.policy](past.before(place), self.budget)

    @cached_property
    def nats(self) -> np.ndarray:
        """Nats of each token, float32 [N], without a memory. After `extend` only the new tokens are
        read.
        """
        (before, paid), tokens, reader = self._paid, self.past.tokens, self.reader
        alike = min(len(tokens), len(before))
        known = int(np.logical_and.accumulate(tokens[:alike] == before[:alike]).sum())
        how = {"window": reader.window, "stride": reader.stride, "batch": BATCH, "known": known}
        nats = score_text_memory(reader.model, tokens, keep_nothing, **how)
        nats[:known] = paid[:known]
        return nats

    def keep_recent(self, place: int) -> np.ndarray:
        """Return the positions of the latest tokens before ``place``, up to the budget."""
        return keep_recent(self.past.before(place), self.budget)

    @torch.inference_mode()
    def read(self, ways: Mapping[str, Keep]) -> Iterator[tuple[int, dict[str, Way]]]:
        """Read the text in each of these ways, a few windows at a time. After each batch, yield the
        number of tokens read and the results so far, which are 0 for later tokens.
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
        """Return every entity that the text has named, the latest mentioned first."""
        words, mentions = self.document.words, self.document.mentions
        end, kept = len(words), set(self.past.words[self.keep(len(self.past))].tolist())
        found: dict[int, list[int]] = {}
        for number, mention in enumerate(mentions):
            found.setdefault(mention.chain, []).append(number)

        def describe(own: list[int]) -> Known:
            spans = [range(mentions[i].start, mentions[i].end) for i in reversed(own)]
            forms = dict.fromkeys(" ".join(words[one.start : one.stop]) for one in spans)
            held = not all(map(kept.isdisjoint, spans))
            return Known(tuple(forms), len(own), end - spans[0].stop, held)

        return [describe(own) for own in sorted(found.values(), key=lambda own: -own[-1])]

    @property
    def kept(self) -> np.ndarray:
        """The token ids that are kept of the whole text, int32 [M]."""
        return self.past.tokens[self.keep(len(self.past))].astype(np.int32)

    def prompt(self, keep: Keep, more: Sequence[int] = ()) -> np.ndarray:
        """Return what the model reads before it continues the text, which ``more`` tokens follow:
        the kept tokens and the latest ones, so that the window has room for ``stride`` new tokens.
        """
        end, latest = len(self.past), max(1, self.reader.window - self.reader.stride)
        start = min(end, max(0, end + len(more) - latest))
        before = self.source.tokens[np.concatenate([keep(start), np.arange(start, end)])]
        return np.concatenate([before, np.array(more, np.int64)])

    def extend(self, text: str) -> TextMemory:
        """Return a new memory of this text followed by ``text``, with a space between them only if
        ``text`` begins with one. Half of a surrogate pair in it raises ValueError.
        """
        check_text(text, "text", math.inf, HALVES)
        line = " ".join(text.split())
        words, spaces, _ = split_text([line] if line else [])
        old = self.document
        spaces = [text[:1].isspace(), *spaces]
        flags = None if old.space_after is None else (*old.space_after[:-1], *spaces)
        longer = replace(
            old,
            words=(*old.words, *words),
            space_after=flags,
            mentions=() if self._resolved else old.mentions,
            tags=None,
        )
        memory = TextMemory(
            self.reader, longer, self.resolver, policy=self.policy, budget=self.budget
        )
        if self.policy == "surprising":
            memory._paid = self.past.tokens, self.nats
        return memory

    def continue_text(
        self, count: int, seed: int, *, remembers: bool = True, streamer: Any = None, **how: Any
    ) -> str:
        """Continue the text by ``count`` tokens with transformers' ``generate``, which takes the
        remaining keywords. With ``remembers=False`` nothing that leaves the window is kept.
        """
        if not hasattr(self.reader.model.module, "generate"):
            raise ValueError(f"{self.reader.model.kind.label} cannot generate text")
        memory, new = self, list[int]()
        torch.manual_seed(seed)
        module: Any = self.reader.model.module
        while len(new) < count:
            more = self._find_open(new)
            if read := new[: len(new) - len(more)]:
                memory = self.extend(self._decode(read))
            room = max(1, self.reader.window + 1 - len(more))
            size = min(room, count - len(new), self.reader.stride)
            prompt = memory.prompt(memory.keep if remembers else keep_nothing, more)
            ids = torch.from_numpy(prompt)[None].to(self.reader.model.device)
            made = module.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                min_new_tokens=size,
                max_new_tokens=size,
                pad_token_id=next(iter(list_ends(module)), None),
                streamer=streamer,
                **how,
            )
            new += made[0, len(prompt) :].tolist()
        return self._decode(new)

    def _decode(self, new: Sequence[int]) -> str:
        """Return the text of later tokens; some tokenizers drop the space before the first."""
        last = self.source.tokens[-1:].tolist()
        return self.reader.decode([*last, *new])[len(self.reader.decode(last)) :]

    def _find_open(self, new: list[int]) -> list[int]:
        """Return the last tokens, at most four, that become text only with those that follow."""
        for start in range(len(new), max(-1, len(new) - 5), -1):
            text = self._decode(new[:start])
            if text == text.rstrip().rstrip("\ufffd"):
                return new[start:]
        return []
