"""Training on one GPU: utilisation, GPT2E against GPT2, compile modes, and B documents side by side
from 1 to as many as fit.

The paper's model and step (params.yaml: GPT2-small, windows of 1,024 tokens, dropout 0.1; bf16) in
the project's own training loop, on random documents with a quarter of their tokens in mentions. The
sides of a B run by turns over the same windows, after rounds that compile and do not count; B = 1
is tried in every mode of ``lm.compile``. A side that does not fit ends its model's row.

Utilisation is model FLOP a second over the device's dense bf16 peak. A token has 6 N + 12 layers
width window model FLOP (PaLM, appendix B), N without position embeddings; entity attention is
counted in the same way and given apart as well. Peak memory is what the side allocates. Hours are
those of both models for the paper's 100,000 windows and of saving at its rate, without validation.

    python benchmarks/gpu.py --output benchmarks/gpu.json
    python benchmarks/gpu.py --output benchmarks/gpu.json --batches 8    # one B; the rows of others
                                                                         stay in the file
    python benchmarks/gpu.py --device cpu --tiny              # only to see that it runs
"""

from __future__ import annotations

import argparse
import gc
import itertools
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch
from training import ROOT, count_flops, make_corpus, make_training, measure_peak

from entity_transformers.artifacts import read_json, write_json
from entity_transformers.kinds import LmParams
from entity_transformers.provenance import git_commit
from entity_transformers.runtime import start
from entity_transformers.study.params import load
from entity_transformers.train.loop import Training
from entity_transformers.train.streams import is_out_of_memory

PAPER = load(ROOT / "params.yaml").lm
# TFLOP/s, dense bf16, data sheets
PEAKS = {"H100 PCIe": 756, "H100 NVL": 835, "H100": 989, "H200": 989, "A100": 312, "RTX 4090": 165}
MODELS, MODES = ("gpt2", "gpt2e"), ("off", "default", "reduce-overhead")
WARM_UP = 3  # rounds: in the first a window is compiled, in the second its CUDA graph is recorded
SIZES = {
    "layers": PAPER.layers,
    "width": PAPER.width,
    "heads": PAPER.heads,
    "window": PAPER.window,
    "vocabulary": 50257,
}
TINY = {
    "layers": 2,
    "width": 64,
    "heads": 2,
    "window": 64,
    "vocabulary": 500,
    "steps": 2,
    "rounds": 2,
    "batches": [1, 2],
    "modes": ["off"],
}
Row = dict[str, Any]


@dataclass
class Side:
    """A model in a mode of compile with B documents a step.

    Its run (None: it does not fit), bytes at the peak, seconds a step by round, and seconds of a
    checkpoint.
    """

    model: str
    mode: str
    documents: int
    training: Training | None = None
    peak: int = 0
    seconds: list[float] = field(default_factory=list)
    saving: float = 0.0


def wait() -> None:
    """Until the device has done all that was asked."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def make_params(side: Side, options: argparse.Namespace) -> LmParams:
    """The paper's training in the size of the options."""
    names = ("layers", "width", "heads", "window", "steps", "dropout")
    precision = "bfloat16" if options.device.type == "cuda" else "float32"
    changes = {
        "documents_per_step": side.documents,
        "compile": side.mode,
        "precision": precision,
        "warmup_steps": 0,
    }
    return LmParams(
        **(PAPER.model_dump() | {name: getattr(options, name) for name in names} | changes)
    )


def time_round(training: Training) -> float:
    """Seconds a step over all windows of the run, the same in every round."""
    training.progress.step = 0
    wait()
    begin = time.perf_counter()
    for _ in range(training.params.steps):
        training.train_step()
    wait()
    return (time.perf_counter() - begin) / training.params.steps


def time_save(training: Training) -> float:
    """Seconds of one checkpoint."""
    begin = time.perf_counter()
    training._save()
    return time.perf_counter() - begin


def prepare(side: Side, make: Callable[[Side], Training]) -> None:
    """Start the side's run, compile it, and note what it allocates on a GPU at its peak."""
    before = torch.cuda.memory_allocated()
    if torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()
    side.training = make(side)
    for _ in range(WARM_UP):
        time_round(side.training)
    side.peak = torch.cuda.max_memory_allocated() - before


