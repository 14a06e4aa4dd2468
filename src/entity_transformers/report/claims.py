"""What the numbers allow to say: the verdict on entities, and the paper's claims one by one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from entity_transformers.report import paper
from entity_transformers.report.cells import Number
from entity_transformers.report.differences import (
    LEVEL,
    Difference,
    compare,
    compare_all,
    compare_spans,
    cover,
    judged_split,
    pair_seeds,
    seed_interval,
)
from entity_transformers.report.results import (
    CONTROLS,
    Results,
    Run,
    Value,
    name_model,
    read_class,
    read_loss,
    read_ner,
    read_similarity,
)

MARGIN = 0.02  # nats per token, 2 % of perplexity: what counts as no difference
HOLDS, OPEN, FAILS, ABSENT = "holds", "not shown", "contradicted", "not measured"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Does entity information help? ``status`` is one of the four, ``text`` says it with the
    numbers.
    """

    status: str
    text: str
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim of the paper, where it stands there, and what this study's numbers say about it."""

    claim: str
    source: str
    status: str
    ours: str


def judge_entities(results: Results) -> Verdict:
    """Entities help only if GPT2E beats the same weights unlabelled, shuffled labels and a GPT2 of
    its size, beyond the interval.
    """
    split = judged_split(results)
    if split is None or not any(run.documents is not None for run in results.of("gpt2e")):
        return Verdict(
            ABSENT,
            "Whether entity information helps was not tested: GPT2E has no scores per document.",
            (),
        )
    differences = tuple(d for d in compare_all(results, split) if d.against in CONTROLS)
    unbeaten = [d for d in differences if not d.beats]
    missing = [
        name_model(model) for model in CONTROLS if model not in {d.against for d in differences}
    ]
    if unbeaten:
        text = (
            f"Entity information does not help beyond the interval: on {split} GPT2E does not beat"
            f" {_list(map(_describe, unbeaten))}."
        )
        text += f" Not run: {_list(missing)}." if missing else ""
        return Verdict(
            FAILS if any(d.widest is not None and d.widest[0] > 0 for d in unbeaten) else OPEN,
            text,
            differences,
        )
    if missing:
        text = (
            f"Whether entity information helps is not decided: the controls {_list(missing)} were"
            " not run."
        )
        return Verdict(ABSENT, text, differences)
    return Verdict(
        HOLDS,
        f"Entity information helps: on {split} GPT2E beats {_list(map(_describe, differences))}.",
        differences,
    )


def _describe(difference: Difference) -> str:
    return (
        f"{name_model(difference.against)} (difference {_signed(difference.value)} nats per token,"
        f" {_intervals(difference, 'document')})"
    )


def _intervals(difference: Difference, unit: str) -> str:
    """The intervals over documents (or passages) and, where there are several, over seeds."""
    if difference.low is None:
        return "no interval"
    text = f"{LEVEL:.0%} interval over {unit}s {_bracket(difference.low, difference.high)}"
    return (
        f"{text}, over {difference.seeds} seeds {_bracket(*difference.over_seeds)}"
        if difference.over_seeds
        else f"{text}, one seed"
    )


def _signed(value: float | None, digits: int = 4) -> str:
    return str(Number(value, digits, signed=True))


def _list(items: Iterable[str]) -> str:
    texts = list(items)
    return (
        texts[0]
        if len(texts) == 1
        else ", ".join(texts[:-1]) + " and " + texts[-1]
        if texts
        else ""
    )


def judge(interval: tuple[float, float] | None, expected: int) -> str:
    """``expected`` sign of a difference against its interval; 0: none, so the interval must lie
    within ± `MARGIN`.
    """
    if interval is None:
        return OPEN
    low, high = interval
    if expected == 0:
        return HOLDS if low > -MARGIN and high < MARGIN else OPEN if low <= 0 <= high else FAILS
    if low <= 0 <= high:
        return OPEN
    return HOLDS if (low > 0) == (expected > 0) else FAILS


def compare_seeds(
    results: Results, first: tuple[str, Value], second: tuple[str, Value], expected: int, unit: str
) -> tuple[str, str]:
    """Status and text of a claim about a difference that has only seeds to judge it by."""
    differences = pair_seeds(results, first, second)
    if not differences:
        return ABSENT, "not measured"
    interval = seed_interval(differences)
    text = f"{_signed(float(np.mean(differences)))} {unit}"
    if interval is None:
        return OPEN, f"{text} (one seed, so no interval)"
    return (
        judge(interval, expected),
        f"{text} ({LEVEL:.0%} interval over {len(differences)} seeds {_bracket(*interval)})",
    )


