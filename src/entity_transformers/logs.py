"""Progress of long loops."""

import logging
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")
log = logging.getLogger(__name__)


def log_progress(items: Sequence[Item], label: str, every: float = 10.0) -> Iterator[Item]:
    """Yield the items; every ``every`` seconds, log how many are done and how long the rest will
    take.
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
