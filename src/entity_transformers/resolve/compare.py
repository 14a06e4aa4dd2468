"""Resolvers beside one another on annotated corpora: how well, how fast.

python -m entity_transformers.resolve.compare litbank=FOLDER ontogum=FOLDER
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.corpus.mentions import drop_singletons
from entity_transformers.corpus.readers import read_corpus
from entity_transformers.resolve.base import Resolver, resolve
from entity_transformers.resolve.registry import REGISTRY, make_resolver
from entity_transformers.resolve.scoring import Scores

TESTS: dict[str, dict[str, tuple[str, ...]]] = {
    "litbank": {
        "LitBank, all 100 openings": ("train", "dev", "test"),
        "LitBank, the 20 of dev and test": ("dev", "test"),
    },
    "ontogum": {"OntoGUM, dev and test": ("dev", "test")},
}
"""Splits that are scored by default, by corpus format and name in the table."""

SINGLETONS = {"litbank": True, "ontogum": False}
"""Does the corpus annotate entities of one mention?"""


@dataclass(frozen=True)
class Row:
    """One resolver on one corpus: the measures, those among the mentions that both sides have
    (``shared``: is the entity right where the span is?), and what it took, in processor seconds
    (of all threads; work on a GPU is not in them).
    """

    corpus: str
    resolver: str
    words: int
    seconds: float
    scores: Scores
    shared: Scores


def score_resolver(
    documents: Sequence[Document], resolver: Resolver, corpus: str = "", singletons: bool = True
) -> Row:
    """The resolver on the documents. ``singletons``: does the corpus annotate entities of one
    mention? Where it does not, they are taken out of the answers, and out of gold where some were
    left in. Nothing else is done to either: overlapping spans stay as they are.
    """
    scores, shared, seconds = Scores(), Scores(), 0.0
    for document in documents:
        before = time.process_time()
        answer = resolve(resolver, document, "keep").document
        seconds += time.process_time() - before
        gold, found = document, answer
        if not singletons:
            gold, found = drop_singletons(gold), drop_singletons(found)
        scores.add(gold.mentions, found.mentions)
        shared.add(_among(gold, found), _among(found, gold))
    words = sum(len(document.words) for document in documents)
    return Row(corpus, resolver.name, words, seconds, scores, shared)


def _among(document: Document, other: Document) -> list[Mention]:
    spans = {(mention.start, mention.end) for mention in other.mentions}
    return [mention for mention in document.mentions if (mention.start, mention.end) in spans]


COLUMNS = (
    "corpus", "resolver", "MUC", "B-cubed", "CEAF-e", "mean", "mentions: recall", "precision",
    "B-cubed of shared mentions", "ms per 1,000 words",
)  # fmt: skip


def write_table(rows: Iterable[Row]) -> str:
    """The rows as a Markdown table; measures in percent, F1 where nothing else is said."""
    lines = [COLUMNS, tuple("---" for _ in COLUMNS)]
    for row in rows:
        s = row.scores
        values = (s.muc.f1, s.b_cubed.f1, s.ceaf_e.f1, s.conll, s.mentions.recall,
                  s.mentions.precision, row.shared.b_cubed.f1)  # fmt: skip
        cells = [f"{100 * value:.1f}" for value in values]
        time_per_word = f"{1e6 * row.seconds / row.words:.1f}"
        lines.append((row.corpus, row.resolver, *cells, time_per_word))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(arguments: Sequence[str]) -> None:
    """Score the resolvers that need no weights on the corpora given as FORMAT=FOLDER."""
    resolvers = [make_resolver(name) for name in REGISTRY if name.startswith("names")]
    rows: list[Row] = []
    for argument in arguments:
        format, _, folder = argument.partition("=")
        # the documents of GUM whose words are not published
        exclude = ("GUM_reddit_*",) if format == "ontogum" else ()
        corpus = list(read_corpus(format, Path(folder), exclude=exclude, bad_documents="skip"))
        for name, splits in TESTS[format].items():
            documents = [document for document in corpus if document.split in splits]
            rows += [score_resolver(documents, r, name, SINGLETONS[format]) for r in resolvers]
    print(write_table(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
