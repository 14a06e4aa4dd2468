"""The profile of a cluster, with processes of this machine for its jobs; `tests/slurm` has a real
Slurm.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tiny_study import ROOT, make_study, python_path, run

PLUGINS = ROOT / "tests/helpers/plugins"
STEPS = "study: {steps: [corpus, lm]}\nmodels: {gpt2: null, lstm: null}\n"


@pytest.mark.slow
@pytest.mark.usefixtures("forked_commands")
def test_the_profile_runs_a_study_where_there_is_no_number_of_cores(tmp_path: Path) -> None:
    make_study(tmp_path, STEPS)
    profile = yaml.safe_load((ROOT / "profiles/slurm/config.yaml").read_text())
    kept = {key: value for key, value in profile.items() if not key.startswith("slurm-")}
    home = tmp_path / "profile"
    home.mkdir()
    (home / "config.yaml").write_text(
        yaml.safe_dump(kept | {"executor": "queue", "seconds-between-status-checks": 1})
    )
    command = ["snakemake", "--snakefile", str(ROOT / "Snakefile"), "--workflow-profile", str(home)]
    said = run(*command, folder=tmp_path, PYTHONPATH=python_path(ROOT / "src", PLUGINS))
    assert (tmp_path / "results/lm/gpt2e/1/model.safetensors").is_file()
    assert "6 of 6 steps (100%) done" in said
    assert "Group job corpus" in said  # its four rules
    assert "threads:" not in said  # a job was given one of the cores that it sees
