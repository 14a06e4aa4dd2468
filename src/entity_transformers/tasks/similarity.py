"""Cosine similarity of mentions (table 4), in time linear in the mentions: every mean over pairs
comes from sums of unit vectors.

With unit vectors u_i and S = sum of n of them, the mean cosine over their n (n - 1) ordered pairs
is (|S|^2 - n) / (n (n - 1)).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

CHUNK = 4096


@dataclass(frozen=True)
class UnitSums:
    """Sums over the unit vectors u of each of E entities, S being the sum of an entity's; float64
    [E] but for the last.

    counts          mentions
    squares, selves |S|^2 and the sum of |u|^2 (the mentions, less those with a zero vector, whose
    cosine is 0 with everything)
    *_cosines       summed cosines with the entity's memory vector and with the vector of ones
    total           sum of all unit vectors [width]
    """

    counts: np.ndarray
    squares: np.ndarray
    selves: np.ndarray
    memory_cosines: np.ndarray
    ones_cosines: np.ndarray
    total: np.ndarray


def summarise_similarity(
    arrays: Mapping[str, np.ndarray], groups: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """The groups of similarity.json from the arrays of `encode.embed_mentions`: words without
    and in context, entities on and off.

    Vectors are read in pieces, so that those of a mapped file need no memory that grows with them.
    A vector that is not finite raises ValueError.
    """
    result: dict[str, Any] = {}
    for g, (name, tags) in enumerate(groups.items()):
        rows = np.flatnonzero(arrays["group"] == g)
        entity = arrays["entity"][rows]
        result[name] = {"tags": list(tags)}
        for kind, prefix in (("words", "word"), ("context", "context")):
            result[name][kind] = {
                mode: measure_similarity(
                    arrays[f"{prefix}_{mode}"], entity, arrays[f"memory_{mode}"], rows
                )
                for mode in ("on", "off")
            }
    return result


def measure_similarity(
    vectors: np.ndarray, entity: np.ndarray, memory: np.ndarray, rows: np.ndarray | None = None
) -> dict[str, Any]:
    """Similarities of M mention vectors, ``rows`` [M] of ``vectors`` [N, width] or all of them, of
    entities [M], rows of ``memory`` [E, width].

    mentions                   M
    entities                   entities with two mentions or more: the ones that the three means
                               below are taken over
    mention_similarity         mean over entities of the mean cosine of their mentions' pairs
    entity_similarity          mean over entities of the mean cosine of mention and memory vector
    entity_similarity_to_ones  the same with the vector of ones, which every memory starts as
    between_entities           mean cosine over all pairs of mentions of different entities
    *_centred                  the same after subtracting the mean of the M vectors, which takes out
                               the anisotropy of the space

    None where there is no pair.
    """
    rows = np.arange(len(vectors)) if rows is None else rows
    if not (_are_finite(vectors, rows) and _are_finite(memory, np.arange(len(memory)))):
        raise ValueError(
            "a mention's or entity's vector is not finite: the model diverged; train it again"
        )
    raw = sum_units(vectors, entity, memory, np.zeros(vectors.shape[1]), rows)
    centred = sum_units(vectors, entity, memory, _average(vectors, rows), rows)
    several = raw.counts >= 2
    return {
        "mentions": len(rows),
        "entities": int(several.sum()),
        "mention_similarity": _mean(_within(raw, several)),
        "entity_similarity": _mean((raw.memory_cosines / raw.counts)[several]),
        "entity_similarity_to_ones": _mean((raw.ones_cosines / raw.counts)[several]),
        "between_entities": _between(raw),
        "mention_similarity_centred": _mean(_within(centred, several)),
        "between_entities_centred": _between(centred),
    }


def _pieces(rows: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(rows), CHUNK):
        yield rows[start : start + CHUNK]


def _are_finite(vectors: np.ndarray, rows: np.ndarray) -> bool:
    return all(np.isfinite(vectors[piece]).all() for piece in _pieces(rows))


def _average(vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Mean of some rows [width] in float64, added up row by row: no CHUNK changes a bit of it."""
    total = np.zeros((1, vectors.shape[1]))
    for piece in _pieces(rows):
        total = np.concatenate([total, vectors[piece]]).sum(axis=0, keepdims=True)
    return total[0] / max(len(rows), 1)


def _within(sums: UnitSums, several: np.ndarray) -> np.ndarray:
    """Mean cosine of the pairs of each entity with several mentions."""
    n = sums.counts[several]
    return (sums.squares - sums.selves)[several] / (n * (n - 1))


def _between(sums: UnitSums) -> float | None:
    """Mean cosine of the pairs of different entities: all pairs less those within an entity."""
    pairs = sums.counts.sum() ** 2 - (sums.counts**2).sum()
    return float((sums.total @ sums.total - sums.squares.sum()) / pairs) if pairs else None


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def sum_units(
    vectors: np.ndarray,
    entity: np.ndarray,
    memory: np.ndarray,
    centre: np.ndarray,
    rows: np.ndarray,
) -> UnitSums:
    """`UnitSums` of ``vectors[rows] - centre``; the cosines with memory and ones are those of the
    uncentred memory vector and ones.
    """
    order = np.argsort(entity, kind="stable")
    ids, firsts = np.unique(entity[order], return_index=True)
    bounds = np.append(firsts, len(order))
    squares, selves, memory_cosines, ones_cosines = np.zeros((4, len(ids)))
    total = np.zeros(vectors.shape[1])
    for low, high in _chunk_entities(bounds):
        of_these = rows[order[bounds[low] : bounds[high]]]
        units = _normalise(vectors[of_these] - centre)
        starts = bounds[low:high] - bounds[low]
        sums = np.add.reduceat(units, starts, axis=0)
        squares[low:high] = np.einsum("ew,ew->e", sums, sums)
        selves[low:high] = np.add.reduceat(np.einsum("mw,mw->m", units, units), starts)
        memory_cosines[low:high] = np.einsum(
            "ew,ew->e", sums, _normalise(memory[ids[low:high]].astype(np.float64))
        )
        ones_cosines[low:high] = sums.sum(axis=1) / np.sqrt(vectors.shape[1])
        total += sums.sum(axis=0)
    return UnitSums(
        np.diff(bounds).astype(np.float64), squares, selves, memory_cosines, ones_cosines, total
    )


def _chunk_entities(bounds: np.ndarray) -> Iterator[tuple[int, int]]:
    """Ranges of whole entities of about `CHUNK` mentions."""
    low = 0
    while low < len(bounds) - 1:
        high = max(low + 1, int(np.searchsorted(bounds, bounds[low] + CHUNK, side="right")) - 1)
        yield low, high
        low = high


def _normalise(vectors: np.ndarray) -> np.ndarray:
    """Rows of length 1; a zero row stays zero."""
    length = np.sqrt(np.einsum("mw,mw->m", vectors, vectors))[:, None]
    return np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
