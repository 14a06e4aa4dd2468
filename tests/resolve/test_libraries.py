"""Coreferee and Stanza behind stubs of their APIs, and with their own classes where they are
installed.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import spacy
from spacy.tokens import Doc, Token

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.resolve import base
from entity_transformers.resolve.base import ResolverError, resolve
from entity_transformers.resolve.libraries import Coreferee, Stanza
from entity_transformers.resolve.registry import make_resolver

KING = "The old king met Ada and Bob . They greeted him .".split()
TAGS = "DET ADJ NOUN VERB PROPN CCONJ PROPN PUNCT PRON VERB PRON PUNCT".split()
HEADS = [2, 2, 3, 3, 3, 6, 4, 3, 9, 9, 9, 9]
DEPS = "det amod nsubj ROOT dobj cc conj punct nsubj ROOT dobj punct".split()
GREETED = Document("d", 0, "train", "", tuple(KING), (0, 8))
KINGS = ([[2], [10]], [[4, 6], [8]])  # heads of each chain's mentions
GREETERS = (Mention(0, 3, 1), Mention(4, 7, 2), Mention(8, 9, 2), Mention(10, 11, 1))

ADA = ("Ada", "met", "her", "old", "friend", ".", "She", "smiled", ".")
MET = Document("d", 0, "train", "", ADA, (0, 6))
CHAINS = (
    [(0, 0, 1), (0, 2, 3), (1, 0, 1)],
    [(0, 2, 5)],
)  # sentence, first word, word after the last
FRIENDS = (Mention(0, 1, 1), Mention(2, 5, 2), Mention(2, 3, 1), Mention(6, 7, 1))


class Spacy:
    """A pipeline that parses as above and has a component coreferee, which ``annotate``s."""

    def __init__(self, annotate: Any) -> None:
        self.vocab = spacy.blank("en").vocab
        self.component = SimpleNamespace(annotator=SimpleNamespace(annotate=annotate))
        self.asked: list[Doc] = []

    def __call__(self, doc: Doc, disable: Sequence[str] = ()) -> Doc:
        assert list(disable) == ["coreferee"]  # it would swallow its errors
        self.asked.append(doc)
        return Doc(self.vocab, [t.text for t in doc], pos=TAGS, heads=HEADS, deps=DEPS)

    def get_pipe(self, name: str) -> Any:
        assert name == "coreferee"
        return self.component


@pytest.fixture(autouse=True)
def _extension() -> None:
    """What coreferee's import does."""
    for kind in (Doc, Token):
        if not kind.has_extension("coref_chains"):
            kind.set_extension("coref_chains", default=None)


def attach(doc: Doc) -> Doc:
    doc._.coref_chains = [[SimpleNamespace(token_indexes=h) for h in chain] for chain in KINGS]
    return doc


def fail(*given: Any) -> Any:
    raise RuntimeError("out of memory")


def test_coreferee_s_heads_become_noun_chunks_and_coordinations() -> None:
    pipeline = Spacy(attach)
    resolver = make_resolver("coreferee", pipeline=pipeline)
    assert (resolver.name, resolver.causal) == ("coreferee", False)
    assert resolve(resolver, GREETED, "refuse").document.mentions == GREETERS
    assert [token.text for token in pipeline.asked[0]] == KING
    assert [token.i for token in pipeline.asked[0] if token.is_sent_start] == [0, 8]


def test_coreferee_s_own_classes() -> None:
    model = pytest.importorskip("coreferee.data_model", reason="needs '.[coreferee]'")

    def annotate(doc: Doc) -> Doc:
        holder = model.ChainHolder()
        for number, chain in enumerate(KINGS):
            mentions = []
            for heads in chain:
                token, others = doc[heads[0]], [doc[i] for i in heads[1:]]
                token._.coref_chains = SimpleNamespace(temp_dependent_siblings=others)
                mentions.append(model.Mention(token, include_dependent_siblings=True))
            holder.chains.append(model.Chain(mentions, 0))
            holder.chains[-1].index = number
        doc._.coref_chains = holder
        return doc

    resolver = Coreferee(pipeline=Spacy(annotate))
    assert resolve(resolver, GREETED, "refuse").document.mentions == GREETERS
    manager = importlib.import_module("coreferee.manager")
    assert "annotator" in manager.CorefereeBroker.__init__.__code__.co_names


class Pipeline:
    """Returns Stanza's chains on the sentences that it is given."""

    def __init__(self, chains: Sequence[Sequence[tuple[int, Any, Any]]]) -> None:
        names = ("sentence", "start_word", "end_word")
        self.chains = [
            SimpleNamespace(
                mentions=[SimpleNamespace(**dict(zip(names, m, strict=True))) for m in c]
            )
            for c in chains
        ]
        self.asked: list[list[str]] = []

    def __call__(self, sentences: list[list[str]]) -> Any:
        self.asked = sentences
        return SimpleNamespace(
            coref=self.chains, sentences=[SimpleNamespace(words=words) for words in sentences]
        )


