"""A study that starts from another one's weights: one run makes both, under Snakemake and DVC."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_study import ROOT, TINY, copy_checkout, planned, run, snakemake

from entity_transformers.cli.study import write_study
from entity_transformers.study.resolve import resolve_study

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.usefixtures("forked_commands"),
]
FIRST = """
study: {steps: [corpus, lm, perplexity, report]}
models: {gpt2e: null, lstm: null}
"""
MODELS = {
    "gpt2": {"kind": "gpt2", "role": "baseline"},
    "gpt2e": {"kind": "gpt2e", "role": "proposed", "labels": "gold"},
    "random": {"kind": "gpt2", "initial_weights": None},
}
CHANGES = {
    "corpus": {"sample_words": 7000},
    "tokenizer": {"kind": "study", "path": "study:first"},
    "lm": {"initial_weights": "study:first/gpt2/1"},
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with two studies, the second of which has been run by Snakemake."""
    root = copy_checkout(tmp_path_factory.mktemp("root"))
    for name in ("first", "next"):
        (root / "studies" / name).mkdir(parents=True)
    sample = ROOT / "studies" / "sample" / "study.yaml"
    first = root / "studies" / "first"
    (first / "study.yaml").write_text(TINY.format(sample=sample) + FIRST)
    values = yaml.safe_load(resolve_study(first)) | {"root": "../.."}
    (first / "study.yaml").unlink()
    more = values | {"models": MODELS}
    for section, changed in CHANGES.items():
        more[section] = more[section] | changed
    for name, written in (("first", values), ("next", more)):
        write(root, name, written)
        write_study(root / "studies" / name)
    run("dvc", "init", "--no-scm", "--quiet", folder=root)
    snakemake(root / "studies" / "next", "--quiet", "rules", root=root)
    commit = ("dvc", "commit", "--force", "--quiet")
    run(*commit, "corpus", "lm@gpt2-1", folder=root / "studies" / "first")
    run(*commit, "dvc.yaml", folder=root / "studies" / "next")  # else all of the repository
    return root


def write(root: Path, name: str, values: Any) -> None:
    path = root / "studies" / name / "params.yaml"
    path.write_text(yaml.safe_dump(values, sort_keys=False))


def digest_of(path: Path, name: str) -> str:
    """What a run's manifest says of one of its inputs."""
    return json.loads((path / "manifest.json").read_text())["inputs"][name]


def test_the_other_study_is_made_first_and_only_what_is_needed_of_it(checkout: Path) -> None:
    first, later = (checkout / "studies" / name / "results" for name in ("first", "next"))
    assert (first / "lm/gpt2/1/model.safetensors").exists()
    assert not (first / "perplexity").exists()
    assert (later / "report/report.html").exists()
    assert (first / "corpus/tokenizer.json").read_text() == (
        later / "corpus/tokenizer.json"
    ).read_text()
    weights = {"model.safetensors", "config.json"}
    for model, found in (("gpt2", weights), ("gpt2e", weights), ("random", set())):
        manifest = json.loads((later / f"lm/{model}/1/manifest.json").read_text())
        assert weights & set(manifest["inputs"]) == found


def test_nothing_is_left_to_do_under_either_tool(checkout: Path) -> None:
    assert planned(checkout / "studies" / "next", checkout) == set()
    status = run("dvc", "status", "lm", "corpus", folder=checkout / "studies" / "next")
    assert "up to date" in status


def test_what_changes_there_is_made_again_here(checkout: Path) -> None:
    """Under both tools: another learning rate there trains there, then what starts from it."""
    path = checkout / "studies" / "first" / "params.yaml"
    before = path.read_text()
    values = yaml.safe_load(before)
    values["lm"]["learning_rate"] = 1e-3
    write(checkout, "first", values)
    folder = checkout / "studies" / "next"
    try:
        jobs = planned(folder, checkout)
        assert {"study_first_weights", "train_lm gpt2-1", "train_lm gpt2e-1"} <= jobs
        assert not {"study_first_encoder", "align_corpus", "train_lm random-1"} & jobs
        printed = run("dvc", "repro", "--dry", "lm@gpt2-1", folder=folder)
        assert "lm@gpt2-1" in printed
        assert "first" in printed
        snakemake(folder, "--quiet", "rules", root=checkout)
        weights = checkout / "studies/first/results/lm/gpt2/1/model.safetensors"
        digest = run("sha256sum", str(weights), folder=checkout).split()[0]
        assert digest_of(folder / "results/lm/gpt2/1", "model.safetensors") == digest
        assert planned(folder, checkout) == set()
    finally:
        path.write_text(before)


def test_a_study_that_is_not_there_stops_before_any_rule(checkout: Path, tmp_path: Path) -> None:
    values = yaml.safe_load((checkout / "studies/next/params.yaml").read_text())
    values["lm"]["initial_weights"] = "study:none/gpt2/1"
    (checkout / "studies" / "lost").mkdir()
    write(checkout, "lost", values)
    output = snakemake(checkout / "studies" / "lost", check=False, root=checkout)
    assert "initial_weights study:none/gpt2/1: no study none" in output
    assert "rule " not in output
