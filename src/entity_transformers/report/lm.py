"""The training of the language models: its losses, size and time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import paper
from entity_transformers.report.cells import MISSING, Cell, Number, Table, show
from entity_transformers.report.frame import Key, Row, read_condition, write_condition
from entity_transformers.report.measures import Tree, write_machine
from entity_transformers.report.results import (
    Results,
    Statistic,
    has_entities,
    summarise,
    write_label,
)

UNITS = {
    "loss": "nats per token",
    "best_loss": "nats per token",
    "objective_loss": "of the objective",
    "objective_best_loss": "of the objective",
    "parameters": "parameters",
    "steps": "steps",
    "best_step": "steps",
    "skipped_steps": "steps",
    "epochs": "epochs",
    "word_vectors": "words",
    "tokens_seen": "tokens",
    "tokens_before": "tokens",
    "seconds_per_step": "seconds",
    "seconds_validation_step": "seconds",
    "seconds_total": "seconds",
    "seconds_before": "seconds",
    "tokens_per_second": "tokens per second",
}
STEP = "lm"
ON, OFF = write_condition(entities="on"), write_condition(entities="off")
_LOSSES = {
    "train_loss": ("loss", "train", ""),  # over the interval before the weights scored, dropout on
    "dev_loss_on": ("loss", "dev", ON),
    "dev_loss_off": ("loss", "dev", OFF),
    "best_dev_loss": ("best_loss", "dev", ""),
}


def measure(tree: Tree) -> Iterator[Row]:
    """metrics.json and timing.json of every run; seconds stand under the machine they were
    measured on.
    """
    for model, seed, metrics in tree.each(STEP, "metrics.json"):
        losses = _name_losses(metrics.get("objective"))
        for name, value in _numbers(metrics):
            measured, split, condition = losses.get(name, (name, "", ""))
            yield Row(STEP, measured, value, split, condition, model=model, seed=seed)
        timing = tree.read(f"{STEP}/{model}/{seed}/timing.json") or {}
        for name, value in _numbers(timing):
            if name not in ("threads", "processes"):
                condition = write_machine(timing)
                yield Row(STEP, name, value, "", condition, model=model, seed=seed)


def _name_losses(objective: str | None) -> Mapping[str, tuple[str, str, str]]:
    """Measure, split and condition of each loss; those of an objective other than the next token's
    stand under its name, so that no table puts them beside nats per token.
    """
    if objective is None:
        return _LOSSES
    return {
        name: (f"objective_{measured}", split, at_objective(objective, condition))
        for name, (measured, split, condition) in _LOSSES.items()
    }


def at_objective(objective: str, condition: str = "") -> str:
    """The condition of a loss of another objective than the next token's."""
    return write_condition(objective=objective, **read_condition(condition))


