"""The training of the language models: its losses, size and time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import paper
from entity_transformers.report.colours import choose_colours, choose_marks
from entity_transformers.report.figures import Line, Panel, draw_lines
from entity_transformers.report.frame import at
from entity_transformers.report.pivot import Measure, Pivot, Place, key_of, models
from entity_transformers.report.results import (
    TRAIN_LOSS,
    Results,
    Statistic,
    has_entities,
    sort_by_era,
    summarise,
    write_label,
)
from entity_transformers.report.table import MISSING, Cell, Number, Table, show

TITLE, STEP = "The models", "lm"
FEWEST = 3
"""Kinds of models from which on a study compares systems."""
SHARES = (0.25, 0.5, 1.0)
"""Of the seconds of the system that is through first."""
OBJECTIVES = {
    "causal": "nats per next token",
    "mixture": "nats per next token, of the mixture with what the pointer copies",
    "masked": "nats per hidden token",
    "masked-next": "nats per hidden token, and per answer whether B follows A",
    "permuted": "nats per token that is predicted in a random order",
    "replaced": "nats per hidden token of the generator, and lambda times the discriminator's loss",
}


def list_systems(results: Results) -> list[ModelEntry]:
    """The trained entries by era and year, then in the study's order; none where a study has fewer
    than `FEWEST` kinds.
    """
    entries = results.measured(STEP)
    if len({entry.kind.name for entry in entries}) < FEWEST:
        return []
    return sort_by_era(entries)


def read_seconds(results: Results, model: ModelEntry, measure: str) -> dict[int, float | None]:
    """A time by seed, whatever machine it was measured on."""
    rows = results.frame.find(STEP, measure=measure, model=model.name)
    pairs = zip(rows["seed"], rows["value"], strict=True)
    return {int(seed): None if pd.isna(value) else float(value) for seed, value in pairs}


def read_timing(results: Results, model: ModelEntry, measure: str) -> Statistic:
    """Mean and deviation over seeds of a time."""
    by_seed = read_seconds(results, model, measure)
    return summarise(by_seed.get(seed) for seed in results.seeds)


def count_tokens(results: Results, model: ModelEntry) -> Statistic:
    """Tokens that it was trained on, those of the weights that it started from counted in."""
    before = results.by_seed(model, at(STEP, "tokens_before"))
    seen = results.by_seed(model, at(STEP, "tokens_seen"))
    return summarise(tokens + before.get(seed, 0) for seed, tokens in seen.items())


def count_seconds(results: Results, model: ModelEntry) -> Statistic:
    """Seconds of its training steps, the median of one times their number, without validations; of
    what has no steps (static vectors) all seconds. Those of the weights that it started from are
    counted in.
    """
    whole = read_seconds(results, model, "seconds_total")
    before = read_seconds(results, model, "seconds_before")
    steps = results.by_seed(model, at(STEP, "steps"))
    for seed, second in read_seconds(results, model, "seconds_per_step").items():
        if second is not None and seed in steps:
            whole[seed] = second * steps[seed]
    return summarise(
        seconds + (before.get(seed) or 0) for seed, seconds in whole.items() if seconds is not None
    )


def list_machines(results: Results, *entries: ModelEntry) -> frozenset[tuple[str, ...]]:
    """The machines (device, processes, threads) that these models were trained on."""
    rows = results.frame.find(STEP, measure="seconds_per_step")
    rows = rows[rows["model"].isin([entry.name for entry in entries])]
    names = [name for name in ("device", "processes", "threads") if name in rows]
    return frozenset(tuple(row) for row in rows[names].astype(str).itertuples(index=False))


def explain_missing(results: Results) -> str:
    """Why models of the study have no perplexity or no loss of training, as sentences; "" where all
    have both.
    """
    reasons = {
        "masked": "predicts hidden tokens from both sides",
        "replaced": "tells tokens that were put in from the text's own",
        "static": "has one vector per word and predicts none",
    }
    text = "".join(
        f" {write_label(model)} {reason}: no perplexity, no loss per next token."
        for model in results.measured(STEP)
        for need, reason in reasons.items()
        if model.can({need}) and not model.can({"causal"})
    )
    others = list_objectives(results)
    apart = [
        write_label(model)
        for model in results.measured(STEP)
        if model.can({"causal"}) and model.name in others
    ]
    return f"{text} Losses of training in table objectives: {', '.join(apart)}." if apart else text


def list_objectives(results: Results) -> dict[str, str]:
    """By the model's name the objective of its losses, where it is not the next token's."""
    rows = results.frame.find(STEP)
    if "objective" not in rows:
        return {}
    rows = rows[rows["objective"] != ""]
    return dict(zip(rows["model"], rows["objective"], strict=True))


def _seeds(results: Results, place: Place) -> Cell:
    return Number(len(results.by_seed(place["model"], key_of(place))), 0)


def _timed(heading: str, measure: str, digits: int) -> Measure:
    return Measure(
        heading,
        digits=digits,
        read=lambda results, place: read_timing(results, place["model"], measure),
    )


def _labels(_: Results, place: Place) -> Cell:
    return place["model"].labels if has_entities(place["model"]) else MISSING


MODELS = Pivot(
    name="models",
    title="The models and their training",
    step=STEP,
    rows=(models(),),
    columns=(
        Measure("Labels", cell=_labels),
        Measure("Seeds", "parameters", cell=_seeds),
        Measure("Parameters", "parameters", 0),
        Measure("Steps", "steps", 0),
        Measure("Tokens seen", "tokens_seen", 0),
        Measure("Best dev loss", "best_loss", 4, place={"split": "dev"}),
        Measure("at step", "best_step", 0),
        Measure("Skipped steps", "skipped_steps", 0),
        _timed("s / step", "seconds_per_step", 3),
        _timed("Tokens / s", "tokens_per_second", 0),
    ),
    measures=(
        "Labels: the layer of entity labels that the model is trained on, and that it reads in"
        " table 2 and the probe where entities are on; in table 4 every model reads the gold layer,"
        " in tables 3 and 5 none. Controls are GPT2E trained without labels (unlabelled), with"
        " labels permuted among a document's mentions (shuffled) or without a label on first"
        " mentions (first-only), and GPT2 with as many parameters as GPT2E (parameter-matched)."
    ),
    note=lambda results: f"Losses are in nats per token.{explain_missing(results)}",
    paper_note=(
        f"The paper trains GPT2-small ({paper.PARAMETERS / 1e6:.0f} M parameters) for"
        f" {paper.TRAINING_STEPS:,} steps."
    ),
)


def _objective(heading: str, measure: str, split: str, **about: str) -> Measure:
    def read(results: Results, place: Place) -> Statistic:
        objective = list_objectives(results)[place["model"].name]
        key = at(STEP, measure, split, objective=objective, **about)
        return results.statistic(place["model"], key)

    return Measure(heading, digits=4, read=read)


def _name_objective(results: Results, place: Place) -> Cell:
    objective = list_objectives(results)[place["model"].name]
    return OBJECTIVES.get(objective, objective)


OTHERS = Pivot(
    name="objectives",
    title="Losses of other objectives than the next token",
    step=STEP,
    rows=(models(),),
    keep=lambda results, place: place["model"].name in list_objectives(results),
    columns=(
        Measure("Objective", cell=_name_objective),
        _objective("Train", "objective_loss", "train"),
        _objective("Dev", "objective_loss", "dev", entities="on"),
        _objective("Best dev", "objective_best_loss", "dev"),
    ),
    measures="What the models were trained on that are not trained to predict the next token.",
    note=(
        "On dev, windows and what is hidden in them are the same at every validation and for every"
        " seed. These losses cannot be compared with nats per next token, nor one objective with"
        " another."
    ),
)


def list_timed(results: Results) -> list[ModelEntry]:
    """The systems whose training loss is nats per next token and began with random weights."""
    return [
        model
        for model in list_systems(results)
        if model.can({"causal"})
        and model.initial_weights is None
        and results.statistic(model, TRAIN_LOSS).mean is not None
        and read_timing(results, model, "seconds_per_step").mean
    ]


def read_loss_at(results: Results, model: ModelEntry, seconds: float) -> Number:
    """Training loss of the last point of its curve, the mean of the steps since the one before,
    that it has reached after ``seconds``.
    """
    of_step, found = read_seconds(results, model, "seconds_per_step"), []
    for seed, losses in results.curve(model, "train_loss").items():
        second = of_step.get(seed)
        # a rounding of the seconds must not leave out the last point of the fastest
        reached = losses[losses.index * (second or np.inf) <= seconds * (1 + 1e-6)]
        if len(reached):
            found.append(float(reached.iloc[-1]))
    return show(summarise(found), 3)


def build_equal_time(results: Results) -> Table:
    """Systems after the same seconds of training, where the overview has them after the same
    tokens; none where fewer than two can be compared.
    """
    systems = list_timed(results)
    whole = {
        model.name: (results.statistic(model, at(STEP, "steps")).mean or 0)
        * (read_timing(results, model, "seconds_per_step").mean or 0)
        for model in systems
    }
    least = min(whole.values(), default=0.0)

    def row(model: ModelEntry) -> tuple[Cell, ...]:
        return (
            write_label(model),
            show(read_timing(results, model, "seconds_per_step"), 3),
            Number(whole[model.name], 0),
            *(read_loss_at(results, model, share * least) for share in SHARES),
            read_loss_at(results, model, whole[model.name]),
        )

    several = len(list_machines(results, *systems)) > 1
    return Table(
        name="equal_time",
        title="At equal training time",
        columns=(
            "System",
            "s / step",
            "Seconds",
            *(f"Loss after {share * least:,.0f} s" for share in SHARES),
            "Loss at its end",
        ),
        rows=tuple(map(row, systems)) if len(systems) > 1 else (),
        measures="Training loss after as many seconds of training steps, validations left out.",
        note=(
            "Nats per token of the text that was being read, dropout on: of unseen text as long as"
            " training has not begun its second pass. All follow their own schedule, so that a"
            " slower system is read before its rate has fallen, and stands worse than if it had"
            " been trained for those seconds alone."
        )
        + " Seconds were measured on different machines." * several,
    )


TABLES = (MODELS, OTHERS, build_equal_time)


def _causal(results: Results) -> list[ModelEntry]:
    """The models whose losses are nats per next token; the others' stand in table objectives."""
    others = list_objectives(results)
    return [m for m in results.trained if m.can({"causal"}) and m.name not in others]


