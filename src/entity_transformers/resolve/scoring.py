"""How well chains agree with gold ones: MUC, B-cubed, CEAF-e, their mean, and the mentions alone.

As the reference scorer does, each measure's numerators and denominators are summed over documents
before they are divided, and a mention counts where both its borders are right (Pradhan et al. 2014,
"Scoring Coreference Partitions of Predicted Mentions: A Reference Implementation").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linear_sum_assignment

from entity_transformers.corpus.document import Mention
from entity_transformers.corpus.mentions import merge_chains

Span = tuple[int, int]
Chain = frozenset[Span]
"""The spans of one entity."""


@dataclass
class Score:
    """Sums over documents; recall, precision and F1 are 0 where there is nothing to divide by."""

    recalled: float = 0.0
    gold: float = 0.0
    precise: float = 0.0
    found: float = 0.0

    def add(self, recalled: float, gold: float, precise: float, found: float) -> None:
        """Add one document's numerators and denominators."""
        self.recalled += recalled
        self.gold += gold
        self.precise += precise
        self.found += found

    @property
    def recall(self) -> float:
        return self.recalled / self.gold if self.gold else 0.0

    @property
    def precision(self) -> float:
        return self.precise / self.found if self.found else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of the two."""
        total = self.recall + self.precision
        return 2 * self.recall * self.precision / total if total else 0.0


@dataclass
class Scores:
    """The measures over all documents so far.

    merged  chains that shared a span with another one of the same side and were made one with it,
            which is what the project does (`corpus.mentions.merge_chains`): gold, found
    """

    mentions: Score = field(default_factory=Score)
    muc: Score = field(default_factory=Score)
    b_cubed: Score = field(default_factory=Score)
    ceaf_e: Score = field(default_factory=Score)
    merged: Counter[str] = field(default_factory=Counter)

    def add(self, gold: Iterable[Mention], found: Iterable[Mention]) -> None:
        """Add one document: its gold mentions and those that were found."""
        key, merged_gold = make_chains(gold)
        response, merged_found = make_chains(found)
        self.merged.update(gold=merged_gold, found=merged_found)
        both = {span for chain in key for span in chain} & {s for chain in response for s in chain}
        sizes = sum(map(len, key)), sum(map(len, response))
        self.mentions.add(len(both), sizes[0], len(both), sizes[1])
        self.muc.add(*count_links(key, response), *count_links(response, key))
        self.b_cubed.add(*count_shares(key, response), *count_shares(response, key))
        similarity = align_chains(key, response)
        self.ceaf_e.add(similarity, len(key), similarity, len(response))

    @property
    def conll(self) -> float:
        """The mean of the three F1, by which the shared task of CoNLL-2012 was ranked."""
        return (self.muc.f1 + self.b_cubed.f1 + self.ceaf_e.f1) / 3


def make_chains(mentions: Iterable[Mention]) -> tuple[list[Chain], int]:
    """The entities' sets of spans, disjoint, and how many were merged because they shared one."""
    kept, merged = merge_chains(mentions)
    chains: dict[int, set[Span]] = {}
    for mention in kept:
        chains.setdefault(mention.chain, set()).add((mention.start, mention.end))
    return [frozenset(chain) for chain in chains.values()], merged


def _chain_of(chains: Sequence[Chain]) -> dict[Span, int]:
    return {span: i for i, chain in enumerate(chains) for span in chain}


def count_links(chains: Sequence[Chain], others: Sequence[Chain]) -> tuple[int, int]:
    """MUC (Vilain et al. 1995): links of the chains that ``others`` have too, and all links."""
    other = _chain_of(others)
    kept = 0
    for chain in chains:
        parts = {other.get(span, span) for span in chain}
        kept += len(chain) - len(parts)
    return kept, sum(len(chain) - 1 for chain in chains)


def count_shares(chains: Sequence[Chain], others: Sequence[Chain]) -> tuple[float, int]:
    """B-cubed: over all spans, the share of the span's chain that is in the same one of ``others``
    (Bagga and Baldwin 1998), and the number of spans.
    """
    other = _chain_of(others)
    shares = 0.0
    for chain in chains:
        together = Counter(other[span] for span in chain if span in other)
        shares += sum(size * size for size in together.values()) / len(chain)
    return shares, sum(map(len, chains))


def align_chains(key: Sequence[Chain], response: Sequence[Chain]) -> float:
    """CEAF-e (Luo 2005): the largest sum of 2 |K and R| / (|K| + |R|) of aligned chains."""
    other = _chain_of(response)
    similarity = np.zeros((len(key), len(response)))
    for i, chain in enumerate(key):
        for j, shared in Counter(other[span] for span in chain if span in other).items():
            similarity[i, j] = 2 * shared / (len(chain) + len(response[j]))
    rows, columns = linear_sum_assignment(similarity, maximize=True)
    return float(similarity[rows, columns].sum())
