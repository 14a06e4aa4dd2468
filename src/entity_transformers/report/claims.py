"""The paper's claims one by one, each judged from this study's numbers; the verdict on entities;
and the sentences that open the report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import intervals, paper, perplexity, vectors
from entity_transformers.report.frame import Place, at
from entity_transformers.report.intervals import ABSENT, FAILS, HOLDS, INERT, OPEN, UNUSED, loss
from entity_transformers.report.results import GENERATED, Results
from entity_transformers.report.table import Number, Table

VERDICTS = {
    HOLDS: "Entity information helps",
    FAILS: "Entity information does not help",
    OPEN: "This study does not show that entity information helps",
    ABSENT: "Whether entity information helps was not measured",
    UNUSED: "The memory was not used",
}
Judged = tuple[str, str]
"""The status of a claim, and a text that says what was measured."""
NOT_MEASURED: Judged = (ABSENT, "not measured")


def build_claims(results: Results) -> Table:
    """Build the table of the paper's claims whose steps this study ran; it is empty if the study
    has no model under test or is not compared with the paper.
    """
    compared = results.tests_a_model and results.paper
    return Table(
        name="claims",
        title="What holds and what does not",
        columns=("Claim of the paper", "Where", "Here", "Measured here"),
        rows=tuple(
            (text, source, *judge(results))
            for (step, source), claims in CLAIMS.items()
            if compared and results.ran(step)
            for text, judge in claims.items()
        ),
        measures="Each claim is judged by the numbers of this study alone.",
        note=f"""{intervals.INTERVAL} Those of similarities, and of whether mentions are hindered,
            are over seeds alone. “{OPEN.capitalize()}” means that the interval includes zero or
            could not be computed, “{intervals.SMALLER}” that an effect as large as the paper's lies
            outside the interval, whatever the sign, and “{UNUSED}” that the contents of the memory
            change the loss by less than {INERT} nats per token.""",
    )


def judge_entities(results: Results) -> Judged:
    """Judge whether entity information helps: GPT2E must beat its unlabelled and shuffled controls
    and a GPT2 of its size, with intervals below zero. Table controls shows the differences.
    """
    split, ours = intervals.judged_split(results), results.proposed
    found = [*intervals.compare_all(results)]
    if ours is None or not found:
        name = "GPT2E" if ours is None else ours.label
        return ABSENT, f"{VERDICTS[ABSENT]}: {name} has no scores per document."
    own = [abs(gap.value) for against, _, gap in found if against == ours]
    if own and max(own) < INERT:
        less = f"differ by less than {INERT} nats per token on {results.name_split(split)}."
        return UNUSED, f"{VERDICTS[UNUSED]}: entities on, off and shuffled {less}"
    needed = set[str]().union(*perplexity.needed_controls(results).values())
    met = {against: gap for against, _, gap in found if against.name in needed}
    unbeaten = {against: gap for against, gap in met.items() if not gap.beats}
    missing = _list(perplexity.list_missing_controls(results, met))
    where = f"on {results.name_split(split)} {ours.label}"
    if unbeaten:
        worse = any(gap.interval is not None and gap.interval[0] > 0 for gap in unbeaten.values())
        status, tail = FAILS if worse else OPEN, f" Not run: {missing}." if missing else ""
        names = _list((one.label for one in unbeaten), "or")
        return status, f"{VERDICTS[status]}: {where} does not beat {names}.{tail}"
    if missing:
        return ABSENT, f"{VERDICTS[ABSENT]}: the controls {missing} were not run."
    return HOLDS, f"{VERDICTS[HOLDS]}: {where} beats {_list(one.label for one in met)}."


def _list(items: Iterable[str], word: str = "and") -> str:
    *most, last = [*items] or [""]
    return f" {word} ".join([", ".join(most), last] if most else [last])


def _sign(value: float) -> str:
    return str(Number(value, 4, signed=True))


def _weigh(found: intervals.Estimate, unit: str, scale: float = 1.0) -> str:
    """Describe a difference, its interval, units and seeds; if it is in nats, add a verdict."""
    text = f"{_sign(scale * found.value)} {unit}"
    if found.interval is None:
        return f"{text}, without an interval"
    bounds = ", ".join(_sign(scale * bound) for bound in found.interval)
    units = f" {found.units:,} units," if found.units else ""
    seeds = f"{found.seeds} seeds" if found.seeds > 1 else "one seed"
    text += f", {intervals.LEVEL:.0%} interval [{bounds}],{units} {seeds}"
    if not unit.startswith("nats"):
        return text
    margin = intervals.MARGIN if "token" in unit else None
    return f"{text}: {intervals.name_difference(found.interval, margin)}"


def _less(
    place: Callable[[str, str], Place],
    expected: int,
    unit: str,
    printed: float | None = None,
    itself: bool = False,
) -> Callable[[Results], Judged]:
    """Return the judge of a claim about the model under test with entities minus the baseline, or
    minus ``itself`` without entities. ``place`` takes a split and the entities, "on" or "off".
    """

    def judge(results: Results) -> Judged:
        split = intervals.judged_split(results)
        ours, theirs = results.proposed, results.proposed if itself else results.baseline
        first = {**place(split, "on"), "model": ours}
        by_units = first["measure"] in intervals.UNITS
        compare = intervals.compare if by_units else intervals.compare_seeds
        found = compare(results, first, {**place(split, "off"), "model": theirs})
        if found is None:
            return NOT_MEASURED
        status = intervals.judge(found.interval, expected, printed)
        return status, _weigh(found, unit, 100 if unit.startswith("points") else 1)

    return judge


def _outside(results: Results) -> Judged:
    """Judge the claim that the model is not worse outside mentions."""
    split = intervals.judged_split(results) or "test"
    if not perplexity.has_mentions(results, split):
        return NOT_MEASURED
    ours = loss(split, "on", class_="outside", model=results.proposed)
    theirs = loss(split, "off", class_="outside", model=results.baseline)
    gap = intervals.compare_seeds(results, ours, theirs)
    if gap is None:
        return NOT_MEASURED
    status = intervals.judge(gap.interval, -1)
    if status == OPEN and gap.interval and gap.interval[1] < intervals.MARGIN:
        status = HOLDS
    return status, _weigh(gap, "nats per token outside mentions")


def _validation(results: Results) -> Judged:
    train = results.mean(at("lm", "loss", "train", model=results.proposed))
    dev = results.mean(loss("dev", "on", model=results.proposed))
    if train is None or dev is None:
        return NOT_MEASURED
    text = f"{dev:.3f} against {train:.3f} nats per token, on unseen text, counting every token"
    return HOLDS if dev < train / 2 else FAILS, f"{text} once"


def _lambada(results: Results) -> Judged:
    if results.passages == GENERATED:
        return ABSENT, "not measured: these passages are generated"
    printed = math.log(paper.TABLE3["gpt2e"] / paper.TABLE3["gpt2"])
    return _less(lambda *_: perplexity.LAST_WORD, -1, "nats per last word", printed)(results)


def _alike(group: str, of: str, expected: int, itself: bool = False) -> Callable[[Results], Judged]:
    """Return the judge of a claim about a similarity in table 4."""
    measure = f"{of}_similarity"
    off, on, gpt2 = paper.TABLE4[group, measure]

    def place(_: str, given: str) -> Place:
        return vectors.place_similarity(group, "words", given, measure)

    return _less(place, expected, "cosine", on - (off if itself else gpt2), itself)


NER_GAIN = paper.TABLE5["gpt2e", paper.OVERALL].f1 - paper.TABLE5["gpt2", paper.OVERALL].f1
CLAIMS: dict[tuple[str, str], dict[str, Callable[[Results], Judged]]] = {
    ("perplexity", "abstract, section 6"): {
        "Coreference information makes a better language model.": judge_entities,
    },
    ("perplexity", "section 6, table 2"): {
        "GPT2E and GPT2 are indistinguishable in perplexity.": _less(loss, 0, "nats per token"),
    },
    ("perplexity", "section 1"): {
        "Where no entity is present the language model is not hindered.": _outside,
    },
    ("perplexity", "table 2"): {
        "Validation loss lies far below training loss (0.187 against 1.71 nats).": _validation,
    },
    ("lambada", "section 5, table 3"): {"GPT2E has the lower perplexity on LAMBADA.": _lambada},
    ("similarity", "section 5, table 4"): {
        "Mentions that are nouns are more alike in GPT2E.": _alike("nouns", "mention", 1),
        "Mentions that are pronouns are more alike in GPT2E.": _alike("pronouns", "mention", 1),
        "Entities bring nouns closer to their entity's vector.": _alike("nouns", "entity", 1, True),
        "Entities take pronouns away from their entity's vector.": _alike(
            "pronouns", "entity", -1, itself=True
        ),
    },
    ("ner", "section 5, table 5"): {
        "GPT2E's word vectors give a better named entity recogniser (+3 points F1).": _less(
            lambda *_: vectors.F1, 1, "points of micro-F1, strict spans", NER_GAIN
        ),
    },
}
"""The paper's claims and how each is judged, by the step that measures it and its place there."""


