"""Two small studies, one of which starts from the other, by Snakemake and by DVC."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from once import make_once
from tiny_study import LIMIT, TINY, make_top, planned, run, set_value, snakemake

pytestmark = pytest.mark.slow
NER = {"score_ner gpt2-1", "score_ner gpt2e-1", "score_ner lstm-1"}


def make_done(folder: Path) -> None:
    make_top(folder)
    run("git", "init", "--quiet", "--initial-branch=main", folder=folder)
    run("git", "config", "user.email", "a@b.c", folder=folder)
    run("git", "config", "user.name", "a", folder=folder)
    run("dvc", "init", "--quiet", folder=folder)
    run("dvc", "remote", "add", "--default", "here", str(folder.parent / "remote"), folder=folder)
    run("dvc", "repro", "report@tiny", folder=folder)
    run("git", "add", "--all", folder=folder)
    run("git", "commit", "--quiet", "--message", "tiny", folder=folder)
    run("dvc", "push", folder=folder)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory, forked_commands: None) -> Path:
    """A repository in which study tiny was made by DVC, committed and pushed."""
    return make_once(tmp_path_factory, "tiny", make_done)


@pytest.fixture
def top(original: Path, tmp_path: Path) -> Path:
    """A copy of it, files of the same age."""
    shutil.copytree(original, tmp_path / "top", symlinks=True)
    return tmp_path / "top"


def clone(original: Path, folder: Path, *flags: str) -> Path:
    run("git", "clone", "--quiet", *flags, str(original), str(folder), folder=original)
    run("dvc", "pull", "--quiet", folder=folder)
    return folder


def test_the_results_of_a_study_are_about_ten_files(original: Path) -> None:
    files = {path.name for path in (original / "results/tiny").iterdir()}
    assert files == {
        "README.md", "measures.csv", "units.parquet", "curves.csv", "pictures.json",
        "manifest.json", "metrics.json", "figures", "report.html", "summary.txt",
    }  # fmt: skip
    manifest = json.loads((original / "results/tiny/manifest.json").read_text())
    assert {"lm/gpt2e/1", "corpus", "ner/lstm/1", "recall/keys-gradient/1"} <= {*manifest["runs"]}
    assert all(run["seconds"] >= 0 for run in manifest["runs"].values())


def test_both_tools_see_that_nothing_is_to_be_done(top: Path) -> None:
    assert "Nothing to be done" in snakemake(top)
    assert "up to date" in run("dvc", "repro", "report@tiny", folder=top)


def test_a_value_of_the_tagger_runs_the_tagger_and_the_report(top: Path) -> None:
    before = (top / "data/tiny/scores/perplexity/gpt2/1/run.json").stat().st_mtime_ns
    set_value(top / "studies/tiny.yaml", "epochs: 1", "epochs: 2")
    assert planned(top) == NER | {"make_report"}
    assert planned(top) == NER | {"make_report"}  # a dry run changes nothing
    run("dvc", "repro", "report@tiny", folder=top)
    assert (top / "data/tiny/scores/perplexity/gpt2/1/run.json").stat().st_mtime_ns == before
    assert "ner,gpt2,1,,epochs,2" in (top / "results/tiny/measures.csv").read_text()
    assert planned(top) == set()
    told = run("dvc", "params", "diff", folder=top)
    assert "ner.epochs" in told
    assert "ner_f1" in run("dvc", "metrics", "show", folder=top)
    run("dvc", "metrics", "diff", folder=top)
    run("dvc", "plots", "diff", "--out", "plots", folder=top)


def test_an_experiment_changes_a_value_and_leaves_it_to_git(top: Path) -> None:
    run("dvc", "exp", "run", "-S", "studies/tiny.yaml:ner.epochs=3", "report@tiny", folder=top)
    assert "epochs: 3" in (top / "studies/tiny.yaml").read_text()
    assert "ner,gpt2e,1,,epochs,3" in (top / "results/tiny/measures.csv").read_text()


def test_the_second_study_makes_what_it_needs_of_the_first(tmp_path: Path) -> None:
    make_top(tmp_path)
    jobs = planned(tmp_path, "second")
    assert jobs == {"make_corpus", "train_lm gpt2-1", "score_perplexity gpt2-1", "make_report"}
    printed = snakemake(tmp_path, "--dry-run", study="second")
    assert "data/tiny/models/gpt2/1/model.safetensors" in printed
    assert "data/tiny/models/gpt2e/1/model.safetensors" not in printed


def test_the_second_study_goes_on_from_the_first(top: Path) -> None:
    run("dvc", "repro", "report@second", folder=top)
    rows = (top / "data/second/models/gpt2/1/rows.csv").read_text()
    assert ",tokens_before," in rows
    set_value(top / "studies/tiny.yaml", "steps: 6, validate_every: 3, warmup", "steps: 7, validate_every: 3, warmup")
    assert "train_lm gpt2-1" in planned(top, "second")


@pytest.mark.parametrize("flags", [(), ("--config", "core.autocrlf=true")])
def test_in_a_clone_nothing_runs_again_but_what_a_changed_value_asks_for(
    original: Path, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    top = clone(original, tmp_path / "clone", *flags)
    assert planned(top) <= {"make_report"}  # report.html is no output
    assert planned(top) == set()
    set_value(top / "studies/tiny.yaml", "epochs: 1", "epochs: 2")
    assert planned(top) == NER | {"make_report"}
    run("dvc", "repro", "report@tiny", folder=top)
    assert "ner,gpt2,1,,epochs,2" in (top / "results/tiny/measures.csv").read_text()
    run("git", "checkout", "--quiet", ".", folder=top)
    run("dvc", "checkout", "--quiet", folder=top)
    assert planned(top) == set()


def test_a_report_is_built_of_what_git_holds(original: Path, tmp_path: Path) -> None:
    run("git", "clone", "--quiet", str(original), str(tmp_path / "clone"), folder=original)
    top = tmp_path / "clone"
    before = {path.name: path.read_bytes() for path in (top / "results/tiny").iterdir() if path.is_file()}
    run("entity-transformers", "report", "studies/tiny.yaml", folder=top)
    assert "0 wrong" in run("entity-transformers", "verify", "studies/tiny.yaml", folder=top)
    assert run("git", "status", "--short", folder=top) == ""
    assert before.items() <= {
        path.name: path.read_bytes() for path in (top / "results/tiny").iterdir() if path.is_file()
    }.items()


def test_a_damaged_file_is_named(top: Path) -> None:
    file = top / "data/tiny/models/gpt2/1/model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.chmod(0o644)
    file.write_bytes(bytes(data))
    shutil.rmtree(top / "data/tiny/scores/perplexity/gpt2")
    told = snakemake(top, check=False)
    assert "data/tiny/models/gpt2/1/model.safetensors: sha256" in told
    assert "it was changed or damaged" in told
    table = top / "results/tiny/measures.csv"
    table.write_text(table.read_text().replace(",epochs,1", ",epochs,2", 1))
    told = run("entity-transformers", "verify", "studies/tiny.yaml", folder=top, check=False)
    assert "wrong: measures.csv: changed after manifest.json was written" in told


@pytest.fixture
def training(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """A study whose training takes some seconds, under way."""
    long = TINY.replace("steps: 6, validate_every: 3, warmup", "steps: 4000, validate_every: 500, warmup")
    top = make_top(tmp_path / "top" if (tmp_path / "top").mkdir() is None else tmp_path, long)
    set_value(top / "studies/sample.yaml", "checkpoint_every: 100", "checkpoint_every: 20")
    target = "data/tiny/models/gpt2/1/run.json"
    environment = os.environ | {"PYTHONPATH": str(top / "src")}
    command = ["snakemake", "--cores", "1", "--configfile", "studies/tiny.yaml", "--", target]
    process = subprocess.Popen(
        command, cwd=top, env=environment, text=True, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    yield top, process
    process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_killed_training_goes_on_from_its_checkpoint(
    training: tuple[Path, subprocess.Popen[str]], number: signal.Signals
) -> None:
    top, process = training
    while not list(top.glob("work/lm/*/checkpoints/step-*")):
        assert process.poll() is None, process.stderr and process.stderr.read()
    os.killpg(process.pid, number)
    process.wait(LIMIT)
    assert not (top / "data/tiny/models/gpt2/1/run.json").exists()
    run("snakemake", "--unlock", "--configfile", "studies/tiny.yaml", folder=top)
    set_value(top / "studies/tiny.yaml", "base: sample", "base: sample\nrun: {max_minutes: 0.01}")
    told = snakemake(top, "--", "data/tiny/models/gpt2/1/run.json", check=False)
    assert "going on" in told or "step" in told, told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("base: none\n", "studies/tiny.yaml: base: no study 'none'"),
        ("base: tiny\n", "base: circular"),
        ("lm: {stepz: 3}\n", "lm.stepz: 3, but its base has no such key"),
        ("study: {steps: [corpus, lm, ner, report]}\n", "ner reads what embeddings writes"),
        ("lm: {steps: 0}\n", "lm.steps: Input should be greater than 0 (value: 0)"),
    ],
)
def test_a_bad_study_stops_before_any_rule_runs(tmp_path: Path, text: str, told: str) -> None:
    top = make_top(tmp_path, text)
    printed = snakemake(top, check=False)
    assert told in printed
    assert not (top / "data").exists()
    assert len([line for line in printed.splitlines() if line.startswith("snakemake: ")]) == 1


def test_the_paper_s_study_is_planned(tmp_path: Path) -> None:
    make_top(tmp_path)
    printed = run("snakemake", "--cores", "1", "--resources", "gpu=1", "-n", folder=tmp_path)
    assert "results/paper/README.md" in printed
    assert printed.count("rule train_lm:") == 2


def test_make_says_which_studies_there_are(root: Path) -> None:
    told = run("make", "study", "STUDY=none", folder=root, check=False)
    assert "no study 'none'" in told
