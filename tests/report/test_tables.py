from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from entity_transformers.report import paper
from entity_transformers.report.bootstrap import compare_losses
from entity_transformers.report.cells import Number
from entity_transformers.report.differences import BOOTSTRAP_SEED
from entity_transformers.report.mention_tables import build_ner_overall
from entity_transformers.report.results import Documents, Results, Spans, name_model
from entity_transformers.report.tables import TERMINAL, Table, build_all, render_csv, render_text

NAMES = [
    "claims", "corpus", "entity_types", "table1", "models", "table2", "controls", "perplexity_by_class", "table3", "table4", "table4_ones",
    "similarity_models", "probe", "table5", "table5_tags", "ner_overall", "anomalies", "recall",
]  # fmt: skip


def read(table: Table) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render_csv(table))))


def find(rows: list[dict[str, str]], **keys: str) -> dict[str, str]:
    (row,) = [
        row
        for row in rows
        if all(row[column.replace("_", " ")] == text for column, text in keys.items())
    ]
    return row


def means(results: Results, model: str, value: Callable[[Any], float]) -> tuple[float, float]:
    values = [value(run) for run in results.of(model)]
    return float(np.mean(values)), float(np.std(values, ddof=1))


@pytest.mark.parametrize("labels", [("PERSON", "GPE"), ("person", "place", "event")])
def test_every_table_is_built_for_every_kind_of_study(
    study: Callable[..., Results], labels: tuple[str, ...]
) -> None:
    for models in (("gpt2",), ("gpt2e",), ("gpt2", "gpt2e", "gpt2e-unlabelled")):
        assert list(build_all(study(models, labels=labels))) == NAMES


def test_an_empty_study_has_empty_tables_and_no_crash() -> None:
    tables = build_all(Results("nothing", ("gpt2", "gpt2e"), (1,), ()))
    assert list(tables) == NAMES
    assert [name for name in TERMINAL if name in tables] == list(TERMINAL)
    assert all(render_text(table) for table in tables.values())


@pytest.mark.parametrize("model", ["gpt2", "gpt2e", "gpt2e-unlabelled", "gpt2-matched"])
def test_table_2_holds_the_metrics(full: Results, model: str) -> None:
    rows = read(build_all(full)["table2"])
    conditions = {"on": "on", "off": "off"} if model.startswith("gpt2e") else {"on": ""}
    for condition, shown in conditions.items():
        row = find(rows, Process="Test", Model=name_model(model), Entities=shown)
        for column, key in (
            ("Loss", "loss"),
            ("PPL", "perplexity"),
            ("PPL per word", "perplexity_word"),
            ("Bits per byte", "bits_per_byte"),
        ):
            mean, std = means(
                full,
                model,
                lambda run, key=key, condition=condition: run.perplexity["splits"]["test"][
                    condition
                ][key],
            )
            assert float(row[column]) == pytest.approx(mean, rel=1e-12)
            assert float(row[f"{column} std"]) == pytest.approx(std, rel=1e-9)
    training = find(rows, Process="Training", Model=name_model(model))
    assert float(training["Loss"]) == pytest.approx(
        means(full, model, lambda run: run.training["train_loss"])[0]
    )
    assert float(training["PPL"]) == pytest.approx(
        means(full, model, lambda run: math.exp(run.training["train_loss"]))[0]
    )
    assert float(training["Time per step"]) == pytest.approx(
        full.of(model)[0].timing["seconds_per_step"]
    )  # type: ignore[index]


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
            Model=name_model(model),
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


def test_table_3_holds_the_metrics(full: Results) -> None:
    rows = read(build_all(full)["table3"])
    columns = {"Last word PPL": ("last_word", "perplexity"), "Last word accuracy": ("last_word", "accuracy"),
               "Last token PPL": ("last_token", "perplexity"), "Last token accuracy": ("last_token", "accuracy"),
               "Passage PPL per token": ("passage", "perplexity_token"),
               "Passage PPL per word": ("passage", "perplexity_word")}  # fmt: skip
    for model in full.models:
        row = find(rows, Model=name_model(model))
        for column, (section, key) in columns.items():
            mean, std = means(
                full, model, lambda run, section=section, key=key: run.lambada[section][key]
            )
            assert (float(row[column]), float(row[f"{column} std"])) == pytest.approx(
                (mean, std), rel=1e-9
            )
        assert row["Paper PPL"] == {"gpt2": "219.97", "gpt2e": "196.81"}.get(model, "")
    difference = find(rows, Model="GPT2E − GPT2")
    logs = [
        [math.log(run.lambada["last_word"]["perplexity"]) for run in full.of(model)]
        for model in ("gpt2e", "gpt2")
    ]  # type: ignore[index]
    assert float(difference["Last word PPL"]) == pytest.approx(
        np.mean(np.subtract(*logs)), rel=1e-9
    )


