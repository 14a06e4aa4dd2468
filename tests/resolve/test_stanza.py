"""Stanza behind stubs of its API, and with its own document and processor where it is installed."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.resolve import base
from entity_transformers.resolve.base import ResolverError, resolve
from entity_transformers.resolve.registry import make_resolver
from entity_transformers.resolve.stanza import Stanza

WORDS = ("Ada", "met", "her", "old", "friend", ".", "She", "smiled", ".")
DOCUMENT = Document("d", 0, "train", "", WORDS, (0, 6))
CHAINS = ([(0, 0, 1), (0, 2, 3), (1, 0, 1)], [(0, 2, 5)])
"""Sentence, first word, word after the last, as Stanza's mentions."""

EXPECTED = (Mention(0, 1, 1), Mention(2, 5, 2), Mention(2, 3, 1), Mention(6, 7, 1))


class Pipeline:
    """Returns the chains on the sentences that it is given."""

    def __init__(self, chains: Sequence[Sequence[tuple[int, Any, Any]]]) -> None:
        self.chains = chains
        self.asked: list[list[str]] = []

    def __call__(self, sentences: list[list[str]]) -> Any:
        self.asked = sentences
        names = ("sentence", "start_word", "end_word")
        chains = [
            SimpleNamespace(
                mentions=[SimpleNamespace(**dict(zip(names, m, strict=True))) for m in chain]
            )
            for chain in self.chains
        ]
        return SimpleNamespace(
            coref=chains, sentences=[SimpleNamespace(words=sentence) for sentence in sentences]
        )


def test_mentions_are_counted_from_the_document_s_start() -> None:
    pipeline = Pipeline(CHAINS)
    resolver = make_resolver("stanza", pipeline=pipeline)
    assert (resolver.name, resolver.causal) == ("stanza", False)
    assert resolve(resolver, DOCUMENT, "keep").document.mentions == EXPECTED
    assert pipeline.asked == [list(WORDS[:6]), list(WORDS[6:])]


def test_words_that_the_text_leaves_out_are_told(caplog: pytest.LogCaptureFixture) -> None:
    resolver = Stanza(pipeline=Pipeline([[(0, (1, 1), (1, 1)), (0, 0, 1)]]))
    with caplog.at_level(logging.WARNING):
        assert resolver.resolve(DOCUMENT) == [Mention(0, 1, 1)]
    assert "document d#0: 1 mentions of words that the text does not have" in caplog.text


def test_its_own_document_and_processor() -> None:
    """Stanza's tokenizer on given words, and its processor on a model that answers."""
    try:
        coref = importlib.import_module("stanza.pipeline.coref_processor")
        tokenize = importlib.import_module("stanza.pipeline.tokenize_processor")
        const = importlib.import_module("stanza.models.coref.const")
        document_module = importlib.import_module("stanza.models.common.doc")
    except ImportError:
        pytest.skip("needs stanza (pip install '.[stanza]')")

    class Model:
        def build_doc(self, document: dict[str, Any]) -> dict[str, Any]:
            assert tuple(document["cased_words"]) == WORDS
            assert document["sent_id"] == [0] * 6 + [1] * 3
            return document

        def run(self, document: dict[str, Any]) -> Any:
            return const.CorefResult(
                span_clusters=[[(0, 1), (2, 3), (6, 7)], [(2, 5)]],
                word_clusters=[[0, 2, 6], [4]],
            )  # fmt: skip

    class Coref(coref.CorefProcessor):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self._model = Model()
            self._use_zeros = True

    class Real:
        def __call__(self, sentences: list[list[str]]) -> Any:
            given = tokenize.TokenizeProcessor.process_pre_tokenized_text
            text, rows = given(None, sentences)
            return Coref().process(document_module.Document(rows, text))

    answer = resolve(Stanza(pipeline=Real()), DOCUMENT, "keep")
    assert answer.document.mentions == EXPECTED


def install(monkeypatch: pytest.MonkeyPatch, **modules: Any) -> None:
    """Modules that can be imported (None: that can't)."""
    real = base.import_module

    def import_module(name: str) -> Any:
        if name not in modules:
            return real(name)
        if modules[name] is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return modules[name]

    monkeypatch.setattr(base, "import_module", import_module)


@pytest.mark.parametrize("name", ["stanza", "peft"])
def test_not_installed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    found = {"stanza": ModuleType("stanza"), "peft": ModuleType("peft")}
    install(monkeypatch, **(found | {name: None}))
    message = rf"stanza needs {name}, .* pip install '\.\[stanza\]'"
    with pytest.raises(ResolverError, match=message):
        make_resolver("stanza")


def test_the_pipeline_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def pipeline(language: str, **options: Any) -> Pipeline:
        asked.update(options, language=language)
        if options.get("device") == "cuda":
            raise FileNotFoundError("resources.json")
        return Pipeline(CHAINS)

    install(monkeypatch, stanza=SimpleNamespace(Pipeline=pipeline), peft=ModuleType("peft"))
    resolver = make_resolver("stanza", package="gum_roberta-large-lora", folder="models")
    assert resolve(resolver, DOCUMENT, "keep").document.mentions == EXPECTED
    assert asked["language"] == "en"
    assert asked["processors"] == "tokenize,coref"
    assert asked["tokenize_pretokenized"] is True
    assert asked["download_method"] is None
    assert asked["package"] == {"coref": "gum_roberta-large-lora"}
    assert asked["model_dir"] == "models"
    message = r"no pipeline for en \(FileNotFoundError: resources.json\): python -c \"import stanza"
    with pytest.raises(ResolverError, match=message):
        make_resolver("stanza", device="cuda")
