"""Runs a command; each `entity-transformers` that it starts is a fork of this process, which has
imported what takes a short job four of its five seconds. `make study` runs Snakemake so:

    python workflow/forks.py snakemake --cores 2

A fork has the arguments, folder, environment, path of modules, files and umask of the process that
asked for it, which hands its signals on and ends as it does (entity_transformers/__main__.py). The
package itself is imported by each fork anew. Elsewhere than on Linux nothing is forked, since other
systems' libraries do not take it.
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
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any

ADDRESS = "ENTITY_TRANSFORMERS_FORKS"
SLOW = (  # what is missing here costs time and nothing else
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
    sys.argv[:] = asked["arguments"]
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    os.umask(asked["umask"])
    time.tzset()
    try:
        importlib.import_module("entity_transformers.cli").main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def serve_one(connection: socket.socket) -> None:
    """Start what a client asks for, tell it the process, and then how that ended. A client that is
    killed takes its process with it.
    """
    head, files, _, _ = socket.recv_fds(connection, 8, 3)
    with connection.makefile("rb") as sent:
        asked = json.loads(sent.read(int.from_bytes(head, "big")))
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setpgid(0, 0)  # its client hands signals on: it gets each once
        for number, file in enumerate(files):
            os.dup2(file, number)
        for file in (*files, connection.detach()):
            os.close(file)
        # the server's own may have been a file where this is a pipe, in which nobody can seek
        how = {"encoding": sys.stdout.encoding, "errors": sys.stdout.errors}
        sys.stdout = os.fdopen(1, "w", 1, closefd=False, **how)
        status = 1
        try:
            status = run_command(asked)
            sys.stdout.flush()
        finally:
            os._exit(status)
    connection.sendall(f"{child}\n".encode())

    def watch() -> None:
        with contextlib.suppress(ConnectionError):  # it ended before it read what it was told
            if connection.recv(1):
                return
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(OSError):
        connection.sendall(f"{status}\n".encode())


def serve(server: socket.socket, ended: int) -> None:
    """Serve clients, each in a fork that waits for its command, until ``ended`` can be read."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever waits for the clients ends them
    for name in SLOW:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those forks
    while ended not in select.select([server, ended], [], [])[0]:
        connection, _ = server.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            server.close()
            serve_one(connection)
            os._exit(0)
        connection.close()


def run_with_forks(command: list[str]) -> int:
    """Run the command beside a server for what it starts; its exit status."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the command line does
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        address = str(Path(folder) / "socket")
        server.bind(address)
        server.listen(64)  # who comes before all is imported waits
        ended, end = os.pipe()
        if os.fork() == 0:
            os.close(end)
            serve(server, ended)
            os._exit(0)
        server.close()  # it is the server's alone: without that one nobody waits for an answer
        process = subprocess.Popen(command, env=os.environ | {ADDRESS: address})
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: process.send_signal(number))
        signal.signal(signal.SIGINT, lambda *_: None)  # the terminal's reaches the command too
        status = process.wait()
        os.close(end)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    if sys.platform != "linux":
        os.execvp(sys.argv[1], sys.argv[1:])
    sys.exit(run_with_forks(sys.argv[1:]))
