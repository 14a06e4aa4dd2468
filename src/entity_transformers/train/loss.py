"""The training loss: a sum of cross-entropies whose gradient is made along with it, chunk by chunk.

Beside the model this is the largest part of a step: with 2,048 tokens and GPT-2's vocabulary the
logits alone are 412 MB in float32, and autograd keeps several such matrices. Here one chunk of them
exists at a time, none is computed twice, and on a CPU what is done to single logits is done strip
by strip, so that a strip stays in the cache from the first operation to the last.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from entity_transformers.models.base import IGNORED, LanguageModel

CHUNKS = {"cpu": 512}  # tokens whose logits are made at once
LARGE_CHUNK = 4096
STRIPS = {"cpu": 1_600_000}  # logits; elsewhere a strip is a whole chunk
# tensor cores want rows of bfloat16 logits that are a multiple of 8 long: 50,304 for GPT-2's 50,257
ALIGNED = {"cuda": 64}


def compute_loss(model: LanguageModel, hidden: Tensor, targets: Tensor) -> Tensor:
    """The sum of `LanguageModel.nats` for training: hidden states [batch, tokens, width], targets
    [batch, tokens].
    """
    return sum_losses(
        hidden.reshape(-1, hidden.shape[-1]),
        model.output_weight,
        targets.reshape(-1),
    )


def sum_losses(states: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """Sum of the negative log-likelihoods in nats, a float32 scalar, of ``targets`` [N] under the
    logits states @ weight.T.

    ``states`` [N, width], ``weight`` [vocabulary, width]; a target of -100 counts nothing. Products
    run in autocast's dtype where it is on, everything else in float32. Its gradient can be taken
    once, not differentiated again.
    """
    loss: Tensor = _SummedLoss.apply(states, weight, targets)
    return loss


class _SummedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        device = states.device.type
        dtype = (
            torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype
        )
        with torch.autocast(device, enabled=False):
            total, *gradients = _walk(
                states.to(dtype), weight.to(dtype), targets, any(ctx.needs_input_grad)
            )
        ctx.save_for_backward(
            *(g.to(of.dtype) for g, of in zip(gradients, (states, weight), strict=False))
        )
        return total

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor, None]:
        for_states, for_weight = ctx.saved_tensors
        return for_states * upstream[0], for_weight * upstream[0], None


def _walk(states: Tensor, weight: Tensor, targets: Tensor, gradient: bool) -> tuple[Tensor, ...]:
    """The sum and, where asked for, its gradients by ``states`` and (float32) ``weight``."""
    device = states.device.type
    chunk = CHUNKS.get(device, LARGE_CHUNK)
    strip = max(1, STRIPS[device] // len(weight)) if device in STRIPS else chunk
    vocabulary, total = len(weight), torch.zeros((), device=states.device)
    # the logits of further rows are 0, and what comes back for them is cut off
    if device in ALIGNED:
        weight = functional.pad(weight, (0, 0, 0, -vocabulary % ALIGNED[device]))
    for_states, for_weight = (
        torch.empty_like(states),
        (torch.zeros_like(weight, dtype=torch.float32) if gradient else None),
    )
    for s, t, out in zip(
        states.split(chunk), targets.split(chunk), for_states.split(chunk), strict=True
    ):
        logits = s @ weight.T
        for rows, wanted in zip(logits.split(strip), t.split(strip), strict=True):
            total += _differentiate(rows[:, :vocabulary], wanted, gradient)
        if for_weight is not None:
            torch.mm(logits, weight, out=out)
            for_weight += logits.T @ s
    return (total,) if for_weight is None else (total, for_states, for_weight[:vocabulary])


def _differentiate(logits: Tensor, targets: Tensor, gradient: bool) -> Tensor:
    """The sum of the losses; ``logits`` [n, vocabulary] become its gradient by them where asked
    for: softmax less target, 0 if ignored.
    """
    counted, wanted = (targets != IGNORED)[:, None], targets.clamp(min=0)[:, None]
    values = logits.float()
    values.sub_(values.amax(-1, keepdim=True))
    own = values.gather(-1, wanted)
    total = values.exp_().sum(-1, keepdim=True)
    if gradient:
        values.mul_(counted / total).scatter_add_(-1, wanted, -counted.to(values.dtype))
        if values is not logits:
            logits.copy_(values)
    return ((total.log() - own) * counted).sum()
