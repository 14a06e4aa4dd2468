from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from entity_transformers.kinds import KINDS
from entity_transformers.report import paper
from entity_transformers.report.bootstrap import compare_losses
from entity_transformers.report.catalogue import CATALOGUE, list_tables
from entity_transformers.report.cells import MISSING, Number
from entity_transformers.report.claims import judge_claims
from entity_transformers.report.differences import BOOTSTRAP_SEED
from entity_transformers.report.frame import Frame
from entity_transformers.report.headline import write_headline
from entity_transformers.report.ner import build_ner_overall
from entity_transformers.report.records import Documents, Spans
from entity_transformers.report.results import Results, write_label
from entity_transformers.report.tables import (
    Table,
    build_all,
    render_csv,
    render_text,
    write_summary,
)
from entity_transformers.study.steps import METHOD

Study = Callable[..., Any]
TAGS = "passages/lambada_tags.json"
PRINTED = {"gpt2": "GPT2", "gpt2e": "GPT2E"}
ABSENT = {
    "recall",
    "scaling",
    "overview",
    "equal_time",
    "objectives",
    "ner_layers",
}  # from the fixture
SHOWN = [step for step in CATALOGUE if step in METHOD]  # those of the fixture


def read(table: Table) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render_csv(table))))


def find(rows: list[dict[str, str]], **keys: str) -> dict[str, str]:
    (row,) = [
        row
        for row in rows
        if all(row[column.replace("_", " ")] == text for column, text in keys.items())
    ]
    return row


def means(values: Iterable[float]) -> tuple[float, float]:
    numbers = list(values)
    return float(np.mean(numbers)), float(np.std(numbers, ddof=1))


@pytest.mark.parametrize("labels", [("PERSON", "GPE"), ("person", "place", "event")])
def test_every_table_is_built_for_every_kind_of_study(
    study: Study, labels: tuple[str, ...]
) -> None:
    every = [name for name in list_tables(SHOWN) if name not in ABSENT]
    for models in (("gpt2", "gpt2e", "gpt2e-unlabelled"), ("gpt2", "gpt2e")):
        assert list(build_all(study(models, labels=labels))) == every
    for models, none in ((("gpt2",), {"claims", "controls"}), (("gpt2e", "gpt2-matched"), set())):
        assert set(every) - set(build_all(study(models, labels=labels))) == none


def test_a_run_ends_with_the_verdicts_and_what_fits_a_terminal(full: Results, empty: Study) -> None:
    built = build_all(full)
    text = write_summary(built)
    assert max(map(len, text.splitlines())) <= 100
    flat = " ".join(text.split())
    for claim, _, verdict, _ in built["claims"].rows:
        assert f"{verdict} {claim}" in flat
    parts = text.split("\n\n\n")
    assert [part.splitlines()[0] for part in parts[:-1]] == [
        built[name].title for name in ("claims", "controls", "table3")
    ]
    assert all(f" {name}" in parts[-1] or f"{name}," in parts[-1] for name in built)
    assert len(built["table2"].rows) > 20  # too long
    assert "controls" not in write_summary(build_all(empty()))


def test_a_study_of_one_s_own_text_can_do_without_the_papers_numbers(full: Results) -> None:
    """Every number of ours stays as it is, but for a table that explains printed ones."""
    beside, alone = (build_all(replace(full, paper=paper)) for paper in (True, False))
    assert set(beside) - set(alone) == {"table4_ones"}
    for name, table in alone.items():
        kept = [i for i, column in enumerate(beside[name].columns) if column in table.columns]
        assert table.rows == tuple(tuple(r[i] for i in kept) for r in beside[name].rows), name
        assert not [column for column in table.columns if column.startswith("Paper")], name
        if len(table.columns) < len(beside[name].columns):
            assert "paper" not in table.note.lower()
            assert not table.marked
    assert "Paper" not in write_summary(alone)


