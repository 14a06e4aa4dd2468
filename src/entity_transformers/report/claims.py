"""The paper's claims one by one, each judged from this study's numbers; the verdict on entities;
and the sentences that open the report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import intervals, lambada, ner, paper, perplexity, similarity
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
    Difference,
    Estimate,
    Interval,
    Side,
)
from entity_transformers.report.results import (
    GENERATED,
    TRAIN_LOSS,
    Results,
    Transform,
    write_label,
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
CLAIMS: list[tuple[str, str, str, Callable[[Results], Judged]]] = []
"""In the paper's order: the step that measures it, the claim, where it stands, and its judge."""


def build_claims(results: Results) -> Table:
    """Every claim of the paper whose step this study ran; none in a study without a model under
    test, or one that is not compared with the paper.
    """
    compared = results.tests_a_model and results.paper
    asked = [one for one in CLAIMS if compared and results.ran(one[0])]
    judged = [(text, source, judge(results)) for _, text, source, judge in asked]
    return Table(
        name="claims",
        title="What holds and what does not",
        columns=("Claim of the paper", "Where", "Here", "Measured here"),
        rows=tuple((text, source, *found) for text, source, found in judged),
        measures="Each claim is judged by the numbers of this study alone.",
        note=(
            f"{INTERVAL} {OPEN.capitalize()}: the interval includes zero or could not be computed."
            f" {SMALLER.capitalize()}: the sign is the paper's, but its effect lies outside the"
            f" interval. {UNUSED.capitalize()}: what the memory is given changes less than"
            f" {INERT} nats per token."
        ),
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """Does entity information help? ``text`` says it with the numbers, ``short`` without."""

    status: str
    text: str
    short: str


def judge_entities(results: Results) -> Verdict:
    """Entities help only if GPT2E beats the same weights unlabelled, shuffled labels and a GPT2 of
    its size, beyond the interval.
    """
    split, ours = intervals.judged_split(results), results.proposed
    found = intervals.compare_all(results, split)
    if split is None or ours is None or not found:
        name = "GPT2E" if ours is None else write_label(ours)
        return _say_verdict(ABSENT, f": {name} has no scores per document.")
    own = [abs(one.found.value) for one in found if one.against == ours]
    if own and max(own) < INERT:
        less = f"differ by less than {INERT} nats per token on {split}."
        return _say_verdict(UNUSED, f": entities on, off and shuffled {less}")
    controls = perplexity.needed_controls(results).values()
    needed = {entry.name for entries in controls for entry in entries}
    differences = tuple(one for one in found if one.against.name in needed)
    unbeaten = [one for one in differences if not one.found.beats]
    missing = _list(perplexity.list_missing_controls(results, differences))
    where = f": on {split} {write_label(ours)}"
    if unbeaten:
        worse = any(one.found.interval and one.found.interval[0] > 0 for one in unbeaten)
        tail = f". Not run: {missing}." if missing else "."
        return _say_verdict(FAILS if worse else OPEN, f"{where} does not beat ", unbeaten, tail)
    if missing:
        return _say_verdict(ABSENT, f": the controls {missing} were not run.")
    return _say_verdict(HOLDS, f"{where} beats ", differences, ".")


def _say_verdict(
    status: str, text: str, differences: Sequence[Difference] = (), tail: str = ""
) -> Verdict:
    names = [write_label(one.against) for one in differences]
    numbers = [
        f"{name} (difference {_sign(one.found.value)} nats per token, {_bracket(one.found)})"
        for name, one in zip(names, differences, strict=True)
    ]
    long, short = (f"{VERDICTS[status]}{text}{_list(one)}{tail}" for one in (numbers, names))
    return Verdict(status, long, short)


def _list(items: Iterable[str]) -> str:
    *most, last = [*items] or [""]
    return " and ".join([", ".join(most), last] if most else [last])


def _sign(value: float) -> str:
    return str(Number(value, 4, signed=True))


def _write(interval: Interval, scale: float = 1.0) -> str:
    return f"[{_sign(scale * interval[0])}, {_sign(scale * interval[1])}]"


def _bracket(found: Estimate, scale: float = 1.0) -> str:
    """The interval, and what it is over."""
    if found.interval is None:
        return "no interval"
    seeds = f"{found.seeds} seeds" if found.seeds > 1 else "one seed"
    return f"{LEVEL:.0%} interval {_write(found.interval, scale)}, {found.units:,} units, {seeds}"


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
    text = f"{_sign(gap.value)} {unit}"
    if gap.interval is None:
        return OPEN, f"{text} (one seed, so no interval)"
    over = f"{LEVEL:.0%} interval over {gap.seeds} seeds {_write(gap.interval)}"
    return intervals.judge(gap.interval, expected, printed), f"{text} ({over})"


def claim(step: str, source: str, text: str) -> Callable[[Callable[..., Judged]], None]:
    """Registers the judge of a claim."""
    return lambda judge: CLAIMS.append((step, text, source, judge))


@claim(
    "perplexity", "abstract, section 6", "Coreference information makes a better language model."
)
def _entities_help(results: Results) -> Judged:
    verdict = judge_entities(results)
    return verdict.status, verdict.text


@claim("perplexity", "section 6, table 2", "GPT2E and GPT2 are indistinguishable in perplexity.")
def _perplexity(results: Results) -> Judged:
    gap = intervals.compare_baseline(results)
    if gap is None:
        return NOT_MEASURED
    text = (
        f"on {gap.split}, {write_label(gap.model)} minus {write_label(gap.against)}"
        f" {_weigh(gap.found)}; indistinguishable would be within ±{MARGIN}"
    )
    return intervals.judge(gap.found.interval, 0), text


@claim("perplexity", "section 1", "Where no entity is present the language model is not hindered.")
def _outside(results: Results) -> Judged:
    split = intervals.judged_split(results) or "test"
    if not perplexity.has_mentions(results, split):
        return NOT_MEASURED
    on, off = (perplexity.at(split, given, class_="outside") for given in ("on", "off"))
    pair = (results.proposed, on), (results.baseline, off)
    status, text = _compare_seeds(results, *pair, -1, "nats per token outside mentions")
    gap = intervals.compare_seeds(results, *pair)
    if status == OPEN and gap and gap.interval and gap.interval[1] < MARGIN:
        status = HOLDS  # not worse is all that is claimed
    return status, text


@claim(
    "perplexity",
    "table 2",
    "Validation loss lies far below training loss (0.187 against 1.71 nats).",
)
def _validation(results: Results) -> Judged:
    keys = TRAIN_LOSS, perplexity.at("dev", "on")
    train, dev = (results.statistic(results.proposed, key).mean for key in keys)
    if train is None or dev is None:
        return NOT_MEASURED
    text = f"{dev:.3f} against {train:.3f} nats per token; text never trained on, every token"
    return HOLDS if dev < train / 2 else FAILS, f"{text} counted once"


@claim("lambada", "section 5, table 3", "GPT2E has the lower perplexity on LAMBADA.")
def _lambada(results: Results) -> Judged:
    ours, theirs = results.proposed, results.baseline
    key, unit = lambada.at("perplexity"), "nats per token of the passage"
    word = intervals.compare(results, (ours, lambada.LAST_WORD), (theirs, lambada.LAST_WORD))
    status, text = _compare_seeds(results, (ours, key), (theirs, key), -1, unit, math.log)
    if word is not None:
        printed = math.log(paper.TABLE3["gpt2e"] / paper.TABLE3["gpt2"])
        status = intervals.judge(word.interval, -1, printed)
        text = f"last word {_weigh(word, 'passage')}; {text}"
    if (guess := lambada.say_guess(results, results.pair)) and text != "not measured":
        text += f". {guess}"
    if results.passages == GENERATED:
        return ABSENT, f"not measured: these passages are generated; there {text}"
    return status, text


SIMILARITY = {
    "Mentions that are nouns are more alike in GPT2E.": ("nouns", "mention", "GPT2", 1),
    "Mentions that are pronouns are more alike in GPT2E.": ("pronouns", "mention", "GPT2", 1),
    "Entities bring nouns closer to their entity's vector.": ("nouns", "entity", "off", 1),
    "Entities take pronouns away from their entity's vector.": ("pronouns", "entity", "off", -1),
}
"""The proposed model with entities, against itself without or the baseline."""


def _similarity(group: str, of: str, against: str, expected: int) -> Callable[..., Judged]:
    measure = f"{of}_similarity"
    off, on, gpt2 = paper.TABLE4[group, measure]

    def judged(results: Results) -> Judged:
        other, printed = (
            (results.proposed, on - off) if against == "off" else (results.baseline, on - gpt2)
        )
        keys = (similarity.at(group, "words", given, measure) for given in ("on", "off"))
        ours, theirs = zip((results.proposed, other), keys, strict=True)
        return _compare_seeds(results, ours, theirs, expected, "cosine", printed=printed)

    return judged


for _text, _compared in SIMILARITY.items():
    claim("similarity", "section 5, table 4", _text)(_similarity(*_compared))


@claim(
    "ner",
    "section 5, table 5",
    "GPT2E's word vectors give a better named entity recogniser (+3 points F1).",
)
def _ner(results: Results) -> Judged:
    ours, theirs = (paper.TABLE5[model, paper.OVERALL].f1 for model in ("gpt2e", "gpt2"))
    found = intervals.compare(results, (results.proposed, ner.F1), (results.baseline, ner.F1))
    if found is None:
        return NOT_MEASURED
    text = f"{_sign(100 * found.value)} points of micro-F1, strict spans"
    return intervals.judge(found.interval, 1, ours - theirs), f"{text}, {_bracket(found, 100)}"


def write_headline(results: Results) -> tuple[str, ...]:
    """The sentences that open the report, each made from the numbers: perplexity, the verdict on
    entities, and what the sections say.
    """
    from entity_transformers.report.catalogue import list_parts

    said = [sentence for part in list_parts(results) for sentence in part.say(results)]
    judged = results.tests_a_model and (intervals.judged_split(results) or not said)
    sentences = (
        _say_perplexity(results),
        judge_entities(results).short if judged else "",
        *said,
    )
    return tuple(filter(None, sentences)) or ("Nothing has been measured yet.",)


def _rank(results: Results) -> list[tuple[ModelEntry, float]]:
    """The models with their perplexities without entities, lowest first."""
    key = perplexity.at(intervals.judged_split(results) or "", "off", "perplexity")
    means = ((model, results.statistic(model, key).mean) for model in results.trained)
    return sorted(((m, mean) for m, mean in means if mean is not None), key=lambda one: one[1])


def _say_perplexity(results: Results) -> str:
    """Of the models that the paper compares; of a study without a model under test, from the lowest
    to the highest.
    """
    split = intervals.judged_split(results)
    if not results.tests_a_model:
        said = [f"{write_label(model)} {mean:.2f}" for model, mean in _rank(results)]
        ends = " to ".join(dict.fromkeys((said[0], said[-1]))) if said else ""
        return f"Perplexity per token on {split}: {ends}." if ends else ""
    said = []
    for model in results.pair if split else ():
        keys = (perplexity.at(split or "", given, "perplexity") for given in ("on", "off"))
        on, off = (results.statistic(model, key).mean for key in keys)
        if on is not None and model.can({"entities"}):
            without = "" if off is None else f" and {off:.2f} without"
            said.append(f"{write_label(model)} {on:.2f} with entities{without}")
        elif off is not None:
            said.append(f"{write_label(model)} {off:.2f}")
    gap = intervals.compare_baseline(results)
    tail = "" if gap is None else f" The difference is {_weigh(gap.found)}."
    return f"Perplexity per token on {split}: {'; '.join(said)}.{tail}" if said else ""
