"""Word analogies and word similarity of static vectors."""

from __future__ import annotations

from entity_transformers.report.pivot import Measure, Pivot, cross, found, models

TITLE, STEP = "Words alone", "analogies"
TABLES = (
    Pivot(
        name=STEP,
        title="Words alone: analogies and similarity",
        step=STEP,
        rows=(models(),),
        columns=(
            *(
                Measure(heading, measure, 1, percent=True, place={"group": group})
                for group in ("meaning", "grammar")
                for heading, measure in (
                    (f"Analogies, {group}", "analogies"),
                    ("of them known", "analogies_known"),
                )
            ),
            cross(
                found("list", "List", measure="word_similarity"),
                (
                    Measure(", Spearman", "word_similarity", 3),
                    Measure(": pairs known", "word_similarity_known", 1, percent=True),
                ),
                STEP,
                "{0}{1}",
            ),
        ),
        measures=(
            "Right answers to a is to b as c is to what, and the rank correlation of cosines with"
            " what people said of the similarity of two words."
        ),
        note=(
            "Questions of Mikolov et al. (2013), pairs of WordSim-353 and SimLex-999; only those"
            " whose words are all known count, so that rows with other shares of known ones do not"
            " compare. Capitals are ignored."
        ),
    ),
)
