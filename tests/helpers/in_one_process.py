"""Runs the commands of a script of workflow/commands.py in one process that reads its study once,
for a study of many models whose jobs take less time than their imports.

    python tests/helpers/in_one_process.py commands.sh
"""

import re
import shlex
import sys
from functools import cache
from pathlib import Path

from entity_transformers.cli import main
from entity_transformers.cli import run as run_command
from entity_transformers.study.params import load

COMMAND = re.compile(r"entity-transformers (run .+?) 2>&1 \| tee .+")


def run_script(script: str) -> int:
    """Run each command, and how many they were; SystemExit as of the first that fails."""
    load_once = cache(load)
    run_command.load = lambda path, overrides: load_once(path)
    found = COMMAND.findall(script)
    for command in found:
        print(command, flush=True)
        main(shlex.split(command))
    return len(found)


if __name__ == "__main__":
    print(run_script(Path(sys.argv[1]).read_text()), "commands done")
