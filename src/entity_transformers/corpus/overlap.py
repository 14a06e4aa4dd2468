"""What stands both in training and in an evaluation set: found by eight words in a row.

Words are compared in lower case, without punctuation and as they stand in the running text, so that
it does not matter who split it into words. A passage, which is a run of shared shingles, is cut out
of training; shingles that two texts share by chance are not, but are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np

from entity_transformers.corpus.alignment import spaced_words
from entity_transformers.corpus.document import CorpusError, Document, slice_document
from entity_transformers.corpus.ledger import Ledger

SHINGLE = 8
"""Words in a row."""
FEWEST = 16
"""Shared shingles that make a passage: 23 words, which nobody writes by chance."""
GAP = 40
"""Words within a passage that may differ: a heading, a misprint that somebody corrected."""
OPENING = 100
"""A passage that begins so many words into a document takes what stands before it along."""
MOST = 0.05
"""Share of an evaluation document's shingles that may stay in training, if it is not fewer than
`FEWEST` shingles: proverbs and verses of the Bible do, and "for the first time in his life"."""
_WORD = re.compile(r"[^\W_]+")
_FACTOR = 0x9E3779B97F4A7C15
_EXAMPLES = 3


@dataclass(frozen=True)
class Share:
    """Of one evaluation document: its set and id, how many different shingles it has, how many of
    them stand in training, and up to three of those.
    """

    name: str
    document: str
    shingles: int
    shared: int
    examples: tuple[str, ...]

    @property
    def share(self) -> float:
        """From 0 to 1; 0 for a text of fewer than eight words."""
        return self.shared / self.shingles if self.shingles else 0.0

    @property
    def too_much(self) -> bool:
        """Whether training knows more of the document than chance explains."""
        return self.share > MOST and self.shared >= FEWEST


@dataclass
class Overlap:
    """Compares training documents, one by one, with evaluation sets.

    documents  (set, id) of each evaluation document
    keys       uint64 [S], sorted: the shingles of all of them, each once a document
    owners     int32 [S]: the document of each
    cut        by set: passages cut out of training, and their words
    """

    documents: list[tuple[str, str]] = field(default_factory=list)
    cut: dict[str, dict[str, int]] = field(default_factory=dict)
    keys: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))
    owners: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    _vocabulary: dict[str, int] = field(default_factory=dict)
    _seen: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    _examples: dict[int, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, sets: Mapping[str, Iterable[Document]]) -> Overlap:
        """Nothing compared yet."""
        made = cls()
        keys, owners = [made.keys], [made.owners]
        for name, documents in sets.items():
            made.cut[name] = {"passages": 0, "words": 0}
            for document in documents:
                found = _WORD.findall(_text(document))
                numbers = [
                    made._vocabulary.setdefault(word, len(made._vocabulary) + 1) for word in found
                ]
                mine = np.unique(_shingles(np.array(numbers, np.uint64)))
                keys.append(mine)
                owners.append(np.full(len(mine), len(made.documents), np.int32))
                made.documents.append((name, document.id))
        joined = np.concatenate(keys)
        order = np.argsort(joined, kind="stable")
        made.keys, made.owners = joined[order], np.concatenate(owners)[order]
        made._seen = np.zeros(len(joined), bool)
        return made

    def remove(self, document: Document) -> list[Document]:
        """A training document without the passages that evaluation documents have too; what is
        left of it is one document, or more where a passage stood inside, or none.
        """
        text = _text(document)
        places, rows = self._find(text)
        passages = self._passages(places, rows)
        if not passages:
            return [document]
        spans = [match.span() for match in _WORD.finditer(text)]
        ends = list(accumulate(map(len, spaced_words(document, "natural"))))
        drop = np.zeros(len(ends), bool)
        for first, last, name in passages:
            start = int(np.searchsorted(ends, spans[first][0], "right")) if first > OPENING else 0
            end = int(np.searchsorted(ends, spans[last][0], "right")) + 1
            while end < len(ends) and document.space_after and not document.space_after[end - 1]:
                end += 1  # to the end of what stands without a space: the closing quotation mark
            self.cut[name]["passages"] += 1
            self.cut[name]["words"] += int((~drop[start:end]).sum())
            drop[start:end] = True
        kept = np.flatnonzero(np.diff(np.concatenate(([True], drop, [True])).astype(int)))
        return [
            slice_document(document, int(start), int(end), copy)
            for copy, (start, end) in enumerate(kept.reshape(-1, 2))
        ]

    def compare(self, document: Document) -> None:
        """Note which shingles of the evaluation sets a training document has."""
        text = _text(document)
        places, rows = self._find(text)
        fresh = np.flatnonzero(~self._seen[rows])
        if not len(fresh):
            return
        words = _WORD.findall(text)
        for place, row in zip(places[fresh].tolist(), rows[fresh].tolist(), strict=True):
            examples = self._examples.setdefault(int(self.owners[row]), [])
            if len(examples) < _EXAMPLES:
                examples.append(" ".join(words[place : place + SHINGLE]))
        self._seen[rows] = True

    def _find(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """Indices of a text's words at which a shared shingle begins, and its rows in `keys`."""
        known = self._vocabulary
        words = np.array([known.get(word, 0) for word in _WORD.findall(text)], np.uint64)
        mine = _shingles(words)
        first = np.searchsorted(self.keys, mine, "left")
        last = np.searchsorted(self.keys, mine, "right")
        hits = np.flatnonzero(last > first)
        counts = (last - first)[hits]
        places = np.repeat(hits, counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return places, np.repeat(first[hits], counts) + within

    def _passages(self, places: np.ndarray, rows: np.ndarray) -> list[tuple[int, int, str]]:
        """First and last word of each run of shared shingles, and the evaluation set."""
        passages = []
        owners = self.owners[rows]
        for owner in np.unique(owners):
            mine = places[owners == owner]
            for run in np.split(mine, np.flatnonzero(np.diff(mine) > GAP) + 1):
                if len(run) >= FEWEST:
                    name = self.documents[int(owner)][0]
                    passages.append((int(run[0]), int(run[-1]) + SHINGLE - 1, name))
        return sorted(passages)

    def shares(self) -> list[Share]:
        """Per evaluation document, in their order."""
        many = len(self.documents)
        sizes = np.bincount(self.owners, minlength=many)
        shared = np.bincount(self.owners[self._seen], minlength=many)
        return [
            Share(name, document, int(sizes[i]), int(shared[i]), tuple(self._examples.get(i, ())))
            for i, (name, document) in enumerate(self.documents)
        ]

    def summary(self) -> dict[str, Any]:
        """By set: its documents and shingles, the words of passages cut out of training, and what
        is left: shared shingles, documents that have any, the largest share of one.
        """
        shares = self.shares()
        return {
            name: _summarise([share for share in shares if share.name == name], cut)
            for name, cut in self.cut.items()
        }

    def check(self) -> None:
        """CorpusError where training knows more of an evaluation document than chance explains."""
        bad = [share for share in self.shares() if share.too_much]
        if bad:
            worst = max(bad, key=lambda share: share.share)
            raise CorpusError(
                f"{worst.name}, {worst.document}: {worst.share:.1%} of its text stands in training"
                f" ({worst.shared} of {worst.shingles} runs of {SHINGLE} words, such as"
                f" {worst.examples[0]!r}), expected at most {MOST:.0%}; {len(bad)} such documents:"
                " leave the text out of training (corpus.exclude)"
            )


def leave_out(
    documents: Iterable[Document], overlap: Overlap, ledger: Ledger
) -> Iterator[Document]:
    """The documents, those of train without evaluated text; the ledger's books follow."""
    for document in documents:
        if document.split != "train" or not overlap.documents:
            yield document
            continue
        kept = overlap.remove(document)
        if kept != [document] and (row := ledger.books.get(document.name)):
            cut = len(_text(document)) - sum(len(_text(piece)) for piece in kept)
            row["kept"] -= cut
            row["evaluated"] = row.get("evaluated", 0) + cut
        for piece in kept:
            overlap.compare(piece)
            yield piece


def _text(document: Document) -> str:
    text = "".join(spaced_words(document, "natural"))
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    # places must stay: of a few letters the small one is two characters
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _shingles(words: np.ndarray) -> np.ndarray:
    """uint64 [max(n - 7, 0)]: a number for each run of eight words; 0, which no run of known words
    has but by chance, where one is unknown.
    """
    count = max(len(words) - SHINGLE + 1, 0)
    total, known = np.zeros(count, np.uint64), np.ones(count, bool)
    for i in range(SHINGLE):
        part = words[i : i + count]
        total = (total ^ part) * np.uint64(_FACTOR)
        total ^= total >> np.uint64(29)
        known &= part > 0
    return np.where(known, total, np.uint64(0))


def _summarise(shares: list[Share], cut: Mapping[str, int]) -> dict[str, Any]:
    worst = max(shares, key=lambda share: share.share, default=None)
    return {
        "documents": len(shares),
        "shingles": sum(share.shingles for share in shares),
        "passages_cut": cut["passages"],
        "words_cut": cut["words"],
        "shared": sum(share.shared for share in shares),
        "documents_with_shared": sum(share.shared > 0 for share in shares),
        "largest_share": round(worst.share, 6) if worst else 0.0,
        "largest": worst.document if worst and worst.shared else "",
        "examples": list(worst.examples) if worst else [],
    }


COLUMNS = ("documents", "shingles", "passages_cut", "words_cut", "shared", "largest_share")


def format_overlap(summary: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The table of `Overlap.summary`, a set a line, and the worst document's first example."""
    if not summary:
        return
    names = [f"overlap with {name}" for name in summary]
    width = max(map(len, names))
    yield " " * width + "".join(f"  {column.replace('_', ' '):>13}" for column in COLUMNS)
    for name, row in zip(names, summary.values(), strict=True):
        cells = (f"{row[c]:.2%}" if c == "largest_share" else f"{row[c]:,}" for c in COLUMNS)
        yield name.ljust(width) + "".join(f"  {cell:>13}" for cell in cells)
        if row["largest"]:
            yield f"  most in {row['largest']}: {row['examples'][0]!r}"
