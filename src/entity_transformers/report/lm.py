"""The language models: their training (losses, size and time); every system of a study on one
line, with its year, costs and scores; and entity attention on a pretrained model, compared with
LoRA with as many parameters. A positive control first asks whether entity attention can use labels
at all: told the entity of the next token, it has to be better.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import figures, intervals, paper, vectors
from entity_transformers.report.figures import Bar, Figure, Panel, choose_colours
from entity_transformers.report.frame import at
from entity_transformers.report.intervals import Estimate, loss
from entity_transformers.report.pivot import Line, Measure, Part, Pivot, Place, models, values
from entity_transformers.report.results import Results, sort_by_era, summarise
from entity_transformers.report.table import MISSING, Number

STEP = "lm"
FEWEST = 3
"""The fewest kinds of models with which a study compares systems."""
OBJECTIVES = {
    "causal": "nats per next token",
    "mixture": "nats per next token, of the mixture with what the pointer copies",
    "masked": "nats per hidden token",
    "permuted": "nats per token that is predicted in a random order",
    "replaced": "nats per hidden token of the generator, and lambda times the discriminator's loss",
}
COSTS = (
    *("tokens_seen", "tokens_before", "tokens_predicted", "predicted_before"),
    *("seconds_total", "seconds_before", "seconds_per_step", "steps"),
)


def list_systems(results: Results) -> list[ModelEntry]:
    """Return the trained entries by era and year, then in the study's order; none if the study has
    fewer than `FEWEST` kinds of models.
    """
    entries = results.measured(STEP)
    several = len({entry.kind.name for entry in entries}) >= FEWEST
    return sort_by_era(entries) if several else []


def read_timing(results: Results, model: ModelEntry, measure: str) -> Number:
    """Return mean and deviation over seeds of a time, whatever machine it was measured on."""
    rows = results.frame.find(STEP, measure=measure, model=model.name)
    return summarise(rows["value"].dropna())


def read_costs(results: Results, model: ModelEntry) -> dict[str, Number]:
    """Return the tokens that a model was trained on, how many of them it predicted, and the seconds
    of its training: the median step times their number, without validations, or all seconds if it
    has no steps (static vectors). The weights that it started from are included, but for those
    that others have trained.
    """
    rows = results.frame.find(STEP, model=model.name, split="")
    of = rows.pivot_table("value", "seed", "measure", observed=True).reindex(columns=[*COSTS])
    steps = (of["seconds_per_step"] * of["steps"]).fillna(of["seconds_total"])
    seconds = steps + of["seconds_before"].fillna(0)
    if model.kind.can >= {"pretrained", "finetunes"}:  # these seconds are of loading its files
        seconds = seconds[:0]
    seen = of["tokens_seen"] + of["tokens_before"].fillna(0)
    if not model.can({"windows"}):
        predicted = seen[:0]
    elif model.can({"causal"}) and model.name not in find_apart(results):
        predicted = seen
    else:
        predicted = of["tokens_predicted"] + of["predicted_before"].fillna(0)
    parts = {"seen": seen, "predicted": predicted, "seconds": seconds}
    return {name: summarise(part.dropna()) for name, part in parts.items()}


def find_apart(results: Results) -> set[str]:
    """Return the names of the models whose training loss is not that of the next token."""
    rows = results.frame.find(STEP)
    return set(rows["model"][rows["objective"] != ""]) if "objective" in rows else set()


def explain_missing(results: Results) -> str:
    """Name the models without perplexity or training loss, in sentences; "" if all have both."""
    trained, apart = results.measured(STEP), find_apart(results)
    hidden = [model.label for model in trained if not model.can({"causal"})]
    others = [m.label for m in trained if m.can({"causal"}) and m.name in apart]
    text = ""
    if hidden:
        text += f" No perplexity, because they do not predict the next token: {', '.join(hidden)}."
    if others:
        text += f" No training loss, because the objective differs: {', '.join(others)}."
    return text


def describe_others(results: Results) -> str:
    """Describe the pretrained weights of others that models start from, a sentence for each."""
    found: dict[str, str] = {}
    for model in results.measured(STEP):
        if model.can({"pretrained"}) and model.initial_weights:
            found.setdefault(model.initial_weights, model.label)
    if not found:
        return ""
    from entity_transformers.models.weights import describe_weights  # loads transformers

    about = {label: describe_weights(weights) for weights, label in found.items()}
    return "".join(f" {label} starts from {text}." for label, text in about.items() if text)


def _time(results: Results, place: Place) -> Number:
    return read_timing(results, place["model"], place["measure"])


MODELS = Pivot(
    name="models",
    title="The models and their training",
    step=STEP,
    rows=(models,),
    columns=(
        Measure(
            "Labels",
            cell=lambda _, row: row["model"].labels if row["model"].has_entities else MISSING,
        ),
        Measure(
            "Seeds",
            digits=0,
            cell=lambda results, row: len(results.by_seed({**row, "measure": "parameters"})),
        ),
        Measure("Parameters", "parameters", 0),
        Measure("Steps", "steps", 0),
        Measure("Tokens seen", "tokens_seen", 0),
        Measure("Best dev loss", "best_loss", 4, place={"split": "dev"}),
        Measure("Best step", "best_step", 0),
        Measure("Skipped steps", "skipped_steps", 0),
        Measure("s / step", "seconds_per_step", 3, cell=_time),
        Measure("Tokens / s", "tokens_per_second", 0, cell=_time),
    ),
    measures="""“Labels” is the layer of entity labels that a model is trained on. The controls are
        GPT2E without labels (unlabelled), with labels permuted among a document's mentions
        (shuffled) or without labels on first mentions (first-only), and GPT2 with as many
        parameters.""",
    note=lambda results: (
        f"Losses are in nats per token.{explain_missing(results)}{describe_others(results)}"
    ),
    paper_note=f"""The paper trains GPT2-small ({paper.PARAMETERS / 1e6:.0f} M parameters) for
        {paper.TRAINING_STEPS:,} steps.""",
)


def read_line(
    results: Results, model: ModelEntry, column: str, half: bool = False
) -> figures.Line | None:
    """Return a curve, or its last half, of means over seeds at the steps that all seeds have. The
    paper's two models have a band from the lowest seed to the highest. None if there is no step.
    """
    if column not in (every := results.curves):
        return None
    rows = every[(every["curve"] == STEP) & (every["model"] == model.name)]
    rows = rows[rows["seed"].isin(results.seeds)].dropna(subset=[column])
    curves = rows.pivot(index="step", columns="seed", values=column).dropna()
    if curves.empty:
        return None
    curves = curves[curves.index >= curves.index[-1] / 2] if half else curves
    front, off = model in (results.proposed, results.baseline), column == "dev_loss_off"
    return figures.Line(
        label=model.label + ", entities off" * off,
        colour=choose_colours(results)[model.name],
        x=curves.index.tolist(),
        y=curves.mean(axis=1).tolist(),
        band=(curves.min(axis=1).tolist(), curves.max(axis=1).tolist()) if front else None,
        dash="--" if off else "-",
        mark=figures.choose_marks(results)[model.name],
        front=front,
    )


def _draw_curves(results: Results, column: str, title: str, *more: str) -> Figure | None:
    """Draw the curves of every model whose loss is nats per next token, and ``more`` columns of the
    one under test: the whole run on the left and, given enough points, the last half on the right.
    """
    apart, ours = find_apart(results), results.proposed
    trained = [m for m in results.trained if m.can({"causal"}) and m.name not in apart]
    curves = [(model, column) for model in trained]
    curves += [(ours, name) for name in more if ours in trained and ours and ours.has_entities]
    whole, half = (
        [line for curve in curves if (line := read_line(results, *curve, last)) is not None]
        for last in (False, True)
    )
    panels = [Panel(whole, "Step", "Nats per token", title)]
    if max((len(line.x) for line in whole), default=0) >= 6:
        panels.append(Panel(half, "Step", title="The last half"))
    return figures.draw_lines(panels)


def draw_training(results: Results) -> Figure | None:
    """Figure 2: training loss (the mean since the previous point, with dropout). Lines are means
    over seeds; bands reach from the lowest seed to the highest.
    """
    return _draw_curves(results, "train_loss", "Training loss")


def draw_validation(results: Results) -> Figure | None:
    """Figure 3: validation loss. Dashed lines are the same model without entities."""
    return _draw_curves(results, "dev_loss_on", "Validation loss", "dev_loss_off")


SPLIT, OFF = "test", "off"


def read_bits(results: Results, model: ModelEntry, less: bool = False) -> Estimate | None:
    """Return bits per byte of test without entities (``less``: minus the baseline's on the same
    documents), with an interval: nats per token times what one nat is in bits per byte.
    """
    place, base = loss(SPLIT, OFF, model=model), results.baseline
    if not less:
        found = intervals.describe(results, place)
    else:
        other = {**place, "model": base}
        found = None if model is base else intervals.compare(results, place, other)
    bits, nats = results.mean({**place, "measure": "bits_per_byte"}), results.mean(place)
    return found.scale(bits / nats) if found and bits and nats else None


def read_cached(results: Results, model: ModelEntry) -> float | None:
    """Return bits per byte of test, times the share of the loss that the largest cache leaves."""
    largest = max(map(int, results.frame.distinct("size", "cache", measure="loss")), default=0)
    cached, alone = (
        results.mean(at("cache", "loss", SPLIT, model=model, size=size)) for size in (largest, 0)
    )
    bits = results.mean(loss(SPLIT, OFF, "bits_per_byte", model=model))
    return bits * (cached / alone) if largest and bits and cached and alone else None


def _list_systems(results: Results, _: Place) -> Iterator[Line]:
    for model in list_systems(results):
        texts = {"System": model.label, "Era": model.kind.era, "Year": str(model.kind.year)}
        yield texts, {"model": model}


def _cost(heading: str, name: str) -> Measure:
    return Measure(heading, digits=0, cell=lambda r, row: read_costs(r, row["model"])[name])


TAGGER = {"step": "ner", "split": SPLIT, "average": "micro"}
MIXED = TAGGER | {"reading": "mixed"}
OVERVIEW = Pivot(
    name="overview",
    title="Every system",
    step=STEP,
    rows=(_list_systems,),
    columns=(
        Measure("Parameters", "parameters", 0),
        _cost("Tokens seen", "seen"),
        _cost("Predicted", "predicted"),
        _cost("Seconds", "seconds"),
        Measure("Bits per byte", digits=4, cell=lambda r, row: read_bits(r, row["model"])),
        Measure(
            "Minus the baseline's", digits=4, cell=lambda r, row: read_bits(r, row["model"], True)
        ),
        Measure("With a cache", digits=4, cell=lambda r, row: read_cached(r, row["model"])),
        Measure("NER F1", "span_f1", 1, True, "interval", place=TAGGER),
        Measure("NER F1, layers mixed", "span_f1", 1, True, "interval", place=MIXED),
    ),
    sparse=True,
    measures="What each system costs to train and what it reaches, by era and year.",
    note=lambda results: OVERVIEW_NOTE + MIXED_NOTE * ("reading" in results.frame.data),
)
OVERVIEW_NOTE = """Scores are of the test split, without entities. Brackets are 95 % intervals over
    documents and seeds, and ± is the standard deviation over seeds. “With a cache” means with the
    largest cache of recent tokens. Seconds are those of the training steps, without validation, and
    include the training of the weights that a system started from, if it was trained here.
    “Predicted” is the number of
    training tokens that the objective predicts; ELECTRA's discriminator judges all of them."""
