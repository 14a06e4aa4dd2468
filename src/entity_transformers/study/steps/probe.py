"""Step probe (section 6): which attention heads point from a mention to its antecedent."""

from __future__ import annotations

from entity_transformers.study.steps.base import DOCUMENTS, MODEL, TOKENS, Step

STEP = Step(
    name="probe",
    about="[6] which attention heads point from a mention to an earlier one of its chain",
    params=("probe",),
    start=("cli.probe",),
    rules=("probe_attention",),
    reads={"corpus": (*DOCUMENTS, *TOKENS), "lm": MODEL},
    needs=frozenset({"attend"}),
    metrics=("probe.json",),
    kept=("heads.csv", "documents.csv"),
    target="probe.json",
)
