"""What the report shows of each step: where its numbers come from, and its tables and figures.

Objects are named, not imported (``module:name``), so that this list costs a Snakefile nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

HERE = "entity_transformers.report"


@dataclass(frozen=True)
class Shown:
    """One step in the report.

    title    heading of its section on the page
    measure  the function from its files to rows of measures.csv
    tables   builder of each table by the name of its file, in the order of the page
    figures  the same for figures
    own      its models are entries of the step's own section, not of section models
    """

    title: str
    measure: str = ""
    tables: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, str] = field(default_factory=dict)
    own: bool = False


CATALOGUE: dict[str, Shown] = {
    "corpus": Shown(
        "The text",
        f"{HERE}.corpus:measure",
        {
            "corpus": f"{HERE}.corpus:build_corpus",
            "entity_types": f"{HERE}.corpus:build_entity_types",
            "table1": f"{HERE}.corpus:build_example",
        },
    ),
    "passages": Shown("LAMBADA's target words", f"{HERE}.passages:measure"),
    "lm": Shown(
        "The models",
        f"{HERE}.lm:measure",
        {"models": f"{HERE}.lm:build_models"},
        {"figure2": f"{HERE}.curves:draw_training", "figure3": f"{HERE}.curves:draw_validation"},
    ),
    "perplexity": Shown(
        "Perplexity",
        f"{HERE}.perplexity:measure",
        {
            "table2": f"{HERE}.perplexity:build_table2",
            "controls": f"{HERE}.controls:build_controls",
            "perplexity_by_class": f"{HERE}.perplexity:build_classes",
        },
        {"perplexity_by_class": f"{HERE}.classes:draw_classes"},
    ),
    "lambada": Shown(
        "LAMBADA", f"{HERE}.lambada:measure", {"table3": f"{HERE}.lambada:build_table3"}
    ),
    "similarity": Shown(
        "Mentions and their entities",
        f"{HERE}.similarity:measure",
        {
            "table4": f"{HERE}.similarity:build_table4",
            "table4_ones": f"{HERE}.similarity:build_ones",
            "similarity_models": f"{HERE}.similarity:build_similarity_models",
        },
        {
            "embeddings_proposed": f"{HERE}.clouds:draw_proposed",
            "embeddings_baseline": f"{HERE}.clouds:draw_baseline",
            "embeddings_both": f"{HERE}.clouds:draw_both",
        },
    ),
    "probe": Shown(
        "Which heads find the antecedent",
        f"{HERE}.probe:measure",
        {"probe": f"{HERE}.probe:build_probe"},
        {"probe": f"{HERE}.heads:draw_heads"},
    ),
    "ner": Shown(
        "Named entities",
        f"{HERE}.ner:measure",
        {
            "table5": f"{HERE}.ner:build_table5",
            "table5_tags": f"{HERE}.ner:build_table5_tags",
            "ner_overall": f"{HERE}.ner:build_ner_overall",
        },
    ),
    "anomalies": Shown(
        "Anomalies of the paper",
        f"{HERE}.trials:measure",
        {"anomalies": f"{HERE}.anomalies:build_anomalies"},
        own=True,
    ),
    "recall": Shown(
        "What the memory can carry",
        f"{HERE}.recall:measure",
        {"recall": f"{HERE}.recall:build_recall"},
        own=True,
    ),
}
CLAIMS = "claims"


def list_tables(steps: Iterable[str]) -> dict[str, str]:
    """The builders of all tables of these steps by name, the claims first."""
    shown = {CLAIMS: f"{HERE}.claims:build_claims"}
    for step in steps:
        shown |= CATALOGUE[step].tables if step in CATALOGUE else {}
    return shown


def list_figures(steps: Iterable[str]) -> dict[str, str]:
    """The builders of all figures of these steps by name."""
    return {
        name: builder
        for step in steps
        if step in CATALOGUE
        for name, builder in CATALOGUE[step].figures.items()
    }
