"""Memories of equal size: the loss by what they keep, and against recent tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.cells import MISSING, Cell, Number, Table, show
from entity_transformers.report.frame import Key, Row, read_condition, write_condition
from entity_transformers.report.measures import Tree
from entity_transformers.report.paired import compare
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
    "leak": "nats per token",
}
RECENT = "recent"
NAMES = {
    "none": "no memory",
    "recent": "recent tokens",
    "entities": "entities",
    "mentions": "mentions, not grouped",
    "surface": "spellings, no chains",
    "shuffled": "permuted entities",
    "nouns": "nouns by spelling",
    "rare": "rare words",
    "random": "random spans",
    "context": "longer context",
}
CHAINS = {"entities"}
CONTROLS = {"mentions", "surface", "shuffled", "nouns", "random"}
UNLABELLED = {"rare"}
"""What is kept by chains, by what knows none, and by what needs no labels; half of it or all."""
GROUPS = {
    ("place", "outside"): "Outside mentions",
    ("place", "first"): "First mentions",
    ("place", "near"): "Later, near",
    ("place", "far"): "Later, far",
    ("token", "begin"): "Later: first token",
    ("token", "rest"): "Later: others",
    ("sort", "name"): "Later: names",
    ("sort", "pronoun"): "Later: pronouns",
    ("sort", "description"): "Later: descriptions",
}


class Memory(NamedTuple):
    """What was measured: the window in which the model reads, the memory's policy and its size, and
    the model: ``frozen``, or ``joint`` where it went on learning with it.
    """

    window: int
    policy: str
    size: int
    model: str = "frozen"

    def alone(self) -> Memory:
        """No memory, in the same window."""
        return self._replace(policy="none", size=0)

    def against(self, policy: str) -> Memory:
        """Another policy, in the same window and of the same size."""
        return self._replace(policy=policy)


def measure(tree: Tree) -> Iterator[Row]:
    """memory.json of every run, by window, policy and size (``policy=none``: no memory): the loss,
    by group of tokens too, the nats of each document, and what the memory is.
    """
    for model, seed, found in tree.each(STEP, "memory.json"):
        documents = found["documents"]
        total = sum(document["tokens"] for document in documents)
        for read in found["windows"]:
            measured = [("frozen", entry) for entry in read["memories"]]
            measured += [("joint", entry) for entry in read.get("joint", [])]
            for how, entry in measured:
                memory = Memory(read["window"], entry["policy"], entry["size"], how)
                for name, value, count, about in _list_numbers(entry, documents, total):
                    condition = write_condition(**memory._asdict(), **about)
                    yield Row(STEP, name, value, found["split"], condition, count, model, seed)
            for what in ("ceiling", "leak"):
                for name, value in read.get(f"{what}s", read.get(what, {})).items():
                    condition = write_condition(known=name)
                    yield Row(STEP, what, value, found["split"], condition, total, model, seed)


def _list_numbers(
    entry: Mapping[str, Any], documents: Sequence[Mapping[str, Any]], total: int
) -> Iterator[tuple[str, float, int | None, dict[str, str]]]:
    """Measure, value, count and what it is further about."""
    yield "loss", entry["loss"], total, {}
    for grouping, groups in entry["groups"].items():
        for name, part in groups.items():
            yield "loss", part["loss"], part["tokens"], {grouping: name}
    for document, nats in zip(documents, entry["documents"], strict=True):
        yield "nll", nats, document["tokens"], {"document": document["document"]}
    for name in ("held", "bytes", "learning_rate", "chosen"):
        if entry[name] is not None:
            yield name, entry[name], None, {}


def write_policy(policy: str) -> str:
    """How tables and figures name a policy."""
    kept = policy.removeprefix("half-")
    return f"half recent, half {NAMES[kept]}" if kept != policy else NAMES[policy]


def list_memories(results: Results, model: str = "frozen") -> list[Memory]:
    """What was measured with that model, none left out but no memory, by window and size."""
    conditions = results.frame.distinct("condition", step=STEP, measure="held")
    parts = map(read_condition, conditions)
    found = {
        Memory(int(one["window"]), one["policy"], int(one["size"]), one["model"]) for one in parts
    }
    order = list(NAMES) + [f"half-{name}" for name in NAMES]
    named = [one for one in found if one.policy != "none" and one.model == model]
    return sorted(named, key=lambda one: (one.window, one.size, order.index(one.policy)))


def at(results: Results, memory: Memory, name: str = "loss", **more: str) -> Key:
    split = next(iter(results.frame.distinct("split", step=STEP)))
    return Key(STEP, name, split, write_condition(**memory._asdict(), **more))


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
            "Window",
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


def build_joint(results: Results) -> Table:
    """The same where the model went on learning with the memory."""
    rows = [
        _row(results, model, memory)
        for model in results.measured(STEP)
        for memory in list_memories(results, "joint")
        if results.by_seed(model, at(results, memory))  # those that begin anew with each window
    ]
    return replace(
        build_memory(results),
        name="memory_joint",
        title="Memories that the model learnt with",
        rows=tuple(rows),
        measures=(
            "The same where the language model went on learning together with its pointer, with the"
            " gradient through what earlier windows wrote."
        ),
        note=(
            "Nats per token. Each row has a model of its own, of as many steps on the same windows;"
            " less than without: than the model that went on learning without a memory."
        ),
    )


def _row(results: Results, model: ModelEntry, memory: Memory) -> tuple[Cell, ...]:
    both = (memory, memory.alone())
    loss, alone = (results.by_seed(model, at(results, one)) for one in both)
    less = summarise(alone[seed] - value for seed, value in loss.items() if seed in alone)
    size = results.statistic(model, at(results, memory, "bytes")).mean
    return (
        write_label(model),
        Number(memory.window, 0),
        Number(memory.size, 0),
        write_policy(memory.policy),
        show(results.statistic(model, at(results, memory, "held")), 0),
        Number(None if size is None else size / 1024, 1),
        show(summarise(loss.values()), 4),
        show(less, 4),
        MISSING
        if memory.policy == RECENT
        else compare(results, model, STEP, memory._asdict(), memory.against(RECENT)._asdict()),
    )


def build_classes(results: Results) -> Table:
    """A row per model, window, size and policy: the loss of each group of tokens."""
    memories = list_memories(results)
    alone = dict.fromkeys(memory.alone() for memory in memories)
    rows = sorted([*alone, *memories], key=lambda memory: (memory.window, memory.size))
    groups = {key: name for key, name in GROUPS.items() if _is_there(results, *key)}
    return Table(
        name="memory_classes",
        title="Memories of equal size, by kind of token",
        columns=("Model", "Window", "Entries", "What they are", *groups.values()),
        rows=tuple(
            (
                write_label(model),
                Number(memory.window, 0),
                Number(memory.size, 0),
                write_policy(memory.policy),
                *(
                    show(results.statistic(model, at(results, memory, **dict([key]))), 4)
                    for key in groups
                ),
            )
            for model in results.measured(STEP)
            for memory in rows
        ),
        measures="Where a memory pays: the loss in nats per token by what the token is.",
        note=(
            "Mentions are those of the labels that the memory is made from. Later: of an entity"
            " that was mentioned before; near: its latest mention ended at most a window before;"
            " far: earlier. The model reads windows that follow one another, so it may not see a"
            " near one either. Names, pronouns, descriptions: by their spelling."
        ),
    )


def _is_there(results: Results, grouping: str, name: str) -> bool:
    """Was any token of this group?"""
    conditions = results.frame.distinct("condition", step=STEP, measure="loss")
    return any(read_condition(one).get(grouping) == name for one in conditions)
