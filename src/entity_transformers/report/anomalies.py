"""The anomalies of the paper: what was tried, the number it gives here, the printed one, and
whether a stated rule lets it pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import ner, paper
from entity_transformers.report.candidates import (
    TOLERANCE,
    Candidate,
    judge_literal,
    judge_loss,
)
from entity_transformers.report.cells import Number, Table
from entity_transformers.report.frame import write_condition
from entity_transformers.report.lambada import at, is_lambada, lambada_perplexities
from entity_transformers.report.printed import (
    HALF,
    WHOLE,
    chance_of_two,
    harmonic,
    is_exp_of_loss,
    is_mean_of_two,
    is_one_class,
)
from entity_transformers.report.results import Results, write_label
from entity_transformers.report.trials import TRIED, Trial

LAMBADA = "LAMBADA perplexities of 197 and 220"
HALVES = "Table 5's rows"
TIMES = "Table 2's times"
PERPLEXITIES = "Table 2's perplexities"


def build_anomalies(results: Results) -> Table:
    """Every candidate of every anomaly that was tried, and what the printed numbers say."""
    rows = [
        *judge_loss(results),
        *judge_literal(results),
        *_judge_lambada(results),
        *_judge_halves(results),
        *_judge_times(),
        *_judge_perplexities(),
    ]
    missing = [name for name in TRIED if not Trial(results, name).there]
    return Table(
        name="anomalies",
        title="Anomalies of the paper",
        columns=(
            "Anomaly",
            "What was tried",
            "Quantity",
            "Here",
            "Paper",
            "Passes if",
            "Reproduces it",
            "Details",
        ),
        rows=tuple(row.cells for row in rows) if results.paper else (),  # of printed numbers
        measures=(
            "Printed numbers that cannot be what their headings say, and what could have given"
            " them. “Reproduces it” follows from the rule in the row alone."
        ),
        note=(
            "The trainings are short and start from random weights (section anomalies of"
            " params.yaml): they show what a mistake does to a number, not what the authors did."
            " Losses are in nats per token. “Open”: it cannot be told from what was run; a number"
            " lower still than the printed one could come of a milder form of the same mistake."
        )
        + (f" Not tried: {', '.join(missing)}." if missing else "")
        + ("" if is_lambada(results) else f" {LAMBADA}: not judged by generated passages."),
    )


def _judge_lambada(results: Results) -> Iterator[Candidate]:
    if not is_lambada(results):
        return
    for model in (results.proposed, results.baseline):
        if model is not None and results.printed(model) in paper.TABLE3:
            yield from _judge_passages(results, model, paper.TABLE3[results.printed(model)])


def _judge_passages(results: Results, model: ModelEntry, printed: float) -> Iterator[Candidate]:
    found = lambada_perplexities(results, model)
    nearest = min(found, key=lambda label: abs(math.log(found[label] / printed)), default="")
    for label, value in found.items():
        details = f"off by a factor of {max(value / printed, printed / value):,.3g}" + (
            ", the nearest" if label == nearest else ""
        )
        yield Candidate(
            LAMBADA,
            label,
            f"perplexity, {write_label(model)}",
            Number(value),
            Number(printed),
            f"within {TOLERANCE:.0%}",
            abs(value / printed - 1) <= TOLERANCE,
            details,
        )
    for measured, label in (
        ("last_word_accuracy", "Last word accuracy"),
        ("last_token_accuracy", "Last token accuracy"),
    ):
        mean = results.statistic(model, at(measured)).mean
        if mean is not None:
            yield Candidate(
                LAMBADA,
                label,
                f"accuracy, {write_label(model)}",
                Number(mean, 2, percent=True),
                Number(printed),
                "a share is never above 1",
                False,
            )


def _judge_halves(results: Results) -> Iterator[Candidate]:
    labels = {key: score for key, score in paper.TABLE5.items() if key[1] != paper.OVERALL}
    overall = [score for key, score in paper.TABLE5.items() if key[1] == paper.OVERALL]
    odd = [
        f"{label} ({model})"
        for (model, label), score in labels.items()
        if not is_one_class(score, HALF)
    ]
    yield _count_row(
        "per-label P, R, F1 of one class, rounded to half a point",
        len(labels) - len(odd),
        len(labels),
        f"not: {', '.join(odd)}",
    )
    two = sum(is_mean_of_two(score) for score in labels.values())
    chance = math.fsum(chance_of_two(score) for score in labels.values()) / len(labels)
    details = f"beside the printed P and R a random F1 would pass in {chance:.0%} of the cases"
    yield _count_row(
        "means of two rows (B- and I-) printed in whole percent", two, len(labels), details
    )
    one = sum(is_one_class(score, WHOLE) for score in overall)
    yield _count_row(
        "the overall rows: P, R, F1 of one class, rounded to whole points", one, len(overall)
    )
    yield from _judge_own_tags(results, len(odd) / len(labels))


def _count_row(tried: str, found: int, of: int, details: str = "") -> Candidate:
    return Candidate(
        HALVES,
        tried,
        f"rows of {of} that fit",
        Number(found, 0),
        Number(of, 0),
        "all rows",
        found == of,
        details,
    )


def _judge_own_tags(results: Results, printed: float) -> Iterator[Candidate]:
    triples = read_tag_means(results)
    if not triples:
        return
    odd = sum(
        abs(harmonic(precision, recall) - f1) > HALF / 100 for f1, precision, recall in triples
    )
    details = (
        f"{odd} of {len(triples)} rows (models, seeds, labels) are further than {HALF} points from"
        " 2PR/(P+R)"
    )
    here = Number(odd / len(triples), 0, percent=True)
    share = Number(printed, 0, percent=True)
    yield Candidate(
        HALVES,
        "our means of B- and I- rows",
        "rows with F1 other than 2PR/(P+R)",
        here,
        share,
        "some rows",
        odd > 0,
        details,
    )


def read_tag_means(results: Results) -> list[tuple[float, float, float]]:
    """F1, P and R of each label's mean over its B- and I- rows, of every model and seed, where
    something of it was found.
    """
    triples: list[tuple[float, float, float]] = []
    for model in results.measured(ner.STEP):
        for label in ner.list_labels(results, "tag"):
            condition = write_condition(label=label)
            f1, precision, recall = (
                ner.read_scores(results, model, ner.at("tag", score, condition))
                for score in ner.SCORES
            )
            found = ((f1[seed], precision[seed], recall[seed]) for seed in f1)
            triples += [scores for scores in found if all(scores)]
    return triples


def _judge_times() -> Iterator[Candidate]:
    """From the printed numbers alone; our own times, which no two runs share, stand in table 2."""
    slow, fast = paper.TABLE2["gpt2e", "train"].seconds, paper.TABLE2["gpt2", "train"].seconds
    for tried, difference in (
        ("the columns as printed", slow - fast),
        ("the two columns swapped", fast - slow),
    ):
        same = math.isclose(difference, paper.EXTRA_SECONDS, abs_tol=1e-9)
        here, printed = (
            Number(seconds, 3, signed=True) for seconds in (difference, paper.EXTRA_SECONDS)
        )
        yield Candidate(
            TIMES, tried, "GPT2E − GPT2, seconds per step", here, printed, "equal to the text", same
        )
    steps = paper.EXTRA_TOTAL_SECONDS / paper.EXTRA_SECONDS
    for name, count in (("10e5 read as 100,000", 100_000), ("10e5 read as 1,000,000", 1_000_000)):
        passes = abs(steps / count - 1) <= TOLERANCE
        yield Candidate(
            TIMES,
            name,
            "steps",
            Number(count, 0),
            Number(steps, 0),
            f"within {TOLERANCE:.0%}",
            passes,
            "12 min 6 s / 0.008 s",
        )


def _judge_perplexities() -> Iterator[Candidate]:
    digits = {"train": 2, "dev": 3}
    odd = [
        f"{model} {split}"
        for (model, split), row in paper.TABLE2.items()
        if not is_exp_of_loss(row, digits[split])
    ]
    count, details = len(paper.TABLE2) - len(odd), f"not: {', '.join(odd)}" if odd else ""
    yield Candidate(
        PERPLEXITIES,
        "exp of the printed loss",
        "cells that fit",
        Number(count, 0),
        Number(4, 0),
        "all cells",
        not odd,
        details,
    )
