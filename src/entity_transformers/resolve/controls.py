"""A control, no coreference: slots that the latest words are written into, whatever they are."""

from __future__ import annotations

from entity_transformers.corpus.document import Document, Mention

SLOTS = 512
"""About as many as a novel has names."""


class Slots:
    """Resolver ``slots-causal``: every word is a mention, and its entity one of `SLOTS` numbers in
    turn, so that a memory of entities becomes one of slots that are written by recency.
    """

    causal = True
    name = "slots-causal"

    def resolve(self, document: Document) -> list[Mention]:
        """Mentions in reading order; entities are numbered from 1, again after the last slot."""
        return [Mention(at, at + 1, at % SLOTS + 1) for at in range(len(document.words))]
