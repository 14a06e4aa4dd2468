"""The commands of a study that have still to run, as a bash script, for a machine without
Snakemake.

What `snakemake --dry-run --printshellcmds` prints, but in an order in which it can be run, with the
folders of the logs, and ending at the first command that fails.

    python workflow/commands.py studies/ontogum-gpu > commands.sh
    bash commands.sh    # at the root of the repository, where the package's requirements are there
"""

from __future__ import annotations

import argparse
import graphlib
import itertools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIELD = re.compile(r"^ {4}(input|output|log): (.+)$", re.MULTILINE)
COMMAND = re.compile(r"^Shell command: (?!None$)(.+)$", re.MULTILINE)
OTHER = re.compile(r"snakemake --snakefile \S+ --directory (\S+) .* -- (.+?) 2>&1")
"""A study that this one starts from (workflow/rules/studies.smk)."""
HEADER = """\
#!/usr/bin/env bash
# The {count} commands of {study} that had still to run, in order; written by workflow/commands.py.
set -euo pipefail
export PYTHONUNBUFFERED=1 PYTHONPATH="$PWD/src${{PYTHONPATH:+:$PYTHONPATH}}"
entity-transformers() {{ "${{PYTHON:-python3}}" -m entity_transformers "$@"; }}
"""


@dataclass(frozen=True)
class Job:
    """A command with the files that it reads and writes, as Snakemake names them."""

    command: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    logs: tuple[str, ...]


def read_jobs(dry_run: str) -> list[Job]:
    """The jobs with a shell command in what a dry run printed."""
    jobs = []
    for block in re.split(r"\n\n(?=\[)", dry_run):
        command = COMMAND.search(block)
        if command:
            files = {name: tuple(value.split(", ")) for name, value in FIELD.findall(block)}
            jobs.append(
                Job(command[1], *(files.get(name, ()) for name in ("input", "output", "log")))
            )
    return jobs


def sort_jobs(jobs: list[Job]) -> list[Job]:
    """Each job after those that write what it reads."""
    writer = {file: job for job in jobs for file in job.outputs}
    needs = {job: [writer[file] for file in job.inputs if file in writer] for job in jobs}
    return list(graphlib.TopologicalSorter(needs).static_order())


def list_jobs(study: Path, targets: Sequence[str], root: Path = ROOT) -> list[tuple[Path, Job]]:
    """The jobs in order with the studies that they belong to, those of a study that this one starts
    from first; studies are relative to the root of the repository.
    """
    first, own = [], []
    for job in sort_jobs(read_jobs(dry_run(study, targets, root))):
        if other := OTHER.search(job.command):
            home = Path(os.path.normpath(study / other[1]))
            first += list_jobs(home, shlex.split(other[2]), root)
        else:
            own.append((study, job))
    return first + own


def write_commands(jobs: Sequence[tuple[Path, Job]]) -> list[str]:
    """The jobs as lines of a script that is run at the root of the repository."""
    lines = []
    for study, group in itertools.groupby(jobs, key=lambda pair: pair[0]):
        own = [job for _, job in group]
        logs = sorted({str(Path(log).parent) for job in own for log in job.logs} or {"logs"})
        lines += [f"cd {shlex.quote(str(study))}", f"mkdir -p {' '.join(map(shlex.quote, logs))}"]
        lines += [*(job.command for job in own), 'cd "$OLDPWD"']
    return lines


def dry_run(study: Path, targets: Sequence[str], root: Path = ROOT) -> str:
    """What Snakemake says that it would run."""
    snakemake = [
        str(Path(sys.executable).parent / "snakemake"),
        "--directory",
        str(study),
        "--dry-run",
        "--printshellcmds",
    ]
    done = subprocess.run(
        [*snakemake, "--", *targets], cwd=root, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"snakemake --dry-run failed on {study}:\n{done.stdout}{done.stderr}")
    return done.stdout


def write_script(study: str, commands: Sequence[str]) -> str:
    """The commands as a script that is run at the root of the repository."""
    count = sum(line.startswith("entity-transformers ") for line in commands)
    return HEADER.format(count=count, study=shlex.quote(study)) + "\n".join([*commands, ""])


def main() -> None:
    """Print the script of the study on the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", help="a study's folder, relative to the root of the repository")
    parser.add_argument(
        "targets",
        nargs="*",
        help="files or rules to make, as Snakemake takes them; left out: the report",
    )
    options = parser.parse_args()
    commands = write_commands(list_jobs(Path(options.study), options.targets))
    print(write_script(options.study, commands), end="")


if __name__ == "__main__":
    main()
