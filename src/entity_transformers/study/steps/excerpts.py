"""Step excerpts (beyond the paper): a few documents token by token, for the report's browser."""

from __future__ import annotations

from entity_transformers.study.steps.base import MODEL, TOKENS, Shown, Step

STEP = Step(
    name="excerpts",
    params=("perplexity",),
    start=("cli.excerpts",),
    rules={
        "score_excerpts": "the loss of each token of a few documents, and where memory was read",
    },
    reads={"corpus": TOKENS, "lm": MODEL},
    needs=frozenset({"causal"}),
    large=("excerpts.safetensors",),
    target="excerpts.safetensors",
    shown=Shown("Documents, token by token"),
)
