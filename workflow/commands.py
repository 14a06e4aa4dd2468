"""The commands of a study that have still to run, as a bash script, for a machine without
Snakemake.

What `snakemake --dry-run --printshellcmds` prints, but in an order in which it can be run, with the
folders of the logs, and ending at the first command that fails.

    python workflow/commands.py studies/ontogum-gpu > commands.sh
    PYTHONPATH=src bash commands.sh    # at the root of the repository, where the package's own
                                       requirements are installed
"""

from __future__ import annotations

import argparse
import graphlib
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIELD = re.compile(r"^ {4}(input|output|log): (.+)$", re.MULTILINE)
COMMAND = re.compile(r"^Shell command: (?!None$)(.+)$", re.MULTILINE)
HEADER = """\
#!/usr/bin/env bash
# The {count} commands of {study} that had still to run, in order; written by workflow/commands.py.
set -euo pipefail
cd {study}
export PYTHONUNBUFFERED=1
entity-transformers() {{ "${{PYTHON:-python3}}" -m entity_transformers "$@"; }}
mkdir -p {folders}
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


def write_script(study: str, jobs: list[Job]) -> str:
    """The jobs as a script that is run at the root of the repository."""
    folders = sorted({str(Path(log).parent) for job in jobs for log in job.logs} or {"logs"})
    header = HEADER.format(
        count=len(jobs), study=shlex.quote(study), folders=" ".join(map(shlex.quote, folders))
    )
    return header + "".join(f"{job.command}\n" for job in jobs)


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
    snakemake = [
        str(Path(sys.executable).parent / "snakemake"),
        "--directory",
        options.study,
        "--dry-run",
        "--printshellcmds",
    ]
    done = subprocess.run(
        [*snakemake, "--", *options.targets], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"snakemake --dry-run failed on {options.study}:\n{done.stdout}{done.stderr}")
    print(write_script(options.study, sort_jobs(read_jobs(done.stdout))), end="")


if __name__ == "__main__":
    main()
