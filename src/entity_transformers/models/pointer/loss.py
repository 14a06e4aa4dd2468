"""The mixture's training loss, whose gradient is made along with it, chunk by chunk, as
`train.loss` does without a pointer: no logits are kept or made twice.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from entity_transformers.models.base import IGNORED

CHUNK = 512
STRIP = 1_600_000
"""Logits that stay in a CPU's cache from the first operation to the last."""


def sum_mixture(
    states: Tensor, weight: Tensor, targets: Tensor, share: Tensor, copied: Tensor
) -> Tensor:
    """Sum of -log(exp(share) p_LM(target) + exp(copied)) over N tokens, a scalar.

    ``states`` [N, W], ``weight`` [V, W] the output matrix, ``targets`` int64 [N], -100 for none,
    ``share`` and ``copied`` float32 [N]. Products run in autocast's dtype where it is on. Its
    gradient can be taken once.
    """
    loss: Tensor = _SummedMixture.apply(states, weight, targets, share, copied)
    return loss


class _SummedMixture(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, targets: Tensor, share: Tensor, copied: Tensor
    ) -> Tensor:
        device = states.device.type
        autocast = torch.is_autocast_enabled(device)
        dtype = torch.get_autocast_dtype(device) if autocast else states.dtype
        with torch.autocast(device, enabled=False):
            total, *gradients = _walk(states.to(dtype), weight.to(dtype), targets, share, copied)
        inputs = states, weight, share, copied
        ctx.save_for_backward(*(g.to(of.dtype) for g, of in zip(gradients, inputs, strict=True)))
        return total

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        for_states, for_weight, for_share, for_copied = (g * upstream[0] for g in ctx.saved_tensors)
        return for_states, for_weight, None, for_share, for_copied


def _walk(
    states: Tensor, weight: Tensor, targets: Tensor, share: Tensor, copied: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The sum and its gradients by states, weight (float32), share and copied."""
    for_states = torch.empty_like(states)
    for_weight = torch.zeros_like(weight, dtype=torch.promote_types(weight.dtype, torch.float32))
    losses, parts = [], []
    rows = CHUNK if states.device.type == "cpu" else len(states)
    strip = max(1, STRIP // len(weight)) if states.device.type == "cpu" else rows
    columns = targets, share, copied
    for s, out, *rest in zip(
        *(x.split(max(1, rows)) for x in (states, for_states, *columns)), strict=True
    ):
        logits = s @ weight.T
        for few in zip(*(x.split(max(1, strip)) for x in (logits, *rest)), strict=True):
            loss, part = _differentiate(*few)
            losses.append(loss)
            parts.append(part)
        torch.mm(logits, weight, out=out)
        for_weight += logits.T @ s
    if not losses:
        return share.sum(), for_states, for_weight, share, copied
    part, counted = torch.cat(parts), targets != IGNORED
    return torch.cat(losses).sum(), for_states, for_weight, -part, (part - 1) * counted


def _differentiate(
    logits: Tensor, targets: Tensor, share: Tensor, copied: Tensor
) -> tuple[Tensor, Tensor]:
    """Each token's loss, and the part of p that is the model's, both 0 where there is no target;
    ``logits`` [n, V] become the loss's gradient by them.
    """
    counted, wanted = targets != IGNORED, targets.clamp(min=0)[:, None]
    values = logits.to(torch.promote_types(logits.dtype, torch.float32))
    values.sub_(values.amax(-1, keepdim=True))
    own = values.gather(-1, wanted)
    total = values.exp_().sum(-1, keepdim=True)
    said = share + (own - total.log())[:, 0]
    mixed = torch.logaddexp(said, copied)
    part = (said - mixed).exp() * counted
    values.mul_(part[:, None] / total).scatter_add_(-1, wanted, -part[:, None])
    if values is not logits:
        logits.copy_(values)
    return -mixed * counted, part
