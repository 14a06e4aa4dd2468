"""A small random split and tiny random models whose entity attention matters."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.models.gpt2e.model import GPT2EConfig, GPT2EForCausalLM

VOCABULARY, WIDTH, POSITIONS = 50, 16, 12
LENGTHS = (31, 7, 1, 12, 25, 13, 2, 24)
TAGS = ("", "DT", "NN", "PRP", "VB")


def random_document(length: int, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """Columns of a document of ``length`` tokens: words of 1 to 3 tokens, mentions of 1 to 4
    tokens, up to 4 entities.
    """
    words = np.concatenate([[-1], np.repeat(np.arange(length), generator.integers(1, 4, length))])[
        :length
    ]
    entities, mentions = np.zeros(length, np.int32), np.full(length, -1, np.int32)
    place, count, numbers = 1, 0, {}
    while (place := place + int(generator.integers(0, 4))) < length:
        end = min(length, place + int(generator.integers(1, 5)))
        entities[place:end] = numbers.setdefault(int(generator.integers(4)), len(numbers) + 1)
        mentions[place:end] = count
        place, count = end, count + 1
    tokens = generator.integers(1, VOCABULARY, length)
    tokens[0] = 0
    tags = np.concatenate([[0], generator.integers(0, len(TAGS), length)])[
        np.maximum(words, -1) + 1
    ]
    sizes = generator.integers(1, 6, length)
    sizes[0] = 0
    return {
        "tokens": tokens,
        "entities": entities,
        "mentions": mentions,
        "words": words,
        "tags": tags,
        "bytes": sizes,
    }


@pytest.fixture(scope="session")
def corpus() -> AlignedCorpus:
    generator = np.random.default_rng(5)
    documents = [random_document(length, generator) for length in LENGTHS]
    kinds = {"tags": np.uint8, "bytes": np.uint16}
    columns = {
        name: np.concatenate([d[name] for d in documents]).astype(kinds.get(name, np.int32))
        for name in documents[0]
    }
    offsets = np.cumsum([0, *LENGTHS], dtype=np.int64)
    return AlignedCorpus(
        "dev", tuple(f"doc#{d}" for d in range(len(LENGTHS))), TAGS, offsets=offsets, **columns
    )


def _build(kind: str, **switches: str) -> torch.nn.Module:
    shape = {
        "vocab_size": VOCABULARY,
        "n_positions": POSITIONS,
        "n_embd": WIDTH,
        "n_layer": 2,
        "n_head": 2,
        "initializer_range": 0.3,
    }
    torch.manual_seed(3)
    if kind == "gpt2":
        return GPT2LMHeadModel(GPT2Config(**shape, bos_token_id=0, eos_token_id=0)).eval()
    return GPT2EForCausalLM(GPT2EConfig(**shape, bos_token_id=0, eos_token_id=0, **switches)).eval()


@pytest.fixture(scope="session")
def gpt2() -> torch.nn.Module:
    return _build("gpt2")


@pytest.fixture(scope="session", params=["hidden-last", "both-mean"])
def gpt2e(request: pytest.FixtureRequest) -> torch.nn.Module:
    values, write = request.param.split("-")
    return _build("gpt2e", entity_values=values, memory_write=write)
