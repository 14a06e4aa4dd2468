"""Snakemake and DVC in forks of a process that has imported them, which takes two seconds."""

import atexit
import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired
from tempfile import TemporaryDirectory

TOOLS = {"snakemake": "snakemake.cli", "dvc": "dvc.cli"}
"""The module of each tool whose `main` its script runs."""
LATER = """\
snakemake.report.html_reporter smart_open requests dvc.cli.parser dvc.repo.experiments
dvc.repo.index dulwich.worktree networkx pygit2 ruamel.yaml
"""
"""What they import only when they run; what is missing here costs time and nothing else."""
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([*TOOLS.values(), *LATER.split()])


def run_tool(
    command: Sequence[str], folder: Path, env: Mapping[str, str], limit: float
) -> CompletedProcess[str]:
    """What `subprocess.run` returns of a command of one of `TOOLS` that takes no input."""
    with TemporaryDirectory() as home:
        outputs = [Path(home, name) for name in ("stdout", "stderr")]
        process = FORKS.Process(target=_call, args=(command, folder, env, outputs))
        process.start()
        process.join(limit)
        if process.is_alive():
            process.kill()
            raise TimeoutExpired(command, limit)
        return CompletedProcess(command, process.exitcode, *(o.read_text() for o in outputs))


def _call(
    command: Sequence[str], folder: Path, env: Mapping[str, str], outputs: Sequence[Path]
) -> None:
    for number, path in enumerate(outputs, 1):
        with path.open("wb") as file:
            os.dup2(file.fileno(), number)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    sys.argv[:] = command
    sys.path[:0] = env["PYTHONPATH"].split(os.pathsep)
    try:
        sys.exit(import_module(TOOLS[command[0]]).main())
    finally:
        atexit._run_exitfuncs()  # which the end of a fork leaves out
