"""Commands of an earlier run that go on in a study's folder: Snakemake, killed, leaves its jobs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

PROGRAMS = ("entity-transformers", "entity_transformers")


def list_leftovers(folder: Path) -> Iterator[str]:
    """A line for each command of ours that works in ``folder`` below no Snakemake: which process it
    is, and how to end it.
    """
    import psutil

    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if (
                any(Path(word).name in PROGRAMS for word in words[:4])  # python -u -m
                and Path(process.cwd()) == folder.resolve()
                and not any(_is_snakemake(parent.cmdline()) for parent in process.parents())
            ):
                yield (
                    f"process {process.pid} of an earlier run still works here: wait for its end,"
                    f" or kill {process.pid} ({_shorten(words)})"
                )
        except (psutil.Error, OSError):
            continue  # it has ended, or is another user's


def _is_snakemake(words: list[str]) -> bool:
    return any(Path(word).name == "snakemake" for word in words[:3])


def _shorten(words: list[str], longest: int = 100) -> str:
    start = next(i for i, word in enumerate(words) if Path(word).name in PROGRAMS)
    text = shlex.join(words[start + 1 :])
    return text if len(text) <= longest else f"{text[:longest]}..."
