"""Static vectors against a model that gives each token its vector, where words are tokens."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from written import LEXICON, join_parts, write_documents

from entity_transformers.corpus.alignment import AlignedCorpus, align_split, learn_tokenizer
from entity_transformers.corpus.document import Document
from entity_transformers.encode import mentions, words
from entity_transformers.encode.static import embed_mentions, embed_splits
from entity_transformers.kinds import KINDS
from entity_transformers.models.base import Batch, LanguageModel, State
from entity_transformers.models.static.vectors import WordVectors

GROUPS = {"nouns": ["NN", "NNP"], "pronouns": ["PRP", "PRP$"]}
HOW: dict[str, Any] = {"window": 16, "batch": 3}


class Bag(LanguageModel):
    kind = KINDS["gpt2"]
    context = 16
    module: nn.Embedding

    def __init__(self, vocabulary: int, width: int) -> None:
        torch.manual_seed(5)
        self.module, self.width = nn.Embedding(vocabulary, width).eval(), width

    def start(self, rows: int, entities: int = 0) -> State:
        return State()

    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        return self.module(batch.tokens), state

    @property
    def output_weight(self) -> Tensor:
        return self.module.weight

    def save(self, folder: Path) -> None:
        raise NotImplementedError


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return write_documents(9, longest=60, mentions=12)


@pytest.fixture(scope="module")
def tokenizer(documents: list[Document]) -> Tokenizer:
    return learn_tokenizer(documents * 5, 500, "every_word")


@pytest.fixture(scope="module")
def corpus(documents: list[Document], tokenizer: Tokenizer) -> AlignedCorpus:
    how = {"split": "dev", "policy": "outermost", "spacing": "every_word"}
    aligned = align_split(documents, tokenizer, **how)
    count = sum(len(document.words) for document in documents)
    assert len(aligned.tokens) == count + len(documents)  # one token per word
    return aligned


@pytest.fixture(scope="module")
def bag(tokenizer: Tokenizer) -> Bag:
    bag = Bag(tokenizer.get_vocab_size(), 7)
    for word in LEXICON:  # the first word of a document has no space before it
        (spaced,), first = tokenizer.encode(f" {word}").ids, tokenizer.encode(word).ids
        bag.module.weight.data[first] = bag.module.weight.data[spaced].clone()
    return bag


@pytest.fixture(scope="module")
def vectors(bag: Bag, tokenizer: Tokenizer) -> WordVectors:
    ids = [tokenizer.encode(f" {word}").ids[0] for word in LEXICON]
    counts = np.ones(len(LEXICON), np.int64)
    return WordVectors(tuple(LEXICON), counts, bag.module.weight.detach().numpy()[ids])


def test_mentions_have_the_vectors_of_their_head_words(documents, corpus, tokenizer, bag, vectors):
    expected = mentions.embed_mentions(bag, documents, corpus, tokenizer, GROUPS, **HOW)
    found = embed_mentions(vectors, documents, corpus, GROUPS)
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    assert len(found["entity"]) > 20
    assert len(found["memory_off"]) > 10


def test_words_have_their_vectors_in_every_split(documents, corpus, tokenizer, bag, vectors):
    splits = {"dev": documents[:5], "test": documents[5:]}
    pairs = {split: (part, corpus) for split, part in splits.items()}
    expected = join_parts(words.embed_splits(bag, pairs, tokenizer, context="word", **HOW))
    found = join_parts(embed_splits(vectors, splits))
    assert found.keys() == expected.keys() == {"vectors", "dev", "test"}
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
