"""Step calibration (beyond the paper): are the probabilities of a model as large as it is often
right?
"""

from __future__ import annotations

from entity_transformers.study.steps.base import MODEL, TOKENS, Shown, Step

STEP = Step(
    name="calibration",
    params=("perplexity",),
    start=("cli.calibration",),
    rules={
        "score_calibration": "accuracy, entropy and calibration of the next token on the corpus",
    },
    reads={"corpus": TOKENS, "lm": MODEL},
    needs=frozenset({"causal"}),
    metrics=("calibration.json",),
    target="calibration.json",
    shown=Shown(
        "Calibration",
        measure="report.calibration:measure",
        tables={
            "calibration": "report.calibration:build_calibration",
        },
    ),
)
