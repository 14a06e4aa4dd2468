"""Tables of what is kept, on made-up books in which the effects are known."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made import make_entries, make_results, make_rows
from scipy import stats

from entity_transformers.report import remembering
from entity_transformers.report.frame import Frame, Units
from entity_transformers.report.page import summarise_models
from entity_transformers.report.results import Results

BOOKS, COUNT = 30, 100
NAMES = "resolver:names-causal"
EFFECTS = {
    ("none", "none"): 0.0,
    ("recent", "none"): -0.02,
    ("mentions", NAMES): -0.12,
    ("mentions", f"random-{NAMES}"): -0.115,
    ("rare", "none"): -0.01,
    ("half entities", "gold"): -0.0500,
    ("half entities", "shuffled"): -0.0499,
    ("half entities", "surface"): -0.08,
}
RENAMED = {("mentions", NAMES): -0.05, ("mentions", f"random-{NAMES}"): -0.045}
WINDOWS = {256: 3.6, 512: 3.5, 2048: 3.4}


def make(
    step: str, *, renamed: bool = False, effects: Any = EFFECTS, others: tuple[str, ...] = ()
) -> Results:
    """Loss = window + policy + a book's own difficulty + noise of 0.002; with ``renamed``, also of
    texts with other names, in which names and random spans of them gain less. ``others`` are models
    with twice the losses.
    """
    rows, units = [], []
    difficulty = np.random.default_rng(1).normal(0, 0.3, BOOKS)
    about = {"step": step, "model": "gpt2", "seed": 1, "split": "all"}
    listed = [(window, "original", *one) for window, one in product(WINDOWS, effects.items())]
    if renamed:
        changed = (EFFECTS | RENAMED).items()
        listed += [(window, "renamed", *one) for window, one in product((256, 2048), changed)]
    for window, text, (policy, labels), effect in listed:
        budget = 0 if policy == "none" else 64 if policy == "half entities" else 256
        key = {"policy": policy, "labels": labels, "budget": budget, "window": window, "text": text}
        noise = np.random.default_rng([window, len(rows)]).normal(0, 0.002, BOOKS)
        losses = WINDOWS[window] + effect + difficulty + noise
        for part, count in {"all": COUNT, "outside": 70, "near": 20, "far": 10}.items():
            own = {**about, **key, "part": part}
            rows += make_rows(own | {"count": 1}, loss=losses.mean())
            for book, loss in enumerate(losses):
                if book or part != "near":  # the first book has no such mention
                    name = f"b{BOOKS - 1 - book:02}"  # not in alphabetical order
                    units += make_rows(own | {"unit": name, "count": count}, nll=loss * count)
        rows += make_rows(about | key, bytes=1024 * budget)
    other = {"step": "perplexity", "split": "test2", "unit": "a passage"}  # of another text
    units += make_rows(about | other | {"count": 1}, nll=1.0)
    for window in WINDOWS:
        own = {"window": window, "text": "original", "count": window}
        rows += make_rows(about | own, window_bytes=23_040 * window)
    for found in (rows, units):
        again = [{**row, "value": 2 * row["value"]} for row in found if row.get("model")]
        found += [{**row, "model": other} for other in others for row in again]
    known = make_entries()
    return make_results(rows, units, tuple(known[one] for one in ("gpt2", *others)), seeds=(1,))


@pytest.fixture(scope="module")
def results() -> Results:
    return make("kept_cache")


def test_differences_are_students_over_books_with_a_p_of_sign_flips(results: Results) -> None:
    nats = remembering.read_nats(results, "kept_cache")
    sides = ("original", 256, "names", 256), ("original", 256, "nothing", 0)
    gap = remembering.subtract(nats, *sides)
    values = [
        results.units.data.query(
            "policy == @policy and labels == @labels and window == '256' and part == 'all'"
        ).value.to_numpy() / COUNT
        for policy, labels in (("mentions", NAMES), ("none", "none"))
    ]  # fmt: skip
    low, high = stats.ttest_rel(*values).confidence_interval(0.95)
    expected = (np.mean(values[0] - values[1]), low, high)
    assert (gap.value, *gap.interval) == pytest.approx(expected)
    assert gap.p == pytest.approx(1e-4)
    assert gap.value == pytest.approx(-0.12, abs=0.002)
    some = remembering.subtract(nats, *sides, without=("b0",))  # the last ten of them
    assert some.units == BOOKS - 10
    assert some.value == pytest.approx(np.mean((values[0] - values[1])[:-10]))


def test_contrasts_are_decided_by_the_plan(results: Results) -> None:
    table = remembering.make_contrasts("kept_cache").build(results)
    assert {str(row[7]) for row in table.rows} == {"–"}  # no novel of which scores were seen
    verdicts = {(row[0], str(row[2]), row[5]): row[-1] for row in table.rows}
    assert verdicts["P1", "256", "recent"] == "supported"
    assert verdicts["P2", "256", "random spans"] == "not supported"  # by 0.005 alone
    assert verdicts["P2", "256", "rare"] == "supported"
    assert verdicts["P1", "2,048", "recent"] == "reported"
    figure = remembering.draw_contrasts(results)
    titles = [f"In a cache, window {window:,}" for window in WINDOWS]
    assert [axes.get_title() for axes in figure.axes] == titles
    drawn = [one.get_text() for one in figure.axes[0].get_yticklabels()]
    assert drawn[0] == "P1: minus recent"
    assert [*map(len, (drawn, table.rows))] == [3, 11]
    text = remembering.make_contrasts("text_memory").build(make("text_memory"))
    found = {row[5]: row[-1] for row in text.rows if str(row[2]) == "256" and row[0] == "P3"}
    judged = {"shuffled": "equivalent", "surface": "worse"}
    assert found == {f"half entities (gold, {name})": word for name, word in judged.items()}


def test_names_are_judged_against_peers_that_choose_by_attention() -> None:
    effects = EFFECTS | {("half mentions", NAMES): -0.10}
    effects |= {("heavy hitters", "none"): -0.09, ("lately attended", "none"): -0.098}
    table = remembering.make_contrasts("kept_keys").build(make("kept_keys", effects=effects))
    rows = [(row[4], row[5], row[-1]) for row in table.rows if row[0] == "P8"]
    assert rows[:2] == [
        ("half names", "heavy hitters", "supported"),
        ("half names", "lately attended", "not supported"),  # by 0.002 alone
    ]
    others = product(("names", "recent"), ("heavy hitters", "lately attended"))
    assert rows[2:] == [(*sides, "reported") for sides in others]


def test_a_difference_of_which_less_than_half_is_left_was_memorised() -> None:
    results = make("kept_cache", renamed=True)
    table = remembering.make_contrasts("kept_cache").build(results)
    rows = [row for row in table.rows if (row[1], str(row[2])) == ("renamed", "256")]
    verdicts = {row[5]: row[-1] for row in rows if row[0] != "P3"}
    # of the differences -0.10, -0.11, -0.005 are left -0.03, -0.04, -0.005
    memorised = {"recent": "memorised", "rare": "memorised", "random spans": "not memorised"}
    assert verdicts == memorised


def test_the_headline_has_the_decided_contrasts_with_their_verdicts(results: Results) -> None:
    best, *said = remembering.say_remembering(results, "kept_cache")
    assert "names with 256 tokens (−0.1" in best
    told = [(line.split()[0], line.rsplit(", ", 1)[1]) for line in said]
    assert told == [("P1", "supported."), ("P2", "not supported."), ("P2", "supported.")]
    data = results.frame.data.assign(split="test2").astype({"split": "category"})
    other = replace(results, frame=Frame(data), second_test="litbank")
    assert all(" on litbank" in line for line in remembering.say_remembering(other, "kept_cache"))
    assert " on litbank" not in "".join((best, *said))


def test_prices_say_which_window_has_the_same_loss(results: Results) -> None:
    table = remembering.PRICES.build(results)
    [row] = [dict(zip(table.columns, row, strict=True)) for row in table.rows if row[0] == "names"]
    # 3.48 lies a fifth of the way from 3.5 at 512 to 3.4 at 2,048, by the logarithm
    assert row["Equivalent window"].value == pytest.approx(512 * 4**0.2, rel=0.03)
    assert row["Share of the gain"].value == pytest.approx(0.6, abs=0.02)
    more = 23_040 * (row["Equivalent window"].value - 256)
    assert row["Ratio"].value == pytest.approx(more / (256 * 1024), rel=1e-6)
    assert remembering.draw_prices(results) is not None


def test_the_kinds_of_tokens_share_the_gain_by_their_number(results: Results) -> None:
    other, first, later = remembering.list_gains(results)["names", 256].values()
    assert other.value == pytest.approx(-0.12 * 0.7, abs=0.002)
    assert (first.value, first.interval) == (0, (0, 0))
    assert later.value == pytest.approx(-0.12 * (0.3 * (BOOKS - 1) + 0.1) / BOOKS, abs=0.003)
    table = remembering.GAINS.build(results)
    assert [str(row[0]) for row in table.rows[:2]] == ["a window of 512", "a window of 2,048"]
    assert len(table.rows) == 2 + len(EFFECTS) - 1
    assert remembering.draw_gains(results) is not None


def test_a_gain_is_divided_by_the_tokens_of_its_own_book(results: Results) -> None:
    """Whatever the order of the file, and however long the books are."""
    data = results.units.data.sample(frac=1, random_state=0)
    longer = 1 + data["unit"].cat.codes.astype(int) % 3
    data = data.assign(value=data["value"] * longer, count=data["count"] * longer)
    gains = []
    for _, book in data[data["policy"] == "none"].groupby("unit", observed=True):
        tokens = book.query("part == 'all' and window == '256'")["count"].item()
        short, long = (
            book.query("part in ('near', 'far') and window == @window")["value"].sum()
            for window in ("256", "2048")
        )
        gains.append((long - short) / tokens)
    found = remembering.list_gains(replace(results, units=Units(data)))
    *_, later = found["a window of 2,048", 0].values()
    assert later.value == pytest.approx(np.mean(gains), rel=1e-9)


def test_two_resolvers_names_are_told_apart() -> None:
    kept = [("mentions", NAMES), ("mentions", "resolver:other"), ("recent", "none")]
    rows = [{"model": "gpt2", "policy": p, "labels": x, "window": 8, "budget": 4} for p, x in kept]
    told = remembering.tell_kept(pd.DataFrame(rows).assign(text="original"))
    assert [*told["name"]] == [f"names, {NAMES}", "names, resolver:other", "recent"]


def test_losses_have_a_row_for_each_window_and_policy(results: Results) -> None:
    table = remembering.make_losses("kept_cache").build(results)
    assert len(table.rows) == len(WINDOWS) * len(EFFECTS)
    assert len({len(row) for row in table.rows} | {len(table.columns)}) == 1


def test_p_values_are_adjusted_by_holm() -> None:
    values = [0.01, 0.04, 0.03, 0.005]
    order = np.argsort(values)
    expected = np.maximum.accumulate(np.minimum(1, np.sort(values) * np.arange(4, 0, -1)))
    assert remembering.adjust(values) == pytest.approx(expected[np.argsort(order)].tolist())


def test_metrics_have_the_windows_alone_and_the_best_beside_the_shortest() -> None:
    found = summarise_models(make("kept_cache"))["gpt2"]
    alone = {f"loss_alone_{window}" for window in WINDOWS}
    assert found.keys() == {*alone, "loss_with_64", "loss_with_256"}
    best = found["loss_alone_256"] + EFFECTS["mentions", NAMES]
    assert found["loss_with_256"] == pytest.approx(best, abs=0.002)
    two = make("kept_cache", others=("gpt2e",))
    assert summarise_models(two) == {"gpt2": found}  # the tables are of one model
    title = remembering.make_losses("kept_cache").build(two).title
    assert title == "What is kept beside the window (GPT2, one of 2 models)"