def _numbers(values: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    """All but texts and the seed, which is a column of its own."""
    for name, value in values.items():
        if name != "seed" and not isinstance(value, str):
            yield name, value


def read_timing(results: Results, model: ModelEntry, measure: str) -> Statistic:
    """Mean and deviation over seeds of a time, whatever machine it was measured on."""
    by_seed = _seconds(results, model, measure)
    return summarise(by_seed.get(seed) for seed in results.seeds)


def count_tokens(results: Results, model: ModelEntry) -> Statistic:
    """Tokens that it was trained on, those of the weights that it started from counted in."""
    before = results.by_seed(model, Key(STEP, "tokens_before"))
    seen = results.by_seed(model, Key(STEP, "tokens_seen"))
    return summarise(tokens + before.get(seed, 0) for seed, tokens in seen.items())


def count_seconds(results: Results, model: ModelEntry) -> Statistic:
    """Seconds of its training steps, the median of one times their number, without validations; of
    what has no steps (static vectors) all seconds. Those of the weights that it started from are
    counted in.
    """
    whole = _seconds(results, model, "seconds_total")
    before = _seconds(results, model, "seconds_before")
    steps = results.by_seed(model, Key(STEP, "steps"))
    for seed, second in _seconds(results, model, "seconds_per_step").items():
        if second is not None and seed in steps:
            whole[seed] = second * steps[seed]
    return summarise(
        seconds + (before.get(seed) or 0) for seed, seconds in whole.items() if seconds is not None
    )


def counts_all(results: Results, model: ModelEntry) -> bool:
    """Do `count_tokens` and `count_seconds` know of all that its weights have cost?"""
    return model.initial_weights is None or all(
        results.frame.find(step=STEP, measure=name, model=model.name)
        for name in ("tokens_before", "seconds_before")
    )


def _seconds(results: Results, model: ModelEntry, measure: str) -> dict[int | None, float | None]:
    """A time by seed, whatever machine it was measured on."""
    rows = results.frame.find(step=STEP, measure=measure, model=model.name)
    return {row.seed: row.value for row in rows}


def list_machines(results: Results, *models: ModelEntry) -> frozenset[str]:
    """The machines (device, processes, threads) that these models were trained on."""
    rows = results.frame.find(step=STEP, measure="seconds_per_step")
    names = {model.name for model in models}
    return frozenset(row.condition for row in rows if row.model in names)


def build_models(results: Results) -> Table:
    """Size and training of every model."""

    def row(model: ModelEntry) -> tuple[Cell, ...]:
        trained = (
            show(results.statistic(model, key), 4 if key.measure == "best_loss" else 0)
            for key in _TRAINED
        )
        timed = (show(read_timing(results, model, name), digits) for name, digits in _TIMED)
        seeds = len(results.by_seed(model, Key(STEP, "parameters")))
        labels = model.labels if has_entities(model) else MISSING
        return (write_label(model), labels, Number(seeds, 0), *trained, *timed)

    return Table(
        name="models",
        title="The models and their training",
        columns=(
            "Model",
            "Labels",
            "Seeds",
            "Parameters",
            "Steps",
            "Tokens seen",
            "Best dev loss",
            "at step",
            "Skipped steps",
            "s / step",
            "Tokens / s",
        ),
        rows=tuple(row(model) for model in results.measured(STEP)),
        measures=(
            "Labels: the layer of entity labels that the model is trained on, and that it reads in"
            " table 2, the probe and the calibration where entities are on; in table 4 every model"
            " reads the gold layer, in tables 3 and 5 none."
            " Controls are GPT2E trained without labels (unlabelled), with labels permuted among a"
            " document's mentions (shuffled) or without a label on first mentions (first-only), and"
            " GPT2 with as many parameters as GPT2E (parameter-matched)."
        ),
        note=f"Losses are in nats per token.{explain_missing(results)}",
        paper_note=(
            f"The paper trains GPT2-small ({paper.PARAMETERS / 1e6:.0f} M parameters) for"
            f" {paper.TRAINING_STEPS:,} steps."
        ),
    )


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
    rows = results.frame.find(step=STEP)
    found = ((row.model, read_condition(row.condition).get("objective")) for row in rows)
    return {model: objective for model, objective in found if objective is not None}


def build_objectives(results: Results) -> Table:
    """The losses of the models whose objective is not the next token's."""
    objectives = list_objectives(results)

    def row(model: ModelEntry, objective: str) -> tuple[Cell, ...]:
        plain = at_objective(objective)
        found = (
            Key(STEP, "objective_loss", "train", plain),
            Key(STEP, "objective_loss", "dev", at_objective(objective, ON)),
            Key(STEP, "objective_best_loss", "dev", plain),
        )
        shown = (show(results.statistic(model, key), 4) for key in found)
        return (write_label(model), OBJECTIVES.get(objective, objective), *shown)

    return Table(
        name="objectives",
        title="Losses of other objectives than the next token",
        columns=("Model", "Objective", "Train", "Dev", "Best dev"),
        rows=tuple(
            row(model, objectives[model.name])
            for model in results.measured(STEP)
            if model.name in objectives
        ),
        measures="What the models were trained on that are not trained to predict the next token.",
        note=(
            "On dev, windows and what is hidden in them are the same at every validation and for"
            " every seed. Not to be compared with nats per next token, nor one objective with"
            " another."
        ),
    )


OBJECTIVES = {
    "causal": "nats per next token",
    "mixture": "nats per next token, of the mixture with what the pointer copies",
    "masked": "nats per hidden token",
    "permuted": "nats per token that is predicted in a random order",
    "replaced": "nats per hidden token of the generator, and lambda times the discriminator's loss",
}


_TRAINED = (
    Key(STEP, "parameters"),
    Key(STEP, "steps"),
    Key(STEP, "tokens_seen"),
    Key(STEP, "best_loss", "dev"),
    Key(STEP, "best_step"),
    Key(STEP, "skipped_steps"),
)
_TIMED = (("seconds_per_step", 3), ("tokens_per_second", 0))
