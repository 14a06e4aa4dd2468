"""What is worth remembering (studies/remembering.md): nats per token with what a policy keeps of
the text before a window: as text before it (step text_memory), in a cache (kept_cache), as its keys
and values (kept_keys), or for a trained pointer (kept_pointer).

The unit is the document or book: its nats per token are a mean over its own tokens, and all units
count alike. A difference is negative where the first is better.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from entity_transformers.corpus.layers import is_resolver, split_layer
from entity_transformers.report import figures
from entity_transformers.report.frame import at
from entity_transformers.report.intervals import LEVEL, Estimate, Side
from entity_transformers.report.pivot import Axis, Line, Measure, Part, Pivot, Place
from entity_transformers.report.results import Results
from entity_transformers.report.table import MISSING, Number

FLIPS = 9999
"""Sign flips of the differences of units, for a p value."""
EQUIVALENT = 0.005
"""Nats per token, either way."""
SEEN = ("lady_bridget", "miss_marjoribanks", "bleak_house", "persuasion")
"""Novels whose scores were seen before the study was run, as the plan says."""
KINDS = {
    "other words": ("outside",),
    "first mentions": ("first",),
    "later mentions": ("near", "far"),
}
"""Parts of a text that do not depend on the window: a longer one has more of its mentions near."""


class Kept(NamedTuple):
    """What was kept: in which form (step), a policy, by which labels, how many tokens, beside which
    window, of which text: the original one, or one with other names.
    """

    step: str
    policy: str
    labels: str
    budget: int
    window: int
    text: str

    @property
    def source(self) -> str:
        """Where its mentions come from, in words."""
        change, base = split_layer(self.labels)
        base = "names" if is_resolver(base) else base
        return {None: base, "random": "random spans"}.get(change, f"{base}, {change}")

    @property
    def name(self) -> str:
        """As tables and figures write it: mentions that a resolver or chance has found are names
        and random spans.
        """
        if self.labels == "none":
            return self.policy
        if "mentions" in self.policy and self.source in ("names", "random spans"):
            return self.policy.replace("mentions", self.source)
        return f"{self.policy} ({self.source})"


def list_kept(results: Results, step: str) -> list[Kept]:
    """Everything that was scored, in the order of the study."""
    rows = results.frame.find(step, measure="loss", part="all").reindex(columns=Kept._fields)
    found = rows.drop_duplicates().itertuples(index=False)
    return [Kept(*one)._replace(budget=int(one[3]), window=int(one[4])) for one in found]


def list_original(results: Results, step: str) -> tuple[dict[int, Kept], list[Kept]]:
    """Of the original text each window alone, by its length, and what is kept beside the shortest
    one.
    """
    listed = [kept for kept in list_kept(results, step) if kept.text == "original"]
    alone = {kept.window: kept for kept in listed if not kept.budget}
    short = min(alone, default=0)
    beside = [kept for kept in listed if kept.budget and kept.window == short]
    return dict(sorted(alone.items())), beside


def _side(results: Results, measure: str, **about: Any) -> Side:
    """The study's one model, and a key."""
    step = about.pop("step")
    return results.measured(step)[0], at(step, measure, results.split(step), **about)


def _read(results: Results, kept: Kept, part: str) -> Any:
    """The scores of each unit, of the first seed; None for no such tokens."""
    model, key = _side(results, "nll", part=part, **kept._asdict())
    return next(iter(results.units.find(model.name, key).values()), None) if model else None


def read_losses(results: Results, kept: Kept, part: str = "all") -> pd.Series:
    """Nats per token by unit."""
    scores = _read(results, kept, part)
    if scores is None:
        return pd.Series(dtype=float)
    return pd.Series(scores.values / scores.counts, index=list(scores.units))


def read_share(results: Results, kept: Kept, parts: tuple[str, ...]) -> pd.Series:
    """What parts of a unit add to its nats per token, by unit; 0 where it has no such tokens."""
    every, *some = (_read(results, kept, part) for part in ("all", *parts))
    sums = pd.Series(0.0, index=list(every.units))
    for scores in filter(None, some):
        sums = sums.add(pd.Series(scores.values, index=list(scores.units)), fill_value=0.0)
    return sums / np.asarray(every.counts)


