"""AdamW, its learning rate, and the step that uses a gradient or drops it."""

from __future__ import annotations

import math

import torch

from entity_transformers.kinds import LmParams


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
    """Fused AdamW; weight decay on matrices only, not on biases and layer norms."""
    every = list(model.parameters())
    groups = [
        {"params": [p for p in every if p.dim() >= 2], "weight_decay": params.weight_decay},
        {"params": [p for p in every if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=params.learning_rate, fused=True)


def apply_gradients(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int, params: LmParams
) -> bool:
    """Clip and move the weights by step ``step``; a gradient that is not finite is dropped. Returns
    whether they moved.
    """
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(step, params)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), params.clip_norm or math.inf)
    finite = bool(torch.isfinite(norm))
    if finite:
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return finite
