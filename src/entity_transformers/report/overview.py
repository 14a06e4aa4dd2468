"""Every system of a study on one line: when it came, what it cost and what it reaches. And entity
attention on a pretrained model against LoRA with as many parameters: whether it can use labels at
all is asked first; told the entity of the next token, it has to be better.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import vectors
from entity_transformers.report.figures import Bar, Rows, choose_colours, draw_intervals
from entity_transformers.report.intervals import (
    Estimate,
    compare,
    describe,
    judged_split,
    loss,
    name_difference,
    share_number,
)
from entity_transformers.report.lm import SIZE, count_seconds, count_tokens, list_systems
from entity_transformers.report.perplexity import lambada_key, read_share
from entity_transformers.report.pivot import Axis, Line, Measure, Part, Pivot, Place
from entity_transformers.report.results import Results, summarise, write_label
from entity_transformers.report.table import Number

SPLIT, OFF = "test", "off"


def measure_apart(results: Results, model: ModelEntry) -> Number:
    """How much more alike, in context and without the mean vector, one entity's mentions are than
    those of different ones; mean over the parts of speech that have entities.
    """
    gaps: dict[int, list[float]] = {}
    for group in results.groups:
        own, others = (
            results.by_seed(model, vectors.similarity_key(group, "context", OFF, f"{name}_centred"))
            for name in ("mention_similarity", "between_entities")
        )
        for seed in own.keys() & others.keys():
            gaps.setdefault(seed, []).append(own[seed] - others[seed])
    return summarise(float(np.mean(gaps[seed])) for seed in sorted(gaps))


def _mean(results: Results, model: ModelEntry | None, name: str) -> float | None:
    return results.statistic(model, loss(SPLIT, OFF, name)).value


def _bits_per_nat(results: Results, model: ModelEntry | None) -> float | None:
    """Bits per byte of one nat per token: the same for all models with one encoder."""
    bits, nats = (_mean(results, model, name) for name in ("bits_per_byte", "loss"))
    return bits / nats if bits is not None and nats else None


def read_bits(results: Results, model: ModelEntry) -> Number:
    """Bits per byte of test, no entities given, with its interval."""
    bits, factor = _mean(results, model, "bits_per_byte"), _bits_per_nat(results, model)
    found = describe(results, (model, loss(SPLIT, OFF)))
    if found is None or bits is None or factor is None:
        return Number(bits)
    return replace(found.scale(factor), value=bits)


def read_f1(results: Results, model: ModelEntry) -> Number:
    """Strict span F1 of the spans of all seeds' taggers, a fraction, with such an interval."""
    found = describe(results, (model, vectors.F1))
    if found is None or found.low is None or found.high is None:
        return Number(vectors.average(results, model, vectors.F1).value, percent=True)
    low, high = max(0.0, found.low), min(1.0, found.high)
    return Number(found.value, low=low, high=high, percent=True)


def read_words(results: Results, model: ModelEntry) -> Number:
    """Perplexity per word of test with the interval of `read_bits`: its logarithm is a multiple."""
    found = results.statistic(model, loss(SPLIT, OFF, "perplexity_word"))
    bits = read_bits(results, model)
    if not found.value or not bits.value or bits.interval is None:
        return found
    low, high = (found.value ** (bound / bits.value) for bound in bits.interval)
    return replace(found, std=None, low=low, high=high)


def read_gap(results: Results, model: ModelEntry, against: ModelEntry | None) -> Estimate | None:
    """Bits per byte of test less the other's on the same documents."""
    key, factor = loss(SPLIT, OFF), _bits_per_nat(results, against)
    gap = None if model is against else compare(results, (model, key), (against, key))
    return None if gap is None or factor is None else gap.scale(factor)


def read_cached(results: Results, model: ModelEntry) -> float | None:
    """Bits per byte of test with the largest cache."""
    bits, cached = _mean(results, model, "bits_per_byte"), read_share(results, model, SPLIT)
    return bits and cached and bits * cached[1]


