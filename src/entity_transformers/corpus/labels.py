"""Entity labels that a model is given, as distinct from the gold chains by which it is judged."""

from dataclasses import replace
from itertools import pairwise

import numpy as np

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.layers import LABELS, RESOLVER, split_layer

LAG = 2
"""A mention counts as known once the second word after its last one has begun: a causal resolver
may have looked at the first.
"""


def give(corpus: AlignedCorpus, layer: str, seed: int = 0) -> AlignedCorpus:
    """Return the split with the labels of ``layer`` (`layers.LABELS`, or a resolver's by its name,
    as it is or changed) as those given to a model; ``seed`` draws the random ones.

    ValueError for a resolver that has not annotated this split, and for nouns if the corpus has no
    parts of speech.
    """
    change, base = split_layer(layer)
    if base == "none":
        return replace(corpus, given=None, layer=layer)
    if base == "gold":
        labels = corpus.gold
    elif base == "first-only":  # a first mention's label would announce a return
        labels = np.where(first_mentions(corpus), 0, corpus.gold)
    elif base == "nouns":
        labels = label_nouns(corpus)
    elif base in corpus.layers:
        labels = corpus.layers[base]
    else:
        found = ", ".join((*LABELS, *corpus.layers))
        raise ValueError(
            f"split {corpus.split!r} has no labels {layer!r}, expected one of {found}: to have a"
            " resolver's labels, name it in corpus.resolvers and run step corpus"
        )
    spans = find_spans(corpus, base)
    if change == "shuffled":
        labels = shuffle_labels(corpus, labels, seed, spans)
    elif change == "lagged":
        labels = lag(corpus, labels, spans)
    elif change == "surface":
        labels = name_by_spelling(corpus, spans)
    elif change == "next":
        labels = shift_labels(corpus, labels)
    elif change == "random":
        labels = draw_labels(corpus, spans, seed)
    return replace(corpus, given=labels, layer=layer)


def find_spans(corpus: AlignedCorpus, layer: str) -> np.ndarray:
    """Return an unchanged layer's mentions, the resolver's own or gold, int32 [N]; -1: none."""
    return corpus.layers.get(layer.replace(RESOLVER, "mentions:"), corpus.mentions)


def lag(corpus: AlignedCorpus, labels: np.ndarray, spans: np.ndarray) -> np.ndarray:
    """Return labels that reveal no mention before it has ended: each mention's label stands on one
    token only, the first of the second word after it (`LAG`), int32 [N]. A mention with fewer words
    after it has none. Which entity it is remains as in the layer, whose annotators had read on.
    """
    lagged = np.zeros_like(labels)
    for part in corpus.slices:
        words, own = corpus.words[part], spans[part]
        last = np.flatnonzero((own >= 0) & (np.append(own[1:], -1) != own))
        begun = np.searchsorted(words, words[last] + LAG)
        there = begun < len(words)
        lagged[part.start + begun[there]] = labels[part][last[there]]
    return lagged


def find_given_spans(corpus: AlignedCorpus) -> np.ndarray:
    """Return the mentions, or other spans, that carry the labels that the split gives, numbered
    within each document, int [N]; -1: none. Parts of a mention may lack a label.
    """
    given = corpus.given
    assert given is not None
    change, base = split_layer(corpus.layer)
    if change == "next":
        return shift_labels(corpus, find_spans(corpus, base), nothing=-1)
    if change not in ("lagged", "random") and base != "nouns":
        return find_spans(corpus, base)
    named = given > 0  # these labels stand on other tokens than the mentions
    begun = named if change == "lagged" else named & (np.diff(given, prepend=0) != 0)
    return np.concatenate([np.where(named[p], np.cumsum(begun[p]) - 1, -1) for p in corpus.slices])


def shuffle_given(corpus: AlignedCorpus, seed: int) -> AlignedCorpus:
    """Return the split with its given labels permuted among each document's mentions."""
    given = corpus.given
    assert given is not None
    spans = find_given_spans(corpus)
    shuffled = shuffle_labels(corpus, given, seed, spans)
    return replace(corpus, given=shuffled, layer=f"{corpus.layer}, shuffled")


