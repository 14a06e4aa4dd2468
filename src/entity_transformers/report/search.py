"""Learning rates tried: the loss on dev at each, and whether the study's is the best of them."""

from __future__ import annotations

from collections.abc import Iterator

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.cells import Cell, Table, show
from entity_transformers.report.frame import Key, Row, read_condition, write_condition
from entity_transformers.report.measures import Tree
from entity_transformers.report.results import Results, write_label

UNITS = {"trial_loss": "of the objective, per target", "learning_rate": "per step"}
STEP = "search"


def measure(tree: Tree) -> Iterator[Row]:
    """search.json of every run: the loss on dev by times the study's rate, and the rate."""
    for model, seed, found in tree.each(STEP, "search.json"):
        own = found["learning_rate"]
        yield Row(STEP, "learning_rate", own, model=model, seed=seed)
        for trial in found["trials"]:
            where = _at(trial["learning_rate"] / own)
            yield Row(STEP, "trial_loss", trial["loss"], "dev", where, model=model, seed=seed)


def _at(factor: float) -> str:
    return write_condition(times=f"{factor:g}")


def build_search(results: Results) -> Table:
    """A row per model: its learning rate, and the mean loss on dev at each of the trials."""
    found = results.frame.distinct("condition", step=STEP, measure="trial_loss")
    factors = sorted(float(read_condition(condition)["times"]) for condition in found)
    models = results.measured(STEP)

    def losses(model: ModelEntry) -> dict[float, float]:
        keys = {factor: Key(STEP, "trial_loss", "dev", _at(factor)) for factor in factors}
        means = {f: results.statistic(model, key).mean for f, key in keys.items()}
        return {f: mean for f, mean in means.items() if mean is not None}

    def row(model: ModelEntry) -> tuple[Cell, ...]:
        rate = results.statistic(model, Key(STEP, "learning_rate"))
        tried = losses(model)
        best = f"{min(tried, key=lambda f: tried[f]):g}" if tried else "none"
        shown = (
            show(results.statistic(model, Key(STEP, "trial_loss", "dev", _at(factor))), 4)
            for factor in factors
        )
        return (write_label(model), show(rate, 6), *shown, best)

    return Table(
        name="search",
        title="Learning rates tried",
        columns=("Model", "Its rate", *(f"× {factor:g}" for factor in factors), "Best ×"),
        rows=tuple(map(row, models)),
        measures=(
            "Loss on dev after short trainings at several times each model's learning rate, as many"
            " trials for every model."
        ),
        note=_explain([(write_label(m), losses(m)) for m in models], factors),
    )


def _explain(tried: list[tuple[str, dict[float, float]]], factors: list[float]) -> str:
    """What the trials say of the rates that the models are trained at."""
    text = (
        "Losses are of each model's own objective; a dash: it diverged. Each trial has a schedule"
        " of its own."
    )
    others = []
    for label, losses in tried:
        best = min(losses, key=lambda factor: losses[factor], default=1.0)
        if best != 1.0:
            last = ", the last that was tried" if best in (factors[0], factors[-1]) else ""
            others.append(f"{label} (× {best:g}{last})")
    if others:
        text += f" Another rate than the study's is better for {', '.join(others)}."
    return text
