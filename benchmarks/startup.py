"""CPU seconds before any work is done: importing the package, its command line, parsing the
Snakefile, and a study in which nothing is left to do.

Every command is a process of its own, children included, and all take turns. What a tool takes by
itself stands beside it: bare Python, and the tools' ``--version``.

    python benchmarks/startup.py --finished    # the sample was made here: also snakemake and dvc
"""

from __future__ import annotations

import os
import resource
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from common import ROOT, Column, Report, interleave, make_parser, ratios

COLUMNS = {
    "cpu": Column("CPU time", "s"),
    "wall": Column("time", "s"),
    "ratio": Column("CPU time, ratio", "ratio"),
}
BIN = Path(sys.executable).parent
PYTHON, SNAKEMAKE, DVC = "python -c pass", "snakemake --version", "dvc --version"
SAMPLE = f"{BIN}/snakemake --configfile studies/sample.yaml"
# name: command, what its row is compared with, and seconds of CPU that it may take
ALWAYS = {
    PYTHON: (f"{sys.executable} -c pass", None, None),
    "import entity_transformers": (
        f"{sys.executable} -c 'import entity_transformers'",
        PYTHON,
        None,
    ),
    "entity-transformers --help": (f"{BIN}/entity-transformers --help", PYTHON, None),
    SNAKEMAKE: (f"{BIN}/snakemake --version", None, None),
    "snakemake --list-rules": (f"{SAMPLE} --list-rules", SNAKEMAKE, 1.0),
    DVC: (f"{BIN}/dvc --version", None, None),
}
FINISHED = {
    "snakemake -n": (f"{SAMPLE} -n", SNAKEMAKE, None),
    "snakemake": (f"{SAMPLE} --cores 1", SNAKEMAKE, 2.0),
    "dvc repro": (f"{BIN}/dvc repro report@sample", DVC, 2.0),
}


def run(command: str) -> str:
    """What the command prints; one that fails raises CalledProcessError."""
    done = subprocess.run(
        shlex.split(command), cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout + done.stderr


def count_children() -> float:
    """Seconds of CPU of all processes that were waited for, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__, __file__, rounds=5)
    parser.add_argument("--finished", action="store_true", help="the sample is whole here")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    # else each command compiles what it imports anew: the set-up leaves that to the first use
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    commands = ALWAYS | (FINISHED if options.finished else {})
    if options.finished and "Nothing to be done" not in run(FINISHED["snakemake -n"][0]):
        parser.error("the sample is not whole here: run snakemake on studies/sample.yaml first")
    report = Report(__doc__, COLUMNS, options, packages=("torch", "snakemake", "dvc"))
    sides = {name: partial(run, command) for name, (command, _, _) in commands.items()}
    times = interleave(sides, options.rounds, cpu_clock=count_children)
    for name, (_, peer, limit) in commands.items():
        cpu = times[name].cpu
        ratio: dict[str, Any] = {"ratio": ratios(cpu, times[peer].cpu)} if peer else {}
        wall = times[name].wall
        report.row(name, cpu=cpu, wall=wall, **ratio, ratio_of=peer, at_most=limit)
    report.write()


if __name__ == "__main__":
    main()
