"""A study of the pointer kinds from text to report, in a tiny size."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import yaml
from tiny_study import ROOT

from entity_transformers.artifacts import read_json
from entity_transformers.cli import main
from entity_transformers.study.params import load

SMALL = {
    "study": {
        "steps": [
            *("corpus", "passages", "lm", "perplexity", "lambada", "cache", "mentions"),
            *("short_windows", "capacity", "decisions", "setlm", "report"),
        ]
    },
    "corpus": {"sample_words": 6000, "resolvers": ["names-causal"]},
    "tokenizer": {"vocabulary": 400},
    "lm": {
        **{"layers": 1, "heads": 2, "width": 16, "window": 32, "steps": 4, "warmup_steps": 1},
        **{"documents_per_step": 2, "validate_every": 4, "validation_documents": 2},
        **{"memory_gradient_windows": 1, "learning_rate": 1e-2},
    },
    "perplexity": {"stride": 32},
    "mentions": {
        **{"labels": "gold", "caches": [8], "unlabelled_caches": []},
        **{"choose": "dev", "tokens": 400, "report": "test"},
    },
    "short_windows": {"sizes": [8, 32], "caches": [8]},
    "capacity": {"memories": [[1, 8], [1, 0], [500, 8]]},
    "decisions": {
        **{"labels": "gold", "tokens": 100, "width": 8, "longest": 8, "steps": 2},
        **{"learning_rates": [1e-3], "samples": 4, "groups": [1], "choose": "dev"},
        **{"report": "test"},
    },
    "setlm": {
        **{"labels": "gold", "tokens": 100, "steps": 2, "learning_rates": [1e-3]},
        **{"choose": "dev", "report": "test"},
    },
    "report": {"bootstrap_samples": 50},
}
MODELS = {
    "gpt2-pointer": {"kind": "gpt2-pointer", "role": "proposed", "labels": "gold"},
    "gpt2e-pointer": {
        "kind": "gpt2e-pointer", "role": "other", "labels": "resolver:names-causal"
    },
    "gpt2-pointer-random": {
        "kind": "gpt2-pointer", "role": "control", "labels": "random-resolver:names-causal"
    },
}  # fmt: skip

STEPS = ("perplexity", "cache", "mentions", "short_windows", "capacity", "decisions", "setlm")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study that has come to its report, step by step as its rules have it."""
    folder = tmp_path_factory.mktemp("study")
    values = yaml.safe_load((ROOT / "studies/sample/params.yaml").read_text())
    for section, small in SMALL.items():
        values[section] = values.get(section, {}) | small
    values["models"] = MODELS
    (folder / "params.yaml").write_text(yaml.safe_dump(values))
    corpus, passages = "results/corpus", "results/passages"

    def run(name: str, **places: str) -> None:
        flags = [part for flag, value in places.items() for part in (f"--{flag}", value)]
        main([name, "--params", "params.yaml", *flags])

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run("download-corpus", cache="work", output=f"{corpus}/source.json")
        run("prepare-corpus", source=f"{corpus}/source.json", output=corpus)
        run("train-tokenizer", corpus=corpus, cache="work", output=f"{corpus}/tokenizer.json")
        run("align-corpus", corpus=corpus, tokenizer=f"{corpus}/tokenizer.json", output=corpus)
        run("download-lambada", cache="work", output=f"{passages}/lambada_source.json")
        source = f"{passages}/lambada_source.json"
        run("prepare-lambada", source=source, cache="work", output=passages)
        tags = f"{passages}/lambada_tags.json"
        run("tag-lambada", corpus=corpus, passages=passages, output=tags)
        for model in MODELS:
            lm = f"results/lm/{model}/1"
            whose = {"model": model, "seed": "1"}
            run("train-lm", corpus=corpus, **whose, work="work/lm", output=lm)
            for step in STEPS:
                place = f"results/{step}/{model}/1"
                run(f"score-{step.replace('_', '-')}", corpus=corpus, lm=lm, **whose, output=place)
            place = f"results/lambada/{model}/1"
            run("score-lambada", corpus=corpus, passages=passages, lm=lm, **whose, output=place)
        run("collect-measures", results="results", output="results/report")
        run("build-report", results="results", output="results/report")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_each_step_has_its_numbers(study: Path, model: str) -> None:
    metrics = read_json(study / f"results/lm/{model}/1/metrics.json")
    assert metrics["objective"] == "mixture"
    assert metrics["dev_loss_on"] != metrics["dev_loss_off"]
    scores = read_json(study / f"results/perplexity/{model}/1/perplexity.json")["splits"]
    for split in scores.values():
        assert len({split[mode]["loss"] for mode in ("on", "off", "shuffled")}) == 3
    cache = read_json(study / f"results/cache/{model}/1/cache.json")
    alone = scores[cache["split"]]["off"]["loss"]
    assert cache["sizes"][0]["loss"] == pytest.approx(alone, rel=1e-5)
    assert read_json(study / f"results/lambada/{model}/1/lambada.json")["passages"] > 10


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_in_the_models_own_window_step_short_windows_is_step_mentions(
    study: Path, model: str
) -> None:
    found = read_json(study / f"results/short_windows/{model}/1/short_windows.json")
    shorter, own = found["windows"]
    assert (shorter["window"], own["window"]) == (8, 32)
    mentions = read_json(study / f"results/mentions/{model}/1/mentions.json")
    lagged = [one for one in mentions["scored"] if one["labels"] == "lagged"]
    assert own["scored"] == lagged
    assert own["documents"] == mentions["documents"]
    alone = [part["scored"][0]["loss"] for part in (shorter, own)]
    assert alone[0] != pytest.approx(alone[1], abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_with_room_for_every_entity_step_capacity_is_step_mentions(study: Path, model: str) -> None:
    found = read_json(study / f"results/capacity/{model}/1/capacity.json")
    assert [(one["rows"], one["size"]) for one in found["scored"]] == [(1, 0), (1, 8), (500, 8)]
    mentions = read_json(study / f"results/mentions/{model}/1/mentions.json")
    whole = [one for one in mentions["scored"] if one["labels"] == "lagged"]
    assert found["scored"][2] == {"rows": 500, **whole[1]}
    assert found["scored"][1]["loss"] != whole[1]["loss"]
    assert found["scored"][0]["entities"] == [min(1, n) for n in whole[0]["entities"]]


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_decisions_are_made_beside_the_words_of_the_same_model(study: Path, model: str) -> None:
    """A pointer's model reads no labels there."""
    by_step = {
        step: read_json(study / f"results/{step}/{model}/1/{step}.json")
        for step in ("decisions", "setlm")
    }
    nats = by_step["setlm"]["nats"]
    assert nats["plain"] == by_step["decisions"]["nats"]["plain"]
    assert len(nats["plain"]) > 1
    assert all(len(set(one)) == 5 for one in zip(*nats.values(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("step", ["decisions", "setlm"])
def test_of_a_large_split_decisions_read_every_kth_document(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    whole = read_json(study / f"results/{step}/gpt2-pointer/1/{step}.json")["documents"]
    monkeypatch.chdir(study)
    most = sum(one["tokens"] for one in whole) - 1
    monkeypatch.setattr("entity_transformers.cli.decisions.MOST", most)
    places = ["--corpus", "results/corpus", "--lm", "results/lm/gpt2-pointer/1"]
    flags = ["--params", "params.yaml", "--model", "gpt2-pointer", "--seed", "1"]
    main([f"score-{step}", *flags, *places, "--output", str(tmp_path)])
    cut = read_json(tmp_path / f"{step}.json")["documents"]
    names = [[one["document"] for one in found] for found in (whole, cut)]
    assert names[1] == names[0][::2]


@pytest.mark.slow
@pytest.mark.parametrize("step", ["perplexity", "excerpts"])
def test_the_stride_is_the_window_of_an_entry_that_has_a_shorter_one(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Of the study's model, its window is an entry's own here and the stride is twice as long."""
    values = yaml.safe_load((study / "params.yaml").read_text())
    window = values["lm"]["window"]
    values["models"]["gpt2-pointer"] |= {"window": window}
    values["lm"]["window"] = values["perplexity"]["stride"] = 2 * window
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(values))
    monkeypatch.chdir(study)
    places = ["--corpus", "results/corpus", "--lm", "results/lm/gpt2-pointer/1"]
    flags = ["--params", str(tmp_path / "params.yaml"), "--model", "gpt2-pointer", "--seed", "1"]
    main([f"score-{step}", *flags, *places, "--output", str(tmp_path)])
    if step == "perplexity":
        scores = [
            read_json(folder / "perplexity.json")["splits"]["test"]["off"]
            for folder in (tmp_path, study / "results/perplexity/gpt2-pointer/1")
        ]
        assert scores[0] == scores[1]  # where the stride was the window already


@pytest.mark.slow
def test_the_report_has_all_three_conditions_of_both(study: Path) -> None:
    with (study / "results/report/measures.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["step"] == "perplexity"]
    for model in MODELS:
        conditions = {row["condition"] for row in rows if row["model"] == model}
        assert {f"entities={mode}" for mode in ("on", "off", "shuffled")} <= conditions
    page = (study / "results/report/report.html").read_text(encoding="utf-8")
    assert "GPT2 pointer" in page
    assert "GPT2E pointer" in page


@pytest.mark.slow
def test_a_text_is_read_and_written_on(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    book = tmp_path / "book.txt"
    book.write_text("The aunt of Mr. Darcy met Jane Bennet . Then Darcy saw her . " * 12)
    for model in MODELS:
        main(
            [
                *("remember", str(book), "--results", str(study / "results")),
                *("--model", model, "--write", "3", "--seed", "1"),
            ]
        )
        told = capsys.readouterr().out
        assert " entities, 2 of them in the memory (4 forms each)" in told
        assert "Darcy" in told
        assert "next       with memory  without" in told


def test_studies_pointer_has_a_row_for_each_control() -> None:
    params = load(ROOT / "studies/pointer/params.yaml")
    found = {
        e.name: (e.kind.name, e.labels, e.lm.memory_gradient_windows) for e in params.entries()
    }
    names = "resolver:names-causal"
    assert found == {
        "gpt2": ("gpt2", "none", 3),
        "gpt2-pointer": ("gpt2-pointer", names, 3),
        **{
            f"gpt2-pointer-{control}": ("gpt2-pointer", f"{control}-{names}", 3)
            for control in ("shuffled", "surface", "random")
        },
        "gpt2e-pointer": ("gpt2e-pointer", names, 3),
        "gpt2e-pointer-given": ("gpt2e-pointer", names, 3),
    }
    assert {e.lm.initial_weights for e in params.entries()} == {"study:systems-books/gpt2/1"}


def test_studies_pointer_ontogum_has_every_control_of_its_chains() -> None:
    """All pointers but GPT2E's begin with the same weights: only their labels differ."""
    params = load(ROOT / "studies/pointer-ontogum/params.yaml")
    entries = {entry.name: entry for entry in params.entries()}
    pointers = {n: e for n, e in entries.items() if e.kind.name == "gpt2-pointer"}
    assert {name.removeprefix("gpt2-pointer"): e.labels for name, e in pointers.items()} == {
        "": "gold",
        "-names": "resolver:names-causal",
        **{f"-{control}": control for control in ("shuffled", "surface", "random", "nouns")},
    }
    assert {e.lm.initial_weights for e in pointers.values()} == {"study:pointer/gpt2-pointer/1"}
    assert entries["gpt2"].lm.initial_weights == "study:pointer/gpt2/1"
    given = entries["gpt2e-pointer-given"]
    assert (given.labels, given.lm.entity_input) == ("gold", "given")
    assert len({e.lm.steps for e in entries.values()}) == 1
