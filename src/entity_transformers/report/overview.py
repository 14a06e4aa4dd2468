"""Every system of a study on one line: when it came, what it cost and what it reaches. And entity
attention on a pretrained model against LoRA with as many parameters: whether it can use labels at
all is asked first; told the entity of the next token, it has to be better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import perplexity, vectors
from entity_transformers.report.figures import Bar, Rows, choose_colours, draw_intervals
from entity_transformers.report.frame import Key, at
from entity_transformers.report.intervals import (
    Estimate,
    compare,
    describe,
    judged_split,
    loss,
    name_difference,
    share_number,
)
from entity_transformers.report.lm import (
    count_predictions,
    count_seconds,
    count_tokens,
    list_systems,
)
from entity_transformers.report.pivot import Axis, Line, Measure, Part, Pivot, Place
from entity_transformers.report.results import Results, Statistic, summarise, write_label
from entity_transformers.report.table import Cell, Number, Table, leave_out_empty, show

SPLIT, OFF = "test", "off"
PARAMETERS = at("lm", "parameters")
MIXED = replace(vectors.F1, about=vectors.F1.about | {("reading", "mixed")})


def measure_apart(results: Results, model: ModelEntry) -> Statistic:
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
    return results.statistic(model, loss(SPLIT, OFF, name)).mean


def _bits_per_nat(results: Results, model: ModelEntry | None) -> float | None:
    """Bits per byte of one nat per token: the same for all models with one encoder."""
    bits, nats = (_mean(results, model, name) for name in ("bits_per_byte", "loss"))
    return bits / nats if bits is not None and nats else None


def read_bits(results: Results, model: ModelEntry) -> Number:
    """Bits per byte of test, no entities given, with its interval."""
    bits, factor = _mean(results, model, "bits_per_byte"), _bits_per_nat(results, model)
    found = describe(results, (model, loss(SPLIT, OFF)))
    if found is None or bits is None or factor is None:
        return Number(bits, 4)
    return replace(found.scale(factor), value=bits).number(signed=False)


def read_f1(results: Results, model: ModelEntry, key: Key = vectors.F1) -> Number:
    """Strict span F1 of the spans of all seeds' taggers, a fraction, with such an interval."""
    found = describe(results, (model, key))
    if found is None or found.interval is None:
        mean = vectors.average(results, model, key).mean
        return Number(mean, 1, percent=True)
    low, high = found.interval
    return Number(found.value, 1, low=max(0.0, low), high=min(1.0, high), percent=True)


def read_words(results: Results, model: ModelEntry) -> Number:
    """Perplexity per word of test with the interval of `read_bits`: its logarithm is a multiple."""
    found = show(results.statistic(model, loss(SPLIT, OFF, "perplexity_word")), 1)
    bits = read_bits(results, model)
    if not found.value or not bits.value or bits.interval is None:
        return found
    low, high = (found.value ** (bound / bits.value) for bound in bits.interval)
    return replace(found, std=None, low=low, high=high)


def read_gap(results: Results, model: ModelEntry, against: ModelEntry | None) -> Number:
    """Bits per byte of test less the other's on the same documents."""
    key, factor = loss(SPLIT, OFF), _bits_per_nat(results, against)
    gap = None if model is against else compare(results, (model, key), (against, key))
    return Number(None) if gap is None or factor is None else gap.scale(factor).number()


def read_cached(results: Results, model: ModelEntry) -> Number:
    """Bits per byte of test with the largest cache."""
    bits, cached = (
        _mean(results, model, "bits_per_byte"),
        perplexity.read_share(results, model, SPLIT),
    )
    return Number(bits and cached and bits * cached[1], 4)


def read_accuracy(results: Results, model: ModelEntry) -> Number:
    """Share of LAMBADA's last words that are right, with an interval over passages and seeds."""
    key = perplexity.lambada_key("last_word_accuracy")
    values, passages = results.by_seed(model, key), round(results.count(model, key) or 0)
    if not passages:
        return Number(None, 2, percent=True)
    return share_number(list(values.values()), passages, 2)


