"""Coreferee (MIT: rules and small models on a spaCy pipeline) as a resolver; extra ``coreferee``.

pip install '.[coreferee]' in the checkout
python -m spacy download en_core_web_lg && python -m coreferee install en
"""

from __future__ import annotations

from typing import Any

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.resolve.base import ResolverError, require

EXTRA = "coreferee"


class Coreferee:
    """Resolver ``coreferee``. ``model``: the spaCy pipeline that tags and parses; ``pipeline``: one
    that is loaded already and has the component.

    Coreferee finds heads. A head's mention is here the noun chunk that it is the root of, a
    pronoun's or any other one's is the word; a coordination reaches from its first to its last one.
    """

    causal = False
    name = "coreferee"

    def __init__(self, model: str = "en_core_web_lg", pipeline: Any = None) -> None:
        self._spacy = require("spacy", EXTRA)
        self._pipeline = pipeline if pipeline is not None else self._load(model)

    def _load(self, model: str) -> Any:
        require("coreferee", EXTRA)
        try:
            pipeline = self._spacy.load(model)
        except OSError as error:
            raise ResolverError(
                f"resolver coreferee: spaCy's pipeline {model} can't be loaded ({error}): python -m"
                f" spacy download {model}"
            ) from error
        try:
            pipeline.add_pipe("coreferee")
        except Exception as error:  # coreferee's own errors have no common base that is public
            raise ResolverError(
                f"resolver coreferee: no model for {model} ({error}): python -m coreferee install"
                f" {model.partition('_')[0]}"
            ) from error
        return pipeline

    def resolve(self, document: Document) -> list[Mention]:
        """Mentions in no order; the words are the document's own."""
        doc = self._annotate(document)
        chunks = {chunk.root.i: (chunk.start, chunk.end) for chunk in doc.noun_chunks}
        return list(
            dict.fromkeys(
                _make_mention(mention.token_indexes, chunks, number)
                for number, chain in enumerate(doc._.coref_chains, 1)
                for mention in chain
            )
        )

    def _annotate(self, document: Document) -> Any:
        starts = set(document.sentence_starts)
        doc = self._spacy.tokens.Doc(
            self._pipeline.vocab,
            words=list(document.words),
            spaces=None if document.space_after is None else list(document.space_after),
            sent_starts=[i in starts for i in range(len(document.words))],
        )
        doc = self._pipeline(doc, disable=["coreferee"])
        if len(doc) != len(document.words):
            raise ResolverError(
                f"resolver coreferee, document {document.id}: {len(doc)} tokens for"
                f" {len(document.words)} words: use a pipeline that keeps the words"
            )
        try:
            # the component itself turns every failure into a warning and returns no chains
            self._pipeline.get_pipe("coreferee").annotator.annotate(doc)
        except Exception as error:
            raise ResolverError(
                f"resolver coreferee, document {document.id}: {type(error).__name__}: {error}"
            ) from error
        return doc


def _make_mention(heads: list[int], chunks: dict[int, tuple[int, int]], chain: int) -> Mention:
    spans = [chunks.get(head, (head, head + 1)) for head in heads]
    return Mention(min(start for start, _ in spans), max(end for _, end in spans), chain)