def judge_claims(results: Results) -> tuple[Finding, ...]:
    """Every claim of the paper that this study measures, in the paper's order, with what the
    numbers say.
    """
    return tuple(build(results) for build in CLAIMS)


def _entities_help(results: Results) -> Finding:
    verdict = judge_entities(results)
    return Finding(
        "Coreference information makes a better language model.",
        "abstract, section 6",
        verdict.status,
        verdict.text,
    )


def _perplexity(results: Results) -> Finding:
    split = judged_split(results)
    difference = compare(results, split, "gpt2e", "on", "gpt2", "off") if split else None
    claim, source = "GPT2E and GPT2 are indistinguishable in perplexity.", "section 6, table 2"
    if difference is None:
        return Finding(claim, source, ABSENT, "not measured")
    text = f"on {split}, GPT2E against {_describe(difference)}; the same is within ±{MARGIN}"
    return Finding(claim, source, judge(difference.widest, 0), text)


def _outside(results: Results) -> Finding:
    split = judged_split(results) or "test"
    ours, theirs = (
        ("gpt2e", read_class(split, "outside", "on")),
        (
            "gpt2",
            read_class(split, "outside", "off"),
        ),
    )
    status, text = compare_seeds(results, ours, theirs, -1, "nats per token outside mentions")
    interval = seed_interval(pair_seeds(results, ours, theirs))
    if status == OPEN and interval is not None and interval[1] < MARGIN:
        status = HOLDS  # not worse is all that is claimed
    return Finding(
        "Where no entity is present the language model is not hindered.", "section 1", status, text
    )