def drop_if_too_large(side: Side, action: Callable[[], None]) -> None:
    """Do ``action``; if memory runs out the side leaves the comparison."""
    try:
        action()
    # a TrainingError is a RuntimeError and has its cause
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error.__cause__ or error):
            raise
        side.training = None
    if side.training is None:
        free_memory()


def free_memory() -> None:
    """Give back what dropped runs held."""
    gc.collect()
    torch.cuda.empty_cache()


def measure(sides: list[Side], make: Callable[[Side], Training], rounds: int) -> None:
    """Time the sides of one B by turns, then a checkpoint of each."""
    torch.compiler.reset()
    free_memory()
    for side in sides:
        drop_if_too_large(side, lambda side=side: prepare(side, make))
    for _ in range(rounds):
        for side in sides:
            if side.training is not None:
                drop_if_too_large(
                    side, lambda side=side: side.seconds.append(time_round(side.training))
                )
    for side in sides:
        side.saving = 0.0 if side.training is None else time_save(side.training)


def describe(side: Side, window: int, peak: float) -> Row:
    """A side's row; without numbers where it does not fit."""
    row: Row = {
        "model": side.model,
        "compile": side.mode,
        "documents": side.documents,
        "fits": side.training is not None,
    }
    if side.training is None:
        return row
    own, added = count_flops(side.training.model, window, rows=side.training.plan.rows + 1)
    seconds = median(side.seconds)
    speed = side.documents * window / seconds
    row |= {
        "seconds_per_step": seconds,
        "tokens_per_second": speed,
        "peak_bytes": side.peak,
        "seconds_per_checkpoint": side.saving,
    }
    return row | {
        "flop_per_token": own + added,
        "flop_per_token_entity_attention": added,
        "utilisation": speed * (own + added) / peak,
    }


def compare(gpt2: Side, gpt2e: Side) -> Row:
    """GPT2E against GPT2, and the hours of the paper's training of both at this speed."""
    seconds = sum(median(side.seconds) for side in (gpt2, gpt2e)) * PAPER.steps / gpt2.documents
    saving = (gpt2.saving + gpt2e.saving) * PAPER.steps / PAPER.checkpoint_every
    ratio = median(b / a for a, b in zip(gpt2.seconds, gpt2e.seconds, strict=True))
    return {
        "compile": gpt2.mode,
        "documents": gpt2.documents,
        "ratio": ratio,
        "hours": seconds / 3600,
        "hours_saving": saving / 3600,
    }


def compare_all(sides: list[Side]) -> list[Row]:
    """`compare` in each mode where both models fit."""
    fitting = {(side.mode, side.model): side for side in sides if side.training is not None}
    return [
        compare(fitting[mode, "gpt2"], fitting[mode, "gpt2e"])
        for mode in MODES
        if all((mode, model) in fitting for model in MODELS)
    ]


def show(row: Row) -> None:
    """Print a row of either kind."""
    name = f"B={row['documents']:<5d}{row['compile']:17s}"
    if "ratio" in row:
        text = (
            f"gpt2e / gpt2 {row['ratio']:.3f}; {PAPER.steps:,} windows of both {row['hours']:.2f}"
            f" h, saving {row['hours_saving']:.2f} h"
        )
    elif not row["fits"]:
        text = f"{row['model']:7s}out of memory: its row ends here"
    else:
        text = (
            f"{row['model']:7s}{1000 * row['seconds_per_step']:9.2f}"
            f" ms{row['tokens_per_second']:11,.0f} tokens/s{row['utilisation']:7.1%}"
        )
        text += (
            f"{row['peak_bytes'] / 2**30:7.1f} GiB{row['flop_per_token'] / 1e6:9,.1f} MFLOP a"
            " token,"
        )
        text += f" {row['flop_per_token_entity_attention'] / 1e6:,.1f} of entity attention"
    print(name + text, flush=True)


def find_peak(options: argparse.Namespace) -> tuple[float, str]:
    """FLOP a second of the device and where the number comes from; on a CPU that of float32."""
    cuda = options.device.type == "cuda"
    name = torch.cuda.get_device_name(options.device) if cuda else "cpu"
    known = options.peak_tflops or next(
        (peak for part, peak in PEAKS.items() if part in name), None
    )
    if known is not None:
        return known * 1e12, "data sheet" if options.peak_tflops is None else "--peak-tflops"
    size, dtype = (8192, torch.bfloat16) if cuda else (1024, torch.float32)
    return (
        measure_peak(size, device=options.device, dtype=dtype, wait=wait),
        "measured on a bare matrix product",
    )


