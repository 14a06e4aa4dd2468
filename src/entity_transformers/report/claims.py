"""The paper's claims one by one, each judged from this study's numbers, and the verdict on
entities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import lambada, lm, ner, paper, perplexity, similarity
from entity_transformers.report.intervals import (
    ABSENT,
    BUILT_IN,
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
    compare,
    compare_all,
    difference,
    judge,
    judged_split,
    name_difference,
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
from entity_transformers.report.table import Number, Table


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim of the paper, where it stands there, and what this study's numbers say about it."""

    claim: str
    source: str
    status: str
    ours: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Does entity information help? ``status`` is one of the four, ``text`` says it with the
    numbers, ``short`` without.
    """

    status: str
    text: str
    short: str


VERDICTS = {
    HOLDS: "Entity information helps",
    FAILS: "Entity information does not help",
    OPEN: "This study does not show that entity information helps",
    ABSENT: "Whether entity information helps was not measured",
    UNUSED: "The memory was not used",
}
Judge = Callable[[Results], tuple[str, str]]
"""Status and text of a claim."""


def judge_claims(results: Results) -> tuple[Finding, ...]:
    """Every claim of the paper whose step this study ran, in the paper's order, with what the
    numbers say; none in a study without a model under test, or that does not compare itself with
    the paper. The claim about training time is skipped if the tested model has no entity attention.
    """
    if not (results.tests_a_model and results.paper):
        return ()
    ours = results.proposed
    timed = ours is None or hasattr(ours.lm, "entity_gate")
    return tuple(
        Finding(claim, source, *judged(results))
        for step, claim, source, judged in CLAIMS
        if results.ran(step) and (timed or judged is not _time)
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
        measures="Each claim is judged by the numbers of this study alone.",
        note=(
            f"{INTERVAL} With one seed, an interval does not cover the variation between trainings."
            f" {OPEN.capitalize()}: the direction may be the paper's, but the interval includes"
            f" zero or could not be computed. {SMALLER.capitalize()}: the effect has the paper's"
            " sign, but the printed one lies outside the interval."
            f" {BUILT_IN.capitalize()}: the model's construction implies it, so it is no finding."
            f" {UNUSED.capitalize()}: entities on, off and shuffled differ by less than {INERT}"
            " nats per token, so the memory was not used."
        ),
    )


def judge_entities(results: Results) -> Verdict:
    """Entities help only if GPT2E beats the same weights unlabelled, shuffled labels and a GPT2 of
    its size, beyond the interval.
    """
    split, ours = judged_split(results), results.proposed
    found = compare_all(results, split)
    if split is None or ours is None or not found:
        name = "GPT2E" if ours is None else write_label(ours)
        text = f"{VERDICTS[ABSENT]}: {name} has no scores per document."
        return Verdict(ABSENT, text, text)
    own = [abs(one.found.value) for one in found if one.against == ours]
    if own and max(own) < INERT:
        text = f"{VERDICTS[UNUSED]}: entities on, off and shuffled differ by less than"
        text = f"{text} {INERT} nats per token on {split}."
        return Verdict(UNUSED, text, text)
    controls = perplexity.needed_controls(results).values()
    needed = {entry.name for entries in controls for entry in entries}
    differences = tuple(one for one in found if one.against.name in needed)
    unbeaten = [one for one in differences if not one.found.beats]
    missing = perplexity.list_missing_controls(results, differences)
    if unbeaten:
        status = (
            FAILS
            if any(one.found.interval and one.found.interval[0] > 0 for one in unbeaten)
            else OPEN
        )
        said = f"{VERDICTS[status]}: on {split} {write_label(ours)} does not beat"
        tail = f". Not run: {_list(missing)}." if missing else "."
        return Verdict(status, *_tell(said, unbeaten, tail))
    if missing:
        text = f"{VERDICTS[ABSENT]}: the controls {_list(missing)} were not run."
        return Verdict(ABSENT, text, text)
    said = f"{VERDICTS[HOLDS]}: on {split} {write_label(ours)} beats"
    return Verdict(HOLDS, *_tell(said, differences, "."))


def _tell(said: str, differences: Sequence[Difference], tail: str) -> tuple[str, str]:
    """What is said of these models, with the numbers and without."""
    names = [write_label(one.against) for one in differences]
    with_numbers = [
        f"{name} (difference {_signed(one.found.value)} nats per token, {_bracket(one.found)})"
        for name, one in zip(names, differences, strict=True)
    ]
    return f"{said} {_list(with_numbers)}{tail}", f"{said} {_list(names)}{tail}"


def weigh(found: Estimate, unit: str = "token") -> str:
    """A difference with its interval, and in a word what this says."""
    text = f"{_signed(found.value)} nats per {unit}"
    if found.interval is None:
        return f"{text}, without an interval"
    said = name_difference(found.interval, None if unit == "passage" else MARGIN)
    return f"{text}, {_bracket(found)}: {said}"


def _signed(value: float) -> str:
    return str(Number(value, 4, signed=True))


def _bracket(found: Estimate, scale: float = 1.0) -> str:
    """The interval, and what it is over."""
    if found.interval is None:
        return "no interval"
    seeds = f"{found.seeds} seeds" if found.seeds > 1 else "one seed"
    return f"{LEVEL:.0%} interval {_write(found.interval, scale)}, {found.units:,} units, {seeds}"


def _write(interval: Interval, scale: float = 1.0) -> str:
    return f"[{_signed(scale * interval[0])}, {_signed(scale * interval[1])}]"


def _list(items: Iterable[str]) -> str:
    texts = list(items)
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def _compare_seeds(
    results: Results,
    first: Side,
    second: Side,
    expected: int,
    unit: str,
    transform: Transform = float,
    printed: float | None = None,
) -> tuple[str, str]:
    """Status and text of a claim about a difference that has only seeds to judge it by."""
    gaps = pair_seeds(results, first, second, transform)
    if not gaps:
        return ABSENT, "not measured"
    interval = seed_interval(gaps)
    text = f"{_signed(float(np.mean(gaps)))} {unit}"
    if interval is None:
        return OPEN, f"{text} (one seed, so no interval)"
    over = f"{LEVEL:.0%} interval over {len(gaps)} seeds {_write(interval)}"
    return judge(interval, expected, printed), f"{text} ({over})"


def _entities_help(results: Results) -> tuple[str, str]:
    verdict = judge_entities(results)
    return verdict.status, verdict.text


def _perplexity(results: Results) -> tuple[str, str]:
    split, ours = judged_split(results), results.proposed
    gap = difference(results, split, ours, "on", results.baseline, "off")
    if gap is None:
        return ABSENT, "not measured"
    text = (
        f"on {split}, {write_label(gap.model)} minus {write_label(gap.against)}"
        f" {weigh(gap.found)}; indistinguishable would be within ±{MARGIN}"
    )
    return judge(gap.found.interval, 0), text


def _outside(results: Results) -> tuple[str, str]:
    split = judged_split(results) or "test"
    if not perplexity.has_mentions(results, split):
        return ABSENT, "not measured"
    on, off = (perplexity.at(split, given, class_="outside") for given in ("on", "off"))
    pair = (results.proposed, on), (results.baseline, off)
    status, text = _compare_seeds(results, *pair, -1, "nats per token outside mentions")
    interval = seed_interval(pair_seeds(results, *pair))
    if status == OPEN and interval is not None and interval[1] < MARGIN:
        status = HOLDS  # not worse is all that is claimed
    return status, text


def _validation(results: Results) -> tuple[str, str]:
    train, dev = (
        results.statistic(results.proposed, key).mean
        for key in (TRAIN_LOSS, perplexity.at("dev", "on"))
    )
    if train is None or dev is None:
        return ABSENT, "not measured"
    text = f"{dev:.3f} against {train:.3f} nats per token; text never trained on, every token"
    return HOLDS if dev < train / 2 else FAILS, f"{text} counted once"


def _time(results: Results) -> tuple[str, str]:
    """Two trainings are compared only where they ran on the same kind of device with as many
    threads and processes.
    """
    ours, theirs = results.proposed, results.baseline
    seconds = [
        None if model is None else lm.read_timing(results, model, "seconds_per_step").mean
        for model in (ours, theirs)
    ]
    if ours is None or theirs is None or seconds[0] is None or not seconds[1]:
        return ABSENT, "not measured"
    machines = lm.list_machines(results, ours, theirs)
    if len(machines) > 1:
        return ABSENT, "not measured: the trainings differ in device, threads or processes"
    ratio = seconds[0] / seconds[1]
    text = f"{ratio - 1:+.1%} per step".replace("-", "−")
    if any("cpu" in machine for machine in machines):
        said = f"not measured: {text} on a processor; the paper's is of GPT2-small on a GPU"
        return ABSENT, said
    return HOLDS if 0.99 < ratio < 1.03 else FAILS, text


def _lambada(results: Results) -> tuple[str, str]:
    ours, theirs = results.proposed, results.baseline
    key, unit = lambada.at("perplexity"), "nats per token of the passage"
    word = compare(results, (ours, lambada.LAST_WORD), (theirs, lambada.LAST_WORD))
    status, text = _compare_seeds(results, (ours, key), (theirs, key), -1, unit, math.log)
    if word is not None:
        printed = math.log(paper.TABLE3["gpt2e"] / paper.TABLE3["gpt2"])
        status = judge(word.interval, -1, printed)
        text = f"last word {weigh(word, 'passage')}; {text}"
    if (guess := lambada.say_guess(results, results.pair)) and text != "not measured":
        text += f". {guess}"
    if results.passages == GENERATED:
        return ABSENT, f"not measured: these passages are generated; there {text}"
    return status, text


def _contextless(results: Results) -> tuple[str, str]:
    gaps = []
    for group in paper.TABLE4_TAGS:
        on, off = (
            (results.proposed, similarity.at(group, "words", given, "mention_similarity"))
            for given in ("on", "off")
        )
        gaps += [abs(gap) for gap in pair_seeds(results, on, off)]
    if not gaps:
        return ABSENT, "not measured"
    text = f"largest gap {max(gaps):.5f}"
    if getattr(results.proposed and results.proposed.lm, "entity_values", "") == "hidden":
        return BUILT_IN, f"{text}; it cannot differ, because a word alone attends to one key only"
    return HOLDS if max(gaps) < 5e-5 else FAILS, text


def _similarity(group: str, measure: str, against: str, expected: int) -> Judge:
    """A claim about the proposed model with entities, against itself without or the baseline."""
    off, on, gpt2 = paper.TABLE4[group, measure]
    printed = on - (gpt2 if against == "baseline" else off)

    def judged(results: Results) -> tuple[str, str]:
        keys = (similarity.at(group, "words", given, measure) for given in ("on", "off"))
        ours, theirs = zip((results.proposed, getattr(results, against)), keys, strict=True)
        return _compare_seeds(results, ours, theirs, expected, "cosine", printed=printed)

    return judged


def _ner(results: Results) -> tuple[str, str]:
    ours, theirs = (paper.TABLE5[model, paper.OVERALL].f1 for model in ("gpt2e", "gpt2"))
    found = compare(results, (results.proposed, ner.F1), (results.baseline, ner.F1))
    if found is None:
        return ABSENT, "not measured"
    text = f"{_signed(100 * found.value)} points of micro-F1, strict spans"
    return judge(found.interval, 1, ours - theirs), f"{text}, {_bracket(found, 100)}"


CLAIMS: tuple[tuple[str, str, str, Judge], ...] = (
    (
        perplexity.STEP,
        "Coreference information makes a better language model.",
        "abstract, section 6",
        _entities_help,
    ),
    (
        perplexity.STEP,
        "GPT2E and GPT2 are indistinguishable in perplexity.",
        "section 6, table 2",
        _perplexity,
    ),
    (
        perplexity.STEP,
        "Where no entity is present the language model is not hindered.",
        "section 1",
        _outside,
    ),
    (
        perplexity.STEP,
        "Validation loss lies far below training loss (0.187 against 1.71 nats).",
        "table 2",
        _validation,
    ),
    (lm.STEP, "Entity attention adds about 2% to the time of training.", "section 5", _time),
    (lambada.STEP, "GPT2E has the lower perplexity on LAMBADA.", "section 5, table 3", _lambada),
    (
        similarity.STEP,
        "Similarity between mentions (words without context) is the same with and without"
        " entities.",
        "section 5, table 4",
        _contextless,
    ),
    (
        similarity.STEP,
        "Mentions that are nouns are more alike in GPT2E.",
        "section 5, table 4",
        _similarity("nouns", "mention_similarity", "baseline", 1),
    ),
    (
        similarity.STEP,
        "Mentions that are pronouns are more alike in GPT2E.",
        "section 5, table 4",
        _similarity("pronouns", "mention_similarity", "baseline", 1),
    ),
    (
        similarity.STEP,
        "Entities bring nouns closer to their entity's vector.",
        "section 5, table 4",
        _similarity("nouns", "entity_similarity", "proposed", 1),
    ),
    (
        similarity.STEP,
        "Entities take pronouns away from their entity's vector.",
        "section 5, table 4",
        _similarity("pronouns", "entity_similarity", "proposed", -1),
    ),
    (
        ner.STEP,
        "GPT2E's word vectors give a better named entity recogniser (+3 points F1).",
        "section 5, table 5",
        _ner,
    ),
)


def write_headline(results: Results) -> tuple[str, ...]:
    """The sentences that open the report, each made from the numbers: perplexity, the verdict on
    entities, LAMBADA, NER, and what the sections say; of a study without a model under test, its
    lowest and highest ones.
    """
    from entity_transformers.report.catalogue import list_parts

    said = [sentence for part in list_parts(results) for sentence in part.say(results)]
    if not results.tests_a_model:
        counted = (say_counting(results),) if say_counting(results) else ()
        return (*counted, *_say_range(results), *said) or ("Nothing has been measured yet.",)
    f1 = [(model, ner.average(results, model, ner.F1).mean) for model in results.pair]
    points = [(model, mean and 100 * mean) for model, mean in f1]
    sentences = (
        say_counting(results),
        _say_perplexity(results),
        judge_entities(results).short if judged_split(results) or not said else "",
        _say_last_words(results),
        _say_pair("Strict span F1 of the named entity recogniser, in percent", points),
        *said,
    )
    return tuple(sentence for sentence in sentences if sentence)


def _say_range(results: Results) -> tuple[str, ...]:
    split = judged_split(results) or ""
    right = f"Last words of {lambada.name_passages(results)} predicted right, in percent"
    asked = (
        (f"Perplexity per token on {split}", perplexity.at(split, "off", "perplexity"), 1),
        (right, lambada.at("last_word_accuracy"), 100),
    )
    sentences = []
    for what, key, factor in asked:
        means = {model: results.statistic(model, key).mean for model in results.trained}
        found = {model: factor * mean for model, mean in means.items() if mean is not None}
        ends = sorted(found, key=found.__getitem__)[:: max(1, len(found) - 1)]
        said = " to ".join(f"{write_label(model)} {found[model]:.2f}" for model in ends)
        sentences += [f"{what}: {said}."] if said else []
    return tuple(sentences)


def _say_perplexity(results: Results) -> str:
    split = judged_split(results)
    if split is None:
        return ""
    said = []
    for model in results.pair:
        on, off = (
            results.statistic(model, perplexity.at(split, given, "perplexity")).mean
            for given in ("on", "off")
        )
        if on is not None and model.can({"entities"}):
            without = "" if off is None else f" and {off:.2f} without"
            said.append(f"{write_label(model)} {on:.2f} with entities{without}")
        elif off is not None:
            said.append(f"{write_label(model)} {off:.2f}")
    gap = difference(results, split, results.proposed, "on", results.baseline, "off")
    tail = "" if gap is None else f" The difference is {weigh(gap.found)}."
    return f"Perplexity per token on {split}: {'; '.join(said)}.{tail}" if said else ""


def say_counting(results: Results) -> str:
    """Whether the best model that learns beats the best that counts; "" in a study without one."""
    split = judged_split(results) or ""
    key = perplexity.at(split, "off", "perplexity")
    means = {model: results.statistic(model, key).mean for model in results.trained}
    found = {model: mean for model, mean in means.items() if mean is not None}
    counts = {model: mean for model, mean in found.items() if model.kind.era == "counts"}
    learnt = {model: mean for model, mean in found.items() if model not in counts}
    if not counts or not learnt:
        return ""
    best, lowest = (min(one, key=one.__getitem__) for one in (learnt, counts))
    said = f"Counting n-grams has a perplexity of {counts[lowest]:.2f} on {split}"
    other = f"{write_label(best)}'s {learnt[best]:.2f}, the best of the models that learn"
    if counts[lowest] < learnt[best]:
        return f"{said}, below {other}: they have not learnt what counting finds."
    return f"{said}, above {other}: they have learnt more than counting finds."


def _say_last_words(results: Results) -> str:
    """Nats and accuracy of the last word; what a guess has where one is no better."""
    said = []
    for model in results.pair:
        nats = results.statistic(model, lambada.LAST_WORD, math.log).mean
        right = results.statistic(model, lambada.at("last_word_accuracy")).mean
        if nats is not None:
            known = "" if right is None else f", {right:.1%} predicted right"
            said.append(f"{write_label(model)} {nats:.2f} nats{known}")
    if not said:
        return ""
    text = f"Last words of {lambada.name_passages(results)}: {'; '.join(said)}."
    chance = lambada.guess(results, lambada.LAST_WORD)
    if chance and any(
        lambada.is_guessing(results, model, lambada.LAST_WORD) for model in results.pair
    ):
        text += f" A uniform guess has {math.log(chance):.2f} nats."
    return text


def _say_pair(what: str, means: Sequence[tuple[ModelEntry, float | None]]) -> str:
    said = [f"{write_label(model)} {Number(mean)}" for model, mean in means if mean is not None]
    return f"{what}: {'; '.join(said)}." if said else ""
