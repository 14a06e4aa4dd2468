"""Tokens per second of the training loop, as ratios: against a plain loop over GPT2LMHeadModel,
bf16, B = 16 against B = 1, memory_life.

4 layers, width 256, vocabulary 8,000, 256-token windows, batch 8, two threads; sides run by turns
in one process, medians. Also how much batching can give at all: the share of a bare matrix
product's speed that B = 1 reaches, and B = 16 against B = 1 in shorter windows; and the loop
against the plain one with GPT-2's vocabulary, where the loss is most of a step. Then the share of
padded positions. Last a whole run of GPT2E, with curve, log and checkpoints as often as in the
sample: the share of its time that is neither forward, backward nor optimizer, part by part.
"""

from __future__ import annotations

import contextlib
import functools
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from entity_transformers.models.step import IGNORED
from transformers import GPT2Config, GPT2LMHeadModel

from entity_transformers.cli.lm import CurveFile
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.windows import WindowPlan
from entity_transformers.kinds import LmParams
from entity_transformers.models.gpt2e.memory import EntityMemory
from entity_transformers.models.registry import build_config, build_model, label_corpus
from entity_transformers.study.params import load
from entity_transformers.train import loop as training
from entity_transformers.train import loss
from entity_transformers.train.checkpoint import CheckpointStore
from entity_transformers.train.loop import Training

ROOT = Path(__file__).resolve().parents[1]
VOCABULARY, WINDOW = 8000, 256
GPT2_VOCABULARY = 50257
WINDOWS = (WINDOW, 64, 16)
ROUNDS, STEPS = 5, 4
CORE = ("forward", "backward", "optimizer")


def make_corpus(
    documents: int = 300, mentions: float = 0.25, vocabulary: int = VOCABULARY
) -> AlignedCorpus:
    """Random tokens in documents as long as CoNLL-2012's parts (mean about 560 tokens), a quarter
    of them in mentions.
    """
    generator = np.random.default_rng(1)
    lengths = np.maximum(32, generator.gamma(2.0, 280.0, documents).astype(np.int64))
    total = int(lengths.sum())
    inside = generator.random(total) < mentions
    entities = np.where(inside, generator.integers(1, 40, total), 0).astype(np.int32)
    arrays = {
        "tokens": generator.integers(1, vocabulary, total).astype(np.int32),
        "entities": entities,
        "mentions": np.where(inside, 0, -1).astype(np.int32),
        "words": np.arange(total, dtype=np.int32),
        "tags": np.zeros(total, np.uint8),
        "bytes": np.ones(total, np.uint16),
    }
    names = tuple(map(str, range(documents)))
    return AlignedCorpus(
        "train", names, ("",), offsets=np.concatenate([[0], np.cumsum(lengths)]), **arrays
    )


def make_params(**changes: Any) -> LmParams:
    """The sample's lm section in the size of the comparison."""
    values = load(ROOT / "studies/sample/params.yaml").lm.model_dump()
    size = {
        "layers": 4,
        "heads": 4,
        "width": 256,
        "window": WINDOW,
        "documents_per_step": 8,
        "dropout": 0.0,
        "steps": 400,
        "warmup_steps": 0,
    }
    return LmParams(
        **(
            values
            | size
            | {"validate_every": 400, "checkpoint_every": 400, "learning_rate": 1e-4}
            | changes
        )
    )


def make_training(
    name: str,
    corpus: AlignedCorpus,
    folder: Path,
    params: LmParams,
    vocabulary: int = VOCABULARY,
    device: torch.device | str = "cpu",
) -> Training:
    """A run as `train-lm` starts it: curve and checkpoints below ``folder``, the log on stderr, a
    validation that costs nothing.
    """
    model = build_model(name, params, vocabulary, 0, seed=1).to(device)
    store, write_row = (
        CheckpointStore(folder / "checkpoints", params.keep_checkpoints),
        CurveFile(folder / "curve.csv").write_row,
    )
    log = functools.partial(print, file=sys.stderr)
    return Training(
        model,
        label_corpus(corpus, name, 1),
        lambda model, entities: 0.0,
        params,
        1,
        store,
        write_row,
        log,
    )


