"""What short trainings say about the anomalies: the number that each gives here, the printed one,
and whether a stated rule lets it pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from entity_transformers.report import lm, paper
from entity_transformers.report.cells import MISSING, Cell, Number
from entity_transformers.report.frame import Key
from entity_transformers.report.results import TRAIN_LOSS, Results, summarise
from entity_transformers.report.trials import UNITS_OF_TEXT, Trial

TOLERANCE = 0.10
MOST_PASSES = 100  # over the validation text: 100,000 steps with a validation every 1,000
# a training loss up to this much above the printed one is near enough to be compared with it
NEAR = 1.5
LEARNT = 0.1  # nats that GPT2 must gain from the context before a block can be said not to learn
LOSS = "Validation loss far below training loss"
LITERAL = "No residual around entity attention"


class Candidate(NamedTuple):
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


def judge_loss(results: Results) -> Iterator[Candidate]:
    """What could bring a validation loss far below the training loss."""
    honest = _honest_ratio(results)
    if honest is not None:
        yield _loss_row("nothing: the study's own GPT2, held-out text", honest)
    padding = Trial(results, "padding")
    for unit in UNITS_OF_TEXT if padding.there else ():
        yield from _judge_padding(results, padding, unit)
    for name, judge in (("validation-trains", _judge_trains), ("validation-seen", _judge_seen)):
        trial = Trial(results, name)
        if trial.there:
            yield judge(trial)


def _honest_ratio(results: Results) -> float | None:
    if results.baseline is None:
        return None
    train = results.by_seed(results.baseline, TRAIN_LOSS)
    dev = results.by_seed(results.baseline, Key(lm.STEP, "loss", "dev", lm.OFF))
    return summarise(dev[seed] / train[seed] for seed in train if seed in dev).mean


def _loss_row(tried: str, ratio: float, details: str = "") -> Candidate:
    train, dev = paper.TABLE2["gpt2", "train"].loss, paper.TABLE2["gpt2", "dev"].loss
    rule = f"within {TOLERANCE:.0%}; lower still: open"
    passes = _reaches(ratio, dev / train)
    return Candidate(
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


def _judge_padding(results: Results, trial: Trial, unit: str) -> Iterator[Candidate]:
    loss = {
        (split, counted): trial.take("loss", split, unit=unit, counted=counted)
        for split in ("train", "dev")
        for counted in ("all", "text")
    }
    counted = f"{unit} padded to the window, padding counted in"
    details = (
        f"dev {loss['dev', 'all']:.3f} with padding, {loss['dev', 'text']:.3f} without;"
        f" {trial.take('text_share', 'dev', unit=unit):.1%} of the predictions are text"
    )
    both, alone = (loss["dev", "all"] / loss["train", of] for of in ("all", "text"))
    yield _loss_row(f"{counted} both losses", both, details)
    yield _loss_row(f"{counted} the validation loss alone", alone, details)
    for window in trial.windows:
        share = trial.take("text_share", unit=unit, window=window)
        mean = trial.take("mean_length", unit=unit)
        text = f"mean {mean:,.0f} tokens: {share:.1%} of the predictions are text"
        yield _free_padding(f"this corpus' {unit}", window, share, loss, text)
    tokens = conll_tokens(results) if unit == "documents" else None
    for window in trial.windows if tokens else ():
        assert tokens is not None
        share = tokens / (math.ceil(tokens / int(window)) * int(window))
        text = (
            f"{tokens:,.0f} tokens by this corpus' tokens per word: {share:.1%} of the"
            " predictions are text"
        )
        yield _free_padding("CoNLL-2012's mean training document", window, share, loss, text)


def _free_padding(
    text: str, window: str, share: float, loss: Mapping[tuple[str, str], float], details: str
) -> Candidate:
    """The least ratio that padding in the validation loss alone can give: the model predicts
    padding for nothing.
    """
    printed, guessing = paper.TABLE2["gpt2", "dev"].loss, math.log(paper.VOCABULARY)
    details += f"; a loss of {printed} would be one of {printed / share:.1f} on the text"
    row = _loss_row(
        f"{text} at window {window} if padding cost nothing",
        share * loss["dev", "text"] / loss["train", "text"],
        details,
    )
    rule = f"{row.rule}; text loss below {guessing:.1f} (guessing)"
    return row._replace(rule=rule, passes=row.passes if printed / share < guessing else False)


def conll_tokens(results: Results) -> float | None:
    """Tokens of CoNLL-2012's mean training document, from the paper's words and this corpus' tokens
    per word; None where the corpus was not aligned.
    """
    rows = (results.frame.get(Key("corpus", name, "train")) for name in ("tokens", "aligned_words"))
    tokens, words = (None if row is None else row.value for row in rows)
    if not tokens or not words:
        return None
    return paper.WORDS["train"] / paper.CONLL_DOCUMENTS * tokens / words


def _judge_trains(trial: Trial) -> Candidate:
    """The printed losses themselves, not only their ratio: enough passes take any validation loss
    to zero.
    """
    train = trial.take("loss", "train")
    passes = [one for one in trial.passes if one.number <= MOST_PASSES]
    printed, least = paper.TABLE2["gpt2", "train"].loss, paper.TABLE2["gpt2", "dev"].loss
    reached = (one for one in passes if one.dev <= (1 + TOLERANCE) * least)
    at = next(reached, min(passes, key=lambda one: one.dev))
    details = (
        f"train {train:.3f}, dev {trial.take('loss', 'dev'):.3f} before the first pass and"
        f" {at.dev:.3f} after this one"
    )
    row = _loss_row(f"validation that also trains: {_passes(at.number)}", at.dev / train, details)
    rule = (
        f"{row.rule}; dev at most {(1 + TOLERANCE) * least:.3f} in {MOST_PASSES} passes; train"
        f" above {NEAR * printed:.2f}: open"
    )
    low = row.passes if at.dev <= (1 + TOLERANCE) * least else False
    return row._replace(rule=rule, passes=low if train <= NEAR * printed else None)


def _passes(number: int) -> str:
    return f"{number} pass{'es' if number > 1 else ''}"


def _judge_seen(trial: Trial) -> Candidate:
    """Judged at the pass whose training loss is nearest to the printed one."""
    printed, passes = paper.TABLE2["gpt2", "train"].loss, trial.passes
    near = min(passes, key=lambda one: abs(one.train - printed))
    held_out = trial.get("held_out_loss", "dev")
    others = (
        ""
        if held_out is None
        else f"; other dev documents {held_out:.3f} after {_passes(len(passes))}"
    )
    details = f"train {near.train:.3f} (dropout on), the dev documents read {near.dev:.3f}{others}"
    tried = f"validation text among the training text: each read {near.number} times"
    row = _loss_row(tried, near.dev / near.train, details)
    rule = f"{row.rule}; train above {NEAR * printed:.2f}: open"
    return row._replace(rule=rule, passes=row.passes if near.train <= NEAR * printed else None)


def judge_literal(results: Results) -> Iterator[Candidate]:
    """Does the block as the paper writes it, without a residual, learn?"""
    trial = Trial(results, "literal-block")
    if not trial.there:
        return
    for name, tried in (
        ("gpt2e-literal", "the literal block, no residual"),
        ("gpt2e", "a residual around it (what we do)"),
    ):
        loss, plain = (trial.take("loss", "dev", model) for model in (name, "gpt2"))
        gain, least = (trial.take("context_gain", "dev", model) for model in (name, "gpt2"))
        ratio = loss / plain
        printed = paper.TABLE2["gpt2e", "dev"].loss / paper.TABLE2["gpt2", "dev"].loss
        passes = abs(ratio / printed - 1) <= TOLERANCE and gain >= least / 2
        details = (
            f"dev {loss:.3f}, GPT2 {plain:.3f}; gained from the context"
            f" {_write(gain)}, GPT2 {_write(least)}; entropy of the"
            f" text's token frequencies {trial.take('unigram_entropy', 'dev'):.3f}"
        )
        rule = (
            f"within {TOLERANCE:.0%}; half of GPT2's gain from the context or more; that below"
            f" {LEARNT}: open"
        )
        yield Candidate(
            LITERAL,
            tried,
            "dev loss / GPT2's",
            Number(ratio, 3),
            Number(printed, 3),
            rule,
            passes if least >= LEARNT else None,
            details,
        )


def _write(nats: float) -> str:
    return f"{round(nats, 3) + 0.0:.3f}"  # no negative zero
