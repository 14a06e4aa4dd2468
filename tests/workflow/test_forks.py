"""workflow/forks.py: a forked command does what a process of its own does."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from checkout import BIN, LIMIT, ROOT, run, wait_for

SERVE = f"""\
import sys
sys.path.insert(0, {str(ROOT / "workflow")!r})
import forks
forks.SLOW = ()
sys.exit(forks.run_with_forks(sys.argv[1:]))
"""
FORKS = [sys.executable, "-c", SERVE]
"""workflow/forks.py, without the seconds of imports that change nothing here."""
pytestmark = pytest.mark.slow
COMMAND = str(BIN / "entity-transformers")
SOURCE = os.environ | {"PYTHONPATH": str(ROOT / "src")}
SLEEPS = """\
import os, sys, time
from pathlib import Path
def main():
    Path("begun").write_text(f"{os.getpid()} {os.getcwd()} {sys.argv[1:]} {os.environ.get('MORE')}")
    try:
        time.sleep({LIMIT})
    except KeyboardInterrupt:
        print("stopped")
        sys.exit(75)
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder for PYTHONPATH, in which the package's command line only sleeps."""
    home = tmp_path / "path/entity_transformers"
    (home / "cli").mkdir(parents=True)
    (home / "__init__.py").touch()
    source = (ROOT / "src/entity_transformers/__main__.py").read_text()
    (home / "__main__.py").write_text(source)
    (home / "cli/__init__.py").write_text(SLEEPS.replace("{LIMIT}", str(LIMIT)))
    return home.parent


def read_begun(folder: Path) -> str:
    """What the command has written, if it has."""
    return "".join(path.read_text() for path in folder.glob("begun"))


@dataclass
class Running:
    """A command that sleeps: what started it, its process and its fork."""

    outer: subprocess.Popen[str]
    client: psutil.Process
    fork: psutil.Process

    def is_gone(self) -> bool:
        psutil.wait_procs([self.fork], LIMIT)
        return not self.fork.is_running()


@pytest.fixture
def running(package: Path, tmp_path: Path) -> Iterator[Running]:
    env = os.environ | {"PYTHONPATH": str(package), "MORE": "yes"}
    process = subprocess.Popen([*FORKS, COMMAND, "a b", "--c"], cwd=tmp_path, env=env, text=True,
        stdout=subprocess.PIPE, start_new_session=True,
        # a shell's background job ignores SIGINT, and what it starts does too
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # fmt: skip
    try:
        number, told = wait_for(lambda: read_begun(tmp_path), process).split(" ", 1)
        assert told == f"{tmp_path} ['a b', '--c'] yes"
        others = psutil.Process(process.pid).children()
        (client,) = (one for one in others if SERVE not in one.cmdline())
        yield Running(process, client, psutil.Process(int(number)))
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_ctrl_c_reaches_a_command_once(running: Running) -> None:
    """The whole group gets it, as from a terminal."""
    assert running.client.pid != running.fork.pid
    os.killpg(running.outer.pid, signal.SIGINT)
    assert running.outer.communicate(timeout=LIMIT)[0] == "stopped\n"
    assert running.outer.returncode == 75
    assert running.is_gone()


@pytest.mark.parametrize("side", ["client", "fork"])
def test_a_killed_command_and_its_fork_end_together(running: Running, side: str) -> None:
    getattr(running, side).kill()
    assert running.outer.wait(LIMIT) == 128 + signal.SIGKILL
    assert running.is_gone()


@pytest.mark.parametrize("words", [["--version"], ["show-verdicts", "--model", "x"], ["none"]])
def test_it_prints_and_ends_as_a_process_of_its_own(words, tmp_path):
    found = set()
    for server in ([], FORKS):
        how = {"cwd": tmp_path, "env": SOURCE, "capture_output": True, "timeout": LIMIT}
        done = subprocess.run([*server, COMMAND, *words], check=False, **how)
        found.add((done.returncode, done.stdout, done.stderr))
    assert len(found) == 1


def test_a_command_writes_to_a_pipe_where_the_server_wrote_to_a_file(tmp_path: Path) -> None:
    piped = f"set -o pipefail; {COMMAND} steps | cat"
    how = {"cwd": ROOT, "env": SOURCE, "stderr": subprocess.PIPE, "timeout": LIMIT}
    with (tmp_path / "out").open("w") as file:
        done = subprocess.run([*FORKS, "bash", "-c", piped], stdout=file, check=False, **how)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "perplexity" in (tmp_path / "out").read_text()


def test_a_server_that_is_killed_is_done_without(tmp_path: Path) -> None:
    """Its socket is nobody's then, where a command would wait for an answer."""
    waits = ["sh", "-c", f"echo begun; read line; exec '{COMMAND}' --version"]
    how = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": tmp_path}
    with subprocess.Popen([*FORKS, *waits], env=SOURCE, **how) as process:
        assert process.stdout.readline() == "begun\n"
        [server] = (one for one in psutil.Process(process.pid).children() if SERVE in one.cmdline())
        server.kill()
        said, _ = process.communicate("go\n", timeout=LIMIT)
    assert said.startswith("entity-transformers ")
    assert process.returncode == 0


def test_a_command_whose_waiter_is_killed_ends(running: Running) -> None:
    """The fork of the server that would tell how it ended."""
    running.fork.parent().kill()
    assert running.outer.wait(LIMIT) == 1
    assert running.is_gone()


@pytest.mark.parametrize("forked", [True, False])
def test_a_command_ends_with_what_started_it(package: Path, tmp_path: Path, forked: bool) -> None:
    """As a Snakemake that is killed, whose shell between them lives on."""
    with subprocess.Popen(["sleep", str(LIMIT)]) as starter:
        more = {"PYTHONPATH": str(package), "ENTITY_TRANSFORMERS_STARTERS": f"1 {starter.pid}"}
        command = [*(FORKS if forked else []), COMMAND]
        with subprocess.Popen(command, cwd=tmp_path, env=os.environ | more) as process:
            number = int(wait_for(lambda: read_begun(tmp_path), process).split()[0])
            assert process.poll() is None
            starter.kill()
            assert process.wait(LIMIT) == (128 + signal.SIGTERM if forked else -signal.SIGTERM)
        psutil.wait_procs([psutil.Process(number)] if psutil.pid_exists(number) else [], LIMIT)
        assert not psutil.pid_exists(number)


def test_without_its_server_a_command_runs_by_itself(tmp_path: Path) -> None:
    address = {"ENTITY_TRANSFORMERS_FORKS": str(tmp_path / "gone")}
    assert "entity-transformers" in run(COMMAND, "--version", folder=tmp_path, **address)