def read_line(results: Results, model: ModelEntry, column: str) -> Line | None:
    """A curve at the steps that all seeds have, means over them; the paper's two models have a band
    from the lowest seed to the highest. None for no step.
    """
    series = results.curve(model, column)
    curves = pd.concat(series, axis=1, join="inner").sort_index() if series else pd.DataFrame()
    if curves.empty:
        return None
    front = model in (results.proposed, results.baseline)
    low, high = (curves.min(axis=1).tolist(), curves.max(axis=1).tolist()) if front else (None,) * 2
    return Line(
        label=write_label(model),
        colour=choose_colours(results)[model.name],
        x=curves.index.tolist(),
        y=curves.mean(axis=1).tolist(),
        low=low,
        high=high,
        mark=choose_marks(results)[model.name],
        front=front,
    )


def _draw_curves(lines: list[Line | None], title: str) -> Figure | None:
    """The whole run on the left and, where it has enough points, its last half on the right."""
    drawn = [line for line in lines if line is not None]
    panels = [Panel(drawn, "Step", "Nats per token", title)]
    if max((len(line.x) for line in drawn), default=0) >= 6:
        panels.append(Panel([_halve(line) for line in drawn], "Step", title="The last half"))
    return draw_lines(panels, "ends")


def _halve(line: Line) -> Line:
    start = next(i for i, step in enumerate(line.x) if step >= line.x[-1] / 2)
    low, high = (one and one[start:] for one in (line.low, line.high))
    return replace(line, x=line.x[start:], y=line.y[start:], low=low, high=high)


