"""A real headless Chromium, driven by the DevTools protocol through a pipe: no library, no driver
to match the browser, no port, no download. Playwright brings 45 MB and Selenium a driver that must
be of the browser's version; what the tests need of the protocol is below a hundred lines.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
KEYS = {
    "ArrowRight": 39,
    "ArrowLeft": 37,
    "End": 35,
    "Home": 36,
    "Escape": 27,
    "Tab": 9,
    "Enter": 13,
}


class Browser:
    """One page. ``problems``: console errors, exceptions and requests that left the page."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read, self._left, self._number = write, read, b"", 0
        self._session, self._url = "", ""
        self.problems: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a command; what happened meanwhile is looked through."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                found: dict[str, Any] = answer["result"]
                return found

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            more = os.read(self._read, 1 << 20)
            assert more, "the browser has ended"
            self._left += more
        text, _, self._left = self._left.partition(b"\0")
        event: dict[str, Any] = json.loads(text)
        self._note(event.get("method", ""), event.get("params", {}))
        return event

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(params["exceptionDetails"]))
        if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.problems.append(json.dumps(params["args"]))
        if method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(params["entry"]["text"])
        if method == "Network.requestWillBeSent":
            asked = params["request"]["url"]
            if asked != self._url and not asked.startswith(("data:", "blob:")):
                self.problems.append(f"asked for {asked}")

    def open(self, page: Path, width: int = 1280, dark: bool = False, scripts: bool = True) -> None:
        """Load a file in a window of that width and theme."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[theme])
        self.send("Emulation.setScriptExecutionDisabled", value=not scripts)
        self._url = page.as_uri()
        self.send("Page.navigate", url=self._url)
        while True:
            event = self._receive()
            if event.get("method") == "Page.loadEventFired":
                return

    def run(self, code: str) -> Any:
        """The value of an expression, a promise's included."""
        found = self.send(
            "Runtime.evaluate",
            expression=code,
            returnByValue=True,
            awaitPromise=True,
            userGesture=True,
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """A key of `KEYS`, as from the keyboard."""
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=KEYS[key],
                **(text if kind == "keyDown" else {}),
            )

    def point(self, x: float, y: float) -> None:
        """Move the mouse to a place in the window."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def shoot(self, path: Path, whole: bool = True) -> None:
        """A screenshot as PNG, of the whole page or the window."""
        found = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """A browser with a profile of its own, which ends with the block."""
    (read, answer), (order, write) = os.pipe(), os.pipe()
    # Chromium reads orders from file 3 and answers on file 4
    started = ["bash", "-c", f'exec "$0" "$@" 3<&{order} 4>&{answer}']
    process = subprocess.Popen(
        [*started, CHROMIUM, *FLAGS, f"--user-data-dir={profile}"],
        pass_fds=(order, answer),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(order)
    os.close(answer)
    try:
        yield Browser(write, read)
    finally:
        process.terminate()
        process.wait(60)
        os.close(write)
        os.close(read)
