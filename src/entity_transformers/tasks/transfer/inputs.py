"""A task's examples as sequences of tokens, by GPT-1's figure 1.

classification  [start] text [extract]
entailment      [start] premise [delimiter] hypothesis [extract]
pronoun         [start] before the pronoun [delimiter] a candidate and the rest [extract], for each
                candidate

A text after a delimiter begins with a space, so that its first word is the token that it is inside
a text: GPT-1's encoder marks ends of words, GPT-2's their beginnings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tokenizers import Encoding, Tokenizer

from entity_transformers.corpus.alignment import spelled_out
from entity_transformers.corpus.tasks import Example, Shape

NEW = 3
"""Tokens after those of the encoder: start, delimiter, extract."""
Chains = Callable[[Sequence[str], Sequence[Sequence[int]]], list[list[int]]]
"""From texts, and of each the character after each of its tokens, to the entity of each token."""
T = TypeVar("T")


@dataclass(frozen=True)
class Inputs:
    """An example: its sequences of tokens, its label (-1: none is right), and whether something
    of it was cut.

    entities  of each sequence the entity of each token, 0 for none; (): no entities are given
    read      of each sequence the tokens of [start] and the first of two texts, which leave their
              entities in the memory before the whole is read; 0: there is one text
    """

    sequences: tuple[tuple[int, ...], ...]
    label: int
    cut: bool
    entities: tuple[tuple[int, ...], ...] = ()
    read: tuple[int, ...] = ()

    @property
    def recalls(self) -> bool:
        """Does an entity of a first text come again after it, so that the memory holds it?"""
        pairs = zip(self.entities, self.read, strict=True)
        return any(set(one[:at]) & set(one[at:]) - {0} for one, at in pairs)


def list_parts(example: Example, shape: Shape) -> list[tuple[str, ...]]:
    """The texts of each sequence of an example."""
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
    judged: bool = False,
) -> list[Inputs]:
    """The inputs of examples, in sequences of at most ``longest`` tokens (None: any), with entities
    where ``chains`` gives any. ``first``: the id of start, None: the one after the encoder's.

    Of a longer one with a pronoun what stands before it loses its beginning, then the rest its end;
    of other sequences the longer text loses its end. An example without a label is refused
    (ValueError) but where it is ``judged`` alone.
    """
    size = tokenizer.get_vocab_size() if first is None else first
    start, delimiter, extract = range(size, size + NEW)
    parts = [list_parts(example, shape) for example in examples]
    texts = [
        " " * (at > 0) + text
        for sequences in parts
        for texts in sequences
        for at, text in enumerate(texts)
    ]
    with spelled_out(tokenizer):
        encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
    sentences = [one for sequences in parts for one in sequences]
    given = iter(_pair_with_entities(sentences, encoded, chains))
    found = []
    for example, sequences in zip(examples, parts, strict=True):
        if example.label is None and not judged:
            raise ValueError(f"example {example.name} has no label, which training needs")
        rows, read, cut = [], [], False
        for _ in sequences:
            pieces = next(given)
            room = None if longest is None else longest - len(pieces) - 1
            kept = pieces if room is None else shorten(pieces, room, shape == "pronoun")
            cut |= kept != pieces
            row = [(start, 0), *kept[0]]
            for piece in kept[1:]:
                row += [(delimiter, 0), *piece]
            rows.append([*row, (extract, 0)])
            read.append(1 + len(kept[0]) if len(kept) > 1 else 0)
        tokens, entities = (
            tuple(tuple(pair[part] for pair in row) for row in rows) for part in (0, 1)
        )
        more = (entities, tuple(read)) if chains is not None else ()
        label = -1 if example.label is None else example.label
        found.append(Inputs(tokens, label, cut, *more))
    return found


def _pair_with_entities(
    sentences: Sequence[tuple[str, ...]], encoded: Sequence[Encoding], chains: Chains | None
) -> list[list[list[tuple[int, int]]]]:
    """The texts of each sequence as pairs of a token and its entity, by the chains on its texts in
    a row with a space between; 0 without chains.
    """
    each = iter(encoded)
    pieces = [[next(each) for _ in texts] for texts in sentences]
    ends = []
    for texts, parts in zip(sentences, pieces, strict=True):
        # a later text was encoded with the space before it
        begins = [sum(map(len, texts[:at])) + max(0, at - 1) for at in range(len(texts))]
        ends.append(
            [
                [begin + last for _, last in part.offsets]
                for begin, part in zip(begins, parts, strict=True)
            ]
        )
    flat = [[end for part in one for end in part] for one in ends]
    whole = [" ".join(texts) for texts in sentences]
    found = chains(whole, flat) if chains else [[0] * len(one) for one in flat]
    pairs = []
    for parts, entities in zip(pieces, found, strict=True):
        rest = iter(entities)
        pairs.append([[(token, next(rest)) for token in part.ids] for part in parts])
    return pairs


def shorten(pieces: list[list[T]], room: int, context: bool) -> list[list[T]]:
    """The texts of a sequence in at most ``room`` tokens; ``context``: is the first one of two the
    context of an answer?
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