def draw_training(results: Results) -> Figure | None:
    """Figure 2: training loss over steps, one line per model (mean over seeds)."""
    lines = [read_line(results, model, "train_loss") for model in _causal(results)]
    return _draw_curves(lines, "Training loss")


def draw_validation(results: Results) -> Figure | None:
    """Figure 3: validation loss over steps; dashed: the proposed model without entities."""
    drawn, ours = _causal(results), results.proposed
    lines = [read_line(results, model, "dev_loss_on") for model in drawn]
    if ours is not None and ours in drawn and has_entities(ours):
        off = read_line(results, ours, "dev_loss_off")
        named = f"{write_label(ours)}, entities off"
        lines += [replace(off, label=named, dash="--")] if off else []
    return _draw_curves(lines, "Validation loss")


FIGURES = {
    "figure2": (
        draw_training,
        "Figure 2: training loss, the mean in nats per token since the previous point, with dropout"
        " on; lines are means over the seeds, the bands of the paper's two models reach from the"
        " lowest seed to the highest, and markers tell apart models of one colour. Losses of"
        " another objective than the next token's are in table objectives alone.",
    ),
    "figure3": (
        draw_validation,
        "Figure 3: validation loss in nats per token; dashed: the same model without entities."
        " Lines, bands and markers as in figure 2.",
    ),
}
