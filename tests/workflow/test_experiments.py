"""DVC's experiments and comparisons on a small real study, at the root and in a study's folder."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_study import ROOT, TINY, copy_checkout, python_path, run, snakemake

from entity_transformers.cli.study import write_study
from entity_transformers.study.resolve import resolve_study

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.usefixtures("forked_commands"),
]
WHO = {
    f"GIT_{who}_{what}": "test@example.org"
    for who in ("AUTHOR", "COMMITTER")
    for what in ("NAME", "EMAIL")
}
CHANGES = """
study: {steps: [corpus, lm, perplexity, report]}
models: {gpt2: null, lstm: null}
"""


def make_home(root: Path, name: str) -> Path:
    """A study that Snakemake has run, committed with its dvc.lock, in that folder of a checkout."""
    (root / ".gitignore").write_text((ROOT / ".gitignore").read_text())
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.yaml").write_text(
        TINY.format(sample=ROOT / "studies/sample/study.yaml") + CHANGES
    )
    values = yaml.safe_load(resolve_study(folder))
    values["root"] = "." if folder == root else "../.."
    (folder / "study.yaml").unlink()
    (folder / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    write_study(folder)
    run("git", "init", "--quiet", folder=root)
    run("dvc", "init", "--quiet", folder=root)
    snakemake(folder, "--quiet", "rules", root=root)
    run("dvc", "commit", "--force", "--quiet", "dvc.yaml", folder=folder)
    run("git", "add", "--all", folder=root)
    run("git", "commit", "--quiet", "--message", "results", folder=root, **WHO)
    return folder


def ask(folder: Path, *command: str) -> Any:
    """What DVC answers as JSON."""
    printed = run("dvc", *command, "--json", folder=folder)
    return json.loads(next(line for line in printed.splitlines() if line.startswith(("{", "["))))


def test_an_experiment_is_run_shown_and_compared(tmp_path: Path) -> None:
    """The other learning rate trains again; the few numbers of a model are compared as metrics, its
    curve as a plot.
    """
    root = copy_checkout(tmp_path)
    home = make_home(root, "studies/tiny")
    metrics = home / "results/report/metrics/gpt2e.json"
    before = json.loads(metrics.read_text())
    assert list(before) == ["dev_loss", "perplexity"]
    src = {"PYTHONPATH": python_path(root / "src")}
    printed = run("dvc", "exp", "run", "-S", "lm.learning_rate=1e-5", folder=home, **src, **WHO)
    assert "--allowed-rules train_lm" in printed
    assert "--allowed-rules download_corpus" not in printed
    after = json.loads(metrics.read_text())
    assert after["dev_loss"] != before["dev_loss"]

    named = "results/report/metrics/gpt2e.json"
    assert ask(home, "metrics", "show", named)[""]["data"][named]["data"] == after
    found = ask(home, "metrics", "diff", "--targets", named)[named]
    assert {k: (v["old"], v["new"]) for k, v in found.items()} == {
        name: (before[name], after[name]) for name in before
    }
    changed = ask(home, "params", "diff")["params.yaml"]
    assert list(changed) == ["lm.learning_rate"]
    assert float(changed["lm.learning_rate"]["new"]) == 1e-5
    workspace, commit = ask(home, "exp", "show")
    assert workspace["rev"] == "workspace"
    assert len(commit["experiments"]) == 1

    curve = ("--targets", "results/lm/gpt2e/1/curve.csv", "-x", "step", "-y", "dev_loss_on")
    run("dvc", "plots", "diff", "HEAD", *curve, "--out", "plots", folder=home)
    page = (home / "plots/index.html").read_text()
    for curve in (
        (home / "results/lm/gpt2e/1/curve.csv").read_text(),
        run("git", "show", "HEAD:./results/lm/gpt2e/1/curve.csv", folder=home),
    ):
        last = curve.strip().splitlines()[-1]
        assert last.split(",")[list(curve.splitlines()[0].split(",")).index("dev_loss_on")] in page

    repeat_alone(root, home)
    move_out(root, home)


def move_out(root: Path, home: Path) -> None:
    """The study becomes a DVC repository of its own: nothing runs again, no other is read even by a
    plain `dvc repro`, and experiments and comparisons are as before.
    """
    run("dvc", "init", "--subdir", "--quiet", folder=home)
    write_study(home)
    assert "../../code.json" not in (home / "dvc.yaml").read_text()
    run("dvc", "commit", "--force", "--quiet", "dvc.yaml", folder=home)
    run("git", "add", "--all", folder=root)
    run("git", "commit", "--quiet", "--message", "a repository of its own", folder=root, **WHO)
    src = {"PYTHONPATH": python_path(root / "src")}
    with unreadable(root / "studies/other"):
        assert "Running stage" not in run("dvc", "repro", folder=home, **src)
        changed = "report.title=Anew"
        printed = run("dvc", "exp", "run", "-S", changed, folder=home, **src, **WHO)
        assert re.findall(r"^Running stage '([^']+)'", printed, re.MULTILINE) == ["report"]
        found = ask(home, "params", "diff")
        assert list(found) == ["params.yaml"]
        assert found["params.yaml"]["report.title"]["new"] == "Anew"
        assert len(ask(home, "exp", "show")[1]["experiments"]) == 1
        assert "failed" not in run("dvc", "params", "diff", folder=home)


@contextmanager
def unreadable(other: Path) -> Iterator[None]:
    """A study that is an error to whoever reads it."""
    other.mkdir(parents=True)
    (other / "dvc.yaml").write_text("stages: [")
    yield
    shutil.rmtree(other)


def test_the_root_s_own_study_is_repeated_alone(tmp_path: Path) -> None:
    root = copy_checkout(tmp_path)
    repeat_alone(root, make_home(root, "."))


def repeat_alone(root: Path, home: Path) -> None:
    """By the order of its own file, without reading the other studies: what a value changes is made
    anew, and all that comes of it; then nothing is left to do.
    """
    path = home / "params.yaml"
    text = path.read_text()
    path.write_text(text.replace("warmup_steps:", "warmup_steps: 3 #", 1))
    assert path.read_text() != text
    again = ("dvc", "repro", "--single-item", "dvc.yaml")
    with unreadable(root / "studies/other"):
        printed = run(*again, folder=home, PYTHONPATH=python_path(root / "src"))
        ran = re.findall(r"^Running stage '([^']+)'", printed, re.MULTILINE)
        assert ran == ["lm@gpt2e-1", "perplexity@gpt2e-1", "report"]
        assert "cached" not in printed  # the corpus is as it was
        printed = run(*again, folder=home, PYTHONPATH=python_path(root / "src"))
        assert "Running stage" not in printed
        assert "cached" not in printed
    assert "up to date" in run("dvc", "status", "dvc.yaml", folder=home)
