"""The anomalies of the paper: what was tried, the number it gives here, the printed one, and
whether a stated rule lets it pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args

from entity_transformers.report import paper
from entity_transformers.report.cells import MISSING, Cell, Number, Table
from entity_transformers.report.lm_tables import lambada_perplexities
from entity_transformers.report.printed import (
    HALF,
    WHOLE,
    chance_of_two,
    harmonic,
    is_exp_of_loss,
    is_mean_of_two,
    is_one_class,
)
from entity_transformers.report.results import Results, Run, name_model, read_ner
from entity_transformers.study.steps.anomalies import Anomaly

TOLERANCE = 0.10
MOST_PASSES = 100  # over the validation text: 100,000 steps with a validation every 1,000
# a training loss up to this much above the printed one is near enough to be compared with it
NEAR = 1.5
LEARNT = 0.1  # nats that GPT2 must gain from the context before a block can be said not to learn
LOSS = "Validation loss far below training loss"
LITERAL = "No residual around entity attention"
LAMBADA = "LAMBADA perplexities of 197 and 220"
HALVES = "Table 5's rows"
TIMES = "Table 2's times"
PERPLEXITIES = "Table 2's perplexities"


class Row(NamedTuple):
    """One candidate: ``passes`` None where it can't be told, ``printed`` None where the paper has
    no such number.
    """

    anomaly: str
    tried: str
    quantity: str
    here: Number
    printed: Number
    rule: str
    passes: bool | None
    details: str = ""

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The row of the table."""
        verdict = {True: "yes", False: "no", None: "open"}[self.passes]
        return (
            self.anomaly,
            self.tried,
            self.quantity,
            self.here,
            self.printed,
            self.rule,
            verdict,
            self.details or MISSING,
        )


def build_anomalies(results: Results) -> Table:
    """Every candidate of every anomaly, tried or not run."""
    anomalies = results.anomalies
    trained = [*_judge_loss(results, anomalies), *_judge_literal(anomalies)]
    rows = [
        *trained,
        *_judge_lambada(results),
        *_judge_halves(results),
        *_judge_times(),
        *_judge_perplexities(),
    ]
    cells = [row.cells for row in rows]
    cells += [
        (_ANOMALY_OF[name], name, MISSING, Number(None), Number(None), MISSING, "not run", MISSING)
        for name in _missing(anomalies)
    ]
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
        rows=tuple(cells),
        measures=(
            "Printed numbers that cannot be what their headings say, and what could have given"
            " them. “Reproduces it” follows from the rule in the row alone."
        ),
        note=(
            "The trainings are short and start from random weights (section anomalies of"
            " params.yaml): they show what a mistake does to a number, not what the authors did."
            " Losses are in nats per token. “Open”: it cannot be told from what was run."
        ),
    )


def _missing(anomalies: Mapping[str, Any]) -> list[str]:
    return [name for name in get_args(Anomaly) if name not in anomalies]


_ANOMALY_OF = {
    "padding": LOSS,
    "validation-trains": LOSS,
    "validation-seen": LOSS,
    "literal-block": LITERAL,
}


def _judge_loss(results: Results, anomalies: Mapping[str, Any]) -> Iterator[Row]:
    honest = results.statistic(
        "gpt2", lambda run: run.training["dev_loss_on"] / run.training["train_loss"]
    )  # type: ignore[index]
    if honest.mean is not None:
        yield _loss_row("nothing: the study's own GPT2, held-out text", honest.mean)
    if "padding" in anomalies:
        for unit in ("documents", "sentences"):
            yield from _judge_padding(results, unit, anomalies["padding"][unit])
    if "validation-trains" in anomalies:
        yield _judge_trains(anomalies["validation-trains"])
    if "validation-seen" in anomalies:
        yield _judge_seen(anomalies["validation-seen"])


def _loss_row(tried: str, ratio: float, details: str = "") -> Row:
    train, dev = paper.TABLE2["gpt2", "train"].loss, paper.TABLE2["gpt2", "dev"].loss
    rule = f"within {TOLERANCE:.0%}; open where it is lower still, as a milder form could give it"
    passes = _reaches(ratio, dev / train)
    return Row(
        LOSS,
        tried,
        "dev loss / train loss, GPT2",
        Number(ratio, 3),
        Number(dev / train, 3),
        rule,
        passes,
        details,
    )


def _reaches(ratio: float, printed: float) -> bool | None:
    """Is a ratio of losses the printed one, within the tolerance? None: it is lower."""
    off = ratio / printed - 1
    return None if off < -TOLERANCE else off <= TOLERANCE


