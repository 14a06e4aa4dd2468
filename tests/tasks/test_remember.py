"""A text that is read and written on: what is predicted is what step memory scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny import lively_model
from tokenizers import Tokenizer

from entity_transformers.corpus.alignment import align_split, learn_tokenizer
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.encoding import END
from entity_transformers.corpus.labels import give
from entity_transformers.models.pointer.lm import GPT2Pointer
from entity_transformers.resolve.layers import add_layer
from entity_transformers.resolve.names import Names
from entity_transformers.tasks.memory.entity_reader import EntityReader
from entity_transformers.tasks.memory.entries import POLICIES
from entity_transformers.tasks.memory.pointer import Pointer
from entity_transformers.tasks.memory.remember import RememberingReader, TrainedPointer
from entity_transformers.tasks.memory.training import predict_tokens, read_texts
from entity_transformers.tasks.perplexity import score_corpus

WORDS = (
    "Mr. Darcy saw Elizabeth Bennet at Netherfield . Elizabeth did not see Mr. Darcy . Jane Bennet"
    " was there too , and Darcy spoke to Jane . Elizabeth laughed ."
).split()
WINDOW = 160


def make_document(count: int = len(WORDS)) -> Document:
    spaces = [following not in ".," for following in [*WORDS[1:], "."]]
    return Document(
        "d", 0, "train", "", tuple(WORDS[:count]), (0,), space_after=tuple(spaces[:count])
    )


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return learn_tokenizer([make_document()] * 3, 290, "natural")


def make_pointer(width: int, policy: str, size: int) -> TrainedPointer:
    torch.manual_seed(0)
    pointer = Pointer(width, 4)
    for parameter in pointer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    arrays = {name: tensor.numpy() for name, tensor in pointer.state_dict().items()}
    facts = {"policy": policy, "size": size, "forms": 2, "window": WINDOW}
    return TrainedPointer.of(arrays, facts)


def make_reader(
    tokenizer: Tokenizer, document: Document, policy: str = "half-entities", size: int = 12
) -> RememberingReader:
    model = lively_model("gpt2", vocabulary=tokenizer.get_vocab_size(), window=WINDOW)
    pointer = make_pointer(model.width, policy, size)
    return RememberingReader(model, pointer, tokenizer, Names(causal=True), document)


@pytest.mark.parametrize("policy", ["recent", "half-entities", "surface"])
@pytest.mark.parametrize("read", [1, 9, 14])
def test_each_token_has_the_probability_that_step_memory_gives(
    tokenizer: Tokenizer, policy: str, read: int
) -> None:
    """The rest of the text token by token, words that are not whole yet among them."""
    document = make_document()
    reader = make_reader(tokenizer, make_document(read), policy)
    corpus = align_split(
        [document], tokenizer, split="train", policy="outermost", spacing="natural"
    )
    corpus, _ = add_layer(corpus, [document], Names(causal=True), "outermost")
    (text,) = read_texts(reader.model, corpus, "resolver:names-causal", window=WINDOW)
    memory = POLICIES[policy](text, 12, 2, 0)
    expected = predict_tokens(reader.trained.pointer, text, memory, 0).exp().detach().numpy()
    for t in range(len(reader.words), len(text.tokens)):
        mixed, alone = reader.predict()
        assert mixed.sum().item() == pytest.approx(1, abs=1e-5)
        token = int(text.tokens[t])
        # states are kept in half precision, whose last bit may differ
        assert mixed[token].item() == pytest.approx(expected[t], rel=1e-3, abs=1e-5)
        assert alone[token].item() == pytest.approx(float(text.plain[t].exp()), rel=1e-4)
        reader.append(token)
    assert reader.document.words == document.words
    assert np.array_equal(reader.words, text.words)
    assert reader.mentions == list(text.mentions)


def test_who_is_known(tokenizer: Tokenizer) -> None:
    reader = make_reader(tokenizer, make_document())
    found = [(one.forms, one.mentions, one.ago, one.held) for one in reader.known()]
    assert found == [
        (("Elizabeth", "Elizabeth Bennet"), 3, 2, True),
        (("Jane", "Jane Bennet"), 2, 4, True),
        (("Darcy", "Mr. Darcy"), 3, 7, True),
        (("Netherfield",), 1, 23, False),
    ]
    assert not any(one.held for one in make_reader(tokenizer, make_document(), "recent").known())


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
    assert len(one.states) + 1 == len(one.inputs) == len(one.words) + 1
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
    reader = make_reader(tokenizer, make_document(3))
    how = (reader.model, reader.trained, tokenizer)
    with pytest.raises(ValueError, match="resolver names reads on before it decides"):
        RememberingReader(*how, Names(), make_document())
    empty = replace(make_document(), words=(), sentence_starts=(), space_after=())
    with pytest.raises(ValueError, match="d#0: no words to read"):
        RememberingReader(*how, Names(causal=True), empty)


def make_entity_reader(tokenizer: Tokenizer, document: Document) -> EntityReader:
    changes = {"window": 48, "entity_lag": 24, "pointer_tokens": 12}
    model = lively_model("gpt2-pointer", vocabulary=tokenizer.get_vocab_size(), **changes)
    assert isinstance(model, GPT2Pointer)
    return EntityReader(model, tokenizer, Names(causal=True), document, 48)


@pytest.mark.parametrize("read", [1, 30])
def test_a_model_with_its_own_pointer_predicts_what_it_gives_to_the_whole_text(
    tokenizer: Tokenizer, read: int
) -> None:
    """Token by token, the resolver asked as words come, against the labels of the whole text."""
    document = make_document()
    reader = make_entity_reader(tokenizer, make_document(read))
    corpus = align_split(
        [document], tokenizer, split="train", policy="outermost", spacing="natural"
    )
    corpus, _ = add_layer(corpus, [document], Names(causal=True), "outermost")
    given = give(corpus, "resolver:names-causal")
    nll = score_corpus(reader.model, given, window=48, stride=48, batch=1)
    off = score_corpus(reader.model, give(corpus, "none"), window=48, stride=48, batch=1)
    expected, without = np.exp(-nll), np.exp(-off)
    for t in range(len(reader.inputs), len(corpus.tokens)):
        mixed, alone = reader.predict()
        assert float(mixed.sum()) == pytest.approx(1, abs=1e-5)
        assert float(mixed[corpus.tokens[t]]) == pytest.approx(expected[t], rel=1e-3)
        assert float(alone[corpus.tokens[t]]) == pytest.approx(without[t], rel=1e-3)
        reader.append(int(corpus.tokens[t]))
    assert np.abs(nll - off).max() > 0.1
    assert any(one.held for one in reader.known())
    assert len(list(reader.write_on(3, seed=1))) <= 3


def test_a_model_without_a_pointer_is_refused(tokenizer: Tokenizer) -> None:
    model = lively_model("gpt2-pointer", entity_output="none")
    with pytest.raises(ValueError, match="has no entity pointer"):
        EntityReader(model, tokenizer, Names(causal=True), make_document(), 8)