def measure_all(options: argparse.Namespace, result: Row) -> None:
    """B after B; each is printed, and written where ``--output`` says."""
    corpus, models = make_corpus(vocabulary=options.vocabulary), list(MODELS)
    for documents in options.batches or (2**i for i in itertools.count()):
        modes = (
            options.modes
            if documents == 1
            else [options.batch_mode if options.batch_mode in options.modes else options.modes[0]]
        )
        sides = [Side(model, mode, documents) for mode in modes for model in models]
        with tempfile.TemporaryDirectory(dir=ROOT / "work") as folder:

            def make(side: Side, folder: str = folder) -> Training:
                place = Path(folder) / side.model / side.mode
                return make_training(
                    side.model,
                    corpus,
                    place,
                    make_params(side, options),
                    options.vocabulary,
                    options.device,
                )

            measure(sides, make, options.rounds)
        rows = [
            describe(side, options.window, result["peak_flops"]) for side in sides
        ] + compare_all(sides)
        for row in rows:
            show(row)
        result["rows"] = sorted(
            [row for row in result["rows"] if row["documents"] != documents] + rows,
            key=lambda row: row["documents"],
        )
        if options.output is not None:
            write_json(options.output, result)
        models = [
            model
            for model in models
            if all(side.training is not None for side in sides if side.model == model)
        ]
        if not models:
            break


def keep_rows(result: Row, output: Path | None) -> list[Row]:
    """The rows that an earlier call left in ``output`` if it measured the same: then each B can
    have a call of its own.
    """
    earlier = read_json(output) if output is not None and output.exists() else {}
    same = all(
        earlier.get(key) == result[key] for key in ("device", "torch", "git_commit", "peak_flops")
    )
    same = same and all(earlier["settings"].get(size) == result["settings"][size] for size in SIZES)
    return earlier["rows"] if same else []


def read_options(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; ``--tiny`` only moves the defaults."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), help="left out, a machine without a GPU is no error"
    )
    parser.add_argument("--tiny", action="store_true", help="a size that a CPU runs in seconds")
    for name, value in (SIZES | {"steps": 10, "rounds": 5, "threads": 2}).items():
        parser.add_argument(f"--{name}", type=int, default=value, help="default %(default)s")
    parser.add_argument("--dropout", type=float, default=PAPER.dropout, help="default %(default)s")
    parser.add_argument(
        "--batches", type=int, nargs="+", help="B; left out: 1, 2, 4, ... as many as fit"
    )
    parser.add_argument(
        "--modes", nargs="+", choices=MODES, default=MODES, help="of lm.compile at B = 1"
    )
    parser.add_argument(
        "--batch-mode",
        choices=MODES,
        default="default",
        help="of lm.compile above, if it is one of --modes",
    )
    parser.add_argument(
        "--peak-tflops", type=float, help="dense bf16 peak of a device that the table lacks"
    )
    parser.add_argument("--output", type=Path, help="JSON file")
    if parser.parse_known_args(arguments)[0].tiny:
        parser.set_defaults(**TINY)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Measure and print, or say that there is no GPU."""
    options = read_options(arguments)
    if options.device != "cpu" and not torch.cuda.is_available():
        print(
            "torch sees no GPU: run this where there is one (make gpu), or see that it runs with"
            " --device cpu --tiny"
        )
        raise SystemExit(options.device is not None)
    options.device = start(options.device or "cuda", options.threads, 1)
    torch._dynamo.config.recompile_limit = 64  # of a function, by all sides together
    peak, source = find_peak(options)
    machine = torch.cuda.get_device_name(options.device) if options.device.type == "cuda" else "cpu"
    settings = {
        name: str(value) if isinstance(value, Path | torch.device) else value
        for name, value in vars(options).items()
    }
    result: Row = {
        "device": machine,
        "torch": torch.__version__,
        "git_commit": git_commit(),
        "settings": settings,
        "rows": [],
    }
    result |= {"peak_flops": peak, "peak_source": source}
    result["rows"] = keep_rows(result, options.output)
    print(f"{machine}, torch {torch.__version__}, peak {peak / 1e12:,.1f} TFLOP/s ({source})")
    (ROOT / "work").mkdir(exist_ok=True)
    measure_all(options, result)


if __name__ == "__main__":
    main()
