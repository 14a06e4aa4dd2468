"""Step embeddings (section 4.1): vectors of words, mentions and entities."""

from __future__ import annotations

from entity_transformers.study.steps.base import DOCUMENTS, MODEL, TOKENS, Step

STEP = Step(
    name="embeddings",
    about="[4.1] vectors of words, mentions and entities",
    params=("embeddings", "similarity"),
    start=("cli.embeddings",),
    rules=("extract_embeddings",),
    reads={"corpus": (*DOCUMENTS, *TOKENS, "tokenizer.json"), "lm": MODEL},
    needs=frozenset({"encode"}),
    large=("words.safetensors", "mentions.safetensors"),
    target="words.safetensors",
)
