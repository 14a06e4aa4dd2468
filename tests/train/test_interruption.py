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
    command = [sys.executable, program, str(tmp_path), str(KILLS)]
    how = {"capture_output": True, "text": True, "timeout": 1800}  # against hanging alone
    done = subprocess.run(command, check=False, **how)
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["killed"] >= KILLS
    assert report["while_writing"] >= KILLS // 20
    names = ("untouched", "killed")
    one, other = (tmp_path / name / "data/sample/models/gpt2e/1" for name in names)
    for file in ("model.safetensors", "curve.csv", "config.json"):
        assert (one / file).read_bytes() == (other / file).read_bytes(), file
    one, other = ((home / "rows.csv").read_text().splitlines() for home in (one, other))
    assert [row for row in one if "second" not in row] == [r for r in other if "second" not in r]