def subtract(
    results: Results, ours: Kept, theirs: Kept, part: str = "all", without: tuple[str, ...] = ()
) -> Estimate | None:
    """The nats per token of one less those of another, over the units that have such tokens, but
    not those with one of the words ``without`` in their names; None for fewer than two.
    """
    first, second = (read_losses(results, one, part) for one in (ours, theirs))
    kept = [not any(word in name for word in without) for name in first.index]
    if not first.index.equals(second.index) or sum(kept) < 2:
        return None
    return estimate((first - second)[kept].to_numpy())


@cache
def _flip(units: int) -> np.ndarray:
    return np.random.default_rng(1).choice([-1.0, 1.0], (FLIPS, units))


def estimate(gaps: np.ndarray) -> Estimate:
    """The mean of the differences of two or more units, with Student's interval and the p of sign
    flips.
    """
    low, high = stats.ttest_1samp(gaps, 0).confidence_interval(LEVEL)
    extreme = (np.abs(_flip(len(gaps)) @ gaps) >= abs(gaps.sum()) * (1 - 1e-12)).sum()
    p = (1 + int(extreme)) / (FLIPS + 1)
    value, low, high = map(float, (gaps.mean(), low, high))
    return Estimate(value, low=low, high=high, p=p, units=len(gaps))


def are_equivalent(gap: Estimate) -> bool:
    """Two one-sided tests at 5 %: is all of the 90 % interval within ± `EQUIVALENT`?"""
    assert gap.interval is not None
    half = (gap.interval[1] - gap.value) / stats.t.ppf((1 + LEVEL) / 2, gap.units - 1)
    return abs(gap.value) + half * stats.t.ppf(0.95, gap.units - 1) < EQUIVALENT


def read_mean(results: Results, kept: Kept, part: str = "all") -> float:
    """Nats per token, the mean over units."""
    return float(np.mean(read_losses(results, kept, part).to_numpy()))


def read_bytes(results: Results, kept: Kept) -> float | None:
    """The bytes that it holds at most; of a window alone those of its keys and values."""
    if kept.budget:
        return results.statistic(*_side(results, "bytes", **kept._asdict())).value
    about = {"step": kept.step, "window": kept.window, "text": kept.text}
    return results.statistic(*_side(results, "window_bytes", **about)).value


def _list_policies(results: Results, place: Place) -> Iterator[Line]:
    """Each window alone, and what is kept beside it, by budget."""
    listed = list_kept(results, place["step"])
    for alone in (kept for kept in listed if not kept.budget):
        head = alone.text, Number(alone.window, 0)
        yield (*head, "nothing"), {"own": {}, "loss": read_mean(results, alone)}
        beside = [k for k in listed if k.budget and k[4:] == alone[4:]]
        for name in dict.fromkeys(kept.name for kept in beside):
            own = {kept.budget: kept for kept in beside if kept.name == name}
            yield (*head, name), {"alone": alone, "own": own}


def _budgets(results: Results, step: str) -> Iterator[Measure]:
    def cell(results: Results, row: Place, size: int) -> Estimate | None:
        kept = row["own"].get(size)
        return subtract(results, kept, row["alone"]) if kept else None

    for size in sorted({kept.budget for kept in list_kept(results, step)} - {0}):
        yield Measure(f"{size:,} tokens", digits=4, cell=partial(cell, size=size))


