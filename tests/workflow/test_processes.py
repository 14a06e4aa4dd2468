"""`snakemake --set-resources train_lm:gpu=2`: two processes train one model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_study import BIN, ROOT, make_study, run, snakemake

STEPS = """\
study: {steps: [corpus, lm]}
run: {device: cpu}
models:
  gpt2: null
  lstm: null
  gpt2e: {dropout: 0.0}  # each process draws its own
  word2vec: {kind: word2vec, role: other}
"""
TOGETHER = ("--set-resources", "train_lm:gpu=2")


def read(study: Path, model: str, name: str) -> Any:
    return json.loads((study / f"results/lm/{model}/1/{name}.json").read_text())


@pytest.mark.slow
def test_two_processes_train_a_model_of_a_study(tmp_path: Path) -> None:
    """By the numbers of one process, in forks too; word vectors stay in one, and how many processes
    there were is no reason to train again.
    """
    alone, together = tmp_path / "alone", tmp_path / "together"
    for each in (alone, together):
        each.mkdir()
        make_study(each, STEPS)
    snakemake(alone, "--quiet", "rules")
    forks = [str(BIN / "python"), str(ROOT / "workflow/forks.py"), str(BIN / "snakemake")]
    said = run(
        *forks, "--snakefile", str(ROOT / "Snakefile"), "--cores", "2", *TOGETHER, folder=together
    )
    assert "processes: 2" in said
    assert [read(study, "gpt2e", "timing")["processes"] for study in (alone, together)] == [1, 2]
    one, two = (read(study, "gpt2e", "metrics") for study in (alone, together))
    assert one.keys() == two.keys()
    for name, value in one.items():
        assert two[name] == (pytest.approx(value, abs=1e-5) if type(value) is float else value)
    vectors = "results/lm/word2vec/1/model.safetensors"
    assert (alone / vectors).read_bytes() == (together / vectors).read_bytes()
    assert "Nothing to be done" in snakemake(together, "-n")
    assert "Nothing to be done" in snakemake(alone, "-n", *TOGETHER)