def test_generated_passages_are_not_called_lambada(small: Results) -> None:
    tables = build_all(replace(small, passages="sample"))
    assert tables["table3"].title == "Table 3: generated passages"
    named = [str(row[0]) for row in tables["corpus"].rows]
    assert "Generated passages" in named
    assert not any("LAMBADA" in name for name in named)


def test_an_empty_study_has_no_tables_and_no_crash(empty: Study) -> None:
    assert build_all(empty("gpt2", "gpt2e")) == {}


@pytest.mark.parametrize("step", SHOWN)
def test_a_step_that_did_not_run_leaves_its_tables_out_and_no_others(
    small: Results, step: str
) -> None:
    less = replace(small, frame=Frame(row for row in small.frame if row.step != step))
    left_out = set(CATALOGUE[step].tables) - ABSENT
    tables = build_all(less)
    assert set(build_all(small)) - set(tables) == left_out
    assert all(render_text(table) for table in tables.values())
    unnamed = build_all(replace(small, steps=tuple(s for s in SHOWN if s != step)))
    assert set(CATALOGUE[step].tables).isdisjoint(unnamed)


def test_a_model_that_a_step_did_not_measure_has_no_row_there(full: Results) -> None:
    rows = (r for r in full.frame if (r.step, r.model) != ("ner", "gpt2-matched"))
    less = build_all(replace(full, frame=Frame(rows)))
    every = build_all(full)
    gone = [row for row in every["ner_overall"].rows if row[0] == "GPT2 parameter-matched"]
    assert len(gone) == 1
    assert set(map(str, less["ner_overall"].rows)) == set(
        map(str, (row for row in every["ner_overall"].rows if row not in gone))
    )
    assert less["table2"] == every["table2"]


@pytest.mark.parametrize("model", ["gpt2", "gpt2e", "gpt2e-unlabelled", "gpt2-matched"])
def test_table_2_holds_the_metrics(full: Any, model: str) -> None:
    rows, name = read(build_all(full)["table2"]), write_label(full.entry(model))
    conditions = {"on": "on", "off": "off"} if model.startswith("gpt2e") else {"off": ""}
    scores = [found["splits"]["test"] for found in full.each("perplexity", model)]
    for condition, shown in conditions.items():
        row = find(rows, Process="Test", Model=name, Entities=shown)
        for column, key in (
            ("Loss", "loss"),
            ("PPL", "perplexity"),
            ("PPL per word", "perplexity_word"),
            ("Bits per byte", "bits_per_byte"),
        ):
            mean, std = means(score[condition][key] for score in scores)
            assert float(row[column]) == pytest.approx(mean, rel=1e-12)
            assert float(row[f"{column} std"]) == pytest.approx(std, rel=1e-9)
    training = find(rows, Process="Training", Model=name)
    losses = [found["train_loss"] for found in full.each("lm", model)]
    assert float(training["Loss"]) == pytest.approx(np.mean(losses))
    assert float(training["PPL"]) == pytest.approx(np.mean(np.exp(losses)))
    seconds = full.files[f"lm/{model}/1/timing.json"]["seconds_per_step"]
    assert float(training["Time per step"]) == pytest.approx(seconds)


def test_table_2_has_the_papers_numbers_beside_ours_and_no_deviation_for_one_seed(
    small: Results,
) -> None:
    table = build_all(small)["table2"]
    rows = read(table)
    for (model, split), printed in paper.TABLE2.items():
        process = {"train": "Training", "dev": "Validation"}[split]
        row = find(
            rows,
            Process=process,
            Model=PRINTED[model],
            Entities="on" if model == "gpt2e" else "",
        )
        assert (
            float(row["Paper PPL"]),
            float(row["Paper loss"]),
            float(row["Paper time"]),
        ) == printed
    assert not any(column.endswith(" std") for column in rows[0])
    assert "±" not in render_text(table)
    assert all(not row["Paper PPL"] for row in rows if row["Entities"] == "off")