def make_losses(step: str) -> Pivot:
    """A row for each window and policy, with a column for each budget."""
    return Pivot(
        name=step,
        title="What is kept beside the window",
        step=step,
        rows=(Axis(("Text", "Window", "Kept"), _list_policies),),
        columns=(Measure("Loss", digits=4, held="loss"), partial(_budgets, step=step)),
        measures="""Nats per token without a memory, and how much more (+) or less (−) they are with
            so many tokens kept of the text before the window.""",
        note="""Means over documents or books, with Student's intervals of 95 %. Recent: the tokens
            before the window. Names, mentions: the latest tokens of names by their spelling, of
            labelled mentions; random spans: of as many spans of the same lengths, anywhere.
            Entities: the latest mention of each entity, by the labels in brackets. Half: with as
            many recent tokens. Rare, surprising: of the text so far, by count and by the model's
            loss. Slots: the latest place of each token. Heavy hitters, lately attended: those with
            the most attention, so far (H2O) or of the latest tokens (SnapKV). Shuffled: the chains
            permuted among the mentions; surface: one entity for each spelling. Renamed: the same
            text with invented names.""",
    )


class Contrast(NamedTuple):
    """A hypothesis of the plan: ``ours`` and ``theirs`` are policies with a word that their labels
    begin with. Supported if the difference is at most ``most``, its interval below 0; where that is
    None, if it is better or equivalent.
    """

    name: str
    ours: tuple[str, str]
    theirs: tuple[str, str]
    window: int
    budget: int
    most: float | None
    decided: bool

    def find(self, listed: list[Kept], side: tuple[str, str], text: str) -> Kept | None:
        """What was kept on one of its sides, of a text."""
        wanted = side[0], self.budget, self.window, text
        alike = (k for k in listed if (k.policy, k.budget, k.window, k.text) == wanted)
        return next((kept for kept in alike if kept.labels.startswith(side[1])), None)


def _list_contrasts(step: str) -> Iterator[Contrast]:
    names = "mentions", "resolver"
    for window, budget in (
        (256, 256), (256, 64), (256, 1024), (512, 256), (1024, 256), (2048, 256),
    ):  # fmt: skip
        decided = step == "kept_cache" and (window, budget) == (256, 256)
        for name, against, most in (
            ("P1", ("recent", "none"), -0.03),
            ("P2", ("mentions", "random"), -0.015),
            ("P2", ("rare", "none"), -0.015),
            ("P2", ("surprising", "none"), -0.015),
        ):
            yield Contrast(name, names, against, window, budget, most, decided)
    peers = [(policy, "none") for policy in ("heavy hitters", "lately attended")]
    others = names, ("recent", "none")
    for side, peer in product((("half mentions", "resolver"), *others), peers):
        yield Contrast("P8", side, peer, 256, 256, -EQUIVALENT, side not in others)
    for window in (256, 1024):
        decided = step == "text_memory" and window == 256
        for other in ("shuffled", "surface"):
            ours, theirs = (("half entities", layer) for layer in ("gold", other))
            yield Contrast("P3", ours, theirs, window, 64, None, decided)


class Judged(NamedTuple):
    """A contrast of two things kept: their difference, p if it is decided, and the verdict."""

    name: str
    ours: Kept
    theirs: Kept
    gap: Estimate
    p: float | None
    verdict: str


