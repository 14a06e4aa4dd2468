"""How the loss falls with tokens and width: the models of a study that differ in nothing else.

The line is Hoffmann et al. (2022), equation 10 (their approach 3): with N weights of the blocks and
D training tokens, loss = E + A / N^alpha + B / D^beta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.cells import Cell, Number, Table, show
from entity_transformers.report.colours import INK
from entity_transformers.report.curves import spread
from entity_transformers.report.frame import Key, write_condition
from entity_transformers.report.lambada import at as at_lambada
from entity_transformers.report.results import Results, write_label

OFF = write_condition(entities="off")
SPLIT = "test"
LEAST = 6
"""Models below which five coefficients say nothing."""
TELLING = 0.1
"""Nats per token below which a fitted floor is none."""
_TOKENS, _PARAMETERS = Key("lm", "tokens_seen"), Key("lm", "parameters")


@dataclass(frozen=True, slots=True)
class Line:
    """Coefficients of the scaling line; losses in nats per token."""

    floor: float
    a: float
    alpha: float
    b: float
    beta: float

    def predict(self, weights: float, tokens: float) -> float:
        """Loss of a model with so many block weights after so many tokens."""
        return float(self.floor + self.a / weights**self.alpha + self.b / tokens**self.beta)


@dataclass(frozen=True, slots=True)
class Point:
    """One trained model: weights of its blocks, tokens seen, test loss in nats per token."""

    entry: ModelEntry
    weights: int
    tokens: int
    loss: float


def fit_line(weights: Sequence[float], tokens: Sequence[float], losses: Sequence[float]) -> Line:
    """The line through the points, least squares of log residuals from a grid of starts.

    The paper's Huber loss, whose threshold is 0.001, is for hundreds of models: five coefficients
    then pass through five of a dozen points and leave the others alone.
    """
    from scipy.optimize import least_squares

    n, d, observed = (np.log(np.asarray(values, float)) for values in (weights, tokens, losses))

    def residuals(x: np.ndarray) -> np.ndarray:
        e, a, alpha, b, beta = x
        terms = np.stack([np.full_like(n, e), a - alpha * n, b - beta * d])
        return np.logaddexp.reduce(terms, axis=0) - observed

    starts = [(0.5, a, 0.3, b, 0.3) for a in (0.0, 5.0) for b in (0.0, 5.0)]
    found = min(
        (least_squares(residuals, start) for start in starts),
        key=lambda one: float(one.cost),
    )
    e, a, alpha, b, beta = map(float, found.x)
    return Line(math.exp(e), math.exp(a), alpha, math.exp(b), beta)


def list_points(results: Results) -> list[Point]:
    """The models that form the largest group of one kind, depth, labels and initial
    weights, whose widths and tokens vary; empty where there are fewer than `LEAST`.
    """
    groups: dict[tuple[object, ...], list[Point]] = {}
    for entry in results.measured("perplexity"):
        tokens = results.statistic(entry, _TOKENS).mean
        loss = results.statistic(entry, Key("perplexity", "loss", SPLIT, OFF)).mean
        if tokens is not None and loss is not None and not entry.extra:
            lm = entry.lm
            # the matrices of a block: 4 of attention and 8 of the feed-forward layer
            point = Point(entry, 12 * lm.layers * lm.width**2, round(tokens), loss)
            key = entry.kind.name, entry.labels, lm.layers, lm.initial_weights
            groups.setdefault(key, []).append(point)
    points = max(groups.values(), key=len, default=[])
    spread = len({p.weights for p in points}) > 1 and len({p.tokens for p in points}) > 1
    if len(points) < LEAST or not spread:
        return []
    return sorted(points, key=lambda point: (point.weights, point.tokens))


def fit_points(points: Sequence[Point]) -> Line:
    """`fit_line` of trained models."""
    return fit_line(
        [p.weights for p in points], [p.tokens for p in points], [p.loss for p in points]
    )


def check_line(points: Sequence[Point]) -> tuple[Point, float] | None:
    """The largest model on the most tokens and what the line of those on fewer tokens says of it;
    None where too few are left.
    """
    last = max(points, key=lambda point: (point.tokens, point.weights))
    fewer = [point for point in points if point.tokens < last.tokens]
    if len(fewer) < LEAST:
        return None
    return last, fit_points(fewer).predict(last.weights, last.tokens)


def build_scaling(results: Results) -> Table:
    """A row per model: size, tokens, loss, what the line says, perplexity per word, bits per byte
    and LAMBADA.
    """
    points = list_points(results)
    line = fit_points(points) if points else None

    def row(point: Point) -> tuple[Cell, ...]:
        model = point.entry
        scores = (
            show(results.statistic(model, Key("perplexity", measure, SPLIT, OFF)), digits)
            for measure, digits in (("loss", 4), ("perplexity_word", 2), ("bits_per_byte", 4))
        )
        lambada = results.statistic(model, at_lambada("last_word_accuracy"))
        return (
            write_label(model),
            Number(model.lm.width, 0),
            show(results.statistic(model, _PARAMETERS), 0),
            Number(point.tokens, 0),
            *scores,
            Number(line.predict(point.weights, point.tokens) if line else None, 4),
            show(lambada, 2, percent=True),
        )

    return Table(
        name="scaling",
        title="Loss by width and training tokens",
        columns=(
            "Model",
            "Width",
            "Parameters",
            "Tokens",
            "Test loss",
            "PPL per word",
            "Bits per byte",
            "Line",
            "LAMBADA accuracy",
        ),
        rows=tuple(row(point) for point in points),
        measures=(
            "What more text and more weights bring; each model is trained to the end of its own"
            " schedule."
        ),
        note=_note(points, line) if line else "",
    )


def _note(points: Sequence[Point], line: Line) -> str:
    text = (
        f"Line: {line.floor:.3f} + {line.a:.4g} / N^{line.alpha:.3f} + {line.b:.4g} /"
        f" D^{line.beta:.3f} nats per token, N weights of the blocks (12 layers width²), D tokens"
        " (Hoffmann et al. 2022, equation 10). Tokens beyond one pass through the text count again."
    )
    worst = max(points, key=lambda one: abs(one.loss - line.predict(one.weights, one.tokens)))
    off = worst.loss - line.predict(worst.weights, worst.tokens)
    text += f" It misses {write_label(worst.entry)} the most, by {off:+.4f}."
    if line.floor < TELLING:
        text += (
            " These models tell no floor: the fit puts it at nothing, so the line may not be"
            " trusted far from them."
        )
    if found := check_line(points):
        last, predicted = found
        text += (
            f" Fitted without the models of {last.tokens:,} tokens it predicts {predicted:.4f} for"
            f" {write_label(last.entry)}, which reached {last.loss:.4f}."
        )
    return text


def draw_scaling(results: Results) -> Figure | None:
    """Test loss against tokens, a colour per width; lines are the fit, a factor of four beyond the
    last point.
    """
    points = list_points(results)
    if not points:
        return None
    line = fit_points(points)
    figure = Figure(figsize=(8, 4.6), layout="constrained")
    axes = figure.subplots()
    widths = sorted({point.entry.lm.width for point in points})
    most = max(point.tokens for point in points)
    for rank, width in enumerate(widths):
        own = [point for point in points if point.entry.lm.width == width]
        colour = SHADES[round(rank * (len(SHADES) - 1) / max(1, len(widths) - 1))]
        name, places = f"width {width}", ([p.tokens for p in own], [p.loss for p in own])
        axes.scatter(*places, s=46, color=colour, zorder=3, label=name)
        for tokens, style in (
            (np.geomspace(min(p.tokens for p in own), most), "-"),
            (np.geomspace(most, 4 * most), ":"),
        ):
            values = [line.predict(own[0].weights, count) for count in tokens]
            axes.plot(tokens, values, style, color=colour, linewidth=1.5)
    weights = {point.entry.lm.width: point.weights for point in points}
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    ends = sorted((line.predict(weights[width], 4 * most), width) for width in widths)
    heights = spread([(end - low) / (high - low) for end, _ in ends], gap=0.05)
    for (_, width), height in zip(ends, heights, strict=True):
        axes.annotate(
            f"width {width}",
            (4 * most, low + height * (high - low)),
            (6, 0),
            textcoords="offset points",
            va="center",
            color=INK,
        )
    axes.set_xscale("log", base=2)
    ticks = [2.0**power for power in range(20, 40) if 2**power <= 4 * most]
    axes.set_xticks(ticks, [f"{round(tick / 2**20):,} M" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(right=4 * most * 1.9)
    axes.set_xlabel("Training tokens (M: 2²⁰)")
    axes.set_ylabel("Test loss in nats per token")
    return figure


SHADES = ("#9ecae1", "#4292c6", "#08519c")
"""From few weights to many."""
