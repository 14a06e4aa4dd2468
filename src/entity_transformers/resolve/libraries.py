"""Libraries as resolvers: Coreferee (MIT: rules and small models on a spaCy pipeline) and Stanza's
neural coreference (Apache-2), each with an extra of its name.

pip install '.[coreferee]' in the checkout
python -m spacy download en_core_web_lg && python -m coreferee install en

pip install '.[stanza]' in the checkout
python -c "import stanza; stanza.download('en', processors='tokenize,coref')"
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.resolve.base import ResolverError

SPACY = "en_core_web_lg"
LONGEST = 20_000
"""Most words of a document for Stanza, which scores all pairs of words at once, in 4 bytes each."""
log = logging.getLogger(__name__)


@contextmanager
def named(where: str, hint: str = "") -> Iterator[None]:
    """Turn whatever a library raises inside the block into a ResolverError, since the libraries'
    errors have no common public base class.
    """
    try:
        yield
    except Exception as error:
        raise ResolverError(f"resolver {where}: {type(error).__name__}: {error}{hint}") from error


class Coreferee:
    """Resolver ``coreferee``; ``pipeline`` may be a loaded spaCy pipeline with the component.

    Coreferee finds head words. A head's mention here is the noun chunk that it is the root of, else
    the word alone, as for pronouns; a coordination spans from its first to its last mention.
    """

    causal = False
    name = "coreferee"

    def __init__(self, pipeline: Any = None) -> None:
        if pipeline is None:
            import coreferee  # noqa: F401 - registers the component
            import spacy

            hint = f": python -m spacy download {SPACY} && python -m coreferee install en"
            with named("coreferee", hint):
                pipeline = spacy.load(SPACY)
                pipeline.add_pipe("coreferee")
        self._pipeline = pipeline

    def resolve(self, document: Document) -> list[Mention]:
        """Return the mentions in no particular order; the words are the document's own."""
        from spacy.tokens import Doc

        starts, words = set(document.sentence_starts), list(document.words)
        doc = Doc(
            self._pipeline.vocab,
            words=words,
            spaces=None if document.space_after is None else list(document.space_after),
            sent_starts=[i in starts for i in range(len(words))],
        )
        doc = self._pipeline(doc, disable=["coreferee"])
        # the component itself turns every failure into a warning and returns no chains
        with named(f"coreferee, document {document.id}"):
            self._pipeline.get_pipe("coreferee").annotator.annotate(doc)
        chunks = {chunk.root.i: (chunk.start, chunk.end) for chunk in doc.noun_chunks}
        found = {}  # keyed by mention, since one may be found twice
        for number, chain in enumerate(doc._.coref_chains, 1):
            for mention in chain:
                spans = [chunks.get(head, (head, head + 1)) for head in mention.token_indexes]
                start, end = min(start for start, _ in spans), max(end for _, end in spans)
                found[Mention(start, end, number)] = True
        return list(found)


class Stanza:
    """Resolver ``stanza``; ``pipeline`` may be a loaded pipeline that takes pretokenised text."""

    causal = False
    name = "stanza"

    def __init__(self, pipeline: Any = None) -> None:
        if pipeline is None:
            import peft  # noqa: F401 - needed by the models themselves, which are loaded later
            import stanza

            download = "stanza.download('en', processors='tokenize,coref')"
            with named("stanza", f': python -c "import stanza; {download}"'):
                pipeline = stanza.Pipeline(
                    "en",
                    processors="tokenize,coref",
                    tokenize_pretokenized=True,
                    download_method=None,  # what to download is the user's decision
                    verbose=False,
                )
        self._pipeline = pipeline

    def resolve(self, document: Document) -> list[Mention]:
        """Return the mentions chain by chain; the words and sentences are the document's own."""
        where = f"stanza, document {document.id}"
        if len(document.words) > LONGEST:
            raise ResolverError(
                f"resolver {where}: {len(document.words)} words, at most {LONGEST}: resolve chapter"
                " by chapter"
            )
        sentences = list(document.sentences())
        with named(where):
            answer = self._pipeline([[document.words[i] for i in s] for s in sentences])
        mentions, missing = [], 0
        for number, chain in enumerate(answer.coref, 1):
            for mention in chain.mentions:
                if isinstance(mention.start_word, tuple):  # a word that is elided in the text
                    missing += 1
                    continue
                first = sentences[mention.sentence].start
                mentions.append(
                    Mention(first + mention.start_word, first + mention.end_word, number)
                )
        if missing:
            log.warning("resolver %s: left out %d mentions of words that are not in the text",
                        where, missing)  # fmt: skip
        return mentions
