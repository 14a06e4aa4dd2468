"""How far a long loop is."""

import logging
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")
log = logging.getLogger(__name__)


def log_progress(items: Sequence[Item], label: str, every: float = 10.0) -> Iterator[Item]:
    """The items, with a log line of how far it is and how long it will take, each ``every`` seconds
    of a long loop.
    """
    started = last = time.monotonic()
    for done, item in enumerate(items):
        now = time.monotonic()
        if done and now - last >= every:
            left = time.strftime(
                "%H:%M:%S", time.gmtime((now - started) / done * (len(items) - done))
            )
            log.info("%s %d/%d  %s left", label, done, len(items), left)
            last = now
        yield item
