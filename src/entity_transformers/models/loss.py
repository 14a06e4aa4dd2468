"""Training losses: sums of cross-entropies, computed chunk by chunk together with their gradients.

After the model itself this is the largest part of a step: with 2,048 tokens and GPT-2's vocabulary
the logits alone are 412 MB in float32, and autograd keeps several such matrices. Here only one
chunk of logits exists at a time and none is computed twice. On a CPU, operations on single logits
run strip by strip, so that a strip stays in the cache from the first operation to the last; on a
GPU, they can be compiled along with the model into fewer passes over the logits.

Dimensions: N tokens, V vocabulary, W width; n tokens of a strip.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from entity_transformers.models.base import IGNORED, LanguageModel

CHUNKS = {"cpu": 512}  # tokens whose logits are computed at once
LARGE_CHUNK = 4096
STRIPS = {"cpu": 1_600_000}  # logits per strip; on other devices a strip is a whole chunk
# tensor cores want bfloat16 rows of a multiple of 8 logits: GPT-2's 50,257 are padded to 50,304
ALIGNED = {"cuda": 64}


def compute_loss(model: LanguageModel, hidden: Tensor, targets: Tensor) -> Tensor:
    """Sum `LanguageModel.nats` for training: hidden states [B, T, W], targets [B, T]."""
    states = hidden.reshape(-1, hidden.shape[-1])
    # not on a CPU, where the strips stay in the cache anyway
    compiled = model.compiled and states.device.type != "cpu"
    return sum_losses(states, model.output_weight, targets.reshape(-1), compiled=compiled)


def sum_losses(
    states: Tensor,
    weight: Tensor,
    targets: Tensor,
    share: Tensor | None = None,
    copied: Tensor | None = None,
    compiled: bool = False,
) -> Tensor:
    """Sum the negative log-likelihoods in nats, a float32 scalar, of ``targets`` int64 [N] under p,
    the softmax of the logits states @ weight.T; or, with ``share`` and ``copied`` float32 [N],
    under the mixture exp(share) p + exp(copied).

    ``states`` [N, W], ``weight`` [V, W]; targets of -100 are ignored. Products run in autocast's
    dtype where it is on, everything else in float32 at least. The gradient can be taken once, but
    not differentiated again. ``compiled``: torch compiles the operations on single logits.
    """
    loss: Tensor = _SummedLoss.apply(states, weight, targets, share, copied, compiled)
    return loss


class _SummedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        targets: Tensor,
        share: Tensor | None,
        copied: Any,
        compiled: bool,
    ) -> Tensor:
        all_ours = torch.zeros(len(states), device=states.device)
        ours, copies = (all_ours, all_ours - 1e30) if share is None else (share, copied)
        needed = ctx.needs_input_grad
        how = {"gradient": any(needed), "head_learns": needed[1], "compiled": compiled}
        found, *gradients = _walk(states, weight, targets, ours, copies, **how)
        losses, parts = zip(*found, strict=True)
        if share is None:
            total = torch.zeros((), device=states.device)
            for loss in losses:
                total += loss.sum()
        else:
            total, part = torch.cat(losses).sum(), torch.cat(parts)
            gradients += [-part, (part - 1) * (targets != IGNORED)]
        ctx.save_for_backward(*gradients)
        return total

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        for_states, for_weight, *rest = (None if g is None else g * upstream[0] for g in saved)
        return for_states, for_weight, None, *(rest or (None, None)), None


def _walk(
    states: Tensor,
    weight: Tensor,
    targets: Tensor,
    share: Tensor,
    copied: Tensor,
    gradient: bool,
    head_learns: bool,
    compiled: bool,
) -> tuple[list[tuple[Tensor, Tensor]], Tensor, Tensor | None]:
    """Return the results of `_differentiate` for each strip of logits, then the gradients with
    respect to ``states``, valid only with ``gradient``, and to ``weight``, if that learns.
    """
    differentiate = compile_once() if compiled else _differentiate
    device, kinds, vocabulary = states.device.type, (states.dtype, weight.dtype), len(weight)
    if torch.is_autocast_enabled(device):
        states, weight = (x.to(torch.get_autocast_dtype(device)) for x in (states, weight))
    chunk = CHUNKS.get(device, LARGE_CHUNK)
    strip = max(1, STRIPS[device] // vocabulary) if device in STRIPS else chunk
    # the padding's logits are 0 and left out of the loss, and its gradient is cut off
    if device in ALIGNED:
        weight = functional.pad(weight, (0, 0, 0, -vocabulary % ALIGNED[device]))
    found, for_states = [], torch.empty_like(states)
    kind = torch.promote_types(weight.dtype, torch.float32)
    for_weight = torch.zeros_like(weight, dtype=kind) if head_learns else None
    with torch.autocast(device, enabled=False):
        chunks = (x.split(chunk) for x in (states, for_states, targets, share, copied))
        for s, out, *rest in zip(*chunks, strict=True):
            logits = s @ weight.T
            strips = (x.split(strip) for x in (logits, *rest))
            for rows, wanted, ours, copies in zip(*strips, strict=True):
                found.append(differentiate(rows[:, :vocabulary], wanted, ours, copies, gradient))
            if gradient:
                torch.mm(logits, weight, out=out)
            if for_weight is not None:
                for_weight += logits.T @ s
    of_weight = None if for_weight is None else for_weight[:vocabulary].to(kinds[1])
    return found, for_states.to(kinds[0]), of_weight


@cache
def compile_once() -> Callable[..., tuple[Tensor, Tensor]]:
    return torch.compile(_differentiate, dynamic=True)


def _differentiate(
    logits: Tensor, targets: Tensor, share: Tensor, copied: Tensor, gradient: bool
) -> tuple[Tensor, Tensor]:
    """Return each token's loss and the model's part of the target's probability, both 0 where there
    is no target, float32 [n] at least. With ``gradient``, the loss's gradient with respect to
    ``logits`` [n, V] replaces them: that part times softmax less target.
    """
    counted, wanted = targets != IGNORED, targets.clamp(min=0)[:, None]
    values = logits.to(torch.promote_types(logits.dtype, torch.float32))
    values.sub_(values.amax(-1, keepdim=True))
    own = values.gather(-1, wanted)
    total = values.exp_().sum(-1, keepdim=True)
    said = share + (own - total.log())[:, 0]
    mixed = torch.logaddexp(said, copied)
    part = (said - mixed).exp() * counted
    if gradient:
        values.mul_(part[:, None] / total).scatter_add_(-1, wanted, -part[:, None])
        if values is not logits:
            logits.copy_(values)
    return -mixed * counted, part
