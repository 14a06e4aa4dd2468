"""Step embeddings (section 4.1): vectors of words, mentions and entities."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from entity_transformers.corpus.document import Split
from entity_transformers.study.sections import Section, Size
from entity_transformers.study.steps.base import DOCUMENTS, MODEL, TOKENS, Step


class EmbeddingsParams(Section):
    """Word and mention representations (section 4.1)."""

    splits: Annotated[
        tuple[Split, ...], Field(min_length=1, description="splits whose mentions are compared")
    ]
    ner_context: Annotated[
        Literal["word", "sentence", "document"],
        Field(description="text around a word when its NER vector is made; word: none, the paper"),
    ]
    pooling: Annotated[
        Literal["last", "first", "mean"],
        Field(description="token or mean of tokens that stands for a word"),
    ]
    batch: Annotated[Size, Field(description="words, sentences or documents of one forward pass")]


STEP = Step(
    name="embeddings",
    params=("embeddings", "similarity"),
    start=("cli.embeddings",),
    rules={
        "extract_embeddings": "[4.1] vectors of words, mentions and entities",
    },
    reads={"corpus": (*DOCUMENTS, *TOKENS, "tokenizer.json"), "lm": MODEL},
    needs=frozenset({"encode"}),
    large=("words.safetensors", "mentions.safetensors"),
    target="words.safetensors",
)