def shuffle_labels(
    corpus: AlignedCorpus, labels: np.ndarray, seed: int, spans: np.ndarray
) -> np.ndarray:
    """Permute labels among the mentions of each document that have tokens here; ``spans`` numbers
    them, with gaps where the corpus holds a part of a document; int32 [N].
    """
    shuffled = np.zeros_like(labels)
    for d, part in enumerate(corpus.slices):
        inside = np.flatnonzero(spans[part] >= 0) + part.start
        numbers, own = np.unique(spans[inside], return_inverse=True)
        label_of = np.zeros(len(numbers), labels.dtype)
        label_of[own] = labels[inside]
        shuffled[inside] = np.random.default_rng([seed, d]).permutation(label_of)[own]
    return shuffled


def name_by_spelling(corpus: AlignedCorpus, spans: np.ndarray) -> np.ndarray:
    """Return labels by which the spans of a document that are spelt the same, and only those, are
    one entity, int32 [N]: spans without chains. A spelling includes the space before it. Entities
    are numbered by first appearance.
    """
    labels = np.zeros_like(corpus.gold)
    for part in corpus.slices:
        own, tokens, numbers = spans[part], corpus.tokens[part], dict[bytes, int]()
        edges = np.flatnonzero(np.diff(own, prepend=-1, append=-1)).tolist()
        for start, end in pairwise(edges):
            if own[start] >= 0:
                number = numbers.setdefault(tokens[start:end].tobytes(), len(numbers) + 1)
                labels[part.start + start : part.start + end] = number
    return labels


def place_spans(sizes: np.ndarray, length: int, generator: np.random.Generator) -> np.ndarray:
    """Place spans of ``sizes`` tokens, in random order and without overlap, at random places of
    ``length`` tokens; return the number of each token's span, or -1, int64 [length].
    """
    sizes = generator.permutation(sizes).astype(np.int64)
    gaps = np.sort(generator.integers(0, length - sizes.sum() + 1, len(sizes)))
    starts = gaps + np.cumsum(sizes) - sizes
    spans = np.full(length, -1)
    for number, (start, size) in enumerate(zip(starts.tolist(), sizes.tolist(), strict=True)):
        spans[start : start + size] = number
    return spans


def draw_labels(corpus: AlignedCorpus, spans: np.ndarray, seed: int) -> np.ndarray:
    """Label random spans, as many and as long as the mentions, by their spelling, int32 [N]."""
    drawn = np.full_like(spans, -1)
    for d, whole in enumerate(corpus.slices):
        part = slice(whole.start + 1, whole.stop)  # <|endoftext|> is in no span
        sizes = np.unique(spans[part][spans[part] >= 0], return_counts=True)[1]
        drawn[part] = place_spans(sizes, part.stop - part.start, np.random.default_rng([seed, d]))
    return name_by_spelling(corpus, drawn)


def shift_labels(corpus: AlignedCorpus, labels: np.ndarray, nothing: int = 0) -> np.ndarray:
    """Move each token's label to the token before it, int32 [N]; the last of a document gets
    ``nothing``. This gives away what is to be predicted: a positive control of what a model can do
    with labels.
    """
    shifted = np.append(labels[1:], np.full(1, nothing, labels.dtype))[: len(labels)]
    shifted[corpus.offsets[1:] - 1] = nothing
    return shifted


def label_nouns(corpus: AlignedCorpus) -> np.ndarray:
    """Label every noun by its spelling, int32 [N]; ValueError without parts of speech."""
    tags = [i for i, name in enumerate(corpus.tag_names) if name.startswith("NN")]
    if not tags:
        raise ValueError(f"split {corpus.split!r} has no part-of-speech tags for labels 'nouns'")
    nouns = np.isin(corpus.tags, tags) & (corpus.words >= 0)
    return name_by_spelling(corpus, np.where(nouns, corpus.words, -1))


def first_mentions(corpus: AlignedCorpus) -> np.ndarray:
    """Mark the tokens in the first mention of their entity in the document: bool [N]."""
    first = np.zeros(len(corpus.tokens), bool)
    for part in corpus.slices:
        entities, mentions = corpus.gold[part], corpus.mentions[part]
        earliest = np.full(entities.max(initial=0) + 1, np.iinfo(np.int32).max, np.int32)
        np.minimum.at(earliest, entities, np.where(mentions < 0, np.iinfo(np.int32).max, mentions))
        first[part] = (mentions >= 0) & (mentions == earliest[entities])
    return first
