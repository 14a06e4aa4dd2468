"""A control, no coreference: every word of a text that says something is an entity of its own, one
for each spelling.
"""

from __future__ import annotations

from dataclasses import dataclass

from spacy.lang.en.stop_words import STOP_WORDS

from entity_transformers.corpus.document import Document, Mention


@dataclass(frozen=True)
class Words:
    """Resolver ``words-causal``: a mention is a word of letters alone that is none of spaCy's
    English stop words (the, of, you); its entity is its spelling in lower case. Whether a word is
    one does not depend on any other.
    """

    causal: bool = True

    @property
    def name(self) -> str:
        """words-causal"""
        return "words-causal"

    def resolve(self, document: Document) -> list[Mention]:
        """Mentions in reading order; entities are numbered from 1 by first appearance."""
        numbers: dict[str, int] = {}
        found = []
        for at, word in enumerate(document.words):
            key = word.lower()
            if word.isalpha() and key not in STOP_WORDS:
                found.append(Mention(at, at + 1, numbers.setdefault(key, len(numbers) + 1)))
        return found