def build_overview(results: Results) -> Table:
    """A row per system."""
    systems = list_systems(results)
    base = results.baseline if results.baseline in systems else None
    whole = results.statistic(base, PARAMETERS).mean
    other = "GPT2" if base is None else write_label(base)
    nats = perplexity.lambada_key("last_word_perplexity")

    def share(model: ModelEntry) -> Number:
        own = results.statistic(model, PARAMETERS).mean
        return Number(own / whole if own and whole else None, 2)

    columns: dict[str, Callable[[ModelEntry], Cell]] = {
        "System": write_label,
        "Era": lambda model: model.kind.era,
        "Year": lambda model: str(model.kind.year),
        "Parameters": lambda model: show(results.statistic(model, PARAMETERS), 0),
        f"of {other}'s": share,
        "Tokens seen": lambda model: show(count_tokens(results, model), 0),
        "Predicted": lambda model: show(count_predictions(results, model), 0),
        "Seconds": lambda model: show(count_seconds(results, model), 0),
        "PPL per word": lambda model: read_words(results, model),
        "Bits per byte": lambda model: read_bits(results, model),
        f"less {other}'s": lambda model: read_gap(results, model, base),
        "with a cache": lambda model: read_cached(results, model),
        "LAMBADA accuracy": lambda model: read_accuracy(results, model),
        "LAMBADA nats": lambda model: show(results.statistic(model, nats, math.log), 2),
        "Mentions apart": lambda model: show(measure_apart(results, model), 3),
        "NER F1": lambda model: read_f1(results, model),
        "layers mixed": lambda model: read_f1(results, model, MIXED),
    }
    return leave_out_empty(
        Table(
            name="overview",
            title="Every system",
            columns=tuple(columns),
            rows=tuple(tuple(read(model) for read in columns.values()) for model in systems),
            measures="What each system costs to train and what it reaches, by era and year.",
            note=(
                "Of the test split, no entities given. Brackets: 95 % intervals over documents (of"
                " LAMBADA over passages) and seeds; ±: standard deviation over seeds. With a cache:"
                " the largest of table cache. Mentions apart: cosine between mentions of one entity"
                " minus that between entities (in context, mean removed). Seconds: of the training"
                " steps alone, and of the weights that a system started from. Predicted: how many"
                " of the tokens seen training asks for; ELECTRA's discriminator judges all of them."
                " Layers mixed: F1 of a tagger that reads a learnt mix of all layers, where NER F1"
                " is of the last one (ELMo's tagger always reads a mix)."
            ),
        )
    )


def draw_overview(results: Results) -> Figure | None:
    """What each system reaches, by era and year, with the seconds of its training. Bars are 95 %
    intervals over documents and, where there are several, over seeds.
    """
    colours, bits, scores = choose_colours(results), list[Bar | None](), list[Bar | None]()
    for model in list_systems(results):
        seconds, name = count_seconds(results, model).mean, write_label(model)
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
    measures=(
        "Nats per token with what each entry reads: on dev at each learning rate, of which the best"
        " is kept, and on test."
    ),
    note=(
        "LoRA: as many parameters in the same blocks, without a memory. If the positive control is"
        f" not better than no labels by {-LEARNT} nats, the memory has not been learnt to be used,"
        " and the other rows say nothing of what labels are worth. A row in longer windows differs"
        " from the others by its windows, too."
    ),
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
        f" by {told.number()} nats per token"
    )
    if not learnt:
        return (f"{control}. It has not learnt to use labels, so no verdict on them is given.",)
    gap = subtract_adapters(results, NAMES["lagged"], "LoRA")
    if gap is None:
        return (f"{control}, so it can use labels.",)
    verdict = name_difference(gap.interval, EQUIVALENT)
    return (
        f"{control}, so it can use labels. With gold labels after each mention it differs from LoRA"
        f" by {gap.number()} ({verdict}).",
    )


PARTS = (
    Part("lm", "Every system", (build_overview,), {"overview": draw_overview}, name="overview"),
    Part(
        "lm",
        "Entity attention on a pretrained model",
        (ADAPTERS,),
        say=say_adapters,
        name="adapters",
    ),
)
