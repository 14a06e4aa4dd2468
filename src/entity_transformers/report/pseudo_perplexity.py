"""Pseudo-perplexity: what models of hidden tokens think of the text, apart from all causal ones."""

from __future__ import annotations

from entity_transformers.report.perplexity import CLASSES
from entity_transformers.report.pivot import Measure, Pivot, entities, found, models

TITLE, STEP = "Pseudo-perplexity", "pseudo_perplexity"
TABLES = (
    Pivot(
        name=STEP,
        title="Pseudo-perplexity of the models that predict hidden tokens",
        step=STEP,
        where={"measure": "pseudo_perplexity"},
        rows=(found("split", "Split"), models(), entities()),
        columns=(
            Measure("Pseudo-PPL"),
            Measure("Nats per hidden token", "pseudo_loss", 4),
            *(Measure(f"Pseudo-PPL, {CLASSES[one]}", place={"class": one}) for one in CLASSES),
            Measure("Tokens", shows="count"),
            Measure("Documents", "documents", 0, place={"entities": ""}),
        ),
        measures=(
            "How well each token is predicted from all others of its window, later ones included:"
            " each is hidden in its turn (Salazar et al., 2020)."
        ),
        note=(
            "This is no perplexity: the product of these probabilities is not a probability of the"
            " text, and they know what follows. It cannot be compared with tables 2 and 3, only"
            " between models of hidden tokens with one encoder and the same windows. Entities on:"
            " the labels of the hidden token are given too."
        ),
    ),
)