def _validation(results: Results) -> Finding:
    train, dev = (
        results.statistic("gpt2e", value).mean for value in (_train_loss, read_loss("dev", "on"))
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


def _train_loss(run: Run) -> float | None:
    return None if run.training is None else run.training["train_loss"]


def _time(results: Results) -> Finding:
    """Two trainings are compared only where they ran on the same kind of device with as many
    threads and processes.
    """
    machines = {
        _machine(run)
        for model in ("gpt2e", "gpt2")
        for run in results.of(model)
        if run.timing is not None
    }
    seconds = [
        results.statistic(model, lambda run: run.timing["seconds_per_step"]).mean
        for model in ("gpt2e", "gpt2")
    ]  # type: ignore[index]
    claim, source = "Entity attention adds about 2% to the time of training.", "section 5"
    if seconds[0] is None or not seconds[1]:
        return Finding(claim, source, ABSENT, "not measured")
    if len(machines) > 1:
        return Finding(
            claim,
            source,
            ABSENT,
            "not measured: the trainings differ in device, threads or processes",
        )
    ratio = seconds[0] / seconds[1]
    return Finding(
        claim,
        source,
        HOLDS if 0.99 < ratio < 1.03 else FAILS,
        f"{ratio - 1:+.1%} a step".replace("-", "−"),
    )


def _machine(run: Run) -> tuple[str | None, int | None, int]:
    timing: Mapping[str, Any] = run.timing or {}
    return timing.get("device"), timing.get("threads"), timing.get("processes", 1)


def _lambada(results: Results) -> Finding:
    def read(run: Run) -> float:
        return math.log(run.lambada["passage"]["perplexity_token"])  # type: ignore[index]

    word = compare(results, "lambada", "gpt2e", "off", "gpt2", "off")
    status, text = compare_seeds(
        results, ("gpt2e", read), ("gpt2", read), -1, "nats per token of the passage"
    )
    if word is not None:
        status = judge(word.widest, -1)
        text = f"last word {_weigh(word, 'passage')}; {text}"
    return Finding("GPT2E has the lower perplexity on LAMBADA.", "section 5, table 3", status, text)


def _contextless(results: Results) -> Finding:
    gaps = []
    for group in paper.TABLE4_TAGS:
        on, off = (
            ("gpt2e", read_similarity(group, "words", condition, "mention_similarity"))
            for condition in ("on", "off")
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
    group: str,
    measure: str,
    first: tuple[str, str],
    second: tuple[str, str],
    expected: int,
    claim: str,
) -> Claim:
    def build(results: Results) -> Finding:
        ours, theirs = (
            (model, read_similarity(group, "words", condition, measure))
            for model, condition in (first, second)
        )
        status, text = compare_seeds(results, ours, theirs, expected, "cosine")
        return Finding(claim, "section 5, table 4", status, text)

    return build


def _read_f1(run: Run) -> float | None:
    f1 = read_ner("span", "micro", "f1")(run)
    return None if f1 is None else 100 * f1


def _ner(results: Results) -> Finding:
    pair: tuple[tuple[str, Value], tuple[str, Value]] = ("gpt2e", _read_f1), ("gpt2", _read_f1)
    status, text = compare_seeds(results, *pair, 1, "points of micro-F1, strict spans")
    found = compare_spans(results, "gpt2e", "gpt2")
    if found is not None and found["interval"] is not None:
        low, high = (100 * bound for bound in found["interval"])
        gaps = pair_seeds(results, *pair)
        over_seeds = seed_interval(gaps)
        status = judge(cover((low, high), over_seeds), 1)
        text = (
            f"{_signed(100 * found['difference'])} points of micro-F1, strict spans, {LEVEL:.0%}"
            " interval over documents "
        )
        text += _bracket(low, high) + (
            f", over {len(gaps)} seeds {_bracket(*over_seeds)}" if over_seeds else ""
        )
    return Finding(
        "GPT2E's word vectors give a better named entity recogniser (+3 points F1).",
        "section 5, table 5",
        status,
        text,
    )


Claim = Callable[[Results], Finding]
CLAIMS: tuple[Claim, ...] = (
    _entities_help,
    _perplexity,
    _outside,
    _validation,
    _time,
    _lambada,
    _contextless,
    *(
        _similarity(
            group,
            "mention_similarity",
            ("gpt2e", "on"),
            ("gpt2", "off"),
            1,
            f"Mentions that are {group} are more alike in GPT2E.",
        )
        for group in paper.TABLE4_TAGS
    ),
    _similarity(
        "nouns",
        "entity_similarity",
        ("gpt2e", "on"),
        ("gpt2e", "off"),
        1,
        "Entities bring nouns closer to their entity's vector.",
    ),
    _similarity(
        "pronouns",
        "entity_similarity",
        ("gpt2e", "on"),
        ("gpt2e", "off"),
        -1,
        "Entities take pronouns away from their entity's vector.",
    ),
    _ner,
)


def write_headline(results: Results) -> tuple[str, ...]:
    """The sentences that open the report, each made from the numbers: perplexity, the verdict on
    entities, LAMBADA, NER.
    """
    sentences = (
        _say_perplexity(results),
        judge_entities(results).text,
        _say_pair(results, _LAMBADA),
        _say_pair(results, _NER),
    )
    return tuple(sentence for sentence in sentences if sentence)


def _say_perplexity(results: Results) -> str:
    split = judged_split(results)
    if split is None:
        return ""
    said = []
    for model in results.pair:
        on, off = (
            results.statistic(model, read_loss(split, condition, "perplexity")).mean
            for condition in ("on", "off")
        )
        entities = (
            f" with entities and {off:.2f} without" if model == "gpt2e" and off is not None else ""
        )
        said += [f"{name_model(model)} {on:.2f}{entities}"] if on is not None else []
    difference = compare(results, split, "gpt2e", "on", "gpt2", "off")
    tail = "" if difference is None else f" The difference is {_weigh(difference)}."
    return f"Perplexity per token on {split}: {'; '.join(said)}.{tail}" if said else ""


def _weigh(difference: Difference, unit: str = "token") -> str:
    if difference.widest is None:
        return f"{_signed(difference.value)} nats per {unit}, without an interval"
    low, high = difference.widest
    zero = "zero is within" if low <= 0 <= high else "zero is outside"
    return (
        f"{_signed(difference.value)} nats per {unit},"
        f" {_intervals(difference, 'passage' if unit == 'passage' else 'document')}: {zero}"
    )


_LAMBADA: tuple[str, Value] = (
    "Last-word perplexity on LAMBADA: {}.",
    lambda run: run.lambada["last_word"]["perplexity"],  # type: ignore[index]
)
_NER: tuple[str, Value] = (
    "Strict span F1 of the named entity recogniser (in points): {}.",
    _read_f1,
)


def _say_pair(results: Results, what: tuple[str, Value]) -> str:
    template, value = what
    means = {model: results.statistic(model, value).mean for model in results.pair}
    said = [
        f"{name_model(model)} {Number(mean)}" for model, mean in means.items() if mean is not None
    ]
    return template.format("; ".join(said)) if said else ""


def _bracket(low: float | None, high: float | None) -> str:
    return f"[{_signed(low)}, {_signed(high)}]"
