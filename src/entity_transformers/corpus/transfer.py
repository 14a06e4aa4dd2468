"""Fetching pinned files over HTTP, with pooch: it tries again after a while and moves what is whole
to its place.

Ours is what no downloader of pooch does: to go on where a transfer broke off, to stop at a web page
or at more bytes than expected, and not to ask again where the answer can't change. The sha256 is
ours alone, so that a file is read for it once.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.lines import is_html, shown
from entity_transformers.digests import file_digest

_CHUNK = 1 << 16
_LATER = frozenset((408, 425, 429, 500, 502, 503, 504))
_HINTS = {
    401: "the server asks for a login",
    403: "the server refuses",
    404: "the file is not there any more",
    407: "the proxy asks for a login",
    410: "the file is not there any more",
}


class DownloadError(CorpusError):
    """A file that can't be fetched: the message names the address, what came, what was expected,
    and what to do.
    """


class _RefusedError(Exception):
    """A fault that no later try can mend: of a kind that pooch does not try again after."""


class _BrokenError(ValueError):
    """A fault that a later try may not have: pooch tries again after a ValueError."""


def fetch(
    url: str,
    target: Path,
    *,
    size: int,
    sha256: str,
    retries: int = 4,
    timeout: float = 30.0,
    offline: bool = False,
    advance: Callable[[int], object] = lambda count: None,
) -> Path:
    """Bring a file of known size (bytes) and sha256 to ``target``; a whole one that is there
    already is kept.

    What arrived of a broken transfer stays in ``target``.part and is completed, not fetched again.
    Between ``retries`` tries lie 1, 2, 3, ... seconds; ``advance`` gets the bytes as they come.
    DownloadError otherwise.
    """
    import pooch

    pooch.get_logger().setLevel("WARNING")
    part = target.with_name(f"{target.name}.part")
    transfer = _Transfer(part, size, sha256, timeout, advance)
    store = pooch.create(
        path=target.parent,
        base_url="",
        registry={target.name: None},
        urls={target.name: url},
        retry_if_failed=retries,
    )
    if target.is_file():
        if file_digest(target) == sha256:
            advance(size)
            return target
        if not offline:
            target.unlink()  # pooch keeps what is there
    if offline:
        raise DownloadError(
            f"{target}: not in the cache, and downloads are off: run once with a network, or give"
            f" a local path ({url})"
        )
    try:
        store.fetch(target.name, downloader=transfer)
    except _RefusedError as error:
        raise DownloadError(str(error)) from None
    except _BrokenError as error:
        raise DownloadError(
            f"{url}: {error}, after {retries + 1} tries: check the network, or give a local path"
        ) from None
    return target


@dataclass
class _Transfer:
    """A downloader for pooch: completes ``part`` and hands it over. ``tries``: how often pooch
    called it.
    """

    part: Path
    size: int
    sha256: str
    timeout: float
    advance: Callable[[int], object]
    tries: int = 0

    def __call__(self, url: str, output_file: str, pooch: object) -> None:
        self.tries += 1
        if not url.startswith(("http://", "https://")):
            raise _RefusedError(f"{shown(url)}: expected an http(s) address")
        have = self._have()
        if self.tries == 1:
            self.advance(have)
        if have != self.size:
            self._complete(url, have)
        self._verify(url, resumed=have > 0)
        self.part.replace(output_file)

    def _have(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _complete(self, url: str, have: int) -> None:
        headers = {"User-Agent": "entity-transformers", "Accept-Encoding": "identity"}
        if 0 < have < self.size:
            headers["Range"] = f"bytes={have}-"
        request = urllib.request.Request(url, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as response:
                self._append(url, response, have)
        except urllib.error.HTTPError as error:
            raise self._judge(url, error) from None
        except (OSError, http.client.HTTPException) as error:
            raise _BrokenError(
                f"the transfer broke off ({shown(str(error) or type(error).__name__)})"
            ) from None
        if self._have() < self.size:
            raise _BrokenError(f"the transfer broke off at {self._have()} of {self.size} bytes")

    def _append(self, url: str, response: http.client.HTTPResponse, have: int) -> None:
        """Write what comes after what is there, or instead of it where the server sends it all."""
        found = response.headers.get("Content-Range", "")
        resumed = response.status == 206 and found.startswith(f"bytes {have}-")
        chunk = response.read(_CHUNK)
        # before the part is opened: a page leaves what an earlier transfer brought
        page = not resumed and is_html(chunk[:200].decode("utf-8", "replace"))
        if page or response.headers.get_content_type() == "text/html":
            raise _RefusedError(
                f"{url}: a web page ({shown(chunk[:60].decode('utf-8', 'replace'))}) came instead"
                " of the file: open the address in a browser (a login page, a proxy?), or give a"
                " local path"
            )
        with self.part.open("ab" if resumed else "wb") as file:
            while chunk:
                if file.tell() + len(chunk) > self.size:
                    file.truncate(0)
                    raise _RefusedError(
                        f"{url}: more than the {self.size} bytes expected: the file was changed,"
                        " give a local copy of the pinned one"
                    )
                file.write(chunk)
                self.advance(len(chunk))
                chunk = response.read(_CHUNK)

    def _judge(self, url: str, error: urllib.error.HTTPError) -> Exception:
        """Whether a refusal is worth another try."""
        if error.code == 416:
            self.part.unlink(missing_ok=True)
            return _BrokenError("the server could not resume the transfer")
        if error.code in _LATER:
            return _BrokenError(f"the server answered {error.code} {error.reason}")
        hint = _HINTS.get(error.code, "it can't be fetched")
        return _RefusedError(
            f"{url}: the server answered {error.code} {error.reason}: {hint}: give a local path"
        )

    def _verify(self, url: str, *, resumed: bool) -> None:
        """Refuse a file with another checksum, which pooch would fetch again and again; a resumed
        one may be of two halves and is fetched once more as a whole.
        """
        found = file_digest(self.part)
        if found == self.sha256:
            return
        self.part.unlink()
        message = f"sha256 {found}, expected {self.sha256}"
        if resumed:
            raise _BrokenError(message)
        raise _RefusedError(
            f"{url}: {message}: the file was changed or damaged, give a local copy of the pinned"
            " one"
        )
