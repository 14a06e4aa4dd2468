"""CoNLL-2012 in the hub's parquet form (`coref-data/conll2012_raw`): one row per document, its
sentences a list of records.

Fields of a sentence: part_id, words, pos_tags (label numbers), named_entities (label numbers, BIO),
coref_spans ([chain, first, last], both inclusive, within the sentence). Chains are numbered per
part.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from entity_transformers.corpus.brackets import ONTONOTES_TYPES, restore_tags, restore_words
from entity_transformers.corpus.document import (
    CorpusError,
    Document,
    Mention,
    NamedEntity,
    WordError,
    reading_order,
)
from entity_transformers.corpus.files import LONGEST_LINE, check_text, shown
from entity_transformers.corpus.ledger import Ledger

_INT, _TEXT = r"u?int\d+", r"(large_)?string"


def _list_of(leaf: str) -> str:
    """A pattern of Arrow's name of a list type."""
    return rf"(large_|fixed_size_)?list<\w+: (({leaf})|null)( not null)?>(\[\d+\])?"


_FIELDS = {
    "part_id": ("int", _INT),
    "words": ("list of string", _list_of(_TEXT)),
    "pos_tags": ("list of int or string", _list_of(f"{_INT}|{_TEXT}")),
    "named_entities": ("list of int or string", _list_of(f"{_INT}|{_TEXT}")),
    "coref_spans": ("list of list of int", _list_of(_list_of(_INT))),
}
"""Of a sentence: what its values are, in words and as Arrow names the type."""


def read_parquet(path: Path, split: str, ledger: Ledger) -> Iterator[Document]:
    """Documents of one parquet file, part by part; a bad part is raised or written down."""
    return ledger.accept(_read_parts(path, split, ledger), str(path))


def _read_parts(path: Path, split: str, ledger: Ledger) -> Iterator[Document]:
    empty = True
    for name, sentences, names in _read_rows(path):
        empty = False
        yield from _read_document(name, sentences, names, split, str(path), ledger)
    if empty:
        ledger.reject(
            str(path), CorpusError(f"{path}: no document in this file, expected one per row")
        )


def _read_rows(path: Path) -> Iterator[tuple[Any, list[dict[str, Any]], Names]]:
    """Document id, sentences and label names per row; pyarrow's errors become CorpusError."""
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            _check_types(file.schema_arrow, str(path))
            names = label_names(file.schema_arrow.metadata or {}, str(path))
            for batch in file.iter_batches(batch_size=32, columns=["document_id", "sentences"]):
                for name, sentences in _split_batch(batch):
                    yield name, sentences, names
    except CorpusError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise CorpusError(
            f"{path}: not a parquet file of conll2012_raw ({reason[:120]}): fetch it again"
        ) from None


def _check_types(schema: Any, source: str) -> None:
    """Refuse a file without the columns and fields that are read, or of other types."""
    from pyarrow import types

    form = "expected the form of coref-data/conll2012_raw"
    absent = [name for name in ("document_id", "sentences") if schema.get_field_index(name) < 0]
    if absent:
        raise CorpusError(f"{source}: no column {', '.join(absent)}, {form}")
    kind = schema.field("sentences").type
    record: Any = kind.value_type if types.is_list(kind) or types.is_large_list(kind) else None
    known = record is not None and types.is_struct(record)
    missing = [name for name in _FIELDS if not known or record.get_field_index(name) < 0]
    if missing:
        raise CorpusError(f"{source}, column sentences: no field {', '.join(missing)}, {form}")
    found = {
        "column document_id": (schema.field("document_id").type, "string", _TEXT),
        **{f"column sentences, field {n}": (record.field(n).type, *_FIELDS[n]) for n in _FIELDS},
    }
    for where, (given, expected, pattern) in found.items():
        if not re.fullmatch(rf"({pattern})|null", str(given)):  # null, without values, is anything
            raise CorpusError(
                f"{source}, {where}: {shown(str(given))}, expected {expected} as in"
                " coref-data/conll2012_raw"
            )


def _split_batch(batch: Any) -> Iterator[tuple[Any, list[dict[str, Any]]]]:
    """Document id and sentences of each row; only the needed fields become Python objects."""
    sentences = batch.column("sentences")
    flat = sentences.flatten()
    columns = {name: flat.field(name).to_pylist() for name in _FIELDS}
    names, lengths = batch.column("document_id").to_pylist(), sentences.value_lengths().to_pylist()
    at = 0
    for name, length in zip(names, lengths, strict=True):
        end = at + (length or 0)
        yield name, [{key: values[i] for key, values in columns.items()} for i in range(at, end)]
        at = end


def _read_document(
    name: Any,
    sentences: Sequence[Mapping[str, Any]],
    names: Names,
    split: str,
    source: str,
    ledger: Ledger,
) -> Iterator[Document]:
    parts = (
        groupby(sentences, key=lambda sentence: sentence["part_id"])
        if sentences
        else [(0, iter(()))]
    )
    for part, group in parts:
        where = f"{source}, document {shown(name)}, part {shown(part)}"
        try:
            if (
                not isinstance(name, str)
                or not name
                or not isinstance(part, int)
                or not 0 <= part < 2**31
            ):
                raise CorpusError(f"{where}: expected a document_id and a part_id")
            check_text(name, f"{where}, document_id", LONGEST_LINE)
            if ledger.admits(name, part):
                yield make_document(name, part, list(group), names, split, where)
        except CorpusError as error:
            ledger.reject(f"{name}#{part}", error)


