"""How well a resolver's chains agree with gold ones: MUC, B-cubed, CEAF-e, their mean, and the
mentions alone.

As the reference scorer does, each measure's numerators and denominators are summed over documents
before they are divided, and a mention counts where both its borders are right (Pradhan et al. 2014,
"Scoring Coreference Partitions of Predicted Mentions: A Reference Implementation").

    python benchmarks/resolvers.py litbank=FOLDER ontogum=FOLDER
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.corpus.mentions import drop_singletons
from entity_transformers.corpus.readers import read_corpus
from entity_transformers.resolve.registry import REGISTRY, Resolver, make_resolver, resolve

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
    """The measures over all documents so far."""

    mentions: Score = field(default_factory=Score)
    muc: Score = field(default_factory=Score)
    b_cubed: Score = field(default_factory=Score)
    ceaf_e: Score = field(default_factory=Score)

    def add(self, gold: Iterable[Mention], found: Iterable[Mention]) -> None:
        """Add one document: its gold mentions and those that were found."""
        key = make_chains(gold)
        spans = frozenset().union(*key)
        response = make_chains(found, spans)
        answered = frozenset().union(*response)
        both = len(spans & answered)
        self.mentions.add(both, len(spans), both, len(answered))
        self.muc.add(*count_links(key, response))
        self.b_cubed.add(*count_shares(key, response))
        similarity = align_chains(key, response)
        self.ceaf_e.add(similarity, len(key), similarity, len(response))

    @property
    def conll(self) -> float:
        """The mean of the three F1, by which the shared task of CoNLL-2012 was ranked."""
        return (self.muc.f1 + self.b_cubed.f1 + self.ceaf_e.f1) / 3


def make_chains(mentions: Iterable[Mention], once: Chain = frozenset()) -> list[Chain]:
    """The entities' sets of spans. As in the reference scorer (scorer.pl 8.01), a span of ``once``
    that several have counts in the first of them alone: an answer's, if it is one of the key's. The
    first is the one that begins first; of those at the same word, one that begins with one word.
    """
    chains: dict[int, set[Span]] = {}
    for mention in sorted(mentions, key=lambda m: (m.start, m.end > m.start + 1)):
        chains.setdefault(mention.chain, set()).add((mention.start, mention.end))
    taken: set[Span] = set()
    found = []
    for spans in chains.values():
        found.append(frozenset(spans - taken))
        taken |= spans & once
    return [chain for chain in found if chain]


def _chain_of(chains: Sequence[Chain]) -> dict[Span, int]:
    """The chain of each span; of several that the key has it in the last, as in that scorer."""
    return {span: i for i, chain in enumerate(chains) for span in chain}


def _intersect(chain: Chain, of: Mapping[Span, int]) -> Counter[int]:
    """How many spans of a chain each of the chains has that ``of`` numbers."""
    return Counter(of[span] for span in chain if span in of)


def count_links(key: Sequence[Chain], response: Sequence[Chain]) -> tuple[int, int, int, int]:
    """MUC (Vilain et al. 1995): links that both have, all of the key's, and the same of the
    response.
    """
    of = _chain_of(key)
    kept = sum(size - 1 for chain in response for size in _intersect(chain, of).values())
    return kept, sum(len(c) - 1 for c in key), kept, sum(len(c) - 1 for c in response)


def count_shares(key: Sequence[Chain], response: Sequence[Chain]) -> tuple[float, int, float, int]:
    """B-cubed (Bagga and Baldwin 1998): over the spans that both have, the share of the span's key
    chain that is in its response chain, and the spans of the key; then the other way round.
    """
    of, recalled, precise = _chain_of(key), 0.0, 0.0
    for chain in response:
        for number, spans in _intersect(chain, of).items():
            shared = spans * len(chain & key[number])
            recalled += shared / len(key[number])
            precise += shared / len(chain)
    return recalled, sum(map(len, key)), precise, sum(map(len, response))


def align_chains(key: Sequence[Chain], response: Sequence[Chain]) -> float:
    """CEAF-e (Luo 2005): the largest sum of 2 |K and R| / (|K| + |R|) of aligned chains."""
    other = _chain_of(response)
    similarity = np.zeros((len(key), len(response)))
    for i, chain in enumerate(key):
        for j, shared in _intersect(chain, other).items():
            similarity[i, j] = 2 * shared / (len(chain) + len(response[j]))
    rows, columns = linear_sum_assignment(similarity, maximize=True)
    return float(similarity[rows, columns].sum())


TESTS: dict[str, dict[str, tuple[str, ...]]] = {
    "litbank": {
        "LitBank, all 100 openings": ("train", "dev", "test"),
        "LitBank, the 20 of dev and test": ("dev", "test"),
    },
    "ontogum": {"OntoGUM, dev and test": ("dev", "test")},
}
"""Splits that are scored, by corpus format and name in the table."""
COLUMNS = (
    "corpus", "resolver", "MUC", "B-cubed", "CEAF-e", "mean", "mentions: recall", "precision",
    "B-cubed of shared mentions", "ms per 1,000 words",
)  # fmt: skip


def score_resolver(
    documents: Sequence[Document], resolver: Resolver, singletons: bool
) -> list[float]:
    """The columns of the table from MUC on, in percent, F1 where nothing else is said, and the
    processor's time. ``singletons``: does the corpus annotate entities of one mention? Where it
    does not, they are left out of both sides. Shared mentions are those that both sides have.
    """
    scores, shared, seconds = Scores(), Scores(), 0.0
    for gold in documents:
        before = time.process_time()
        found = resolve(resolver, gold, None)
        seconds += time.process_time() - before
        if not singletons:
            gold, found = drop_singletons(gold), drop_singletons(found)
        scores.add(gold.mentions, found.mentions)
        spans = [{(m.start, m.end) for m in side.mentions} for side in (gold, found)]
        both = spans[0] & spans[1]
        shared.add(*([m for m in s.mentions if (m.start, m.end) in both] for s in (gold, found)))
    rates = (scores.muc.f1, scores.b_cubed.f1, scores.ceaf_e.f1, scores.conll,
             scores.mentions.recall, scores.mentions.precision, shared.b_cubed.f1)  # fmt: skip
    words = sum(len(document.words) for document in documents)
    return [*(100 * rate for rate in rates), 1e6 * seconds / words]


def main(arguments: Sequence[str]) -> None:
    """Print a Markdown table of the resolvers that need no weights, on the corpora that are named
    as FORMAT=FOLDER.
    """
    lines: list[Sequence[str]] = [COLUMNS, ["---"] * len(COLUMNS)]
    for argument in arguments:
        format, _, folder = argument.partition("=")
        # the documents of GUM whose words are not published
        exclude = ("GUM_reddit_*",) if format == "ontogum" else ()
        corpus = list(read_corpus(format, Path(folder), exclude=exclude, bad_documents="skip"))
        for name, splits in TESTS[format].items():
            documents = [document for document in corpus if document.split in splits]
            for resolver in (one for one in REGISTRY if one.startswith("names")):
                row = score_resolver(documents, make_resolver(resolver), format == "litbank")
                lines.append((name, resolver, *(f"{value:.1f}" for value in row)))
    print("\n".join(f"| {' | '.join(line)} |" for line in lines))


if __name__ == "__main__":
    main(sys.argv[1:])
