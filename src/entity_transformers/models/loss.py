"""Training losses: sums of cross-entropies whose gradient is made along with them, chunk by chunk.

Beside the model this is the largest part of a step: with 2,048 tokens and GPT-2's vocabulary the
logits alone are 412 MB in float32, and autograd keeps several such matrices. Here one chunk of them
exists at a time, none is computed twice, and on a CPU what is done to single logits is done strip
by strip, so that a strip stays in the cache from the first operation to the last. On a GPU they
can be compiled along with the model, into fewer passes over the logits.

Dimensions: N tokens, V vocabulary, W width; n tokens of a strip.
"""

from collections.abc import Callable
from functools import cache
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
    """The sum of `LanguageModel.nats` for training: hidden states [B, T, W], targets [B, T]."""
    states = hidden.reshape(-1, hidden.shape[-1])
    # a CPU's strips are in its cache anyway
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
    """Sum of the negative log-likelihoods in nats, a float32 scalar, of ``targets`` int64 [N] under
    p, the softmax of the logits states @ weight.T; or, with ``share`` and ``copied`` float32 [N],
    under exp(share) p + exp(copied).

    ``states`` [N, W], ``weight`` [V, W]; a target of -100 counts nothing. Products run in
    autocast's dtype where it is on, everything else in float32 at least. Its gradient can be taken
    once, not differentiated again. ``compiled``: torch compiles what is done to single logits.
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
        copied: Tensor | None,
        compiled: bool,
    ) -> Tensor:
        all_ours = torch.zeros(len(states), device=states.device)
        mixture = (all_ours, all_ours - 1e30) if share is None else (share, copied)
        wanted = any(ctx.needs_input_grad)
        differentiate = compile_once() if compiled else _differentiate
        found, *gradients = _walk(
            states, weight, targets, *mixture, gradient=wanted, differentiate=differentiate
        )
        losses, parts = zip(*found, strict=True)
        if share is None:
            total = torch.zeros((), device=states.device)
            for loss in losses:
                total += loss.sum()
        else:
            total, ours = torch.cat(losses).sum(), torch.cat(parts)
            gradients += [-ours, (ours - 1) * (targets != IGNORED)]
        ctx.save_for_backward(*gradients)
        return total

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        for_states, for_weight, *rest = (g * upstream[0] for g in ctx.saved_tensors)
        return for_states, for_weight, None, *(rest or (None, None)), None


def _walk(
    states: Tensor,
    weight: Tensor,
    targets: Tensor,
    *mixture: Any,
    gradient: bool,
    differentiate: Callable[..., tuple[Tensor, Tensor]],
) -> tuple[Any, ...]:
    """What `_differentiate` gives for each strip of logits, and the gradients by ``states`` and
    ``weight`` where asked for.
    """
    device, kinds, vocabulary = states.device.type, (states.dtype, weight.dtype), len(weight)
    if torch.is_autocast_enabled(device):
        states, weight = (x.to(torch.get_autocast_dtype(device)) for x in (states, weight))
    chunk = CHUNKS.get(device, LARGE_CHUNK)
    strip = max(1, STRIPS[device] // vocabulary) if device in STRIPS else chunk
    # the logits of further rows are 0, and what comes back for them is cut off
    if device in ALIGNED:
        weight = functional.pad(weight, (0, 0, 0, -vocabulary % ALIGNED[device]))
    found, for_states = [], torch.empty_like(states)
    for_weight = torch.zeros_like(weight, dtype=torch.promote_types(weight.dtype, torch.float32))
    with torch.autocast(device, enabled=False):
        for s, out, *rest in zip(
            *(x.split(chunk) for x in (states, for_states, targets, *mixture)), strict=True
        ):
            logits = s @ weight.T
            strips = (x.split(strip) for x in (logits, *rest))
            for rows, wanted, share, copied in zip(*strips, strict=True):
                rows = rows[:, :vocabulary]
                found.append(differentiate(rows, wanted, share, copied, gradient))
            if gradient:
                torch.mm(logits, weight, out=out)
                for_weight += logits.T @ s
    return found, for_states.to(kinds[0]), for_weight[:vocabulary].to(kinds[1])


@cache
def compile_once() -> Callable[..., tuple[Tensor, Tensor]]:
    """`_differentiate`, compiled."""
    return torch.compile(_differentiate, dynamic=True)


def _differentiate(
    logits: Tensor, targets: Tensor, share: Tensor, copied: Tensor, gradient: bool
) -> tuple[Tensor, Tensor]:
    """Each token's loss, and the part of what it is given that is the model's, both 0 where there
    is no target, float32 [n] at least; ``logits`` [n, V] become the loss's gradient by them where
    asked for: that part of softmax less target.
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