MIXED_NOTE = """ “Layers mixed” is the F1 of a tagger that reads a learnt mix of all layers, whereas
    “NER F1” is that of the last layer (ELMo's tagger always reads a mix)."""


def draw_overview(results: Results) -> Figure | None:
    """What each system reaches, by era and year, with the seconds of its training. Bars are 95 %
    intervals over documents and, if there are several, over seeds.
    """
    colours, bits, scores = choose_colours(results), list[Bar | None](), list[Bar | None]()
    for model in list_systems(results):
        seconds, colour = read_costs(results, model)["seconds"].value, colours[model.name]
        label = model.label + ("" if seconds is None else f", {seconds:,.0f} s")
        found = read_bits(results, model)
        f1 = intervals.describe(results, {**vectors.F1, "model": model})
        if found or f1:
            bits.append(Bar(label, found, colour) if found else None)
            scores.append(Bar(label, replace(f1, percent=True), colour) if f1 else None)
    panels = {f"Bits per byte ({SPLIT})": bits, "Span F1 of the tagger, in %": scores}
    return figures.draw_intervals(panels)


LEARNT = -0.02
"""Nats per token by which being told the next entity must lower the loss if anything is learnt."""
EQUIVALENT = 0.005
NAMES = {
    "gold": "as the paper gives them",
    "lagged": "after a mention has ended",
    "shuffled": "permuted",
    "none": "none",
    "next": "of the next token (positive control)",
}


