"""Cosine similarity of mentions (table 4), in time linear in the mentions: every mean over pairs
comes from sums of unit vectors.

With unit vectors u_i and S = sum of n of them, the mean cosine over their n (n - 1) ordered pairs
is (|S|^2 - n) / (n (n - 1)).
"""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import numpy as np

from entity_transformers.step import Rows

CONTEXTS = {"words": "word", "context": "context"}
"""Values of the rows' column ``context``, and the prefix of each one's arrays."""
MODES = ("on", "off")


def similarity_rows(arrays: Mapping[str, np.ndarray], groups: Iterable[str]) -> Rows:
    """Yield similarities by group, context and mode from the arrays of `encode.embed_mentions`."""
    for g, group in enumerate(groups):
        rows = np.flatnonzero(arrays["group"] == g)
        entity = arrays["entity"][rows]
        for (context, prefix), mode in product(CONTEXTS.items(), MODES):
            vectors, memory = arrays[f"{prefix}_{mode}"][rows], arrays[f"memory_{mode}"]
            numbers = measure_similarity(vectors, entity, memory)
            about = {"group": group, "context": context, "entities": mode}
            several = numbers.pop("entities")
            for name, value in numbers.items():
                count = None if name == "mentions" else several
                yield {"measure": name, "value": value, "count": count, **about}


def across_rows(
    ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray], groups: Iterable[str]
) -> Rows:
    """Yield `measure_cka` of the same mentions in two models by group and context: the first reads
    them with entities (``on``) and as words outside mentions (``off``), as the second always does.
    """
    if not np.array_equal(ours["entity"], theirs["entity"]):
        raise ValueError("the models' vectors are of different mentions: run step embeddings again")
    for g, group in enumerate(groups):
        rows = np.flatnonzero(ours["group"] == g)
        for (context, prefix), mode in product(CONTEXTS.items(), MODES):
            first, second = ours[f"{prefix}_{mode}"][rows], theirs[f"{prefix}_off"][rows]
            about = {"group": group, "context": context, "entities": mode, "count": len(rows)}
            yield {"measure": "cka", "value": measure_cka(first, second), **about}


def measure_cka(first: np.ndarray, second: np.ndarray) -> float | None:
    """Return the linear centred kernel alignment (Kornblith et al. 2019) of two models' vectors [M,
    W] and [M, V] of the same M items: |X'Y|^2 / (|X'X| |Y'Y|), with means subtracted and Frobenius
    norms. It is 0 to 1, and 1 for a copy that is rotated, mirrored, scaled or shifted as a whole;
    None without items, or if a model's vectors are all the same.
    """
    if not len(first):
        return None
    x, y = (one - one.mean(0) for one in (first.astype(np.float64), second.astype(np.float64)))
    own = np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)
    return float(np.linalg.norm(x.T @ y) ** 2 / own) if own else None


def measure_similarity(
    vectors: np.ndarray, entity: np.ndarray, memory: np.ndarray
) -> dict[str, Any]:
    """Compare M mention vectors [M, width] of entities [M], rows of ``memory`` [E, width].

    mentions                   M
    entities                   entities with two mentions or more, over which the three means
                               below are taken
    mention_similarity         mean over entities of the mean cosine of their mentions' pairs
    entity_similarity          mean over entities of the mean cosine of mention and memory vector
    entity_similarity_to_ones  the same with the vector of ones, which every memory starts as
    between_entities           mean cosine over all pairs of mentions of different entities
    *_centred                  the same after subtracting the mean of the M vectors, which takes out
                               the anisotropy of the space

    A similarity without any pair is None. A vector that is not finite raises ValueError.
    """
    if not (np.isfinite(vectors).all() and np.isfinite(memory).all()):
        raise ValueError(
            "a mention's or entity's vector is not finite, so the model diverged: train it again"
        )
    vectors = vectors.astype(np.float64)
    order = np.argsort(entity, kind="stable")
    ids, firsts, n = np.unique(entity[order], return_index=True, return_counts=True)
    several, pairs = n >= 2, n * (n - 1.0)
    result: dict[str, Any] = {"mentions": len(vectors), "entities": int(several.sum())}
    means = vectors.sum(axis=0) / max(len(vectors), 1)
    for name, space in (("", vectors), ("_centred", vectors - means)):
        units = _normalise(space[order])
        sums = np.add.reduceat(units, firsts, axis=0)  # [entities, width]
        squares = np.einsum("ew,ew->e", sums, sums)
        # |u|^2 is 1, or 0 for a zero vector, whose cosine with everything is 0
        selves = np.add.reduceat(np.einsum("mw,mw->m", units, units), firsts)
        within = (squares - selves)[several] / pairs[several]
        total = sums.sum(axis=0)
        apart = n.sum() ** 2 - (n**2).sum()
        result[f"mention_similarity{name}"] = _mean(within)
        if not name:
            known = _normalise(memory[ids].astype(np.float64))
            to_memory = np.einsum("ew,ew->e", sums, known) / n
            to_ones = sums.sum(axis=1) / np.sqrt(vectors.shape[1]) / n
            result["entity_similarity"] = _mean(to_memory[several])
            result["entity_similarity_to_ones"] = _mean(to_ones[several])
        result[f"between_entities{name}"] = (
            float((total @ total - squares.sum()) / apart) if apart else None
        )
    return result


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def _normalise(vectors: np.ndarray) -> np.ndarray:
    """Scale rows to length 1; a zero row stays zero."""
    length = np.sqrt(np.einsum("mw,mw->m", vectors, vectors))[:, None]
    return np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
