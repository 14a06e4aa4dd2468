"""GPT2E against transformers' GPT2LMHeadModel of the same size: time of a step, peak memory, share
of the entity memory.

Ratios are given of wall and of CPU time. The proportions are GPT2-small's (width 768,
12 heads; 12 layers to a vocabulary of 50,257), with fewer layers and a smaller vocabulary on a CPU.

    python benchmarks/gpt2e_step.py --threads 2
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from common import Column, Report, Seconds, interleave, make_parser, milliseconds, ratios
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel

from entity_transformers.models.base import Batch
from entity_transformers.models.gpt2 import GPT2
from entity_transformers.models.gpt2e.lm import GPT2E
from entity_transformers.models.gpt2e.memory import EntityMemory
from entity_transformers.models.gpt2e.model import GPT2EConfig, GPT2EForCausalLM

TARGETS = {
    "training, a quarter of the tokens in mentions": 1.25,
    "training, no entities": 1.15,
    "inference, no entities": 1.10,
}
COLUMNS = {
    "time": Column("time", "ms"),
    "ratio": Column("time or bytes", "ratio", "GPT2"),
    "cpu": Column("CPU time", "ratio", "GPT2"),
    "share": Column("share", "%"),
}


@dataclass
class Case:
    """Models and one batch: tokens [B, T], entity ids [B, T] and the memory they read."""

    gpt2: GPT2
    gpt2e: GPT2E
    tokens: Tensor
    ids: Tensor
    memory: EntityMemory


def make_case(options: argparse.Namespace, dropout: float) -> Case:
    torch.manual_seed(0)
    shape = {
        "vocab_size": options.vocabulary,
        "n_positions": options.window,
        "n_embd": options.width,
        "n_layer": options.layers,
        "n_head": options.heads,
        **dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), dropout),
        "bos_token_id": 0,
        "eos_token_id": 0,
        "use_cache": False,
    }
    size = (options.batch, options.window)
    mentioned = torch.rand(options.batch, options.window // 2) < 0.25
    ids = (torch.randint(1, options.entities + 1, mentioned.shape) * mentioned).repeat_interleave(
        2, dim=1
    )
    memory = EntityMemory(options.batch, options.entities, options.width, device=options.device)
    gpt2 = GPT2LMHeadModel(GPT2Config(**shape)).to(options.device)
    gpt2e = GPT2EForCausalLM(GPT2EConfig(**shape)).to(options.device)
    return Case(
        GPT2(gpt2),
        GPT2E(gpt2e),
        torch.randint(options.vocabulary, size).to(options.device),
        ids.to(options.device),
        memory,
    )


def make_training_step(
    model: GPT2, case: Case, entities: bool, autocast: bool
) -> Callable[[], None]:
    """Forward, backward and AdamW; with entities also the memory's read and write."""
    optimizer = torch.optim.AdamW(model.module.parameters(), lr=1e-4, fused=True)
    batch = Batch(case.tokens, case.ids if entities else None)
    state = case.memory if entities else model.start(len(case.tokens))

    def step() -> None:
        nonlocal state
        model.module.train()
        with torch.autocast(case.tokens.device.type, torch.bfloat16, enabled=autocast):
            hidden, left = model.encode(batch, state)
            logits = model.module.lm_head(hidden[:, :-1])
        torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), case.tokens[:, 1:].flatten()
        ).backward()
        optimizer.step()
        optimizer.zero_grad()
        state = left.detach()

    return step


def make_inference(model: GPT2, case: Case, entities: bool, autocast: bool) -> Callable[[], None]:
    """Logits of the whole batch."""
    given: dict[str, Any] = {"entity_ids": case.ids, "memory": case.memory} if entities else {}

    @torch.no_grad()
    def infer() -> None:
        model.eval()
        with torch.autocast(case.tokens.device.type, torch.bfloat16, enabled=autocast):
            model.module(case.tokens, **given)

    return infer


def count_bytes(model: PreTrainedModel, case: Case, entities: bool, autocast: bool) -> int:
    """Peak of a training step by counting: weights, gradients, two AdamW moments, and every tensor
    kept for the backward pass.
    """
    kept: dict[int, int] = {}
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    given: dict[str, Any] = {"entity_ids": case.ids, "memory": case.memory} if entities else {}
    device = case.tokens.device.type
    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast(device, torch.bfloat16, enabled=autocast),
    ):
        loss = model.train()(case.tokens, labels=case.tokens, **given).loss
    assert loss.requires_grad
    return sum(kept.values()) + 16 * sum(parameter.numel() for parameter in model.parameters())


def run(options: argparse.Namespace, dropout: float, report: Report) -> None:
    """Measure one dropout's rows."""
    case = make_case(options, dropout)
    wait = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    step = Seconds()
    for kind, make in (("training", make_training_step), ("inference", make_inference)):
        mentions, nothing = f"{kind}, a quarter of the tokens in mentions", f"{kind}, no entities"
        sides = {
            "gpt2": make(case.gpt2, case, False, options.bf16),
            mentions: make(case.gpt2e, case, True, options.bf16),
            nothing: make(case.gpt2e, case, False, options.bf16),
        }
        times = interleave(sides, options.rounds, wait=wait)
        base, step = times["gpt2"], times[mentions] if kind == "training" else step
        report.row(f"dropout {dropout}: GPT2, {kind}", time=milliseconds(base.wall))
        for name in (mentions, nothing):
            report.row(
                f"dropout {dropout}: {name}",
                ratio=ratios(times[name].wall, base.wall),
                cpu=ratios(times[name].cpu, base.cpu),
                time=milliseconds(times[name].wall),
                at_most=TARGETS.get(name),
            )
    gpt2, gpt2e = (
        count_bytes(model.module, case, entities, options.bf16)
        for model, entities in ((case.gpt2, False), (case.gpt2e, True))
    )
    report.row(f"dropout {dropout}: peak memory of training", ratio=gpt2e / gpt2, at_most=1.25)
    hidden = torch.randn(*case.ids.shape, options.width, device=options.device)
    access = {
        "read": lambda: case.memory.read(case.ids),
        "write": lambda: case.memory.write(case.ids, hidden),
    }
    found = interleave(access, 20, wait=wait)
    spent = [
        read + write for read, write in zip(*(found[name].wall for name in access), strict=True)
    ]
    report.row(
        f"dropout {dropout}: memory read and write",
        share=100 * median(spent) / median(step.wall),
        time=milliseconds(spent),
        ratio_of="a training step with mentions",
        at_most=2,
    )


SIZES = {
    "layers": 3,
    "vocabulary": 12564,
    "width": 768,
    "heads": 12,
    "window": 512,
    "batch": 2,
    "entities": 30,
    "rounds": 7,
}


def main() -> None:
    """Read the options and measure each dropout."""
    parser = make_parser(__doc__, __file__, **SIZES)
    parser.add_argument(
        "--dropouts", type=float, nargs="+", default=[0.1, 0.0], help="default 0.1 and 0"
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    options = parser.parse_args()
    device = torch.cuda.get_device_name() if options.device == "cuda" else None
    report = Report(__doc__, COLUMNS, options, device=device)
    for dropout in options.dropouts:
        run(options, dropout, report)
    report.write()


if __name__ == "__main__":
    main()
