"""What a job says when a signal ends it stands in its log."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tiny_study import BIN, ROOT, make_study, python_path

pytestmark = pytest.mark.slow
RULES = """\
include: "{root}/workflow/rules/common.smk"
rule stop:
    output: "never"
    shell: "(trap 'echo saved; exit 75' TERM INT; touch begun; while :; do sleep 0.1; done)"
        " 2>&1 | tee job.log"
"""


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_all_of_a_job_loses_no_line_of_its_log(tmp_path: Path, sent: int) -> None:
    """As a cluster's at a job's limit, or Ctrl-C: tee gets it too."""
    folder = make_study(tmp_path)
    (folder / "Snakefile").write_text(RULES.format(root=ROOT))
    job = subprocess.Popen(
        [str(BIN / "snakemake"), "--cores", "1", "stop"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": python_path(ROOT / "src")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        # a shell's background job ignores SIGINT, and what it starts does too
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        end = time.monotonic() + 300
        while not (folder / "begun").exists() and job.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        os.killpg(job.pid, sent)
        while "saved" not in (folder / "job.log").read_text() and time.monotonic() < end:
            if job.poll() is not None:
                time.sleep(1)  # what a job said reaches its log after the job
                break
            time.sleep(0.1)
        assert (folder / "job.log").read_text().endswith("saved\n")
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()
