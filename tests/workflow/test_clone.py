"""A clone, in which Snakemake has no record of how the committed results were made."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_study import make_study, planned, snakemake

MODELS = "models: {gpt2e: null, lstm: null}\n"


def change(study: Path, section: str, **values: Any) -> None:
    path = study / "params.yaml"
    params = yaml.safe_load(path.read_text())
    params[section] |= values
    path.write_text(yaml.safe_dump(params, sort_keys=False))


@pytest.mark.slow
@pytest.mark.usefixtures("forked_commands")
def test_a_changed_value_is_not_passed_over_there(tmp_path: Path) -> None:
    make_study(tmp_path, "study: {steps: [corpus, lm, perplexity, report]}\n" + MODELS)
    snakemake(tmp_path, "--quiet", "rules")
    shutil.rmtree(tmp_path / ".snakemake")
    assert planned(tmp_path) == set()
    change(tmp_path, "lm", learning_rate=0.5)
    said = snakemake(tmp_path, "--dry-run", check=False)
    assert "was made with other values than params.yaml has" in said
    files = said.partition("--forcerun ")[2].split()
    snakemake(tmp_path, "--quiet", "rules", "--forcerun", *files)
    assert planned(tmp_path) == set()
    change(tmp_path, "perplexity", batch=3)  # Snakemake has records by now
    assert planned(tmp_path) == {"score_perplexity gpt2-1", "collect_measures", "build_report"}
