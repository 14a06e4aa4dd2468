"""Libraries as resolvers: Coreferee (MIT: rules and small models on a spaCy pipeline) and Stanza's
neural coreference (Apache-2), each with an extra of its name.

pip install '.[coreferee]' in the checkout
python -m spacy download en_core_web_lg && python -m coreferee install en

pip install '.[stanza]' in the checkout
python -c "import stanza; stanza.download('en', processors='tokenize,coref')"
"""

from __future__ import annotations

import logging
from typing import Any

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.resolve.base import ResolverError

SPACY = "en_core_web_lg"
LONGEST = 20_000
"""Words of a document that Stanza reads: every pair of words is scored at once, four bytes each."""
log = logging.getLogger(__name__)


def load_coreferee() -> Any:
    """spaCy's pipeline with the component."""
    import coreferee  # noqa: F401 - registers the component
    import spacy

    try:
        pipeline = spacy.load(SPACY)
        pipeline.add_pipe("coreferee")
    except Exception as error:  # coreferee's own errors have no common base that is public
        raise ResolverError(
            f"resolver coreferee: no model ({type(error).__name__}: {error}): python -m spacy"
            f" download {SPACY} && python -m coreferee install en"
        ) from error
    return pipeline


class Coreferee:
    """Resolver ``coreferee``; ``pipeline``: one that is loaded already and has the component.

    Coreferee finds heads. A head's mention is here the noun chunk that it is the root of, a
    pronoun's or any other one's is the word; a coordination reaches from its first to its last one.
    """

    causal = False
    name = "coreferee"

    def __init__(self, pipeline: Any = None) -> None:
        self._pipeline = load_coreferee() if pipeline is None else pipeline

    def resolve(self, document: Document) -> list[Mention]:
        """Mentions in no order; the words are the document's own."""
        from spacy.tokens import Doc

        starts = set(document.sentence_starts)
        words = list(document.words)
        doc = self._pipeline(
            Doc(
                self._pipeline.vocab,
                words=words,
                spaces=None if document.space_after is None else list(document.space_after),
                sent_starts=[i in starts for i in range(len(words))],
            ),
            disable=["coreferee"],
        )
        try:
            # the component itself turns every failure into a warning and returns no chains
            self._pipeline.get_pipe("coreferee").annotator.annotate(doc)
        except Exception as error:
            raise ResolverError(
                f"resolver coreferee, document {document.id}: {type(error).__name__}: {error}"
            ) from error
        chunks = {chunk.root.i: (chunk.start, chunk.end) for chunk in doc.noun_chunks}
        found = {}  # in which a mention that is found twice stands once
        for number, chain in enumerate(doc._.coref_chains, 1):
            for mention in chain:
                spans = [chunks.get(head, (head, head + 1)) for head in mention.token_indexes]
                start, end = min(start for start, _ in spans), max(end for _, end in spans)
                found[Mention(start, end, number)] = True
        return list(found)


def load_stanza() -> Any:
    """Stanza's pipeline for words and sentences that are given."""
    import peft  # noqa: F401 - needed by the models themselves, which are loaded later
    import stanza

    try:
        return stanza.Pipeline(
            "en",
            processors="tokenize,coref",
            tokenize_pretokenized=True,
            download_method=None,  # what is downloaded is the user's own decision
            verbose=False,
        )
    except Exception as error:
        raise ResolverError(
            f"resolver stanza: no pipeline ({type(error).__name__}: {error}): python -c"
            " \"import stanza; stanza.download('en', processors='tokenize,coref')\""
        ) from error


class Stanza:
    """Resolver ``stanza``; ``pipeline``: one that is loaded already, of words that are given."""

    causal = False
    name = "stanza"

    def __init__(self, pipeline: Any = None) -> None:
        self._pipeline = load_stanza() if pipeline is None else pipeline

    def resolve(self, document: Document) -> list[Mention]:
        """Mentions chain by chain; the words and sentences are the document's own."""
        if len(document.words) > LONGEST:
            raise ResolverError(
                f"resolver stanza, document {document.id}: {len(document.words)} words, at most"
                f" {LONGEST}: resolve chapter by chapter"
            )
        sentences = list(document.sentences())
        try:
            answer = self._pipeline([[document.words[i] for i in s] for s in sentences])
        except Exception as error:
            raise ResolverError(
                f"resolver stanza, document {document.id}: {type(error).__name__}: {error}"
            ) from error
        mentions, missing = [], 0
        for number, chain in enumerate(answer.coref, 1):
            for mention in chain.mentions:
                if isinstance(mention.start_word, tuple):  # a word that the text leaves out
                    missing += 1
                    continue
                first = sentences[mention.sentence].start
                mentions.append(
                    Mention(first + mention.start_word, first + mention.end_word, number)
                )
        if missing:
            log.warning(
                "resolver stanza, document %s: %d mentions of words that the text does not have,"
                " left out", document.id, missing,
            )  # fmt: skip
        return mentions