def adjust(values: list[float]) -> list[float]:
    """p values adjusted by Holm's method."""
    order, adjusted, highest = np.argsort(values), [0.0] * len(values), 0.0
    for rank, place in enumerate(order.tolist()):
        highest = max(highest, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = highest
    return adjusted


def judge_contrasts(results: Results, step: str) -> Iterator[Judged]:
    """The plan's contrasts that this study has scored, each with its verdict."""
    listed = list_kept(results, step)
    found: list[tuple[Contrast, Kept, Kept, Estimate]] = []
    for one, text in product(_list_contrasts(step), dict.fromkeys(kept.text for kept in listed)):
        ours, theirs = (one.find(listed, side, text) for side in (one.ours, one.theirs))
        if ours and theirs and (gap := subtract(results, ours, theirs)):
            found.append((one, ours, theirs, gap))
    original = {one: gap for one, ours, _, gap in found if ours.text == "original"}
    decided = {one: gap.p or 0.0 for one, gap in original.items() if one.decided}
    adjusted = dict(zip(decided, adjust(list(decided.values())), strict=True))
    for one, ours, theirs, gap in found:
        p, verdict = None, "reported"
        if ours.text == "original" and one.decided:
            p = adjusted[one]
            verdict = _decide(one, gap, p)
        elif ours.text == "renamed" and one in decided and original[one].beats:
            # is a difference for the better still there when the names are others?
            lost = gap.value > original[one].value / 2
            verdict = "memorised" if lost else "not memorised"
        yield Judged(one.name, ours, theirs, gap, p, verdict)


def _decide(one: Contrast, gap: Estimate, p: float) -> str:
    better = gap.beats and p < 1 - LEVEL
    if one.most is not None:
        return "supported" if better and gap.value <= one.most else "not supported"
    if better:
        return "better"
    worse = gap.interval is not None and gap.interval[0] > 0
    return "equivalent" if are_equivalent(gap) else "worse" if worse else "undecided"


def _judged_rows(results: Results, place: Place) -> Iterator[Line]:
    for one in judge_contrasts(results, place["step"]):
        ours, theirs = one.ours, one.theirs
        sizes = Number(ours.window, 0), Number(ours.budget, 0)
        shown = {**one._asdict(), "p": MISSING if one.p is None else one.p}
        yield (one.name, ours.text, *sizes, ours.name, theirs.name), shown


def _less(heading: str, part: str = "all", without: tuple[str, ...] = ()) -> Measure:
    """The difference in a part of the tokens, or in some of the texts; a dash if in none or all."""

    def cell(results: Results, row: Place) -> Estimate | str:
        gap = subtract(results, row["ours"], row["theirs"], part, without)
        return MISSING if gap is None or (without and gap.units == row["gap"].units) else gap

    return Measure(heading, digits=4, cell=cell)


def make_contrasts(step: str) -> Pivot:
    """A row for each contrast of the plan."""
    return Pivot(
        name=f"{step}_contrasts",
        title="The plan's contrasts",
        step=step,
        rows=(Axis(("", "Text", "Window", "Kept", "First", "Second"), _judged_rows),),
        columns=(
            Measure("First less second", digits=4, held="gap"),
            _less("In unseen texts", without=SEEN),
            _less("Near mentions", "near"),
            _less("Far mentions", "far"),
            Measure("p (Holm)", digits=4, held="p"),
            Measure("Verdict", held="verdict"),
        ),
        measures="What studies/remembering.md, written before any score, asks of these numbers.",
        note=f"""Nats per token, less is better. Unseen texts: without the novels whose scores were
            seen before the plan's study was run, if it has any. Near and far mentions: later ones,
            whose entity was mentioned last within as many tokens as the window has, or before that.
            p: of sign flips, adjusted over the decided rows of this table. Supported: better by
            0.03 (P1), 0.015 (P2) or {EQUIVALENT} (P8) at least. Equivalent: within {EQUIVALENT} by
            two one-sided tests. Decided rows of renamed texts: memorised if less than half of a
            difference for the better is left.""",
    )


def _list_prices(results: Results, place: Place) -> Iterator[Line]:
    """Each policy and budget beside the smallest window: which window has its loss?"""
    alone, beside = list_original(results, place["step"])
    losses = [read_mean(results, one) for one in alone.values()]
    for kept in beside:
        short, size = kept.window, read_bytes(results, alone[kept.window])
        loss, held = read_mean(results, kept), read_bytes(results, kept)
        # the longer a window, the lower its loss: by the logarithm of its length in between
        length = 2 ** float(np.interp(-loss, [-one for one in losses], np.log2([*alone])))
        more = None if size is None or loss >= losses[0] else (length / short - 1) * size
        gain = (losses[0] - loss) / (losses[0] - losses[-1]) if len(losses) > 1 else math.nan
        about: Place = {"loss": loss, "share": gain, "length": length}
        about = {**about, "held": held and held / 1024, "more": more and more / 1024}
        times = more / held if more and held else None
        yield (kept.name, Number(kept.budget, 0)), {**about, "times": times}


def _say_prices(results: Results) -> str:
    windows = list(list_original(results, "kept_cache")[0])
    return f"""Beside a window of {windows[0]:,} tokens: the share of what a window of
        {windows[-1]:,} gains over it, and the longer window that has the same loss."""


PRICES = Pivot(
    name="prices",
    title="What a memory costs against a longer window",
    step="kept_cache",
    rows=(Axis(("Kept", "Tokens"), _list_prices),),
    columns=(
        Measure("Loss", digits=4, held="loss"),
        Measure("Share of the gain", digits=0, percent=True, held="share"),
        Measure("KiB", digits=0, held="held"),
        Measure("As a window of", digits=0, held="length"),
        Measure("KiB of that", digits=0, held="more"),
        Measure("Times as many", digits=0, held="times"),
    ),
    measures=_say_prices,
    note="""KiB: what the memory's tensors hold, and the keys and values that the longer window has
        beyond the short one's. Windows that were not read are interpolated by the logarithm of
        their length; a memory is never said to be worth more than the longest.""",
)


def list_gains(results: Results) -> dict[tuple[str, int], dict[str, Estimate]]:
    """By what is held and its budget (0: a longer window) the gain over the smallest window alone
    of each of `KINDS`, per token of the whole text.
    """
    alone, beside = list_original(results, "kept_cache")
    if not alone:
        return {}
    short, *longer = alone.values()
    named = {(f"a window of {kept.window:,}", 0): kept for kept in longer}
    named |= {(kept.name, kept.budget): kept for kept in beside}
    found: dict[tuple[str, int], dict[str, Estimate]] = {}
    for name, kept in named.items():
        for kind, parts in KINDS.items():
            ours, theirs = (read_share(results, one, parts) for one in (kept, short))
            found.setdefault(name, {})[kind] = estimate((ours - theirs).to_numpy())
    return found


def _list_held(results: Results, _: Place) -> Iterator[Line]:
    for (name, budget), gaps in list_gains(results).items():
        yield (name, Number(budget, 0) if budget else MISSING), gaps


GAINS = Pivot(
    name="gains",
    title="Where the gain falls",
    step="kept_cache",
    rows=(Axis(("What is held", "Tokens"), _list_held),),
    columns=tuple(Measure(kind, digits=4, held=kind) for kind in KINDS),
    measures="""Nats per token of the whole text less those of the smallest window alone, by the
        kind of token that they are of: the columns add up to the whole difference.""",
    note="Mentions: of names by their spelling. Means over books, with Student's intervals.",
)


def draw_gains(results: Results) -> figures.Figure | None:
    """Nats per token that a longer window gains over the smallest, and that 256 tokens gain which
    are kept beside it, by the kind of token that the gain is of.
    """
    found = list_gains(results)
    bars = {name: gaps for (name, budget), gaps in found.items() if budget in (0, 256)}
    if len(bars) < 2:
        return None
    figure = figures.Figure(figsize=(8.0, 1.4 + 0.34 * len(bars)), layout="constrained")
    axes = figure.subplots()
    names = sorted(bars, key=lambda name: sum(gap.value for gap in bars[name].values()))
    left, right = np.zeros(len(bars)), np.zeros(len(bars))
    for kind, colour in zip(KINDS, figures.PALETTE, strict=False):
        gains = np.array([-bars[name][kind].value for name in names])
        start = np.where(gains > 0, right, left)
        axes.barh(names, gains, left=start, color=colour, label=kind, height=0.7)
        right, left = right + np.maximum(gains, 0), left + np.minimum(gains, 0)
    axes.axvline(0, color=figures.INK, linewidth=0.8)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("Nats per token gained")
    axes.legend(loc="lower right")
    return figure


PLACES = {
    "text_memory": "As text",
    "kept_cache": "In a cache",
    "kept_keys": "As keys and values",
    "kept_pointer": "For a trained pointer",
}


def say_remembering(results: Results, step: str) -> tuple[str, ...]:
    """The best policy at each budget beside the smallest window, and what the plan decides."""
    alone, beside = list_original(results, step)
    if not beside:
        return ()
    window, said = min(alone), []
    known = {one: gap for one in beside if (gap := subtract(results, one, alone[window]))}
    for size in sorted({one.budget for one in known}):
        best = min((k for k in known if k.budget == size), key=lambda one: known[one].value)
        said.append(f"{best.name} with {size:,} tokens ({known[best]})")
    verdicts = (
        f"{one.name}{' in renamed texts,' * (one.ours.text == 'renamed')} {one.ours.name} against"
        f" {one.theirs.name}: {one.gap}, {one.verdict}."
        for one in judge_contrasts(results, step)
        if one.verdict != "reported"
    )
    return (
        f"{PLACES[step]} beside a window of {window:,} tokens the most is gained by"
        f" {', '.join(said)}, in nats per token less what the window has alone.",
        *verdicts,
    )


def draw_prices(results: Results) -> figures.Figure | None:
    """Nats per token by what is held beside a window, in KiB: in a cache of kept tokens, or as the
    keys and values of a longer window (black). Left: all tokens. Right: later mentions whose entity
    was mentioned last before the window.
    """
    alone, own = list_original(results, "kept_cache")
    if len(alone) < 2:
        return None
    short, *longer = alone.values()
    panels, base = [], read_bytes(results, short)
    for part in ("all", "far"):
        lines = []
        for number, name in enumerate(dict.fromkeys(kept.name for kept in own)):
            some = [kept for kept in own if kept.name == name]
            x = [(read_bytes(results, kept) or 0) / 1024 for kept in some]
            y = [read_mean(results, kept, part) for kept in some]
            look: Any = {"dash": "-" if number < len(figures.PALETTE) else "--", "mark": "o"}
            lines.append(
                figures.Line(name, figures.PALETTE[number % len(figures.PALETTE)], x, y, **look)
            )
        if part == "all" and base is not None:
            x = [((read_bytes(results, one) or 0) - base) / 1024 for one in longer]
            y = [read_mean(results, one) for one in longer]
            lines.append(figures.Line("a longer window", figures.INK, x, y, mark="s"))
        up = "Nats per token" if part == "all" else ""
        title = "All tokens" if part == "all" else "Far later mentions"
        panels.append(figures.Panel(lines, "KiB held beside the window", up, title, log=True))
    return figures.draw_lines(panels)


def draw_contrasts(results: Results) -> figures.Figure | None:
    """P1 and P2: nats per token with 256 tokens of names less those with as many others, in a cache
    beside each window, as keys and values, and for a trained pointer. Hollow: reported without a
    decision; grey: equivalent.
    """
    panels: dict[str, dict[str, figures.Bar]] = {}
    for step in filter(results.ran, ("kept_cache", "kept_keys", "kept_pointer")):
        for name, ours, theirs, gap, _, verdict in judge_contrasts(results, step):
            if ours.text == "original" and name in ("P1", "P2") and ours.budget == 256:
                title = f"{PLACES[step]}, window {ours.window:,}"
                look = figures.PALETTE[0], verdict == "reported"
                bar = figures.Bar(f"{name}: less {theirs.name}", gap, *look)
                panels.setdefault(title, {})[bar.label] = bar
    labels = dict.fromkeys(label for panel in panels.values() for label in panel)
    drawn = [figures.Rows(title, [*map(panel.get, labels)]) for title, panel in panels.items()]
    return figures.draw_intervals(drawn, "Nats per token", EQUIVALENT, across=3)


def _part(step: str, title: str) -> Part:
    tables, figures = [make_contrasts(step), make_losses(step)], {}
    if step == "kept_cache":
        tables += [PRICES, GAINS]
        figures = {"prices": draw_prices, "gains": draw_gains, "contrasts": draw_contrasts}
    return Part(step, title, tuple(tables), figures, partial(say_remembering, step=step))


PARTS = (
    _part("text_memory", "Text as memory"),
    _part("kept_cache", "A cache of what is kept"),
    _part("kept_keys", "Keys and values of what is kept"),
    _part("kept_pointer", "A pointer into what is kept"),
)