def _judge_padding(results: Results, unit: str, found: Mapping[str, Any]) -> Iterator[Row]:
    train, dev = found["train"], found["dev"]
    counted = f"{unit} padded to the window, padding counted in"
    details = (
        f"dev {dev['padded']:.3f} with padding, {dev['real']:.3f} without; {dev['real_share']:.1%}"
        " of the predictions are text"
    )
    yield _loss_row(f"{counted} both losses", dev["padded"] / train["padded"], details)
    yield _loss_row(f"{counted} the validation loss alone", dev["padded"] / train["real"], details)
    for window, share in sorted(found["real_share"].items(), key=lambda item: int(item[0])):
        text = f"mean {found['mean_length']:,.0f} tokens: {share:.1%} of the predictions are text"
        yield _free_padding(f"this corpus' {unit}", window, share, found, text)
    if unit == "documents" and results.alignment is not None:
        tokens = conll_tokens(results.alignment["train"])
        for window in sorted(found["real_share"], key=int):
            share = tokens / (math.ceil(tokens / int(window)) * int(window))
            text = (
                f"{tokens:,.0f} tokens by this corpus' tokens a word: {share:.1%} of the"
                " predictions are text"
            )
            yield _free_padding("CoNLL-2012's mean training document", window, share, found, text)


def _free_padding(
    text: str, window: str, share: float, found: Mapping[str, Any], details: str
) -> Row:
    """The least ratio that padding in the validation loss alone can give: the model predicts
    padding for nothing.
    """
    printed, guessing = paper.TABLE2["gpt2", "dev"].loss, math.log(paper.VOCABULARY)
    details += f"; a loss of {printed} would be one of {printed / share:.1f} on the text"
    row = _loss_row(
        f"{text} at window {window} if padding cost nothing",
        share * found["dev"]["real"] / found["train"]["real"],
        details,
    )
    rule = f"{row.rule}, from a loss on the text below guessing's {guessing:.1f}"
    return row._replace(rule=rule, passes=row.passes if printed / share < guessing else False)


def conll_tokens(train: Mapping[str, int]) -> float:
    """Tokens of CoNLL-2012's mean training document, from the paper's words and this corpus' tokens
    a word.
    """
    return paper.WORDS["train"] / paper.CONLL_DOCUMENTS * train["tokens"] / train["words"]


def _judge_trains(found: Mapping[str, Any]) -> Row:
    """The printed losses themselves, not only their ratio: enough passes take any validation loss
    to zero.
    """
    train, passes = (
        found["train_loss"],
        [one for one in found["passes"] if one["number"] <= MOST_PASSES],
    )
    printed, least = paper.TABLE2["gpt2", "train"].loss, paper.TABLE2["gpt2", "dev"].loss
    reached = (one for one in passes if one["dev_loss"] <= (1 + TOLERANCE) * least)
    at = next(reached, min(passes, key=lambda one: one["dev_loss"]))
    details = (
        f"train {train:.3f}, dev {found['dev_loss']:.3f} before the first pass and"
        f" {at['dev_loss']:.3f} after this one"
    )
    row = _loss_row(
        f"validation that also trains: {_passes(at['number'])}", at["dev_loss"] / train, details
    )
    rule = (
        f"{row.rule}, dev at most {(1 + TOLERANCE) * least:.3f} in {MOST_PASSES} passes; open while"
        f" train is above {NEAR * printed:.2f}"
    )
    low = row.passes if at["dev_loss"] <= (1 + TOLERANCE) * least else False
    return row._replace(rule=rule, passes=low if train <= NEAR * printed else None)


def _passes(number: int) -> str:
    return f"{number} pass{'es' if number > 1 else ''}"


def _judge_seen(found: Mapping[str, Any]) -> Row:
    """Judged at the pass whose training loss is nearest to the printed one."""
    printed = paper.TABLE2["gpt2", "train"].loss
    near = min(found["passes"], key=lambda one: abs(one["train_loss"] - printed))
    held_out = (
        ""
        if found["held_out"] is None
        else f"; other dev documents {found['held_out']:.3f} after {_passes(len(found['passes']))}"
    )
    details = (
        f"train {near['train_loss']:.3f} (dropout on), the dev documents read"
        f" {near['dev_loss']:.3f}{held_out}"
    )
    tried = f"validation text among the training text: each read {near['number']} times"
    row = _loss_row(tried, near["dev_loss"] / near["train_loss"], details)
    rule = f"{row.rule}; open while train is above {NEAR * printed:.2f}"
    return row._replace(
        rule=rule, passes=row.passes if near["train_loss"] <= NEAR * printed else None
    )


