"""The figures: loss curves (figures 2 and 3), perplexity by class, the appendix's pictures of
mention vectors.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from entity_transformers.report.lm_tables import CLASSES, scored_splits
from entity_transformers.report.probe import draw_heads
from entity_transformers.report.results import (
    MentionVectors,
    Results,
    name_model,
    read_class,
    uses_entities,
)

COLOURS = {  # GPT2E blue and GPT2 orange as in the paper
    "gpt2e": "#1f6fb4",
    "gpt2": "#ee7d0e",
    "gpt2e-unlabelled": "#2a9d6f",
    "gpt2e-shuffled": "#c2559d",
    "gpt2e-first-only": "#5bb5d8",
    "gpt2-matched": "#8a6a4a",
}
ENTITY_COLOURS = (
    "#1f6fb4",
    "#ee7d0e",
    "#2a9d6f",
    "#c2559d",
    "#8a6a4a",
    "#d7c12b",
    "#5bb5d8",
    "#6a51a3",
    "#b2332f",
    "#7f7f7f",
)
INK, GRID = "#333333", "#e4e4e4"
STYLE: Any = {
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelcolor": INK,
    "axes.edgecolor": "#9a9a9a",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "figure.facecolor": "white",
}
DPI = 150
MENTIONS_PER_ENTITY = 60
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
    "embeddings_gpt2e": (
        "Appendix: mentions of the most-mentioned entities in GPT2E's space: head words in their"
        " document, entities given."
    ),
    "embeddings_gpt2": "Appendix: the same mentions in GPT2's space.",
    "embeddings_both": (
        "Appendix: both models' vectors in one projection (unit length, each model's mean removed)."
    ),
    "probe": (
        "How often each head attends most to an earlier mention of the chain, in %; white: as often"
        " as the nearest earlier mention is one, blue: more often, orange: less; framed: the head"
        " chosen on the other split."
    ),
}


def build_all(results: Results) -> dict[str, Figure]:
    """Every figure that the results allow, by name, in the order of the report."""
    builders: dict[str, Callable[[Results], Figure | None]] = {
        "figure2": draw_training,
        "figure3": draw_validation,
        "perplexity_by_class": draw_classes,
        "embeddings_gpt2e": lambda r: draw_mentions(r, ("gpt2e",)),
        "embeddings_gpt2": lambda r: draw_mentions(r, ("gpt2",)),
        "embeddings_both": lambda r: draw_mentions(r, ("gpt2e", "gpt2")),
        "probe": draw_heads,
    }
    with matplotlib.rc_context(STYLE):
        drawn = {name: build(results) for name, build in builders.items()}
    return {name: figure for name, figure in drawn.items() if figure is not None}


def draw_nothing(name: str) -> Figure:
    """A placeholder for a figure that the results do not allow, so that every study has the same
    files.
    """
    figure = Figure(figsize=(6, 1.2))
    figure.text(
        0.5,
        0.5,
        f"{name}: nothing to draw in this study",
        ha="center",
        va="center",
        fontsize=9,
        color="#666666",
    )
    return figure


def render_png(figure: Figure) -> bytes:
    """The figure as PNG; equal figures give equal bytes (no date, no version inside)."""
    file = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        FigureCanvasAgg(figure).print_figure(
            file, format="png", dpi=DPI, metadata={"Software": None}
        )
    return file.getvalue()


def draw_training(results: Results) -> Figure | None:
    """Figure 2: training loss over steps, one line a model (mean over seeds)."""
    lines = [
        (name_model(model), model, "-", _curves(results, model, "train_loss"))
        for model in results.trained
    ]
    return _draw_curves(lines, "Training loss")


def draw_validation(results: Results) -> Figure | None:
    """Figure 3: validation loss over steps; dashed: GPT2E without entities."""
    lines = [
        (name_model(model), model, "-", _curves(results, model, "dev_loss_on"))
        for model in results.trained
    ]
    lines += [("GPT2E, entities off", "gpt2e", "--", _curves(results, "gpt2e", "dev_loss_off"))]
    return _draw_curves(lines, "Validation loss")


Curve = tuple[np.ndarray, np.ndarray]
Line = tuple[str, str, str, "Curve | None"]


def _curves(results: Results, model: str, column: str) -> Curve | None:
    """Steps [points] that all seeds have, and the losses [seeds, points] there."""
    series = []
    for run in results.of(model):
        if column in run.curve:
            known = ~np.isnan(run.curve[column])
            series.append(
                dict(
                    zip(
                        run.curve["step"][known].tolist(),
                        run.curve[column][known].tolist(),
                        strict=True,
                    )
                )
            )
    steps = sorted(set.intersection(*map(set, series))) if series else []
    return (
        (np.array(steps), np.array([[one[step] for step in steps] for one in series]))
        if steps
        else None
    )


def _draw_curves(lines: Sequence[Line], title: str) -> Figure | None:
    """The whole run on the left and, where it has enough points, its last half on the right, where
    the lines are named.
    """
    known = [
        (label, model, dash, curve) for label, model, dash, curve in lines if curve is not None
    ]
    if not known:
        return None
    points = max(len(steps) for *_, (steps, _) in known)
    halves = points >= 6
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    panels = figure.subplots(1, 2 if halves else 1, squeeze=False)[0]
    panels[0].set_title(title)
    for axes, half in zip(panels, (False, True), strict=False):
        ends = [
            _draw_curve(axes, label, model, dash, curve, half)
            for label, model, dash, curve in known
        ]
        axes.margins(x=0.01)
        axes.set_xlabel("Step")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.locator_params(axis="x", nbins=6)
    if halves:
        panels[1].set_title("The last half")
    panels[0].set_ylabel("Nats per token")
    _label_ends(panels[-1], ends)
    return figure


def _draw_curve(
    axes: Axes, label: str, model: str, dash: str, curve: Curve, half: bool
) -> tuple[str, str, float]:
    """One line, GPT2E's and GPT2's with the range of their seeds; returns its name, colour and last
    height.
    """
    steps, losses = curve
    kept = steps >= steps[-1] / 2 if half else np.ones(len(steps), bool)
    steps, losses, colour = steps[kept], losses[:, kept], COLOURS.get(model, INK)
    front, marker = 3 if model in ("gpt2", "gpt2e") else 2, "o" if len(steps) < 6 else ""
    axes.plot(
        steps,
        losses.mean(axis=0),
        color=colour,
        linestyle=dash,
        marker=marker,
        markersize=4,
        zorder=front,
    )
    if len(losses) > 1 and front == 3:
        axes.fill_between(
            steps, losses.min(axis=0), losses.max(axis=0), color=colour, alpha=0.15, linewidth=0
        )
    return label, colour, float(losses.mean(axis=0)[-1])


def _label_ends(axes: Axes, ends: Sequence[tuple[str, str, float]]) -> None:
    """Name each line at its right end; names are pushed apart, with a thin lead from the line's
    end.
    """
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    ordered = sorted(ends, key=lambda end: end[2])
    places = spread([(value - low) / (high - low) for _, _, value in ordered], gap=0.07)
    for (label, colour, value), place in zip(ordered, places, strict=True):
        end = (value - low) / (high - low)
        axes.plot(
            [1.0, 1.025],
            [end, place],
            transform=axes.transAxes,
            color=colour,
            linewidth=0.7,
            clip_on=False,
        )
        axes.text(
            1.03, place, label, transform=axes.transAxes, color=colour, va="center", fontsize=9
        )


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Ascending ``places`` in 0..1 pushed ``gap`` apart around their middle, then up or down so
    that none lies outside if they fit.
    """
    moved: list[float] = []
    for place in places:
        moved.append(place if not moved else max(place, moved[-1] + gap))
    if not moved:
        return []
    shift = (sum(places) - sum(moved)) / len(places)
    shift = max(min(shift, 1.0 - moved[-1]), -moved[0])
    return [place + shift for place in moved]


