"""What memories carry and where they pay: synthetic recall, between two bounds; the loss by kind of
token, of models that read with and without labels and with caches around them (step mentions); and
that of models with room for few entities (step capacity).

A side is the place (`report.frame`) of a model in one condition: its ``labels``, the ``size`` of
the cache around it (0: none), and, in step capacity, ``rows``, the entities that it has room for.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from entity_transformers.kinds import KINDS, ModelEntry
from entity_transformers.report import figures, pivot
from entity_transformers.report.frame import at
from entity_transformers.report.pivot import Measure, Part, Pivot, Place
from entity_transformers.report.results import Results
from entity_transformers.report.table import Number

RECALL, LATER = "recall", "later"
ALL = at(RECALL, "accuracy", distance=LATER)


def describe(entry: Mapping[str, Any]) -> str:
    """Return the table's name for an entry of recall.models: what attention takes from its memory,
    and whether the gradient passes through it.
    """
    kind = KINDS[entry["kind"]]
    if "entities" not in kind.can:
        if entry.get("reads") == "document":
            return f"{kind.label} that sees the whole document"
        return kind.label if "state" in kind.can else f"{kind.label} (no memory)"
    papers = entry.get("entity_values", "hidden") == "hidden"
    read = f"{kind.label}: keys{'' if papers else ' and values'} from E"
    if entry.get("memory_gradient_windows", 0):
        return f"{read}, gradient through the memory"
    return f"{read}, memory detached{' (the paper)' if papers else ''}"


def list_trained(results: Results) -> dict[str, str]:
    """Return the trained entries' names in the table, with the entry's own if two are alike."""
    texts = {name: describe(entry) for name, entry in results.recall.items()}
    count = Counter(texts.values())
    named = {name: f"{text} ({name})" if count[text] > 1 else text for name, text in texts.items()}
    return {name: text for name, text in named.items() if results.has({**ALL, "model": name})}


def _list_distances(results: Results) -> dict[str, str]:
    """Return the distances, in windows, and their headings."""
    found = results.frame.distinct("distance", RECALL, measure="accuracy")
    numbers = sorted({*found} - {"0", "1", LATER}, key=int)
    further = {number: f"{number} windows later" for number in numbers}
    named = {"0": "Same window", "1": "1 window later", **further, LATER: "All later windows"}
    return {distance: text for distance, text in named.items() if distance in found}


def _say_recall(results: Results) -> str:
    rows = results.frame.find(RECALL)
    told = rows.drop_duplicates("measure").set_index("measure")["value"]
    questions = rows["count"][rows["distance"] == LATER].iloc[0]
    return f"""Every model read {told["documents"]:,.0f} documents with {told["entities"]:.0f}
        entities and {told["windows"]:.0f} windows of {told["window"]:.0f} tokens, and was scored on
        {questions:,} questions in later windows. Chance is {told["chance"]:.2f}."""


RECALLED = Pivot(
    name="recall",
    title="Synthetic recall: what the memory carries beyond the window (not in the paper)",
    step=RECALL,
    where={"measure": "accuracy"},
    rows=(pivot.values("model", list_trained, "Model and gradient"),),
    columns=(pivot.cross(pivot.values("distance", _list_distances, "Distance"), [Measure("")]),),
    measures="""The share of correct answers to questions about facts that the first window of a
        generated document states, and that later windows can see only through the memory.""",
    note=_say_recall,
)


def draw_recall(results: Results) -> figures.Figure | None:
    """Synthetic recall: the share of facts recalled in windows after the one that stated them.
    Points are means over seeds, bars reach from the lowest to the highest seed. The dotted line
    is chance.
    """
    bars, chance = list[figures.Bar](), None
    for name, label in list_trained(results).items():
        entry, shares = results.recall[name], results.by_seed({**ALL, "model": name}).values()
        colour = figures.PROPOSED if entry.get("memory_gradient_windows", 0) else figures.BASELINE
        colour = colour if "entities" in KINDS[entry["kind"]].can else figures.INK
        number = Number(fmean(shares), interval=(min(shares), max(shares)))
        bars.append(figures.Bar(label, number, colour))
        chance = results.mean(at(RECALL, "chance", model=name))
    label = "Facts recalled beyond the window"
    return figures.draw_intervals({"": bars}, label, dotted=chance)


FAR = "far"
GROUPS = {
    ("place", "outside"): "Outside mentions",
    ("place", "first"): "First mentions",
    ("place", "near"): "Later, near",
    ("place", FAR): "Later, far",
    ("sort", "name"): "Later: names",
    ("sort", "pronoun"): "Later: pronouns",
    ("sort", "description"): "Later: descriptions",
}
LABELS = {"none": "none", "lagged": "lagged", "given": "given (leaking)"}


def list_sides(results: Results, table: Pivot, model: ModelEntry) -> list[Place]:
    """Return the sides of a model that a step has scored, which are rows of the step's table."""
    return [
        {**one, **{name: int(one[name]) for name in ("rows", "size") if name in one}}
        for _, one in table.list_lines(results)
        if one["model"] == model
    ]


