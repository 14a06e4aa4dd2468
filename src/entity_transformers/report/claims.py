"""The paper's claims one by one, each judged from this study's numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from entity_transformers.report import lambada, lm, ner, paper, perplexity, similarity
from entity_transformers.report.cells import Table
from entity_transformers.report.differences import (
    LEVEL,
    MARGIN,
    OPEN,
    Measured,
    compare,
    compare_spans,
    cover,
    judged_split,
    pair_seeds,
    seed_interval,
)
from entity_transformers.report.results import (
    GENERATED,
    TRAIN_LOSS,
    Results,
    Transform,
    write_label,
)
from entity_transformers.report.verdict import (
    ABSENT,
    FAILS,
    HOLDS,
    bracket,
    judge,
    judge_entities,
    weigh,
    write_signed,
)


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim of the paper, where it stands there, and what this study's numbers say about it."""

    claim: str
    source: str
    status: str
    ours: str


Judge = Callable[[Results], Finding]


def judge_claims(results: Results) -> tuple[Finding, ...]:
    """Every claim of the paper whose step this study ran, in the paper's order, with what the
    numbers say; none in a study without a model under test. Of the time of entity attention
    nothing is said where the model under test has none.
    """
    if not results.tests_a_model:
        return ()
    ours = results.proposed
    timed = ours is None or hasattr(ours.lm, "entity_gate")
    return tuple(
        build(results)
        for step, build in CLAIMS
        if results.ran(step) and (timed or build is not _time)
    )


def build_claims(results: Results) -> Table:
    """The paper's claims, one by one."""
    return Table(
        name="claims",
        title="What holds and what does not",
        columns=("Claim of the paper", "Where", "Here", "Measured here"),
        rows=tuple(
            (finding.claim, finding.source, finding.status, finding.ours)
            for finding in judge_claims(results)
        ),
        measures="Each statement is made from the numbers of this study alone.",
        note=(
            "“not shown”: the direction may be the paper's, but the interval includes zero, or"
            " there is one seed and no interval over documents. An interval over documents does not"
            " cover what another seed of the training would give; a claim that has several seeds"
            " and scores per document has to stand in both intervals."
        ),
    )


def compare_seeds(
    results: Results,
    first: Measured,
    second: Measured,
    expected: int,
    unit: str,
    transform: Transform = float,
) -> tuple[str, str]:
    """Status and text of a claim about a difference that has only seeds to judge it by."""
    differences = pair_seeds(results, first, second, transform)
    if not differences:
        return ABSENT, "not measured"
    interval = seed_interval(differences)
    text = f"{write_signed(float(np.mean(differences)))} {unit}"
    if interval is None:
        return OPEN, f"{text} (one seed, so no interval)"
    return (
        judge(interval, expected),
        f"{text} ({LEVEL:.0%} interval over {len(differences)} seeds {bracket(*interval)})",
    )


def _entities_help(results: Results) -> Finding:
    verdict = judge_entities(results)
    return Finding(
        "Coreference information makes a better language model.",
        "abstract, section 6",
        verdict.status,
        verdict.text,
    )


def _perplexity(results: Results) -> Finding:
    split, ours = judged_split(results), results.proposed
    difference = compare(results, split, ours, "on", results.baseline, "off") if split else None
    claim, source = "GPT2E and GPT2 are indistinguishable in perplexity.", "section 6, table 2"
    if difference is None or ours is None:
        return Finding(claim, source, ABSENT, "not measured")
    text = (
        f"on {split}, {write_label(ours)} minus {write_label(difference.against)}"
        f" {weigh(difference)}; indistinguishable would be within ±{MARGIN}"
    )
    return Finding(claim, source, judge(difference.widest, 0), text)


def _outside(results: Results) -> Finding:
    split = judged_split(results) or "test"
    claim = "Where no entity is present the language model is not hindered."
    if not perplexity.has_mentions(results, split):
        return Finding(claim, "section 1", ABSENT, "not measured")
    on, off = (perplexity.at(split, given, **{"class": "outside"}) for given in ("on", "off"))
    pair = (results.proposed, on), (results.baseline, off)
    status, text = compare_seeds(results, *pair, -1, "nats per token outside mentions")
    interval = seed_interval(pair_seeds(results, *pair))
    if status == OPEN and interval is not None and interval[1] < MARGIN:
        status = HOLDS  # not worse is all that is claimed
    return Finding(claim, "section 1", status, text)


def _validation(results: Results) -> Finding:
    train, dev = (
        results.statistic(results.proposed, key).mean
        for key in (TRAIN_LOSS, perplexity.at("dev", "on"))
    )
    claim, source = (
        "Validation loss lies far below training loss (0.187 against 1.71 nats).",
        "table 2",
    )
    if train is None or dev is None:
        return Finding(claim, source, ABSENT, "not measured")
    text = (
        f"{dev:.3f} against {train:.3f} nats per token; text never trained on, every token counted"
        " once"
    )
    return Finding(claim, source, HOLDS if dev < train / 2 else FAILS, text)