def test_table_2_difference_is_that_of_the_losses(small: Results) -> None:
    rows = read(build_all(small)["table2"])
    difference = find(rows, Process="Test", Model="GPT2E − GPT2")
    ours, theirs = (
        float(find(rows, Process="Test", Model=m, Entities=e)["Loss"])
        for m, e in (("GPT2E", "on"), ("GPT2", ""))
    )
    assert float(difference["Loss"]) == pytest.approx(ours - theirs, abs=1e-9)
    assert (
        float(difference["Loss low"]) < float(difference["Loss"]) < float(difference["Loss high"])
    )


def test_the_papers_numbers_stand_beside_its_own_two_models_alone(study: Study) -> None:
    results = study(("gpt2", "gpt2e", "gpt2e-unlabelled"))
    plain = tuple(replace(entry, role="other") for entry in results.entries)
    for name, column in (("table2", "Paper PPL"), ("table3", "Paper PPL")):
        rows = read(build_all(results)[name])
        assert {row["Model"] for row in rows if row[column]} >= {"GPT2", "GPT2E"}
        assert not any(row[column] for row in rows if row["Model"] == "GPT2E unlabelled")
        other = read(build_all(replace(results, entries=plain))[name])
        assert not any(row[column] for row in other)


def test_table_3_holds_the_metrics(full: Any) -> None:
    rows = read(build_all(full)["table3"])
    columns = {
        "Last word PPL": ("last_word", "perplexity"),
        "Last word accuracy": ("last_word", "accuracy"),
        "Last token PPL": ("last_token", "perplexity"),
        "Last token accuracy": ("last_token", "accuracy"),
        "Passage PPL per token": ("passage", "perplexity_token"),
        "Passage PPL per word": ("passage", "perplexity_word"),
    }
    for entry in full.entries:
        row, found = find(rows, Model=write_label(entry)), full.each("lambada", entry.name)
        for column, (section, key) in columns.items():
            mean, std = means(one[section][key] for one in found)
            assert (float(row[column]), float(row[f"{column} std"])) == pytest.approx(
                (mean, std), rel=1e-9
            )
        assert row["Paper PPL"] == {"gpt2": "219.97", "gpt2e": "196.81"}.get(entry.name, "")
    difference = find(rows, Model="GPT2E − GPT2")
    logs = [
        [math.log(one["last_word"]["perplexity"]) for one in full.each("lambada", model)]
        for model in ("gpt2e", "gpt2")
    ]
    assert float(difference["Last word PPL"]) == pytest.approx(
        np.mean(np.subtract(*logs)), rel=1e-9
    )


def test_table_3_names_the_measure_nearest_to_the_paper(small: Any) -> None:
    lambada = small.json("lambada", "gpt2e")
    values = {
        "Last word PPL": lambada["last_word"]["perplexity"],
        "Last token PPL": lambada["last_token"]["perplexity"],
        "Passage PPL per token": lambada["passage"]["perplexity_token"],
        "Passage PPL per word": lambada["passage"]["perplexity_word"],
    }
    nearest = min(values, key=lambda name: max(values[name] / 196.81, 196.81 / values[name]))
    assert f"“{nearest}” ({values[nearest]:,.2f}) comes nearest" in build_all(small)["table3"].note


