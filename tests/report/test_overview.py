"""The overview of systems: its numbers, their intervals, and what is left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from scipy import stats

from entity_transformers.kinds import ERAS, KINDS
from entity_transformers.report import lambada, ner
from entity_transformers.report.cells import MISSING, Number
from entity_transformers.report.colours import choose_colours
from entity_transformers.report.differences import seed_interval
from entity_transformers.report.equal_time import build_equal_time, list_timed
from entity_transformers.report.frame import Frame, Key, Row
from entity_transformers.report.lm import build_models, count_seconds
from entity_transformers.report.overview import (
    build_overview,
    draw_overview,
    list_systems,
    measure_apart,
    read_accuracy,
    read_bits,
    read_f1,
)
from entity_transformers.report.records import Spans
from entity_transformers.report.results import Results, write_label

KIND_OF = {"gpt2-matched": "lstm", "gpt2e-shuffled": "glove", "gpt2e-first-only": "transformer-xl"}


@pytest.fixture
def systems(full: Results) -> Results:
    """The study as if some of its models were of other kinds."""
    entries = tuple(
        replace(entry, kind=KINDS[KIND_OF.get(entry.name, entry.kind.name)])
        for entry in full.entries
    )
    return replace(full, entries=entries)


def test_a_study_of_two_kinds_has_none(full: Results) -> None:
    assert list_systems(full) == []
    assert build_overview(full).rows == ()
    assert draw_overview(full) is None


def test_they_stand_by_era_and_year(systems: Results) -> None:
    order = [(ERAS.index(entry.kind.era), entry.kind.year) for entry in list_systems(systems)]
    assert order == sorted(order)
    assert len(order) == len(systems.entries)
    names = [entry.name for entry in list_systems(systems)]
    assert names[:2] == ["gpt2e-shuffled", "gpt2-matched"]  # here GloVe and an LSTM
    table = build_overview(systems)
    assert [row[1:3] for row in table.rows] == [(ERAS[era], str(year)) for era, year in order]
    models = build_models(systems)
    assert [row[0] for row in models.rows] == [row[0] for row in table.rows]


def test_rows_of_two_kinds_stand_in_the_study_s_order(full: Results) -> None:
    measured = set(full.measured("lm"))
    assert list(full.measured("lm")) == [entry for entry in full.entries if entry in measured]


def test_bits_and_pictures_are_of_the_same_systems(systems: Results) -> None:
    table = build_overview(systems)
    assert "GloVe" in table.note.partition("no perplexity")[0]
    assert "GPT2," not in table.note
    figure = draw_overview(systems)
    assert figure is not None
    colours = choose_colours(systems)
    for axes in figure.axes:
        drawn = {one.get_label(): to_hex(one.lines[0].get_color()) for one in axes.containers}
        assert drawn == {
            write_label(entry): colours[entry.name]
            for entry in systems.entries
            if write_label(entry) in drawn
        }


def test_a_pretraining_that_is_not_counted_is_named(systems: Results) -> None:
    assert "other weights" not in build_overview(systems).note
    entries = tuple(
        replace(entry, lm=entry.lm.model_copy(update={"initial_weights": "study:books/gpt2/1"}))
        if entry.name == "gpt2"
        else entry
        for entry in systems.entries
    )
    later = replace(systems, entries=entries)
    note = build_overview(later).note
    assert " GPT2 went on from other weights: tokens and seconds of these are not counted." in note

    rows = [
        Row("lm", name, value, model="gpt2", seed=seed)
        for name, value in (("tokens_before", 1e6), ("seconds_before", 5e4))
        for seed in systems.seeds
    ]
    counted = replace(later, frame=Frame((*systems.frame, *rows)))
    table = build_overview(counted)
    assert " GPT2 went on from other weights, whose tokens and seconds are counted." in table.note
    names = [entry.name for entry in list_systems(later)]
    plain, more = (build_overview(one).rows[names.index("gpt2")] for one in (later, counted))
    assert [more[i].value - plain[i].value for i in (5, 6)] == [pytest.approx(1e6), 5e4]
    assert all(more[i] == plain[i] for i in range(7, 14))


def test_bits_per_byte_and_an_interval_that_covers_documents_and_seeds(full: Any) -> None:
    model = full.entry("gpt2e")
    found = read_bits(full, model)
    splits = [score["splits"]["test"]["off"] for score in full.each("perplexity", "gpt2e")]
    bits = [score["bits_per_byte"] for score in splits]
    assert found.value == pytest.approx(np.mean(bits))
    tables = [run.documents for run in full.named("gpt2e")]
    at = tables[0].split == "test"
    tokens = tables[0].tokens[at]
    nats = np.mean([table.nll["off"][at] for table in tables], axis=0)
    random = np.random.default_rng(0)
    drawn = random.integers(0, len(tokens), (4000, len(tokens)))
    means = nats[drawn].sum(1) / tokens[drawn].sum(1)
    scale = found.value / np.mean([score["loss"] for score in splits])
    low, high = np.quantile(means, [0.025, 0.975]) * scale
    assert found.low is not None
    assert found.high is not None
    assert found.low <= low + 0.01 * found.value
    assert found.high >= high - 0.01 * found.value
    assert found.low < min(bits) <= max(bits) < found.high


def test_f1_is_the_taggers_with_an_interval(full: Any) -> None:
    scores = [one["test"]["span"]["micro"]["f1"] for one in full.each("ner", "gpt2")]
    model = full.entry("gpt2")
    assert read_f1(full, model).low is None  # its runs have no spans by document
    gold = np.arange(5, 25)
    right = np.stack([np.round(gold * 0.5), gold, gold], axis=1)
    names = [f"d{i}" for i in range(len(gold))]
    runs = tuple(replace(run, ner_spans=Spans(names, right.astype(int))) for run in full.runs)
    found = read_f1(replace(full, runs=runs), model)
    assert found.value == pytest.approx(np.mean(scores))
    assert found.percent
    drawn = np.random.default_rng(0).integers(0, len(gold), (4000, len(gold)))
    shares = right[drawn, 0].sum(1) / right[drawn, 1].sum(1)
    low, high = np.quantile(shares, [0.025, 0.975])
    seeds = seed_interval(scores)
    assert seeds is not None
    assert found.low == pytest.approx(max(0, min(low, seeds[0])), abs=0.005)
    assert found.high == pytest.approx(min(1, max(high, seeds[1])), abs=0.005)


def test_no_interval_of_a_share_reaches_below_nothing(
    full: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = {1: 0.0, 2: 0.05, 3: 0.0}
    interval = seed_interval(list(scores.values()))
    assert interval is not None
    assert interval[0] < 0
    counts = np.array([[0, 0, 5]] * 20)
    spans = Spans([f"d{i}" for i in range(20)], counts)
    monkeypatch.setattr(ner, "read_scores", lambda *_: scores)
    runs = tuple(replace(run, ner_spans=spans) for run in full.runs)
    found = read_f1(replace(full, runs=runs), full.entry("gpt2"))
    assert (found.low, found.high) == (0, interval[1])


def column(systems: Results, name: str) -> dict[str, Number]:
    """Of the overview, by system."""
    table = build_overview(systems)
    place = table.columns.index(name)
    cells = {str(row[0]): row[place] for row in table.rows}
    return {label: cell for label, cell in cells.items() if isinstance(cell, Number)}


def test_sizes_and_bits_stand_beside_the_baseline_s(systems: Results) -> None:
    sizes, bits = column(systems, "Parameters"), column(systems, "Bits per byte")
    shares, gaps = column(systems, "of GPT2's"), column(systems, "less GPT2's")
    assert shares["GPT2"].value == 1
    assert gaps["GPT2"].value is None
    own = sizes["GPT2E"].value, sizes["GPT2"].value
    assert shares["GPT2E"].value == pytest.approx(own[0] / own[1])
    gap, found = gaps["GPT2E"], (bits["GPT2E"], bits["GPT2"])
    assert gap.value == pytest.approx(found[0].value - found[1].value, abs=2e-3)
    assert gap.low < gap.value < gap.high
    # paired: the same documents are hard for both
    assert gap.high - gap.low < found[0].high - found[0].low


def test_perplexity_has_the_interval_of_the_bits(systems: Results) -> None:
    words, bits = column(systems, "PPL per word")["GPT2"], column(systems, "Bits per byte")["GPT2"]
    for ours, theirs in ((words.low, bits.low), (words.high, bits.high)):
        assert np.log(ours) / np.log(words.value) == pytest.approx(theirs / bits.value)


def test_accuracy_has_wilson_s_interval(systems: Results) -> None:
    model = next(entry for entry in systems.entries if entry.name == "gpt2")
    found = read_accuracy(systems, model)
    values = systems.by_seed(model, lambada.at("last_word_accuracy"))
    row = systems.frame.get(lambada.at("last_word_accuracy"), "gpt2", systems.seeds[0])
    assert row is not None
    right = round(np.mean(list(values.values())) * row.count * len(values))
    one = stats.binomtest(right // len(values), row.count).proportion_ci(method="wilson")
    seeds = seed_interval(list(values.values()))
    step = 1 / row.count  # the mean of several seeds may be no whole number of passages
    assert found.low == pytest.approx(max(0, min(one.low, seeds[0])), abs=step)
    assert found.high == pytest.approx(max(one.high, seeds[1]), abs=step)


def test_seconds_are_of_the_steps_alone(systems: Results) -> None:
    model = next(entry for entry in systems.entries if entry.name == "gpt2")
    own, total = (
        {row.seed: row.value for row in systems.frame.find(step="lm", measure=name, model="gpt2")}
        for name in ("seconds_per_step", "seconds_total")
    )
    steps = systems.by_seed(model, Key("lm", "steps"))
    found = count_seconds(systems, model).mean
    assert found == pytest.approx(np.mean([own[seed] * steps[seed] for seed in systems.seeds]))
    assert found != pytest.approx(np.mean(list(total.values())))


def test_at_equal_time_each_curve_is_read_where_it_was(systems: Results) -> None:
    table = build_equal_time(systems)
    rows = {str(row[0]): row for row in table.rows}
    whole = {label: row[2].value for label, row in rows.items()}
    least = min(whole.values())
    for model in list_timed(systems):
        row = rows[write_label(model)]
        second = row[1].value
        for share, cell in zip((0.25, 0.5, 1.0), row[3:6], strict=True):
            expected = []
            for run in systems.of(model):
                there = run.curve["step"] * second <= share * least * (1 + 1e-6)
                expected.append(run.curve["train_loss"][there][-1])
            assert cell.value == pytest.approx(np.mean(expected))
        assert row[6].value == pytest.approx(
            np.mean([run.curve["train_loss"][-1] for run in systems.of(model)])
        )
    assert "GloVe" not in " ".join(rows)


def test_mentions_apart_is_the_mean_over_parts_of_speech(full: Any) -> None:
    found = measure_apart(full, full.entry("gpt2"))
    for seed in full.seeds:
        gaps = []
        for group in full.json("similarity", "gpt2", seed)["groups"].values():
            numbers = group["context"]["off"]
            if numbers["mention_similarity_centred"] is not None:
                gaps.append(
                    numbers["mention_similarity_centred"] - numbers["between_entities_centred"]
                )
        assert found[seed] == pytest.approx(np.mean(gaps))


def test_what_was_not_measured_is_a_dash(systems: Results) -> None:
    kept = [row for row in systems.frame if row.step == "lm"]
    bare = replace(systems, frame=type(systems.frame)(kept), runs=())
    row = build_overview(bare).rows[0]
    for cell in row[7:]:
        assert isinstance(cell, Number)
        assert str(cell) == MISSING
    assert draw_overview(bare) is None


def test_what_a_cache_leaves_stands_beside_its_model(systems: Results) -> None:
    said = [("size=0", 5.0), ("size=64", 4.5), ("size=1024", 4.0)]
    cached = [Row("cache", "loss", loss, "test", size, 9, "gpt2", 1) for size, loss in said]
    given = replace(systems, frame=Frame([*systems.frame.rows, *cached]))
    bits, after = column(given, "Bits per byte")["GPT2"], column(given, "with a cache")
    assert after["GPT2"].value == pytest.approx(bits.value * 0.8)
    assert [label for label, cell in after.items() if cell.value is not None] == ["GPT2"]
    assert "latest 1,024 tokens" in build_overview(given).note
    assert "With a cache" not in build_overview(systems).note
    assert "with a cache" not in build_overview(systems).columns


def test_what_no_system_was_asked_for_has_no_column(systems: Results) -> None:
    kept = [row for row in systems.frame.rows if row.step not in ("ner", "similarity")]
    fewer = build_overview(replace(systems, frame=Frame(kept), groups=()))
    assert set(build_overview(systems).columns) - set(fewer.columns) == {"Mentions apart", "NER F1"}
    assert "Mentions apart" not in fewer.note


def test_a_study_without_passages_is_told_nothing_of_them(systems: Results) -> None:
    kept = [row for row in systems.frame.rows if row.step != "lambada"]
    assert "LAMBADA" in build_overview(systems).note
    assert "LAMBADA" not in build_overview(replace(systems, frame=Frame(kept))).note
