"""What is worth remembering (studies/remembering.md): nats per token when a policy keeps some of
the text before a window, as text (step text_memory), in a cache (kept_cache), as its keys and
values (kept_keys), or for a trained pointer (kept_pointer).

The unit is the document or book: its nats per token are a mean over its own tokens, and all units
count alike. A difference is negative if the first is better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from entity_transformers.corpus.layers import is_resolver, split_layer
from entity_transformers.report import figures
from entity_transformers.report.intervals import LEVEL, Estimate
from entity_transformers.report.pivot import Line, Measure, Part, Pivot, Place
from entity_transformers.report.results import Results
from entity_transformers.report.table import MISSING, Number

FLIPS = 9999
"""The number of random sign flips of the units' differences behind a p value."""
EQUIVALENT = 0.005
"""Nats per token, in either direction, within which a difference counts as none."""
SEEN = ("lady_bridget", "miss_marjoribanks", "bleak_house", "persuasion")
"""Novels whose scores were seen before the study was run, as the plan says."""
KINDS = {
    "other words": ("outside",),
    "first mentions": ("first",),
    "later mentions": ("near", "far"),
}
"""Kinds of tokens that do not depend on the window, unlike near and far, which are merged."""
CACHE, NOTHING, GOLD = "kept_cache", "nothing", "half entities (gold"
PLACES = {
    "text_memory": "As text",
    CACHE: "In a cache",
    "kept_keys": "As keys and values",
    "kept_pointer": "For a trained pointer",
}
"""How each step keeps tokens."""
KEPT = ("text", "window", "name", "budget")
"""What was kept: from which text (the original, or one with other names), beside which window, by
which policy, and how many tokens.
"""
Kept = tuple[str, int, str, int]


@cache
def name_kept(policy: str, labels: str) -> str:
    """Name what was kept as tables and figures do: mentions found by a resolver are "names", and
    those drawn at random are "random spans".
    """
    change, base = split_layer(labels)
    base = "names" if is_resolver(base) else base
    source = {None: base, "random": "random spans"}.get(change, f"{base}, {change}")
    if labels == "none":
        return NOTHING if policy == "none" else policy
    if "mentions" in policy and source in ("names", "random spans"):
        return policy.replace("mentions", source)
    return f"{policy} ({source})"


