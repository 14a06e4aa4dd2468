"""Pieces per second of the training loop, as ratios: against a plain loop over GPT2LMHeadModel, bf16, B = 16 against B = 1, memory_life.

4 layers, width 256, vocabulary 8,000, 256-piece windows, batch 8, two threads; sides run by turns in one process, medians. Also the
share of a step that is neither forward, backward nor optimizer, the share of padded positions, and how much batching can give at
all: the share of a bare matrix product's speed that B = 1 reaches, and B = 16 against B = 1 in shorter windows.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import GPT2LMHeadModel

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.lm.checkpoint import CheckpointStore
from entity_transformers.lm.models import build_config, build_model, label_corpus
from entity_transformers.lm.training import Training
from entity_transformers.params import load
from entity_transformers.sections import LmParams

ROOT = Path(__file__).resolve().parents[1]
VOCABULARY, WINDOW = 8000, 256
WINDOWS = (WINDOW, 64, 16)
ROUNDS, STEPS = 5, 4


def make_corpus(documents: int = 300, mentions: float = 0.25) -> AlignedCorpus:
    """Random pieces in documents as long as CoNLL-2012's parts (mean about 560 pieces), a quarter of them in mentions."""
    generator = np.random.default_rng(1)
    lengths = np.maximum(32, generator.gamma(2.0, 280.0, documents).astype(np.int64))
    total = int(lengths.sum())
    inside = generator.random(total) < mentions
    entities = np.where(inside, generator.integers(1, 40, total), 0).astype(np.int32)
    arrays = {
        "pieces": generator.integers(1, VOCABULARY, total).astype(np.int32),
        "entities": entities,
        "mentions": np.where(inside, 0, -1).astype(np.int32),
        "words": np.arange(total, dtype=np.int32),
        "tags": np.zeros(total, np.uint8),
        "bytes": np.ones(total, np.uint16),
    }
    names = tuple(map(str, range(documents)))
    return AlignedCorpus("train", names, ("",), offsets=np.concatenate([[0], np.cumsum(lengths)]), **arrays)


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
    return LmParams(**(values | size | {"validate_every": 400, "checkpoint_every": 400, "learning_rate": 1e-4} | changes))


def our_step(name: str, corpus: AlignedCorpus, folder: Path, **changes: Any) -> tuple[Callable[[], None], Training]:
    """One step of the loop, and the run it belongs to."""
    params = make_params(**changes)
    model = build_model(name, params, VOCABULARY, 0, seed=1)
    training = Training(
        model, label_corpus(corpus, name, 1), lambda model, entities: 0.0, params, 1, CheckpointStore(folder, 1), lambda index, row: None
    )
    return training.train_step, training


def plain_step(corpus: AlignedCorpus) -> Callable[[], None]:
    """The peer: transformers' model, its own loss, AdamW, whole windows."""
    model = GPT2LMHeadModel(build_config("gpt2", make_params(), VOCABULARY, 0)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    generator = np.random.default_rng(1)

    def step() -> None:
        starts = generator.integers(0, len(corpus.pieces) - WINDOW, 8)
        batch = torch.from_numpy(np.stack([corpus.pieces[s : s + WINDOW] for s in starts]).astype(np.int64))
        model(batch, labels=batch).loss.backward()
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


def measure_peak(size: int = 2048, rounds: int = 8) -> float:
    """FLOP a second of a bare product of two float32 matrices, the best of several."""
    one, other = torch.rand(size, size), torch.rand(size, size)
    return 2 * size**3 / min(seconds(lambda: torch.mm(one, other), 1) for _ in range(rounds))


def count_flops(training: Training) -> int:
    """FLOP of the matrix products of a training step for each piece: 6 a weight and attention's own (Kaplan et al., 2020)."""
    config, model = training.model.config, training.model
    weights = sum(p.numel() for name, p in model.named_parameters() if p.dim() == 2 and "wpe" not in name)
    return 6 * weights + 6 * config.n_layer * config.n_embd * training.params.window


def overhead(training: Training, core: list[float]) -> float:
    """Share of a step that is batching, memory and bookkeeping: what `plan[i]` and the memory's reset and write take."""
    start = time.perf_counter()
    for index in range(20):
        training.plan[index]
    return (time.perf_counter() - start) / 20 / statistics.median(core)


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(2)
    corpus = make_corpus()
    with tempfile.TemporaryDirectory() as name:
        ours, training = our_step("gpt2", corpus, Path(name) / "1")
        sides = {
            "plain": plain_step(corpus),
            "gpt2": ours,
            "gpt2 bf16": our_step("gpt2", corpus, Path(name) / "2", precision="bfloat16")[0],
            "gpt2e": our_step("gpt2e", corpus, Path(name) / "3")[0],
            "gpt2e epochs": our_step("gpt2e", corpus, Path(name) / "6", memory_life="epochs")[0],
        }
        batched = {(window, lanes): f"gpt2 B={lanes} window {window}" for window in WINDOWS for lanes in (1, 16)}
        for (window, lanes), side in batched.items():
            sides[side] = our_step("gpt2", corpus, Path(name) / side, documents_per_step=lanes, window=window)[0]
        times = measure(sides)
    pieces = dict.fromkeys(sides, 8 * WINDOW) | {side: window * lanes for (window, lanes), side in batched.items()}
    speed = {side: [pieces[side] / t for t in values] for side, values in times.items()}
    for side, values in speed.items():
        print(f"{side:22s} {statistics.median(values):8,.0f} pieces/s")
    for one, other, target in (
        ("gpt2", "plain", "1.0"), ("gpt2 bf16", "plain", "1.8"), ("gpt2e", "gpt2", "0.8"), ("gpt2e epochs", "gpt2e", "0.95"),
        *((batched[window, 16], batched[window, 1], "3") for window in WINDOWS),
    ):  # fmt: skip
        ratio = statistics.median(a / b for a, b in zip(speed[one], speed[other], strict=True))
        print(f"{one} / {other}: {ratio:.2f} (target at least {target})")
    share = statistics.median(speed[batched[WINDOW, 1]]) * count_flops(training) / measure_peak()
    print(f"B=1 reaches {share:.0%} of a bare product's speed, so no batch of such windows can be {1 / share:.1f} times as fast")
    print(
        f"batching: {100 * overhead(training, times['gpt2']):.2f} % of a step (target under 3 %); padded positions: 0 %, lanes have no gaps"
    )


if __name__ == "__main__":
    main()
