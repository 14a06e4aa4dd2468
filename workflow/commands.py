"""The commands of a study that have still to run, as a bash script, for a machine without
Snakemake: what a dry run prints, in an order in which it can be run, ending at the first that
fails.

    python workflow/commands.py studies/ontogum.yaml > commands.sh
    bash commands.sh    # at the top of a checkout, where the package's requirements are installed
"""

from __future__ import annotations

import argparse
import graphlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIELD = re.compile(r"^ {4}(input|output|log): (.+)$", re.MULTILINE)
COMMAND = re.compile(r"^Shell command: (?!None$)(.+)$", re.MULTILINE)
HEADER = """\
#!/usr/bin/env bash
# The {count} commands of {study} that had still to run, in order; written by workflow/commands.py.
set -euo pipefail
export PYTHONUNBUFFERED=1 PYTHONPATH="$PWD/src${{PYTHONPATH:+:$PYTHONPATH}}"
entity-transformers() {{ "${{PYTHON:-python3}}" -m entity_transformers "$@"; }}
mkdir -p {folders}
"""
Job = dict[str, list[str]]
"""The files that a command reads, writes and logs to, as Snakemake names them."""


def read_jobs(dry_run: str) -> dict[str, Job]:
    """The jobs with a shell command in what a dry run printed, by their command."""
    jobs = {}
    for block in re.split(r"\n\n(?=\[)", dry_run):
        if command := COMMAND.search(block):
            files = {name: value.split(", ") for name, value in FIELD.findall(block)}
            jobs[command[1]] = {name: files.get(name, []) for name in ("input", "output", "log")}
    return jobs


def sort_commands(jobs: dict[str, Job]) -> list[str]:
    """Each command after those that write what it reads."""
    writer = {file: command for command, job in jobs.items() for file in job["output"]}
    needs = {
        command: [writer[file] for file in job["input"] if file in writer]
        for command, job in jobs.items()
    }
    return list(graphlib.TopologicalSorter(needs).static_order())


def write_script(study: str, *targets: str) -> str:
    """The script of a study; of what Snakemake has to say when it fails, SystemExit."""
    which = [] if study == "params.yaml" else ["--configfile", study]
    snakemake = [str(Path(sys.executable).parent / "snakemake"), *which]
    command = [*snakemake, "--dry-run", "--printshellcmds", "--", *targets]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"snakemake --dry-run failed on {study}:\n{done.stdout}{done.stderr}")
    jobs = read_jobs(done.stdout)
    logs = {str(Path(log).parent) for job in jobs.values() for log in job["log"]} or {"logs"}
    folders = " ".join(map(shlex.quote, sorted(logs)))
    header = HEADER.format(count=len(jobs), study=shlex.quote(study), folders=folders)
    return header + "\n".join([*sort_commands(jobs), ""])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("study", help="its file, as in studies/sample.yaml")
    parser.add_argument("targets", nargs="*", help="files or rules to make (default: the report)")
    options = parser.parse_args()
    print(write_script(options.study, *options.targets), end="")
