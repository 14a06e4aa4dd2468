from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from entity_transformers.report.results import (
    CURVE_COLUMNS,
    Results,
    parse_curve,
    parse_documents,
    read_loss,
    read_ner,
    read_similarity,
    summarise,
)


def test_mean_and_deviation_over_seeds_are_numpys(full: Results) -> None:
    losses = [run.perplexity["splits"]["test"]["on"]["loss"] for run in full.of("gpt2e")]  # type: ignore[index]
    found = full.statistic("gpt2e", read_loss("test", "on"))
    assert found.n == 3
    assert found.mean == pytest.approx(np.mean(losses), rel=1e-14)
    assert found.std == pytest.approx(np.std(losses, ddof=1), rel=1e-12)


def test_one_seed_has_no_deviation_and_nothing_has_no_mean() -> None:
    assert summarise([2.5]) == summarise([None, 2.5])
    assert (summarise([2.5]).mean, summarise([2.5]).std) == (2.5, None)
    assert (summarise([None]).mean, summarise([]).n) == (None, 0)


@pytest.mark.parametrize("group", ["pronouns", "verbs"])
def test_null_and_missing_metrics_count_as_no_number(small: Results, group: str) -> None:
    assert (
        small.statistic("gpt2e", read_similarity(group, "context", "on", "mention_similarity")).n
        == 0
    )


def test_a_label_that_is_neither_there_nor_predicted_has_no_score(
    study: Callable[..., Results],
) -> None:
    results = study()
    prf = results.of("gpt2")[0].ner["test"]["span"]["labels"]["GPE"]  # type: ignore[index]
    prf.update(precision=0.0, recall=0.0, f1=0.0, support=0, predicted=3)
    assert results.statistic("gpt2", read_ner("span", "labels", "GPE", "precision")).mean == 0.0
    prf["predicted"] = 0
    assert results.statistic("gpt2", read_ner("span", "labels", "GPE", "precision")).n == 0
    assert results.statistic("gpt2", read_ner("span", "labels", "GPE", "support")).mean == 0


def test_runs_come_in_the_order_of_the_seeds(study: Callable[..., Results]) -> None:
    results = study(("gpt2",), (3, 1, 2))
    assert [run.seed for run in results.of("gpt2")] == [3, 1, 2]
    assert results.of("gpt2e") == ()


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
def test_the_compared_pair(
    study: Callable[..., Results], models: tuple[str, ...], pair: tuple[str, ...]
) -> None:
    assert study(models).pair == pair


def test_a_curve_is_read_with_its_gaps() -> None:
    curve = parse_curve(
        "step,tokens,train_loss,learning_rate,dev_loss_on,dev_loss_off\n10,640,7.5,0.001,,\n20,1280,6.25,0.001,6.5,6.75\n"
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
    assert (documents.nll_on.sum(), documents.nll_off.sum()) == (90.5, 92.25)


def test_shuffled_ids_are_read_where_they_were_scored() -> None:
    head = "split,document,tokens,nll_on,nll_off"
    assert parse_documents(f"{head}\ndev,a#0,12,60.5,61\n").nll_shuffled is None
    shuffled = parse_documents(f"{head},nll_shuffled\ndev,a#0,12,60.5,61,62.5\n").nll_shuffled
    assert shuffled is not None
    assert shuffled.tolist() == [62.5]


@pytest.mark.parametrize("parse", [parse_curve, parse_documents])
def test_a_missing_column_is_named(parse: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match=r"gpt2/1/file\.csv: no column .*; expected .*tokens"):
        parse("step,split\n1,dev\n", "gpt2/1/file.csv")