def test_stanza_s_mentions_are_counted_from_the_document_s_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pipeline = Pipeline(CHAINS)
    resolver = make_resolver("stanza", pipeline=pipeline)
    assert (resolver.name, resolver.causal) == ("stanza", False)
    assert resolve(resolver, MET, "keep").document.mentions == FRIENDS
    assert pipeline.asked == [list(ADA[:6]), list(ADA[6:])]
    with caplog.at_level(logging.WARNING):
        left_out = Stanza(pipeline=Pipeline([[(0, (1, 1), (1, 1)), (0, 0, 1)]]))
        assert left_out.resolve(MET) == [Mention(0, 1, 1)]
    assert "document d#0: 1 mentions of words that the text does not have" in caplog.text


def test_stanza_s_own_document_and_processor() -> None:
    """Stanza's tokenizer on given words, and its processor on a model that answers."""
    coref: Any = pytest.importorskip("stanza.pipeline.coref_processor", reason="needs '.[stanza]'")
    tokenize = importlib.import_module("stanza.pipeline.tokenize_processor")
    const = importlib.import_module("stanza.models.coref.const")
    documents = importlib.import_module("stanza.models.common.doc")

    class Model:
        def build_doc(self, document: dict[str, Any]) -> dict[str, Any]:
            assert tuple(document["cased_words"]) == ADA
            assert document["sent_id"] == [0] * 6 + [1] * 3
            return document

        def run(self, document: dict[str, Any]) -> Any:
            spans, words = [[(0, 1), (2, 3), (6, 7)], [(2, 5)]], [[0, 2, 6], [4]]
            return const.CorefResult(span_clusters=spans, word_clusters=words)

    class Coref(coref.CorefProcessor):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self._model = Model()
            self._use_zeros = True

    def read(sentences: list[list[str]]) -> Any:
        text, rows = tokenize.TokenizeProcessor.process_pre_tokenized_text(None, sentences)
        return Coref().process(documents.Document(rows, text))

    assert resolve(Stanza(pipeline=read), MET, "keep").document.mentions == FRIENDS


class Splitting(Spacy):
    def __call__(self, doc: Doc, disable: Sequence[str] = ()) -> Doc:
        return Doc(self.vocab, [*(t.text for t in doc), "!"])


def split_words(sentences: list[list[str]]) -> Any:
    return Pipeline([])([[word] for sentence in sentences for word in sentence])


@pytest.mark.parametrize(
    ("resolver", "document", "message"),
    [
        (Coreferee(pipeline=Spacy(fail)), GREETED, "coreferee, document d#0: RuntimeError: out of"),
        (Coreferee(pipeline=Splitting(fail)), GREETED, "document d#0: 13 tokens for 12 words"),
        (Stanza(pipeline=fail), MET, "document d#0: RuntimeError: out of memory"),
        (
            Stanza(pipeline=split_words),
            MET,
            "9 words in 9 sentences, expected 9 in 2: .*tokenize_p",
        ),
        (Stanza(pipeline=fail, longest=8), MET, r"document d#0: 9 words, at most 8: .* chapter"),
    ],
)
def test_a_failure_is_not_an_empty_answer(resolver: Any, document: Document, message: str) -> None:
    with pytest.raises(ResolverError, match=message):
        resolver.resolve(document)


def install(monkeypatch: pytest.MonkeyPatch, **modules: Any) -> None:
    """Modules that can be imported (None: that can't)."""
    real = base.import_module

    def import_module(name: str) -> Any:
        if name in modules and modules[name] is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return modules[name] if name in modules else real(name)

    monkeypatch.setattr(base, "import_module", import_module)


@pytest.mark.parametrize(
    ("resolver", "name"), [("stanza", "stanza"), ("stanza", "peft"), ("coreferee", "coreferee")]
)
def test_not_installed(monkeypatch: pytest.MonkeyPatch, resolver: str, name: str) -> None:
    found = {module: ModuleType(module) for module in ("stanza", "peft", "coreferee")}
    install(monkeypatch, **(found | {name: None}))
    with pytest.raises(ResolverError, match=rf"{resolver} needs {name}, .* '\.\[{resolver}\]'"):
        make_resolver(resolver)


def test_the_pipeline_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def pipeline(language: str, **options: Any) -> Pipeline:
        asked.update(options, language=language)
        if options.get("device") == "cuda":
            raise FileNotFoundError("resources.json")
        return Pipeline(CHAINS)

    found = {"peft": ModuleType("peft"), "coreferee": ModuleType("coreferee")}
    install(monkeypatch, stanza=SimpleNamespace(Pipeline=pipeline), **found)
    resolver = make_resolver("stanza", package="gum_roberta-large-lora", folder="models")
    assert resolve(resolver, MET, "keep").document.mentions == FRIENDS
    assert asked | {"language": "en", "processors": "tokenize,coref"} == asked
    assert (asked["tokenize_pretokenized"], asked["download_method"]) == (True, None)
    assert asked["package"] == {"coref": "gum_roberta-large-lora"}
    assert asked["model_dir"] == "models"
    message = r"no pipeline for en \(FileNotFoundError: resources.json\): python -c \"import stanza"
    with pytest.raises(ResolverError, match=message):
        make_resolver("stanza", device="cuda")
    with pytest.raises(ResolverError, match=r"no_such can't be loaded .* spacy download no_such"):
        make_resolver("coreferee", model="no_such")
    monkeypatch.setattr(spacy, "load", lambda model: SimpleNamespace(add_pipe=fail))
    with pytest.raises(
        ResolverError, match=r"no model for en_x \(.*\): python -m coreferee install"
    ):
        make_resolver("coreferee", model="en_x")