def draw_classes(results: Results) -> Figure | None:
    """Bars of perplexity by class of the predicted token: a panel a class, a row a model, entities
    on above off.
    """
    split = next(
        (s for s in ("test", *scored_splits(results)) if s in scored_splits(results)), None
    )
    bars = [
        (model, condition)
        for model in results.trained
        for condition in (("on", "off") if uses_entities(model) else ("on",))
    ]
    if split is None or not bars:
        return None
    figure = Figure(figsize=(9, 0.9 + 0.34 * len(bars)), layout="constrained")
    panels = figure.subplots(1, len(CLASSES), sharey=True)
    for axes, (name, title) in zip(panels, CLASSES.items(), strict=True):
        _draw_bars(
            axes,
            bars,
            [results.statistic(m, read_class(split, name, c, "perplexity")).mean for m, c in bars],
        )
        axes.set_title(title[0].upper() + title[1:])
    labels = [
        f"{name_model(model)}{f', entities {condition}' if uses_entities(model) else ''}"
        for model, condition in bars
    ]
    panels[0].set_yticks(range(len(bars)), labels)
    panels[0].invert_yaxis()
    figure.get_layout_engine().set(wspace=0.06)  # type: ignore[union-attr, call-arg]
    figure.supxlabel(f"Perplexity per token ({split})", fontsize=10)
    return figure


