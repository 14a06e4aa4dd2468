"""Coreferee behind stubs of its API, and with its own classes where it is installed."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import spacy
from spacy.tokens import Doc, Token

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.resolve import base
from entity_transformers.resolve.base import ResolverError, resolve
from entity_transformers.resolve.coreferee import Coreferee
from entity_transformers.resolve.registry import make_resolver

WORDS = "The old king met Ada and Bob . They greeted him .".split()
TAGS = "DET ADJ NOUN VERB PROPN CCONJ PROPN PUNCT PRON VERB PRON PUNCT".split()
HEADS = [2, 2, 3, 3, 3, 6, 4, 3, 9, 9, 9, 9]
DEPS = "det amod nsubj ROOT dobj cc conj punct nsubj ROOT dobj punct".split()
DOCUMENT = Document("d", 0, "train", "", tuple(WORDS), (0, 8))
CHAINS = ([[2], [10]], [[4, 6], [8]])
"""Heads of each chain's mentions."""


class Annotator:
    """Attaches the chains; each is a list of mentions with ``token_indexes``, as coreferee's."""

    def __init__(self, chains: Any) -> None:
        self.chains = chains

    def annotate(self, doc: Doc) -> Doc:
        doc._.coref_chains = self.chains
        return doc


class Pipeline:
    """A pipeline that parses as above and has a component coreferee."""

    def __init__(self, annotator: Any) -> None:
        self.vocab = spacy.blank("en").vocab
        self.component = SimpleNamespace(annotator=annotator)
        self.asked: list[Doc] = []

    def __call__(self, doc: Doc, disable: Sequence[str] = ()) -> Doc:
        assert list(disable) == ["coreferee"]  # it would swallow its errors
        self.asked.append(doc)
        return Doc(self.vocab, [t.text for t in doc], pos=TAGS, heads=HEADS, deps=DEPS)

    def get_pipe(self, name: str) -> Any:
        assert name == "coreferee"
        return self.component


@pytest.fixture(autouse=True)
def extension() -> None:
    """What coreferee's import does."""
    for kind in (Doc, Token):
        if not kind.has_extension("coref_chains"):
            kind.set_extension("coref_chains", default=None)


def stubs(chains: Any) -> list[Any]:
    return [[SimpleNamespace(token_indexes=heads) for heads in chain] for chain in chains]


EXPECTED = (Mention(0, 3, 1), Mention(4, 7, 2), Mention(8, 9, 2), Mention(10, 11, 1))


def test_heads_become_noun_chunks_and_coordinations() -> None:
    pipeline = Pipeline(Annotator(stubs(CHAINS)))
    resolver = make_resolver("coreferee", pipeline=pipeline)
    assert (resolver.name, resolver.causal) == ("coreferee", False)
    assert resolve(resolver, DOCUMENT, "refuse").document.mentions == EXPECTED
    asked = pipeline.asked[0]
    assert [token.text for token in asked] == WORDS
    assert [token.i for token in asked if token.is_sent_start] == [0, 8]


def test_its_own_classes() -> None:
    try:
        model = importlib.import_module("coreferee.data_model")
    except ImportError:
        pytest.skip("needs coreferee (pip install '.[coreferee]')")

    class Real(Annotator):
        def annotate(self, doc: Doc) -> Doc:
            holder = model.ChainHolder()
            for number, chain in enumerate(self.chains):
                mentions = []
                for heads in chain:
                    token = doc[heads[0]]
                    token._.coref_chains = SimpleNamespace(
                        temp_dependent_siblings=[doc[i] for i in heads[1:]]
                    )
                    mentions.append(model.Mention(token, include_dependent_siblings=True))
                holder.chains.append(model.Chain(mentions, 0))
                holder.chains[-1].index = number
            doc._.coref_chains = holder
            return doc

    resolver = Coreferee(pipeline=Pipeline(Real(CHAINS)))
    assert resolve(resolver, DOCUMENT, "refuse").document.mentions == EXPECTED
    manager = importlib.import_module("coreferee.manager")
    assert "annotator" in manager.CorefereeBroker.__init__.__code__.co_names


def test_other_tokens_are_refused() -> None:
    class Splitting(Pipeline):
        def __call__(self, doc: Doc, disable: Sequence[str] = ()) -> Doc:
            return Doc(self.vocab, [*(t.text for t in doc), "!"])

    with pytest.raises(ResolverError, match="document d#0: 13 tokens for 12 words"):
        Coreferee(pipeline=Splitting(Annotator([]))).resolve(DOCUMENT)


def test_no_pipeline_or_model(monkeypatch: pytest.MonkeyPatch) -> None:
    real = base.import_module
    library = ModuleType("coreferee")
    monkeypatch.setattr(
        base, "import_module", lambda name: library if name == "coreferee" else real(name)
    )
    with pytest.raises(ResolverError, match=r"no_such can't be loaded .* spacy download no_such"):
        make_resolver("coreferee", model="no_such")

    def refuse(name: str) -> None:
        raise ValueError("unsupported")

    monkeypatch.setattr(spacy, "load", lambda model: SimpleNamespace(add_pipe=refuse))
    message = r"no model for en_x \(unsupported\): python -m coreferee install en"
    with pytest.raises(ResolverError, match=message):
        make_resolver("coreferee", model="en_x")
