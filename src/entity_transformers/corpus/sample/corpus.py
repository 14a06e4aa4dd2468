"""The files of the sample corpus: which documents, how long, in which split."""

from __future__ import annotations

import random
from collections.abc import Iterator

from entity_transformers.corpus.sample.conll import format_part
from entity_transformers.corpus.sample.stories import GENRES, draw_story

SHARES = {"train": 0.8, "development": 0.1, "test": 0.1}
LEAST_WORDS = 2000
SHORTEST_PART, LONGEST_PART = 110, 780


def generate_corpus(words: int, seed: int) -> dict[str, str]:
    """A corpus of about ``words`` words (within 3 % from 20,000 on) in CoNLL-2012's form: relative
    file name -> text.

    80 % of the words are in train, 10 % in development, 10 % in test; the layout is that of the
    official distribution
    (``data/train/data/english/annotations/nw/sample/00/sample_0001.v4_gold_conll``). The same
    arguments give the same bytes. Fewer than 2,000 words raise ValueError.
    """
    if words < LEAST_WORDS:
        raise ValueError(
            f"a sample corpus of {words} words is too small to be split: ask for at least"
            f" {LEAST_WORDS}"
        )
    files = {}
    number = 0
    for split, share in SHARES.items():
        left = round(words * share)
        while left >= SHORTEST_PART:
            number += 1
            genre = GENRES[number % len(GENRES)]
            name = f"{genre}/sample/{number // 100:02d}/sample_{number:04d}"
            text, length = _generate_document(random.Random(f"{seed}/{number}"), genre, name, left)
            files[f"data/{split}/data/english/annotations/{name}.v4_gold_conll"] = text
            left -= length
    return files


def _generate_document(rng: random.Random, genre: str, name: str, left: int) -> tuple[str, int]:
    """A document of one to four parts, ``left`` words at most or so, and its length in words."""
    parts = draw_story(rng, genre, list(_draw_lengths(rng, left)))
    text = "".join(format_part(sentences, name, part) for part, sentences in enumerate(parts))
    return text, sum(len(sentence.words) for sentences in parts for sentence in sentences)


def _draw_lengths(rng: random.Random, left: int) -> Iterator[int]:
    """Lengths of one to four parts; where too little would be left for another part, the last one
    takes it all.
    """
    for _ in range(rng.choice((1, 1, 2, 3, 4))):
        length = rng.randrange(SHORTEST_PART, LONGEST_PART)
        if left - length < SHORTEST_PART:
            yield left
            return
        yield length
        left -= length