@pytest.mark.parametrize(
    ("vocabulary", "tokens", "worse"),
    [(4, 6000, "both"), (300, 9000, "last token"), (9999, 6000, "")],
)
def test_what_is_no_better_than_a_uniform_guess_is_said(
    small: Any, vocabulary: int, tokens: int, worse: str
) -> None:
    """Last words of ``tokens`` / 5,153 tokens cost 7.1 nats each, last tokens 6.1."""

    def edit(files: dict[str, Any]) -> None:
        files["corpus/alignment.json"]["tokenizer"]["tokens"] = vocabulary
        for name in (name for name in files if name.endswith("lambada.json")):
            files[name]["last_word"]["tokens"] = tokens

    known = small.again(edit)
    note = build_all(known)["table3"].note
    claim = next(f for f in judge_claims(known) if "LAMBADA" in f.claim).ours
    headline = next(line for line in write_headline(known) if line.startswith("Last-word"))
    guess = Number(vocabulary ** (tokens / 5153))
    said = {
        "both": f"(last word, {guess}: GPT2, GPT2E; last token, 4: GPT2, GPT2E)",
        "last token": "(last token, 300: GPT2, GPT2E)",
    }
    start = "No better than a uniform guess among all tokens"
    if worse:
        assert f"{start} {said[worse]}." in note
    assert (start in note) == (start in claim) == bool(worse)
    assert headline.endswith(f"A uniform guess has {guess}.") == (worse == "both")


def test_table_4_has_three_columns_and_the_papers_four_rows_first(small: Any) -> None:
    table = build_all(small)["table4"]
    rows = read(table)
    assert table.marked == frozenset(range(4))
    cases = [
        (g, m) for g in ("nouns", "pronouns") for m in ("mention_similarity", "entity_similarity")
    ]
    for row, (group, measure) in zip(rows, cases, strict=False):
        words = {
            model: small.json("similarity", model)["groups"][group]["words"]
            for model in ("gpt2", "gpt2e")
        }
        expected = (
            words["gpt2e"]["off"][measure],
            words["gpt2e"]["on"][measure],
            words["gpt2"]["on"][measure],
        )
        assert tuple(float(row[column]) for column in ("GPT2E off", "GPT2E on", "GPT2")) == expected
        printed = tuple(
            float(row[column]) for column in ("Paper GPT2E off", "Paper GPT2E on", "Paper GPT2")
        )
        assert printed == paper.TABLE4[group, measure]


def test_table_4_shows_nothing_found_as_a_dash_with_zero(small: Results) -> None:
    table = build_all(small)["table4"]
    (row,) = [
        row
        for row in table.rows
        if row[:3] == ("Average mention similarity", "PRP,PRP$", "document")
    ]
    assert [str(cell) for cell in row[3:]] == ["–"] * 6 + ["0", "0"]


@pytest.mark.parametrize(("name", "level"), [("table5", "span"), ("table5_tags", "tag")])
def test_table_5_holds_every_label_the_papers_first(full: Any, name: str, level: str) -> None:
    table = build_all(full)[name]
    rows = read(table)
    assert [row["Label"] for row in rows[:5]] == list(paper.TABLE5_LABELS)
    labels = full.json("ner", "gpt2")["test"][level]["labels"]
    assert {row["Label"] for row in rows} == {*labels, "Overall"}
    assert table.marked == frozenset([0, 1, 2, 3, 4, len(rows) - 1])
    for row in rows:
        for model, label in PRINTED.items():
            for short, key in (("F1", "f1"), ("P", "precision"), ("R", "recall")):
                scores = [found["test"][level] for found in full.each("ner", model)]
                overall = row["Label"] == "Overall"
                parts = [s["micro"] if overall else s["labels"][row["Label"]] for s in scores]
                mean, std = means(part[key] for part in parts)
                column = f"{label} {short}"
                assert (float(row[column]), float(row[f"{column} std"])) == pytest.approx(
                    (mean, std), abs=1e-12
                )
                printed = paper.TABLE5.get((model, row["Label"]))
                assert row[f"Paper {column}"] == (
                    "" if printed is None else repr(getattr(printed, key))
                )


