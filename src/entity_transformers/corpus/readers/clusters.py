"""Clusters as JSON lines, as written by AllenNLP, maverick, fastcoref and relatives of e2e-coref.

A row has words (`_WORDS`, or lists of them as ``sentences``) and the spans of each entity
(`_CLUSTERS`): [first, last] words of the whole document, the last one included. fastcoref's output
file has a ``text`` instead, and spans [start, end) of its characters, the end excluded; it is split
into words by `corpus.splitting`.

Refused, with the key named: a row with two keys that contradict each other, spans of word pieces
(``subtoken_map``), and spans of words whose ends seem to be excluded. All other keys of a row are
ignored. A chain's number is that of its cluster.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from entity_transformers.corpus.document import CorpusError, Document
from entity_transformers.corpus.files import (
    HALVES,
    check_text,
    number_names,
    shown,
)
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.readers import File, Reader, read_files
from entity_transformers.corpus.readers.jsonl import (
    LONGEST_ROW,
    PATTERNS,
    Index,
    List,
    describe_fault,
    parse_row,
    read_rows,
    recognise_rows,
)
from entity_transformers.corpus.splitting import split_annotated

_WORDS = ("words", "tokens", "document")
_CLUSTERS = ("clusters", "predicted_clusters", "clusters_token_offsets")
_NAMES = ("name", "doc_key", "doc_id", "id")
ENOUGH = 20
"""So many mentions include one of a single word, unless the ends of spans are excluded."""
Span = Annotated[tuple[Index, Index], Field(strict=False)]
Clusters = List[List[Span]]


class Row(BaseModel):
    """The keys of a row that are read."""

    model_config = ConfigDict(strict=True)

    words: List[str] | None = None
    tokens: List[str] | None = None
    document: List[str] | None = None
    sentences: List[List[str]] | None = None
    text: str | None = None
    clusters: Clusters | None = None
    predicted_clusters: Clusters | None = None
    clusters_token_offsets: Clusters | None = None
    clusters_strings: List[List[str]] | None = None
    name: str | int | None = None
    doc_key: str | int | None = None
    doc_id: str | int | None = None
    id: str | int | None = None
    split: str = "train"


def read_clusters(file: File, ledger: Ledger) -> Iterator[Document]:
    """Yield a file's documents, nameless ones named after the file; a bad row raises CorpusError or
    is recorded.
    """
    names = number_names(file.name)

    def parse(values: Mapping[str, Any], where: str) -> Document:
        nameless = next(names)
        row = _check(values, where)
        named = next((str(row[key]) for key in _NAMES if key in row), "")
        found = _read_text(row, where) if "text" in row else _read_words(row, where, ledger)
        return parse_row({"name": named or nameless, "split": row["split"], **found}, where)

    return read_rows(file, ledger, parse)


def _check(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the keys that are read, with their values, if it is clear what the spans count."""
    if "subtoken_map" in values:
        raise CorpusError(
            f"{where}: key subtoken_map: its spans count word pieces, expected words: write the"
            " clusters with the document's word indices"
        )
    try:
        given = Row.model_validate(values).model_dump(exclude_none=True)
    except ValidationError as error:
        raise CorpusError(f"{where}, {describe_fault(error)}") from None
    words, spans = given.keys() & {*_WORDS, "sentences", "text"}, given.keys() & {*_CLUSTERS}
    if not words or not spans:
        keys = f"one of {', '.join(_CLUSTERS)}, and words ({', '.join(_WORDS)}, sentences) or text"
        raise CorpusError(f"{where}: keys {', '.join(values)}, expected {keys}")
    if "text" in words and (spans == {"clusters_token_offsets"}) == (words == {"text"}):
        raise CorpusError(
            f"{where}: keys {', '.join(sorted(words | spans))}: do the clusters count words or"
            " characters of the text? Expected either text or words, not both"
        )
    if len(words) > 1:
        given.pop("text", None)
    return given


