"""Before a release: the sdist and the wheel are built and checked, and the wheel alone is tried in
an empty environment of each Python: what came with it, README's Python, `--version` and `demo`
(.ci/installed.py).

    python workflow/release.py python3.11 python3.12 python3.13  # needs build, twine, pip's index
    python workflow/release.py python3.12 --requirements FOLDER    # without an index: their folder
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def build(output: Path, isolated: bool) -> Path:
    """The wheel; CalledProcessError where it can't be built, or twine finds something amiss."""
    how = [] if isolated else ["--no-isolation"]
    run(sys.executable, "-m", "build", *how, "--outdir", str(output), str(ROOT))
    run(sys.executable, "-m", "twine", "check", "--strict", *map(str, sorted(output.iterdir())))
    (wheel,) = output.glob("*.whl")
    return wheel


def try_wheel(wheel: Path, python: str, requirements: Path | None, folder: Path) -> None:
    """Install it in an environment of its own, with its requirements or beside a folder of them,
    and run .ci/installed.py there.
    """
    run(python, "-m", "venv", str(folder))
    inside = str(folder / "bin" / "python")
    if requirements is not None:
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "requirements.pth").write_text(f"{requirements.resolve()}\n")
    alone = ["--no-deps"] if requirements is not None else []
    bare = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    run(inside, "-m", "pip", "install", "--quiet", *alone, str(wheel), env=bare)
    run(inside, str(ROOT / ".ci" / "installed.py"), cwd=folder, env=bare)


def run(*command: str, **how: Any) -> None:
    """A command, with what subprocess.run takes; CalledProcessError where it fails."""
    print("+", *command, flush=True)
    subprocess.run(command, check=True, **how)


def main() -> None:
    """Each Python in its turn; the first error ends it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("python", nargs="+", help="an interpreter, as python3.11")
    parser.add_argument(
        "--requirements", type=Path, help="a folder that holds the installed requirements"
    )
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        wheel = build(Path(made, "dist"), isolated=asked.requirements is None)
        for number, python in enumerate(asked.python):
            try_wheel(wheel, python, asked.requirements, Path(made, str(number)))
    print(f"{wheel.name}: tried with {', '.join(asked.python)}")


if __name__ == "__main__":
    main()
