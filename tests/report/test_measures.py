"""From the steps' files to measures.csv: nothing is lost, and every measure has one unit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from entity_transformers.report import corpus
from entity_transformers.report.catalogue import (
    CATALOGUE,
    find,
    list_figures,
    list_tables,
)
from entity_transformers.report.frame import read_condition, write_condition
from entity_transformers.report.measures import Tree, collect, read_units
from entity_transformers.report.results import Results, write_label
from entity_transformers.report.tables import say_missing


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from leaves(item)
    elif not isinstance(value, str | bool):
        yield value


def test_every_number_of_the_files_stands_in_the_frame(full: Any) -> None:
    """Of each run's files and of each study-level file; seeds and counts are columns."""
    held: dict[tuple[str, str, int | None], Counter[float | None]] = {}
    for row in full.frame:
        run = held.setdefault((row.step, row.model, row.seed), Counter())
        run.update([row.value, row.count, row.seed, *_written(row.condition)])
    for path, content in full.files.items():
        step, *parts = path.split("/")
        run = (parts[0], int(parts[1])) if len(parts) == 3 else None
        numbers: Counter[float | None] = Counter()
        for (name, model, seed), found in held.items():
            if name == step and run in (None, (model, seed)):
                numbers += found
        lost = [value for value in leaves(content) if not numbers[value]]
        assert lost == [], path


def _written(condition: str) -> list[float]:
    """Numbers that are part of a condition: threads, passes, windows."""
    return [float(v) for v in read_condition(condition).values() if v.isdigit()]


def test_every_measure_has_exactly_one_unit(full: Results) -> None:
    units = read_units(tuple(CATALOGUE))
    assert set(full.frame.distinct("measure")) <= set(units)
    assert all(units.values())


def test_two_units_for_one_measure_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(corpus.UNITS, "loss", "bits")
    with pytest.raises(ValueError, match=r"'loss' is in bits and, in .*lm, in nats per token"):
        read_units(("corpus", "lm"))


def test_a_measure_without_a_unit_is_refused(full: Any) -> None:
    with pytest.raises(ValueError, match="step lm measures 'speed', which has no unit"):
        full.again(lambda files: files["lm/gpt2/1/metrics.json"].update(speed=3))


def test_conditions_are_regular(full: Results) -> None:
    for condition in full.frame.distinct("condition"):
        parts = read_condition(condition)
        assert write_condition(**parts) == condition
        assert all(parts.values())


def test_names_in_the_catalogue_can_be_imported() -> None:
    names = [*list_tables(CATALOGUE).values(), *list_figures(CATALOGUE).values()]
    names += [shown.measure for shown in CATALOGUE.values() if shown.measure]
    assert all(callable(find(name)) for name in names)
    assert [step for step, shown in CATALOGUE.items() if not shown.measure] == ["excerpts"]


def test_a_study_at_work_is_measured_as_far_as_it_is(full: Any, tmp_path: Path) -> None:
    score = {"documents": 1, "on": {"tokens": 2, "nll": 3.0}}
    for model in ("gpt2", "gpt2e"):
        (tmp_path / "perplexity" / model / "1").mkdir(parents=True)
    done = tmp_path / "perplexity/gpt2/1/perplexity.json"
    done.write_text(json.dumps({"splits": {"test": score}}))
    runs = (("gpt2", 1), ("gpt2e", 1))
    with pytest.raises(FileNotFoundError, match=r"gpt2e/1/perplexity\.json is missing"):
        collect(Tree(tmp_path, runs), ["perplexity"])
    frame = collect(Tree(tmp_path, runs, partial=True), ["perplexity"])
    assert {row.model for row in frame} == {"gpt2"}
    said = say_missing(replace(full, frame=frame, steps=("perplexity",), seeds=(1, 2)))
    assert "Last words of passages (step lambada)" in said
    labels = [write_label(entry) for entry in full.entries if entry.can({"causal"})]
    rest = " and ".join(f"{label}, seed 1, 2" for label in labels[1:])
    assert said.endswith(f" Not done: Perplexity (GPT2, seed 2 and {rest}).")


def test_the_seed_and_the_model_of_a_row_are_its_run_s(full: Any) -> None:
    lm = full.frame.find(step="lm", measure="parameters")
    assert [(row.model, row.seed) for row in lm] == [
        (entry.name, seed) for entry in full.entries for seed in full.seeds
    ]
    assert full.frame.distinct("model", step="corpus") == ("",)
    assert set(full.frame.distinct("split", step="lambada")) == {"lambada"}


def test_a_study_is_read_from_its_folder(full: Any, tmp_path: Path) -> None:
    for path, content in full.files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(json.dumps(content))
    runs = tuple((entry.name, seed) for entry in full.entries for seed in full.seeds)
    frame = collect(Tree(tmp_path, runs), full.steps)
    assert frame.render() == full.frame.render()
    more = collect(Tree(tmp_path, (*runs, ("lstm", 1))), full.steps)  # which left nothing
    assert more.render() == frame.render()
    (tmp_path / "ner/gpt2/1/metrics.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"ner/gpt2/1/metrics\.json is missing: run the"):
        collect(Tree(tmp_path, runs), full.steps)


def test_a_step_that_left_nothing_has_no_rows(tmp_path: Path, full: Results) -> None:
    frame = collect(Tree(tmp_path, (("gpt2", 1),)), tuple(CATALOGUE))
    assert len(frame) == 0
    assert replace(full, frame=frame).measured("lm") == ()