def _time(results: Results) -> Finding:
    """Two trainings are compared only where they ran on the same kind of device with as many
    threads and processes.
    """
    claim, source = "Entity attention adds about 2% to the time of training.", "section 5"
    ours, theirs = results.proposed, results.baseline
    seconds = [
        None if model is None else lm.read_timing(results, model, "seconds_per_step").mean
        for model in (ours, theirs)
    ]
    if ours is None or theirs is None or seconds[0] is None or not seconds[1]:
        return Finding(claim, source, ABSENT, "not measured")
    if len(lm.list_machines(results, ours, theirs)) > 1:
        return Finding(
            claim,
            source,
            ABSENT,
            "not measured: the trainings differ in device, threads or processes",
        )
    ratio = seconds[0] / seconds[1]
    text = f"{ratio - 1:+.1%} per step".replace("-", "−")
    if any("device=cpu" in machine for machine in lm.list_machines(results, ours, theirs)):
        text = f"not measured: {text} on a processor; the paper's is of GPT2-small on a GPU"
        return Finding(claim, source, ABSENT, text)
    return Finding(claim, source, HOLDS if 0.99 < ratio < 1.03 else FAILS, text)


def _lambada(results: Results) -> Finding:
    ours, theirs = results.proposed, results.baseline
    key = lambada.at("perplexity")
    word = compare(results, lambada.SPLIT, ours, "off", theirs, "off")
    unit = "nats per token of the passage"
    status, text = compare_seeds(results, (ours, key), (theirs, key), -1, unit, math.log)
    if word is not None:
        status = judge(word.widest, -1)
        text = f"last word {weigh(word, 'passage')}; {text}"
    if (guess := lambada.say_guess(results, results.pair)) and text != "not measured":
        text += f". {guess}"
    if results.passages == GENERATED:
        status, text = ABSENT, f"not measured: these passages are generated; there {text}"
    return Finding("GPT2E has the lower perplexity on LAMBADA.", "section 5, table 3", status, text)


def _contextless(results: Results) -> Finding:
    gaps = []
    for group in paper.TABLE4_TAGS:
        on, off = (
            (results.proposed, similarity.at(group, "words", entities, "mention_similarity"))
            for entities in ("on", "off")
        )
        gaps += [abs(gap) for gap in pair_seeds(results, on, off)]
    claim, source = (
        (
            "Similarity between mentions (words without context) is the same with and without"
            " entities."
        ),
        "section 5, table 4",
    )
    if not gaps:
        return Finding(claim, source, ABSENT, "not measured")
    return Finding(
        claim,
        source,
        HOLDS if max(gaps) < 5e-5 else FAILS,
        f"largest gap {max(gaps):.5f}; so by construction where values are hidden states: a word"
        " alone has one key",
    )


def _similarity(
    group: str, measure: str, against: str, expected: int, claim: str
) -> tuple[str, Judge]:
    """A claim about the proposed model with entities, against itself without or the baseline."""

    def build(results: Results) -> Finding:
        on, off = (similarity.at(group, "words", given, measure) for given in ("on", "off"))
        other = results.baseline if against == "baseline" else results.proposed
        first, second = (results.proposed, on), (other, off)
        status, text = compare_seeds(results, first, second, expected, "cosine")
        return Finding(claim, "section 5, table 4", status, text)

    return similarity.STEP, build


def _ner(results: Results) -> Finding:
    ours, theirs = results.proposed, results.baseline
    one, other = (ner.read_scores(results, model, ner.F1) for model in (ours, theirs))
    gaps = [100 * one[seed] - 100 * other[seed] for seed in one if seed in other]
    over_seeds = seed_interval(gaps)
    status, text = ABSENT, "not measured"
    if gaps:
        text = f"{write_signed(float(np.mean(gaps)))} points of micro-F1, strict spans"
        status = OPEN if over_seeds is None else judge(over_seeds, 1)
        text += (
            " (one seed, so no interval)"
            if over_seeds is None
            else f" ({LEVEL:.0%} interval over {len(gaps)} seeds {bracket(*over_seeds)})"
        )
    found = compare_spans(results, ours, theirs)
    if found is not None and found["interval"] is not None:
        low, high = (100 * bound for bound in found["interval"])
        status = judge(cover((low, high), over_seeds), 1)
        text = (
            f"{write_signed(100 * found['difference'])} points of micro-F1, strict spans,"
            f" {LEVEL:.0%} interval over documents {bracket(low, high)}"
        )
        text += f", over {len(gaps)} seeds {bracket(*over_seeds)}" if over_seeds else ""
    return Finding(
        "GPT2E's word vectors give a better named entity recogniser (+3 points F1).",
        "section 5, table 5",
        status,
        text,
    )


CLAIMS: tuple[tuple[str, Judge], ...] = (
    (perplexity.STEP, _entities_help),
    (perplexity.STEP, _perplexity),
    (perplexity.STEP, _outside),
    (perplexity.STEP, _validation),
    (lm.STEP, _time),
    (lambada.STEP, _lambada),
    (similarity.STEP, _contextless),
    *(
        _similarity(
            group,
            "mention_similarity",
            "baseline",
            1,
            f"Mentions that are {group} are more alike in GPT2E.",
        )
        for group in paper.TABLE4_TAGS
    ),
    _similarity(
        "nouns",
        "entity_similarity",
        "proposed",
        1,
        "Entities bring nouns closer to their entity's vector.",
    ),
    _similarity(
        "pronouns",
        "entity_similarity",
        "proposed",
        -1,
        "Entities take pronouns away from their entity's vector.",
    ),
    (ner.STEP, _ner),
)
