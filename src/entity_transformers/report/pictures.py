"""What the report shows beside numbers, small enough to be committed as pictures.json: the aligned
example of table 1, the appendix's pictures of mention vectors as coordinates in the plane, and a
few documents token by token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from entity_transformers.report.excerpts import Excerpts
from entity_transformers.report.spans import Example

MENTIONS_PER_ENTITY = 60
DIGITS = 8  # of a coordinate: drawn from them, a picture is the same to the pixel


Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Cloud:
    """Mentions as n points in the plane.

    names     of the entities, in the order of the legend
    entity    which of them each point mentions, [n]
    models    whose vectors these are
    model     which of them each point comes from, [n]
    places    by projection (PCA, t-SNE), each [n, 2]
    """

    names: tuple[str, ...]
    entity: tuple[int, ...]
    models: tuple[str, ...]
    model: tuple[int, ...]
    places: Mapping[str, tuple[Point, ...]]


@dataclass(frozen=True, slots=True)
class Pictures:
    """All of pictures.json.

    clouds    by the name of their figure
    kept      figures whose coordinates are not known any more: their committed PNG is shown
    excerpts  None: step excerpts did not run
    """

    example: Example | None = None
    clouds: Mapping[str, Cloud] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    excerpts: Excerpts | None = None


@dataclass(frozen=True, slots=True)
class MentionVectors:
    """Vectors [mentions, width] of one model's mentions and the number of the entity that each
    refers to [mentions].
    """

    vectors: np.ndarray
    entities: np.ndarray


def take_mentions(arrays: Mapping[str, np.ndarray], key: str = "context_on") -> MentionVectors:
    """The vectors to picture out of the arrays of mentions.safetensors: head words in their
    document, entities given.
    """
    return MentionVectors(arrays[key], arrays["entity"])


def make_cloud(
    mentions: Mapping[str, MentionVectors], names: Sequence[str], n_entities: int
) -> Cloud | None:
    """Mentions of the most-mentioned entities by PCA and by t-SNE; ``mentions`` by model, ``names``
    by the number of an entity. None where there are too few or all vectors are equal.
    """
    first = next(iter(mentions.values()))
    chosen = choose_mentions(first.entities, n_entities)
    if len(chosen) < 5 or any(
        len(one.entities) != len(first.entities) for one in mentions.values()
    ):
        return None
    centred = len(mentions) > 1
    points = np.concatenate([_unit(one.vectors[chosen], centred) for one in mentions.values()])
    if not np.ptp(points, axis=0).max() > 0:
        return None
    numbers = np.asarray(first.entities)[chosen].tolist()
    order = list(dict.fromkeys(numbers))
    return Cloud(
        names=tuple(names[n] if n < len(names) else f"entity {n}" for n in order),
        entity=tuple(order.index(n) for n in numbers) * len(mentions),
        models=tuple(mentions),
        model=tuple(i for i in range(len(mentions)) for _ in numbers),
        places={
            name: tuple((_round(x), _round(y)) for x, y in found.tolist())
            for name, found in project(points).items()
        },
    )


def _round(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def choose_mentions(entities: np.ndarray, n_entities: int) -> np.ndarray:
    """Rows of the first mentions (at most 60) of each of the most-mentioned entities, ties to the
    earlier entity.
    """
    numbers, counts = np.unique(entities, return_counts=True)
    top = numbers[np.argsort(-counts, kind="stable")][:n_entities]
    return np.concatenate(
        [np.flatnonzero(entities == number)[:MENTIONS_PER_ENTITY] for number in top]
        or [np.zeros(0, np.int64)]
    )


def project(points: np.ndarray) -> dict[str, np.ndarray]:
    """Points [n, width] in the plane, [n, 2]: by PCA, and by t-SNE started from it with a fixed
    seed.

    On one thread, since t-SNE enlarges the rounding of sums: the picture is the same however many
    cores there are.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    perplexity = min(30.0, (len(points) - 1) / 3)
    tsne = TSNE(
        n_components=2,
        perplexity=perplexity,
        init="pca",
        learning_rate="auto",
        random_state=0,
        n_jobs=1,
    )
    with threadpool_limits(1):
        return {
            "PCA": PCA(n_components=2, svd_solver="full").fit_transform(points),
            "t-SNE": tsne.fit_transform(points.astype(np.float32)),
        }


def _unit(vectors: np.ndarray, centred: bool) -> np.ndarray:
    wide = np.asarray(vectors, dtype=np.float64)
    unit = wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-12)
    return unit - unit.mean(axis=0) if centred else unit


def write_pictures(pictures: Pictures) -> dict[str, Any]:
    """pictures.json as an object."""
    found: dict[str, Any] = _SHAPE.dump_python(pictures, mode="json")
    return found if found["excerpts"] else {k: v for k, v in found.items() if k != "excerpts"}


def parse_pictures(found: Mapping[str, Any], source: str = "pictures.json") -> Pictures:
    """The inverse of `write_pictures`; what is missing or wrong raises ValueError naming
    ``source``.
    """
    try:
        return _SHAPE.validate_python(found)
    except ValidationError as error:
        told = error.errors()[0]
        where = ".".join(map(str, told["loc"]))
        raise ValueError(f"{source}: {where}: {told['msg']}: collect the pictures again") from None


_SHAPE = TypeAdapter(Pictures)
