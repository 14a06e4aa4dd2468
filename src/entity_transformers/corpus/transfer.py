"""Fetching one file over HTTP: resumed when broken, retried with back-off, checked for size,
checksum and web pages.
"""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO

from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.lines import is_html, shown
from entity_transformers.provenance import file_digest

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


class _BrokenError(Exception):
    """A fault that a later try may not have."""


def fetch(
    url: str, target: Path, *, size: int, sha256: str, retries: int = 4, wait: float = 1.0, timeout: float = 30.0, offline: bool = False,
    advance: Callable[[int], object] = lambda count: None,
) -> Path:  # fmt: skip
    """Bring a file of known size (bytes) and sha256 to ``target``; a whole one that is there
    already is kept.

    What arrived of a broken transfer stays in ``target``.part and is completed, not fetched again.
    ``wait`` seconds, doubled each time, lie between ``retries`` tries; ``advance`` gets the bytes
    as they come. DownloadError otherwise.
    """
    if is_whole(target, size, sha256):
        advance(size)
        return target
    if offline:
        raise DownloadError(
            f"{target}: not in the cache, and downloads are off: run once with a network, or give a"
            f" local path ({url})"
        )
    if not url.startswith(("http://", "https://")):
        raise DownloadError(f"{shown(url)}: expected an http(s) address")
    part = target.with_name(f"{target.name}.part")
    target.parent.mkdir(parents=True, exist_ok=True)
    advance(part.stat().st_size if part.exists() else 0)
    for attempt in range(retries + 1):
        resumed = part.exists()
        try:
            _transfer(url, part, size, timeout, advance)
            _verify(url, part, sha256, resumed=resumed)
            break
        except _BrokenError as error:
            if attempt == retries:
                raise DownloadError(
                    f"{url}: {error}, after {retries + 1} tries: check the network, or give a local"
                    " path"
                ) from None
            time.sleep(wait * 2**attempt)
    part.replace(target)
    return target


def is_whole(path: Path, size: int, sha256: str) -> bool:
    """Whether a file is there with this size and checksum."""
    return path.is_file() and path.stat().st_size == size and file_digest(path) == sha256


def _transfer(
    url: str, part: Path, size: int, timeout: float, advance: Callable[[int], object]
) -> None:
    """Append to ``part`` what is missing of ``size`` bytes."""
    have = part.stat().st_size if part.exists() else 0
    if have == size:
        return
    headers = {"User-Agent": "entity-transformers", "Accept-Encoding": "identity"}
    if 0 < have < size:
        headers["Range"] = f"bytes={have}-"
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=timeout
        ) as response:
            resumed = response.status == 206 and response.headers.get(
                "Content-Range", ""
            ).startswith(f"bytes {have}-")
            first = _read_first(url, response, resumed=resumed)
            with part.open("ab" if resumed else "wb") as file:
                _copy(url, first, response, file, size, advance)
    except urllib.error.HTTPError as error:
        _refuse(url, error, part)
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenError(
            f"the transfer broke off ({shown(str(error) or type(error).__name__)})"
        ) from None
    if part.stat().st_size < size:
        raise _BrokenError(f"the transfer broke off at {part.stat().st_size} of {size} bytes")


def _read_first(url: str, response: http.client.HTTPResponse, *, resumed: bool) -> bytes:
    """The first bytes of an answer, before what an earlier transfer left is touched: a web page
    raises DownloadError.
    """
    first = response.read(_CHUNK)
    page = not resumed and is_html(first[:200].decode("utf-8", "replace"))
    if page or response.headers.get_content_type() == "text/html":
        raise DownloadError(
            f"{url}: a web page ({shown(first[:60].decode('utf-8', 'replace'))}) came instead of"
            f" the file: {_LOGIN}"
        )
    return first


def _copy(
    url: str,
    chunk: bytes,
    response: http.client.HTTPResponse,
    file: IO[bytes],
    size: int,
    advance: Callable[[int], object],
) -> None:
    while chunk:
        if file.tell() + len(chunk) > size:
            file.truncate(0)
            raise DownloadError(
                f"{url}: more than the {size} bytes expected: the file was changed, give a local"
                " copy of the pinned one"
            )
        file.write(chunk)
        advance(len(chunk))
        chunk = response.read(_CHUNK)


_LOGIN = "open the address in a browser (a login page, a proxy?), or give a local path"


def _refuse(url: str, error: urllib.error.HTTPError, part: Path) -> None:
    if error.code == 416:
        part.unlink(missing_ok=True)
        raise _BrokenError("the server could not resume the transfer")
    if error.code in _LATER:
        raise _BrokenError(f"the server answered {error.code} {error.reason}")
    hint = _HINTS.get(error.code, "it can't be fetched")
    raise DownloadError(
        f"{url}: the server answered {error.code} {error.reason}: {hint}: give a local path"
    ) from None


def _verify(url: str, part: Path, sha256: str, *, resumed: bool) -> None:
    """Refuse a file with another checksum; a resumed one may be of two halves and is fetched once
    more as a whole.
    """
    found = file_digest(part)
    if found == sha256:
        return
    part.unlink()
    message = f"sha256 {found}, expected {sha256}"
    if resumed:
        raise _BrokenError(message)
    raise DownloadError(
        f"{url}: {message}: the file was changed or damaged, give a local copy of the pinned one"
    )
