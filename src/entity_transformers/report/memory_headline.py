"""The sentences that open the report of a study of memories."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from entity_transformers.corpus.layers import RESOLVER, split_layer
from entity_transformers.kinds import ModelEntry
from entity_transformers.report.differences import name_difference
from entity_transformers.report.memory import (
    CHAINS,
    CONTROLS,
    RECENT,
    STEP,
    UNLABELLED,
    Memory,
    at,
    list_memories,
    write_policy,
)
from entity_transformers.report.paired import compare, read_interval
from entity_transformers.report.results import Results, write_label

BySize = Mapping[int, Memory]


def say_best(results: Results) -> list[str]:
    """What a memory of each size does in the longest window: the loss with recent tokens, the
    lowest with chains, that of the controls that know none, and that of those that need no labels.
    """
    return [said for model in results.measured(STEP) for said in _say_model(results, model)]


def _say_model(results: Results, model: ModelEntry) -> Iterator[str]:
    losses = _read_losses(results, model)
    recent = _find_lowest(losses, {RECENT})
    if not recent:
        return
    found = [f"{losses[memory]:.4f}{_of(size, recent)}" for size, memory in recent.items()]
    yield (
        f"{write_label(model)} with a memory of “{write_policy(RECENT)}”: {', '.join(found)};"
        " nats per token."
    )
    chains = _find_lowest(losses, _halved(CHAINS))
    entities = chains or recent
    for which, policies, beside in (
        ("use chains", CHAINS, recent),
        ("use none", CONTROLS, entities),
        ("need no labels", UNLABELLED, recent),
    ):
        lowest = _find_lowest(losses, _halved(policies))
        yield from _say_lowest(results, model, which, lowest, beside)
    if chains:
        yield _say_chains(results.chains)


def _say_chains(labels: str) -> str:
    resolver = split_layer(labels)[1].removeprefix(RESOLVER)
    if resolver == "gold":
        return "The chains are gold ones."
    spelling = ", which joins names by their spelling" if resolver.startswith("names") else ""
    return f"The chains are those of resolver {resolver}{spelling}."


def _read_losses(results: Results, model: ModelEntry) -> dict[Memory, float]:
    """Of the memories of the longest window, as table `memory` has them."""
    memories = list_memories(results)
    longest = max((memory.window for memory in memories), default=0)
    means = {m: results.statistic(model, at(results, m)).mean for m in memories}
    return {m: mean for m, mean in means.items() if m.window == longest and mean is not None}


def _halved(policies: Collection[str]) -> set[str]:
    """Alone, and beside as many recent tokens."""
    return {name for policy in policies for name in (policy, f"half-{policy}")}


def _find_lowest(losses: Mapping[Memory, float], policies: Collection[str]) -> dict[int, Memory]:
    """Of each size the memory of these policies with the lowest loss."""
    named = sorted((m for m in losses if m.policy in policies), key=losses.__getitem__)
    sizes = sorted({memory.size for memory in named})
    return {size: next(m for m in named if m.size == size) for size in sizes}


def _of(size: int, sizes: Collection[int]) -> str:
    return f" with {size:,}{' entries' if size == next(iter(sizes)) else ''}"


def _say_lowest(
    results: Results, model: ModelEntry, which: str, lowest: BySize, beside: BySize
) -> Iterator[str]:
    pairs = {size: (memory, beside[size]) for size, memory in lowest.items() if size in beside}
    if not pairs:
        return
    gaps = {
        size: compare(results, model, STEP, ours._asdict(), theirs._asdict())
        for size, (ours, theirs) in pairs.items()
    }
    words = {size: name_difference(read_interval(gap)) for size, gap in gaps.items()}
    ours, theirs = ({write_policy(pair[i].policy) for pair in pairs.values()} for i in (0, 1))
    subject = f", “{next(iter(ours))}”," if len(ours) == 1 else ","
    against = f"“{next(iter(theirs))}”" if len(theirs) == 1 else "those that use chains"
    alike = len(set(words.values())) == 1
    items = []
    for size, gap in gaps.items():
        told = [] if len(ours) == 1 else [f"“{write_policy(pairs[size][0].policy)}”"]
        told += [] if alike else [words[size]]
        items.append(f"{gap}{_of(size, gaps)}" + (f" ({'; '.join(told)})" if told else ""))
    verdict = f": {next(iter(words.values()))}" if alike else ""
    yield (
        f"The lowest loss of memories that {which}{subject} against {against}:"
        f" {', '.join(items)}{verdict}."
    )
