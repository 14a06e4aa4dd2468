"""CoNLL-2012 in the hub's parquet form (`coref-data/conll2012_raw`): one row per document, its
sentences a list of records. Chains are numbered per part.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from entity_transformers.corpus.brackets import ONTONOTES_TYPES, restore_tags, restore_words
from entity_transformers.corpus.document import (
    CorpusError,
    Document,
    Mention,
    NamedEntity,
    WordError,
    reading_order,
)
from entity_transformers.corpus.files import check_text, shown
from entity_transformers.corpus.ledger import Ledger

TAGS = [
    "XX", "``", "$", "''", ",", "-LRB-", "-RRB-", ".", ":", "ADD", "AFX", "CC", "CD", "DT", "EX",
    "FW", "HYPH", "IN", "JJ", "JJR", "JJS",
    "LS", "MD", "NFP", "NN", "NNP", "NNPS", "NNS", "PDT", "POS", "PRP", "PRP$", "RB", "RBR", "RBS",
    "RP", "SYM", "TO", "UH", "VB", "VBD",
    "VBG", "VBN", "VBP", "VBZ", "WDT", "WP", "WP$", "WRB",
]  # fmt: skip
LABELS = ["O", *(f"{prefix}-{label}" for label in ONTONOTES_TYPES for prefix in "BI")]
"""What numbers mean where the file does not say it: the order of the data set's card."""
Index = Annotated[int, Field(ge=0, lt=2**31)]
Label = Index | str


class Sentence(BaseModel):
    """A sentence's record: tags and labels (BIO) are texts or numbers; coref_spans are [chain,
    first, last], both inclusive, within the sentence.
    """

    model_config = ConfigDict(strict=True)

    part_id: Index
    words: list[str]
    pos_tags: list[Label]
    named_entities: list[Label]
    coref_spans: list[Annotated[list[Index], Field(min_length=3, max_length=3)]] | None

    @model_validator(mode="after")
    def _check(self) -> Self:
        size = len(self.words)
        if not size == len(self.pos_tags) == len(self.named_entities):
            raise ValueError("expected as many pos_tags and named_entities as words")
        for _, first, last in self.coref_spans or []:
            if not first <= last < size:
                raise ValueError(f"coref_spans: expected spans inside the {size} words")
        return self


class Row(BaseModel):
    """A document's row."""

    document_id: Annotated[str, Field(min_length=1, strict=True)]
    sentences: Annotated[list[Sentence], Field(min_length=1)]


def read_parquet(path: Path, split: str, ledger: Ledger) -> Iterator[Document]:
    """Documents of one parquet file, part by part; a bad one is raised or written down."""
    return ledger.accept(_read_parts(path, split, ledger), str(path))


def _read_parts(path: Path, split: str, ledger: Ledger) -> Iterator[Document]:
    empty = True
    for values, names in _read_rows(path):
        empty = False
        name = str(values["document_id"])
        where = f"{path}, document {shown(name)}"
        try:
            row = Row.model_validate(values)
            check_text(name, where)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            message = f"{where}, {place}: {shown(first['input'])}: {first['msg']}"
            ledger.reject(name, CorpusError(f"{message} (the form is coref-data/conll2012_raw)"))
            continue
        except CorpusError as error:
            ledger.reject(name, error)
            continue
        for part, sentences in groupby(row.sentences, key=lambda sentence: sentence.part_id):
            if ledger.admits(name, part):
                try:
                    yield make_document(
                        name, part, list(sentences), names, split, f"{where}, part {part}"
                    )
                except CorpusError as error:
                    ledger.reject(f"{name}#{part}", error)
    if empty:
        ledger.reject(
            str(path), CorpusError(f"{path}: no document in this file, expected one per row")
        )


def _read_rows(path: Path) -> Iterator[tuple[dict[str, Any], Names]]:
    """Rows, and what their numbers mean; pyarrow's errors become CorpusError."""
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            names = label_names(file.schema_arrow.metadata or {})
            for batch in file.iter_batches(batch_size=32):
                for row in batch.select(["document_id", "sentences"]).to_pylist():
                    yield row, names
    except (pyarrow.ArrowException, OSError, ValueError, KeyError, MemoryError) as error:
        if isinstance(error, CorpusError):
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise CorpusError(
            f"{path}: not a parquet file of conll2012_raw ({reason[:120]}): fetch it again"
        ) from None


def make_document(
    name: str, part: int, sentences: Sequence[Sentence], names: Names, split: str, where: str
) -> Document:
    """The document of one part's sentences; CorpusError names word and value."""
    words, starts, mentions = list[str](), list[int](), list[Mention]()
    for sentence in sentences:
        start = len(words)
        for chain, first, last in sentence.coref_spans or []:
            mentions.append(Mention(start + first, start + last + 1, chain))
        if sentence.words:
            starts.append(start)
        words += sentence.words
    if not words:
        raise CorpusError(f"{where}: no words: leave it out with corpus.exclude")
    genre = name.partition("/")[0] if "/" in name else ""
    try:
        tags = [_name(tag, names[0]) for sentence in sentences for tag in sentence.pos_tags]
        labels = [_name(label, names[1]) for s in sentences for label in s.named_entities]
        check_text("".join([*words, *tags]), where, sys.maxsize)
        restored, known_tags = restore_words(words), restore_tags(tags)
        entities = None if genre == "pt" else spans_of_labels(labels)
    except WordError as error:
        raise CorpusError(f"{where}, word {error.word + 1}: {error}") from None
    except IndexError:
        raise CorpusError(f"{where}: a tag or label is numbered beyond the names") from None
    return Document(
        name=name,
        part=part,
        split=split,
        genre=genre,
        words=restored,
        sentence_starts=tuple(starts),
        mentions=tuple(sorted(mentions, key=reading_order)),
        tags=known_tags,
        named_entities=entities,
    )


def _name(label: Label, names: Sequence[str]) -> str:
    return label if isinstance(label, str) else names[label]


def spans_of_labels(labels: Sequence[str]) -> tuple[NamedEntity, ...]:
    """Typed spans of BIO labels; WordError for an I- without its B-."""
    entities: list[NamedEntity] = []
    start, kind = 0, ""
    for word, label in enumerate([*labels, "O"]):
        prefix, _, current = label.partition("-")
        if prefix == "I" and current == kind:
            continue
        if kind:
            entities.append(NamedEntity(start, word, kind))
        if label != "O" and (prefix != "B" or current not in ONTONOTES_TYPES):
            raise WordError(
                word,
                f"named_entities {shown(label)} after {shown(labels[word - 1] if word else 'O')},"
                " expected O, B-TYPE or I- of the same type: is the order of the labels another"
                " one?",
            )
        start, kind = word, current
    return tuple(entities)


Names = tuple[list[str], list[str]]
"""Of the tags and of the named-entity labels."""


def label_names(metadata: Mapping[bytes, bytes]) -> Names:
    """What numbers of tags and entities mean, by the metadata that library datasets writes."""
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))
    except (ValueError, RecursionError):
        features = {}
    return (
        _find_names(features, "pos_tags") or TAGS,
        _find_names(features, "named_entities") or LABELS,
    )


def _find_names(features: Any, key: str) -> list[str] | None:
    """The first list ``names`` below ``key``, however deep: datasets' versions differ."""
    if isinstance(features, dict):
        if key in features:
            found = features[key]
            return found if key == "names" else _find_names(found, "names")
        features = list(features.values())
    if isinstance(features, list):
        return next((found for one in features if (found := _find_names(one, key))), None)
    return None
