"""Planted facts: documents in which only a working memory can answer, because the fact lies beyond the window.

A document has three windows of 12 pieces and two entities. The first window says of each "the ATTRIBUTE NAME likes ATTRIBUTE ."; the
second and third ask "NAME likes ATTRIBUTE ." in random order and fill up with other words. Names are drawn anew for each
document, so a name by itself tells nothing. The mention is "the ATTRIBUTE NAME" at first and "NAME" later.
"""

from __future__ import annotations

import numpy as np

from .alignment import AlignedCorpus

ATTRIBUTES, NAMES, FILLERS = 10, 20, 8
END, THE, LIKES, STOP = range(4)
FIRST_ATTRIBUTE = 4
FIRST_NAME = FIRST_ATTRIBUTE + ATTRIBUTES
FIRST_FILLER = FIRST_NAME + NAMES
VOCABULARY = FIRST_FILLER + FILLERS
WINDOW, WINDOWS = 12, 3


def plant_facts(documents: int, seed: int, split: str = "train") -> AlignedCorpus:
    """``documents`` random documents of 36 predictions, as an aligned split; equal seeds give equal documents."""
    generator = np.random.default_rng(seed)
    columns = [_write_document(generator) for _ in range(documents)]
    pieces, entities, mentions = (np.concatenate(arrays).astype(np.int32) for arrays in zip(*columns, strict=True))
    length = WINDOW * WINDOWS + 1
    return AlignedCorpus(
        split,
        tuple(f"{split}-{number}#0" for number in range(documents)),
        ("",),
        pieces=pieces,
        entities=entities,
        mentions=mentions,
        words=np.tile(np.arange(-1, length - 1, dtype=np.int32), documents),
        tags=np.zeros(len(pieces), np.uint8),
        bytes=np.where(pieces == END, 0, 1).astype(np.uint16),
        offsets=np.arange(documents + 1, dtype=np.int64) * length,
    )


def _write_document(generator: np.random.Generator) -> tuple[list[int], list[int], list[int]]:
    """Pieces, entities and mentions of one document, 37 each."""
    names = generator.choice(NAMES, 2, replace=False) + FIRST_NAME
    attributes = generator.choice(ATTRIBUTES, 2) + FIRST_ATTRIBUTE
    pieces, entities = [END], [0]
    for entity in (0, 1):
        pieces += [THE, attributes[entity], names[entity], LIKES, attributes[entity], STOP]
        entities += [entity + 1] * 3 + [0] * 3
    for _ in range(WINDOWS - 1):
        pieces += [*(generator.choice(FILLERS, 4) + FIRST_FILLER)]
        entities += [0] * 4
        for entity in generator.permutation(2):
            pieces += [names[entity], LIKES, attributes[entity], STOP]
            entities += [entity + 1, 0, 0, 0]
    inside = np.array(entities) > 0
    starts = inside & (np.array(entities) != np.array([0, *entities[:-1]]))
    return pieces, entities, np.where(inside, np.cumsum(starts) - 1, -1).tolist()


def answers(corpus: AlignedCorpus) -> dict[str, np.ndarray]:
    """Indices of the pieces that answer "likes", in the facts' own window (``same``) and beyond it (``later``)."""
    places = np.flatnonzero(corpus.pieces[:-1] == LIKES) + 1
    inside = places - corpus.offsets[np.searchsorted(corpus.offsets, places, side="right") - 1]
    return {"same": places[inside <= WINDOW], "later": places[inside > WINDOW]}
