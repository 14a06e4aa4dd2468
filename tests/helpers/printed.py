"""What the paper's printed numbers say about themselves: can they be what their headings say?"""

from __future__ import annotations

import math

from entity_transformers.report.paper import LanguageModel, Score

# how far a percentage printed in whole points, or in halves of a point, may be from the true one
WHOLE, HALF = 0.5, 0.25
STEPS = range(201)  # 0 to 100 % in halves of a point


def harmonic(precision: float, recall: float) -> float:
    """F1 of a precision and a recall; 0 where both are 0."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def f1_bounds(precision: float, recall: float, rounding: float) -> tuple[float, float]:
    """Least and greatest F1, as printed, of one class whose printed P and R (percent) are each off
    by at most ``rounding``.
    """
    low = harmonic(max(0.0, precision - rounding), max(0.0, recall - rounding))
    high = harmonic(min(100.0, precision + rounding), min(100.0, recall + rounding))
    return low - rounding, high + rounding


def is_one_class(score: Score, rounding: float) -> bool:
    """Can P, R and F1 be those of one class, each off by at most ``rounding`` points?"""
    low, high = f1_bounds(100 * score.precision, 100 * score.recall, rounding)
    return low - 1e-9 <= 100 * score.f1 <= high + 1e-9


def two_class_means(score: Score) -> frozenset[int]:
    """Every F1, in halves of a point, that the mean of two classes printed in whole percent can
    have with this mean P and R.
    """
    pairs = [
        (
            f1_bounds(p, r, WHOLE),
            f1_bounds(_double(score.precision) - p, _double(score.recall) - r, WHOLE),
        )
        for p in _first_parts(_double(score.precision))
        for r in _first_parts(_double(score.recall))
    ]
    spans = ((_whole_points(one), _whole_points(other)) for one, other in pairs)
    reached = {(max(0, one[0] + other[0]), min(200, one[1] + other[1])) for one, other in spans}
    return frozenset(total for low, high in reached for total in range(low, high + 1))


def _double(fraction: float) -> int:
    """The sum in whole percent of two numbers with this mean."""
    return round(200 * fraction)


def _first_parts(total: int) -> range:
    """The whole percentages that one of two numbers between 0 and 100 with this sum can have."""
    return range(max(0, total - 100), min(100, total) + 1)


def _whole_points(bounds: tuple[float, float]) -> tuple[int, int]:
    return math.ceil(bounds[0] - 1e-9), math.floor(bounds[1] + 1e-9)


def is_mean_of_two(score: Score) -> bool:
    """Can P, R and F1 be the means of two classes' numbers in whole percent, each class's F1 that
    of its P and R?
    """
    return _double(score.f1) in two_class_means(score)


def chance_of_two(score: Score) -> float:
    """Share of all F1 from 0 to 100 %, in halves of a point, that would pass `is_mean_of_two`
    beside this P and R.
    """
    return len(two_class_means(score)) / len(STEPS)


def is_exp_of_loss(printed: LanguageModel, digits: int) -> bool:
    """Is the perplexity, rounded or cut off after two decimals, exp of the loss printed with
    ``digits`` decimals?
    """
    off = 0.5 * 10.0**-digits
    return (
        math.exp(printed.loss - off) - 0.01
        < printed.perplexity
        < math.exp(printed.loss + off) + 0.005
    )
