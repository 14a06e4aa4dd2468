"""A real Slurm of one node, on which a study is run as README says.

Needs root, Debian's slurm-wlm and munge and snakemake-executor-plugin-slurm; skipped where one of
them is missing. Five minutes, most of them waiting for a limit.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_study import BIN, ROOT, committed, make_study, run, snakemake

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol")
PLUGIN = "snakemake_executor_plugin_slurm"
# the default place: the plugin takes SLURM_CONF away from its jobs
CONFIG, GRES = Path("/etc/slurm/slurm.conf"), Path("/etc/slurm/gres.conf")
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
MISSING = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(os.geteuid() != 0, reason="slurmd runs as root"),
    pytest.mark.skipif(bool(MISSING), reason=f"no {', '.join(MISSING)}: apt-get install slurm-wlm"),
    pytest.mark.skipif(CONFIG.exists() and not CONFIG.is_symlink(), reason=f"{CONFIG} is there"),
    pytest.mark.skipif(importlib.util.find_spec(PLUGIN) is None, reason=f"no {PLUGIN}"),
]
SETTINGS = """\
ClusterName=study
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={home}/munge.socket
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
GresTypes=gpu
MinJobAge=7200
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=64000 Gres=gpu:2
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
STEPS = "study: {steps: [corpus, lm, perplexity, report]}\nmodels: {gpt2: null, lstm: null}\n"
LM = "study: {steps: [corpus, lm]}\nmodels: {gpt2: null, lstm: null}\n"
# a second for each step, however fast the machine is: Slurm ends a job of one minute at most half a
# minute late, when no more than ninety of these are done
LONG = 100
SLOWLY = """\
import sys

if "train-lm" in sys.orig_argv:
    import time

    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(lambda *_: time.sleep(1.0))
"""
# the plugin's own 40 seconds before it first asks for a job
SOON = ("--slurm-init-seconds-before-status-checks", "2", "--seconds-between-status-checks", "2")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which sbatch reaches a Slurm of this machine alone."""
    home = tmp_path_factory.mktemp("slurm")
    home.chmod(0o755)
    for name in ("state", "spool"):
        (home / name).mkdir()
    (home / "munge.key").write_bytes(os.urandom(1024))
    (home / "munge.key").chmod(0o400)
    host = socket.gethostname().split(".")[0]
    settings = SETTINGS.format(home=home, host=host, ports=_free_ports(2))
    (home / "slurm.conf").write_text(settings)
    devices = (f"NodeName={host} Name=gpu File={file}\n" for file in ("/dev/zero", "/dev/full"))
    (home / "gres.conf").write_text("".join(devices))
    environment = {"PATH": f"{BIN}{os.pathsep}{PATH}"}
    CONFIG.parent.mkdir(exist_ok=True)
    for path in (CONFIG, GRES):
        path.unlink(missing_ok=True)
        path.symlink_to(home / path.name)
    munged = ["munged", "--foreground", "--force", "--num-threads=2"]
    munged += [f"--key-file={home}/munge.key", f"--socket={home}/munge.socket"]
    munged += [f"--pid-file={home}/munge.pid", f"--seed-file={home}/munge.seed"]
    munged += [f"--log-file={home}/munge.log"]
    running: list[subprocess.Popen[bytes]] = []
    try:
        for command in (munged, ["slurmctld", "-D"], ["slurmd", "-D", "-N", host]):
            with (home / f"{command[0]}.out").open("wb") as out:
                running.append(
                    subprocess.Popen(
                        command, env=os.environ | environment, stdout=out, stderr=out, cwd=home
                    )
                )
            if command is munged:
                _wait(lambda: (home / "munge.socket").exists(), home)
        _wait(lambda: "idle" in _ask(environment, "sinfo", "--noheader"), home)
        yield environment
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(60)
        for path in (CONFIG, GRES):
            path.unlink()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _wait(ready: Any, home: Path) -> None:
    end = time.monotonic() + 120
    while not ready():
        said = "".join(path.read_text()[-2000:] for path in home.glob("*.out"))
        assert time.monotonic() < end, said
        time.sleep(0.5)


def _ask(environment: dict[str, str], *command: str) -> str:
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    return done.stdout


def list_jobs(environment: dict[str, str]) -> list[dict[str, str]]:
    """Slurm's own record of all jobs of this cluster, in the order of their ids."""
    blocks = _ask(environment, "scontrol", "show", "jobs", "--oneliner").splitlines()
    jobs = [dict(re.findall(r"(\w+)=(\S*)", block)) for block in blocks]
    return sorted((job for job in jobs if "JobId" in job), key=lambda job: int(job["JobId"]))


