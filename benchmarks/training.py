"""Speed of the training loop, compared with a plain loop over GPT2LMHeadModel, and by precision and
number of streams (B).

4 layers, width 256, vocabulary 8,000, 256-token windows, batch 8. Also how much batching can give
at all: the share of a bare matrix product's speed that B = 1 reaches, and B = 16 against B = 1 in
shorter windows; and the loop against the plain one with GPT-2's vocabulary, where the loss is most
of a step. Then the share of padded positions.
"""

from __future__ import annotations

import functools
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from common import ROOT, SPEEDS, Column, Report, Sides, interleave, make_parser
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.kinds import KINDS, ModelEntry, resolve
from entity_transformers.models.base import IGNORED, build_model
from entity_transformers.models.gpt2 import shape
from entity_transformers.study.params import load
from entity_transformers.train.checkpoint import CheckpointStore
from entity_transformers.train.loop import Training

SAMPLE = load(ROOT / "studies/sample.yaml")
VOCABULARY, WINDOW = 8000, 256
GPT2_VOCABULARY = 50257
WINDOWS = (WINDOW, 64, 16)
STEPS = 4
COLUMNS = SPEEDS | {"share": Column("share", "%")}
SIZE = {
    "layers": 4, "heads": 4, "width": 256, "window": WINDOW, "documents_per_step": 8,
    "dropout": 0.0, "precision": "float32", "steps": 10_000, "warmup_steps": 0,
    "validate_every": 10_000, "learning_rate": 1e-4,
}  # fmt: skip


def draw_lengths(documents: int = 300) -> np.ndarray:
    """Tokens of documents as long as CoNLL-2012's parts, about 560 on average."""
    generator = np.random.default_rng(1)
    return np.maximum(32, generator.gamma(2.0, 280.0, documents).astype(np.int64))


def make_corpus(
    lengths: Sequence[int] | np.ndarray, vocabulary: int = VOCABULARY, entities: int = 39
) -> AlignedCorpus:
    """Random tokens in documents of these lengths, a quarter of them in mentions."""
    generator, total = np.random.default_rng(1), int(np.sum(lengths))
    inside = generator.random(total) < 0.25
    return AlignedCorpus(
        "train",
        tuple(map(str, range(len(lengths)))),
        ("",),
        tokens=generator.integers(1, vocabulary, total).astype(np.int32),
        gold=np.where(inside, generator.integers(1, entities + 1, total), 0).astype(np.int32),
        mentions=np.where(inside, np.cumsum(inside) - 1, -1).astype(np.int32),
        words=np.arange(total, dtype=np.int32),
        tags=np.zeros(total, np.uint16),
        bytes=np.ones(total, np.uint16),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
    )


def resize(entry: ModelEntry, **changes: Any) -> ModelEntry:
    """The entry with other values of its params."""
    return replace(entry, lm=type(entry.lm)(**(entry.lm.model_dump() | changes)))


def make_entry(kind: str, **changes: Any) -> ModelEntry:
    """An entry of that kind in the size of the comparison, given gold labels if it reads any."""
    given = {"labels": "gold"} if KINDS[kind].can & {"entities", "guided"} else {}
    entry = resolve(
        kind, {kind: {"kind": kind} | given}, SAMPLE.lm.model_dump(), SAMPLE.kinds, KINDS
    )
    return resize(entry, **(SIZE | changes))


def make_training(
    entry: ModelEntry,
    corpus: AlignedCorpus,
    folder: Path,
    vocabulary: int = VOCABULARY,
    *,
    device: torch.device | str = "cpu",
) -> Training:
    """A run as `train-lm` starts it: checkpoints below ``folder``, the log on stderr, a
    validation that costs nothing.
    """
    return Training(
        build_model(entry, vocabulary, 0, seed=1).to(device),
        give(corpus, entry.labels, 1),
        lambda model, labels: 0.0,
        entry.lm,
        1,
        CheckpointStore(folder / "checkpoints", SAMPLE.run.keep_checkpoints),
        400,
        log=functools.partial(print, file=sys.stderr),
    )


