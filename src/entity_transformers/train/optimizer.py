"""AdamW or gradient descent, its learning rate, and the step that uses a gradient or drops it."""

from __future__ import annotations

import math

import torch

from entity_transformers.kinds import LmParams

ENTITY = "entity_attn"
"""What the weights of GPT2E's entity attention have in their names."""
FACTOR = "factor"
"""Of a group of weights: its learning rate by that of the step."""


def learning_rate(step: int, params: LmParams) -> float:
    """Rate of step ``step`` (0-based): linear warm-up, then constant or a cosine to 0 at the last
    step.
    """
    if step < params.warmup_steps:
        return params.learning_rate * (step + 1) / params.warmup_steps
    if params.schedule == "constant":
        return params.learning_rate
    done = (step - params.warmup_steps) / max(1, params.steps - params.warmup_steps)
    return params.learning_rate * 0.5 * (1 + math.cos(math.pi * done))


def make_optimizer(model: torch.nn.Module, params: LmParams) -> torch.optim.Optimizer:
    """Fused AdamW, or plain gradient descent where the kind has an ``optimizer`` and it is asgd
    (`averaging` has the rest of it); weight decay on matrices only, not on biases and layer norms.
    Entity attention has ``entity_rate`` times the learning rate of the rest. Weights that need no
    gradient stay as they are.
    """
    rate = getattr(params, "entity_rate", 1.0)
    named = [
        (p, rate if ENTITY in name else 1.0)
        for name, p in model.named_parameters()
        if p.requires_grad
    ]
    groups = []
    for factor in sorted({factor for _, factor in named}):
        own = [p for p, its in named if its == factor]
        matrices, others = [p for p in own if p.dim() >= 2], [p for p in own if p.dim() < 2]
        groups += [
            {"params": matrices, "weight_decay": params.weight_decay, FACTOR: factor},
            {"params": others, "weight_decay": 0.0, FACTOR: factor},
        ]
    of = torch.optim.SGD if is_averaged(params) else torch.optim.AdamW
    return of(groups, lr=params.learning_rate, fused=True)


def is_averaged(params: LmParams) -> bool:
    """Is it averaged gradient descent (asgd)?"""
    return getattr(params, "optimizer", "adamw") == "asgd"


def apply_gradients(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int, params: LmParams
) -> bool:
    """Clip and move the weights by step ``step``; a gradient that is not finite is dropped. Returns
    whether they moved.
    """
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(step, params) * group[FACTOR]
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), params.clip_norm or math.inf)
    finite = bool(torch.isfinite(norm))
    if finite:
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return finite