def tell_kept(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the first model that has any, with columns `KEPT`."""
    rows = rows[rows["model"].isin(rows["model"].iloc[:1])]
    rows = rows.astype({name: object for name in rows if rows[name].dtype == "category"})
    kept = [*zip(rows["policy"], rows["labels"], strict=True)]
    names = {one: name_kept(*one) for one in kept}
    often = Counter(names.values())  # if two resolvers find names, say which
    told = [f"{names[one]}, {one[1]}" if often[names[one]] > 1 else names[one] for one in kept]
    return rows.assign(name=told).astype({"window": int, "budget": int})


def read_units(results: Results, step: str) -> pd.DataFrame:
    """Return the nats (``value``) and tokens (``count``) of each unit, [part and `KEPT`, unit], in
    the order of the study, as means over seeds; NaN if a unit has no such tokens.
    """
    rows = tell_kept(results.units.find(step, measure="nll"))
    sums = rows.set_index(["part", *KEPT, "seed", "unit"])[["value", "count"]].astype(float)
    # Unstack column by column: given a whole frame, pandas 3.1 mixes up the units' names if another
    # step has units of its own.
    wide = pd.concat({name: sums[name].unstack("unit", sort=False) for name in sums}, axis=1)
    return wide.groupby(level=["part", *KEPT], sort=False).mean()


def read_nats(results: Results, step: str) -> pd.DataFrame:
    """Return nats per token, [part and `KEPT`, unit]."""
    units = read_units(results, step)
    return units["value"] / units["count"]


def average(results: Results, step: str, part: str = "all") -> tuple[pd.Series, pd.Series]:
    """Return what `split_original` returns as means over units, in nats per token of a part."""
    alone, beside = split_original(read_nats(results, step).loc[part])
    return alone.mean(axis=1), beside.mean(axis=1)


def split_original(found: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return, for the original text (or else the first one), the windows alone, by length, and what
    is kept beside the shortest window, by name and budget.
    """
    texts = found.index.unique("text")
    found = found.xs("original" if "original" in texts else texts[0], level="text")
    nothing = found.index.get_level_values("name") == NOTHING
    windows = found.index.get_level_values("window")
    alone = found[nothing].droplevel(["name", "budget"]).sort_index()
    return alone, found[~nothing & (windows == windows.min())].droplevel("window")


@cache
def _flip(units: int) -> np.ndarray:
    return np.random.default_rng(1).choice([-1.0, 1.0], (FLIPS, units))


def estimate(gaps: pd.Series) -> Estimate:
    """Return the mean of the differences of two or more units, with Student's interval and the p of
    a sign-flip test.
    """
    low, high = map(float, stats.ttest_1samp(gaps, 0).confidence_interval(LEVEL))
    flipped = np.abs(_flip(len(gaps)) @ gaps.to_numpy())
    extreme = int((flipped >= abs(gaps.sum()) * (1 - 1e-12)).sum())
    p = (1 + extreme) / (FLIPS + 1)
    return Estimate(float(gaps.mean()), interval=(low, high), p=p, units=len(gaps))


def subtract(
    nats: pd.DataFrame, ours: Kept, theirs: Kept, part: str = "all", without: tuple[str, ...] = ()
) -> Estimate | None:
    """Return ``ours`` minus ``theirs`` in nats per token of a part, over the units that have such
    tokens and none of the words ``without`` in their names; None for fewer than two units.
    """
    first, second = (part, *ours), (part, *theirs)
    if first not in nats.index or second not in nats.index:
        return None
    gaps = (nats.loc[first] - nats.loc[second]).dropna()
    gaps = gaps[[not any(word in name for word in without) for name in gaps.index]]
    return estimate(gaps) if len(gaps) > 1 else None


def _list_policies(results: Results, place: Place) -> Iterator[Line]:
    """Yield each window alone, and each policy beside it with a difference for each budget."""
    nats = read_nats(results, place["step"])
    for (text, window, name), own in nats.loc["all"].groupby(level=[*KEPT[:3]], sort=False):
        gaps: dict[str, Any] = {
            str(key[-1]): subtract(nats, key, (text, window, NOTHING, 0)) for key in own.index
        }
        loss = {"loss": own.iloc[0].mean(), "bits": _find_bits(results, place, text, window)}
        texts = {"Text": text, "Window": Number(window, 0), "Kept": name}
        yield texts, gaps | (loss if name == NOTHING else {})


def _find_bits(results: Results, place: Place, text: str, window: int) -> float | None:
    """Return the bits per byte of a text in a window alone; None if not measured."""
    about = {"policy": "none", "text": text, "window": str(window), "measure": "bits_per_byte"}
    found = results.frame.find(place["step"], **about)
    found = found[found["model"].isin(found["model"].iloc[:1])]
    return float(found["value"].mean()) if len(found) else None


def _budgets(results: Results, where: Place) -> Iterator[Measure]:
    for size in sorted({*map(int, results.frame.distinct("budget", where["step"]))} - {0}):
        yield Measure(f"{size:,} tokens", digits=4, cell=str(size))


def name_shown(results: Results, step: str) -> str:
    """Return which model a step's tables are of, as part of a title; "" if it has scored one."""
    models = results.measured(step)
    return f" ({models[0].label}, one of {len(models)} models)" if len(models) > 1 else ""


def make_losses(step: str) -> Pivot:
    """Return the table with a row for each window and policy and a column for each budget."""
    return Pivot(
        name=step,
        title=lambda results: f"What is kept beside the window{name_shown(results, step)}",
        step=step,
        rows=(_list_policies,),
        columns=(
            Measure("Loss", digits=4, cell="loss"),
            Measure("Bits per byte", digits=4, cell="bits"),
            _budgets,
        ),
        measures="""The loss in nats per token without a memory, and how much higher (+) or lower
            (−) it is if the given number of tokens of the text before the window is kept.""",
        note="""Numbers are means over documents or books, with Student's 95 % intervals.
            docs/remembering.md says what each policy keeps; a name in brackets says whose labels
            define the mentions. In renamed texts each word of a name is replaced throughout: by an
            invented one, or, if it is a single token, by such a word of another text's names. Bits
            per byte are those of all tokens together.""",
    )


class Contrast(NamedTuple):
    """A hypothesis of the plan: ``ours`` is better than ``theirs``. It is supported if the
    difference is at most ``most`` and its interval below 0, or, with ``most`` None, if ``ours`` is
    better or equivalent. It is decided in one ``step`` and only reported in others.
    """

    name: str
    ours: str
    theirs: str
    most: float | None
    window: int
    budget: int
    step: str


SIZES = ((256, 256), (256, 64), (256, 1024), (512, 256), (1024, 256), (2048, 256))
OTHERS = {"recent": -0.03, "random spans": -0.015, "rare": -0.015, "surprising": -0.015}
CONTRASTS = (
    *(
        Contrast("P1" if other == "recent" else "P2", "names", other, most, *size, decided)
        for size, decided in zip(SIZES, (CACHE, *[""] * 5), strict=True)
        for other, most in OTHERS.items()
    ),
    *(
        Contrast("P8", ours, peer, -EQUIVALENT, 256, 256, decided)
        for ours, decided in (("half names", "kept_keys"), ("names", ""), ("recent", ""))
        for peer in ("heavy hitters", "lately attended")
    ),
    *(
        Contrast("P3", f"{GOLD})", f"{GOLD}, {other})", None, 256, 64, "text_memory")
        for other in ("shuffled", "surface")
    ),
)


def adjust(values: list[float]) -> list[float]:
    """Return p values adjusted by Holm's method."""
    p = pd.Series(values, dtype=float).sort_values()
    highest = (p * np.arange(len(p), 0, -1)).clip(upper=1).cummax()
    return [float(value) for value in highest.sort_index()]


def judge_contrasts(results: Results, step: str) -> list[dict[str, Any]]:
    """Judge the plan's contrasts that this study has scored: for each, return the text, the
    difference ``gap``, that in ``unseen`` texts, ``near`` and ``far`` mentions, the adjusted ``p``
    if the contrast is decided, and the ``verdict``.
    """
    nats, rows = read_nats(results, step), list[dict[str, Any]]()
    for one, text in product(CONTRASTS, nats.index.unique("text")):
        ours, theirs = ((text, one.window, name, one.budget) for name in (one.ours, one.theirs))
        if gap := subtract(nats, ours, theirs):
            unseen = subtract(nats, ours, theirs, without=SEEN)
            row = {"contrast": one, "text": text, "gap": gap, "p": MISSING, "verdict": "reported"}
            row["unseen"] = unseen if unseen and unseen.units < gap.units else MISSING
            for part in ("near", "far"):
                row[part] = subtract(nats, ours, theirs, part) or MISSING
            rows.append(row)
    original = {row["contrast"]: row["gap"] for row in rows if row["text"] == "original"}
    decided = {one: gap.p for one, gap in original.items() if one.step == step}
    adjusted = dict(zip(decided, adjust([*decided.values()]), strict=True))
    for row in (row for row in rows if row["contrast"] in decided):
        one = row["contrast"]
        if row["text"] == "original":
            row |= {"p": adjusted[one], "verdict": _decide(one, row["gap"], adjusted[one])}
        elif original[one].beats:
            # memorised: less than half of an improvement is left if the names are replaced
            lost = row["gap"].value > original[one].value / 2
            row["verdict"] = "memorised" if lost else "not memorised"
    return rows


def _decide(one: Contrast, gap: Estimate, p: float) -> str:
    better = gap.beats and p < 1 - LEVEL
    if one.most is not None:
        return "supported" if better and gap.value <= one.most else "not supported"
    if better:
        return "better"
    assert gap.interval is not None
    error = (gap.interval[1] - gap.value) / stats.t.ppf((1 + LEVEL) / 2, gap.units - 1)
    # two one-sided tests at 5 %: is the whole 90 % interval within ± EQUIVALENT?
    if abs(gap.value) + error * stats.t.ppf(0.95, gap.units - 1) < EQUIVALENT:
        return "equivalent"
    return "worse" if gap.interval[0] > 0 else "undecided"


def _judged_rows(results: Results, place: Place) -> Iterator[Line]:
    for found in judge_contrasts(results, place["step"]):
        one = found["contrast"]
        texts = {"": one.name, "Text": found["text"]}
        texts |= {"Window": Number(one.window, 0), "Kept": Number(one.budget, 0)}
        yield {**texts, "First": one.ours, "Second": one.theirs}, found


def make_contrasts(step: str) -> Pivot:
    """Return the table with a row for each contrast of the plan."""
    return Pivot(
        name=f"{step}_contrasts",
        title=lambda results: f"The plan's contrasts{name_shown(results, step)}",
        step=step,
        rows=(_judged_rows,),
        columns=(
            Measure("First minus second", digits=4, cell="gap"),
            Measure("In unseen texts", digits=4, cell="unseen"),
            Measure("Near mentions", digits=4, cell="near"),
            Measure("Far mentions", digits=4, cell="far"),
            Measure("p (Holm)", digits=4, cell="p"),
            Measure("Verdict", cell="verdict"),
        ),
        measures="""The plan's contrasts (studies/remembering.md, which says of each what had been
            seen when it was set).""",
        note=f"""Differences are in nats per token; negative means that the first is better. “In
            unseen texts” leaves out the novels whose scores were seen before the study was run.
            Near and far mentions are later ones, whose entity was last mentioned within as many
            tokens as the window has, or before that. p values are from sign-flip tests, adjusted by
            Holm's method over the decided rows of this table. “Supported” means better by at least
            0.03 (P1), 0.015 (P2) or {EQUIVALENT} (P8), “equivalent” within {EQUIVALENT} by two
            one-sided tests. If the first is better in the original texts, a decided contrast counts
            as memorised if less than half of the difference is left in the renamed ones.""",
    )


def read_kib(results: Results) -> tuple[pd.Series, pd.Series]:
    """Return the KiB held: those of the keys and values of each window, by its length, and those
    of what is kept beside the shortest window, by name and budget.
    """
    alone = results.frame.find(CACHE, measure="window_bytes")
    alone = tell_kept(alone.assign(policy="none", labels="none", budget=0))
    kept = tell_kept(results.frame.find(CACHE, measure="bytes")).query("budget > 0")
    held = pd.concat([alone, kept]).set_index([*KEPT])[["value"]] / 1024
    windows, beside = split_original(held)
    return windows["value"], beside["value"]


def _list_prices(results: Results, _: Place) -> Iterator[Line]:
    """Yield each policy and budget beside the shortest window, with the window of equal loss."""
    alone, losses = average(results, CACHE)
    windows, held = read_kib(results)
    worst, best = alone.iloc[0], alone.iloc[-1]
    # the longer a window, the lower its loss; interpolate by the logarithm of its length
    length = 2 ** np.interp(-losses, -alone, np.log2(alone.index))
    more = np.where(losses < worst, (length / windows.index[0] - 1) * windows.iloc[0], np.nan)
    prices = {"loss": losses, "share": (worst - losses) / (worst - best), "held": held}
    prices |= {"length": length, "more": more, "times": more / held}
    for (name, budget), row in pd.DataFrame(prices).iterrows():
        yield {"Kept": name, "Tokens": Number(budget, 0)}, row.to_dict()


PRICES = Pivot(
    name="prices",
    title="What a memory costs against a longer window",
    step=CACHE,
    rows=(_list_prices,),
    columns=(
        Measure("Loss", digits=4, cell="loss"),
        Measure("Share of the gain", digits=0, percent=True, cell="share"),
        Measure("KiB", digits=0, cell="held"),
        Measure("Equivalent window", digits=0, cell="length"),
        Measure("KiB of that window", digits=0, cell="more"),
        Measure("Ratio", digits=0, cell="times"),
    ),
    measures="""What a memory beside the shortest window gains, as a share of what the longest
        window gains over the shortest, and the longer window that has the same loss.""",
    note="""KiB are those of the memory's tensors, and of the keys and values that the longer window
        has in addition to the short one's. Windows that were not read are interpolated by the
        logarithm of their length. No memory is said to be worth more than the longest window.""",
)


def list_gains(results: Results) -> dict[tuple[str, int], dict[str, Estimate]]:
    """Return, by what is held and its budget (0: a longer window), the difference from the shortest
    window alone on each of `KINDS`, in nats per token of the whole text.
    """
    units, found = read_units(results, CACHE), dict[tuple[str, int], dict[str, Any]]()
    tokens = units["count"].loc["all"]
    for kind, parts in KINDS.items():
        some = units["value"][units.index.get_level_values("part").isin(parts)]
        sums = some.groupby(level=[*KEPT]).sum()
        alone, beside = split_original(sums.reindex(tokens.index).fillna(0) / tokens)
        longer = alone.iloc[1:].set_axis([(f"a window of {one:,}", 0) for one in alone.index[1:]])
        for key, gaps in (pd.concat([longer, beside]) - alone.iloc[0]).iterrows():
            found.setdefault(key, {})[kind] = estimate(gaps)
    return found


def _list_held(results: Results, _: Place) -> Iterator[Line]:
    for (name, budget), gaps in list_gains(results).items():
        yield {"Memory": name, "Tokens": Number(budget, 0) if budget else MISSING}, gaps


GAINS = Pivot(
    name="gains",
    title="Gain by kind of token",
    step=CACHE,
    rows=(_list_held,),
    columns=tuple(Measure(kind, digits=4, cell=kind) for kind in KINDS),
    measures="""Nats per token of the whole text minus those of the shortest window alone, by kind
        of token, so that the columns add up to the whole difference.""",
    note="""Mentions are of names, found by their spelling. Numbers are means over books, with
        Student's intervals.""",
)


def draw_gains(results: Results) -> figures.Figure | None:
    """Nats per token that a longer window gains over the shortest one, and that 256 tokens gain if
    they are kept beside it, by the kind of token predicted.
    """
    found = list_gains(results)
    bars = {name: gaps for (name, budget), gaps in found.items() if budget in (0, 256)}
    if len(bars) < 2:
        return None
    gains = -pd.DataFrame(bars).T.map(lambda gap: gap.value)
    gains = gains.loc[gains.sum(axis=1).sort_values().index]
    figure = figures.Figure(figsize=(8.0, 1.4 + 0.34 * len(bars)), layout="constrained")
    axes = figure.subplots()
    gains.plot.barh(stacked=True, ax=axes, color=[*figures.PALETTE[:3]], width=0.7)
    axes.axvline(0, color=figures.INK, linewidth=0.8)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("Nats per token gained")
    axes.legend(loc="lower right")
    return figure


def say_remembering(results: Results, step: str) -> Iterator[str]:
    """State the best policy at each budget beside the shortest window, and the plan's verdicts."""
    alone, beside = split_original(read_nats(results, step).loc["all"])
    said, other = [], results.frame.distinct("split", step) == ("test2",) and results.second_test
    where = f" on {other}" if other else ""
    for name, size in beside.mean(axis=1).groupby(level="budget").idxmin():
        gap = estimate(beside.loc[(name, size)] - alone.iloc[0])
        said.append(f"{name} with {size:,} tokens ({gap})")
    yield (
        f"{PLACES[step]} beside a window of {alone.index[0]:,} tokens the lowest loss{where} is"
        f" that of {', '.join(said)}, in nats per token minus the window alone."
    )
    for found in judge_contrasts(results, step):
        if found["verdict"] != "reported":
            one = found["contrast"]
            renamed = " in renamed texts," * (found["text"] == "renamed")
            yield (
                f"{one.name}{renamed} {one.ours} against {one.theirs}{where}: {found['gap']},"
                f" {found['verdict']}."
            )


def summarise(results: Results) -> Iterator[tuple[str, float]]:
    """Yield, for metrics.json, the loss of each window alone and of the best policy by budget."""
    alone, beside = average(results, CACHE)
    yield from ((f"loss_alone_{window}", loss) for window, loss in alone.items())
    best = beside.groupby(level="budget").min()
    yield from ((f"loss_with_{size}", loss) for size, loss in best.items())


def draw_prices(results: Results) -> figures.Figure | None:
    """Loss in nats per token by the KiB held beside a window, in a cache of kept tokens or as the
    keys and values of a longer window (black). Left: all tokens. Right: later mentions whose entity
    was last mentioned before the window.
    """
    windows, held = read_kib(results)
    if len(windows) < 2:
        return None
    panels = []
    for part, title in (("all", "All tokens"), ("far", "Far later mentions")):
        alone, beside = average(results, CACHE, part)
        lines = []
        for number, (name, own) in enumerate(beside.groupby(level="name", sort=False)):
            again, colour = divmod(number, len(figures.PALETTE))
            look: Any = {"dash": "--" if again else "-", "mark": "o"}
            x, y = held[own.index].tolist(), own.tolist()
            lines.append(figures.Line(str(name), figures.PALETTE[colour], x, y, **look))
        if part == "all":
            x, y = (windows - windows.iloc[0])[1:].tolist(), alone[1:].tolist()
            lines.append(figures.Line("a longer window", figures.INK, x, y, mark="s"))
        up = "Nats per token" if part == "all" else ""
        panels.append(figures.Panel(lines, "KiB held beside the window", up, title, log=True))
    return figures.draw_lines(panels)


def draw_contrasts(results: Results) -> figures.Figure | None:
    """P1 and P2: nats per token with 256 tokens of names minus those with as many other tokens, in
    a cache beside each window, as keys and values, and for a trained pointer. Hollow points are
    reported without a decision; grey marks equivalence.
    """
    panels: dict[str, dict[str, figures.Bar]] = {}
    for step in filter(results.ran, (CACHE, "kept_keys", "kept_pointer")):
        for found in judge_contrasts(results, step):
            one = found["contrast"]
            if found["text"] == "original" and one.name in ("P1", "P2") and one.budget == 256:
                look = figures.PALETTE[0], found["verdict"] == "reported"
                bar = figures.Bar(f"{one.name}: minus {one.theirs}", found["gap"], *look)
                title = f"{PLACES[step]}, window {one.window:,}"
                panels.setdefault(title, {})[bar.label] = bar
    labels = dict.fromkeys(label for panel in panels.values() for label in panel)
    drawn = {title: [*map(panel.get, labels)] for title, panel in panels.items()}
    return figures.draw_intervals(drawn, "Nats per token", EQUIVALENT, across=3)


DRAWN = {"prices": draw_prices, "gains": draw_gains, "contrasts": draw_contrasts}
PARTS = tuple(
    Part(
        step,
        (make_contrasts(step), make_losses(step), *((PRICES, GAINS) if step == CACHE else ())),
        DRAWN if step == CACHE else {},
        partial(say_remembering, step=step),
    )
    for step in PLACES
)
