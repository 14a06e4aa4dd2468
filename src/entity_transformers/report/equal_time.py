"""Systems after the same seconds of training, where the overview has them after the same tokens."""

from __future__ import annotations

import numpy as np

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.cells import Cell, Number, Table, show
from entity_transformers.report.frame import Key
from entity_transformers.report.lm import STEP, list_machines, read_timing
from entity_transformers.report.overview import list_systems
from entity_transformers.report.results import Results, summarise, write_label

SHARES = (0.25, 0.5, 1.0)
"""Of the seconds of the system that is through first."""


def list_timed(results: Results) -> list[ModelEntry]:
    """The systems whose training loss is nats per next token and began with random weights."""
    return [
        model
        for model in list_systems(results)
        if model.can({"causal"})
        and model.initial_weights is None
        and results.statistic(model, Key(STEP, "loss", "train")).mean is not None
        and read_timing(results, model, "seconds_per_step").mean
    ]


def read_loss_at(results: Results, model: ModelEntry, seconds: float) -> Number:
    """Training loss of the last point of its curve, the mean of the steps since the one before,
    that it has reached after ``seconds``.
    """
    found = []
    for run in results.of(model):
        each = results.frame.find(
            step=STEP, measure="seconds_per_step", model=model.name, seed=run.seed
        )
        second = next((row.value for row in each), None)
        if not second or "train_loss" not in run.curve:
            continue
        losses = run.curve["train_loss"]
        # a rounding of the seconds must not leave out the last point of the fastest
        reached = (run.curve["step"] * second <= seconds * (1 + 1e-6)) & ~np.isnan(losses)
        if reached.any():
            found.append(float(losses[reached][-1]))
    return show(summarise(found), 3)


def build_equal_time(results: Results) -> Table:
    """A row per system, by era and year; none where fewer than two can be compared."""
    systems = list_timed(results)
    whole = {
        model.name: (results.statistic(model, Key(STEP, "steps")).mean or 0)
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

    note = (
        "Nats per token of the text that was being read, dropout on: of unseen text as long as"
        " training has not begun its second pass. All follow their own schedule, so that a slower"
        " system is read before its rate has fallen, and stands worse than if it had been trained"
        " for those seconds alone."
    )
    if len(list_machines(results, *systems)) > 1:
        note += " Seconds were measured on different machines."
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
        note=note,
    )
