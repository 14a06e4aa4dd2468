"""Step lambada (section 5, table 3): nats of whole passages and of their last words."""

from __future__ import annotations

from entity_transformers.study.steps.base import MODEL, Shown, Step

STEP = Step(
    name="lambada",
    params=("lambada", "perplexity"),
    start=("cli.lambada",),
    rules={
        "score_lambada": "[5, table 3] perplexity and accuracy on LAMBADA",
    },
    reads={"corpus": ("tokenizer.json",), "passages": ("lambada.jsonl",), "lm": MODEL},
    needs=frozenset({"causal"}),
    metrics=("lambada.json",),
    kept=("passages.csv",),
    target="lambada.json",
    shown=Shown(
        "Last words of passages",
        measure="report.lambada:measure",
        tables={
            "table3": "report.lambada:build_table3",
        },
    ),
)
