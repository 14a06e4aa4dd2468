"""The paper's claims one by one, each judged from this study's numbers; the verdict on entities;
and the sentences that open the report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import intervals, paper, perplexity, vectors
from entity_transformers.report.intervals import (
    ABSENT,
    FAILS,
    HOLDS,
    INERT,
    INTERVAL,
    LEVEL,
    MARGIN,
    OPEN,
    SMALLER,
    UNUSED,
    Estimate,
    Side,
    loss,
)
from entity_transformers.report.results import (
    GENERATED,
    TRAIN_LOSS,
    Results,
    Transform,
    has_entities,
    write_label,
    write_pair,
)
from entity_transformers.report.table import Number, Table

VERDICTS = {
    HOLDS: "Entity information helps",
    FAILS: "Entity information does not help",
    OPEN: "This study does not show that entity information helps",
    ABSENT: "Whether entity information helps was not measured",
    UNUSED: "The memory was not used",
}
Judged = tuple[str, str]
"""Status of a claim, and what was measured."""
NOT_MEASURED: Judged = (ABSENT, "not measured")


class Claim(NamedTuple):
    """The step that measures what the paper claims, where it stands, and how it is judged."""

    step: str
    source: str
    judge: Callable[[Results], Judged]


def build_claims(results: Results) -> Table:
    """Every claim of the paper whose step this study ran; none in a study without a model under
    test, or one that is not compared with the paper.
    """
    compared = results.tests_a_model and results.paper
    asked = CLAIMS.items() if compared else ()
    return Table(
        name="claims",
        title="What holds and what does not",
        columns=("Claim of the paper", "Where", "Here", "Measured here"),
        rows=tuple(
            (text, source, *judge(results))
            for text, (step, source, judge) in asked
            if results.ran(step)
        ),
        measures="Each claim is judged by the numbers of this study alone.",
        note=f"""{INTERVAL} {OPEN.capitalize()}: the interval includes zero or could not be
            computed. {SMALLER.capitalize()}: an effect as large as the paper's lies outside the
            interval, whatever the sign. {UNUSED.capitalize()}: what the memory is given changes
            less than {INERT} nats per token.""",
    )


def judge_entities(results: Results) -> Judged:
    """Does entity information help? Only if GPT2E beats the same weights unlabelled, shuffled
    labels and a GPT2 of its size, beyond the interval; the differences stand in table controls.
    """
    split, ours = intervals.judged_split(results), results.proposed
    found = {(against, given): gap for against, given, gap in intervals.compare_all(results)}
    if ours is None or not found:
        name = "GPT2E" if ours is None else write_label(ours)
        return ABSENT, f"{VERDICTS[ABSENT]}: {name} has no scores per document."
    own = [abs(gap.value) for (against, _), gap in found.items() if against == ours]
    if own and max(own) < INERT:
        less = f"differ by less than {INERT} nats per token on {split}."
        return UNUSED, f"{VERDICTS[UNUSED]}: entities on, off and shuffled {less}"
    controls = perplexity.needed_controls(results).values()
    needed = {entry.name for entries in controls for entry in entries}
    met = {against: gap for (against, _), gap in found.items() if against.name in needed}
    unbeaten = {against: gap for against, gap in met.items() if not gap.beats}
    missing = _list(perplexity.list_missing_controls(results, met))
    where = f"on {split} {write_label(ours)}"
    if unbeaten:
        worse = any(gap.low is not None and gap.low > 0 for gap in unbeaten.values())
        status, tail = FAILS if worse else OPEN, f" Not run: {missing}." if missing else ""
        names = _list(map(write_label, unbeaten), "or")
        return status, f"{VERDICTS[status]}: {where} does not beat {names}.{tail}"
    if missing:
        return ABSENT, f"{VERDICTS[ABSENT]}: the controls {missing} were not run."
    return HOLDS, f"{VERDICTS[HOLDS]}: {where} beats {_list(map(write_label, met))}."


def _list(items: Iterable[str], word: str = "and") -> str:
    *most, last = [*items] or [""]
    return f" {word} ".join([", ".join(most), last] if most else [last])


def _sign(value: float) -> str:
    return str(Number(value, 4, signed=True))


def _bracket(found: Estimate, scale: float = 1.0) -> str:
    """The interval, and what it is over."""
    if found.interval is None:
        return "no interval"
    low, high = (_sign(scale * bound) for bound in found.interval)
    seeds = f"{found.seeds} seeds" if found.seeds > 1 else "one seed"
    if not found.units:
        return f"{LEVEL:.0%} interval over {seeds} [{low}, {high}]"
    return f"{LEVEL:.0%} interval [{low}, {high}], {found.units:,} units, {seeds}"


def _weigh(found: Estimate, unit: str = "token") -> str:
    """A difference with its interval, and in a word what this says."""
    text = f"{_sign(found.value)} nats per {unit}"
    if found.interval is None:
        return f"{text}, without an interval"
    said = intervals.name_difference(found.interval, None if unit == "passage" else MARGIN)
    return f"{text}, {_bracket(found)}: {said}"


def _compare_seeds(
    results: Results,
    first: Side,
    second: Side,
    expected: int,
    unit: str,
    transform: Transform = float,
    printed: float | None = None,
) -> Judged:
    """A claim about a difference that has only seeds to judge it by."""
    gap = intervals.compare_seeds(results, first, second, transform)
    if gap is None:
        return NOT_MEASURED
    how = _bracket(gap) if gap.interval else "one seed, so no interval"
    status = intervals.judge(gap.interval, expected, printed)
    return status, f"{_sign(gap.value)} {unit} ({how})"


def _perplexity(results: Results) -> Judged:
    ours, theirs = results.proposed, results.baseline
    gap = intervals.compare_loss(results, theirs, "off")
    if gap is None or ours is None or theirs is None:
        return NOT_MEASURED
    pair = write_pair(ours, theirs, "minus")
    text = f"on {intervals.judged_split(results)}, {pair} {_weigh(gap)}"
    status = intervals.judge(gap.interval, 0)
    return status, f"{text}; indistinguishable would be within ±{MARGIN}"


def _outside(results: Results) -> Judged:
    split = intervals.judged_split(results) or "test"
    if not perplexity.has_mentions(results, split):
        return NOT_MEASURED
    on, off = (loss(split, given, class_="outside") for given in ("on", "off"))
    pair = (results.proposed, on), (results.baseline, off)
    status, text = _compare_seeds(results, *pair, -1, "nats per token outside mentions")
    gap = intervals.compare_seeds(results, *pair)
    if status == OPEN and gap and gap.interval and gap.interval[1] < MARGIN:
        status = HOLDS  # not worse is all that is claimed
    return status, text


def _validation(results: Results) -> Judged:
    keys = TRAIN_LOSS, loss("dev", "on")
    train, dev = (results.statistic(results.proposed, key).value for key in keys)
    if train is None or dev is None:
        return NOT_MEASURED
    text = f"{dev:.3f} against {train:.3f} nats per token; text never trained on, every token"
    return HOLDS if dev < train / 2 else FAILS, f"{text} counted once"


def _lambada(results: Results) -> Judged:
    ours, theirs = results.proposed, results.baseline
    key, unit = perplexity.lambada_key("perplexity"), "nats per token of the passage"
    word = intervals.compare(results, (ours, perplexity.LAST_WORD), (theirs, perplexity.LAST_WORD))
    status, text = _compare_seeds(results, (ours, key), (theirs, key), -1, unit, math.log)
    if word is not None:
        printed = math.log(paper.TABLE3["gpt2e"] / paper.TABLE3["gpt2"])
        status = intervals.judge(word.interval, -1, printed)
        text = f"last word {_weigh(word, 'passage')}; {text}"
    if results.passages == GENERATED:
        return ABSENT, f"not measured: these passages are generated; there {text}"
    return status, text


def _similarity(group: str, of: str, expected: int, against: str) -> Callable[[Results], Judged]:
    """The model under test with entities against itself without ("off") or the baseline."""
    measure = f"{of}_similarity"
    off, on, gpt2 = paper.TABLE4[group, measure]

    def judge(results: Results) -> Judged:
        itself = against == "off"
        other, printed = (results.proposed, off) if itself else (results.baseline, gpt2)
        keys = (vectors.similarity_key(group, "words", given, measure) for given in ("on", "off"))
        ours, theirs = zip((results.proposed, other), keys, strict=True)
        return _compare_seeds(results, ours, theirs, expected, "cosine", printed=on - printed)

    return judge


def _ner(results: Results) -> Judged:
    ours, theirs = (paper.TABLE5[model, paper.OVERALL].f1 for model in ("gpt2e", "gpt2"))
    found = intervals.compare(
        results, (results.proposed, vectors.F1), (results.baseline, vectors.F1)
    )
    if found is None:
        return NOT_MEASURED
    text = f"{_sign(100 * found.value)} points of micro-F1, strict spans"
    return intervals.judge(found.interval, 1, ours - theirs), f"{text}, {_bracket(found, 100)}"


IN_TABLE4 = "similarity", "section 5, table 4"
CLAIMS = {
    "Coreference information makes a better language model.": Claim(
        "perplexity", "abstract, section 6", judge_entities
    ),
    "GPT2E and GPT2 are indistinguishable in perplexity.": Claim(
        "perplexity", "section 6, table 2", _perplexity
    ),
    "Where no entity is present the language model is not hindered.": Claim(
        "perplexity", "section 1", _outside
    ),
    "Validation loss lies far below training loss (0.187 against 1.71 nats).": Claim(
        "perplexity", "table 2", _validation
    ),
    "GPT2E has the lower perplexity on LAMBADA.": Claim("lambada", "section 5, table 3", _lambada),
    "Mentions that are nouns are more alike in GPT2E.": Claim(
        *IN_TABLE4, _similarity("nouns", "mention", 1, "GPT2")
    ),
    "Mentions that are pronouns are more alike in GPT2E.": Claim(
        *IN_TABLE4, _similarity("pronouns", "mention", 1, "GPT2")
    ),
    "Entities bring nouns closer to their entity's vector.": Claim(
        *IN_TABLE4, _similarity("nouns", "entity", 1, "off")
    ),
    "Entities take pronouns away from their entity's vector.": Claim(
        *IN_TABLE4, _similarity("pronouns", "entity", -1, "off")
    ),
    "GPT2E's word vectors give a better named entity recogniser (+3 points F1).": Claim(
        "ner", "section 5, table 5", _ner
    ),
}


def say_perplexity(results: Results) -> str:
    """Of the models that the paper compares; of a study without a model under test, from the lowest
    to the highest.
    """
    split = intervals.judged_split(results)

    def read(model: ModelEntry, given: str) -> float | None:
        return results.statistic(model, loss(split or "", given, "perplexity")).value

    if not results.tests_a_model:
        means = {model: read(model, "off") for model in results.trained}
        known = {model: mean for model, mean in means.items() if mean is not None}
        order = sorted(known, key=known.__getitem__)
        ends = dict.fromkeys((*order[:1], *order[-1:]))
        named = [f"{known[model]:,.2f} ({write_label(model)})" for model in ends]
        span = f"from {' to '.join(named)}" if len(named) > 1 else "".join(named)
        return f"Perplexity per token on {split}: {span}." if named else ""
    said = []
    for model in results.pair if split else ():
        on, off = read(model, "on"), read(model, "off")
        if on is not None and model.can({"entities"}):
            without = "" if off is None else f" and {off:.2f} without"
            said.append(f"{write_label(model)} {on:.2f} with entities{without}")
        elif off is not None:
            said.append(f"{write_label(model)} {off:.2f}")
    gap = intervals.compare_loss(results, results.baseline, "off")
    tail = "" if gap is None else f" The difference is {_weigh(gap)}."
    return f"Perplexity per token on {split}: {'; '.join(said)}.{tail}" if said else ""


def say_counting(results: Results) -> str:
    """Which models that learn predict the text no better than counting n-grams; "" if none."""
    split = intervals.judged_split(results) or ""
    counted: list[float] = []
    learnt: list[tuple[float, str]] = []
    for model in results.trained:
        given = "on" if has_entities(model) else "off"
        mean = results.statistic(model, loss(split, given, "perplexity")).value
        if mean is not None and model.kind.era == "counts":
            counted.append(mean)
        elif mean is not None:
            learnt.append((mean, write_label(model)))
    worse = [
        f"{label}'s {mean:.2f}" for mean, label in sorted(learnt) if mean > min(counted or [mean])
    ]
    if not worse:
        return ""
    least = f"Counting n-grams has a perplexity of {min(counted):.2f} on {split}"
    return f"{least}: below {', '.join(worse)}."
