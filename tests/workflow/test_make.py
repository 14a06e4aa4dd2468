"""`make study`, and Snakemake called directly, after study.yaml was edited."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml
from tiny_study import BIN, ROOT, TINY, run, snakemake

from entity_transformers.cli.study import write_study

STEPS = "study: {steps: [corpus, lm, perplexity, report]}\nmodels: {lstm: null}\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Study tiny of a checkout in which Snakemake only prints the width that it would train."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("pyproject.toml", "constraints.txt", "requirements-build.txt", "requirements.txt"):
        (tmp_path / name).touch()
    tools = tmp_path / ".venv/bin"
    tools.mkdir(parents=True)
    (tools / "entity-transformers").symlink_to(BIN / "entity-transformers")
    (tools / "snakemake").write_text("#!/bin/sh\ngrep ' width' studies/tiny/params.yaml\n")
    (tools / "snakemake").chmod(0o755)
    (tmp_path / ".venv/ready").touch()
    study = tmp_path / "studies/tiny"
    study.mkdir(parents=True)
    (study / "study.yaml").write_text(
        TINY.format(sample=ROOT / "studies/sample/study.yaml") + STEPS
    )
    write_study(study)
    return study


def edit(study: Path, line: str) -> None:
    path = study / "study.yaml"
    path.write_text(re.sub(r"(?m)^ +width: .*\n", line, path.read_text()))


def make(study: Path) -> str:
    # as if no other make had called it, which `make test` is
    by_itself = {"MAKEFLAGS": "", "MAKELEVEL": "0"}
    return run(
        "make", "study", "STUDY=tiny", "FORKS=", folder=study.parents[1], check=False, **by_itself
    )


def test_make_goes_by_the_edited_study_yaml(home: Path) -> None:
    assert "written anew" not in make(home)
    edit(home, "  width: 32\n")
    said = make(home)
    assert "studies/tiny/params.yaml is written anew from study.yaml" in said
    assert "  width: 32" in said
    assert yaml.safe_load((home / "params.yaml").read_text())["lm"]["width"] == 32


def test_bytecode_is_kept_whatever_the_shell_says(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The set-up makes none."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    tool = home.parents[1] / ".venv/bin/snakemake"
    tool.write_text("#!/bin/sh\necho found ${PYTHONDONTWRITEBYTECODE:-nothing}\n")
    assert "found nothing" in make(home)


def test_make_runs_a_study_that_has_only_a_study_yaml(home: Path) -> None:
    (home / "params.yaml").unlink()
    assert "  width: 16" in make(home)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("  widht: 16\n", "lm.widht: 16, but its base has no such key, expected one of "),
        ("  width: 17\n", "17"),
        ("  width: many\n", "lm.width: Input should be a valid integer"),
        (" width: 16\n", "not YAML: "),
    ],
)
def test_a_typo_is_one_line(home: Path, wrong: str, told: str) -> None:
    edit(home, wrong)
    by_make = make(home).splitlines()
    (line,) = by_make[:-1]  # make's own comes last
    assert line.startswith("entity-transformers write-study: studies/tiny/study.yaml")
    assert told in line


def test_snakemake_alone_does_not_go_on_with_the_old_values(home: Path) -> None:
    edit(home, "  width: 32\n")
    source = "results/corpus/source.json"
    said = snakemake(home, "--dry-run", "--", source, check=False)
    assert "params.yaml is not what study.yaml comes to: `make generate` writes it anew" in said
    assert "rule " not in said
    written = home / "params.yaml"
    kept = written.read_text()
    # of a version that wrote it otherwise: not what its reader, who did not write it, should mend
    written.write_text(kept + "other: {labels: resolver:names}\n")
    said = snakemake(home, "--dry-run", check=False)
    assert "`make generate` writes it anew" in said
    assert "brackets" not in said
    written.write_text(kept)
    rules = ("--allowed-rules", "download_corpus")  # as a stage of DVC has it
    assert "rule download_corpus" in snakemake(home, "--dry-run", *rules, "--", source)
    edit(home, "  widht: 16\n")
    *_, line = snakemake(home, "--dry-run", check=False).splitlines()
    assert line.startswith("snakemake: study.yaml: ")
