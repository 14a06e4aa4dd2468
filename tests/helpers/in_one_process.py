"""Runs the commands of a script of workflow/commands.py in one process, for a study of many models
whose jobs take less time than their imports.

    python tests/helpers/in_one_process.py commands.sh
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

from entity_transformers.cli import main

COMMAND = re.compile(r"entity-transformers (.+?)(?: 2>&1 \| tee .+)?")


def run_script(script: str) -> int:
    """Run each command in the order of the script, in its study's folder, and how many they were;
    SystemExit as of the first that fails, ValueError for a line that is none.
    """
    _, _, rest = script.partition("\ncd ")
    folder, _, rest = rest.partition("\n")
    os.chdir(shlex.split(folder)[0])
    lines = [line for line in rest.splitlines() if not line.startswith(("mkdir ", 'cd "$OLDPWD"'))]
    for line in lines:
        found = COMMAND.fullmatch(line)
        if found is None:
            raise ValueError(f"no command of a study: {line}")
        print(line, flush=True)
        main(shlex.split(found[1]))
    return len(lines)


if __name__ == "__main__":
    print(run_script(Path(sys.argv[1]).read_text()), "commands done")
