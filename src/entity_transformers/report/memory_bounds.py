"""What bounds a memory of entities: oracles, the cost of deciding, what given labels leak."""

from __future__ import annotations

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.cells import Cell, Table, show
from entity_transformers.report.frame import Key, write_condition
from entity_transformers.report.memory import STEP, Memory, at, list_memories
from entity_transformers.report.results import Results, summarise, write_label


def build_ceilings(results: Results) -> Table:
    """A row per model: no memory, one of entities, oracles, and what a decision costs."""
    memories = list_memories(results)
    size = max((memory.size for memory in memories), default=0)
    window = max((memory.window for memory in memories), default=0)
    largest = Memory(window, "entities", size)

    def row(model: ModelEntry) -> tuple[Cell, ...]:
        alone, real = (
            results.statistic(model, at(results, one)) for one in (largest.alone(), largest)
        )
        seeds = {
            name: results.by_seed(model, _told(results, "ceiling", name))
            for name in ("mention", "entity", "mention-free", "entity-free", "decision")
        }
        both = (value + seeds["decision"][seed] for seed, value in seeds["entity-free"].items())
        cells = (show(summarise(values.values()), 4) for values in seeds.values())
        return (write_label(model), show(alone, 4), show(real, 4), *cells, show(summarise(both), 4))

    return Table(
        name="memory_ceilings",
        title="What deciding on the entity could bring",
        columns=(
            "Model",
            "No memory",
            f"Entities, {size:,} entries",
            "Told: in a mention?",
            "Told: which entity?",
            "In a mention, free",
            "Which entity, free",
            "Cost of deciding",
            "Which entity, free, and the cost",
        ),
        rows=tuple(map(row, results.measured(STEP))),
        measures=(
            "How far any model can come that decides which entity is named next and then copies:"
            " the loss if an oracle told it, and what the decision costs."
        ),
        note=(
            "Nats per token, of the largest memory of entities. Oracles see the label of the token"
            " that is predicted, so these are no results. Told, the pointer copies nothing else: in"
            " a mention from the memory, or the entity; free, it may copy anything, so that"
            " being told can only help. Which entity: which of the memory's, if any; what is"
            " left is how it is written, and all other text. Cost: the cross-entropy of a pointer"
            " that is trained to say which of the entities in the memory comes, if any; a model"
            " that decides as well and copies as well as told freely has their sum, or less, since"
            " it may be right about the token where it is wrong about the entity."
        ),
    )


def _told(results: Results, measured: str, name: str) -> Key:
    split = next(iter(results.frame.distinct("split", step=STEP)))
    return Key(STEP, measured, split, write_condition(known=name))


def build_leak(results: Results) -> Table:
    """A row per model: what it costs to say whether a token is in a mention."""

    def row(model: ModelEntry) -> tuple[Cell, ...]:
        sides = [
            results.by_seed(model, _told(results, "leak", name))
            for name in ("share", "past", "given")
        ]
        gaps = [value - sides[2][seed] for seed, value in sides[1].items() if seed in sides[2]]
        cells = (show(summarise(values.values()), 4) for values in sides)
        return (write_label(model), *cells, show(summarise(gaps), 4))

    return Table(
        name="memory_leak",
        title="What given labels tell of the next token",
        columns=("Model", "By share", "From the past", "With the label before", "Leak"),
        rows=tuple(map(row, results.measured(STEP))),
        measures=(
            "How much labels tell that no reader can know: the cost of saying whether a token is in"
            " a mention, without and with the label of the token just read."
        ),
        note=(
            "Nats per token, of a logistic regression on the model's state. Where labels are given"
            " as in the paper, a model reads the label of a token whose mention has not ended, and"
            " from it that there is a mention. A memory whose labels lag does not."
        ),
    )
