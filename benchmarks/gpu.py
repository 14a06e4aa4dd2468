"""Training on one GPU: utilisation, GPT2E against GPT2, compile modes, and B documents side by side
from 1 to as many as fit.

The paper's model and step (params.yaml: GPT2-small, windows of 1,024 tokens; bf16) in the
project's own training loop, on random documents with a quarter of their tokens in mentions, without
dropout unless told otherwise. The sides of a B run by turns over the same windows, after rounds
that compile and do not count; B = 1 is tried in every mode of ``lm.compile``. A side that does not
fit ends its model's row.

Utilisation is model FLOP per second over the device's dense bf16 peak. A token has 6 N + 12 layers
width window model FLOP (PaLM, appendix B), N without position embeddings; entity attention is
counted in the same way and given apart as well. Peak memory is what the side allocates. Hours are
those of both models for the paper's 100,000 windows and of saving at its rate, without validation.

    python benchmarks/gpu.py
    python benchmarks/gpu.py --device cpu --tiny    # only to see that it runs; writes nothing
"""

from __future__ import annotations

import argparse
import gc
import itertools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import torch
from common import ROOT, Column, Report, interleave, make_parser, ratios
from training import count_flops, draw_lengths, make_corpus, make_training, measure_peak, resize

from entity_transformers.kinds import ModelEntry
from entity_transformers.runtime import is_out_of_memory, start
from entity_transformers.study.params import load
from entity_transformers.train.loop import Training

PAPER = load(ROOT / "params.yaml")
# TFLOP/s, dense bf16, data sheets
PEAKS = {"H100 PCIe": 756, "H100 NVL": 835, "H100": 989, "H200": 989, "A100": 312, "RTX 4090": 165}
MODELS, MODES = ("gpt2", "gpt2e"), ("off", "default", "reduce-overhead")
WARM_UP = 3  # rounds: in the first a window is compiled, in the second its CUDA graph is recorded
SIZES = {
    "layers": PAPER.lm.layers, "width": PAPER.lm.width, "heads": PAPER.lm.heads,
    "window": PAPER.lm.window, "vocabulary": 50257,
}  # fmt: skip
TINY = {
    "layers": 2, "width": 64, "heads": 2, "window": 64, "vocabulary": 500, "steps": 2,
    "rounds": 2, "batches": [1, 2], "modes": ["off"], "output": None,
}  # fmt: skip
COLUMNS = {
    "time": Column("step", "ms"),
    "speed": Column("speed", "tokens/s"),
    "share": Column("utilisation", "%", "the peak"),
    "memory": Column("peak memory", "GiB"),
    "flop": Column("FLOP", "MFLOP per token"),
    "added": Column("of entity attention", "MFLOP per token"),
    "saving": Column("checkpoint", "s"),
    "ratio": Column("step, ratio", "ratio", "gpt2"),
    "hours": Column("training of both", "h"),
    "hours_saving": Column("saving of both", "h"),
    "remark": Column("remark", ""),
}


@dataclass
class Side:
    """A model in a mode of compile with B documents per step.

    Its run (None: it does not fit), bytes at the peak, seconds per step by round, and seconds of a
    checkpoint.
    """

    model: str
    mode: str
    documents: int
    training: Training | None = None
    peak: int = 0
    seconds: list[float] = field(default_factory=list)
    saving: float = 0.0

    @property
    def setting(self) -> str:
        """B and the mode."""
        return f"B={self.documents}, compile {self.mode}"


def wait() -> None:
    """Until the device has done all that was asked."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def make_entry(side: Side, options: argparse.Namespace) -> ModelEntry:
    """The paper's training in the size of the options."""
    names = ("layers", "width", "heads", "window", "steps", "dropout", "attention")
    return resize(
        PAPER.model(side.model),
        **{name: getattr(options, name) for name in names},
        documents_per_step=side.documents,
        compile=side.mode,
        precision="bfloat16" if options.device == "cuda" else "float32",
        warmup_steps=0,
    )


def time_round(training: Training) -> float:
    """Seconds per step over all windows of the run, the same in every round."""
    training.progress.step = 0
    steps = training.params.steps
    times = interleave({"": training.train_step}, 1, calls=steps, warm_up=False, wait=wait)
    return times[""].wall[0]


def prepare(side: Side, make: Callable[[Side], Training]) -> None:
    """Start the side's run, compile it, and note what it allocates on a GPU at its peak."""
    before = torch.cuda.memory_allocated()
    if torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()
    side.training = make(side)
    for _ in range(WARM_UP):
        time_round(side.training)
    side.peak = torch.cuda.max_memory_allocated() - before


def time_again(side: Side) -> None:
    """Time a round of a side that fits, and keep its seconds."""
    assert side.training is not None
    side.seconds.append(time_round(side.training))


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
        drop_if_too_large(side, partial(prepare, side, make))
    for _ in range(rounds):
        for side in sides:
            if side.training is not None:
                drop_if_too_large(side, partial(time_again, side))
    for side in sides:
        if side.training is not None:
            side.saving = interleave({"": side.training._save}, 1, warm_up=False)[""].wall[0]


