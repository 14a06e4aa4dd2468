"""The appendix's pictures of mention vectors, drawn from the coordinates of pictures.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from entity_transformers.report.colours import INK, PALETTE
from entity_transformers.report.pictures import Cloud
from entity_transformers.report.results import Results, write_label

PROPOSED, BASELINE, BOTH = "embeddings_proposed", "embeddings_baseline", "embeddings_both"
CLOUDS = {PROPOSED: ("proposed",), BASELINE: ("baseline",), BOTH: ("proposed", "baseline")}  # roles
MARKERS = ("o", "^")


def draw_proposed(results: Results) -> Figure | None:
    """Mentions in the space of the proposed model."""
    return draw_cloud(results, PROPOSED)


def draw_baseline(results: Results) -> Figure | None:
    """The same mentions in the space of the baseline."""
    return draw_cloud(results, BASELINE)


def draw_both(results: Results) -> Figure | None:
    """Both models' vectors in one projection."""
    return draw_cloud(results, BOTH)


def draw_cloud(results: Results, name: str) -> Figure | None:
    """Mentions of the most-mentioned entities by PCA and by t-SNE; None where there are no
    coordinates.
    """
    cloud = results.pictures.clouds.get(name)
    if cloud is None:
        return None
    cloud = replace(cloud, names=number_names(cloud.names))
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    panels = figure.subplots(1, len(cloud.places))
    for axes, (title, places) in zip(panels, cloud.places.items(), strict=True):
        _draw_points(axes, title, cloud, places)
    figure.legend(
        handles=_legend(results, cloud),
        loc="outside lower center",
        ncols=4,
        fontsize=8.5,
        handletextpad=0.3,
    )
    return figure


def number_names(names: Sequence[str]) -> tuple[str, ...]:
    """``names`` with those of several entities numbered: I (1), I (2)."""
    seen: Counter[str] = Counter()
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(f"{name} ({seen[name]})" if names.count(name) > 1 else name)
    return tuple(numbered)


def _draw_points(axes: Axes, title: str, cloud: Cloud, places: np.ndarray) -> None:
    entities, owners = np.array(cloud.entity), np.array(cloud.model)
    for entity, name in enumerate(cloud.names):
        for model in range(len(cloud.models)):
            at = (entities == entity) & (owners == model)
            axes.scatter(
                places[at, 0],
                places[at, 1],
                s=26,
                color=PALETTE[entity % len(PALETTE)],
                marker=MARKERS[model],
                alpha=0.75,
                linewidths=0.4,
                edgecolors="white",
                label=name if len(cloud.models) == 1 else f"{name}, {cloud.models[model]}",
            )
    axes.set(title=title, xticks=[], yticks=[])
    axes.grid(visible=False)
    axes.spines[["top", "right"]].set_visible(True)


def _legend(results: Results, cloud: Cloud) -> list[Line2D]:
    labels = {entry.name: write_label(entry) for entry in results.entries}
    dots: list[Line2D] = [
        Line2D([], [], color=PALETTE[i % len(PALETTE)], marker="s", linestyle="", label=name)
        for i, name in enumerate(cloud.names)
    ]
    if len(cloud.models) > 1:
        dots += [
            Line2D([], [], color=INK, marker=MARKERS[i], linestyle="", label=labels.get(name, name))
            for i, name in enumerate(cloud.models)
        ]
    return dots
