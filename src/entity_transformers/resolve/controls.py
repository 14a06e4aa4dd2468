"""Controls, no coreference: every word of a text that says something an entity of its own, one for
each spelling; and slots that the latest words are written into, whatever they are.
"""

from __future__ import annotations

from spacy.lang.en.stop_words import STOP_WORDS

from entity_transformers.corpus.document import Document, Mention


class Words:
    """Resolver ``words-causal``: a mention is a word of letters alone that is none of spaCy's
    English stop words (the, of, you); its entity is its spelling in lower case. Whether a word is
    one does not depend on any other.
    """

    causal = True
    name = "words-causal"

    def resolve(self, document: Document) -> list[Mention]:
        """Mentions in reading order; entities are numbered from 1 by first appearance."""
        numbers: dict[str, int] = {}
        found = []
        for at, word in enumerate(document.words):
            key = word.lower()
            if word.isalpha() and key not in STOP_WORDS:
                found.append(Mention(at, at + 1, numbers.setdefault(key, len(numbers) + 1)))
        return found


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
