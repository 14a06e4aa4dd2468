"""What the gradient through the memory costs: seconds and peak memory of a step that reaches k
earlier windows.

Each setting is trained in a process of its own: k = 0, 2, 4 and 8, with and without activation
checkpointing, keys from E or values as well. Seconds of wall and of CPU time are medians over the
steps, given per window; the peak is of the bytes that torch holds beyond those held before a step.
(The process itself may keep more: what an allocator does with freed memory is not counted.)

    python benchmarks/memory_gradient.py
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import Column, Report, interleave, make_parser

SETTINGS = [
    (k, values, checkpointing)
    for values in ("hidden", "both")
    for checkpointing in (False, True)
    for k in (0, 2, 4, 8)
]
COLUMNS = {
    "wall": Column("time per window", "s"),
    "cpu": Column("CPU time per window", "s"),
    "peak": Column("peak of a step", "MB"),
}


def measure_peak(step: Callable[[], None]) -> float:
    """The most MB that tensors made in a step hold at one time."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        step()
    changes = (
        event.nbytes()
        for event in recorded.profiler.kineto_results.events()
        if event.name() == "[memory]"
    )
    return max(itertools.accumulate(changes)) / 1e6


def measure(
    windows: int, values: str, checkpointing: bool, steps: int, threads: int
) -> dict[str, Any]:
    """Wall and CPU seconds per window, step by step, and peak MB of a training on random text, a
    quarter of it in mentions.
    """
    import torch
    from training import make_corpus, make_entry, make_training

    torch.set_num_threads(threads)
    entry = make_entry(
        "gpt2e",
        entity_values=values,
        memory_gradient_windows=windows,
        gradient_checkpointing=checkpointing,
        documents_per_step=4,
        steps=steps + 2,
    )
    corpus = make_corpus([256 * 10 + 1] * 8, entities=12)
    with tempfile.TemporaryDirectory() as folder:
        run = make_training(entry, corpus, Path(folder))
        run.train_step()
        peak = measure_peak(run.train_step)
        spent = interleave({"step": run.train_step}, steps, warm_up=False)["step"]
    wall, cpu = ([s / (windows + 1) for s in seconds] for seconds in (spent.wall, spent.cpu))
    return {"wall": wall, "cpu": cpu, "peak": peak}


def main() -> None:
    """One row per setting, or measure the one that the flags name."""
    parser = make_parser(__doc__, __file__, steps=3)
    parser.add_argument(
        "--only",
        nargs=3,
        metavar=("K", "VALUES", "CHECKPOINTING"),
        help="one setting, in this process",
    )
    options = parser.parse_args()
    shared = ["--steps", str(options.steps), "--threads", str(options.threads)]
    if options.only:
        windows, values, checkpointing = options.only
        checkpointed = checkpointing == "True"
        found = measure(int(windows), values, checkpointed, options.steps, options.threads)
        print(json.dumps(found))
        return
    report = Report(__doc__, COLUMNS, options)
    for windows, values, checkpointing in SETTINGS:
        setting = ["--only", str(windows), values, str(checkpointing)]
        command = [sys.executable, __file__, *shared, *setting]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        recomputed = ", checkpointing" if checkpointing else ""
        report.row(f"k = {windows}, values {values}{recomputed}", **json.loads(done.stdout))
    report.write()


if __name__ == "__main__":
    main()
