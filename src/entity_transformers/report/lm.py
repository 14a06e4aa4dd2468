"""The training of the language models: its losses, size and time."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import paper
from entity_transformers.report.figures import Line, Panel, choose_colours, choose_marks, draw_lines
from entity_transformers.report.frame import at
from entity_transformers.report.pivot import Measure, Part, Pivot, Place, models
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


def read_line(results: Results, model: ModelEntry, column: str, half: bool = False) -> Line | None:
    """A curve, or its last half, at the steps that all seeds have, means over them; the paper's two
    models have a band from the lowest seed to the highest. None for no step.
    """
    series = results.curve(model, column)
    curves = pd.concat(series, axis=1, join="inner").sort_index() if series else pd.DataFrame()
    if curves.empty:
        return None
    curves = curves[curves.index >= curves.index[-1] / 2] if half else curves
    front, off = model in (results.proposed, results.baseline), column == "dev_loss_off"
    return Line(
        label=write_label(model) + ", entities off" * off,
        colour=choose_colours(results)[model.name],
        x=curves.index.tolist(),
        y=curves.mean(axis=1).tolist(),
        low=curves.min(axis=1).tolist() if front else None,
        high=curves.max(axis=1).tolist() if front else None,
        dash="--" if off else "-",
        mark=choose_marks(results)[model.name],
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
    return draw_lines(panels)


def draw_training(results: Results) -> Figure | None:
    """Figure 2: training loss, the mean since the previous point, dropout on; lines are means over
    the seeds, bands reach from the lowest seed to the highest.
    """
    return _draw_curves(results, "train_loss", "Training loss")


def draw_validation(results: Results) -> Figure | None:
    """Figure 3: validation loss; dashed: the same model without entities."""
    return _draw_curves(results, "dev_loss_on", "Validation loss", "dev_loss_off")


PARTS = (
    Part(STEP, "The models", (MODELS,), {"figure2": draw_training, "figure3": draw_validation}),
)