def test_table_3_names_the_measure_nearest_to_the_paper(small: Results) -> None:
    lambada = small.of("gpt2e")[0].lambada
    assert lambada is not None
    values = {"Last word PPL": lambada["last_word"]["perplexity"], "Last token PPL": lambada["last_token"]["perplexity"],
              "Passage PPL per token": lambada["passage"]["perplexity_token"],
              "Passage PPL per word": lambada["passage"]["perplexity_word"]}  # fmt: skip
    nearest = min(values, key=lambda name: max(values[name] / 196.81, 196.81 / values[name]))
    assert f"“{nearest}” ({values[nearest]:,.2f}) comes nearest" in build_all(small)["table3"].note


def test_table_4_has_three_columns_and_the_papers_four_rows_first(small: Results) -> None:
    table = build_all(small)["table4"]
    rows = read(table)
    assert table.marked == frozenset(range(4))
    cases = [
        (g, m) for g in ("nouns", "pronouns") for m in ("mention_similarity", "entity_similarity")
    ]
    for row, (group, measure) in zip(rows, cases, strict=False):
        words = {
            model: small.of(model)[0].similarity["groups"][group]["words"]
            for model in ("gpt2", "gpt2e")
        }  # type: ignore[index]
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
def test_table_5_holds_every_label_the_papers_first(full: Results, name: str, level: str) -> None:
    table = build_all(full)[name]
    rows = read(table)
    assert [row["Label"] for row in rows[:5]] == list(paper.TABLE5_LABELS)
    labels = full.of("gpt2")[0].ner["test"][level]["labels"]  # type: ignore[index]
    assert {row["Label"] for row in rows} == {*labels, "Overall"}
    assert table.marked == frozenset([0, 1, 2, 3, 4, len(rows) - 1])
    for row in rows:
        for model in ("gpt2", "gpt2e"):
            for short, key in (("F1", "f1"), ("P", "precision"), ("R", "recall")):
                path = ("micro",) if row["Label"] == "Overall" else ("labels", row["Label"])
                mean, std = means(
                    full,
                    model,
                    lambda run, path=path, key=key: _walk(run.ner["test"][level], *path, key),
                )
                column = f"{name_model(model)} {short}"
                assert (float(row[column]), float(row[f"{column} std"])) == pytest.approx(
                    (mean, std), abs=1e-12
                )
                printed = paper.TABLE5.get((model, row["Label"]))
                assert row[f"Paper {column}"] == (
                    "" if printed is None else repr(getattr(printed, key))
                )


