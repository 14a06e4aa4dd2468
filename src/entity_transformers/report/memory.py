"""Memories of equal size: the loss by what they keep, and against recent tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.bootstrap import compare_losses
from entity_transformers.report.cells import MISSING, Cell, Number, Table, show
from entity_transformers.report.colours import INK, PALETTE
from entity_transformers.report.differences import BOOTSTRAP_SEED, LEVEL, cover, seed_interval
from entity_transformers.report.frame import Key, Row, read_condition, write_condition
from entity_transformers.report.measures import Tree
from entity_transformers.report.results import Results, summarise, write_label

STEP = "memory"
UNITS = {
    "loss": "nats per token",
    "nll": "nats",
    "held": "entries",
    "bytes": "bytes",
    "learning_rate": "per step",
    "chosen": "nats per token of the split to choose on",
    "ceiling": "nats per token",
}
NONE, RECENT = ("none", 0), "recent"
NAMES = {
    "recent": "recent tokens",
    "entities": "entities",
    "mentions": "mentions, not grouped",
    "surface": "spellings, no chains",
    "shuffled": "permuted entities",
    "random": "random spans",
}
CLASSES = {
    "outside": "Outside mentions",
    "first": "First mentions",
    "near": "Later, near",
    "far": "Later, far",
}
Memory = tuple[str, int]


def measure(tree: Tree) -> Iterator[Row]:
    """memory.json of every run, by policy and size (``policy=none``: no memory): the loss, by class
    too, the nats of each document, and what the memory is.
    """
    for model, seed, found in tree.each(STEP, "memory.json"):
        documents = found["documents"]
        total = sum(document["tokens"] for document in documents)
        for entry in found["memories"]:
            for name, value, count, about in _list_numbers(entry, documents, total):
                condition = write_condition(policy=entry["policy"], size=entry["size"], **about)
                yield Row(STEP, name, value, found["split"], condition, count, model, seed)
        for name, value in found["ceilings"].items():
            condition = write_condition(known=name)
            yield Row(STEP, "ceiling", value, found["split"], condition, total, model, seed)


def _list_numbers(
    entry: Mapping[str, Any], documents: Sequence[Mapping[str, Any]], total: int
) -> Iterator[tuple[str, float, int | None, dict[str, str]]]:
    """Measure, value, count and what it is further about."""
    yield "loss", entry["loss"], total, {}
    for name, part in entry["classes"].items():
        if part["tokens"]:
            yield "loss", part["loss"], part["tokens"], {"class_": name}
    for document, nats in zip(documents, entry["documents"], strict=True):
        yield "nll", nats, document["tokens"], {"document": document["document"]}
    for name in ("held", "bytes", "learning_rate", "chosen"):
        if entry[name] is not None:
            yield name, entry[name], None, {}


def write_policy(policy: str) -> str:
    """How tables and figures name a policy."""
    kept = policy.removeprefix("half-")
    return f"half recent, half {NAMES[kept]}" if kept != policy else NAMES[policy]


def list_memories(results: Results) -> list[Memory]:
    """The policies and sizes that were measured, none left out, by size."""
    found = {
        (one["policy"], int(one["size"]))
        for one in map(
            read_condition, results.frame.distinct("condition", step=STEP, measure="held")
        )
    }
    order = list(NAMES) + [f"half-{name}" for name in NAMES]
    return sorted(found - {NONE}, key=lambda memory: (memory[1], order.index(memory[0])))


def _at(results: Results, memory: Memory, name: str = "loss", **more: str) -> Key:
    split = next(iter(results.frame.distinct("split", step=STEP)))
    return Key(STEP, name, split, write_condition(policy=memory[0], size=memory[1], **more))


def build_memory(results: Results) -> Table:
    """A row per model, size and policy: the loss, what the memory takes from it, and its difference
    to as many recent tokens.
    """
    rows = [
        _row(results, model, memory)
        for model in results.measured(STEP)
        for memory in list_memories(results)
    ]
    return Table(
        name="memory",
        title="Memories of equal size",
        columns=(
            "Model",
            "Entries",
            "What they are",
            "Held at most",
            "KiB",
            "Loss",
            "Less than without",
            "Against recent",
        ),
        rows=tuple(rows),
        measures=(
            "What a memory of so many entries is worth, by what it keeps: the recent tokens of the"
            " document, or what is named in it."
        ),
        note=(
            "Nats per token; the language model is left as it is, for each row a pointer of one"
            " form is trained. What a mention brings in is known two words after its end: labels"
            " lag, none of the predicted token or of an unfinished mention is given."
            " Against recent: the loss less that with as many recent tokens, with the interval over"
            " documents and over seeds together. The model begins anew with each window."
        ),
    )


def _row(results: Results, model: ModelEntry, memory: Memory) -> tuple[Cell, ...]:
    loss, alone = (results.by_seed(model, _at(results, one)) for one in (memory, NONE))
    less = summarise(alone[seed] - value for seed, value in loss.items() if seed in alone)
    size = results.statistic(model, _at(results, memory, "bytes")).mean
    return (
        write_label(model),
        Number(memory[1], 0),
        write_policy(memory[0]),
        show(results.statistic(model, _at(results, memory, "held")), 0),
        Number(None if size is None else size / 1024, 1),
        show(summarise(loss.values()), 4),
        show(less, 4),
        compare(results, model, memory, (RECENT, memory[1])) if memory[0] != RECENT else MISSING,
    )


def compare(results: Results, model: ModelEntry, ours: Memory, theirs: Memory) -> Cell:
    """Loss of one memory less that of another, paired by document and seed."""
    sides = [_documents(results, model, memory) for memory in (ours, theirs)]
    seeds = sorted(sides[0].keys() & sides[1].keys())
    if not seeds:
        return MISSING
    pairs = [(sides[0][seed], sides[1][seed]) for seed in seeds]
    tokens = pairs[0][0][1]
    found = compare_losses(
        np.mean([one[0] for one, _ in pairs], axis=0),
        np.mean([other[0] for _, other in pairs], axis=0),
        tokens,
        samples=results.bootstrap_samples,
        seed=BOOTSTRAP_SEED,
        confidence=LEVEL,
    )
    gaps = [float((one[0] - other[0]).sum() / tokens.sum()) for one, other in pairs]
    interval = found["interval"]
    low, high = cover(tuple(interval), seed_interval(gaps)) if interval else (None, None)
    return Number(found["difference"], 4, low=low, high=high, signed=True)


def _documents(
    results: Results, model: ModelEntry, memory: Memory
) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Nats and tokens of each document by seed, in one order."""
    wanted = {"policy": memory[0], "size": str(memory[1])}
    found: dict[int, list[tuple[str, float, int]]] = {}
    for row in results.frame.find(step=STEP, measure="nll", model=model.name):
        parts = read_condition(row.condition)
        document = parts.pop("document")
        if parts == wanted and row.seed is not None and row.value is not None:
            found.setdefault(row.seed, []).append((document, row.value, row.count or 0))
    return {
        seed: (
            np.array([value for _, value, _ in sorted(rows)]),
            np.array([count for *_, count in sorted(rows)]),
        )
        for seed, rows in found.items()
    }


