"""Static vectors against a model that gives each token its vector, where words are tokens."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from written import LEXICON, join_parts, write_documents

from entity_transformers.corpus.alignment import align_split, learn_tokenizer
from entity_transformers.encode import mentions, words
from entity_transformers.kinds import KINDS
from entity_transformers.models.base import Batch, LanguageModel, State
from entity_transformers.models.static.vectors import WordVectors

GROUPS = {"nouns": ["NN", "NNP"], "pronouns": ["PRP", "PRP$"]}
HOW: dict[str, Any] = {"window": 16, "batch": 3}
DOCUMENTS = write_documents(9, longest=60, mentions=12)
TOKENIZER = learn_tokenizer(DOCUMENTS * 5, 500, "every_word")
CORPUS = align_split(DOCUMENTS, TOKENIZER, split="dev", policy="outermost", spacing="every_word")


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
def bag() -> Bag:
    bag = Bag(TOKENIZER.get_vocab_size(), 7)
    for word in LEXICON:  # the first word of a document has no space before it
        (spaced,), first = TOKENIZER.encode(f" {word}").ids, TOKENIZER.encode(word).ids
        bag.module.weight.data[first] = bag.module.weight.data[spaced].clone()
    return bag


@pytest.fixture(scope="module")
def vectors(bag: Bag) -> WordVectors:
    ids = [TOKENIZER.encode(f" {word}").ids[0] for word in LEXICON]
    counts = np.ones(len(LEXICON), np.int64)
    return WordVectors(tuple(LEXICON), counts, bag.module.weight.detach().numpy()[ids])


def test_mentions_have_the_vectors_of_their_head_words(bag: Bag, vectors: WordVectors) -> None:
    assert len(CORPUS.tokens) == CORPUS.highest(CORPUS.words + 1).sum() + 9  # one token per word
    expected = mentions.embed_mentions(bag, DOCUMENTS, CORPUS, TOKENIZER, GROUPS, **HOW)
    found = mentions.embed_static_mentions(vectors, DOCUMENTS, CORPUS, GROUPS)
    assert list(found) == list(expected)
    np.testing.assert_equal(found, expected)
    assert [one.dtype for one in found.values()] == [one.dtype for one in expected.values()]
    assert len(found["entity"]) > 20
    assert len(found["memory_off"]) > 10


def test_words_have_their_vectors_in_every_split(bag: Bag, vectors: WordVectors) -> None:
    splits = {"dev": DOCUMENTS[:5], "test": DOCUMENTS[5:]}
    pairs = {split: (part, CORPUS) for split, part in splits.items()}
    expected = join_parts(words.embed_splits(bag, pairs, TOKENIZER, context="word", **HOW))
    parts = words.embed_vocabulary(splits, lambda some: vectors.look_up(some).astype(np.float16))
    found = join_parts(parts)
    assert found.keys() == expected.keys() == {"vectors", "dev", "test"}
    np.testing.assert_equal(found, expected)
    assert {n: a.dtype for n, a in found.items()} == {n: a.dtype for n, a in expected.items()}
