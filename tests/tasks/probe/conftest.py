"""Written documents with chains, their tokens, and tiny random models."""

from __future__ import annotations

import pytest
from tiny import lively_model
from tokenizers import Tokenizer
from written import write_documents

from entity_transformers.corpus.alignment import AlignedCorpus, align_split, learn_tokenizer
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.labels import give
from entity_transformers.models.base import LanguageModel


@pytest.fixture(scope="session")
def documents() -> list[Document]:
    return write_documents(14, longest=59, mentions=16, longest_mention=3)


@pytest.fixture(scope="session")
def tokenizer(documents: list[Document]) -> Tokenizer:
    return learn_tokenizer(documents, 400, "natural")


@pytest.fixture(scope="session")
def corpus(documents: list[Document], tokenizer: Tokenizer) -> AlignedCorpus:
    """The documents' tokens, with gold labels to read."""
    aligned = align_split(documents, tokenizer, split="dev", policy="outermost", spacing="natural")
    return give(aligned, "gold")


@pytest.fixture(scope="session")
def gpt2(tokenizer: Tokenizer) -> LanguageModel:
    return lively_model("gpt2", tokenizer.get_vocab_size(), window=24)


@pytest.fixture(scope="session")
def gpt2e(tokenizer: Tokenizer) -> LanguageModel:
    return lively_model("gpt2e", tokenizer.get_vocab_size(), window=24)
