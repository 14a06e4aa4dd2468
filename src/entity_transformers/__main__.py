"""``python -m entity_transformers``, and ``entity-transformers``: the command line."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from pathlib import Path


def main() -> None:
    """Run a command; in a fork of `workflow/forks.py` where this runs below it."""
    if address := os.environ.get("ENTITY_TRANSFORMERS_FORKS"):
        with socket.socket(socket.AF_UNIX) as server:
            try:
                server.connect(address)
            except OSError:  # it has ended
                pass
            else:
                _hand_over(server)
    from entity_transformers import cli

    cli.main()


def _hand_over(server: socket.socket) -> None:
    """Have the server run this process's command; ends as that does."""
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
    child = int(answers.readline())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(child, number))
    status = int(answers.readline() or 1)
    if status < 0:  # by a signal: this process ends by it as well
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


if __name__ == "__main__":
    main()