def submit(folder: Path, environment: dict[str, str], *arguments: str, first: str = "") -> str:
    """`snakemake --workflow-profile profiles/slurm` on the study; Python imports from ``first``."""
    command = ["snakemake", "--snakefile", str(ROOT / "Snakefile"), *arguments, *SOON]
    command += ["--workflow-profile", str(ROOT / "profiles/slurm")]
    given = (first, str(ROOT / "src"), os.environ.get("PYTHONPATH"))
    paths = os.pathsep.join(path for path in given if path)
    return run(*command, folder=folder, **environment | {"PYTHONPATH": paths})


def test_a_study_runs_on_a_cluster(cluster: dict[str, str], tmp_path: Path) -> None:
    """With the bytes of a run on this machine; what a model needs a GPU for gets one; the short
    rules before a training are one job.
    """
    folder, here = tmp_path / "cluster", tmp_path / "here"
    for each in (folder, here):
        each.mkdir()
        make_study(each, STEPS)
    submit(folder, cluster)
    snakemake(here, "--quiet", "rules")
    assert dict(committed(folder)) == dict(committed(here))
    jobs = list_jobs(cluster)
    assert {job["JobState"] for job in jobs} == {"COMPLETED"}
    trained = [job for job in jobs if "train_lm" in job["Comment"]]
    assert [job["TimeLimit"] for job in trained] == ["1-00:00:00"]
    assert all("mem=32000M" in job["TRES"] and job["TresPerJob"] == "gres:gpu:1" for job in trained)
    for first, last in (("download_corpus", "align_corpus"), ("collect_measures", "build_report")):
        [short] = [job for job in jobs if first in job["Comment"]]
        assert last in short["Comment"]
        assert "gres" not in short.get("TresPerJob", "")


def test_several_gpus_train_one_model(cluster: dict[str, str], tmp_path: Path) -> None:
    """By as many processes as the job was given GPUs, here over gloo."""
    make_study(tmp_path, LM)
    before = len(list_jobs(cluster))
    submit(tmp_path, cluster, "--set-resources", "train_lm:gpu=2")
    [trained] = [job for job in list_jobs(cluster)[before:] if "train_lm" in job["Comment"]]
    assert trained["JobState"] == "COMPLETED"
    assert trained["TresPerJob"] == "gres:gpu:2"
    assert "mem=32000M" in trained["TRES"]
    timing = json.loads((tmp_path / "results/lm/gpt2e/1/timing.json").read_text())
    assert timing["processes"] == 2


def make_long_study(folder: Path, steps: int) -> None:
    folder.mkdir()
    make_study(folder, LM)
    values = yaml.safe_load((folder / "params.yaml").read_text())
    values["lm"] |= {"steps": steps, "validate_every": steps}
    (folder / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))


def test_a_training_that_its_limit_ends_goes_on_at_the_next_attempt(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    """A value of --set-resources displaces no other of the rule; the weights are those of a
    training that nothing has stopped.
    """
    wanted = [f"results/lm/gpt2e/1/{name}" for name in ("model.safetensors", "metrics.json")]
    here, folder = tmp_path / "here", tmp_path / "cluster"
    for each in (here, folder):
        make_long_study(each, LONG)
    snakemake(here, *wanted, "--quiet", "rules")
    slowly = tmp_path / "slowly"
    slowly.mkdir()
    (slowly / "sitecustomize.py").write_text(SLOWLY)
    before = len(list_jobs(cluster))
    submit(folder, cluster, *wanted, "--set-resources", "train_lm:runtime=1", first=str(slowly))
    *stopped, last = [job for job in list_jobs(cluster)[before:] if "train_lm" in job["Comment"]]
    assert stopped
    assert {job["JobState"] for job in stopped} == {"TIMEOUT"}
    assert last["JobState"] == "COMPLETED"
    assert last["TimeLimit"] == "00:01:00"
    assert "mem=32000M" in last["TRES"]
    logs = folder / ".snakemake/slurm_logs/rule_train_lm/gpt2e_1"
    said = [(logs / f"{job['JobId']}.log").read_text() for job in stopped]
    said.append((folder / "logs/lm/train_lm/gpt2e/1.log").read_text())
    saved = re.search(rf"saved at step (\d+) of {LONG}", said[0])
    assert saved
    assert f"going on from step {saved[1]}\n" in said[1]
    for name in wanted:
        assert (folder / name).read_bytes() == (here / name).read_bytes()