def read_accuracy(results: Results, model: ModelEntry) -> Number | None:
    """Share of LAMBADA's last words that are right, with an interval over passages and seeds."""
    key = lambada_key("last_word_accuracy")
    values, passages = results.by_seed(model, key), round(results.count(model, key) or 0)
    return share_number(list(values.values()), passages) if passages else None


def _systems(results: Results, _: Place) -> Iterator[Line]:
    for model in list_systems(results):
        yield (write_label(model),), {"model": model}


def _overview(results: Results) -> Iterator[Measure]:
    base = results.baseline if results.baseline in list_systems(results) else None
    whole, other = results.statistic(base, SIZE).value, write_label(base) if base else "GPT2"
    words = {"step": "lambada", "split": "lambada", "entities": OFF}

    def read(heading: str, function: Any, digits: int, percent: bool = False) -> Measure:
        def cell(results: Results, row: Place) -> Number | float | None:
            return function(results, row["model"])

        return Measure(heading, digits=digits, percent=percent, cell=cell)

    def share(results: Results, model: ModelEntry) -> float | None:
        own = results.statistic(model, SIZE).value
        return own / whole if own and whole else None

    yield Measure("Era", cell=lambda _, row: row["model"].kind.era)
    yield Measure("Year", cell=lambda _, row: str(row["model"].kind.year))
    yield Measure("Parameters", "parameters", 0)
    yield read(f"of {other}'s", share, 2)
    yield read("Tokens seen", count_tokens, 0)
    yield read("Seconds", count_seconds, 0)
    yield read("PPL per word", read_words, 1)
    yield read("Bits per byte", read_bits, 4)
    yield read(f"less {other}'s", partial(read_gap, against=base), 4)
    yield read("with a cache", read_cached, 4)
    yield read("LAMBADA accuracy", read_accuracy, 2, percent=True)
    yield Measure("LAMBADA nats", "last_word_perplexity", scale=math.log, place=words)
    yield read("Mentions apart", measure_apart, 3)
    yield read("NER F1", read_f1, 1, percent=True)


OVERVIEW = Pivot(
    name="overview",
    title="Every system",
    step="lm",
    rows=(Axis(("System",), _systems),),
    columns=(_overview,),
    sparse=True,
    measures="What each system costs to train and what it reaches, by era and year.",
    note="""Of the test split, no entities given. Brackets: 95 % intervals over documents (of
        LAMBADA over passages) and seeds; ±: standard deviation over seeds. With a cache: the
        largest of table cache. Mentions apart: cosine between mentions of one entity minus that
        between entities (in context, mean removed). Seconds: of the training steps alone, and of
        the weights that a system started from.""",
)


def draw_overview(results: Results) -> Figure | None:
    """What each system reaches, by era and year, with the seconds of its training. Bars are 95 %
    intervals over documents and, where there are several, over seeds.
    """
    colours, bits, scores = choose_colours(results), list[Bar | None](), list[Bar | None]()
    for model in list_systems(results):
        seconds, name = count_seconds(results, model).value, write_label(model)
        label = name if seconds is None else f"{name}, {seconds:,.0f} s"
        for bars, read in ((bits, read_bits), (scores, read_f1)):
            number = read(results, model)
            known = number.value is not None
            bars.append(Bar(label, number, colours[model.name]) if known else None)
    titles = f"Bits per byte ({SPLIT})", "Strict span F1 of the tagger in %"
    return draw_intervals([Rows(*one) for one in zip(titles, (bits, scores), strict=True)])


LEARNT = -0.02
"""Nats per token by which what is told the next entity has to be better, or nothing was learnt."""
EQUIVALENT = 0.005
NAMES = {
    "gold": "as the paper gives them",
    "lagged": "after a mention has ended",
    "shuffled": "permuted",
    "none": "none",
    "next": "of the next token (positive control)",
}


