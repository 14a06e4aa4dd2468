"""The panel of a run: what it knows of the jobs, what it says where there is no terminal."""

import os
from pathlib import Path

from checkout import ROOT, run

PLUGIN = ROOT / "workflow/logger"
RULES = """\
shell.prefix(
    'set -euo pipefail; tee() {{ if [[ ${{STUDY_PANEL:-}} ]]; then exec >/dev/null; fi;'
    ' exec tee -i "$@"; }}; ')
rule all:
    input: expand("out/{model}/{seed}", model=["gpt2", "gpt2e"], seed=[1, 2])
rule train_lm:
    output: "out/{model}/{seed}"
    log: "logs/{model}/{seed}.log"
    shell: "(echo noise; touch {output}) 2>&1 | tee {log}"
rule bad:
    output: "bad"
    log: "logs/bad.log"
    shell: "(seq 40; echo why; exit 3) 2>&1 | tee {log}"
"""


def follow(folder: Path, *targets: str, check: bool = True) -> str:
    if not (folder / "Snakefile").exists():
        (folder / "Snakefile").write_text(RULES)
    paths = f"{PLUGIN}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    command = ("snakemake", *targets, "--cores", "2", "--logger", "panel")
    env = {"PYTHONPATH": paths, "STUDY_PANEL": "make study STUDY=x"}
    return run(*command, folder=folder, check=check, **env)


def test_without_a_terminal_a_line_says_that_a_job_begins_and_one_that_it_ended(tmp_path):
    lines = follow(tmp_path).splitlines()
    began = [line.removeprefix("begins  ") for line in lines if line.startswith("begins  ")]
    ended = [line.split("  ") for line in lines if not line.startswith("begins  ")]
    jobs = [f"train-lm {model} seed {seed}" for model in ("gpt2", "gpt2e") for seed in (1, 2)]
    assert sorted(began) == sorted(name for _, name, *_ in ended) == ["all", *jobs]
    assert [number for number, *_ in ended] == [f"{i} of 5" for i in range(1, 6)]
    assert lines[0].startswith("begins  train-lm")
    assert (tmp_path / "logs/gpt2/1.log").read_text() == "noise\n"


def test_a_job_that_fails_shows_the_end_of_its_log(tmp_path: Path) -> None:
    said = follow(tmp_path, "bad", check=False)
    assert "failed: bad; its log: logs/bad.log" in said
    assert {"    why", "    40"} <= {*said.splitlines()}
    assert "    3\n" not in said
    assert not (tmp_path / "bad").exists()


def test_jobs_that_ctrl_c_stopped_are_a_line_each_and_how_to_go_on(tmp_path: Path) -> None:
    last = "signal 2: saved at step 7 of 9; run it again to continue"
    rules = RULES.replace("echo why; exit 3", f"echo '{last}'; exit 75")
    (tmp_path / "Snakefile").write_text(rules)
    first, *said = follow(tmp_path, "bad", check=False).splitlines()
    assert first == "begins  bad"
    assert said == [
        "stopped: bad (signal 2: saved at step 7 of 9)",
        "What was done or saved is kept; make study STUDY=x goes on from there.",
    ]


def test_the_last_line_of_a_long_log_is_found(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(PLUGIN))
    import snakemake_logger_plugin_panel as panel

    log = tmp_path / "long.log"
    log.write_bytes(b"\xff" * 10000 + b"\nlast\n  \n}\n")
    assert panel.last_line((log,)) == "last"
    log.write_text("")
    assert panel.last_line((tmp_path / "none", log)) == ""
