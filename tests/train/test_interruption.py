"""Kill -9 at random moments: weights, curve and rows end as those of an untouched run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = 20


@pytest.mark.slow
def test_killed_runs_end_in_the_same_bytes(tmp_path: Path) -> None:
    program = str(Path(__file__).parents[1] / "helpers" / "killed.py")
    reports = {}
    for name, kills in (("untouched", 0), ("killed", KILLS)):
        command = [sys.executable, program, str(tmp_path / name), str(kills)]
        how = {"capture_output": True, "text": True, "timeout": 1800}  # against hanging alone
        done = subprocess.run(command, check=False, **how)
        assert done.returncode == 0, done.stderr[-2000:]
        reports[name] = json.loads(done.stdout.splitlines()[-1])
    assert reports["killed"]["killed"] >= KILLS
    assert reports["killed"]["while_writing"] >= KILLS // 20
    one, other = (tmp_path / name / "data/sample/models/gpt2e/1" for name in reports)
    for file in ("model.safetensors", "curve.csv", "config.json"):
        assert (one / file).read_bytes() == (other / file).read_bytes(), file
    one, other = ((home / "rows.csv").read_text().splitlines() for home in (one, other))
    assert [row for row in one if "second" not in row] == [r for r in other if "second" not in r]
