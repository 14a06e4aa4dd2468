"""Fine-tuning: learning rates that were tried, and where entities can matter."""

from __future__ import annotations

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.cells import Cell, Number, Table
from entity_transformers.report.frame import Key, read_condition, write_condition
from entity_transformers.report.results import Results, write_label
from entity_transformers.report.transfer import STEP, list_trials, with_own_seeds


def build_rates(results: Results) -> Table:
    """A row per model, with pretraining and without: the loss on dev at each rate."""
    results = with_own_seeds(results)
    trials = [
        (row, read_condition(row.condition))
        for row in results.frame.find(step=STEP, measure="rate_loss")
    ]
    rates = sorted({float(about["rate"]) for _, about in trials})

    def row(model: ModelEntry, pretrained: str, task: str) -> tuple[Cell, ...] | None:
        own = {
            float(about["rate"]): one.value
            for one, about in trials
            if (one.model, about["pretrained"], about["task"]) == (model.name, pretrained, task)
        }
        if not own:
            return None
        known = {rate: loss for rate, loss in own.items() if loss is not None}
        best = min(known, key=known.__getitem__)
        losses = (Number(own.get(rate), 4) for rate in rates)
        begun = "pretrained" if pretrained == "True" else "random"
        at_edge = len(own) > 1 and best in (min(own), max(own))
        shown = f"{best:g}{', the last that was tried' if at_edge else ''}"
        return (write_label(model), begun, task, *losses, shown)

    tasks = sorted({about["task"] for _, about in trials})
    rows = (
        row(model, begun, task)
        for model in results.measured(STEP)
        for begun in ("True", "False")
        for task in tasks
    )
    return Table(
        name="transfer_rates",
        title="Fine-tuning: learning rates tried",
        columns=("Model", "Weights", "Task", *(f"{rate:g}" for rate in rates), "Best"),
        rows=tuple(one for one in rows if one),
        measures="Loss on dev after fine-tuning at each rate, of one seed; the best is taken.",
        note="Nats per example. Test is scored at the rate that was chosen alone.",
    )


def build_entities(results: Results) -> Table:
    """A row per task and model that was told entities: in how many examples that can matter."""
    results = with_own_seeds(results)

    def row(task: str, split: str, variant: str, model: ModelEntry) -> tuple[Cell, ...] | None:
        about = write_condition(task=task, variant=variant)
        recalls, moved = (Key(STEP, name, split, about) for name in ("recalls", "moved"))
        if not results.has(model, recalls):
            return None
        count = results.count(model, recalls)
        numbers = (results.statistic(model, key).mean for key in (recalls, moved))
        cells = (Number(value, 0) for value in (count, *numbers))
        return (task, split, variant, write_label(model), *cells)

    rows = (
        row(*trial, model) for trial in list_trials(results) for model in results.measured(STEP)
    )
    return Table(
        name="transfer_entities",
        title="Fine-tuning: where entities can matter",
        columns=("Task", "Split", "Variant", "Model", "Examples", "Recalled", "Moved"),
        rows=tuple(one for one in rows if one),
        measures="In how many examples the memory holds an entity that comes again.",
        note=(
            "Recalled: an entity of the first text comes again after it; elsewhere entities change"
            " nothing. Moved: shuffled entities are others than the resolver's; elsewhere shuffling"
            " is no control."
        ),
    )