def _judge_literal(anomalies: Mapping[str, Any]) -> Iterator[Row]:
    if "literal-block" not in anomalies:
        return
    found = anomalies["literal-block"]
    models = found["models"]
    for name, tried in (
        ("gpt2e-literal", "the literal block, no residual"),
        ("gpt2e", "a residual around it (what we do)"),
    ):
        ours, gpt2 = models[name], models["gpt2"]
        ratio, printed = (
            ours["dev_loss"] / gpt2["dev_loss"],
            paper.TABLE2["gpt2e", "dev"].loss / paper.TABLE2["gpt2", "dev"].loss,
        )
        passes = (
            abs(ratio / printed - 1) <= TOLERANCE
            and ours["context_gain"] >= gpt2["context_gain"] / 2
        )
        details = (
            f"dev {ours['dev_loss']:.3f}, GPT2 {gpt2['dev_loss']:.3f}; gained from the context"
            f" {_write(ours['context_gain'])}, GPT2 {_write(gpt2['context_gain'])}; entropy of the"
            f" text's token frequencies {found['unigram_entropy']:.3f}"
        )
        rule = (
            f"within {TOLERANCE:.0%}, and half of GPT2's gain from the context or more (open while"
            f" that is below {LEARNT})"
        )
        verdict = passes if gpt2["context_gain"] >= LEARNT else None
        yield Row(
            LITERAL,
            tried,
            "dev loss / GPT2's",
            Number(ratio, 3),
            Number(printed, 3),
            rule,
            verdict,
            details,
        )


def _write(nats: float) -> str:
    return f"{round(nats, 3) + 0.0:.3f}"  # no negative zero


def _judge_lambada(results: Results) -> Iterator[Row]:
    for model, printed in paper.TABLE3.items():
        found = lambada_perplexities(results, model)
        nearest = min(found, key=lambda label: abs(math.log(found[label] / printed)), default="")
        for label, value in found.items():
            details = f"off by a factor of {max(value / printed, printed / value):,.3g}" + (
                ", the nearest" if label == nearest else ""
            )
            passes = abs(value / printed - 1) <= TOLERANCE
            quantity = f"perplexity, {name_model(model)}"
            yield Row(
                LAMBADA,
                label,
                quantity,
                Number(value),
                Number(printed),
                f"within {TOLERANCE:.0%}",
                passes,
                details,
            )
        for section, label in (
            ("last_word", "Last word accuracy"),
            ("last_token", "Last token accuracy"),
        ):
            mean = results.statistic(
                model, lambda run, part=section: run.lambada[part]["accuracy"]
            ).mean  # type: ignore[misc]
            if mean is not None:
                ours, theirs = Number(mean, 2, percent=True), Number(printed)
                yield Row(
                    LAMBADA,
                    label,
                    f"accuracy, {name_model(model)}",
                    ours,
                    theirs,
                    "a share is never above 1",
                    False,
                )


def _judge_halves(results: Results) -> Iterator[Row]:
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


def _count_row(tried: str, found: int, of: int, details: str = "") -> Row:
    return Row(
        HALVES,
        tried,
        f"rows of {of} that fit",
        Number(found, 0),
        Number(of, 0),
        "all rows",
        found == of,
        details,
    )


def _judge_own_tags(results: Results, printed: float) -> Iterator[Row]:
    triples = [triple for run in results.runs for triple in read_tag_means(run)]
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
    yield Row(
        HALVES,
        "our means of B- and I- rows",
        "rows with F1 other than 2PR/(P+R)",
        here,
        share,
        "some rows",
        odd > 0,
        details,
    )


def read_tag_means(run: Run) -> list[tuple[float, float, float]]:
    """F1, P and R of each label's mean over its B- and I- rows in ``run``, where something of it
    was found.
    """
    labels: Sequence[str] = tuple((run.ner or {}).get("test", {}).get("tag", {}).get("labels", {}))
    rows = [
        tuple(read_ner("tag", "labels", label, key)(run) for key in ("f1", "precision", "recall"))
        for label in labels
    ]
    return [
        (f1, precision, recall) for f1, precision, recall in rows if f1 and precision and recall
    ]


def _judge_times() -> Iterator[Row]:
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
        yield Row(
            TIMES, tried, "GPT2E − GPT2, seconds a step", here, printed, "equal to the text", same
        )
    steps = paper.EXTRA_TOTAL_SECONDS / paper.EXTRA_SECONDS
    for name, count in (("10e5 read as 100,000", 100_000), ("10e5 read as 1,000,000", 1_000_000)):
        passes = abs(steps / count - 1) <= TOLERANCE
        yield Row(
            TIMES,
            name,
            "steps",
            Number(count, 0),
            Number(steps, 0),
            f"within {TOLERANCE:.0%}",
            passes,
            "12 min 6 s / 0.008 s",
        )


def _judge_perplexities() -> Iterator[Row]:
    digits = {"train": 2, "dev": 3}
    odd = [
        f"{model} {split}"
        for (model, split), row in paper.TABLE2.items()
        if not is_exp_of_loss(row, digits[split])
    ]
    count, details = len(paper.TABLE2) - len(odd), f"not: {', '.join(odd)}" if odd else ""
    yield Row(
        PERPLEXITIES,
        "exp of the printed loss",
        "cells that fit",
        Number(count, 0),
        Number(4, 0),
        "all cells",
        not odd,
        details,
    )