def plain_loop(
    model: nn.Module, lose: Callable[[Tensor], Tensor], draw: Callable[[], Tensor]
) -> Callable[[], None]:
    """A step of the usual loop, which the peers are trained by: AdamW and clipping."""
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=1e-4)

    def step() -> None:
        lose(draw()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def draw_windows(corpus: AlignedCorpus, rows: int, length: int) -> Callable[[], Tensor]:
    """Whole windows from anywhere, [rows, length]."""
    generator = np.random.default_rng(1)

    def draw() -> Tensor:
        starts = generator.integers(0, len(corpus.tokens) - length, rows)
        windows = [corpus.tokens[start : start + length] for start in starts]
        return torch.from_numpy(np.stack(windows).astype(np.int64))

    return draw


def plain_step(
    corpus: AlignedCorpus, vocabulary: int = VOCABULARY, autocast: bool = False
) -> Callable[[], None]:
    """The peer: transformers' model with its own activation and loss."""
    own = {"activation_function": GPT2Config().activation_function}
    model = GPT2LMHeadModel(GPT2Config(**(shape(make_entry("gpt2").lm, vocabulary, 0) | own)))

    def lose(tokens: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            return model(tokens, labels=tokens).loss

    return plain_loop(model, lose, draw_windows(corpus, 8, WINDOW))


def measure_peak(
    size: int = 2048,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    wait: Callable[[], object] = lambda: None,
) -> float:
    """FLOP a second of a bare product of two matrices, the best of several."""
    one, other = torch.rand(2, size, size, device=device, dtype=dtype)
    times = interleave({"product": lambda: torch.mm(one, other)}, 8, wait=wait)
    return 2 * size**3 / min(times["product"].wall)


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
    matrices = {name: p.numel() for name, p in model.named_parameters() if p.dim() == 2}
    weights = {name: size for name, size in matrices.items() if "wpe" not in name}
    added = {name: weights.pop(name) for name in list(weights) if "entity_attn" in name}
    share = {
        name: min(1.0, rows / window) if ".k_attn." in name or ".e_attn." in name else 1.0
        for name in added
    }
    return 6 * sum(weights.values()) + products, sum(
        6 * added[name] * share[name] for name in added
    ) + products * bool(added)


def make_sides(folder: Path) -> tuple[Sides, dict[str, int], Training]:
    """One step of every side, the tokens that it reads, and the run of GPT2."""
    corpus = make_corpus(draw_lengths())

    def start(side: str, name: str, **changes: Any) -> Training:
        return make_training(make_entry(name, **changes), corpus, folder / side)

    ours = start("gpt2", "gpt2")
    sides: Sides = {
        "plain": plain_step(corpus),
        "gpt2": ours.train_step,
        "gpt2 bf16": start("bf16", "gpt2", precision="bfloat16").train_step,
        "gpt2e": start("gpt2e", "gpt2e").train_step,
    }
    large = make_corpus(draw_lengths(), GPT2_VOCABULARY)
    for precision in ("float32", "bfloat16"):
        name = f"50257 {precision}"
        sides[f"plain {name}"] = plain_step(large, GPT2_VOCABULARY, precision == "bfloat16")
        entry = make_entry("gpt2", precision=precision)
        run = make_training(entry, large, folder / name, GPT2_VOCABULARY)
        sides[f"gpt2 {name}"] = run.train_step
    tokens = dict.fromkeys(sides, 8 * WINDOW)
    for window in WINDOWS:
        for streams in (1, 16):
            side = name_batch(streams, window)
            run = start(side, "gpt2", documents_per_step=streams, window=window)
            sides[side], tokens[side] = run.train_step, window * streams
    return sides, tokens, ours


def name_batch(streams: int, window: int) -> str:
    """The side of GPT2 with so many streams of such windows."""
    return f"gpt2 B={streams} window {window}"


def main() -> None:
    """Measure and print."""
    options = make_parser(__doc__, __file__, rounds=5).parse_args()
    report = Report(__doc__, COLUMNS, options)
    with tempfile.TemporaryDirectory() as folder:
        sides, tokens, ours = make_sides(Path(folder))
        times = interleave(sides, options.rounds, calls=STEPS)
    targets: list[tuple[str, str, float | None]] = [
        ("gpt2", "plain", 1.0), ("gpt2 bf16", "plain", 1.8),
        *((f"gpt2 50257 {p}", f"plain 50257 {p}", 1.0) for p in ("float32", "bfloat16")),
        ("gpt2e", "gpt2", 0.8),
        *((name_batch(16, window), name_batch(1, window), 3.0) for window in WINDOWS),
    ]  # fmt: skip
    report.speeds(times, tokens, targets)
    flops = count_flops(ours.model.module, WINDOW, visible=0.5)[0]
    alone = name_batch(1, WINDOW)
    share = tokens[alone] / median(times[alone].wall) * flops / measure_peak()
    report.row("FLOP/s of B=1", share=100 * share, ratio_of="a bare product's")
    report.row("upper bound for any B / B=1", ratio=1 / share, ratio_of=alone)
    padded = np.mean([ours.plan[i].targets == IGNORED for i in range(STEPS)])
    report.row("padded", share=100 * float(padded), ratio_of="all positions", at_most=5)
    report.write()


if __name__ == "__main__":
    main()
