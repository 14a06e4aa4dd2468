"""GloVe (Pennington et al., 2014): word and context vectors whose products fit the logarithms of
co-occurrence counts.

J = 1/2 sum over cells f(X_ij) (w_i . c_j + b_i + b'_j - log X_ij)^2, equation 8 of the paper with
f(x) = min(1, (x / x_max)^exponent), equation 9; by AdaGrad, cell by cell.

Dimensions: V words, W width, N cells (pairs of words that occur together), n cells of a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse

from entity_transformers.kinds.params import GloVeParams
from entity_transformers.models.static.vectors import Note, WordVectors, count_words
from entity_transformers.models.static.vectors import load as load


@dataclass(frozen=True)
class Cells:
    """The non-zero cells of the counts, in groups in which no two cells share a row or a column.

    So the cells of a group share no parameter, and updating them at once equals updating them one
    after another.

    rows, columns  int32 [N]
    counts         float64 [N]
    bounds         int64 [groups + 1]: where each group begins
    """

    rows: np.ndarray
    columns: np.ndarray
    counts: np.ndarray
    bounds: np.ndarray


def count_pairs(texts: Sequence[np.ndarray], size: int, context: int) -> sparse.csr_array:
    """Count how often words occur near each other, float64 [V, V], symmetric: a pair at distance d
    <= ``context`` in a text counts 1/d. ``texts``: the word ids of each text, int [length].
    """
    words = np.concatenate([np.zeros(0, np.int32), *texts]).astype(np.int32)
    text = np.repeat(np.arange(len(texts)), [len(one) for one in texts])
    before = sparse.csr_array((size, size), dtype=np.float64)
    for distance in range(1, context + 1):
        same = text[distance:] == text[:-distance]
        pairs = words[:-distance][same], words[distance:][same]
        ones = np.full(len(pairs[0]), 1 / distance)
        before += sparse.coo_array((ones, pairs), shape=(size, size)).tocsr()
    return (before + before.T).tocsr()


def group_cells(counts: sparse.csr_array, generator: np.random.Generator) -> Cells:
    """Group the cells by the diagonals of the matrix after shuffling its columns: a group holds the
    cells (row, column of rank row + s) for one s, so that no row or column occurs twice.
    """
    size = counts.shape[0]
    cells = counts.tocoo()
    rows, columns = (part.astype(np.int32) for part in cells.coords)
    rank = generator.permutation(size).astype(np.int32)
    diagonal = (rank[columns] - rows) % size
    order = np.argsort(diagonal, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(diagonal, minlength=size))])
    return Cells(rows[order], columns[order], cells.data[order], np.unique(bounds))


def draw_factors(size: int, width: int, generator: np.random.Generator) -> np.ndarray:
    """Draw initial parameters uniformly between ±1/2 / (W + 1), float32 [2, V, W + 1]: those of
    words, then those of contexts, a row per word, the bias last.
    """
    return ((generator.random((2, size, width + 1)) - 0.5) / (width + 1)).astype(np.float32)


def weigh(counts: np.ndarray, x_max: float, exponent: float) -> np.ndarray:
    """Return f (equation 9), between 0 and 1."""
    return np.minimum(1.0, (counts / x_max) ** exponent)


def run_epoch(
    factors: np.ndarray,
    squares: np.ndarray,
    cells: Cells,
    logs: np.ndarray,
    weights: np.ndarray,
    rate: float,
) -> float:
    """Make a pass of AdaGrad over all cells, which changes the parameters and the sums of squared
    steps, ``factors`` and ``squares`` [2, V, W + 1]; return J, each cell's term before its update.

    ``logs`` and ``weights``: log X and f(X), float32 [N].
    """
    total = 0.0
    for start, end in pairwise(cells.bounds.tolist()):
        i, j = cells.rows[start:end], cells.columns[start:end]
        word, context = factors[0][i], factors[1][j]
        off = np.einsum("nw,nw->n", word[:, :-1], context[:, :-1])
        off += word[:, -1] + context[:, -1] - logs[start:end]
        pull = weights[start:end] * off
        total += 0.5 * float(np.dot(pull, off))
        pull *= np.float32(rate)
        for side, rows, old, other in ((0, i, word, context), (1, j, context, word)):
            step = pull[:, None] * other
            step[:, -1] = pull  # the factor of a bias is 1
            known = squares[side][rows]
            factors[side][rows] = old - step / np.sqrt(known)
            squares[side][rows] = known + step * step
    return total


def train(
    texts: Sequence[Sequence[str]], params: GloVeParams, seed: int, note: Note
) -> tuple[WordVectors, int]:
    """Return the sums of word and context vectors, the same bytes for the same seed, and the number
    of parameters. Rare words are removed before neighbours are counted. Raises ValueError if no
    word is frequent enough.
    """
    kept = count_words(texts, params.min_count)
    places = {word: place for place, word in enumerate(kept)}
    known = [np.array([places[w] for w in text if w in places], np.int32) for text in texts]
    generator = np.random.default_rng(seed)
    cells = group_cells(count_pairs(known, len(kept), params.context), generator)
    logs = np.log(cells.counts).astype(np.float32)
    weights = weigh(cells.counts, params.x_max, params.exponent).astype(np.float32)
    factors = draw_factors(len(kept), params.width, generator)
    squares = np.ones_like(factors)
    for epoch in range(1, params.epochs + 1):
        total = run_epoch(factors, squares, cells, logs, weights, params.rate)
        note(epoch, total / max(1, len(logs)))
    vectors = (factors[0] + factors[1])[:, :-1]
    counts = np.array(list(kept.values()), np.int64)
    return WordVectors(tuple(kept), counts, np.ascontiguousarray(vectors)), factors.size
