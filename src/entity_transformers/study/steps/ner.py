"""Step ner (sections 4.1 and 5, table 5): a tagger on frozen word vectors."""

from __future__ import annotations

from entity_transformers.study.steps.base import Step

STEP = Step(
    name="ner",
    about="[4.1, 5, table 5] a BiLSTM-CRF tagger on the frozen vectors",
    params=("ner", "embeddings"),
    start=("cli.ner",),
    rules=("train_ner", "score_ner"),
    reads={
        "corpus": ("train.jsonl", "dev.jsonl", "test.jsonl"),
        "embeddings": ("words.safetensors",),
    },
    needs=frozenset({"encode"}),
    large=("tagger.safetensors",),
    metrics=("metrics.json",),
    kept=("documents.csv",),
    plots={"history.csv": ("epoch", "dev_f1")},
    target="metrics.json",
)
