"""The same text with other names, as a control for what a model has read before.

Each word of a name is replaced by an invented one with as many tokens, the same throughout the
document, so that no other token moves. Invented names have two tokens or more; a word of one token,
about half of them, is replaced by such a word of another document's names, some of which are common
words too, or stays if there are none left.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from entity_transformers.corpus.alignment import AlignedCorpus, token_bytes
from entity_transformers.corpus.labels import find_given_spans, give
from entity_transformers.resolve.lexicon import PARTICLES, THINGS, TITLES

ONSETS = "B Br D Dr F Gl H K L M N P Qu R S St T Th V W Y Z".split()
MIDDLES = "a e i o u ae au ei ou".split()
CODAS = "bbin dra fen gath lor mund nax pell rik sond thel vane wick zell".split()
KNOWN = TITLES.keys() | PARTICLES | THINGS
"""Words of names that are not names themselves."""

Tokens = tuple[int, ...]


def rename(corpus: AlignedCorpus, layer: str, tokenizer: Any, seed: int) -> AlignedCorpus:
    """Return the split with other names in the mentions of ``layer``; all else stays as it is."""
    tokens = corpus.tokens.copy()
    spans = find_given_spans(give(corpus, layer))
    every = [find_words(corpus, spans, d) for d in range(len(corpus))]
    spelt = {word: tokenizer.decode(list(word)) for words in every for _, word in words}
    named = {word for word, text in spelt.items() if text.startswith(" ") and is_name(text)}
    for d, words in enumerate(every):
        own = {word: None for _, word in words if word in named}
        others = sorted({word for word in named if len(word) == 1}.difference(own))
        generator = np.random.default_rng([seed, d])
        names = choose_names(list(own), others, tokenizer, generator)
        for start, word in words:
            tokens[start : start + len(word)] = names.get(word, word)
    sizes = np.where(tokens == corpus.tokens, corpus.bytes, token_bytes(tokenizer)[tokens])
    return replace(corpus, tokens=tokens, bytes=sizes)


def find_words(corpus: AlignedCorpus, spans: np.ndarray, d: int) -> list[tuple[int, Tokens]]:
    """Return the words inside the spans of a document: where each begins, and its tokens."""
    own = corpus.document(d)
    words = np.where(spans[own] >= 0, corpus.words[own], -1)
    edges = np.flatnonzero(np.diff(words, prepend=-1, append=-1)).tolist()
    inside = ((own.start + a, own.start + b) for a, b in pairwise(edges) if words[a] >= 0)
    return [(start, tuple(corpus.tokens[start:end].tolist())) for start, end in inside]


def choose_names(
    words: Sequence[Tokens],
    others: Sequence[Tokens],
    tokenizer: Any,
    generator: np.random.Generator,
) -> dict[Tokens, Tokens]:
    """Return another name with as many tokens for each word; ``others`` have one token."""
    by_length = defaultdict[int, list[Tokens]](list)
    for word in words:
        by_length[len(word)].append(word)
    chosen: dict[Tokens, Tokens] = {}
    for length, own in by_length.items():
        found = (
            [others[i] for i in generator.permutation(len(others))]
            if length == 1
            else invent(len(own), length, tokenizer, generator)
        )
        chosen |= dict(zip(own, found, strict=False))
    return chosen


def is_name(text: str) -> bool:
    """Is this a word that begins with a capital, and not a title, a particle or a kind of thing?"""
    word = text.strip().strip(".,'’")
    return word[:1].isupper() and word.isalpha() and word.lower() not in KNOWN


def invent(count: int, length: int, tokenizer: Any, generator: np.random.Generator) -> list[Tokens]:
    """Return up to ``count`` different invented names of ``length`` tokens, after a space."""
    found: dict[Tokens, None] = {}
    for _ in range(400 * count):
        parts = [generator.choice(ONSETS), generator.choice(MIDDLES)]
        if length > 3:
            parts += [generator.choice(CODAS), generator.choice(MIDDLES)]
        word = " " + "".join([*parts, generator.choice(CODAS)])
        ids = tuple(tokenizer.encode(word, add_special_tokens=False).ids)
        if len(ids) == length:
            found[ids] = None
        if len(found) == count:
            break
    return list(found)