def _pick(given: Mapping[str, Any], keys: Sequence[str], where: str) -> tuple[str, Any]:
    """Return the first of the keys that are given, and the value that all of those must share."""
    first, *others = (key for key in keys if key in given)
    for key in others:
        if given[key] != given[first]:
            raise CorpusError(f"{where}: {first} and {key} disagree: remove one")
    return first, given[first]


def _read_words(row: Mapping[str, Any], where: str, ledger: Ledger) -> dict[str, Any]:
    """Return our values for a row whose spans are of words. Words of white space, as spaCy produces
    them, are left out and counted, and so are mentions of such words alone.
    """
    key, clusters = _pick(row, _CLUSTERS, where)
    sentences = [sentence for sentence in row.get("sentences", ()) if sentence]
    if "sentences" in row:
        row = {**row, "sentences": list(chain.from_iterable(sentences))}
    _, words = _pick(row, (*_WORDS, "sentences"), where)
    if words[:1] == ["[CLS]"]:
        raise CorpusError(f"{where}: the first word is [CLS]: found word pieces, expected words")
    mentions = []
    for number, cluster in enumerate(clusters):
        for i, (first, last) in enumerate(cluster):
            if not first <= last < len(words):
                raise CorpusError(
                    f"{where}: {key}[{number}][{i}]: {[first, last]}, expected a mention's first"
                    f" and last word (the last one included), out of {len(words)} words"
                )
            mentions.append((first, last + 1, number))
    if len(mentions) >= ENOUGH and all(end - start > 1 for start, end, _ in mentions):
        raise CorpusError(
            f"{where}: {key}: none of {len(mentions)} mentions has a single word: their ends seem"
            " to be excluded, expected [first, last] with the last word included"
        )
    # the number of words kept before each place
    before = [*accumulate((not word.isspace() for word in words), initial=0)]
    kept = [(before[start], before[end], number) for start, end, number in mentions]
    ledger.counts["words_of_white_space"] += len(words) - before[-1]
    ledger.counts["mentions_of_white_space"] += sum(start == end for start, end, _ in kept)
    firsts = accumulate((len(sentence) for sentence in sentences), initial=0)
    starts = {before[first] for first in firsts} - {before[-1]}
    return {
        "words": [word for word in words if not word.isspace()],
        "mentions": [one for one in kept if one[0] < one[1]],
        "sentence_starts": sorted(starts) or [0],
    }


def _read_text(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return our values for a row whose spans are of characters."""
    key, clusters = _pick(row, _CLUSTERS, where)
    text = row["text"]
    check_text(text, where, LONGEST_ROW, HALVES)
    spans: list[tuple[int, int]] = []
    for number, cluster in enumerate(clusters):
        for i, (start, end) in enumerate(cluster):
            if not start < end <= len(text) or text[start:end].isspace():
                raise CorpusError(
                    f"{where}: {key}[{number}][{i}]: {[start, end]}, expected the first character"
                    f" of a mention and the one after its last, out of {len(text)} characters"
                )
            spans.append((start, end))
    strings = row.get("clusters_strings")
    if strings is not None and strings != [[text[a:b] for a, b in one] for one in clusters]:
        raise CorpusError(
            f"{where}: clusters_strings differ from the spans of {key} in text, expected [start,"
            " end) in characters"
        )
    found = split_annotated(text, spans)
    if strings is None and 2 * found.cuts > len(spans):
        raise CorpusError(
            f"{where}: {key}: most spans split words ({shown(text[slice(*spans[0])])}), expected"
            " [start, end) in characters, the end excluded"
        )
    chains = [number for number, cluster in enumerate(clusters) for _ in cluster]
    return {
        "words": found.words,
        "space_after": found.spaces,
        "sentence_starts": found.starts,
        "mentions": [(*span, number) for span, number in zip(found.spans, chains, strict=True)],
    }


READER = Reader(
    name="clusters",
    read=read_files(PATTERNS, read_clusters, LONGEST_ROW),
    recognise=partial(recognise_rows, format="clusters", why="its rows have clusters"),
    patterns=PATTERNS,
)
