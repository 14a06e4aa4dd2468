"""A figure as SVG for the page: its colours follow the page's theme, and each of its points has a
text that is shown where one points.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.collections import QuadMesh
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from entity_transformers.report.colours import EDGE, GRID, INK, PALETTE, STYLE

Mark = tuple[float, float, str]
THEMED = {INK: "--ink", GRID: "--line", EDGE: "--soft"} | {
    colour: f"--c{i}" for i, colour in enumerate(PALETTE)
}
"""What of a figure's colours the page has another value for in the dark."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure on the page.

    svg    an <svg> element
    marks  of each point that it shows: how far it is from the left and from the top, as parts of
           the picture, and what to say of it
    """

    svg: str
    marks: tuple[Mark, ...]


def draw(figure: Figure, name: str) -> Drawing:
    """The figure as a `Drawing`; equal figures give equal texts. ``name`` keeps its ids apart from
    those of the page's other figures.
    """
    file = io.StringIO()
    how = STYLE | {"svg.hashsalt": name, "svg.fonttype": "none"}
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with matplotlib.rc_context(how):
        FigureCanvasSVG(figure).print_svg(file, metadata=nothing)
    return Drawing(_clean(file.getvalue(), name), tuple(_list_marks(figure)))


def _clean(text: str, name: str) -> str:
    """The <svg> element alone, with the ids that something refers to, and the theme's colours."""
    svg = text[text.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    head, end, body = svg.partition(">")
    box = re.search(r' viewBox="[^"]*"', head)
    svg = "<svg" + (box[0] if box else "") + end + body
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', svg))

    def rename(found: re.Match[str]) -> str:
        return f' id="{name}-{found[1]}"' if found[1] in used else ""

    svg = re.sub(r' id="([^"]*)"', rename, svg)
    svg = re.sub(r'(url\(|href=")#', rf"\1#{name}-", svg)
    svg = svg.replace("<svg", '<svg aria-hidden="true"', 1)
    svg = re.sub(r"(?<=fill: )#ffffff", "none", svg)
    for colour, variable in THEMED.items():
        svg = svg.replace(colour, f"var({variable})")
    return svg


def _list_marks(figure: Figure) -> Iterator[Mark]:
    """Of a figure that was drawn, so that its places are known."""
    for axes in figure.axes:
        for x, y, text in _read_points(axes):
            across, up = figure.transFigure.inverted().transform(axes.transData.transform((x, y)))
            if np.isfinite([across, up]).all():
                yield round(float(across), 4), round(float(1 - up), 4), text


def _read_points(axes: Axes) -> Iterator[tuple[float, float, str]]:
    """Places in the axes' own units, and texts, of all points that have a name."""
    for name, x, y in _list_series(axes):
        for one, other in zip(x, y, strict=True):
            yield one, other, _describe(axes, name, one, other)
    for cells in axes.collections:
        values: Any = cells.get_array() if isinstance(cells, QuadMesh) else np.empty((0, 0))
        for (row, column), value in np.ndenumerate(values):
            text = f"{axes.get_title(loc='left')}, layer {row + 1}, head {column + 1}: "
            yield column + 1, row + 1, " ".join(text.split()) + f" {_write(value)}%"


def _list_series(axes: Axes) -> Iterator[tuple[str, Iterable[float], Iterable[float]]]:
    for line in axes.get_lines():
        name = str(line.get_label())
        x, y = (np.asarray(values, float).ravel() for values in line.get_data())
        ruled = line.get_transform() != axes.transData  # from edge to edge, at one value
        if not name.startswith("_") and not ruled:
            yield name, x.tolist(), y.tolist()
    for points in axes.collections:
        name = str(points.get_label())
        offsets: Any = points.get_offsets()
        if not name.startswith("_") and len(offsets):
            yield name, *np.asarray(offsets, float).T.tolist()
    for container in axes.containers:
        if isinstance(container, ErrorbarContainer):
            x, y = (np.asarray(v, float).tolist() for v in container.lines[0].get_data())
            yield str(container.get_label()), x, y


def _describe(axes: Axes, name: str, x: float, y: float) -> str:
    """The name, and the values of the axes that have one."""
    values = [
        f"{label[0].lower() + label[1:]} {_write(value)}"
        for label, value in ((axes.get_xlabel(), x), (axes.get_ylabel(), y))
        if label
    ]
    return ": ".join(part for part in (name, ", ".join(values)) if part)


def _write(value: float) -> str:
    text = f"{value:,.0f}" if abs(value) >= 1000 or float(value).is_integer() else f"{value:.4g}"
    return text.replace("-", "−")
