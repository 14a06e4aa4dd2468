"""A task's examples as sequences of tokens, as in GPT-1's figure 1, with a resolver's entities for
models that read them.

classification  [start] text [extract]
entailment      [start] premise [delimiter] hypothesis [extract]
pronoun         [start] before the pronoun [delimiter] a candidate and the rest [extract], for each
                candidate

A text after a delimiter begins with a space, so that its first word is encoded as it is inside a
text: GPT-1's encoder marks the ends of words, GPT-2's their beginnings.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TypeVar

import numpy as np
from tokenizers import Tokenizer

from entity_transformers.corpus.alignment import AlignedCorpus, spelled_out, word_labels
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.labels import shuffle_labels
from entity_transformers.corpus.splitting import split_annotated
from entity_transformers.corpus.tasks import Example, Shape
from entity_transformers.resolve.registry import Resolver, resolve

NEW = 3
"""Number of tokens that follow those of the encoder: start, delimiter, extract."""
Chains = Callable[[Sequence[str], Sequence[Sequence[int]]], list[list[int]]]
"""Maps texts, and the character after each token of each text, to the entity of each token."""
T = TypeVar("T")


@dataclass(frozen=True)
class Inputs:
    """An example: its sequences of tokens, its label (-1: no option is right), and whether any of
    it was cut.

    entities  for each sequence, the entity of each token, 0 for none; (): the model reads none
    read      for each sequence, the number of tokens in [start] and the first of two texts, which
              leave their entities in the memory before the whole is read; 0: there is one text
    """

    sequences: tuple[tuple[int, ...], ...]
    label: int
    cut: bool
    entities: tuple[tuple[int, ...], ...] = ()
    read: tuple[int, ...] = ()

    @property
    def recalls(self) -> bool:
        """Does an entity of a first text recur after it, so that the memory holds it?"""
        pairs = zip(self.entities, self.read, strict=True)
        return any(set(one[:at]) & set(one[at:]) - {0} for one, at in pairs)


def list_parts(example: Example, shape: Shape) -> list[tuple[str, ...]]:
    """Return the texts of each sequence of an example."""
    if shape == "pronoun":
        assert example.blank is not None
        before = example.texts[0][: example.blank[0]].rstrip()
        rest = example.texts[0][example.blank[1] :]
        parts = [(before, option + rest) for option in example.options]
        return [part if before else part[1:] for part in parts]
    return [example.texts]


def make_inputs(
    examples: Sequence[Example],
    shape: Shape,
    tokenizer: Tokenizer,
    longest: int | None,
    chains: Chains | None = None,
    *,
    first: int | None = None,
) -> list[Inputs]:
    """Return the inputs of examples, in sequences of at most ``longest`` tokens (None: any number),
    with the entities of ``chains``; ``first``: the id of start. In a longer sequence with a
    pronoun, the text before it loses its beginning, then the rest its end; else the longer text
    loses its end.
    """
    size = tokenizer.get_vocab_size() if first is None else first
    start, delimiter, extract = range(size, size + NEW)
    sentences = [texts for example in examples for texts in list_parts(example, shape)]
    spelled = [" " * (at > 0) + text for texts in sentences for at, text in enumerate(texts)]
    with spelled_out(tokenizer):
        encoded = iter(tokenizer.encode_batch(spelled, add_special_tokens=False))
    pieces = [[next(encoded) for _ in texts] for texts in sentences]
    ends = [
        # a second text was encoded with a space before it
        [
            begin + end
            for begin, piece in zip((0, len(texts[0])), parts, strict=False)
            for _, end in piece.offsets
        ]
        for texts, parts in zip(sentences, pieces, strict=True)
    ]
    whole = [" ".join(texts) for texts in sentences]
    entities = chains(whole, ends) if chains else [[0] * len(one) for one in ends]
    made = []
    for parts, labels in zip(pieces, entities, strict=True):
        entity = iter(labels)
        pairs = [[(token, next(entity)) for token in piece.ids] for piece in parts]
        room = None if longest is None else longest - len(pairs) - 1
        kept = pairs if room is None else shorten(pairs, room, shape == "pronoun")
        row = [(start, 0), *kept[0]]
        for piece in kept[1:]:
            row += [(delimiter, 0), *piece]
        read = 1 + len(kept[0]) if len(kept) > 1 else 0
        made.append(([*row, (extract, 0)], read, kept != pairs))
    found, rest = [], iter(made)
    for example in examples:
        rows, reads, cut = zip(*islice(rest, len(list_parts(example, shape))), strict=True)
        tokens, given = (tuple(tuple(pair[i] for pair in row) for row in rows) for i in (0, 1))
        label = -1 if example.label is None else example.label
        found.append(Inputs(tokens, label, any(cut), *((given, reads) if chains else ())))
    return found


def shorten(pieces: list[list[T]], room: int, context: bool) -> list[list[T]]:
    """Shorten the texts of a sequence to at most ``room`` tokens in all; ``context`` tells whether
    the first of two is the context of an answer.
    """
    over = sum(map(len, pieces)) - room
    if over <= 0:
        return pieces
    if len(pieces) == 1:
        return [pieces[0][:room]]
    first, second = pieces
    if context:
        return [first[over:], second[:room]]
    shorter, half = min(len(first), len(second)), room // 2
    if shorter > half:
        return [first[: room - half], second[:half]]
    long = room - shorter
    return [first[:long], second[:long]]


def find_entities(
    resolver: Resolver,
    shuffled: bool,
    seed: int,
    texts: Sequence[str],
    ends: Sequence[Sequence[int]],
) -> list[list[int]]:
    """Return the entity of each token of each text, 0 for none, by the character after it
    (`Chains`), from the resolver's chains or from these permuted among a text's mentions.
    """
    names = tuple(map(str, range(len(texts))))
    entities, mentions = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    for name, text, last in zip(names, texts, ends, strict=True):
        words, places, *_ = split_annotated(text, ())
        document = Document(name, 0, "test", "", tuple(words), (0,))
        entity, mention = word_labels(resolve(resolver, document), "outermost")
        # a space before a word belongs to it; one after the last word to none
        word = np.searchsorted([end for _, end in places], last)
        entities.append(entity[word])
        mentions.append(mention[word])
    offsets = np.cumsum([0, *map(len, ends)], dtype=np.int64)
    labels = np.concatenate(entities).astype(np.int32)
    if shuffled:
        spans, zeros = np.concatenate(mentions).astype(np.int32), np.zeros_like(labels)
        columns = (zeros, labels, spans, zeros, zeros, zeros)
        corpus = AlignedCorpus("test", names, (), *columns, offsets)
        labels = shuffle_labels(corpus, labels, seed, spans)
    return [labels[a:b].tolist() for a, b in pairwise(offsets)]
