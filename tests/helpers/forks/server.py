"""Run as a program: commands of `entity-transformers`, each in a fork of this process, which has
imported what takes a command four of its five seconds. The package itself is imported anew in each.

    python tests/helpers/forks/server.py SOCKET

Prints a line once it listens. Ends with its standard input.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from typing import Any

SLOW = (  # what is missing here costs time and nothing else
    "accelerate",
    "matplotlib.pyplot",
    "pydantic",
    "scipy.optimize",
    "scipy.stats",
    "seqeval.metrics",
    "sklearn.linear_model",
    "tokenizers",
    "torch._inductor.config",
    "torch.utils.checkpoint",
    "transformers.loss.loss_utils",
    "transformers.models.gpt2.modeling_gpt2",
    "yaml",
)


def run_command(asked: dict[str, Any]) -> int:
    """What a process of its own would do; its exit status."""
    sys.path[:] = asked["path"]
    sys.argv = ["entity-transformers", *asked["arguments"]]
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    os.umask(asked["umask"])
    time.tzset()
    from entity_transformers.cli import main

    try:
        main()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def serve_one(connection: socket.socket) -> None:
    """Run what a client asks for, tell it the process and then how that ended."""
    head, files, _, _ = socket.recv_fds(connection, 8, 3)
    message = connection.makefile("rb").read(int.from_bytes(head))
    child = os.fork()
    if child == 0:
        for number, file in enumerate(files):
            os.dup2(file, number)
        connection.close()
        status = 1
        try:
            status = run_command(json.loads(message))
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError):
                    stream.flush()
            os._exit(status)
    for file in files:
        os.close(file)
    connection.sendall(f"{child}\n".encode())
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(OSError):
        connection.sendall(f"{status}\n".encode())


def main(address: str) -> None:
    for name in SLOW:
        importlib.import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(address)
        server.listen(16)
        print("listening", flush=True)
        while server in select.select([server, sys.stdin], [], [])[0]:
            connection, _ = server.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                server.close()
                serve_one(connection)
                os._exit(0)
            connection.close()


if __name__ == "__main__":
    main(sys.argv[1])
