"""On PYTHONPATH of a test's commands: `entity-transformers` asks the server of server.py for a
process that has imported what is slow to import, and ends as that one does.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def hand_over(address: str) -> None:
    import json
    import signal
    import socket

    mask = os.umask(0)
    os.umask(mask)
    asked = {
        "arguments": sys.argv[1:],
        "folder": str(Path.cwd()),
        "path": [place for place in sys.path if Path(place) != Path(__file__).parent],
        "environment": dict(os.environ),
        "umask": mask,
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.connect(address)
        message = json.dumps(asked).encode()
        socket.send_fds(server, [len(message).to_bytes(8)], [0, 1, 2])
        server.sendall(message)
        answers = server.makefile()
        process = int(answers.readline())
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: os.kill(process, number))
        status = int(answers.readline() or 1)
    if status < 0:  # a signal ended it
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


if os.environ.get("FORKS") and Path(sys.argv[0]).name == "entity-transformers":
    hand_over(os.environ["FORKS"])