def test_what_a_tagger_learnt_of_layers_has_a_table_where_any_mixes_them(full: Any) -> None:
    assert "ner_layers" not in build_all(full)
    learnt = {"gpt2": ([0.1, 0.2, 0.7], 1.5), "gpt2-matched": ([0.4, 0.6], 0.5)}

    def mix(files: dict[str, Any]) -> None:
        for model, (weights, gamma) in learnt.items():
            for seed in full.seeds:
                found = {"weights": [w + 0.01 * seed for w in weights], "gamma": gamma * seed}
                files[f"ner/{model}/{seed}/metrics.json"]["layers"] = found

    table = build_all(full.again(mix))["ner_layers"]
    rows = {row["Model"]: row for row in read(table)}
    assert rows.keys() == {"GPT2", "GPT2 parameter-matched"}
    for model, label in (("gpt2", "GPT2"), ("gpt2-matched", "GPT2 parameter-matched")):
        weights, gamma = learnt[model]
        mean, std = means(gamma * seed for seed in full.seeds)
        assert float(rows[label]["Scale"]) == pytest.approx(mean)
        assert float(rows[label]["Scale std"]) == pytest.approx(std)
        for name, weight in zip(("Token layer", "Layer 1", "Layer 2"), weights, strict=False):
            mean, _ = means(weight + 0.01 * seed for seed in full.seeds)
            assert float(rows[label][name]) == pytest.approx(mean)
    assert rows["GPT2 parameter-matched"]["Layer 2"] == ""


def test_scores_of_the_forward_half_alone_say_so(full: Any) -> None:
    other = full.entry("gpt2-matched")
    elmo = replace(other, kind=KINDS["elmo"])
    label = "ELMo gpt2-parameter-matched"
    entries = tuple(elmo if entry is other else entry for entry in full.entries)
    tables = build_all(replace(full, entries=entries))
    for name in ("table2", "table3"):
        models = {row["Model"] for row in read(tables[name])}
        assert f"{label}, forward half" in models
        assert label not in models
    assert label in {row["Model"] for row in read(tables["ner_overall"])}


def test_other_types_than_the_papers_are_said_to_be_other(study: Study) -> None:
    table = build_all(study(labels=("person", "place", "abstract")))["table5"]
    assert "definitions differ" in table.note
    assert read(table)[0]["Paper GPT2E F1"] == "0.515"
    assert [row[0] for row in table.rows] == ["person", "abstract", "place", "Overall"]


def test_corpus_statistics_hold_the_counts(small: Any) -> None:
    rows = {row["Quantity"]: row for row in read(build_all(small)["corpus"])}
    train = small.files["corpus/statistics.json"]["splits"]["train"]
    for label, key in (
        ("Words", "words"),
        ("Chains", "chains"),
        ("Mentions", "mentions"),
        ("Mentions inside another", "nested_mentions"),
    ):
        assert int(rows[label]["train"]) == train[key]
    assert int(rows["Named entity spans"]["train"]) == sum(train["ne_spans"].values())
    for loss in ("Mentions", "Chains", "Words"):
        assert (
            int(rows[f"{loss} lost (outermost)"]["train"])
            == train["lost"]["outermost"][loss.lower()]
        )
    known = sum(n for name, n in train["pos"].items() if name != "unknown")
    nouns = sum(train["pos"][name] for name in ("nouns", "proper_nouns", "pronouns"))
    assert float(rows["Nouns, proper nouns and pronouns together"]["train"]) == pytest.approx(
        nouns / known
    )
    assert rows["Chains"]["Paper, train"] == "35143"
    assert rows["Chains"]["Paper, test"] == "4532"
    assert rows["LAMBADA passages"]["total"] == "5153"
    alignment = small.files["corpus/alignment.json"]
    total = sum(alignment[split]["tokens"] for split in ("train", "dev", "test"))
    assert int(rows["Tokens"]["total"]) == total


