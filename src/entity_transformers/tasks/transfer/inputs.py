"""A task's examples as sequences of tokens, by GPT-1's figure 1.

classification  [start] text [extract]
entailment      [start] premise [delimiter] hypothesis [extract]
similarity      both orders of [start] one [delimiter] other [extract]; their states are added
choice          [start] context [delimiter] answer [extract], for each answer
pronoun         as choice: the sentence before the pronoun, then a candidate and the rest
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from entity_transformers.corpus.encoding import spelled_out
from entity_transformers.corpus.tasks import Example, Shape

NEW = 3
"""Tokens after those of the encoder: start, delimiter, extract."""


@dataclass(frozen=True)
class Inputs:
    """An example: its sequences of tokens, its label (an index, or a number), and whether something
    of it was cut.
    """

    sequences: tuple[tuple[int, ...], ...]
    label: float
    cut: bool


def list_parts(example: Example, shape: Shape) -> list[tuple[str, ...]]:
    """The texts of each sequence of an example."""
    if shape == "similarity":
        return [example.texts, example.texts[::-1]]
    if shape == "choice":
        return [(example.texts[0], option) for option in example.options]
    if shape == "pronoun":
        assert example.blank is not None
        before = example.texts[0][: example.blank[0]].rstrip()
        rest = example.texts[0][example.blank[1] :]
        parts = [(before, option + rest) for option in example.options]
        return [part if before else part[1:] for part in parts]
    return [example.texts]


def make_inputs(
    examples: Sequence[Example], shape: Shape, tokenizer: Tokenizer, longest: int | None
) -> list[Inputs]:
    """The inputs of examples, in sequences of at most ``longest`` tokens (None: any).

    Of a longer one the context of a choice loses its beginning, then the answer its end; of other
    sequences the longer text loses its end. An example without a label is refused (ValueError).
    """
    size = tokenizer.get_vocab_size()
    start, delimiter, extract = range(size, size + NEW)
    parts = [list_parts(example, shape) for example in examples]
    texts = [text for sequences in parts for texts in sequences for text in texts]
    with spelled_out(tokenizer):
        encoded = iter(tokenizer.encode_batch(texts, add_special_tokens=False))
    found = []
    for example, sequences in zip(examples, parts, strict=True):
        if example.label is None:
            raise ValueError(f"example {example.name} has no label, which training needs")
        rows, cut = [], False
        for one in sequences:
            pieces = [next(encoded).ids for _ in one]
            room = None if longest is None else longest - len(pieces) - 1
            kept = pieces if room is None else shorten(pieces, room, shape in ("choice", "pronoun"))
            cut |= kept != pieces
            row = [start, *kept[0]]
            for piece in kept[1:]:
                row += [delimiter, *piece]
            rows.append((*row, extract))
        found.append(Inputs(tuple(rows), float(example.label), cut))
    return found


def shorten(pieces: list[list[int]], room: int, context: bool) -> list[list[int]]:
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
