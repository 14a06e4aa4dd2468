"""Applies a resolver: documents with its mentions, label layers of aligned corpora."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from entity_transformers.corpus.alignment import AlignedCorpus, word_labels
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.mentions import Nesting
from entity_transformers.resolve.base import Resolver, ResolverError, resolve


def annotate(
    documents: Iterable[Document], resolver: Resolver, policy: Nesting | None, counts: Counter[str]
) -> Iterator[Document]:
    """Yield the documents with the resolver's mentions in place of their own, and add the numbers
    of documents, words, mentions and entities to ``counts``.
    """
    for document in documents:
        found = resolve(resolver, document, policy)
        counts["documents"] += 1
        counts["words"] += len(found.words)
        counts["mentions"] += len(found.mentions)
        counts["entities"] += len({mention.chain for mention in found.mentions})
        yield found


def add_layer(
    corpus: AlignedCorpus, documents: Sequence[Document], resolver: Resolver, policy: Nesting
) -> tuple[AlignedCorpus, Counter[str]]:
    """Return the aligned split with the resolver's labels as layer ``resolver:NAME``, and the
    counts of `annotate`. The labels are made like the gold ones: entities numbered 1.. by first
    appearance in the document, by the same nesting policy; ``mentions:NAME`` numbers the mentions.

    ``documents`` are those that the split was aligned from, in that order; others raise
    ResolverError.
    """
    counts: Counter[str] = Counter()
    labels = np.zeros(len(corpus.tokens), np.int32)
    spans = np.full(len(corpus.tokens), -1, np.int32)
    # the last words of a running text may have no token of their own
    sizes = corpus.highest(corpus.words + 1)
    fits = [len(document.words) >= size for document, size in zip(documents, sizes, strict=False)]
    if [document.id for document in documents] != list(corpus.names) or not all(fits):
        raise ResolverError(
            f"split {corpus.split!r} was aligned from documents other than those given: align it"
            " again"
        )
    annotated = annotate(documents, resolver, policy, counts)
    for part, document in zip(corpus.slices, annotated, strict=True):
        entity, mention = word_labels(document, policy)
        labels[part], spans[part] = entity[corpus.words[part]], mention[corpus.words[part]]
    found = {f"resolver:{resolver.name}": labels, f"mentions:{resolver.name}": spans}
    return replace(corpus, layers={**corpus.layers, **found}), counts


def show_counts(counts: Counter[str]) -> str:
    """Format the counts as one line."""
    return ", ".join(f"{number:,} {what}" for what, number in counts.items())
