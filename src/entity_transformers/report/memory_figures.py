"""Pictures of memories: loss by size, and what entities gain by how far their last mention is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.colours import INK, PALETTE
from entity_transformers.report.differences import seed_interval
from entity_transformers.report.memory import (
    RECENT,
    STEP,
    Memory,
    at,
    list_memories,
    write_policy,
)
from entity_transformers.report.results import Results, write_label

SOLID = (RECENT, "entities", "half-entities")
DISTANCES = tuple(str(2**power) for power in range(18))
FEWEST = 100
"""Tokens below which a distance is not drawn."""


def draw_memory(results: Results) -> Figure | None:
    """Loss against bytes, a panel per model and window, a line per policy."""
    memories = list_memories(results)
    panels = _list_panels(results, memories)
    if not panels:
        return None
    figure = Figure(figsize=(8.4, 4.2 * len(panels)), layout="constrained")
    every = figure.subplots(len(panels), squeeze=False)[:, 0]
    for axes, (model, window) in zip(every, panels, strict=True):
        own = [memory for memory in memories if memory.window == window]
        policies = dict.fromkeys(memory.policy for memory in own)
        for policy, colour in zip(policies, cycle(PALETTE), strict=False):
            _draw_policy(axes, results, model, [m for m in own if m.policy == policy], colour)
        alone = results.statistic(model, at(results, own[0].alone())).mean
        if alone is not None:
            axes.axhline(alone, color=INK, linewidth=1, linestyle=":", label="no memory")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_title(f"{write_label(model)}, windows of {window} tokens")
        axes.set_xlabel("KiB of memory")
        axes.set_ylabel("Loss in nats per token")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _list_panels(results: Results, memories: Sequence[Memory]) -> list[tuple[ModelEntry, int]]:
    """One for each model and window."""
    windows = dict.fromkeys(memory.window for memory in memories)
    return [(model, window) for model in results.measured(STEP) for window in windows]


def _draw_policy(
    axes: Axes, results: Results, model: ModelEntry, memories: Sequence[Memory], colour: str
) -> None:
    """The line of a policy by size."""
    kib = [results.statistic(model, at(results, m, "bytes")).mean for m in memories]
    losses = [list(results.by_seed(model, at(results, m)).values()) for m in memories]
    spans = [seed_interval(values) for values in losses]
    axes.errorbar(
        [(size or 0) / 1024 for size in kib],
        [float(np.mean(values)) for values in losses],
        [(span[1] - span[0]) / 2 if span else 0.0 for span in spans],
        marker="o",
        capsize=3,
        color=colour,
        linestyle="-" if memories[0].policy in SOLID else "--",
        label=write_policy(memories[0].policy),
    )


def draw_distances(results: Results) -> Figure | None:
    """Later mentions by how far their entity's last one is: the loss with entities less that with
    as many recent tokens, a panel per model and window, a line per size.
    """
    memories = [memory for memory in list_memories(results) if memory.policy == "half-entities"]
    panels = _list_panels(results, memories)
    if not panels:
        return None
    figure = Figure(figsize=(6.4, 3.4 * len(panels)), layout="constrained")
    every = figure.subplots(len(panels), squeeze=False, sharex=True)[:, 0]
    for axes, (model, window) in zip(every, panels, strict=True):
        own = [memory for memory in memories if memory.window == window]
        for memory, colour in zip(own, cycle(PALETTE), strict=False):
            gains = list(_list_gains(results, model, memory))
            axes.plot(*zip(*gains, strict=True), marker="o", color=colour, label=f"{memory.size:,}")
        axes.axhline(0, color=INK, linewidth=1, linestyle=":")
        axes.axvline(window, color=INK, linewidth=1, linestyle=":")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_title(f"{write_label(model)}, windows of {window} tokens")
        axes.set_ylabel("Nats per token, less is better")
        axes.legend(title="entries")
    axes.set_xlabel("Tokens since the entity's last mention")
    return figure


def _list_gains(
    results: Results, model: ModelEntry, memory: Memory
) -> Iterator[tuple[float, float]]:
    """Distance, and the loss there less that with recent tokens; where `FEWEST` tokens are."""
    for distance in DISTANCES:
        keys = [at(results, one, distance=distance) for one in (memory, memory.against(RECENT))]
        sides = [results.by_seed(model, key) for key in keys]
        rows = results.frame.find(step=STEP, model=model.name, condition=keys[0].condition)
        enough = sum(row.count or 0 for row in rows) >= FEWEST * max(1, len(sides[0]))
        if enough and sides[0] and sides[0].keys() == sides[1].keys():
            yield float(distance), float(np.mean([sides[0][s] - sides[1][s] for s in sides[0]]))