def make_document(
    name: str,
    part: int,
    sentences: Sequence[Mapping[str, Any]],
    names: Names,
    split: str,
    where: str,
) -> Document:
    """The document of one part's sentences; CorpusError names sentence, field and value."""
    words: list[str] = []
    tags: list[str] = []
    labels: list[str] = []
    starts: list[int] = []
    mentions: list[Mention] = []
    for number, sentence in enumerate(sentences):
        here = f"{where}, sentence {number}"
        size = _check_lengths(sentence, here)
        mentions += _spans(sentence["coref_spans"] or [], len(words), size, here)
        if not size:
            continue
        starts.append(len(words))
        words += sentence["words"]
        tags += _name(sentence["pos_tags"], names[0], f"{here}, pos_tags")
        labels += _name(sentence["named_entities"], names[1], f"{here}, named_entities")
    if not words:
        raise CorpusError(f"{where}: no words: leave it out with corpus.exclude")
    check_text(" ".join(set(tags)), f"{where}, pos_tags", LONGEST_LINE)
    genre = name.partition("/")[0] if "/" in name else ""
    try:
        restored, known_tags = restore_words(words), restore_tags(tags)
    except WordError as error:
        raise CorpusError(f"{where}, word {error.word + 1}: {error}") from None
    return Document(
        name=name,
        part=part,
        split=split,
        genre=genre,
        words=restored,
        sentence_starts=tuple(starts),
        mentions=tuple(sorted(mentions, key=reading_order)),
        tags=known_tags,
        named_entities=None if genre == "pt" else spans_of_labels(labels, where),
    )


def _check_lengths(sentence: Mapping[str, Any], where: str) -> int:
    sizes = {key: len(sentence[key] or ()) for key in ("words", "pos_tags", "named_entities")}
    if len(set(sizes.values())) > 1:
        raise CorpusError(f"{where}: {sizes} values, expected as many of each")
    if not all(isinstance(word, str) for word in sentence["words"] or ()):
        raise CorpusError(f"{where}, words: {shown(sentence['words'])}, expected texts")
    check_text(" ".join(sentence["words"] or ()), f"{where}, words", LONGEST_LINE)
    return sizes["words"]


def _name(numbers: Sequence[Any], names: Sequence[str], where: str) -> list[str]:
    for number in numbers:
        if not isinstance(number, int | str) or (
            isinstance(number, int) and not 0 <= number < len(names)
        ):
            raise CorpusError(f"{where}: label {shown(number)}, expected 0 to {len(names) - 1}")
    return [number if isinstance(number, str) else names[number] for number in numbers]


def _spans(spans: Sequence[Any], offset: int, size: int, where: str) -> Iterator[Mention]:
    for span in spans:
        whole = (
            span is not None and len(span) == 3 and all(isinstance(value, int) for value in span)
        )
        if not whole or not 0 <= span[0] < 2**63 or not 0 <= span[1] <= span[2] < size:
            raise CorpusError(
                f"{where}, coref_spans: {shown(span)}, expected [chain, first, last] inside the"
                f" {size} words of the sentence"
            )
        yield Mention(offset + span[1], offset + span[2] + 1, span[0])


def spans_of_labels(labels: Sequence[str], where: str) -> tuple[NamedEntity, ...]:
    """Typed spans of BIO labels; CorpusError for an I- without its B-."""
    entities: list[NamedEntity] = []
    start, kind = 0, ""
    for word, label in enumerate([*labels, "O"]):
        prefix, _, current = label.partition("-")
        if prefix == "I" and current == kind:
            continue
        if kind:
            entities.append(NamedEntity(start, word, kind))
        if (prefix, current) != ("O", "") and (prefix != "B" or current not in ONTONOTES_TYPES):
            message = (
                f"label {shown(label)} after {shown(labels[word - 1] if word else 'O')}, expected"
                " O, B-TYPE or I- of the same type"
            )
            raise CorpusError(
                f"{where}, word {word + 1}, named_entities: {message}: is the order of the labels"
                " another one?"
            )
        start, kind = word, current
    return tuple(entities)


TAGS_V4 = [
    "XX", "``", "$", "''", ",", "-LRB-", "-RRB-", ".", ":", "ADD", "AFX", "CC", "CD", "DT", "EX",
    "FW", "HYPH", "IN", "JJ", "JJR", "JJS",
    "LS", "MD", "NFP", "NN", "NNP", "NNPS", "NNS", "PDT", "POS", "PRP", "PRP$", "RB", "RBR", "RBS",
    "RP", "SYM", "TO", "UH", "VB", "VBD",
    "VBG", "VBN", "VBP", "VBZ", "WDT", "WP", "WP$", "WRB",
]  # fmt: skip
TAGS_V12 = [*TAGS_V4[:4], "*", *TAGS_V4[4:45], "VERB", *TAGS_V4[45:]]
Names = tuple[list[str], list[str]]
"""Of the tags and of the named-entity labels."""

_LABELS = ["O", *(f"{prefix}-{label}" for label in ONTONOTES_TYPES for prefix in "BI")]


def label_names(metadata: Mapping[bytes, bytes], source: str) -> Names:
    """What numbers of tags and entities mean, by the file's metadata, else by the card."""
    tags, labels = (TAGS_V12 if "v12" in source else TAGS_V4), _LABELS
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))
    except (ValueError, RecursionError):
        return tags, labels
    return (
        _find_names(features, "pos_tags") or tags,
        _find_names(features, "named_entities") or labels,
    )


def _find_names(features: Any, key: str) -> list[str] | None:
    """The first ``names`` below ``key``, however deep: datasets' versions differ."""
    if isinstance(features, list):
        return next((found for item in features if (found := _find_names(item, key))), None)
    if not isinstance(features, dict):
        return None
    if key == "names":
        names = features.get("names")
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return names
    elif key in features:
        return _find_names(features[key], "names")
    return next((found for item in features.values() if (found := _find_names(item, key))), None)
