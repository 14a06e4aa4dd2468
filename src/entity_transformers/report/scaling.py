"""How the loss falls with tokens and width: the models of a study that differ in nothing else.

The line is Hoffmann et al. (2022), equation 10 (their approach 3): with N weights of the blocks and
D training tokens, loss = E + A / N^alpha + B / D^beta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import lambada
from entity_transformers.report.figures import Line as Curve
from entity_transformers.report.figures import Panel, draw_lines
from entity_transformers.report.frame import at
from entity_transformers.report.pivot import Axis, Measure, Pivot, Place
from entity_transformers.report.pivot import Line as Row
from entity_transformers.report.results import Results, Statistic, write_label
from entity_transformers.report.table import Number

TITLE, STEP, SPLIT = "Loss by size", "perplexity", "test"
LEAST = 6
"""Models below which five coefficients say nothing."""
TELLING = 0.1
"""Nats per token below which a fitted floor is none."""
_TOKENS, _PARAMETERS = at("lm", "tokens_seen"), at("lm", "parameters")


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
        (least_squares(residuals, start) for start in starts), key=lambda one: float(one.cost)
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
        loss = results.statistic(entry, at(STEP, "loss", SPLIT, entities="off")).mean
        if tokens is None or loss is None:
            continue
        if not entry.extra and hasattr(entry.lm, "layers"):
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


def _rows(results: Results, _: Place) -> Iterator[Row]:
    for point in list_points(results):
        yield (write_label(point.entry),), {"model": point.entry, "point": point}


def _of_point(heading: str, digits: int, read: Callable[[Results, Point], float]) -> Measure:
    return Measure(heading, cell=lambda results, row: Number(read(results, row["point"]), digits))


def _predict(results: Results, point: Point) -> float:
    return fit_points(list_points(results)).predict(point.weights, point.tokens)


def _score(heading: str, measure: str, digits: int) -> Measure:
    def read(results: Results, row: Place) -> Statistic:
        return results.statistic(row["model"], at(STEP, measure, SPLIT, entities="off"))

    return Measure(heading, digits=digits, read=read)


TABLES = (
    Pivot(
        name="scaling",
        title="Loss by width and training tokens",
        step=STEP,
        rows=(Axis(("Model",), _rows),),
        columns=(
            _of_point("Width", 0, lambda results, point: point.entry.lm.width),
            Measure(
                "Parameters",
                digits=0,
                read=lambda results, row: results.statistic(row["model"], _PARAMETERS),
            ),
            _of_point("Tokens", 0, lambda results, point: point.tokens),
            _score("Test loss", "loss", 4),
            _score("PPL per word", "perplexity_word", 2),
            _score("Bits per byte", "bits_per_byte", 4),
            _of_point("Line", 4, _predict),
            Measure(
                "LAMBADA accuracy",
                percent=True,
                read=lambda results, row: results.statistic(
                    row["model"], lambada.at("last_word_accuracy")
                ),
            ),
        ),
        measures=(
            "What more text and more weights bring; each model is trained to the end of its own"
            " schedule."
        ),
        note=lambda results: _note(list_points(results), fit_points(list_points(results))),
    ),
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
    """Test loss against tokens, a colour per width; lines are the fit, dotted a factor of four
    beyond the last point.
    """
    points, lines = list_points(results), []
    if not points:
        return None
    line, most = fit_points(points), max(point.tokens for point in points)
    widths = sorted({point.entry.lm.width for point in points})
    for rank, width in enumerate(widths):
        own = [point for point in points if point.entry.lm.width == width]
        colour = SHADES[round(rank * (len(SHADES) - 1) / max(1, len(widths) - 1))]
        x, y = [point.tokens / MILLION for point in own], [point.loss for point in own]
        lines.append(Curve(f"width {width}", colour, x, y, dash="", mark="o"))
        ends = ((min(p.tokens for p in own), most, "-"), (most, 4 * most, ":"))
        for start, end, dash in ends:
            tokens = np.geomspace(start, end, 50)
            fitted = [line.predict(own[0].weights, count) for count in tokens]
            drawn = (tokens / MILLION).tolist()
            lines.append(Curve(f"_width {width}", colour, drawn, fitted, dash=dash, mark=","))
    label = "Training tokens in millions (2²⁰)"
    return draw_lines([Panel(lines, label, "Test loss in nats per token", log=True)])


MILLION = 2**20
SHADES = ("#9ecae1", "#4292c6", "#08519c")
"""From few weights to many."""
FIGURES = {
    "scaling": (
        draw_scaling,
        "Test loss against training tokens, a colour per width: models (points), the fitted line,"
        " and beyond the last model (dotted) what it says.",
    )
}
