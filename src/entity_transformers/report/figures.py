"""All figures of the report, and how one becomes a PNG."""

from __future__ import annotations

import io

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from entity_transformers.report.catalogue import find, list_figures
from entity_transformers.report.colours import DPI, STYLE
from entity_transformers.report.results import Results


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
