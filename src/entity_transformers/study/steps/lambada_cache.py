"""Step lambada_cache (beyond the paper): how much of LAMBADA is got by repeating a passage's own
words, with no entities?
"""

from __future__ import annotations

from entity_transformers.study.steps.base import MODEL, Shown, Step

STEP = Step(
    name="lambada_cache",
    params=("perplexity.batch",),
    start=("cli.lambada_cache",),
    rules={
        "score_lambada_cache": "LAMBADA with a continuous cache of the passage's own tokens",
    },
    reads={
        "corpus": ("tokenizer.json",),
        "passages": ("lambada.jsonl",),
        "lm": MODEL,
        "cache": ("cache.json",),
    },
    needs=frozenset({"causal"}),
    metrics=("lambada_cache.json",),
    target="lambada_cache.json",
    shown=Shown(
        "A passage's own words",
        measure="report.lambada_cache:measure",
        tables={"lambada_cache": "report.lambada_cache:build_lambada_cache"},
    ),
)
