"""Step setlm (beyond the paper): entity decisions by SetLM (Kunz and Hardmeier, 2019) beside a
trained model: is the next token in a mention, and of which entity?
"""

from __future__ import annotations

from entity_transformers.study.steps.base import MODEL, TOKENS, Shown, Step

STEP = Step(
    name="setlm",
    params=("setlm",),
    start=("cli.decisions",),
    rules={"score_setlm": "entity decisions token by token, without latent variables"},
    reads={"corpus": TOKENS, "lm": MODEL},
    needs=frozenset({"causal"}),
    metrics=("setlm.json",),
    target="setlm.json",
    shown=Shown(
        "Entity decisions, token by token",
        measure="report.decisions:measure_setlm",
        tables={
            "setlm": "report.decisions:build_setlm",
            "setlm_decided": "report.decisions:build_decided",
        },
    ),
)
