"""GPT2E against transformers' GPT2LMHeadModel of the same size: time of a step, peak memory, share
of the entity memory.

All variants take turns in one process, so that a busy machine slows them alike. The ratios are
medians over the rounds of the ratio within a round: of wall time, and of this process's CPU time,
which other processes on the machine disturb less. The proportions are GPT2-small's (width 768, 12
heads; 12 layers to a vocabulary of 50,257), with fewer layers and a smaller vocabulary on a CPU.

    python benchmarks/gpt2e_step.py --threads 2
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel

from entity_transformers import EntityMemory, GPT2EConfig, GPT2EForCausalLM

TARGETS = {
    "training, a quarter of the tokens in mentions": "1.25",
    "training, no entities": "1.15",
    "inference, no entities": "1.10",
    "peak memory of training": "1.25",
    "memory read and write, share of a step": "2%",
}


@dataclass
class Case:
    """Models and one batch: tokens [B, T], entity ids [B, T] and the memory they read."""

    gpt2: PreTrainedModel
    gpt2e: GPT2EForCausalLM
    tokens: Tensor
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
    ids = (torch.randint(1, options.entities + 1, mentioned.shape) * mentioned).repeat_interleave(
        2, dim=1
    )
    memory = EntityMemory(options.batch, options.entities, options.width, device=options.device)
    models = GPT2LMHeadModel(GPT2Config(**shape)), GPT2EForCausalLM(GPT2EConfig(**shape))
    gpt2, gpt2e = (model.to(options.device) for model in models)
    return Case(
        gpt2,
        gpt2e,
        torch.randint(options.vocabulary, size).to(options.device),
        ids.to(options.device),
        memory,
    )


def make_training_step(
    model: PreTrainedModel, case: Case, entities: bool, autocast: bool
) -> Callable[[], None]:
    """Forward, backward and AdamW; with entities also the memory's read and write."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    given: dict[str, Any] = {"entity_ids": case.ids, "memory": case.memory} if entities else {}

    def step() -> None:
        model.train()
        with torch.autocast(case.tokens.device.type, torch.bfloat16, enabled=autocast):
            hidden = model.transformer(case.tokens, **given).last_hidden_state
            logits = model.lm_head(hidden[:, :-1])
        torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), case.tokens[:, 1:].flatten()
        ).backward()
        optimizer.step()
        optimizer.zero_grad()
        if entities:
            case.memory.write(case.ids, hidden.detach().float())

    return step


def make_inference(
    model: PreTrainedModel, case: Case, entities: bool, autocast: bool
) -> Callable[[], None]:
    """Logits of the whole batch."""
    given: dict[str, Any] = {"entity_ids": case.ids, "memory": case.memory} if entities else {}

    @torch.no_grad()
    def infer() -> None:
        model.eval()
        with torch.autocast(case.tokens.device.type, torch.bfloat16, enabled=autocast):
            model(case.tokens, **given)

    return infer


Times = dict[str, list[tuple[float, float]]]


