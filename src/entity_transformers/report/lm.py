"""The language models: their training (losses, size and time), and every system of a study on one
line: when it came, what it cost and what it reaches. And entity attention on a pretrained model
against LoRA with as many parameters: whether it can use labels at all is asked first; told the
entity of the next token, it has to be better.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import figures, paper, vectors
from entity_transformers.report.figures import Bar, Figure, Panel, Rows, choose_colours
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
from entity_transformers.report.pivot import Axis, Line, Measure, Part, Pivot, Place, models, side
from entity_transformers.report.results import (
    Results,
    has_entities,
    sort_by_era,
    summarise,
    write_label,
)
from entity_transformers.report.table import MISSING, Cell, Number

STEP = "lm"
SIZE = at(STEP, "parameters")
FEWEST = 3
"""Kinds of models from which on a study compares systems."""
OBJECTIVES = {
    "causal": "nats per next token",
    "mixture": "nats per next token, of the mixture with what the pointer copies",
    "masked": "nats per hidden token",
    "permuted": "nats per token that is predicted in a random order",
    "replaced": "nats per hidden token of the generator, and lambda times the discriminator's loss",
}


def list_systems(results: Results) -> list[ModelEntry]:
    """The trained entries by era and year, then in the study's order; none where a study has fewer
    than `FEWEST` kinds.
    """
    entries = results.measured(STEP)
    several = len({entry.kind.name for entry in entries}) >= FEWEST
    return sort_by_era(entries) if several else []


def read_seconds(results: Results, model: ModelEntry, measure: str) -> dict[int, float]:
    """A time by seed, whatever machine it was measured on."""
    rows = results.frame.find(STEP, measure=measure, model=model.name).dropna(subset="value")
    return dict(zip(map(int, rows["seed"]), rows["value"], strict=True))


def read_timing(results: Results, model: ModelEntry, measure: str) -> Number:
    """Mean and deviation over seeds of a time."""
    return summarise(read_seconds(results, model, measure).values())


def count_tokens(results: Results, model: ModelEntry) -> Number:
    """Tokens that it was trained on, those of the weights that it started from counted in."""
    before = results.by_seed(model, at(STEP, "tokens_before"))
    seen = results.by_seed(model, at(STEP, "tokens_seen"))
    return summarise(tokens + before.get(seed, 0) for seed, tokens in seen.items())


def count_predictions(results: Results, model: ModelEntry) -> float | None:
    """How many of these tokens it predicted; of what predicts none, nothing."""
    share, seen = getattr(model.lm, "predicted_share", None), count_tokens(results, model).value
    return share * seen if share and seen else None


def count_seconds(results: Results, model: ModelEntry) -> Number:
    """Seconds of its training steps, the median of one times their number, without validations; of
    what has no steps (static vectors) all seconds. Those of the weights that it started from are
    counted in.
    """
    whole, before, of_step = (
        read_seconds(results, model, measure)
        for measure in ("seconds_total", "seconds_before", "seconds_per_step")
    )
    steps = results.by_seed(model, at(STEP, "steps"))
    whole |= {seed: second * steps[seed] for seed, second in of_step.items() if seed in steps}
    return summarise(seconds + before.get(seed, 0) for seed, seconds in whole.items())


def explain_missing(results: Results) -> str:
    """Which models have no perplexity or no loss of training, as sentences; "" where all have."""
    others = list_objectives(results)
    none, apart = [], []
    for model in results.measured(STEP):
        if not model.can({"causal"}):
            none.append(write_label(model))
        elif model.name in others:
            apart.append(write_label(model))
    text = f" No perplexity: {', '.join(none)} do not predict the next token." if none else ""
    if apart:
        text += f" No loss of training (another objective): {', '.join(apart)}."
    return text


def list_objectives(results: Results) -> dict[str, str]:
    """By the model's name the objective of its losses, where it is not the next token's."""
    rows = results.frame.find(STEP)
    rows = rows[rows["objective"] != ""] if "objective" in rows else rows.iloc[:0]
    return dict(zip(rows["model"], rows.get("objective", ()), strict=True))


def _time(results: Results, place: Place) -> Number:
    return read_timing(results, place["model"], place["measure"])


def _labels(_: Results, place: Place) -> Cell:
    return place["model"].labels if has_entities(place["model"]) else MISSING


def _seeds(results: Results, place: Place) -> int:
    return len(results.by_seed(place["model"], SIZE))


MODELS = Pivot(
    name="models",
    title="The models and their training",
    step=STEP,
    rows=(models(),),
    columns=(
        Measure("Labels", cell=_labels),
        Measure(
            "Seeds", digits=0, cell=lambda results, row: len(results.by_seed(row["model"], SIZE))
        ),
        Measure("Parameters", "parameters", 0),
        Measure("Steps", "steps", 0),
        Measure("Tokens seen", "tokens_seen", 0),
        Measure("Best dev loss", "best_loss", 4, place={"split": "dev"}),
        Measure("at step", "best_step", 0),
        Measure("Skipped steps", "skipped_steps", 0),
        Measure("s / step", "seconds_per_step", 3, cell=_time),
        Measure("Tokens / s", "tokens_per_second", 0, cell=_time),
    ),
    measures="""Labels: the layer of entity labels that the model is trained on. Controls are GPT2E
        without labels (unlabelled), with labels permuted among a document's mentions (shuffled) or
        without one on first mentions (first-only), and GPT2 with as many parameters.""",
    note=lambda results: (
        f"Losses are in nats per token.{explain_missing(results)}{describe_others(results)}"
    ),
    paper_note=f"""The paper trains GPT2-small ({paper.PARAMETERS / 1e6:.0f} M parameters) for
        {paper.TRAINING_STEPS:,} steps.""",
)


def describe_others(results: Results) -> str:
    """What the weights are that others have trained, in a sentence for each package."""
    found = {
        model.initial_weights: write_label(model)
        for model in reversed(results.measured(STEP))
        if model.can({"pretrained"}) and model.initial_weights
    }
    if not found:
        return ""
    from entity_transformers.models.weights import describe_weights  # which loads transformers

    about = {label: describe_weights(value) for value, label in reversed(found.items())}
    return "".join(f" {label} starts from {text}." for label, text in about.items() if text)


def read_line(
    results: Results, model: ModelEntry, column: str, half: bool = False
) -> figures.Line | None:
    """A curve, or its last half, at the steps that all seeds have, means over them; the paper's two
    models have a band from the lowest seed to the highest. None for no step.
    """
    series = results.curve(model, column)
    curves = pd.concat(series, axis=1, join="inner").sort_index() if series else pd.DataFrame()
    if curves.empty:
        return None
    curves = curves[curves.index >= curves.index[-1] / 2] if half else curves
    front, off = model in (results.proposed, results.baseline), column == "dev_loss_off"
    return figures.Line(
        label=write_label(model) + ", entities off" * off,
        colour=choose_colours(results)[model.name],
        x=curves.index.tolist(),
        y=curves.mean(axis=1).tolist(),
        low=curves.min(axis=1).tolist() if front else None,
        high=curves.max(axis=1).tolist() if front else None,
        dash="--" if off else "-",
        mark=figures.choose_marks(results)[model.name],
        front=front,
    )


def _draw_curves(results: Results, column: str, title: str, *more: str) -> Figure | None:
    """Of every model whose losses are nats per next token, and ``more`` columns of the one under
    test: the whole run on the left and, if it has enough points, its last half on the right.
    """
    others, ours = list_objectives(results), results.proposed
    models = [m for m in results.trained if m.can({"causal"}) and m.name not in others]
    curves = [(model, column) for model in models]
    curves += [(ours, name) for name in more if ours in models and ours and has_entities(ours)]
    whole, half = (
        [line for curve in curves if (line := read_line(results, *curve, last)) is not None]
        for last in (False, True)
    )
    panels = [Panel(whole, "Step", "Nats per token", title)]
    if max((len(line.x) for line in whole), default=0) >= 6:
        panels.append(Panel(half, "Step", title="The last half"))
    return figures.draw_lines(panels)


def draw_training(results: Results) -> Figure | None:
    """Figure 2: training loss, the mean since the previous point, dropout on; lines are means over
    the seeds, bands reach from the lowest seed to the highest.
    """
    return _draw_curves(results, "train_loss", "Training loss")


def draw_validation(results: Results) -> Figure | None:
    """Figure 3: validation loss; dashed: the same model without entities."""
    return _draw_curves(results, "dev_loss_on", "Validation loss", "dev_loss_off")


SPLIT, OFF = "test", "off"
MIXED = replace(vectors.F1, about=vectors.F1.about | {("reading", "mixed")})


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


def read_f1(results: Results, model: ModelEntry, key: Key = vectors.F1) -> Number:
    """Strict span F1 of the spans of all seeds' taggers, a fraction, with such an interval."""
    found = describe(results, (model, key))
    if found is None or found.low is None or found.high is None:
        return Number(vectors.average(results, model, key).value, percent=True)
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
    """Bits per byte of test with the largest cache: times what it leaves of the loss."""
    place = {"step": "cache", "measure": "loss", "split": SPLIT, "model": model}
    sizes = sorted(map(int, results.frame.distinct("size", "cache", measure="loss")))
    losses = {size: results.statistic(*side(place, size=size)).value for size in sizes}
    bits, alone = _mean(results, model, "bits_per_byte"), losses.pop(0, None)
    cached = [loss for loss in losses.values() if loss is not None]
    return bits * (cached[-1] / alone) if bits and alone and cached else None