def _walk(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value[key]
    return value


def test_other_types_than_the_papers_are_said_to_be_other(study: Callable[..., Results]) -> None:
    table = build_all(study(labels=("person", "place", "abstract")))["table5"]
    assert "definitions differ" in table.note
    assert read(table)[0]["Paper GPT2E F1"] == "0.515"
    assert [row[0] for row in table.rows] == ["person", "abstract", "place", "Overall"]


def test_corpus_statistics_hold_the_counts(small: Results) -> None:
    rows = {row["Quantity"]: row for row in read(build_all(small)["corpus"])}
    train = small.statistics["splits"]["train"]  # type: ignore[index]
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
    total = sum(small.alignment[split]["tokens"] for split in ("train", "dev", "test"))  # type: ignore[index]
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


def test_targets_without_a_tagger_or_without_a_check_say_so(small: Results) -> None:
    none = build_all(
        replace(
            small,
            lambada_tags={
                "text": "sample",
                "lower_case": True,
                "n": 4,
                "shares": None,
                "dev": None,
            },
        )
    )["corpus"]
    assert all(
        not row["total"] for row in read(none) if row["Quantity"].startswith("LAMBADA targets")
    )
    assert "left out: the training split has none" in none.note
    tags = dict(small.lambada_tags or {})
    groups = {
        group: {"n": 0, "recall": None, "precision": None}
        for group in ("nouns", "proper_nouns", "pronouns", "other")
    }
    unchecked = tags | {
        "lower_case": False,
        "dev": {"last_words": {"n": 0, "accuracy": None, "groups": groups}},
    }
    note = build_all(replace(small, lambada_tags=unchecked))["corpus"].note
    assert "Of the last words of dev's sentences none has a tag." in note
    assert "capitals" not in note


def test_a_corpus_without_tags_has_no_shares(study: Callable[..., Results]) -> None:
    stats = {
        "words": 10,
        "pos": {"nouns": 0, "proper_nouns": 0, "pronouns": 0, "other": 0, "unknown": 10},
    }
    table = build_all(study(statistics={"total": stats, "splits": {"train": stats}}))["corpus"]
    (row,) = [row for row in table.rows if row[0] == "Common nouns"]
    assert [str(cell) for cell in row[1:3]] == ["–", "–"]


def test_table_1_has_the_papers_two_rows_and_the_tokens(small: Results) -> None:
    table = build_all(small)["table1"]
    assert [row[0] for row in table.rows] == [
        "X 1:12",
        "E 1:12",
        "P 1:12",
        "X 13:23",
        "E 13:23",
        "P 13:23",
    ]
    assert table.rows[0][1:8] == ("Ada", "Lovelace", "met", "the", "mayor", "of", "Aldbury")
    assert table.rows[1][1:9] == ("7", "7", ";", "9", "9", "9", "9", ";")
    assert table.rows[2][2] == "Love·lace"
    assert table.rows[3][-1] == ""


def test_classes_hold_the_metrics_and_the_gain(full: Results) -> None:
    table = build_all(full)["perplexity_by_class"]
    scores = [run.perplexity["splits"]["test"]["by_class"]["first"] for run in full.of("gpt2e")]  # type: ignore[index]
    row = find(read(table), Predicted_token="first mention", Model="GPT2E")
    for condition in ("on", "off"):
        assert float(row[f"PPL {condition}"]) == pytest.approx(
            np.mean([score[condition]["perplexity"] for score in scores])
        )
    assert float(row["Loss on − off"]) == pytest.approx(
        np.mean([score["on"]["loss"] - score["off"]["loss"] for score in scores])
    )
    (other,) = [row for row in table.rows if row[:2] == ("other", "GPT2E")]
    assert [str(cell) for cell in other[2:]] == ["0", "–", "–", "–"]


def test_shuffled_ids_and_distances_are_shown_where_they_were_scored(
    study: Callable[..., Results],
) -> None:
    results = study()
    plain = build_all(results)
    assert "PPL shuffled" not in plain["perplexity_by_class"].columns
    assert "shuffled" not in [row[2] for row in plain["table2"].rows]
    split = results.of("gpt2e")[0].perplexity["splits"]["test"]  # type: ignore[index]
    split["shuffled"] = split["off"] | {"loss": 5.5}
    split["by_distance"] = dict.fromkeys(("512+", "1-31", "32-511"), split["by_class"]["later"])
    for score in split["by_class"].values():
        score["shuffled"] = score["off"]
    tables = build_all(results)
    assert "PPL shuffled" in tables["perplexity_by_class"].columns
    names = [row[0] for row in tables["perplexity_by_class"].rows]
    assert list(dict.fromkeys(names))[-3:] == [
        f"{name} tokens after a mention" for name in ("1-31", "32-511", "512+")
    ]
    assert find(read(tables["table2"]), Process="Test", Entities="shuffled")["Loss"] == "5.5"


def test_table_3_has_the_interval_over_passages_where_they_were_scored(
    study: Callable[..., Results],
) -> None:
    results = study()
    noise = np.random.default_rng(0).standard_normal((2, 50))
    names, ones = np.arange(50).astype(str), np.ones(50, np.int64)
    passages = [Documents(np.full(50, "lambada"), names, ones, 7 + one, 7 + one) for one in noise]
    runs = tuple(
        replace(run, passages=one) for run, one in zip(results.runs, passages, strict=True)
    )
    row = find(read(build_all(replace(results, runs=runs))["table3"]), Model="GPT2E − GPT2")
    expected = compare_losses(7 + noise[1], 7 + noise[0], ones, samples=500, seed=BOOTSTRAP_SEED)
    assert float(row["Last word PPL"]) == pytest.approx((noise[1] - noise[0]).mean())
    assert [float(row["Last word PPL low"]), float(row["Last word PPL high"])] == expected[
        "interval"
    ]


def test_models_table_holds_sizes_and_steps(full: Results) -> None:
    row = find(read(build_all(full)["models"]), Model="GPT2E")
    training = full.of("gpt2e")[0].training
    assert training is not None
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
    assert row[0] == "GPT2E − GPT2"
    assert isinstance(row[1], Number)
    assert row[1].value == pytest.approx(one - other)
    assert row[1].low < row[1].value < row[1].high


def test_spans_of_other_documents_are_refused(small: Results) -> None:
    runs = tuple(
        replace(run, ner_spans=Spans([run.model], np.ones((1, 3), np.int64))) for run in small.runs
    )
    with pytest.raises(ValueError, match="scored different documents"):
        build_ner_overall(replace(small, runs=runs))
