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
from entity_transformers.resolve.base import ResolverError, require


class Coreferee:
    """Resolver ``coreferee``. ``model``: the spaCy pipeline that tags and parses; ``pipeline``: one
    that is loaded already and has the component.

    Coreferee finds heads. A head's mention is here the noun chunk that it is the root of, a
    pronoun's or any other one's is the word; a coordination reaches from its first to its last one.
    """

    causal = False
    name = "coreferee"

    def __init__(self, model: str = "en_core_web_lg", pipeline: Any = None) -> None:
        self._spacy = require("spacy", "coreferee")
        self._pipeline = pipeline if pipeline is not None else self._load(model)

    def _load(self, model: str) -> Any:
        require("coreferee", "coreferee")
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


LONGEST = 20_000
"""Words of a document: every pair of words is scored at once, four bytes each."""

_logger = logging.getLogger(__name__)


class Stanza:
    """Resolver ``stanza``. ``package``: one of Stanza's models (null: its default for the
    language); ``folder``: where its models lie; ``longest``: words of a document at most;
    ``pipeline``: one that is loaded already, of words that are given.
    """

    causal = False
    name = "stanza"

    def __init__(
        self,
        language: str = "en",
        package: str | None = None,
        folder: str | None = None,
        device: str | None = None,
        longest: int = LONGEST,
        pipeline: Any = None,
    ) -> None:
        self._longest = longest
        self._pipeline = pipeline
        if pipeline is None:
            self._pipeline = _load(language, package, folder, device)

    def resolve(self, document: Document) -> list[Mention]:
        """Mentions chain by chain; the words and sentences are the document's own."""
        if len(document.words) > self._longest:
            raise ResolverError(
                f"resolver stanza, document {document.id}: {len(document.words)} words, at most"
                f" {self._longest}: resolve chapter by chapter, or give a larger longest"
            )
        sentences = list(document.sentences())
        try:
            answer = self._pipeline([[document.words[i] for i in s] for s in sentences])
        except Exception as error:
            raise ResolverError(
                f"resolver stanza, document {document.id}: {type(error).__name__}: {error}"
            ) from error
        lengths = [len(sentence.words) for sentence in answer.sentences]
        if lengths != [len(sentence) for sentence in sentences]:
            raise ResolverError(
                f"resolver stanza, document {document.id}: {sum(lengths)} words in {len(lengths)}"
                f" sentences, expected {len(document.words)} in {len(sentences)}: load the pipeline"
                " with tokenize_pretokenized=True"
            )
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
            _logger.warning(
                "resolver stanza, document %s: %d mentions of words that the text does not have,"
                " left out", document.id, missing,
            )  # fmt: skip
        return mentions


def _load(language: str, package: str | None, folder: str | None, device: str | None) -> Any:
    stanza = require("stanza", "stanza")
    require("peft", "stanza")  # needed by the models themselves, which are loaded later
    options = {"package": {"coref": package}} if package else {}
    if folder:
        options["model_dir"] = folder  # type: ignore[assignment]
    try:
        return stanza.Pipeline(
            language,
            processors="tokenize,coref",
            tokenize_pretokenized=True,
            download_method=None,  # what is downloaded is the user's own decision
            device=device,
            verbose=False,
            **options,
        )
    except Exception as error:
        raise ResolverError(
            f"resolver stanza: no pipeline for {language} ({type(error).__name__}: {error}): python"
            f" -c \"import stanza; stanza.download('{language}', processors='tokenize,coref')\""
        ) from error
