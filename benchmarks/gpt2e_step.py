"""GPT2E against transformers' GPT2LMHeadModel of the same size: time of a step, peak memory, share of the entity memory.

All variants take turns in one process, so that a busy machine slows them alike; a ratio is the median over the rounds of the ratio
within a round. GPT2-small's proportions (width 768, 12 heads; 12 layers to a vocabulary of 50,257) with fewer of both on a CPU.

    python benchmarks/gpt2e_step.py --threads 2
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel

from entity_transformers import EntityMemory, GPT2EConfig, GPT2EForCausalLM

TARGETS = {
    "training, a quarter of the pieces in mentions": 1.25,
    "training, no entities": 1.15,
    "inference, no entities": 1.10,
    "inference, a quarter of the pieces in mentions": None,
    "peak memory of training": 1.25,
}


@dataclass
class Case:
    """Models and one batch: pieces [B, T], entity ids [B, T] and the memory they read."""

    gpt2: PreTrainedModel
    gpt2e: GPT2EForCausalLM
    pieces: Tensor
    ids: Tensor
    memory: EntityMemory


def make_case(options: argparse.Namespace) -> Case:
    torch.manual_seed(0)
    shape = {
        "n_layer": options.layers, "vocab_size": options.vocabulary, "n_positions": options.window, "n_embd": options.width,
        "n_head": options.heads, "attn_pdrop": options.dropout, "embd_pdrop": options.dropout, "resid_pdrop": options.dropout,
        "bos_token_id": 0, "eos_token_id": 0, "use_cache": False,
    }  # fmt: skip
    size = (options.batch, options.window)
    mentioned = torch.rand(options.batch, options.window // 2) < 0.25
    ids = (torch.randint(1, options.entities + 1, mentioned.shape) * mentioned).repeat_interleave(2, dim=1)
    memory = EntityMemory(options.batch, options.entities, options.width, device=options.device)
    models = GPT2LMHeadModel(GPT2Config(**shape)), GPT2EForCausalLM(GPT2EConfig(**shape))
    gpt2, gpt2e = (model.to(options.device) for model in models)
    return Case(gpt2, gpt2e, torch.randint(options.vocabulary, size).to(options.device), ids.to(options.device), memory)


def make_training_step(model: PreTrainedModel, case: Case, entities: bool, autocast: bool) -> Callable[[], None]:
    """Forward, backward and AdamW; with entities also the memory's read and write."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    given: dict[str, Any] = {"entity_ids": case.ids, "memory": case.memory} if entities else {}

    def step() -> None:
        model.train()
        with torch.autocast(case.pieces.device.type, torch.bfloat16, enabled=autocast):
            hidden = model.transformer(case.pieces, **given).last_hidden_state
            logits = model.lm_head(hidden[:, :-1])
        torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), case.pieces[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
        if entities:
            case.memory.write(case.ids, hidden.detach().float())

    return step


def make_inference(model: PreTrainedModel, case: Case, entities: bool, autocast: bool) -> Callable[[], None]:
    """Logits of the whole batch."""
    given: dict[str, Any] = {"entity_ids": case.ids, "memory": case.memory} if entities else {}

    @torch.no_grad()
    def infer() -> None:
        model.eval()
        with torch.autocast(case.pieces.device.type, torch.bfloat16, enabled=autocast):
            model(case.pieces, **given)

    return infer


def measure(functions: dict[str, Callable[[], None]], rounds: int, synchronize: Callable[[], None]) -> dict[str, list[float]]:
    """Seconds of each function in each round, after two rounds that do not count."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for done in range(rounds + 2):
        for name, function in functions.items():
            synchronize()
            start = time.perf_counter()
            function()
            synchronize()
            if done >= 2:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def ratio(seconds: dict[str, list[float]], name: str, base: str) -> float:
    return median(a / b for a, b in zip(seconds[name], seconds[base], strict=True))


def count_bytes(model: PreTrainedModel, case: Case, entities: bool, autocast: bool) -> int:
    """Peak of a training step by counting: weights, gradients, two AdamW moments, and every tensor kept for the backward pass."""
    kept: dict[int, int] = {}
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    given: dict[str, Any] = {"entity_ids": case.ids, "memory": case.memory} if entities else {}
    device = case.pieces.device.type
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), torch.autocast(device, torch.bfloat16, enabled=autocast):
        loss = model.train()(case.pieces, labels=case.pieces, **given).loss
    assert loss.requires_grad
    return sum(kept.values()) + 16 * sum(parameter.numel() for parameter in model.parameters())


def count_multiplications(options: argparse.Namespace) -> dict[str, float]:
    """Multiply-adds of a piece, relative to GPT2's: the least that the ratios can be, if time were arithmetic alone."""
    width, window, layers = options.width, options.window, options.layers
    attention = window * width  # query times key and weights times value, of which the causal mask hides half
    gpt2 = layers * (12 * width**2 + attention) + options.vocabulary * width
    keys = min(options.entities + 1, window) / window * width**2
    merged = width**2 * min(2.0, 1 + width / (options.batch * window)) + 32 * width
    plain = 2 * width**2 + (2 * attention if options.dropout else 0)
    return {
        "training, a quarter of the pieces in mentions": 1 + layers * (3 * width**2 + keys + attention) / gpt2,
        "training, no entities": 1 + layers * (plain if options.dropout else merged) / gpt2,
        "inference, a quarter of the pieces in mentions": 1 + layers * (3 * width**2 + keys + attention) / gpt2,
        "inference, no entities": 1 + layers * merged / gpt2,
    }


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    case = make_case(options)
    synchronize = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    train = {
        "gpt2": make_training_step(case.gpt2, case, False, options.bf16),
        "training, a quarter of the pieces in mentions": make_training_step(case.gpt2e, case, True, options.bf16),
        "training, no entities": make_training_step(case.gpt2e, case, False, options.bf16),
    }
    infer = {
        "gpt2": make_inference(case.gpt2, case, False, options.bf16),
        "inference, a quarter of the pieces in mentions": make_inference(case.gpt2e, case, True, options.bf16),
        "inference, no entities": make_inference(case.gpt2e, case, False, options.bf16),
    }
    sizes = [sum(p.numel() for p in model.parameters()) for model in (case.gpt2, case.gpt2e)]
    mentioned = (case.ids > 0).float().mean().item()
    print(f"{options.layers} layers, width {options.width}, vocabulary {options.vocabulary}, {options.batch} x {options.window} pieces,")
    print(f"dropout {options.dropout}, {options.device}, {torch.get_num_threads()} threads, {'bf16' if options.bf16 else 'float32'},")
    print(f"{options.rounds} rounds; {mentioned:.0%} of pieces in mentions; weights {sizes[1] / sizes[0]:.3f} x GPT2's {sizes[0]:,}\n")
    print(f"{'':48s}{'ms':>9s}{'x GPT2':>9s}{'target':>8s}{'limit':>8s}")
    limits = count_multiplications(options)
    for kind, functions in (("training", train), ("inference", infer)):
        seconds = measure(functions, options.rounds, synchronize)
        print(f"{'GPT2, ' + kind:48s}{1000 * median(seconds['gpt2']):9.1f}")
        for name in list(functions)[1:]:
            print_row(name, f"{1000 * median(seconds[name]):.1f}", ratio(seconds, name, "gpt2"), limits[name])
        if kind == "training":
            step = median(seconds["training, a quarter of the pieces in mentions"])
    print_row(
        "peak memory of training", "", count_bytes(case.gpt2e, case, True, options.bf16) / count_bytes(case.gpt2, case, False, options.bf16)
    )
    hidden = torch.randn(*case.ids.shape, options.width, device=options.device)
    access = {"read": lambda: case.memory.read(case.ids), "write": lambda: case.memory.write(case.ids, hidden)}
    share = sum(median(times) for times in measure(access, 20, synchronize).values()) / step
    print(f"{'memory read and write, share of a step':48s}{'':9s}{share:9.2%}{'2%':>8s}")


def print_row(name: str, milliseconds: str, value: float, limit: float | None = None) -> None:
    target = TARGETS[name]
    print(
        f"{name:48s}{milliseconds:>9s}{value:9.3f}{'' if target is None else f'{target:.2f}':>8s}{'' if limit is None else f'{limit:.3f}':>8s}"
    )


def main() -> None:
    """Read the options and run once for each dropout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = {
        "layers": 3,
        "vocabulary": 12564,
        "width": 768,
        "heads": 12,
        "window": 512,
        "batch": 2,
        "entities": 30,
        "rounds": 7,
        "threads": 2,
    }
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    parser.add_argument(
        "--dropouts", type=float, nargs="+", default=[0.1, 0.0], help="dropout everywhere, one table each (default 0.1 and 0)"
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for dropout in options.dropouts:
        options.dropout = dropout
        run(options)
        print()


if __name__ == "__main__":
    main()