def list_adapters(results: Results) -> dict[str, ModelEntry]:
    """Return the entries by the labels that they read, or as LoRA if they have no memory; names
    include the blocks that learn and the window if these are not the fewest and the shortest.
    """
    found = [m for m in results.measured(STEP) if m.kind.name == "pretrained-entities"]
    shortest = min((model.lm.window for model in found), default=0)
    fewest, named = min((model.lm.blocks for model in found), default=0), {}
    for model in found:
        lm, name = model.lm, NAMES.get(model.labels, model.labels)
        if lm.adapter == "lora":
            name = f"LoRA, a head guided by labels: {name}" if lm.antecedent_weight else "LoRA"
        elif not lm.entity_alibi:
            name += ", in the paper's attention"
        name += f", in {lm.blocks} blocks" * (lm.blocks > fewest)
        named[name + f", in windows of {lm.window:,}" * (lm.window > shortest)] = model
    return named


def subtract_adapters(results: Results, ours: str, theirs: str) -> Estimate | None:
    """Return one entry's loss minus another's, labels given; None if either was not scored."""
    listed, split = list_adapters(results), intervals.judged_split(results)
    sides = (loss(split, "on", model=listed.get(name)) for name in (ours, theirs))
    return intervals.compare(results, *sides)


def _find_control(results: Results, place: Place, name: str) -> Place | None:
    """Return what leads to the entry of this name that learns in as many blocks; None without."""
    blocks = place["model"].lm.blocks
    names = name, f"{name}, in {blocks} blocks"
    alike = {n: m for n, m in list_adapters(results).items() if m.lm.blocks == blocks}
    return next(({"model": model} for own, model in alike.items() if own in names), None)


