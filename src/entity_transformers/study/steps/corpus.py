"""Step corpus (section 4.2): text with coreference chains as tokens with entity ids."""

from __future__ import annotations

from entity_transformers.study.steps.base import DOCUMENTS, TOKENS, Step

STEP = Step(
    name="corpus",
    about="[4.2] text with coreference chains as tokens with entity ids",
    params=("corpus", "tokenizer"),
    start=("cli.corpus",),
    data=("corpus/checksums/*",),
    rules=("download_corpus", "prepare_corpus", "train_tokenizer", "align_corpus"),
    large=("source.json", *DOCUMENTS, *TOKENS, "tokenizer.json"),
    metrics=("statistics.json", "alignment.json"),
    target="alignment.json",
)