def build_classes(results: Results) -> Table:
    """A row per model, size and policy: the loss of each class of tokens."""
    memories = list_memories(results)
    return Table(
        name="memory_classes",
        title="Memories of equal size, by class of token",
        columns=("Model", "Entries", "What they are", *CLASSES.values()),
        rows=tuple(
            (
                write_label(model),
                Number(memory[1], 0),
                write_policy(memory[0]) if memory != NONE else "no memory",
                *(
                    show(results.statistic(model, _at(results, memory, class_=name)), 4)
                    for name in CLASSES
                ),
            )
            for model in results.measured(STEP)
            for memory in (NONE, *memories)
        ),
        measures="Where a memory pays: the loss in nats per token by what the token is.",
        note=(
            "Mentions are those of the labels that the memory is made from. Later, near: the"
            " entity's latest mention ended at most a window before; far: earlier. The model reads"
            " windows that follow one another, so it may not see a near one either."
        ),
    )


def build_ceilings(results: Results) -> Table:
    """A row per model: no memory, one of entities, oracles, and what a decision costs."""
    size = max((size for _, size in list_memories(results)), default=0)

    def row(model: ModelEntry) -> tuple[Cell, ...]:
        alone, real = (
            results.statistic(model, _at(results, memory)) for memory in (NONE, ("entities", size))
        )
        seeds = {
            name: results.by_seed(model, _ceiling(results, name))
            for name in ("mention", "entity", "decision")
        }
        both = (seeds["entity"][seed] + seeds["decision"][seed] for seed in seeds["entity"])
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
            "Cost of deciding",
            "Told, and the cost",
        ),
        rows=tuple(map(row, results.measured(STEP))),
        measures=(
            "How far any model can come that decides which entity is named next and then copies:"
            " the loss if an oracle told it, and what the decision costs."
        ),
        note=(
            "Nats per token, of the largest memory of entities. Oracles see the label of the token"
            " that is predicted, so these are no results. Told which entity: what is"
            " left is how it is written, and all other text. Cost: the cross-entropy of a pointer"
            " that is trained to say which of the entities in the memory comes, if any; a model"
            " that decides as well and copies as well as these two has their sum, or less, since"
            " it may be right about the token where it is wrong about the entity."
        ),
    )


def _ceiling(results: Results, name: str) -> Key:
    split = next(iter(results.frame.distinct("split", step=STEP)))
    return Key(STEP, "ceiling", split, write_condition(known=name))


def draw_memory(results: Results) -> Figure | None:
    """Loss against bytes, a line per policy."""
    models, memories = results.measured(STEP), list_memories(results)
    if not models or not memories:
        return None
    figure = Figure(figsize=(8.4, 4.2 * len(models)), layout="constrained")
    policies = list(dict.fromkeys(policy for policy, _ in memories))
    for axes, model in zip(figure.subplots(len(models), squeeze=False)[:, 0], models, strict=True):
        for policy, colour in zip(policies, cycle(PALETTE), strict=False):
            own = [memory for memory in memories if memory[0] == policy]
            kib = [results.statistic(model, _at(results, m, "bytes")).mean for m in own]
            losses = [list(results.by_seed(model, _at(results, m)).values()) for m in own]
            means = [float(np.mean(values)) for values in losses]
            spans = [seed_interval(values) for values in losses]
            errors = [(span[1] - span[0]) / 2 if span else 0.0 for span in spans]
            axes.errorbar(
                [(size or 0) / 1024 for size in kib],
                means,
                errors,
                marker="o",
                capsize=3,
                color=colour,
                linestyle="-" if policy in (RECENT, "entities", "half-entities") else "--",
                label=write_policy(policy),
            )
        alone = results.statistic(model, _at(results, NONE)).mean
        if alone is not None:
            axes.axhline(alone, color=INK, linewidth=1, linestyle=":", label="no memory")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_title(write_label(model))
        axes.set_xlabel("KiB of memory")
        axes.set_ylabel("Loss in nats per token")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