def _adapter_columns(results: Results, _: Place) -> Iterator[Measure]:
    rates = results.frame.distinct("learning_rate", STEP, measure="trial_loss")
    for rate in sorted(rates, key=float):
        place = {"learning_rate": rate, "split": "dev"}
        yield Measure(f"Dev, rate {rate}", "trial_loss", 4, place=place)
    split = intervals.judged_split(results)
    scored = {"step": "perplexity", "split": split, "entities": "on"}
    yield Measure("Test", "loss", 4, shows="plain", place=scored)
    for name, heading in (("LoRA", "minus LoRA"), (NAMES["none"], "minus no labels")):
        control = partial(_find_control, name=name)
        yield Measure(heading, "loss", 4, place=scored, against=control)


ADAPTERS = Pivot(
    name="adapters",
    title="Entity attention on a pretrained model",
    step=STEP,
    rows=(values("model", lambda r: {m: n for n, m in list_adapters(r).items()}, "Labels"),),
    columns=(_adapter_columns,),
    measures="""Loss in nats per token by the labels read: on dev at each learning rate (the best
        one is used), and on test.""",
    note=f"""LoRA has as many parameters in the same blocks and no memory. Each entry is
        compared with one that learns in as many blocks. If the positive control does not beat the
        model without labels by {-LEARNT} nats, the model has not learnt to use the memory, and the
        other rows do not say what labels are worth. Entries in longer windows also differ from the
        others by their windows.""",
)


def say_adapters(results: Results) -> Iterator[str]:
    """Say whether the positive control was passed and, if so, how labels compare with LoRA."""
    told = subtract_adapters(results, NAMES["next"], NAMES["none"])
    if told is None:
        return
    text = (
        "When told the entity of the next token, entity attention differs from its unlabelled"
        f" version by {told} nats per token"
    )
    if told.value > LEARNT or not told.beats:
        yield f"{text}. It has not learnt to use labels, so no verdict on them is given."
        return
    text += ", so it can use labels."
    gap = subtract_adapters(results, NAMES["lagged"], "LoRA")
    if gap is not None:
        verdict = intervals.name_difference(gap.interval, EQUIVALENT)
        text += f" With gold labels after each mention it differs from LoRA by {gap} ({verdict})."
    yield text


PARTS = (
    Part(STEP, (MODELS,), {"figure2": draw_training, "figure3": draw_validation}),
    Part(STEP, (OVERVIEW,), {"overview": draw_overview}, name="overview", title="Every system"),
    Part(STEP, (ADAPTERS,), say=say_adapters, name="adapters", title=str(ADAPTERS.title)),
)
