"""What stands both in training and in an evaluation set: found by eight words in a row.

Words are compared in lower case and without punctuation, as they stand between spaces, so that it
does not matter who split them. A passage is a run of shared shingles; one is cut out of training,
shingles that two texts share by chance are not.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from entity_transformers.corpus.alignment import spaced_words
from entity_transformers.corpus.document import CorpusError, Document

SHINGLE = 8
"""Words in a row."""
MOST = 0.05
"""Share of an evaluation document's shingles that may stand in training: proverbs, verses of the
Bible and "for the first time in his life" do, and no passage."""
FEWEST = 16
"""Shared shingles that make a passage: 23 words, which nobody writes by chance."""
GAP = 40
"""Words within a passage that may differ: a heading, a misprint that somebody corrected."""
_WORD = re.compile(r"[^\W_]+")
_FACTOR = 0x9E3779B97F4A7C15


@dataclass
class EvaluationSet:
    """An evaluation set's shingles.

    name       as it is reported
    documents  their ids
    owners     int32 [S]: the document that a shingle is from, by its number in `Shingles.keys`
    """

    name: str
    documents: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    shared: dict[int, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))
    passages: int = 0
    words: int = 0

    def rows(self) -> list[dict[str, Any]]:
        """Per document with anything in common: name, shingles, share, up to three examples."""
        return [
            {
                "document": self.documents[index],
                "shingles": self.sizes[index],
                "share": len(found) / self.sizes[index],
                "examples": list(dict.fromkeys(found.values()))[:3],
            }
            for index, found in sorted(self.shared.items())
        ]

    def summary(self) -> dict[str, Any]:
        """Plain values: documents, those with any overlap, the largest share and its document,
        passages cut out of training and their words.
        """
        rows = self.rows()
        worst = max(rows, key=lambda row: row["share"], default=None)
        return {
            "documents": len(self.documents),
            "shingles": sum(self.sizes),
            "with_overlap": len(rows),
            "shared_shingles": sum(len(found) for found in self.shared.values()),
            "largest_share": worst["share"] if worst else 0.0,
            "largest": worst["document"] if worst else "",
            "examples": worst["examples"] if worst else [],
            "passages_cut": self.passages,
            "words_cut": self.words,
        }
