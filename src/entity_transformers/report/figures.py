"""All figures of the report, and how one becomes a PNG."""

from __future__ import annotations

import io

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from entity_transformers.report.catalogue import find, list_figures
from entity_transformers.report.colours import DPI, STYLE
from entity_transformers.report.results import Results

CAPTIONS = {
    "figure2": (
        "Figure 2: training loss, the mean in nats per token since the previous point, with"
        " dropout on."
    ),
    "figure3": (
        "Figure 3: validation loss in nats per token; dashed: the same model without entities."
    ),
    "perplexity_by_class": (
        "Perplexity of the tokens outside mentions, in an entity's first mention and in later ones."
    ),
    "embeddings_proposed": (
        "Appendix: mentions of the most-mentioned entities in GPT2E's space: head words in their"
        " document, entities given."
    ),
    "embeddings_baseline": "Appendix: the same mentions in GPT2's space.",
    "embeddings_both": (
        "Appendix: both models' vectors in one projection (unit length, each model's mean removed)."
    ),
    "recall": (
        "Synthetic recall: the share of facts answered beyond the window that stated them, one"
        " point per seed; dashed: chance."
    ),
    "probe": (
        "How often each head attends most to an earlier mention of the chain, in %; white: as often"
        " as the nearest earlier mention is one, blue: more often, orange: less; framed: the head"
        " chosen on the other split."
    ),
}


def build_all(results: Results) -> dict[str, Figure]:
    """Every figure that the results allow, by name, in the order of the report."""
    with matplotlib.rc_context(STYLE):
        drawn = {name: find(draw)(results) for name, draw in list_figures(results.shown).items()}
    return {name: figure for name, figure in drawn.items() if figure is not None}


def render_png(figure: Figure) -> bytes:
    """The figure as PNG; equal figures give equal bytes (no date, no version inside)."""
    file = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        FigureCanvasAgg(figure).print_figure(
            file, format="png", dpi=DPI, metadata={"Software": None}
        )
    return file.getvalue()
