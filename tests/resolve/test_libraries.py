"""Coreferee and Stanza behind stubs of their APIs."""

import sys
from collections import namedtuple
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import spacy
from spacy.tokens import Doc, Token
from written import document_of

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.resolve.base import ResolverError, resolve
from entity_transformers.resolve.libraries import Coreferee, Stanza
from entity_transformers.resolve.registry import make_resolver

KING = "The old king met Ada and Bob . They greeted him .".split()
TAGS = "DET ADJ NOUN VERB PROPN CCONJ PROPN PUNCT PRON VERB PRON PUNCT".split()
HEADS = [2, 2, 3, 3, 3, 6, 4, 3, 9, 9, 9, 9]
DEPS = "det amod nsubj ROOT dobj cc conj punct nsubj ROOT dobj punct".split()
GREETED = document_of(KING, sentence_starts=(0, 8))
KINGS = ([[2], [10]], [[4, 6], [8]])  # heads of each chain's mentions
GREETERS = (Mention(0, 3, 1), Mention(4, 7, 2), Mention(8, 9, 2), Mention(10, 11, 1))

ADA = ("Ada", "met", "her", "old", "friend", ".", "She", "smiled", ".")
MET = document_of(ADA, sentence_starts=(0, 6))
CHAINS = ([(0, 0, 1), (0, 2, 3), (1, 0, 1)], [(0, 2, 5)])  # sentence, first word, after the last
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


def fail(*given: Any, **named: Any) -> Any:
    raise RuntimeError("out of memory")


def test_coreferee_s_heads_become_noun_chunks_and_coordinations() -> None:
    pipeline = Spacy(attach)
    resolver = Coreferee(pipeline)
    assert (resolver.name, resolver.causal) == ("coreferee", False)
    assert resolve(resolver, GREETED, None).mentions == GREETERS
    assert [token.text for token in pipeline.asked[0]] == KING
    assert [token.i for token in pipeline.asked[0] if token.is_sent_start] == [0, 8]


Place = namedtuple("Place", ("sentence", "start_word", "end_word"))


class Pipeline:
    """Returns Stanza's chains on the sentences that it is given."""

    def __init__(self, chains: Sequence[Sequence[tuple[int, Any, Any]]]) -> None:
        self.chains = [SimpleNamespace(mentions=[Place(*m) for m in chain]) for chain in chains]
        self.asked: list[list[str]] = []

    def __call__(self, sentences: list[list[str]]) -> Any:
        self.asked = sentences
        found = [SimpleNamespace(words=words) for words in sentences]
        return SimpleNamespace(coref=self.chains, sentences=found)


def test_stanza_s_mentions_are_counted_from_the_document_s_start(caplog):
    pipeline = Pipeline(CHAINS)
    resolver = Stanza(pipeline)
    assert (resolver.name, resolver.causal) == ("stanza", False)
    assert resolve(resolver, MET, None).mentions == FRIENDS
    assert pipeline.asked == [list(ADA[:6]), list(ADA[6:])]
    left_out = Stanza(pipeline=Pipeline([[(0, (1, 1), (1, 1)), (0, 0, 1)]]))
    assert left_out.resolve(MET) == [Mention(0, 1, 1)]
    assert "document d#0: left out 1 mentions of words that are not in the text" in caplog.text


@pytest.mark.parametrize(("resolver", "document", "message"), [
    (Coreferee(Spacy(fail)), GREETED, "coreferee, document d#0: RuntimeError: out of"),
    (Stanza(fail), MET, "document d#0: RuntimeError: out of memory"),
    (Stanza(fail), replace(MET, words=("word",) * 20_001), "20001 words, at most 20000"),
])  # fmt: skip
def test_a_failure_is_not_an_empty_answer(resolver: Any, document: Document, message: str) -> None:
    with pytest.raises(ResolverError, match=message):
        resolver.resolve(document)


def test_a_pipeline_without_its_model_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("peft", "coreferee", "stanza"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(Pipeline=fail))
    with pytest.raises(ResolverError, match=r"stanza: RuntimeError: .*: python -c \"import stanza"):
        make_resolver("stanza")
    monkeypatch.setattr(spacy, "load", fail)
    told = r"coreferee: RuntimeError: .*: python -m spacy download en_core_web_lg"
    with pytest.raises(ResolverError, match=told):
        make_resolver("coreferee")
