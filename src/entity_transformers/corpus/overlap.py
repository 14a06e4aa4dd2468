"""What stands both in training and in an evaluation set: found by eight words in a row.

Words are compared in lower case, without punctuation and as they stand in the running text, so that
it does not matter who split it into words. A passage, which is a run of shared shingles, is cut out
of training; shingles that two texts share by chance are not, but are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from entity_transformers.corpus.alignment import spaced_words
from entity_transformers.corpus.document import CorpusError, Document, slice_document

if TYPE_CHECKING:
    import pandas as pd

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


@dataclass
class Overlap:
    """Compares training documents, one by one, with evaluation sets.

    documents  (set, id) of each evaluation document
    keys       uint64 [S], sorted: the shingles of all of them, each once a document
    owners     int32 [S]: the document of each
    seen       bool [S]: does it stand in training?
    cut        by set: passages cut out of training, and their words
    """

    documents: list[tuple[str, str]]
    keys: np.ndarray
    owners: np.ndarray
    seen: np.ndarray
    cut: dict[str, dict[str, int]]
    _vocabulary: dict[str, int]

    @classmethod
    def of(cls, sets: Mapping[str, Iterable[Document]]) -> Overlap:
        """Nothing compared yet."""
        known: dict[str, int] = {}
        named: list[tuple[str, str]] = []
        keys, owners = [np.zeros(0, np.uint64)], [np.zeros(0, np.int32)]
        for name, documents in sets.items():
            for document in documents:
                words = _WORD.findall(_text(document))
                numbers = [known.setdefault(word, len(known) + 1) for word in words]
                mine = np.unique(_shingles(np.array(numbers, np.uint64)))
                keys.append(mine)
                owners.append(np.full(len(mine), len(named), np.int32))
                named.append((name, document.id))
        joined = np.concatenate(keys)
        order = np.argsort(joined, kind="stable")
        cut = {name: {"passages": 0, "words": 0} for name in sets}
        owned = np.concatenate(owners)[order]
        return cls(named, joined[order], owned, np.zeros(len(joined), bool), cut, known)

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
        self.seen[self._find(_text(document))[1]] = True

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

    def shares(self) -> pd.DataFrame:
        """Per evaluation document: set, document, its different shingles, and those in training."""
        import pandas as pd

        table = pd.DataFrame(self.documents, columns=["set", "document"])
        table["shingles"] = np.bincount(self.owners, minlength=len(table))
        table["shared"] = np.bincount(self.owners[self.seen], minlength=len(table))
        table["share"] = table["shared"] / table["shingles"].clip(lower=1)
        return table

    def summary(self) -> dict[str, Any]:
        """By set: its documents and shingles, the words of passages cut out of training, and what
        is left: shared shingles, and the largest share of one document.
        """
        shares, found = self.shares(), {}
        for name, cut in self.cut.items():
            own = shares[shares["set"] == name]
            found[name] = {
                "documents": len(own),
                "shingles": int(own["shingles"].sum()),
                "passages_cut": cut["passages"],
                "words_cut": cut["words"],
                "shared": int(own["shared"].sum()),
                "largest_share": round(float(own["share"].max()), 6) if len(own) else 0.0,
            }
        return found

    def check(self) -> None:
        """CorpusError where training knows more of an evaluation document than chance explains."""
        shares = self.shares()
        bad = shares[(shares["share"] > MOST) & (shares["shared"] >= FEWEST)]
        if len(bad):
            worst = bad.loc[bad["share"].idxmax()]
            raise CorpusError(
                f"{worst['set']}, {worst['document']}: {worst['share']:.1%} of its text stands in"
                f" training ({worst['shared']} of {worst['shingles']} runs of {SHINGLE} words),"
                f" expected at most {MOST:.0%}; {len(bad)} such documents: leave the text out of"
                " training (corpus.exclude)"
            )


def leave_out(documents: Iterable[Document], overlap: Overlap) -> Iterator[Document]:
    """The documents, those of train without evaluated text."""
    for document in documents:
        if document.split != "train" or not overlap.documents:
            yield document
            continue
        for piece in overlap.remove(document):
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