def test_lambada_s_targets_stand_in_the_corpus_table(small: Results) -> None:
    table = build_all(small)["corpus"]
    rows = {row["Quantity"].removeprefix("LAMBADA targets: "): row for row in read(table)}
    shares = {
        "common nouns": 0.375,
        "proper nouns": 0.4375,
        "common and proper nouns together": 0.8125,
        "pronouns": 0.0625,
    }
    assert {label: float(rows[label]["total"]) for label in shares} == shares
    assert {
        label: rows[label]["Paper, test"] for label in shares if rows[label]["Paper, test"]
    } == {"common and proper nouns together": repr(paper.LAMBADA_NOUN_SHARE)}
    assert "without capitals" in table.note
    assert (
        "75.0% of 3,600 right: common nouns 75.0% of 1,200, proper nouns 75.0% of 1,200, others"
        " 75.0% of 1,200." in table.note
    )


def test_targets_without_a_tagger_or_without_a_check_say_so(small: Any) -> None:
    def untagged(files: dict[str, Any]) -> None:
        files[TAGS].update(shares=None, dev=None)

    none = build_all(small.again(untagged))["corpus"]
    assert not any(row[0].startswith("LAMBADA targets") for row in none.rows)
    assert "left out: the training split has none" in none.note

    def unchecked(files: dict[str, Any]) -> None:
        groups = {
            group: {"n": 0, "recall": None, "precision": None}
            for group in ("nouns", "proper_nouns", "pronouns", "other")
        }
        dev = {"last_words": {"n": 0, "accuracy": None, "groups": groups}}
        files[TAGS].update(lower_case=False, dev=dev)

    note = build_all(small.again(unchecked))["corpus"].note
    assert "Of the last words of dev's sentences none has a tag." in note
    assert "capitals" not in note


def test_a_study_without_lambada_says_nothing_of_its_targets(small: Results) -> None:
    less = replace(small, frame=Frame(row for row in small.frame if row.step != "passages"))
    table = build_all(less)["corpus"]
    assert not any(str(row[0]).startswith("LAMBADA") for row in table.rows)
    assert "LAMBADA" not in table.note


def test_a_corpus_without_tags_has_no_shares(study: Study) -> None:
    stats = {
        "words": 10,
        "pos": {"nouns": 0, "proper_nouns": 0, "pronouns": 0, "other": 0, "unknown": 10},
    }
    files = {"corpus/statistics.json": {"total": stats, "splits": {"train": stats}}}
    table = build_all(study(files=files))["corpus"]
    (row,) = [row for row in table.rows if row[0] == "Common nouns"]
    assert [str(cell) for cell in row[1:3]] == ["–", "–"]


def test_table_1_has_the_papers_two_rows_and_the_tokens(small: Results) -> None:
    table = build_all(small)["table1"]
    assert [row[0] for row in table.rows] == [
        "X 1:12",
        "E 1:12",
        "T 1:12",
        "X 13:23",
        "E 13:23",
        "T 13:23",
    ]
    assert table.rows[0][1:8] == ("Ada", "Lovelace", "met", "the", "mayor", "of", "Aldbury")
    assert table.rows[1][1:9] == ("7", "7", ";", "9", "9", "9", "9", ";")
    assert table.rows[2][2] == "Love·lace"
    assert table.rows[3][-1] == ""


def test_classes_hold_the_metrics_and_the_gain(full: Any) -> None:
    table = build_all(full)["perplexity_by_class"]
    found = full.each("perplexity", "gpt2e")
    scores = [one["splits"]["test"]["by_class"]["first"] for one in found]
    row = find(read(table), Predicted_token="first mention", Model="GPT2E")
    for condition in ("on", "off"):
        assert float(row[f"PPL {condition}"]) == pytest.approx(
            np.mean([score[condition]["perplexity"] for score in scores])
        )
    assert float(row["Loss on − off"]) == pytest.approx(
        np.mean([score["on"]["loss"] - score["off"]["loss"] for score in scores])
    )
    assert "other" not in {row[0] for row in table.rows}  # which no token is in


