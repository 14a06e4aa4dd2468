"""What the gradient through the memory costs: seconds and peak memory of a step that reaches k
earlier windows.

Each setting is trained in a process of its own: k = 0, 2, 4 and 8, with and without activation
checkpointing, keys from E or values as well. Seconds of wall and of CPU time are medians over the
steps, given for a window; the peak is of the bytes that torch holds beyond those held before a
step. (The process itself may keep more: what an allocator does with freed memory is not counted.)

    python benchmarks/memory_gradient.py
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SETTINGS = [
    (k, values, checkpointing)
    for values in ("hidden", "both")
    for checkpointing in (False, True)
    for k in (0, 2, 4, 8)
]
VOCABULARY, ENTITIES = 8000, 12


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
    windows: int, values: str, checkpointing: bool, steps: int
) -> tuple[float, float, float]:
    """Wall and CPU seconds a window and peak MB of a training on random text, a quarter of it in
    mentions.
    """
    import numpy as np
    import torch

    from entity_transformers.corpus.alignment import AlignedCorpus
    from entity_transformers.models.registry import build_model
    from entity_transformers.study.params import load
    from entity_transformers.train.checkpoint import CheckpointStore
    from entity_transformers.train.loop import Training

    torch.set_num_threads(2)
    root = Path(__file__).resolve().parents[1]
    params = load(root / "studies/sample/params.yaml").lm.model_copy(
        update={
            "layers": 4, "heads": 4, "width": 256, "window": 256, "dropout": 0.0, "entity_values": values,
            "memory_gradient_windows": windows, "steps": steps + 2, "warmup_steps": 0,
            "documents_per_step": 4, "gradient_checkpointing": checkpointing,
        }
    )  # fmt: skip
    generator, length, documents = np.random.default_rng(0), 256 * 10 + 1, 8
    tokens = generator.integers(1, VOCABULARY, length * documents).astype(np.int32)
    entities = (
        generator.integers(1, ENTITIES + 1, len(tokens)) * (generator.random(len(tokens)) < 0.25)
    ).astype(np.int32)
    offsets = np.arange(documents + 1, dtype=np.int64) * length
    tokens[offsets[:-1]], entities[offsets[:-1]] = 0, 0
    words = np.tile(np.arange(-1, length - 1, dtype=np.int32), documents)
    corpus = AlignedCorpus(
        "train", tuple(f"d{i}#0" for i in range(documents)), ("",), tokens=tokens, entities=entities,
        mentions=np.where(entities > 0, np.cumsum(entities > 0) - 1, -1).astype(np.int32), words=words,
        tags=np.zeros(len(tokens), np.uint8), bytes=np.where(tokens == 0, 0, 1).astype(np.uint16), offsets=offsets,
    )  # fmt: skip
    model = build_model("gpt2e", params, VOCABULARY, 0, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        training = Training(
            model,
            corpus,
            lambda model, on: 0.0,
            params,
            1,
            CheckpointStore(Path(folder), 1),
            lambda index, row: None,
        )
        training.train_step()
        peak, spent = measure_peak(training.train_step), []
        for _ in range(steps):
            begin = time.process_time()
            training.train_step()
            spent.append(time.process_time() - begin)
    wall, cpu = (
        statistics.median(seconds) / (windows + 1) for seconds in (training.step_seconds[2:], spent)
    )
    return wall, cpu, peak


def main() -> None:
    """Print one row a setting, or measure the one that the flags name."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--steps", type=int, default=3, help="steps of each setting (default: %(default)s)"
    )
    parser.add_argument(
        "--only",
        nargs=3,
        metavar=("K", "VALUES", "CHECKPOINTING"),
        help="one setting, in this process",
    )
    options = parser.parse_args()
    if options.only:
        windows, values, checkpointing = options.only
        print(*measure(int(windows), values, checkpointing == "True", options.steps))
        return
    print(
        f"{'values':10s}{'checkpointing':15s}{'earlier windows':>16s}{'s a window':>12s}{'CPU s':>8s}{'peak MB':>15s}"
    )
    for windows, values, checkpointing in SETTINGS:
        command = [
            sys.executable,
            __file__,
            "--steps",
            str(options.steps),
            "--only",
            str(windows),
            values,
            str(checkpointing),
        ]
        seconds, cpu, memory = map(
            float,
            subprocess.run(command, capture_output=True, text=True, check=True).stdout.split(),
        )
        print(
            f"{values:10s}{'yes' if checkpointing else 'no':15s}{windows:16d}{seconds:12.3f}{cpu:8.3f}{memory:15.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