def name_labels(model: ModelEntry) -> str:
    """What an entry reads, or that it is the control without a memory."""
    if model.lm.adapter == "lora":
        return "LoRA"
    name = NAMES.get(model.labels, model.labels)
    return name if model.lm.entity_alibi else f"{name}, in the paper's attention"


def list_adapters(results: Results) -> dict[str, ModelEntry]:
    """The entries by what they read, and by their windows where these are not the shortest."""
    found = [m for m in results.measured("lm") if m.kind.name == "pretrained-entities"]
    shortest = min((model.lm.window for model in found), default=0)
    longer = {
        model.name: f", in windows of {model.lm.window:,}" * (model.lm.window > shortest)
        for model in found
    }
    return {name_labels(model) + longer[model.name]: model for model in found}


def subtract_adapters(results: Results, ours: str, theirs: str) -> Estimate | None:
    """The loss of one entry, its labels given, less that of another; None if one was not scored."""
    listed, key = list_adapters(results), loss(judged_split(results) or "", "on")
    return compare(results, (listed.get(ours), key), (listed.get(theirs), key))


def has_learnt(results: Results) -> bool | None:
    """Can it use labels? None where that was not asked."""
    gap = subtract_adapters(results, NAMES["next"], NAMES["none"])
    return None if gap is None else gap.value <= LEARNT and gap.beats


def _adapters(results: Results, _: Place) -> Iterator[Line]:
    for name, model in list_adapters(results).items():
        yield (name,), {"model": model}


def _adapter_columns(results: Results) -> Iterator[Measure]:
    for rate in results.frame.distinct("learning_rate", "lm", measure="trial_loss"):
        place = {"learning_rate": rate, "split": "dev"}
        yield Measure(f"Dev, rate {rate}", "trial_loss", 4, place=place)
    scored = {"step": "perplexity", "split": judged_split(results) or "", "entities": "on"}
    yield Measure("Test", "loss", 4, shows="plain", place=scored)
    for name, heading in (("LoRA", "less LoRA"), (NAMES["none"], "less no labels")):
        other = {"model": list_adapters(results).get(name)}
        yield Measure(heading, "loss", place=scored, against=other)


ADAPTERS = Pivot(
    name="adapters",
    title="Entity attention on a pretrained model",
    step="lm",
    rows=(Axis(("Labels",), _adapters),),
    columns=(_adapter_columns,),
    measures="""Nats per token with what each entry reads: on dev at each learning rate, of which
        the best is kept, and on test.""",
    note=f"""LoRA: as many parameters in the same blocks, without a memory. If the positive control
        is not better than no labels by {-LEARNT} nats, the memory has not been learnt to be used,
        and the other rows say nothing of what labels are worth. A row in longer windows differs
        from the others by its windows, too.""",
)


def say_adapters(results: Results) -> tuple[str, ...]:
    """Was the positive control passed, and, if it was, labels against LoRA."""
    learnt = has_learnt(results)
    if learnt is None:
        return ()
    told = subtract_adapters(results, NAMES["next"], NAMES["none"])
    assert told is not None
    control = (
        "Told the entity of the next token, entity attention differs from the same without labels"
        f" by {told} nats per token"
    )
    if not learnt:
        return (f"{control}. It has not learnt to use labels, so no verdict on them is given.",)
    gap = subtract_adapters(results, NAMES["lagged"], "LoRA")
    if gap is None:
        return (f"{control}, so it can use labels.",)
    verdict = name_difference(gap.interval, EQUIVALENT)
    return (
        f"{control}, so it can use labels. With gold labels after each mention it differs from LoRA"
        f" by {gap} ({verdict}).",
    )


PARTS = (
    Part("lm", "Every system", (OVERVIEW,), {"overview": draw_overview}, name="overview"),
    Part("lm", str(ADAPTERS.title), (ADAPTERS,), say=say_adapters, name="adapters"),
)
