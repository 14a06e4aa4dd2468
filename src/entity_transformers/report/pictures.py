"""What the report shows besides numbers, small enough to be committed as pictures.json: the aligned
example of table 1, the appendix's mention vectors as points in the plane, and a few documents
token by token.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, product
from operator import itemgetter
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.document import Document

MENTIONS_PER_ENTITY = 60
WORDS = 23  # in table 1
DIGITS = 8  # of a coordinate, enough to redraw a picture that is the same to the pixel
LEAST = 1  # percent of the entity attention that an entity needs to be listed
LONGEST = 4  # bytes of a character, each of which may be a token
Arrays = Mapping[str, np.ndarray]
Decode = Callable[[Sequence[int]], str]


@dataclass(frozen=True, slots=True)
class Example:
    """A passage of one document, with each word's entity after the nesting policy (0 outside every
    mention) and the texts of its tokens. Table 1 shows the first ``table_words`` words.
    """

    document: str
    words: tuple[str, ...]
    entities: tuple[int, ...]
    tokens: tuple[tuple[str, ...], ...]
    table_words: int


@dataclass(frozen=True, slots=True)
class Cloud:
    """Mentions as n points in the plane.

    names     the entities' names, in the order of the legend
    entity    index of the entity that each point mentions, [n]
    models    names of the models whose vectors these are
    model     index of the model that each point comes from, [n]
    places    the points' coordinates by projection (PCA, t-SNE), each [n, 2]
    """

    names: tuple[str, ...]
    entity: tuple[int, ...]
    models: tuple[str, ...]
    model: tuple[int, ...]
    places: Mapping[str, tuple[tuple[float, float], ...]]


@dataclass(frozen=True, slots=True)
class Pictures:
    """All of pictures.json: ``clouds`` by the name of their figure, and the ``excerpts`` that
    `gather_excerpts` returns (None: step excerpts did not run).
    """

    example: Example | None = None
    clouds: Mapping[str, Cloud] = field(default_factory=dict)
    excerpts: dict[str, Any] | None = None


_SHAPE = TypeAdapter(Pictures)
write_pictures = partial(_SHAPE.dump_python, mode="json", exclude_none=True)
"""Return the JSON object of pictures.json."""


def parse_pictures(found: Mapping[str, Any], source: str = "pictures.json") -> Pictures:
    """Invert `write_pictures`; anything missing or wrong raises ValueError naming ``source``."""
    try:
        return _SHAPE.validate_python(found)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise ValueError(f"{source}: {where} is wrong: run step report again") from None


def label_words(corpus: AlignedCorpus, number: int, n_words: int) -> np.ndarray:
    """Return the entity id of each word [n_words] of document ``number``, read from its tokens."""
    span = corpus.document(number)
    words, labels = np.asarray(corpus.words[span]), np.zeros(n_words, dtype=np.int64)
    labels[words[words >= 0]] = corpus.gold[span][words >= 0]
    return labels


def take_example(
    documents: Sequence[Document], corpus: AlignedCorpus, decode: Decode, table_words: int = WORDS
) -> Example | None:
    """Return the ``table_words`` words, from the start of a sentence, in which most entities recur.

    ``documents`` and ``corpus`` are one split in the same order. Return None without documents.
    """
    passages = []
    for number, document in enumerate(documents):
        labels = label_words(corpus, number, len(document.words))
        for sentence in document.sentences():
            part = slice(sentence.start, sentence.start + table_words)
            own, words = labels[part].tolist(), document.words[part]
            counts = Counter(entity for entity, _ in groupby(own) if entity)
            repeated, letters = sum(n > 1 for n in counts.values()), sum(map(str.isalpha, words))
            # recurring entities, entities, words of letters (no tables of figures), words
            passages.append(((repeated, len(counts), letters, len(own)), number, part, own))
    if not passages:
        return None
    _, number, part, labels = max(passages, key=itemgetter(0))
    document, span, texts = documents[number], corpus.document(number), defaultdict[int, list](list)
    for word, token in zip(corpus.words[span].tolist(), corpus.tokens[span].tolist(), strict=True):
        texts[word].append(decode([token]))
    return Example(
        document=document.id,
        words=document.words[part],
        entities=tuple(labels),
        tokens=tuple(tuple(texts[word]) for word in range(*part.indices(len(document.words)))),
        table_words=len(labels),
    )


def name_entities(documents: Sequence[Document], corpus: AlignedCorpus) -> list[str]:
    """Name each entity, through all documents, by its shortest mention that is not a pronoun."""
    names: list[str] = []
    for number, document in enumerate(documents):
        labels = label_words(corpus, number, len(document.words))
        texts = defaultdict[int, list[tuple[bool, int, str]]](list)
        for mention in document.mentions:
            inside = set(labels[mention.start : mention.end].tolist())
            if len(inside) == 1 and 0 not in inside:
                words = document.words[mention.start : mention.end]
                tag = document.tags[mention.start] if document.tags and len(words) == 1 else ""
                pronoun = tag.startswith(("PRP", "WP", "DT"))
                text = " ".join(words)[:28]
                texts[inside.pop()].append((pronoun, sum(map(len, words)), text))
        for entity in range(1, int(corpus.gold[corpus.document(number)].max(initial=0)) + 1):
            names.append(min(texts[entity], default=(True, 0, f"{document.id} {entity}"))[-1])
    return names


def make_cloud(
    mentions: Mapping[str, tuple[np.ndarray, np.ndarray]], names: Sequence[str], n_entities: int
) -> Cloud | None:
    """Project the first mentions of each of the most-mentioned entities by PCA and by t-SNE.

    ``mentions`` are, by model, vectors [mentions, width] and the entity number of each; ``names``
    are by entity number. None if mentions are too few or all equal, or if models' counts differ.
    """
    numbers = next(iter(mentions.values()))[1]
    if any(len(entities) != len(numbers) for _, entities in mentions.values()):
        return None
    found, counts = np.unique(numbers, return_counts=True)
    top = found[np.argsort(-counts, kind="stable")][:n_entities]
    parts = [np.flatnonzero(numbers == number)[:MENTIONS_PER_ENTITY] for number in top]
    chosen = np.concatenate([np.zeros(0, np.int64), *parts])
    if len(chosen) < 5:
        return None
    points = []
    for vectors, _ in mentions.values():
        wide = np.asarray(vectors[chosen], dtype=np.float64)
        unit = wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-12)
        points.append(unit - unit.mean(axis=0) if len(mentions) > 1 else unit)
    if not np.ptp(stacked := np.concatenate(points), axis=0).max() > 0:
        return None
    labels = np.asarray(numbers)[chosen].tolist()
    order = list(dict.fromkeys(labels))
    return Cloud(
        names=tuple(names[n] if n < len(names) else f"entity {n}" for n in order),
        entity=tuple(order.index(n) for n in labels) * len(mentions),
        models=tuple(mentions),
        model=tuple(i for i in range(len(mentions)) for _ in labels),
        places={
            name: tuple((float(f"{x:.{DIGITS}g}"), float(f"{y:.{DIGITS}g}")) for x, y in places)
            for name, places in _project(stacked).items()
        },
    )


def _project(points: np.ndarray) -> dict[str, list[tuple[float, float]]]:
    """Project points [n, width] to the plane, [n, 2], by PCA and by t-SNE started from PCA with a
    fixed seed. One thread keeps the picture the same whatever the number of cores, since t-SNE
    amplifies differences in the rounding of sums.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    perplexity = min(30.0, (len(points) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, init="pca", random_state=0, n_jobs=1)
    with threadpool_limits(1):
        return {
            "PCA": PCA(n_components=2, svd_solver="full").fit_transform(points).tolist(),
            "t-SNE": tsne.fit_transform(points.astype(np.float32)).tolist(),
        }


def gather_excerpts(
    corpus: AlignedCorpus,
    documents: Sequence[Document],
    decode: Decode,
    runs: Mapping[str, Sequence[Arrays]],
) -> dict[str, Any]:
    """Return the ``split`` and, of ``corpus``, cut as the step cut it (``documents`` are whole):

    pages   for each document its name, the text of each predicted token [n], the gold entity of
            each (0: none), and the names of the entities by their numbers
    scores  for each model with entities on or off, means over its ``seeds`` trainings: by document
            and token ``nats``, to two digits, and, if it reads entities, ``read``: pairs of an
            entity and the percentage of the entity attention that it received

    ``runs`` are the arrays of each seed, by model.
    """
    names, pages, first = name_entities(documents, corpus), [], 0
    spans = [corpus.document(number) for number in range(len(corpus))]
    for document, span in zip(documents, spans, strict=True):
        gold = corpus.gold[span].tolist()[1:]
        tokens = list(_spell(corpus.tokens[span].tolist()[1:], decode))
        named = {str(entity): names[first + entity - 1] for entity in sorted({*gold} - {0})}
        pages.append({"name": document.id, "tokens": tokens, "entities": gold, "names": named})
        first += max(gold, default=0)
    scores = []
    for (model, seeds), given in product(runs.items(), ("on", "off")):
        if all(given in arrays for arrays in seeds):
            stacked = np.stack([arrays[given] for arrays in seeds])
            mean = stacked.mean(axis=0, dtype=np.float64)
            shown = given == "on" and all("share" in arrays for arrays in seeds)
            nats = [[round(one, 2) for one in mean[span][1:].tolist()] for span in spans]
            read = [
                [_merge(seeds, place) for place in range(span.start + 1, span.stop)]
                for span in (spans if shown else ())
            ]
            about = {"model": model, "entities": given, "seeds": len(seeds)}
            scores.append({**about, "nats": nats, "read": read})
    return {"split": corpus.split, "pages": pages, "scores": scores}


def _spell(tokens: Sequence[int], decode: Decode) -> Iterator[str]:
    """Yield the text of each token; a character made of several tokens goes to the last one."""
    waiting: list[int] = []
    for token in tokens:
        waiting.append(token)
        text = decode(waiting)
        whole = not text.endswith("\N{REPLACEMENT CHARACTER}") or len(waiting) >= LONGEST
        yield text if whole else ""
        waiting = [] if whole else waiting


def _merge(runs: Sequence[Arrays], place: int) -> list[list[int]]:
    """Return one token's entities and percentages, the largest first, as means over seeds."""
    sums: dict[int, float] = defaultdict(float)
    for arrays in runs:
        pairs = zip(arrays["entity"][place].tolist(), arrays["share"][place].tolist(), strict=True)
        for entity, share in pairs:
            sums[entity] += 100 * share / len(runs)
    listed = ([entity, round(share)] for entity, share in sums.items() if entity)
    return sorted((one for one in listed if one[1] >= LEAST), key=lambda one: (-one[1], one[0]))