def plain_step(
    corpus: AlignedCorpus, vocabulary: int = VOCABULARY, autocast: bool = False
) -> Callable[[], None]:
    """The peer: transformers' model with its own activation and loss, AdamW, whole windows."""
    config = build_config("gpt2", make_params(), vocabulary, 0)
    config.activation_function = GPT2Config().activation_function
    model = GPT2LMHeadModel(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    generator = np.random.default_rng(1)

    def step() -> None:
        starts = generator.integers(0, len(corpus.tokens) - WINDOW, 8)
        batch = torch.from_numpy(
            np.stack([corpus.tokens[s : s + WINDOW] for s in starts]).astype(np.int64)
        )
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = model(batch, labels=batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def seconds(step: Callable[[], None], steps: int = STEPS) -> float:
    """Seconds a step."""
    start = time.perf_counter()
    for _ in range(steps):
        step()
    return (time.perf_counter() - start) / steps


def measure(sides: dict[str, Callable[[], None]]) -> dict[str, list[float]]:
    """Seconds a step of each side, round by round, the sides by turns; one round to warm up."""
    for step in sides.values():
        seconds(step, 1)
    rounds = [{name: seconds(step) for name, step in sides.items()} for _ in range(ROUNDS)]
    return {name: [r[name] for r in rounds] for name in sides}


def measure_peak(
    size: int = 2048,
    rounds: int = 8,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    wait: Callable = lambda: None,
) -> float:
    """FLOP a second of a bare product of two matrices, the best of several."""
    one, other = torch.rand(2, size, size, device=device, dtype=dtype)

    def multiply() -> None:
        torch.mm(one, other)
        wait()

    return 2 * size**3 / min(seconds(multiply, 1) for _ in range(rounds))


def count_flops(
    model: Any, window: int, *, rows: int = 0, visible: float = 1.0
) -> tuple[float, float]:
    """FLOP of the matrix products of a training step for each token: GPT2's, and those that entity
    attention adds.

    6 a weight, position embeddings left out, and 12 layers width window for attention's two
    products (PaLM, appendix B); where ``visible`` is 0.5, only for what the causal mask leaves
    (Kaplan et al., 2020). Entity attention counts in the same way, but that keys (and values) of
    entities are projected for the ``rows`` of a memory, where those are fewer than a window's
    tokens.
    """
    config = model.config
    products = 12 * visible * config.n_layer * config.n_embd * window
    weights = {
        name: p.numel()
        for name, p in model.named_parameters()
        if p.dim() == 2 and "wpe" not in name
    }
    added = {name: weights.pop(name) for name in list(weights) if "entity_attn" in name}
    share = {
        name: min(1.0, rows / window) if ".k_attn." in name or ".e_attn." in name else 1.0
        for name in added
    }
    return 6 * sum(weights.values()) + products, sum(
        6 * added[name] * share[name] for name in added
    ) + products * bool(added)


class Stopwatch:
    """Seconds and calls by part of the functions that it wraps; what is called inside another part
    counts only there.
    """

    def __init__(self) -> None:
        self.seconds, self.calls = Counter[str](), Counter[str]()
        self._inside = 0.0

    def wrap(self, part: str, function: Callable) -> Callable:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            outside, self._inside, begin = self._inside, 0.0, time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                spent = time.perf_counter() - begin
                self.seconds[part] += spent - self._inside
                self.calls[part] += 1
                self._inside = outside + spent

        return timed


def time_run(run: Training) -> Stopwatch:
    """The parts of ``run.run()`` on a CPU; the memory is read in the forward pass and reset in the
    rest.
    """
    places = [
        ("batching", WindowPlan, "__getitem__"),
        ("forward", run.model.transformer, "forward"),
        ("forward", loss, "sum_losses"),
        ("backward", torch.Tensor, "backward"),
        ("optimizer", training, "apply_gradients"),
        ("memory", EntityMemory, "write"),
        ("curve and log", Training, "_write_curve"),
        ("checkpoints", Training, "_save"),
    ]
    watch = Stopwatch()
    with contextlib.ExitStack() as stack:
        for part, owner, name in places:
            stack.enter_context(
                mock.patch.object(owner, name, watch.wrap(part, getattr(owner, name)))
            )
        watch.wrap("rest", run.run)()
    return watch


def show_overhead(watch: Stopwatch) -> None:
    """Print the share of the run that is not `CORE`, and its parts."""
    total = watch.seconds.total()
    parts = {part: spent / total for part, spent in watch.seconds.items() if part not in CORE}
    steps, share = watch.calls["optimizer"], sum(parts.values())
    print(
        f"gpt2e, {steps} steps: {share:.2%} of the time is neither forward, backward nor optimizer"
        " (target under 3 %)"
    )
    print("  " + ", ".join(f"{part} {share:.2%}" for part, share in sorted(parts.items())))
    print(
        f"  {watch.calls['checkpoints']} checkpoint(s),"
        f" {watch.seconds['checkpoints'] / watch.calls['checkpoints']:.3f} s each"
    )


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(2)
    corpus = make_corpus()
    study = load(ROOT / "studies/sample/params.yaml").lm
    rates = {
        "steps": study.checkpoint_every,
        "checkpoint_every": study.checkpoint_every,
        "validate_every": study.validate_every,
    }
    with tempfile.TemporaryDirectory() as folder:

        def start(side: str, name: str, **changes: Any) -> Training:
            return make_training(name, corpus, Path(folder) / side, make_params(**changes))

        ours = start("gpt2", "gpt2")
        sides = {
            "plain": plain_step(corpus),
            "gpt2": ours.train_step,
            "gpt2 bf16": start("bf16", "gpt2", precision="bfloat16").train_step,
            "gpt2e": start("gpt2e", "gpt2e").train_step,
            "gpt2e epochs": start("epochs", "gpt2e", memory_life="epochs").train_step,
        }
        large = make_corpus(vocabulary=GPT2_VOCABULARY)
        for precision in ("float32", "bfloat16"):
            params, name = make_params(precision=precision), f"50257 {precision}"
            sides[f"plain {name}"] = plain_step(large, GPT2_VOCABULARY, precision == "bfloat16")
            sides[f"gpt2 {name}"] = make_training(
                "gpt2", large, Path(folder) / name, params, GPT2_VOCABULARY
            ).train_step
        batched = {
            (window, streams): f"gpt2 B={streams} window {window}"
            for window in WINDOWS
            for streams in (1, 16)
        }
        for (window, streams), side in batched.items():
            sides[side] = start(side, "gpt2", documents_per_step=streams, window=window).train_step
        times = measure(sides)
        watch = time_run(start("run", "gpt2e", **rates))
    tokens = dict.fromkeys(sides, 8 * WINDOW) | {
        side: window * streams for (window, streams), side in batched.items()
    }
    speed = {side: [tokens[side] / t for t in values] for side, values in times.items()}
    for side, values in speed.items():
        print(f"{side:22s} {statistics.median(values):8,.0f} tokens/s")
    for one, other, target in (
        ("gpt2", "plain", "1.0"), ("gpt2 bf16", "plain", "1.8"),
        *((f"gpt2 50257 {precision}", f"plain 50257 {precision}", "1.0") for precision in ("float32", "bfloat16")),
        ("gpt2e", "gpt2", "0.8"), ("gpt2e epochs", "gpt2e", "0.95"),
        *((batched[window, 16], batched[window, 1], "3") for window in WINDOWS),
    ):  # fmt: skip
        ratio = statistics.median(a / b for a, b in zip(speed[one], speed[other], strict=True))
        print(f"{one} / {other}: {ratio:.2f} (target at least {target})")
    share = (
        statistics.median(speed[batched[WINDOW, 1]])
        * count_flops(ours.model, WINDOW, visible=0.5)[0]
        / measure_peak()
    )
    print(
        f"B=1 reaches {share:.0%} of a bare product's speed, so no batch of such windows can be"
        f" {1 / share:.1f} times as fast"
    )
    padded = np.mean([ours.plan[i].targets == IGNORED for i in range(STEPS)])
    print(f"padded positions: {padded:.1%} (target under 5 %)")
    show_overhead(watch)


if __name__ == "__main__":
    main()
