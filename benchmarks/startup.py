"""Seconds of CPU before any work is done: importing the package, its command line, parsing the
Snakefile, and a study in which nothing is left to do.

Every command is a process of its own, children included, and all take turns. What a tool takes by
itself stands beside it: bare Python, and the tools' ``--version``.

    python benchmarks/startup.py --study studies/sample    # a finished one, also for DVC
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from common import ROOT, Column, Report, interleave, make_parser, ratios

BIN = Path(sys.executable).parent
COLUMNS = {
    "cpu": Column("CPU time", "s"),
    "wall": Column("time", "s"),
    "ratio": Column("CPU time, ratio", "ratio"),
}
PYTHON, SNAKEMAKE, DVC = "python -c pass", "snakemake --version", "dvc --version"
Command = list[str]


def list_commands() -> dict[str, Command]:
    """What needs no study."""
    return {
        PYTHON: [sys.executable, "-c", "pass"],
        "python -c 'import entity_transformers'": [
            sys.executable, "-c", "import entity_transformers",
        ],
        "entity-transformers --help": [str(BIN / "entity-transformers"), "--help"],
    }  # fmt: skip


def list_study_commands() -> dict[str, Command]:
    """What is run in the folder of a finished study."""
    snakemake = [str(BIN / "snakemake"), "--snakefile", str(ROOT / "Snakefile")]
    return {
        SNAKEMAKE: [*snakemake, "--version"],
        "snakemake --list-rules": [*snakemake, "--list-rules"],
        "snakemake -n": [*snakemake, "-n"],
        "snakemake": [*snakemake, "--cores", "1"],
        DVC: [str(BIN / "dvc"), "--version"],
        "dvc repro": [str(BIN / "dvc"), "repro", "dvc.yaml"],
        "dvc repro --single-item": [str(BIN / "dvc"), "repro", "--single-item", "dvc.yaml"],
    }


# what a row is compared with, and seconds of CPU that it may take
PEERS = {
    "python -c 'import entity_transformers'": (PYTHON, None),
    "entity-transformers --help": (PYTHON, None),
    "snakemake --list-rules": (SNAKEMAKE, 1.0),
    "snakemake -n": (SNAKEMAKE, None),
    "snakemake": (SNAKEMAKE, 2.0),
    "dvc repro": (DVC, 2.0),  # reads the stages of every study of its DVC repository
    "dvc repro --single-item": (DVC, 2.0),
}


def find_unfinished(study: Path) -> str | None:
    """Why the study's commands cannot be measured: a sentence, or None where nothing is left to do.

    Nothing is run that could start a step.
    """
    commands = list_study_commands()
    planned = run(commands["snakemake -n"], study)
    if planned.returncode or "Nothing to be done" not in planned.stdout + planned.stderr:
        last = (planned.stdout + planned.stderr).strip().splitlines()[-1:]
        return f"snakemake has something to do in {study} ({''.join(last)}): run it there first"
    if run([commands[DVC][0], "status", "--quiet", "dvc.yaml"], study).returncode:
        return f"dvc has something to do in {study}: run `dvc repro` there first"
    return None


def run(command: Command, folder: Path, check: bool = False) -> subprocess.CompletedProcess[str]:
    """The command, in a folder, to its end; ``check``: one that fails raises CalledProcessError."""
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=check)


def count_children() -> float:
    """Seconds of CPU of all processes that were waited for, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = make_parser(__doc__, __file__, rounds=5)
    parser.add_argument("--study", type=Path, help="folder of a finished study")
    options = parser.parse_args(arguments)
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    # else each command compiles what it imports anew: the set-up leaves that to the first use
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    commands, folder = list_commands(), ROOT
    missing: str | None = "no --study is given"
    if options.study is not None:
        folder = options.study.resolve()
        missing = find_unfinished(folder)
        commands |= {} if missing else list_study_commands()
    report = Report(__doc__, COLUMNS, options, packages=("torch", "snakemake", "dvc"))
    sides = {name: partial(run, command, folder, True) for name, command in commands.items()}
    times = interleave(sides, options.rounds, cpu_clock=count_children)
    for name, seconds in times.items():
        peer, target = PEERS.get(name, (None, None))
        ratio = {"ratio": ratios(seconds.cpu, times[peer].cpu)} if peer else {}
        report.row(name, cpu=seconds.cpu, wall=seconds.wall, **ratio, ratio_of=peer, at_most=target)
    if missing:
        print(f"snakemake and dvc are left out: {missing}")
    report.write()


if __name__ == "__main__":
    main()
