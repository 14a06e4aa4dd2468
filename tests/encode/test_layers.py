"""Vectors of words and mentions of a bidirectional model, against readings of one window alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny import lively_model
from torch import Tensor
from written import join_parts, write_documents

from entity_transformers.corpus.alignment import AlignedCorpus, align_split, learn_tokenizer
from entity_transformers.corpus.document import Document
from entity_transformers.encode import embed_mentions, embed_splits
from entity_transformers.encode.mentions import find_heads
from entity_transformers.models.elmo import ELMo

GROUPS = {"nouns": ["NN", "NNP"], "pronouns": ["PRP", "PRP$"]}
WINDOW, WIDTH, LAYERS = 16, 16, 2


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return write_documents(7, longest=39, mentions=9)


@pytest.fixture(scope="module")
def tokenizer(documents):
    return learn_tokenizer(documents, 300, "natural")


@pytest.fixture(scope="module")
def corpus(documents, tokenizer) -> AlignedCorpus:
    return align_split(documents, tokenizer, split="dev", policy="outermost", spacing="natural")


@pytest.fixture(scope="module", params=["elmo", "taglm"])
def model(request: pytest.FixtureRequest, tokenizer) -> ELMo:
    found = lively_model(request.param, tokenizer.get_vocab_size(), window=WINDOW)
    assert isinstance(found, ELMo)
    return found


@torch.no_grad()
def read_plainly(model: ELMo, ids: list[int]) -> Tensor:
    """Layers [n, L + 1, 2 W] of tokens that are read alone: torch's LSTMs over all of them, and
    over all of them turned round.
    """
    network = model.module
    embedded = network.embeddings(torch.tensor([ids]))
    halves = []
    for half in (network.forward_half, network.backward_half):
        outputs = [embedded if half is network.forward_half else embedded.flip(1)]
        for i, layer in enumerate(half.layers):
            read, _ = layer(outputs[-1])
            outputs.append(read + outputs[-1] if i else read)
        halves.append(torch.stack(outputs, dim=2)[0])
    return torch.cat([halves[0], halves[1].flip(0)], dim=-1)


def check(
    found: dict[str, np.ndarray], model: ELMo, rows: np.ndarray, expected: list[Tensor]
) -> None:
    """The arrays that a tagger reads, against the layers [L + 1, 2 W] of each word."""
    layers = torch.stack(expected).numpy()
    wanted = {"vectors": layers}
    if model.kind.name == "taglm":
        wanted = {"vectors": layers[:, 0, :WIDTH], "later": layers[:, -1]}
    assert {"vectors", "later"} & found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].dtype == np.float16
        assert found[name][rows].shape == array.shape
        np.testing.assert_allclose(found[name][rows], array, rtol=2e-3, atol=2e-3)


def embed(model: ELMo, documents, corpus, tokenizer, context: str) -> dict[str, np.ndarray]:
    arrays = join_parts(
        embed_splits(
            model.encoder(layers=True),
            {"dev": (documents, corpus)},
            tokenizer,
            context=context,  # type: ignore[arg-type]
            window=WINDOW,
            pooling="last",
            batch=4,
        )
    )
    return arrays | model.split_layers(arrays["vectors"])


def test_words_alone_are_read_one_at_a_time(model, documents, corpus, tokenizer) -> None:
    found = embed(model, documents, corpus, tokenizer, "word")
    words = [word for document in documents for word in document.words]
    expected = [read_plainly(model, tokenizer.encode(f" {word}").ids)[-1] for word in words]
    check(found, model, found["dev"], expected)


@pytest.mark.parametrize("context", ["sentence", "document"])
def test_words_in_context_are_read_one_sentence_or_window_at_a_time(
    model, documents, corpus, tokenizer, context: str
) -> None:
    """Those side by side are of different lengths: none sees the padding."""
    expected = []
    for d, document in enumerate(documents):
        part = corpus.document(d)
        tokens, words = corpus.tokens[part], corpus.words[part]
        spans = [range(-1, len(document.words))]
        if context == "sentence":
            spans = list(document.sentences())
        for span in spans:
            inside = np.flatnonzero((words >= span.start) & (words < span.stop))
            chunks = [inside[i : i + WINDOW] for i in range(0, len(inside), WINDOW)]
            layers = torch.cat([read_plainly(model, tokens[chunk].tolist()) for chunk in chunks])
            expected += [layers[words[inside] == word][-1] for word in span if word >= 0]
    found = embed(model, documents, corpus, tokenizer, context)
    check(found, model, found["dev"], expected)


def test_mentions_have_the_top_of_both_halves(model, documents, corpus, tokenizer) -> None:
    """The forward half goes on from window to window of a document, the backward half does not."""
    how = {"window": WINDOW, "pooling": "last", "batch": 3}
    arrays = embed_mentions(model.encoder(), documents, corpus, tokenizer, GROUPS, **how)
    heads, expected = find_heads(corpus, GROUPS), []
    for d, word in zip(heads.document, heads.word, strict=True):
        part = corpus.document(d)
        tokens = corpus.tokens[part].tolist()
        ahead = read_plainly(model, tokens)[:, -1, :WIDTH]
        back = torch.cat(
            [
                read_plainly(model, tokens[i : i + WINDOW])[:, -1, WIDTH:]
                for i in range(0, len(tokens), WINDOW)
            ]
        )
        place = np.flatnonzero(corpus.words[part] == word)[-1]
        expected.append(torch.cat([ahead[place], back[place]]).numpy())
    assert len(expected) > 10
    for name in ("context_on", "context_off"):
        np.testing.assert_allclose(arrays[name], np.stack(expected), rtol=2e-3, atol=2e-3)
    words = [documents[d].words[w] for d, w in zip(heads.document, heads.word, strict=True)]
    ids = [tokenizer.encode(f" {word}").ids for word in words]
    alone = np.stack([read_plainly(model, one)[-1, -1].numpy() for one in ids])
    np.testing.assert_allclose(arrays["word_on"], alone, rtol=2e-3, atol=2e-3)
    assert arrays["memory_on"].shape[1] == 2 * WIDTH
