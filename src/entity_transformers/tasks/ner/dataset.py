"""The input of the tagger: documents with named entities as sentences of vector rows and IOB2 tag
ids.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from entity_transformers.corpus.document import CorpusError, Document

log = logging.getLogger(__name__)
LONGEST = 1_000
"""Most words of a sentence that are read at once, to bound a batch; OntoGUM's longest has 136."""
MOST_LABELS = 500
"""The most labels; the tagger's memory grows with their square. OntoNotes has 18, Few-NERD 66."""


@dataclass(frozen=True, slots=True)
class TaggedSentences:
    """The annotated sentences of one split, n words in s sentences, flat and in document order.

    rows              int32 [n], row of each word's frozen vector
    tags              int16 [n], gold tag of each word, an index into tag_names
    offsets           int64 [s + 1], first word of each sentence, then n
    labels            sorted labels of train, the only ones that the tagger knows
    unseen_labels     sorted labels of this split that train lacks; their tags come after those of
                      ``labels``
    left_out          number of sentences in documents without named-entity annotation
    documents         ids of the annotated documents
    document_of       int32 [s], index of each sentence's document
    """

    rows: np.ndarray
    tags: np.ndarray
    offsets: np.ndarray
    labels: tuple[str, ...]
    unseen_labels: tuple[str, ...] = ()
    left_out: int = 0
    documents: tuple[str, ...] = ()
    document_of: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Number of words in each sentence, int64 [s], all at least 1."""
        return np.diff(self.offsets)

    @property
    def tag_names(self) -> tuple[str, ...]:
        """The name of each tag id: O, then B- and I- of each known label, then of unseen ones."""
        return list_tags(self.labels + self.unseen_labels)


def list_tags(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the IOB2 tags of ``labels``: O, B-first, I-first, B-second, ..."""
    return ("O", *(f"{prefix}-{label}" for label in labels for prefix in "BI"))


def list_labels(documents: Iterable[Document]) -> tuple[str, ...]:
    """Return the sorted labels of all named entities. A label that IOB2 can't carry (empty, or with
    - at an end) or more than `MOST_LABELS` labels raise CorpusError.
    """
    labels = sorted(
        {entity.label for document in documents for entity in document.named_entities or ()}
    )
    for label in labels:
        if not label or label != label.strip("-"):
            raise CorpusError(
                f"named-entity label {label!r}: expected a name that neither begins nor ends with"
                " -: rename it in the corpus"
            )
    if len(labels) > MOST_LABELS:
        raise CorpusError(
            f"{len(labels):,} named-entity labels, such as {labels[0]!r}, expected at most"
            f" {MOST_LABELS}: label entities with their types, not with names or numbers"
        )
    return tuple(labels)


def build_sentences(
    documents: Sequence[Document], index: np.ndarray, labels: Sequence[str]
) -> TaggedSentences:
    """Tag the sentences of one split. ``index`` is integer [words of all ``documents``, annotated
    or not], the row of each word's vector (ValueError if it does not fit); ``labels`` are those of
    train. Sentences of documents whose named_entities are None are only counted. A sentence of more
    than `LONGEST` words is cut, which is logged, and a span that crosses a sentence end is split
    there, since a tagger reads one sentence at a time.
    """
    words = sum(len(document.words) for document in documents)
    if len(index) != words:
        raise ValueError(
            f"{len(index)} vector rows for {words} words: the vectors were made from a different"
            " corpus, make them again"
        )
    unseen = sorted({*list_labels(documents)} - {*labels})
    ids = {label: 1 + 2 * i for i, label in enumerate((*labels, *unseen))}
    rows, tags = [np.zeros(0, np.int32)], [np.zeros(0, np.int16)]
    lengths: list[int] = []
    counts: dict[str, int] = {}
    left_out = end = 0
    for document in documents:
        start, end = end, end + len(document.words)
        document = _cut_long(document)
        sizes = [len(sentence) for sentence in document.sentences() if len(sentence)]
        if document.named_entities is None:
            left_out += len(sizes)
            continue
        rows.append(np.asarray(index[start:end], np.int32))
        tags.append(_tag_words(document, ids))
        lengths += sizes
        counts[document.id] = len(sizes)
    return TaggedSentences(
        np.concatenate(rows),
        np.concatenate(tags),
        np.cumsum([0, *lengths], dtype=np.int64),
        tuple(labels),
        tuple(unseen),
        left_out,
        tuple(counts),
        np.repeat(np.arange(len(counts), dtype=np.int32), list(counts.values())),
    )


def _cut_long(document: Document) -> Document:
    """Return the document with more sentence starts, so that no sentence exceeds `LONGEST`."""
    longest = max(map(len, document.sentences()), default=0)
    if longest <= LONGEST:
        return document
    log.warning(
        "document %s: a sentence of %d words is split, since the tagger reads at most %d words:"
        " give sentence_starts if there are sentences", document.id, longest, LONGEST,
    )  # fmt: skip
    starts = (place for sentence in document.sentences() for place in sentence[::LONGEST])
    return replace(document, sentence_starts=tuple(starts))


def _tag_words(document: Document, ids: Mapping[str, int]) -> np.ndarray:
    """Return the tag ids, int16, of a document's words. ``ids`` gives the B- tag of each label."""
    tags = np.zeros(len(document.words), np.int16)
    starts = np.asarray(document.sentence_starts)
    for entity in document.named_entities or ():
        tags[entity.start : entity.end] = ids[entity.label] + 1
        inner = starts[(entity.start < starts) & (starts < entity.end)]
        tags[[entity.start, *inner]] = ids[entity.label]
    return tags
