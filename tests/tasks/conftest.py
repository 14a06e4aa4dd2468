"""A small random split and tiny random models whose entity attention matters."""

import pytest
from mixed import VOCABULARY, WINDOW, mixed_corpus
from tiny import lively_model

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.models.base import LanguageModel


@pytest.fixture(scope="session")
def corpus() -> AlignedCorpus:
    return mixed_corpus()


@pytest.fixture(scope="session")
def gpt2() -> LanguageModel:
    return lively_model("gpt2", VOCABULARY, window=WINDOW)


@pytest.fixture(scope="session", params=["hidden-last", "both-mean"])
def gpt2e(request: pytest.FixtureRequest) -> LanguageModel:
    values, write = request.param.split("-")
    return lively_model(
        "gpt2e", VOCABULARY, window=WINDOW, entity_values=values, memory_write=write
    )
