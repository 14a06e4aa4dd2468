"""The arithmetic of printed numbers against enumeration."""

from __future__ import annotations

import itertools
import math

import pytest
from printed import (
    HALF,
    WHOLE,
    chance_of_two,
    harmonic,
    is_exp_of_loss,
    is_mean_of_two,
    is_one_class,
    two_class_means,
)

from entity_transformers.report import paper
from entity_transformers.report.paper import LanguageModel, Score


def test_every_class_printed_in_whole_points_agrees_with_itself() -> None:
    """Counts of a small class: its rounded P, R and F1 always pass, as one class and as the mean of
    two equal ones.
    """
    for right, wrong, missed in itertools.product(range(1, 9), range(0, 30, 3), range(0, 30, 3)):
        precision, recall = right / (right + wrong), right / (right + missed)
        score = Score(
            *(
                round(100 * value) / 100
                for value in (harmonic(precision, recall), precision, recall)
            )
        )
        assert is_one_class(score, WHOLE)
        assert is_mean_of_two(score)


def test_the_mean_of_any_two_such_classes_passes_as_two() -> None:
    classes = [(0.91, 0.33), (0.05, 0.02), (1.0, 0.5), (0.44, 0.71), (0.0, 0.0)]
    for one, other in itertools.combinations(classes, 2):
        printed = [[round(100 * v) for v in (harmonic(*c), *c)] for c in (one, other)]
        mean = Score(*((a + b) / 200 for a, b in zip(*printed, strict=True)))
        assert is_mean_of_two(mean), (one, other)


def test_an_f1_that_no_class_can_have_fails() -> None:
    assert not is_one_class(Score(0.70, 0.80, 0.50), HALF)  # 61.5 by its P and R
    assert not is_mean_of_two(Score(0.90, 0.80, 0.50))  # F1 is never above both means
    assert not is_mean_of_two(Score(0.10, 0.95, 0.90))


def test_the_reachable_f1_are_those_of_brute_force() -> None:
    """Over all pairs of whole P and R with these means: F1 within the bounds that rounding leaves
    to each class.
    """

    def reach(p: int, r: int) -> list[int]:
        corners = [
            harmonic(min(100, max(0, p + a)), min(100, max(0, r + b)))
            for a in (-0.5, 0.5)
            for b in (-0.5, 0.5)
        ]
        return [
            f for f in range(101) if min(corners) - 0.5 - 1e-9 <= f <= max(corners) + 0.5 + 1e-9
        ]

    score = Score(0.0, 0.045, 0.02)
    expected = {
        a + b for p in range(10) for r in range(5) for a in reach(p, r) for b in reach(9 - p, 4 - r)
    }
    assert two_class_means(score) == expected
    assert chance_of_two(score) == len(expected) / 201


@pytest.mark.parametrize("model", ["gpt2", "gpt2e"])
def test_the_papers_overall_rows_are_of_one_class_and_some_label_rows_are_not(model: str) -> None:
    assert is_one_class(paper.TABLE5[model, paper.OVERALL], WHOLE)
    assert not is_one_class(paper.TABLE5[model, "NORP"], HALF)
    assert all(is_mean_of_two(paper.TABLE5[model, label]) for label in paper.TABLE5_LABELS)


@pytest.mark.parametrize("loss", [0.187, 1.71, 5.0])
def test_a_rounded_or_cut_perplexity_is_exp_of_its_loss_and_another_is_not(loss: float) -> None:
    value = math.exp(loss)
    for shown in (round(value, 2), math.floor(100 * value) / 100):
        assert is_exp_of_loss(LanguageModel(shown, round(loss, 3), 0.1), 3)
    assert not is_exp_of_loss(LanguageModel(1.02 * value + 0.02, round(loss, 3), 0.1), 3)
