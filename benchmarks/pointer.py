"""The entity pointer against the models that it stands on, with 500 entities of two forms each in
the memory: a training step against GPT2E's, evaluation against GPT2's.

4 layers, width 256, vocabulary 8,000, 4 documents side by side in windows of 256 tokens, a quarter
of them in mentions. Reading, predicting and writing the memory are all in it, as in the steps that
train and score; a training step also has the optimizer's part.

    python benchmarks/pointer.py
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import training
from common import Column, Report, interleave, make_parser, milliseconds, ratios
from torch import Tensor

from entity_transformers.kinds import KINDS
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.models.gpt2e.memory import EntityMemory
from entity_transformers.models.pointer.memory import PointerMemory
from entity_transformers.models.registry import build_model
from entity_transformers.train.loss import compute_loss

COLUMNS = {
    "time": Column("time", "ms"),
    "cpu": Column("CPU time", "ratio"),
    "ratio": Column("wall time", "ratio"),
}
SIZES = {
    "layers": 4,
    "width": 256,
    "window": 256,
    "vocabulary": 8000,
    "batch": 4,
    "entities": 500,
    "rounds": 7,
}
TRAINING, EVALUATION = 1.15, 1.2
"""The most that a step may take of GPT2E's, and that evaluation may take of GPT2's."""


def fill(model: LanguageModel, options: argparse.Namespace) -> Any:
    """The memory after a long text: every entity known, by two forms of one and two tokens."""
    state = model.start(options.batch, options.entities)
    if isinstance(state, EntityMemory):
        return state.replace({"states": _vectors(state)})
    if not isinstance(state, PointerMemory):
        return state
    base = state.base
    if isinstance(base, EntityMemory):
        base = base.replace({"states": _vectors(base)})
    shape = (options.batch, options.entities)
    forms, count = state.forms.clone(), torch.ones_like(state.count)
    for rank in (0, 1):
        forms[:, 1:, rank, : rank + 1] = torch.randint(1, options.vocabulary, (*shape, rank + 1))
    count[:, 0] = 0
    return replace(
        state,
        base=base,
        keys=torch.randn_like(state.keys),
        forms=forms,
        count=count,
        seen=torch.randint(0, 4000, state.seen.shape),
        read=torch.full_like(state.read, 4096),
    )


def _vectors(memory: EntityMemory) -> Tensor:
    vectors = torch.randn_like(memory.states)
    vectors[:, 0] = 1
    return vectors


def draw_batch(options: argparse.Namespace) -> tuple[Batch, Tensor]:
    """A window, a quarter of its tokens in mentions of two tokens, and its targets."""
    size = (options.batch, options.window)
    tokens, targets = (torch.randint(1, options.vocabulary, size) for _ in range(2))
    mentioned = torch.rand(size[0], size[1] // 2) < 0.25
    ids = torch.randint(1, options.entities + 1, mentioned.shape) * mentioned
    return Batch(tokens, ids.repeat_interleave(2, 1)), targets


def make_step(
    model: LanguageModel, state: Any, batch: Batch, targets: Tensor
) -> Callable[[], None]:
    """Forward, backward and AdamW; each call begins with the same memory."""
    optimizer = torch.optim.AdamW(model.module.parameters(), lr=1e-6, fused=True)

    def step() -> None:
        model.module.train()
        if model.objective == "causal":
            hidden, _ = model.encode(batch, state)
            loss = compute_loss(model, hidden, targets)
        else:
            loss, _ = model.sum_losses(batch, targets, state, 1.0, None)
        (loss / targets.numel()).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def make_scoring(
    model: LanguageModel, state: Any, batch: Batch, targets: Tensor
) -> Callable[[], None]:
    """Nats of each token."""

    @torch.inference_mode()
    def score() -> None:
        hidden, _ = model.eval().encode(batch, state)
        model.nats(hidden, targets)

    return score


def run(options: argparse.Namespace, report: Report) -> None:
    """Measure training and evaluation."""
    torch.manual_seed(0)
    batch, targets = draw_batch(options)
    sizes = {name: getattr(options, name) for name in ("layers", "width", "window")}
    sizes["documents_per_step"] = options.batch
    kinds = ("gpt2", "gpt2e", "gpt2-pointer", "gpt2e-pointer")
    models = {
        kind: build_model(training.make_entry(kind, **sizes), options.vocabulary, 0, seed=1)
        for kind in kinds
    }
    states = {kind: fill(model, options) for kind, model in models.items()}
    for name, make, peer, limit in (
        ("training step", make_step, "gpt2e", TRAINING),
        ("evaluation", make_scoring, "gpt2", EVALUATION),
    ):
        sides = {
            kind: make(model, states[kind], batch, targets)
            for kind, model in models.items()
            if name == "evaluation" or kind != "gpt2"
        }
        times = interleave(sides, options.rounds)
        label = KINDS[peer].label
        report.row(f"{name}: {label}", time=milliseconds(times[peer].wall))
        for kind in (kind for kind in sides if kind != peer):
            report.row(
                f"{name}: {KINDS[kind].label}",
                cpu=ratios(times[kind].cpu, times[peer].cpu),
                ratio=ratios(times[kind].wall, times[peer].wall),
                time=milliseconds(times[kind].wall),
                ratio_of=label,
                **({"at_most": limit} if kind == "gpt2-pointer" else {}),
            )


def main() -> None:
    """Measure and write the figures."""
    options = make_parser(__doc__, __file__, **SIZES).parse_args()
    report = Report(__doc__, COLUMNS, options)
    run(options, report)
    report.write()


if __name__ == "__main__":
    main()
