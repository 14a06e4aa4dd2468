"""Written documents with chains, their tokens, and tiny random models."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import GPT2Config, GPT2LMHeadModel

from entity_transformers.corpus.alignment import AlignedCorpus, align_split, learn_tokenizer
from entity_transformers.corpus.document import Document, Mention
from entity_transformers.models.gpt2e.model import GPT2EConfig, GPT2EForCausalLM

LEXICON = {
    "Ann": "NNP",
    "Bobby": "NNP",
    "harbour": "NN",
    "she": "PRP",
    "his": "PRP$",
    "the": "DT",
    "of": "IN",
    "old": "JJ",
    "ran": "VBD",
}
WINDOW = 24


def write_document(index: int, generator: np.random.Generator) -> Document:
    words = tuple(generator.choice(list(LEXICON), int(generator.integers(1, 60))).tolist())
    places = zip(
        generator.integers(0, len(words), 16).tolist(),
        generator.integers(1, 4, 16).tolist(),
        strict=True,
    )
    spans = {(start, min(len(words), start + length)) for start, length in places}
    mentions = tuple(
        Mention(s, e, int(generator.integers(3, 6)))
        for s, e in sorted(spans, key=lambda span: (span[0], -span[1]))
    )
    return Document(
        f"doc{index}", 0, "dev", "", words, (0,), mentions, tuple(LEXICON[word] for word in words)
    )


@pytest.fixture(scope="session")
def documents() -> list[Document]:
    generator = np.random.default_rng(11)
    return [write_document(i, generator) for i in range(14)]


@pytest.fixture(scope="session")
def tokenizer(documents: list[Document]) -> Tokenizer:
    return learn_tokenizer(documents, 400, "natural")


@pytest.fixture(scope="session")
def corpus(documents: list[Document], tokenizer: Tokenizer) -> AlignedCorpus:
    return align_split(documents, tokenizer, split="dev", policy="outermost", spacing="natural")


@pytest.fixture(scope="session")
def gpt2() -> torch.nn.Module:
    torch.manual_seed(3)
    shape = {
        "vocab_size": 400,
        "n_positions": WINDOW,
        "n_embd": 16,
        "n_layer": 2,
        "n_head": 2,
        "initializer_range": 0.3,
    }
    return GPT2LMHeadModel(GPT2Config(**shape, bos_token_id=0, eos_token_id=0)).eval()


@pytest.fixture(scope="session")
def gpt2e() -> torch.nn.Module:
    torch.manual_seed(3)
    shape = {
        "vocab_size": 400,
        "n_positions": WINDOW,
        "n_embd": 16,
        "n_layer": 2,
        "n_head": 2,
        "initializer_range": 0.3,
    }
    return GPT2EForCausalLM(GPT2EConfig(**shape, bos_token_id=0, eos_token_id=0)).eval()