def read_loss(results: Results, one: Place) -> float:
    """Return the mean loss over seeds; NaN if there is none."""
    mean = results.mean({**one, "measure": "loss"})
    return float("nan") if mean is None else mean


def count_bytes(results: Results, one: Place) -> float:
    """Return the bytes that a model remembers beside its window, a mean over documents at their
    ends: float32 states and int32 numbers. A recent token has a state and its number. A pointer's
    entity has a state, the tokens of its forms, when it was last seen and how often; the latest
    tokens, whose mentions may still be open, are held, too. NaN for a cache around a model trained
    by others, whose width the study does not state.
    """
    lm: Any = one["model"].lm
    width = getattr(lm, "width", float("nan"))
    found = 4.0 * size * (width + 1) if (size := int(one["size"])) else 0.0
    if one["labels"] == "none" or not hasattr(lm, "entity_lag"):
        return found
    entities = results.mean({**one, "measure": "entities", "scope": ""}) or 0.0
    entity = 4 * (lm.width + lm.pointer_forms * lm.pointer_tokens + 2)
    waiting = 4 * (lm.entity_lag + lm.pointer_tokens) * (lm.width + 2)
    return found + entities * entity + waiting


def _less(heading: str, against: Any, scope: str = "all") -> Measure:
    """Return a column of the row's loss minus another side's, over all tokens or far ones alone."""
    return Measure(heading, "loss", 4, place={"scope": scope}, against=against)


def _groups(results: Results, _: Place) -> Iterator[Measure]:
    for (grouping, name), heading in GROUPS.items():
        if name in results.frame.distinct(grouping, "mentions", measure="loss"):
            yield Measure(heading, "loss", 4, place={grouping: name})


KIB = Measure("KiB", digits=0, cell=lambda results, one: count_bytes(results, one) / 1024)
LOSS = Measure("Loss", "loss", 4)
MENTIONS = Pivot(
    name="mentions",
    title="Where a memory pays",
    step="mentions",
    where={"measure": "loss"},
    rows=(
        pivot.first_split,
        pivot.models,
        pivot.values("labels", LABELS, "Labels"),
        pivot.found("size", "Cache"),
    ),
    keep=pivot.is_scored,
    columns=(
        Measure("Entities", "entities", 0, shows="plain"),
        KIB,
        LOSS,
        _less("Against the baseline", lambda r, _: {"model": r.baseline, "labels": "none"}),
        _groups,
    ),
    measures="Loss in nats per token, by kind of token and by the labels that the model may use.",
    note="""Labels are none, those of mentions that have ended (lagged), or also that of the token
        just read (given), which reveals that a mention has begun. Entities and KiB are what is
        remembered at the end of a document. The baseline is read without labels and with a cache of
        the same size. A later mention is near if its entity was mentioned at most a window before,
        and otherwise far.""",
)


def list_recent(results: Results) -> dict[int, Place]:
    """Return the baseline with a cache and no labels, as step mentions has scored it, by the size
    of the cache, smallest first.
    """
    sides = list_sides(results, MENTIONS, results.baseline) if results.baseline else []
    recent = (one for one in sides if one["labels"] == "none" and one["size"])
    return {one["size"]: {**one, "rows": ""} for one in recent}