def measure(
    functions: Mapping[str, Callable[[], Any]], rounds: int, synchronize: Callable[[], None]
) -> Times:
    """Wall and CPU seconds of each function in each round, after a round that does not count."""
    seconds: Times = {name: [] for name in functions}
    for done in range(rounds + 1):
        for name, function in functions.items():
            synchronize()
            wall, cpu = time.perf_counter(), time.process_time()
            function()
            synchronize()
            if done:
                seconds[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return seconds


def get_ratio(seconds: Times, name: str, clock: int) -> float:
    """Median over the rounds of the time against GPT2's, by ``clock`` 0 (wall) or 1 (CPU)."""
    return median(
        ours[clock] / base[clock] for ours, base in zip(seconds[name], seconds["gpt2"], strict=True)
    )


def get_milliseconds(seconds: Times, name: str) -> float:
    return 1000 * median(wall for wall, _ in seconds[name])


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


def count_multiplications(options: argparse.Namespace) -> dict[str, float]:
    """Multiply-adds of a token, relative to GPT2's: the least that the ratios can be, if time were
    arithmetic alone.
    """
    width, window, layers = options.width, options.window, options.layers
    # query times key and weights times value, of which the causal mask hides half
    attention = window * width
    gpt2 = layers * (12 * width**2 + attention) + options.vocabulary * width
    keys = min(options.entities + 1, window) / window * width**2
    merged = width**2 * min(2.0, 1 + width / (options.batch * window)) + 32 * width
    plain = 2 * width**2 + attention / 2
    return {
        "training, a quarter of the tokens in mentions": (
            1 + layers * (3 * width**2 + keys + attention) / gpt2
        ),
        "training, no entities": 1 + layers * (plain if options.dropout else merged) / gpt2,
        "inference, a quarter of the tokens in mentions": (
            1 + layers * (3 * width**2 + keys + attention) / gpt2
        ),
        "inference, no entities": 1 + layers * merged / gpt2,
    }


def run(options: argparse.Namespace) -> None:
    """Measure and print one table."""
    case = make_case(options)
    synchronize = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    print_head(case, options)
    limits, times = count_multiplications(options), {}
    for kind, make in (("training", make_training_step), ("inference", make_inference)):
        mentions, nothing = f"{kind}, a quarter of the tokens in mentions", f"{kind}, no entities"
        functions = {
            "gpt2": make(case.gpt2, case, False, options.bf16),
            mentions: make(case.gpt2e, case, True, options.bf16),
            nothing: make(case.gpt2e, case, False, options.bf16),
        }
        times[kind] = measure(functions, options.rounds, synchronize)
        print_row(f"GPT2, {kind}", f"{get_milliseconds(times[kind], 'gpt2'):.1f}")
        for name in (mentions, nothing):
            wall, cpu = (get_ratio(times[kind], name, clock) for clock in (0, 1))
            print_row(
                name,
                f"{get_milliseconds(times[kind], name):.1f}",
                f"{wall:.3f}",
                f"{cpu:.3f}",
                f"{limits[name]:.3f}",
            )
    peaks = [
        count_bytes(case.gpt2, case, False, options.bf16),
        count_bytes(case.gpt2e, case, True, options.bf16),
    ]
    print_row("peak memory of training", ratio=f"{peaks[1] / peaks[0]:.3f}")
    hidden = torch.randn(*case.ids.shape, options.width, device=options.device)
    access = {
        "read": lambda: case.memory.read(case.ids),
        "write": lambda: case.memory.write(case.ids, hidden),
    }
    found = measure(access, 20, synchronize)
    spent = sum(get_milliseconds(found, name) for name in found)
    step = get_milliseconds(times["training"], "training, a quarter of the tokens in mentions")
    print_row("memory read and write, share of a step", f"{spent:.1f}", f"{spent / step:.2%}")


def print_head(case: Case, options: argparse.Namespace) -> None:
    sizes = [sum(p.numel() for p in model.parameters()) for model in (case.gpt2, case.gpt2e)]
    mentioned = (case.ids > 0).float().mean().item()
    print(
        f"{options.layers} layers, width {options.width}, vocabulary {options.vocabulary},"
        f" {options.batch} x {options.window} tokens,"
    )
    print(
        f"dropout {options.dropout}, {options.device}, {torch.get_num_threads()} threads,"
        f" {'bf16' if options.bf16 else 'float32'},"
    )
    print(
        f"{options.rounds} rounds; {mentioned:.0%} of tokens in mentions; weights"
        f" {sizes[1] / sizes[0]:.3f} x GPT2's {sizes[0]:,}\n"
    )
    print(f"{'':48s}{'ms':>9s}{'x GPT2':>9s}{'CPU time':>9s}{'limit':>8s}{'target':>8s}")


def print_row(
    name: str, milliseconds: str = "", ratio: str = "", cpu: str = "", limit: str = ""
) -> None:
    print(f"{name:48s}{milliseconds:>9s}{ratio:>9s}{cpu:>9s}{limit:>8s}{TARGETS.get(name, ''):>8s}")


SIZES = {
    "layers": 3, "vocabulary": 12564, "width": 768, "heads": 12, "window": 512, "batch": 2, "entities": 30, "rounds": 7, "threads": 2,
}  # fmt: skip


def main() -> None:
    """Read the options and print one table for each dropout."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    parser.add_argument(
        "--dropouts",
        type=float,
        nargs="+",
        default=[0.1, 0.0],
        help="one table each (default 0.1 and 0)",
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
