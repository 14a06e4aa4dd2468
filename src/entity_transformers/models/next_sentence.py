"""Next-sentence prediction (Devlin et al., 2019, section 3.1, task #2) in windows of a stream.

The segment A is the document that the first half of a window ends in, B what follows in the second
half. For half of the windows B is another stream's second half, so that all text is read as often
as without. ``<|endoftext|>`` stands for BERT's three special tokens: it takes the place of A's
first token, of the last one before B, and of B's last.

Dimensions: B rows side by side, T tokens.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from entity_transformers.corpus.windows import Window
from entity_transformers.models.base import IGNORED

IS_NEXT, IS_OTHER = 0, 1
SHORTEST = 3  # tokens of A, and one more than of B: special ones and one of text


def pair_segments(window: Window, end: int, generator: np.random.Generator) -> Window:
    """The window with second halves exchanged and special tokens put in. In ``more``: ``segments``
    int64 [B, T], 1 in B; ``first`` int64 [B], the column of A's first token; ``next`` int64 [B]:
    `IS_NEXT`, `IS_OTHER`, or -100 where a row has no A that goes on, or too short a one.

    Rows are paired at random, and each pair exchanges their halves with probability 1/2; of an odd
    number one stays as it is. ``begins`` is set at special tokens too.
    """
    rows, width = window.tokens.shape
    half = width // 2
    source, exchanged = _exchange(rows, generator)
    tokens, begins = (
        np.concatenate([array[:, :half], array[source, half:]], axis=1)
        for array in (window.tokens, window.begins)
    )
    places = np.arange(width)
    starts = np.maximum.accumulate(np.where(begins, places, 0), axis=1)
    first = starts[:, half - 1]
    inside = (starts == first[:, None]) & (places >= first[:, None])
    last = np.where(inside, places, 0).max(1)
    paired = (half - first >= SHORTEST) & (last - half >= SHORTEST - 2)
    special = np.zeros_like(begins)
    for column in (first, np.full(rows, half - 1), last):
        special[np.arange(rows), column] = paired
    answer = np.where(exchanged, IS_OTHER, IS_NEXT)
    more = {
        "segments": (inside & (places >= half) & paired[:, None]).astype(np.int64),
        "first": first,
        "next": np.where(paired, answer, IGNORED),
    }
    return replace(
        window,
        tokens=np.where(special, end, tokens),
        positions=places - starts,
        begins=begins | special,
        more=more,
    )


def _exchange(rows: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Where each row's second half comes from, int64 [B], and is it another row, bool [B]."""
    order, source = generator.permutation(rows), np.arange(rows)
    one, other = order[: rows // 2], order[rows // 2 : rows // 2 * 2]
    swapped = generator.random(rows // 2) < 0.5
    source[one[swapped]], source[other[swapped]] = other[swapped], one[swapped]
    return source, source != np.arange(rows)