def read_accuracy(results: Results, model: ModelEntry) -> Number | None:
    """Share of LAMBADA's last words that are right, with an interval over passages and seeds."""
    key = at("lambada", "last_word_accuracy", "lambada", entities=OFF)
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
    yield read("Predicted", count_predictions, 0)
    yield read("Seconds", count_seconds, 0)
    yield read("PPL per word", read_words, 1)
    yield read("Bits per byte", read_bits, 4)
    yield read(f"less {other}'s", partial(read_gap, against=base), 4)
    yield read("with a cache", read_cached, 4)
    yield read("LAMBADA accuracy", read_accuracy, 2, percent=True)
    yield Measure("LAMBADA nats", "last_word_perplexity", scale=math.log, place=words)
    yield read("Mentions apart", measure_apart, 3)
    yield read("NER F1", read_f1, 1, percent=True)
    yield read("layers mixed", partial(read_f1, key=MIXED), 1, percent=True)


OVERVIEW = Pivot(
    name="overview",
    title="Every system",
    step="lm",
    rows=(Axis(("System",), _systems),),
    columns=(_overview,),
    sparse=True,
    measures="What each system costs to train and what it reaches, by era and year.",
    note=lambda results: OVERVIEW_NOTE + MIXED_NOTE * ("reading" in results.frame.data),
)
OVERVIEW_NOTE = """Of the test split, no entities given. Brackets: 95 % intervals over documents (of
        LAMBADA over passages) and seeds; ±: standard deviation over seeds. With a cache: the
        largest of table cache. Mentions apart: cosine between mentions of one entity minus that
        between entities (in context, mean removed). Seconds: of the training steps alone, and of
        the weights that a system started from. Predicted: how many of the tokens seen training
        asks for; ELECTRA's discriminator judges all of them."""
MIXED_NOTE = """ Layers mixed: F1 of a tagger that reads a learnt mix of all layers, where NER F1 is
        of the last one (ELMo's tagger always reads a mix)."""


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
    return figures.draw_intervals([Rows(*one) for one in zip(titles, (bits, scores), strict=True)])


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
    Part(STEP, "The models", (MODELS,), {"figure2": draw_training, "figure3": draw_validation}),
    Part(STEP, "Every system", (OVERVIEW,), {"overview": draw_overview}, name="overview"),
    Part(STEP, str(ADAPTERS.title), (ADAPTERS,), say=say_adapters, name="adapters"),
)
