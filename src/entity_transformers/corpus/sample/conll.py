"""Sentences as rows of a CoNLL-2012 file: twelve columns and one more for each verb of the
sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from entity_transformers.corpus.sample.grammar import Entity, Sentence

Span = tuple[int, int, int]


def format_part(sentences: Sequence[Sentence], name: str, part: int) -> str:
    """One part from ``#begin document`` to ``#end document``; the genre ``pt`` gets an empty
    named-entity column.
    """
    chains = number_chains(sentences)
    blocks = ("\n".join(_rows(sentence, chains, name, part)) for sentence in sentences)
    body = "\n\n".join(blocks)
    return f"#begin document ({name}); part {part:03d}\n{body}\n\n#end document\n"


def number_chains(sentences: Iterable[Sentence]) -> dict[Entity, int]:
    """Chain ids from 0 in order of first mention; an entity mentioned once gets none, as in
    OntoNotes.
    """
    counts = Counter(entity for sentence in sentences for _, _, entity in _in_order(sentence))
    return {
        entity: chain
        for chain, entity in enumerate(entity for entity, count in counts.items() if count > 1)
    }


def _in_order(sentence: Sentence) -> list[tuple[int, int, Entity]]:
    return sorted(sentence.mentions, key=lambda mention: (mention[0], -mention[1]))


def _rows(sentence: Sentence, chains: dict[Entity, int], name: str, part: int) -> Iterator[str]:
    words = len(sentence.words)
    mentions = [
        (start, end, chains[entity])
        for start, end, entity in _in_order(sentence)
        if entity in chains
    ]
    verbs = [index for index, tag in enumerate(sentence.tags) if tag.startswith("VB")]
    parse = parse_column(sentence)
    named_entities = named_entity_column(
        words, [] if name.startswith("pt/") else sentence.named_entities
    )
    coreference = coreference_column(words, mentions)
    for index, (word, tag) in enumerate(zip(sentence.words, sentence.tags, strict=True)):
        first = (
            name,
            str(part),
            str(index),
            word,
            tag,
            parse[index],
            "-",
            "-",
            "-",
            sentence.speaker,
            named_entities[index],
        )
        yield "   ".join(
            (*first, *("(V*)" if index == verb else "*" for verb in verbs), coreference[index])
        )


def parse_column(sentence: Sentence) -> list[str]:
    """A flat but well-formed tree: the sentence and the noun phrases that are mentions, one bracket
    string a word.
    """
    opening, closing = [""] * len(sentence.words), [0] * len(sentence.words)
    for start, end, _ in _in_order(sentence):
        if end - start > 1 or sentence.tags[start] != "PRP$":
            opening[start] += "(NP"
            closing[end - 1] += 1
    opening[0] = "(TOP(S" + opening[0]
    closing[-1] += 2
    return [f"{left}*{')' * right}" for left, right in zip(opening, closing, strict=True)]


def named_entity_column(words: int, spans: Iterable[tuple[int, int, str]]) -> list[str]:
    """``(PERSON*``, ``*``, ``*)`` or ``(PERSON)`` for each word."""
    cells = ["*"] * words
    for start, end, label in spans:
        cells[start] = f"({label}*" if end - start > 1 else f"({label})"
        if end - start > 1:
            cells[end - 1] = "*)"
    return cells


def coreference_column(words: int, mentions: Iterable[Span]) -> list[str]:
    """``(12``, ``12)``, ``(12)`` joined by ``|`` for each word, ``-`` where no mention begins or
    ends; mentions in reading order.
    """
    opening: list[list[str]] = [[] for _ in range(words)]
    closing: list[list[str]] = [[] for _ in range(words)]
    for start, end, chain in mentions:
        if end - start == 1:
            opening[start].append(f"({chain})")
        else:
            opening[start].append(f"({chain}")
            closing[end - 1].insert(0, f"{chain})")
    return ["|".join(left + right) or "-" for left, right in zip(opening, closing, strict=True)]
