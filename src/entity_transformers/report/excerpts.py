"""A few documents token by token: what step excerpts left of each model and seed, as the report's
browser shows it and pictures.json keeps it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.document import Document
from entity_transformers.report.spans import name_entities

LEAST = 1  # percent of the attention that an entity must get to be told
LONGEST = 4  # bytes of a character
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Page:
    """One document: the text of each token that is predicted [n], the gold entity of each (0:
    none), and a name for each entity.
    """

    name: str
    tokens: tuple[str, ...]
    entities: tuple[int, ...]
    names: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Scores:
    """One model with ``entities`` on or off, its means over ``seeds`` trainings. By document and
    token: ``nats``, to two digits, and where it reads entities ``read``, pairs of an entity and the
    percent of the entity attention that it got.
    """

    model: str
    entities: str
    seeds: int
    nats: tuple[tuple[float, ...], ...]
    read: tuple[tuple[tuple[tuple[int, int], ...], ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Excerpts:
    """The documents and what each model made of them."""

    split: str
    pages: tuple[Page, ...]
    scores: tuple[Scores, ...]


def gather_excerpts(
    corpus: AlignedCorpus,
    documents: Sequence[Document],
    decode: Callable[[Sequence[int]], str],
    runs: Mapping[str, Sequence[Arrays]],
) -> Excerpts:
    """``corpus`` cut as the step cut it, with its ``documents`` whole; ``runs``: by model the
    arrays of each seed.
    """
    names = name_entities(documents, corpus)
    pages, first = [], 0
    for number, document in enumerate(documents):
        span = corpus.document(number)
        gold = corpus.gold[span].tolist()[1:]
        pages.append(
            Page(
                name=document.id,
                tokens=tuple(_spell(corpus.tokens[span].tolist()[1:], decode)),
                entities=tuple(gold),
                names={str(e): names[first + e - 1] for e in sorted({*gold} - {0})},
            )
        )
        first += max(gold, default=0)
    spans = [corpus.document(number) for number in range(len(corpus))]
    scores = [
        _average(model, given, seeds, spans)
        for model, seeds in runs.items()
        for given in ("on", "off")
        if all(given in arrays for arrays in seeds)
    ]
    return Excerpts(corpus.split, tuple(pages), tuple(scores))


def _spell(tokens: Sequence[int], decode: Callable[[Sequence[int]], str]) -> Iterator[str]:
    """The text of each token; a character of several tokens stands with the last of them."""
    waiting: list[int] = []
    for token in tokens:
        waiting.append(token)
        text = decode(waiting)
        if text.endswith("\N{REPLACEMENT CHARACTER}") and len(waiting) < LONGEST:
            yield ""
        else:
            yield text
            waiting = []


def _average(model: str, given: str, runs: Sequence[Arrays], spans: Sequence[slice]) -> Scores:
    mean = np.stack([arrays[given] for arrays in runs]).mean(axis=0, dtype=np.float64)
    shown = given == "on" and all("share" in arrays for arrays in runs)
    return Scores(
        model=model,
        entities=given,
        seeds=len(runs),
        nats=tuple(tuple(round(float(nats), 2) for nats in mean[span][1:]) for span in spans),
        read=tuple(
            tuple(_merge(runs, place) for place in range(span.start + 1, span.stop))
            for span in (spans if shown else ())
        ),
    )


def _merge(runs: Sequence[Arrays], place: int) -> tuple[tuple[int, int], ...]:
    """Entities and percents of one token, the largest first: means over the seeds."""
    sums: dict[int, float] = defaultdict(float)
    for arrays in runs:
        pairs = zip(arrays["entity"][place].tolist(), arrays["share"][place].tolist(), strict=True)
        for entity, share in pairs:
            sums[entity] += 100 * share / len(runs)
    told = ((entity, round(share)) for entity, share in sums.items() if entity)
    return tuple(sorted((e for e in told if e[1] >= LEAST), key=lambda e: (-e[1], e[0])))
