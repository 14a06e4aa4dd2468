"""Text that stands both in training and in an evaluation set, found by runs of eight words.

Words are compared in lower case, without punctuation and as they stand in the running text, so that
tokenisation does not matter. A passage, which is a run of shared shingles, is cut out of training;
shingles that two texts share by chance are kept, but counted.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from entity_transformers.corpus.alignment import spaced_words
from entity_transformers.corpus.document import CorpusError, Document, check_plain, slice_document

if TYPE_CHECKING:
    import pandas as pd

SHINGLE = 8
"""A shingle is this many consecutive words."""
FEWEST = 16
"""Shared shingles needed for a passage: 23 words, which nobody writes twice by chance."""
GAP = 40
"""Largest step, in words, between shared shingles of a passage: a heading, a corrected misprint."""
OPENING = 100
"""A passage that begins within so many words of the document's start is cut out from that start."""
MOST = 0.05
"""Largest share of an evaluation document's shingles that may stay in training, unless they are
fewer than `FEWEST`: proverbs, Bible verses and "for the first time in his life" do stay.
"""
_WORD = re.compile(r"[^\W_]+")


class Overlap:
    """Compares training documents, one by one, with evaluation sets.

    documents  (set, id) of each evaluation document
    owners     for each shingle's hash, the indices of the evaluation documents that have it
    seen       hashes of the evaluation sets' shingles that stand in training
    cut        for each set, the passages cut out of training, and their words
    """

    def __init__(self, sets: Mapping[str, Iterable[Document]]) -> None:
        self.documents: list[tuple[str, str]] = []
        self.owners: dict[int, list[int]] = defaultdict(list)
        self.seen: set[int] = set()
        self.cut = {name: {"passages": 0, "words": 0} for name in sets}
        for name, documents in sets.items():
            for document in documents:
                for shingle in set(_shingles(document)):
                    self.owners[shingle].append(len(self.documents))
                self.documents.append((name, document.id))

    def remove(self, document: Document) -> list[Document]:
        """Return a training document without the passages it shares with evaluation documents: as
        one document, as several if a passage stood inside, or as none.
        """
        passages = sorted(self._find_passages(document))
        if not passages:
            return [document]
        fault = "contains text of an evaluation set: leave it out (corpus.exclude)"
        check_plain(document, fault)  # some annotations would be lost
        pieces = spaced_words(document, "natural")
        spans = [match.span() for match in _WORD.finditer("".join(pieces))]
        ends = list(accumulate(map(len, pieces)))
        drop = np.zeros(len(ends), bool)
        for first, last, name in passages:
            start = int(np.searchsorted(ends, spans[first][0], "right")) if first > OPENING else 0
            end = int(np.searchsorted(ends, spans[last][0], "right")) + 1
            while end < len(ends) and document.space_after and not document.space_after[end - 1]:
                end += 1  # up to the next space, past a closing quotation mark
            self.cut[name]["passages"] += 1
            self.cut[name]["words"] += int((~drop[start:end]).sum())
            drop[start:end] = True
        kept = np.flatnonzero(np.diff(np.concatenate(([True], drop, [True])).astype(int)))
        return [
            slice_document(document, int(start), int(end), copy)
            for copy, (start, end) in enumerate(kept.reshape(-1, 2))
        ]

    def _find_passages(self, document: Document) -> Iterator[tuple[int, int, str]]:
        """Yield the first and last word of each run of shared shingles, and the evaluation set."""
        places: dict[int, list[int]] = defaultdict(list)
        for place, shingle in enumerate(_shingles(document)):
            for owner in self.owners.get(shingle, ()):
                places[owner].append(place)
        for owner, found in places.items():
            for run in np.split(found, np.flatnonzero(np.diff(found) > GAP) + 1):
                if len(run) >= FEWEST:
                    yield int(run[0]), int(run[-1]) + SHINGLE - 1, self.documents[owner][0]

    def compare(self, document: Document) -> None:
        """Note which shingles of the evaluation sets a training document has."""
        self.seen.update(shingle for shingle in _shingles(document) if shingle in self.owners)

    def shares(self) -> pd.DataFrame:
        """Tabulate each evaluation document: set, id, distinct shingles, and those in training."""
        import pandas as pd

        sizes = Counter(owner for owners in self.owners.values() for owner in owners)
        shared = Counter(owner for shingle in self.seen for owner in self.owners[shingle])
        table = pd.DataFrame(self.documents, columns=["set", "document"])
        table["shingles"] = [sizes[i] for i in range(len(table))]
        table["shared"] = [shared[i] for i in range(len(table))]
        table["share"] = table["shared"] / table["shingles"].clip(lower=1)
        return table

    def summary(self) -> dict[str, Any]:
        """Summarise each set: its documents and shingles, the passages and words cut out of
        training, and what is left: shared shingles, and the largest share of one document.
        """
        found = {}
        for name, own in self.shares().groupby("set", sort=False):
            found[str(name)] = {
                "documents": len(own),
                "shingles": int(own["shingles"].sum()),
                "passages_cut": self.cut[name]["passages"],
                "words_cut": self.cut[name]["words"],
                "shared": int(own["shared"].sum()),
                "largest_share": round(float(own["share"].max()), 6),
            }
        return found

    def check(self) -> None:
        """Raise CorpusError if training has more of an evaluation document than chance explains."""
        shares = self.shares()
        bad = shares[(shares["share"] > MOST) & (shares["shared"] >= FEWEST)]
        if len(bad):
            worst = bad.loc[bad["share"].idxmax()]
            raise CorpusError(
                f"{worst['set']}, {worst['document']}: {worst['share']:.1%} of its text appears in"
                f" training ({worst['shared']} of {worst['shingles']} runs of {SHINGLE} words),"
                f" expected at most {MOST:.0%}; {len(bad)} such documents: leave the text out of"
                " training (corpus.exclude)"
            )


def leave_out(documents: Iterable[Document], overlap: Overlap) -> Iterator[Document]:
    """Yield the documents; those of train come without the text of evaluation sets."""
    for document in documents:
        if document.split != "train" or not overlap.documents:
            yield document
            continue
        for piece in overlap.remove(document):
            overlap.compare(piece)
            yield piece


def _shingles(document: Document) -> list[int]:
    """Return a hash of every eight consecutive words, equal for equal words in one process."""
    words = [word.lower() for word in _WORD.findall("".join(spaced_words(document, "natural")))]
    return [hash(tuple(words[i : i + SHINGLE])) for i in range(len(words) - SHINGLE + 1)]
