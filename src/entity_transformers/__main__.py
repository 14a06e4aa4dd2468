"""``python -m entity_transformers``, and ``entity-transformers``: the command line."""

import contextlib
import json
import os
import select
import signal
import socket
import sys
import threading
from pathlib import Path

STARTERS = "ENTITY_TRANSFORMERS_STARTERS"
"""Environment variable with the ids of the processes that started a command, space-separated."""


def main() -> None:
    """Run a command, in a fork of `workflow/forks.py` if its server runs above this process. The
    command ends as soon as one of the processes in `STARTERS` has ended.
    """
    for starter in os.environ.get(STARTERS, "").split():
        end_with(int(starter))
    if address := os.environ.get("ENTITY_TRANSFORMERS_FORKS"):
        with socket.socket(socket.AF_UNIX) as server:
            try:
                server.connect(address)
            except OSError:  # the server has ended
                pass
            else:
                with contextlib.suppress(ConnectionError):  # it ended before the command began
                    _hand_over(server)
    from entity_transformers import cli

    cli.main()


def end_with(process: int) -> None:
    """End this process with SIGTERM once ``process`` has ended, however it ended (Linux only).
    Otherwise what a killed Snakemake had started would go on, and write alongside the next run.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # the process is not visible from this container
            handle = os.pidfd_open(process)
            threading.Thread(target=_wait_and_end, args=[handle], daemon=True).start()


def _wait_and_end(handle: int) -> None:
    select.select([handle], [], [])
    os.kill(os.getpid(), signal.SIGTERM)


def _hand_over(server: socket.socket) -> None:
    """Have the server run this process's command, and exit with the command's status."""
    os.umask(umask := os.umask(0))
    asked = {
        "arguments": sys.argv,
        "folder": str(Path.cwd()),
        "path": sys.path,
        "environment": dict(os.environ),
        "umask": umask,
    }
    message = json.dumps(asked).encode()
    socket.send_fds(server, [len(message).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(message)
    answers = server.makefile()
    if not (answer := answers.readline()):
        raise ConnectionError
    child = int(answer)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(child, number))
    if not (answer := answers.readline()):  # the server process waiting for it was killed
        os.kill(child, signal.SIGKILL)
    status = int(answer or 1)
    if status < 0:  # a signal ended the command: end this process by it as well
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


if __name__ == "__main__":
    main()