def _draw_bars(axes: Axes, bars: Sequence[tuple[str, str]], values: Sequence[float | None]) -> None:
    colours = [COLOURS.get(model, INK) for model, _ in bars]
    drawn = axes.barh(
        range(len(bars)), [value or 0 for value in values], color=colours, height=0.72
    )
    for patch, (_, condition), value in zip(drawn, bars, values, strict=True):
        if condition == "off":
            patch.set_facecolor(0.45 * np.array(to_rgb(patch.get_facecolor())) + 0.55)
        text = "–" if value is None else f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"
        axes.annotate(
            text,
            (value or 0, patch.get_y() + patch.get_height() / 2),
            (3, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
        )
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 1.25 * max([value for value in values if value] or [1.0]))
    axes.locator_params(axis="x", nbins=4)


def draw_mentions(results: Results, models: Sequence[str]) -> Figure | None:
    """Mention vectors of the most-mentioned entities, by PCA and by t-SNE; None where a model has
    none or there are too few.
    """
    clouds = [
        next((run.mentions for run in results.of(model) if run.mentions is not None), None)
        for model in models
    ]
    if any(cloud is None for cloud in clouds):
        return None
    present: list[MentionVectors] = [cloud for cloud in clouds if cloud is not None]
    chosen = choose_mentions(present[0].entities, results.pictured_entities)
    if len(chosen) < 5 or any(len(cloud.entities) != len(present[0].entities) for cloud in present):
        return None
    points = np.concatenate(
        [_unit(cloud.vectors[chosen], centred=len(models) > 1) for cloud in present]
    )
    if not np.ptp(points, axis=0).max() > 0:
        return None  # all vectors equal: there is nothing to picture
    owner = np.repeat(np.arange(len(models)), len(chosen))
    entities = np.tile(np.asarray(present[0].entities)[chosen], len(models))
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    for axes, (title, places) in zip(figure.subplots(1, 2), project(points).items(), strict=True):
        _draw_points(axes, title, places, entities, owner)
    figure.legend(
        handles=_entity_legend(results, entities, models),
        loc="outside lower center",
        ncols=4,
        fontsize=8.5,
        handletextpad=0.3,
    )
    return figure


def choose_mentions(entities: np.ndarray, n_entities: int) -> np.ndarray:
    """Rows of the first mentions (at most 60) of each of the most-mentioned entities, ties to the
    earlier entity.
    """
    numbers, counts = np.unique(entities, return_counts=True)
    top = numbers[np.argsort(-counts, kind="stable")][:n_entities]
    return np.concatenate(
        [np.flatnonzero(entities == number)[:MENTIONS_PER_ENTITY] for number in top]
        or [np.zeros(0, np.int64)]
    )


def project(points: np.ndarray) -> dict[str, np.ndarray]:
    """Points [n, width] in the plane, [n, 2]: by PCA, and by t-SNE started from it with a fixed
    seed.

    On one thread, since t-SNE enlarges the rounding of sums: the picture is the same however many
    cores there are.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    perplexity = min(30.0, (len(points) - 1) / 3)
    tsne = TSNE(
        n_components=2,
        perplexity=perplexity,
        init="pca",
        learning_rate="auto",
        random_state=0,
        n_jobs=1,
    )
    with threadpool_limits(1):
        return {
            "PCA": PCA(n_components=2, svd_solver="full").fit_transform(points),
            "t-SNE": tsne.fit_transform(points.astype(np.float32)),
        }


def _unit(vectors: np.ndarray, centred: bool) -> np.ndarray:
    wide = np.asarray(vectors, dtype=np.float64)
    unit = wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-12)
    return unit - unit.mean(axis=0) if centred else unit


MARKERS = ("o", "^")


def _draw_points(
    axes: Axes, title: str, places: np.ndarray, entities: np.ndarray, owner: np.ndarray
) -> None:
    for index, entity in enumerate(dict.fromkeys(entities.tolist())):
        for model in np.unique(owner):
            at = (entities == entity) & (owner == model)
            colour = ENTITY_COLOURS[index % len(ENTITY_COLOURS)]
            axes.scatter(
                places[at, 0],
                places[at, 1],
                s=26,
                color=colour,
                marker=MARKERS[model],
                alpha=0.75,
                linewidths=0.4,
                edgecolors="white",
            )
    axes.set(title=title, xticks=[], yticks=[])
    axes.grid(visible=False)
    axes.spines[["top", "right"]].set_visible(True)


def _entity_legend(results: Results, entities: np.ndarray, models: Sequence[str]) -> list[Line2D]:
    def name(entity: int) -> str:
        return (
            results.entity_names[entity]
            if entity < len(results.entity_names)
            else f"entity {entity}"
        )

    colours = {
        entity: ENTITY_COLOURS[i % len(ENTITY_COLOURS)]
        for i, entity in enumerate(dict.fromkeys(entities.tolist()))
    }
    dots: list[Line2D] = [
        Line2D([], [], color=c, marker="s", linestyle="", label=name(entity))
        for entity, c in colours.items()
    ]
    if len(models) > 1:
        dots += [
            Line2D([], [], color=INK, marker=MARKERS[i], linestyle="", label=name_model(model))
            for i, model in enumerate(models)
        ]
    return dots
