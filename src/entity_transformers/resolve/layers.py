"""A resolver's answers: documents with its mentions, label layers of aligned corpora."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from entity_transformers.artifacts import write_json_lines
from entity_transformers.corpus.alignment import AlignedCorpus, word_labels
from entity_transformers.corpus.document import Document, to_row
from entity_transformers.corpus.mentions import Nesting
from entity_transformers.corpus.readers import detect_format, read_corpus
from entity_transformers.resolve.base import Overlaps, Resolver, ResolverError, resolve
from entity_transformers.resolve.registry import make_resolver

SHOWN = 10
"""Overlaps that are described one by one."""


@dataclass
class Summary:
    """What a resolver found: counts over documents, and the first overlaps in words.

    counts  documents, words, mentions, entities (as kept), overlaps (spans that shared a word) and,
            where they were resolved, ``lost_mentions``, ``lost_chains``, ``lost_words``,
            ``lost_merged_spans``, ``lost_merged_chains``
    """

    counts: Counter[str] = field(default_factory=Counter)
    overlaps: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)

    def add(self, other: Summary) -> None:
        """What the same resolver found in the documents that follow."""
        self.counts.update(other.counts)
        self.overlaps += other.overlaps[: max(0, SHOWN - len(self.overlaps))]
        self.unused = other.unused

    def lines(self) -> list[str]:
        """What to tell a user."""
        lines = [", ".join(f"{number:,} {what}" for what, number in self.counts.items())]
        rest = self.counts["overlaps"] - len(self.overlaps)
        return [
            *lines,
            *self.overlaps,
            *([f"and {rest:,} more overlaps"] if rest > 0 else []),
            *(f"no document asked for {name}" for name in self.unused),
        ]


def annotate(
    documents: Iterable[Document], resolver: Resolver, overlaps: Overlaps, summary: Summary
) -> Iterator[Document]:
    """The documents with the resolver's mentions for their own; ``summary`` is filled."""
    counts = summary.counts
    for document in documents:
        resolved = resolve(resolver, document, overlaps)
        mentions = resolved.document.mentions
        counts["documents"] += 1
        counts["words"] += len(document.words)
        counts["mentions"] += len(mentions)
        counts["entities"] += len({mention.chain for mention in mentions})
        counts["overlaps"] += len(resolved.overlaps)
        counts.update({f"lost_{what}": number for what, number in resolved.lost.items()})
        summary.overlaps += resolved.report()[: max(0, SHOWN - len(summary.overlaps))]
        yield resolved.document
    summary.unused = list(getattr(resolver, "unused", list)())


def annotate_file(
    path: Path,
    output: Path,
    resolver: str = "names",
    *,
    format: str = "auto",
    overlaps: Overlaps = "keep",
    options: Mapping[str, Any] | None = None,
) -> Summary:
    """Read a corpus or a text in any of the project's formats and write it with a resolver's
    mentions, as JSON lines that every study reads, atomically; ``options`` are the resolver's.
    Command ``annotate``.
    """
    corpus = read_corpus(detect_format(path)[0] if format == "auto" else format, path)
    summary = Summary()
    resolved = annotate(corpus, make_resolver(resolver, **(options or {})), overlaps, summary)
    write_json_lines(output, map(to_row, resolved))
    return summary


def add_layer(
    corpus: AlignedCorpus, documents: Sequence[Document], resolver: Resolver, policy: Nesting
) -> tuple[AlignedCorpus, Summary]:
    """The aligned split with the labels of ``resolver:NAME`` beside gold's, made in the same way:
    entities numbered 1.. by first appearance in the document, by the same nesting policy; and with
    the numbers of its mentions, ``mentions:NAME``.

    ``documents`` are those that the split was aligned from, in that order; others raise
    ResolverError.
    """
    if len(corpus) != len(documents):
        raise ResolverError(
            f"split {corpus.split!r} was aligned from {len(corpus)} documents, {len(documents)} are"
            " given: align it again"
        )
    for aligned, document in zip(corpus.names, documents, strict=True):
        if aligned != document.id:
            raise ResolverError(
                f"split {corpus.split!r} was aligned from other documents: {aligned} where"
                f" {document.id} is given: align it again"
            )
    summary = Summary()
    labels = np.zeros(len(corpus.tokens), np.int32)
    spans = np.full(len(corpus.tokens), -1, np.int32)
    for d, document in enumerate(annotate(documents, resolver, policy, summary)):
        part = corpus.document(d)
        words = corpus.words[part]
        if words.max(initial=-1) + 1 != len(document.words):
            raise ResolverError(
                f"split {corpus.split!r}, document {document.id}: {words.max(initial=-1) + 1} words"
                f" are aligned, {len(document.words)} given: align it again"
            )
        entity, mention = word_labels(document, policy)
        labels[part] = np.where(words < 0, 0, entity[words])
        spans[part] = np.where(words < 0, -1, mention[words])
    found = {f"resolver:{resolver.name}": labels, f"mentions:{resolver.name}": spans}
    layers = {**corpus.layers, **found}
    return replace(corpus, layers=layers), summary
