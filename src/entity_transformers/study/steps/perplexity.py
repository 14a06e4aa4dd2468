"""Step perplexity (section 5, table 2): nats per token, entities on, off and shuffled."""

from __future__ import annotations

from entity_transformers.study.steps.base import MODEL, TOKENS, Step

STEP = Step(
    name="perplexity",
    about="[5, table 2] perplexity on the corpus, entities on, off and shuffled",
    params=("perplexity", "similarity"),
    start=("cli.perplexity",),
    rules=("score_perplexity",),
    reads={"corpus": TOKENS, "lm": MODEL},
    needs=frozenset({"causal"}),
    metrics=("perplexity.json",),
    kept=("documents.csv",),
    target="perplexity.json",
)