def test_shuffled_ids_and_distances_are_shown_where_they_were_scored(small: Any) -> None:
    plain = build_all(small)
    assert "PPL shuffled" not in plain["perplexity_by_class"].columns
    assert "shuffled" not in [row[2] for row in plain["table2"].rows]

    def edit(files: dict[str, Any]) -> None:
        split = files["perplexity/gpt2e/1/perplexity.json"]["splits"]["test"]
        split["shuffled"] = split["off"] | {"loss": 5.5}
        later = split["by_class"]["later"]
        split["by_distance"] = dict.fromkeys(("512+", "1-31", "32-511"), later)
        for score in split["by_class"].values():
            score["shuffled"] = score["off"]

    tables = build_all(small.again(edit))
    assert "PPL shuffled" in tables["perplexity_by_class"].columns
    names = [row[0] for row in tables["perplexity_by_class"].rows]
    assert list(dict.fromkeys(names))[-3:] == [
        f"{name} tokens after a mention" for name in ("1-31", "32-511", "512+")
    ]
    assert find(read(tables["table2"]), Process="Test", Entities="shuffled")["Loss"] == "5.5"


def test_table_3_has_the_interval_over_passages_where_they_were_scored(study: Study) -> None:
    results = study()
    noise = np.random.default_rng(0).standard_normal((2, 50))
    names, ones = np.arange(50).astype(str), np.ones(50, np.int64)
    split = np.full(50, "lambada")
    passages = [Documents(split, names, ones, {"on": 7 + one, "off": 7 + one}) for one in noise]
    runs = tuple(
        replace(run, passages=one) for run, one in zip(results.runs, passages, strict=True)
    )
    row = find(read(build_all(replace(results, runs=runs))["table3"]), Model="GPT2E − GPT2")
    expected = compare_losses(7 + noise[1], 7 + noise[0], ones, samples=500, seed=BOOTSTRAP_SEED)
    assert float(row["Last word PPL"]) == pytest.approx((noise[1] - noise[0]).mean())
    assert [float(row["Last word PPL low"]), float(row["Last word PPL high"])] == expected[
        "interval"
    ]


def test_models_table_holds_sizes_and_steps(full: Any) -> None:
    row = find(read(build_all(full)["models"]), Model="GPT2E")
    training = full.json("lm", "gpt2e")
    assert (int(row["Parameters"]), int(row["Steps"]), int(row["Tokens seen"])) == tuple(
        training[k] for k in ("parameters", "steps", "tokens_seen")
    )


def test_every_cell_is_text_or_number(full: Results) -> None:
    for table in build_all(full).values():
        for row in table.rows:
            assert all(isinstance(cell, str | Number) for cell in row)
            assert "nan" not in " ".join(map(str, row)).split()


def test_the_ner_difference_is_that_of_the_summed_spans(small: Results) -> None:
    generator = np.random.default_rng(1)
    gold = generator.integers(5, 30, 40)
    predicted = generator.integers(5, 30, (2, 40))
    correct = generator.integers(0, np.minimum(gold, predicted) + 1)
    sides = dict(
        zip(
            ("gpt2e", "gpt2"),
            (np.stack([correct[i], predicted[i], gold], axis=1) for i in (0, 1)),
            strict=True,
        )
    )
    names = [f"d{i}" for i in range(40)]
    runs = tuple(replace(run, ner_spans=Spans(names, sides[run.model])) for run in small.runs)
    row = build_ner_overall(replace(small, runs=runs)).rows[-1]
    one, other = (
        2 * c.sum() / (p.sum() + gold.sum()) for c, p in zip(correct, predicted, strict=True)
    )
    assert row[:2] == ("GPT2E − GPT2", MISSING)  # the paper's column comes before ours
    difference = row[2]
    assert isinstance(difference, Number)
    assert difference.value == pytest.approx(one - other)
    assert difference.low < difference.value < difference.high


def test_spans_of_other_documents_are_refused(small: Results) -> None:
    runs = tuple(
        replace(run, ner_spans=Spans([run.model], np.ones((1, 3), np.int64))) for run in small.runs
    )
    with pytest.raises(ValueError, match="scored different documents"):
        build_ner_overall(replace(small, runs=runs))
