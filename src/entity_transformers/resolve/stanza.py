"""Stanza's neural coreference (Apache-2) as a resolver; extra ``stanza``.

pip install '.[stanza]' in the checkout
python -c "import stanza; stanza.download('en', processors='tokenize,coref')"
"""

from __future__ import annotations

import logging
from typing import Any

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.resolve.base import ResolverError, require

EXTRA = "stanza"
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
    stanza = require("stanza", EXTRA)
    require("peft", EXTRA)  # needed by the models themselves, which are loaded later
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