def _as_heavy(results: Results, one: Place) -> Place | None:
    """Return the baseline with the smallest cache of no fewer bytes; None if all have fewer."""
    own, recent = count_bytes(results, one), list_recent(results).values()
    return next((other for other in recent if count_bytes(results, other) >= own), None)


CAPACITY = Pivot(
    name="capacity",
    title="Memories of bounded size",
    step="capacity",
    where={"measure": "loss"},
    rows=(
        pivot.first_split,
        pivot.found("rows", "Entities"),
        pivot.found("size", "Recent tokens"),
        pivot.models,
        pivot.values("labels", LABELS, "Labels"),
    ),
    keep=pivot.is_scored,
    columns=(
        KIB,
        LOSS,
        _less("Against the model under test", lambda r, _: {"model": r.proposed}),
        _less(
            "Against as many recent tokens",
            lambda r, one: list_recent(r).get(int(one["rows"]) + int(one["size"])),
        ),
        Measure(
            "Smallest cache with at least as many bytes",
            digits=0,
            cell=lambda results, one: (_as_heavy(results, one) or {}).get("size"),
        ),
        _less("Minus that cache", _as_heavy),
        _less("Minus that cache, far", _as_heavy, FAR),
    ),
    measures="A few entities beside a few recent tokens, compared with recent tokens alone.",
    note="""Nats per token with room for the given number of entities, of which those mentioned
        longest ago are forgotten, beside a cache of the given number of recent tokens. “Recent
        tokens alone” is the baseline without labels, with a cache of as many entries, or with the
        smallest cache tried that has no fewer bytes.""",
)


def say_capacity(results: Results) -> Iterator[str]:
    """Compare the model under test with the baseline in each of its caches, using the model's
    heaviest memory of no more bytes, which is chosen without looking at any loss.
    """
    ours, gains = results.proposed, []
    sides = [] if ours is None else list_sides(results, CAPACITY, ours)
    for size, recent in list_recent(results).items():
        fits = [one for one in sides if _as_heavy(results, one) == recent]
        if fits:
            most = max(fits, key=lambda one: count_bytes(results, one))
            gap = pivot.subtract(results, *({**one, "scope": "all"} for one in (most, recent)))
            gains.append(
                f"{gap} from {size:,} tokens ({most['rows']:,} entities, {most['size']:,} tokens)"
            )
    if ours and gains:
        what = "With at most as many bytes as recent tokens alone, the loss of"
        yield f"{what} {ours.label} differs by {'; '.join(gains)}."


def draw_capacity(results: Results) -> figures.Figure | None:
    """Loss by the size of the memory beside the model, in entries (entities and recent tokens
    together) and in bytes. The dashed line is the baseline, which has recent tokens alone.
    """
    by_entries, by_bytes = list[figures.Line](), list[figures.Line]()

    def add(label: str, colour: str, sides: list[Place], **look: Any) -> None:
        losses = [read_loss(results, one) for one in sides]
        entries = [(one["rows"] or 0) + one["size"] for one in sides]
        kept = [count_bytes(results, one) / 1024 for one in sides]
        by_entries.append(figures.Line(label, colour, entries, losses, **look))
        by_bytes.append(figures.Line(label, colour, kept, losses, **look))

    if results.baseline is not None and (recent := list(list_recent(results).values())):
        label = f"{results.baseline.label}, recent tokens alone"
        add(label, figures.INK, recent, dash="--")
    for model in results.measured("capacity"):
        by_share = defaultdict[float, list[Place]](list)
        for one in list_sides(results, CAPACITY, model):
            by_share[round(one["size"] / max(1, one["rows"] + one["size"]), 2)].append(one)
        colour = figures.choose_colours(results)[model.name]
        for (share, own), mark in zip(sorted(by_share.items()), "os^Dv", strict=False):
            add(f"{model.label}, {share:.0%} recent tokens", colour, own, mark=mark)
    where = "remembered beside the model"
    left = figures.Panel(by_entries, f"Entries {where}", "Loss in nats per token", log=True)
    return figures.draw_lines((left, figures.Panel(by_bytes, f"KiB {where}", log=True)))


PARTS = (
    Part(RECALL, (RECALLED,), {"recall": draw_recall}),
    Part("mentions", (MENTIONS,)),
    Part("capacity", (CAPACITY,), {"capacity": draw_capacity}, say_capacity),
)
