"""A folder behind HTTP on loopback, as DVC's http remote wants it: GET and HEAD for all, PUT and
POST with a password.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, *given: Any, secret: str, **named: Any) -> None:
        self.secret = f"Basic {base64.b64encode(secret.encode()).decode()}"
        super().__init__(*given, **named)

    def do_PUT(self) -> None:
        body = self._read_body()
        if self.headers.get("Authorization") != self.secret:
            self._answer(401)
            return
        path = Path(self.translate_path(self.path))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        self._answer(201)

    do_POST = do_PUT  # noqa: N815

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _answer(self, code: int) -> None:
        self.send_response(code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *given: Any) -> None:
        """Nothing."""


@contextmanager
def serve(folder: Path, secret: str) -> Iterator[str]:
    """The address that serves ``folder`` while the block runs; ``secret``: USER:PASSWORD."""
    handler = partial(_Handler, secret=secret, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
