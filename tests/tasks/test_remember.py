"""A text that is read and written on: what is predicted is what the model gives the whole text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny import lively_model
from tokenizers import Tokenizer

from entity_transformers.corpus.alignment import END, align_split, learn_tokenizer
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.labels import give
from entity_transformers.models.pointer.model import GPT2Pointer
from entity_transformers.resolve.layers import add_layer
from entity_transformers.resolve.names import Names
from entity_transformers.tasks.perplexity import score_corpus
from entity_transformers.tasks.remember import EntityReader

WORDS = (
    "Mr. Darcy saw Elizabeth Bennet at Netherfield . Elizabeth did not see Mr. Darcy . Jane Bennet"
    " was there too , and Darcy spoke to Jane . Elizabeth laughed ."
).split()
WINDOW = 48


def make_document(count: int = len(WORDS)) -> Document:
    spaces = [following not in ".," for following in [*WORDS[1:], "."]]
    return Document(
        "d", 0, "train", "", tuple(WORDS[:count]), (0,), space_after=tuple(spaces[:count])
    )


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return learn_tokenizer([make_document()] * 3, 290, "natural")


def make_reader(tokenizer: Tokenizer, document: Document) -> EntityReader:
    changes = {"window": WINDOW, "entity_lag": 24, "pointer_tokens": 12}
    model = lively_model("gpt2-pointer", vocabulary=tokenizer.get_vocab_size(), **changes)
    assert isinstance(model, GPT2Pointer)
    return EntityReader(model, tokenizer, Names(causal=True), document, WINDOW)


@pytest.mark.parametrize("read", [1, 14, 30])
def test_each_token_has_the_probability_that_the_model_gives_it_in_the_whole_text(
    tokenizer: Tokenizer, read: int
) -> None:
    """The rest of the text token by token, words that are not whole yet among them; the resolver is
    asked as words come, against the labels of the whole text.
    """
    document = make_document()
    reader = make_reader(tokenizer, make_document(read))
    corpus = align_split(
        [document], tokenizer, split="train", policy="outermost", spacing="natural"
    )
    corpus, _ = add_layer(corpus, [document], Names(causal=True), "outermost")
    reads = {"window": WINDOW, "stride": WINDOW, "batch": 1}
    nll = score_corpus(reader.model, give(corpus, "resolver:names-causal"), **reads)
    off = score_corpus(reader.model, give(corpus, "none"), **reads)
    expected, without = np.exp(-nll), np.exp(-off)
    for t in range(len(reader.inputs), len(corpus.tokens)):
        mixed, alone = reader.predict()
        assert float(mixed.sum()) == pytest.approx(1, abs=1e-5)
        assert float(mixed[corpus.tokens[t]]) == pytest.approx(expected[t], rel=1e-3)
        assert float(alone[corpus.tokens[t]]) == pytest.approx(without[t], rel=1e-3)
        reader.append(int(corpus.tokens[t]))
    assert np.abs(nll - off).max() > 0.1
    assert reader.document.words == document.words
    assert np.array_equal(reader.words, corpus.words[1:])


def test_who_is_known(tokenizer: Tokenizer) -> None:
    reader = make_reader(tokenizer, make_document())
    found = [(one.forms, one.mentions, one.ago) for one in reader.known()]
    assert found == [
        (("Elizabeth", "Elizabeth Bennet"), 3, 2),
        (("Jane", "Jane Bennet"), 2, 4),
        (("Darcy", "Mr. Darcy"), 3, 7),
        (("Netherfield",), 1, 23),
    ]
    assert any(one.held for one in reader.known())
    # the first mention has just been known, not yet for as long as the model's labels lag
    assert not any(one.held for one in make_reader(tokenizer, make_document(5)).known())


def test_guesses_are_the_likeliest(tokenizer: Tokenizer) -> None:
    reader = make_reader(tokenizer, make_document(9))
    mixed, alone = reader.predict()
    guesses = reader.guess(5)
    assert [one.p for one in guesses] == sorted(mixed.tolist(), reverse=True)[:5]
    places = [int((mixed == one.p).nonzero()[0]) for one in guesses]
    assert [one.text for one in guesses] == [tokenizer.decode([i]) for i in places]
    assert [one.alone for one in guesses] == [alone[i].item() for i in places]


def test_writing_on_is_drawn_by_the_seed_and_read(tokenizer: Tokenizer) -> None:
    one, same, other = (make_reader(tokenizer, make_document()) for _ in range(3))
    texts = [
        "".join(reader.write_on(30, seed)) for reader, seed in ((one, 1), (same, 1), (other, 2))
    ]
    assert texts[0] == texts[1] != texts[2]
    written = tokenizer.decode(one.inputs[1 + one.read :].tolist())
    assert written.startswith(texts[0])
    assert len(one.inputs) == len(one.words) + 1
    likeliest = make_reader(tokenizer, make_document())
    token = int(likeliest.predict()[0].argmax())
    assert next(iter(likeliest.write_on(1, 1, temperature=0)), "") in tokenizer.decode([token])


def test_the_end_of_a_document_ends_it(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = make_reader(tokenizer, make_document())
    only = torch.zeros(tokenizer.get_vocab_size())
    only[tokenizer.token_to_id(END)] = 1.0
    monkeypatch.setattr(reader, "predict", lambda: (only, only))
    assert list(reader.write_on(5, 1)) == []


def test_what_it_cannot_read_is_said(tokenizer: Tokenizer) -> None:
    model, document = make_reader(tokenizer, make_document(3)).model, make_document()
    with pytest.raises(ValueError, match="resolver names reads on before it decides"):
        EntityReader(model, tokenizer, Names(), document, 8)
    empty = replace(document, words=(), sentence_starts=(), space_after=())
    with pytest.raises(ValueError, match="d#0: no words to read"):
        EntityReader(model, tokenizer, Names(causal=True), empty, 8)
    plain = lively_model("gpt2")
    with pytest.raises(ValueError, match="has no entity pointer"):
        EntityReader(plain, tokenizer, Names(causal=True), document, 8)  # type: ignore[arg-type]
