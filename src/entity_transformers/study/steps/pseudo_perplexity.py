"""Step pseudo_perplexity (beyond the paper): what models of hidden tokens think of a text, each
token hidden in its turn.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from entity_transformers.corpus.document import Split
from entity_transformers.study.sections import PositiveInt, Section, Size
from entity_transformers.study.steps.base import MODEL, TOKENS, Shown, Step


class PseudoPerplexityParams(Section):
    """Pseudo-perplexity of masked language models (Salazar et al., 2020)."""

    splits: Annotated[
        tuple[Split, ...],
        Field(min_length=1, description="splits to score; one without documents is an error"),
    ]
    documents: Annotated[
        PositiveInt | None,
        Field(
            description=(
                "first documents of each split that are scored, since each token takes a forward"
                " pass over its window; null: all"
            )
        ),
    ]
    batch: Annotated[
        Size, Field(description="hidden tokens, each in a window of its own, of one forward pass")
    ]


STEP = Step(
    name="pseudo_perplexity",
    params=("pseudo_perplexity",),
    start=("cli.pseudo_perplexity",),
    rules={
        "score_pseudo_perplexity": "pseudo-perplexity: each token hidden, from both sides",
    },
    reads={"corpus": TOKENS, "lm": MODEL},
    needs=frozenset({"masked"}),
    metrics=("pseudo_perplexity.json",),
    kept=("documents.csv",),
    target="pseudo_perplexity.json",
    shown=Shown(
        "Pseudo-perplexity",
        measure="report.pseudo_perplexity:measure",
        tables={
            "pseudo_perplexity": "report.pseudo_perplexity:build_pseudo_perplexity",
        },
    ),
)