def describe(side: Side, window: int, peak: float, report: Report) -> None:
    """A side's row; without numbers where it does not fit."""
    what = f"{side.setting}, {side.model}"
    if side.training is None:
        report.row(what, remark="out of memory: its row ends here")
        return
    rows = side.training.plan.rows + 1
    own, added = count_flops(side.training.model.module, window, rows=rows)
    speed = [side.documents * window / seconds for seconds in side.seconds]
    report.row(
        what,
        time=[1000 * seconds for seconds in side.seconds],
        speed=speed,
        share=100 * median(speed) * (own + added) / peak,
        memory=side.peak / 2**30,
        flop=(own + added) / 1e6,
        added=added / 1e6,
        saving=side.saving,
    )


def compare(gpt2: Side, gpt2e: Side, report: Report) -> None:
    """GPT2E against GPT2, and hours of the paper's training of both."""
    seconds = sum(median(side.seconds) for side in (gpt2, gpt2e)) * PAPER.lm.steps / gpt2.documents
    saving = (gpt2.saving + gpt2e.saving) * PAPER.lm.steps / PAPER.run.checkpoint_every
    report.row(
        f"{gpt2.setting}, gpt2e / gpt2",
        ratio=ratios(gpt2e.seconds, gpt2.seconds),
        hours=seconds / 3600,
        hours_saving=saving / 3600,
    )


def compare_all(sides: list[Side], report: Report) -> None:
    """`compare` in each mode where both models fit."""
    fitting = {(side.mode, side.model): side for side in sides if side.training is not None}
    for mode in MODES:
        if all((mode, model) in fitting for model in MODELS):
            compare(fitting[mode, "gpt2"], fitting[mode, "gpt2e"], report)


def find_peak(options: argparse.Namespace) -> tuple[float, str]:
    """TFLOP/s of the device and where the number comes from; on a CPU those of float32."""
    cuda = options.device == "cuda"
    name = torch.cuda.get_device_name(options.device) if cuda else "cpu"
    known = options.peak_tflops or next(
        (peak for part, peak in PEAKS.items() if part in name), None
    )
    if known is not None:
        return known, "data sheet" if options.peak_tflops is None else "--peak-tflops"
    size, dtype = (8192, torch.bfloat16) if cuda else (1024, torch.float32)
    measured = measure_peak(size, device=options.device, dtype=dtype, wait=wait)
    return measured / 1e12, "a bare matrix product"


def measure_all(options: argparse.Namespace, report: Report) -> None:
    """B after B; each is printed, and written where ``--output`` says."""
    corpus = make_corpus(draw_lengths(), options.vocabulary)
    models = list(MODELS)
    for documents in options.batches or (2**i for i in itertools.count()):
        chosen = options.modes if documents == 1 else options.batch_modes
        modes = [mode for mode in chosen if mode in options.modes] or options.modes[:1]
        sides = [Side(model, mode, documents) for mode in modes for model in models]
        with tempfile.TemporaryDirectory(dir=ROOT / "work") as folder:

            def make(side: Side, folder: str = folder) -> Training:
                place = Path(folder) / side.model / side.mode
                entry = make_entry(side, options)
                return make_training(
                    entry, corpus, place, options.vocabulary, device=options.device
                )

            measure(sides, make, options.rounds)
        for side in sides:
            describe(side, options.window, 1e12 * options.peak_tflops, report)
        compare_all(sides, report)
        report.write()
        too_large = {side.model for side in sides if side.training is None}
        models = [model for model in models if model not in too_large]
        if not models:
            break


def read_options(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; ``--tiny`` only moves the defaults."""
    parser = make_parser(__doc__, __file__, **SIZES, steps=10, rounds=5)
    parser.add_argument("--device", choices=("cuda", "cpu"), help="left out: cuda if there is one")
    parser.add_argument("--tiny", action="store_true", help="a size that a CPU runs in seconds")
    parser.add_argument("--dropout", type=float, default=0.0, help="the paper's is 0.1")
    parser.add_argument("--attention", choices=("sdpa", "flex"), default="flex")
    parser.add_argument("--batches", type=int, nargs="+", help="left out: 1, 2, 4, ... that fit")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES, help="at B = 1")
    parser.add_argument(
        "--batch-modes", nargs="+", choices=MODES, default=("default",), help="at B > 1"
    )
    parser.add_argument("--peak-tflops", type=float, help="of a device that the table lacks")
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
    options.device = start(options.device or "cuda", options.threads, 1).type
    torch._dynamo.config.recompile_limit = 64  # of a function, by all sides together
    options.peak_tflops, options.peak_source = find_peak(options)
    machine = torch.cuda.get_device_name(options.device) if options.device == "cuda" else None
    report = Report(__doc__, COLUMNS, options, packages=("torch", "transformers"), device=machine)
    print(
        f"{report.head['machine']}, torch {torch.__version__}, peak"
        f" {options.peak_tflops:,.1f} TFLOP/s ({options.peak_source})"
    )
    (ROOT / "work").mkdir(exist_ok=True)
    measure_all(options, report)


if __name__ == "__main__":
    main()