def read_perplexities(results: Results) -> dict[ModelEntry, float]:
    """Return each model's perplexity per token, with entities if it reads any, lowest first."""
    split, found = intervals.judged_split(results), {}
    for model in results.trained:
        given = "on" if model.has_entities else "off"
        mean = results.mean(loss(split, given, "perplexity", model=model))
        if mean is not None:
            found[model] = mean
    return dict(sorted(found.items(), key=lambda item: item[1]))


def say_perplexity(results: Results) -> str:
    """State the perplexities of the models that the paper compares; in a study without a model
    under test, the lowest and the highest.
    """
    split = intervals.judged_split(results)
    start = f"Perplexity per token on {results.name_split(split)}: "
    if not results.tests_a_model:
        read = [f"{n:,.2f} ({m.label})" for m, n in read_perplexities(results).items()]
        if len(read) > 1:
            return f"{start}from {read[0]} to {read[-1]}."
        return f"{start}{read[0]}." if read else ""
    said = []
    for model in results.pair:
        places = (loss(split, given, "perplexity", model=model) for given in ("on", "off"))
        on, off = map(results.mean, places)
        if on is not None and model.has_entities:
            said.append(f"{model.label} {on:.2f} with entities and {off:.2f} without")
        elif off is not None:
            said.append(f"{model.label} {off:.2f}")
    found = ((model, gap) for model, _, gap in intervals.compare_all(results))
    gap = next((gap for model, gap in found if model == results.baseline), None)
    tail = "" if gap is None else f" The difference is {_weigh(gap, 'nats per token')}."
    return f"{start}{'; '.join(said)}.{tail}" if said else ""


def say_counting(results: Results) -> str:
    """Name the trained models that predict the text worse than n-gram counts; "" if none do."""
    read = read_perplexities(results)
    counted = [mean for model, mean in read.items() if model.kind.era == "counts"]
    worse = [
        f"{model.label}'s {mean:.2f}"
        for model, mean in read.items()
        if counted and mean > counted[0] and model.kind.era != "counts"
    ]
    if not worse:
        return ""
    split = results.name_split(intervals.judged_split(results))
    least = f"Counted n-grams have a perplexity of {counted[0]:.2f}"
    return f"{least} on {split}, below {', '.join(worse)}."
