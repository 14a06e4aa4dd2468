from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import ner, perplexity, similarity
from entity_transformers.report.frame import Frame, Key, Row
from entity_transformers.report.records import CURVE_COLUMNS, parse_curve, parse_documents
from entity_transformers.report.results import Results, summarise, write_label

Study = Callable[..., Any]


def test_mean_and_deviation_over_seeds_are_numpys(full: Any) -> None:
    scores = [found["splits"]["test"]["on"]["loss"] for found in full.each("perplexity", "gpt2e")]
    found = full.statistic(full.entry("gpt2e"), perplexity.at("test", "on"))
    assert found.n == 3
    assert found.mean == pytest.approx(np.mean(scores), rel=1e-14)
    assert found.std == pytest.approx(np.std(scores, ddof=1), rel=1e-12)


def test_one_seed_has_no_deviation_and_nothing_has_no_mean() -> None:
    assert summarise([2.5]) == summarise([None, 2.5])
    assert (summarise([2.5]).mean, summarise([2.5]).std) == (2.5, None)
    assert (summarise([None]).mean, summarise([]).n) == (None, 0)


@pytest.mark.parametrize("group", ["pronouns", "verbs"])
def test_null_and_missing_numbers_count_as_none(small: Any, group: str) -> None:
    key = similarity.at(group, "context", "on", "mention_similarity")
    assert small.statistic(small.entry("gpt2e"), key).n == 0
    assert small.statistic(None, key).n == 0


def test_numbers_that_are_not_finite_count_as_none(small: Any) -> None:
    rows = [
        Row("lm", "loss", value, "train", model="gpt2", seed=seed)
        for seed, value in enumerate((1.0, math.inf, math.nan, 3.0), 1)
    ]
    results = replace(small, frame=Frame(rows), seeds=(1, 2, 3, 4))
    found = results.statistic(results.entry("gpt2"), Key("lm", "loss", "train"))
    assert (found.mean, found.n) == (2.0, 2)


def test_a_label_that_is_neither_there_nor_predicted_has_no_score(small: Any) -> None:
    def mean(predicted: int) -> float | None:
        def edit(files: dict[str, Any]) -> None:
            label = files["ner/gpt2/1/metrics.json"]["test"]["span"]["labels"]["GPE"]
            label.update(precision=0.0, recall=0.0, f1=0.0, support=0, predicted=predicted)

        changed = small.again(edit)
        key = ner.at("span", "precision", "label=GPE")
        assert changed.count(changed.entry("gpt2"), key) == 0
        found: float | None = ner.average(changed, changed.entry("gpt2"), key).mean
        return found

    assert mean(3) == 0.0
    assert mean(0) is None


def test_runs_come_in_the_order_of_the_seeds(study: Study) -> None:
    results = study(("gpt2",), (3, 1, 2))
    assert [run.seed for run in results.named("gpt2")] == [3, 1, 2]
    assert results.of(None) == ()


@pytest.mark.parametrize(
    ("models", "pair"),
    [
        (("gpt2", "gpt2e"), ("gpt2e", "gpt2")),
        (("gpt2",), ("gpt2",)),
        (
            ("gpt2-matched", "gpt2e-unlabelled", "gpt2e-shuffled"),
            ("gpt2-matched", "gpt2e-unlabelled"),
        ),
    ],
)
def test_the_compared_pair(study: Study, models: tuple[str, ...], pair: tuple[str, ...]) -> None:
    assert tuple(entry.name for entry in study(models).pair) == pair


def test_models_are_what_their_entries_say(full: Results, entries: dict[str, ModelEntry]) -> None:
    assert full.baseline is entries["gpt2"]
    assert full.proposed is entries["gpt2e"]
    assert [entry.name for entry in full.controls] == [name for name in entries if "-" in name]
    assert {name: write_label(entry) for name, entry in entries.items()} == {
        "lstm": "LSTM",
        "gpt2": "GPT2",
        "gpt2e": "GPT2E",
        "gpt2e-unlabelled": "GPT2E unlabelled",
        "gpt2e-shuffled": "GPT2E shuffled",
        "gpt2e-first-only": "GPT2E first-only",
        "gpt2-matched": "GPT2 parameter-matched",
    }


def test_a_model_is_measured_where_it_has_rows(full: Results) -> None:
    rows = [r for r in full.frame if (r.step, r.model) != ("probe", "gpt2")]
    results = replace(full, frame=Frame(rows))
    names = [entry.name for entry in full.entries]
    assert [entry.name for entry in results.measured("probe")] == names[1:]
    assert [entry.name for entry in results.measured("ner")] == names
    assert results.measured("recall") == ()
    assert results.trained == full.entries


def test_a_step_s_own_models_are_not_the_study_s(empty: Study) -> None:
    """A row of recall is called gpt2 as well, and is another model."""
    row = Row("recall", "accuracy", 1.0, "dev", model="gpt2", seed=1)
    assert replace(empty(), frame=Frame([row])).trained == ()


def test_a_curve_is_read_with_its_gaps() -> None:
    curve = parse_curve(
        "step,tokens,train_loss,learning_rate,dev_loss_on,dev_loss_off\n"
        "10,640,7.5,0.001,,\n20,1280,6.25,0.001,6.5,6.75\n"
    )
    assert set(curve) == set(CURVE_COLUMNS)
    assert curve["train_loss"].tolist() == [7.5, 6.25]
    assert math.isnan(curve["dev_loss_on"][0])
    assert curve["dev_loss_off"][1] == 6.75


def test_scores_per_document_are_read() -> None:
    documents = parse_documents(
        "split,document,tokens,nll_on,nll_off\ndev,a#0,12,60.5,61\ntest,b#1,7,30,31.25\n"
    )
    assert documents.split.tolist() == ["dev", "test"]
    assert documents.tokens.tolist() == [12, 7]
    assert {name: nll.sum() for name, nll in documents.nll.items()} == {"on": 90.5, "off": 92.25}


def test_shuffled_ids_are_read_where_they_were_scored() -> None:
    head = "split,document,tokens,nll_on,nll_off"
    assert "shuffled" not in parse_documents(f"{head}\ndev,a#0,12,60.5,61\n").nll
    shuffled = parse_documents(f"{head},nll_shuffled\ndev,a#0,12,60.5,61,62.5\n").nll["shuffled"]
    assert shuffled.tolist() == [62.5]
    with pytest.raises(ValueError, match="no column nll_off"):
        parse_documents("split,document,tokens\ndev,a#0,12\n")


HEAD = "split,document,tokens,nll_on,nll_off\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{HEAD}dev,a#0,12,60.5,61\ndev,b#0,", r"line 3: 3 cells, expected 5"),
        (f"{HEAD}dev,a#0,12,60.5,61\ntest,b#1,7,30,31.2", "cut in its last line"),
        (f"{HEAD}dev,a#0,12,60.5,61,7\n", r"line 2: 6 cells, expected 5"),
    ],
)
def test_a_cut_file_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=rf"gpt2/1/documents\.csv.*{message}: run the step"):
        parse_documents(text, "gpt2/1/documents.csv")


@pytest.mark.parametrize("parse", [parse_curve, parse_documents])
def test_a_missing_column_is_named(parse: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match=r"gpt2/1/file\.csv: no column .*; expected .*tokens"):
        parse("step,split\n1,dev\n", "gpt2/1/file.csv")
