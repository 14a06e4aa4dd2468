"""The few numbers of each model that DVC shows."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from entity_transformers.cli import report
from entity_transformers.report.summary import summarise_models

METRICS = {  # step, measure, split, condition; {} stands for the labels that the model is given
    "dev_loss": ("lm", "best_loss", "dev", ""),
    "perplexity": ("perplexity", "perplexity", "test", "entities={}"),
    "lambada_perplexity": ("lambada", "last_word_perplexity", "lambada", "entities=off"),
    "mention_similarity": (
        "similarity",
        "mention_similarity",
        "",
        "context=words/entities={}/group=nouns",
    ),
    "ner_f1": ("ner", "span_f1", "test", "average=micro"),
}


@pytest.mark.parametrize("name", ["ontogum", "controls"])
def test_committed_metrics_are_means_of_measures_csv(root: Path, name: str) -> None:
    """Taken from its text, row by row; every measured model has a file, and no other."""
    home = root / "studies" / name / "results/report"
    with (home / "measures.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    measured = {row["model"] for row in rows if row["step"] == "lm"}
    assert {p.stem for p in (home / "metrics").glob("[!s]*.json")} == measured  # not sha256.json
    for model in measured:
        given = "on" if model.startswith("gpt2e") else "off"
        found = json.loads((home / "metrics" / f"{model}.json").read_text())
        assert list(found) == list(METRICS)
        for metric, (step, measure, split, condition) in METRICS.items():
            wanted = (step, model, split, condition.format(given), measure)
            keys = ("step", "model", "split", "condition", "measure")
            values = [float(r["value"]) for r in rows if tuple(r[k] for k in keys) == wanted]
            assert len(values) == (3 if name == "ontogum" else 5)
            assert math.isclose(found[metric], fmean(values), rel_tol=5e-6)


def test_what_was_not_measured_has_no_number(small: Any, empty: Any) -> None:
    full = summarise_models(small)
    assert set(full["gpt2e"]) == set(METRICS)
    assert summarise_models(empty("gpt2")) == {}


def test_files_of_models_that_are_gone_go(root: Path, tmp_path: Path) -> None:
    (tmp_path / "former.json").write_text("{}")
    report._write_texts({"gpt2.json": "{}\n"}, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["gpt2.json"]


LABELS = {
    "gpt2": "GPT2",
    "gpt2e": "GPT2E",
    "gpt2e-unlabelled": "GPT2E unlabelled",
    "gpt2e-shuffled": "GPT2E shuffled",
    "gpt2e-first-only": "GPT2E first-only",
    "gpt2-matched": "GPT2 parameter-matched",
}
SHOWN = {  # table, the columns that name its row, the column
    "perplexity": ("table2", {"Process": "Test"}, "PPL"),
    "lambada_perplexity": ("table3", {}, "Last word PPL"),
    "mention_similarity": ("similarity_models", {"Context": "none"}, "nouns: mentions"),
    "ner_f1": ("ner_overall", {}, "Span micro F1"),
}


@pytest.mark.parametrize("name", ["ontogum", "controls"])
def test_dvc_s_metrics_are_what_the_report_s_tables_show(root: Path, name: str) -> None:
    """Of every model, in the labels that it is given; to the six digits of the metrics."""
    home = root / "studies" / name / "results/report"
    compared = 0
    for path in (home / "metrics").glob("gpt*.json"):
        found = json.loads(path.read_text())
        for metric, (table, where, column) in SHOWN.items():
            with (home / f"tables/{table}.csv").open(newline="") as file:
                rows = list(csv.DictReader(file))
            given = "on" if path.stem.startswith("gpt2e") else ""
            named = " ".join([LABELS[path.stem], given]).strip()
            model = named if table == "similarity_models" else LABELS[path.stem]
            wanted = where | {"Model": model}
            rows = [row for row in rows if wanted.items() <= row.items()]
            rows = [row for row in rows if row.get("Entities", given) in (given, "–")]
            assert len({row[column] for row in rows}) == 1, (path.stem, metric)
            assert math.isclose(float(rows[0][column]), found[metric], rel_tol=5e-6)
            compared += 1
    assert compared == {"ontogum": 4, "controls": 6}[name] * len(SHOWN)
