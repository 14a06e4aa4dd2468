"""The streams that a process trains on: their states, and the gradient of a step over them.

Dimensions: B streams of all processes, R = entities + 1 rows, W width.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from entity_transformers.corpus.windows import Window, WindowPlan
from entity_transformers.kinds import LmParams
from entity_transformers.models.base import IGNORED, Batch, LanguageModel
from entity_transformers.models.loss import compute_loss
from entity_transformers.train.distributed import World
from entity_transformers.train.progress import TrainingError

SMALLER = "raise lm.accumulation, set lm.gradient_checkpointing to true, or lower lm.window"


class WindowLosses(nn.Module):
    """The model and its loss as one module, because DDP sees only what its own forward pass calls.

    ``recompute``: of each window only the hidden states and the state are kept, the rest is
    computed again for its gradient.
    """

    def __init__(self, model: LanguageModel, recompute: bool = False) -> None:
        super().__init__()
        self.module, self.model, self.recompute = model.module, model, recompute

    def forward(
        self, windows: list[Window], part: slice, state: Any
    ) -> tuple[Tensor, Tensor | None, Any]:
        """Sum of the losses of the streams ``part`` over windows in a row, between which their
        state is handed on, the sum that training minimises where it is another one, and the state
        that the last window leaves.
        """
        read, states = [], []
        for window in windows:
            batch = self._batch(window, part)
            hidden, state = (
                checkpoint(self.model.encode, batch, state, use_reentrant=False)
                if self.recompute
                else self.model.encode(batch, state)
            )
            states.append(state)
            read.append(hidden)
        targets = self._tensor(np.concatenate([window.targets[part] for window in windows]))
        loss = compute_loss(self.model, torch.cat(read), targets)
        return loss, self._find_objective(loss, states), state

    def _find_objective(self, loss: Tensor, states: list[Any]) -> Tensor | None:
        """The mean of ``loss`` and the backward half's, if the model has one, and the penalties of
        the windows that left ``states``; None where ``loss`` is all there is.
        """
        halves = [half for state in states if (half := getattr(state, "backward", None))]
        penalties = [getattr(state, "penalty", None) for state in states]
        objective = loss
        if halves:
            hidden, targets = (torch.cat(parts) for parts in zip(*halves, strict=True))
            objective = (objective + compute_loss(self.model, hidden, targets)) / 2
        if any(penalty is not None for penalty in penalties):
            objective = objective + torch.stack([p for p in penalties if p is not None]).sum()
        return None if objective is loss else objective

    def _batch(self, window: Window, part: slice) -> Batch:
        """The window of the streams ``part``."""
        labels, entities = window.entity_ids[part], self.model.can("entities")
        reads = labels.any() and (entities or self.model.can("guided"))
        return Batch(
            self._tensor(window.tokens[part]),
            self._tensor(labels) if reads else None,
            positions=self._tensor(window.positions[part]) if window.packed else None,
            fresh=self._tensor(window.new_rows[part]) if entities else None,
            begins=self._tensor(window.begins[part]) if self.model.context is None else None,
            more={name: self._tensor(array[part]) for name, array in window.more.items()},
        )

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.model.device, non_blocking=True)


class OwnLosses(WindowLosses):
    """The same with the model's own objective in the place of the next token's nats."""

    def __init__(self, model: LanguageModel, params: LmParams) -> None:
        super().__init__(model)
        self.params = params

    def forward(
        self, windows: list[Window], part: slice, state: Any
    ) -> tuple[Tensor, Tensor | None, Any]:
        share = sum(map(count_targets, windows)) / sum(window.targets.size for window in windows)
        losses = []
        for window in windows:
            batch = self._batch(window, part)
            targets = self._tensor(window.targets[part])
            loss, state = self.model.sum_losses(batch, targets, state, share, self.params)
            losses.append(loss)
        return torch.stack(losses).sum(), None, state


def show_window(
    model: LanguageModel, plan: WindowPlan, index: int, params: LmParams, seed: int
) -> Window:
    """Window ``index`` of the plan with what the model's objective draws there: it depends on
    (plan, seed, index) alone, not on which process reads which stream.
    """
    if model.objective == "causal":
        return plan[index]
    # a third number, because the plan draws its orders from [seed, epoch]
    return model.draw(plan[index], params, np.random.default_rng([seed, index, 1]))


def count_targets(window: Window) -> int:
    """The targets of a window that are predicted."""
    return int((window.targets != IGNORED).sum())


class Streams:
    """This process's share of the streams, in ``accumulation`` groups that are passed one after
    another, each with its state.

    A number of streams that accumulation and processes do not divide raises ValueError.
    """

    def __init__(
        self, model: LanguageModel, plan: WindowPlan, params: LmParams, world: World
    ) -> None:
        streams, passes = params.documents_per_step, params.accumulation * world.size
        if streams % passes:
            raise ValueError(
                f"lm.documents_per_step {streams} is not divisible by lm.accumulation"
                f" {params.accumulation} times {world.size} processes: change one of them"
            )
        self.model, self.params, self.world = model, params, world
        share, count = world.share(streams), streams // passes
        self.groups = [slice(start, start + count) for start in share[::count]]
        self.states = [model.start(count, plan.rows) for _ in self.groups]
        self._module: nn.Module | None = None

    def accumulate_gradients(self, windows: list[Window]) -> float:
        """Backward pass of the mean loss over all targets of the step, or of what the model learns
        by instead, one group of streams after another; returns that loss.

        DDP leaves the mean over the processes, so each multiplies its share of the loss by their
        number.
        """
        # wrapped late: DDP hands out the main process's weights, which by now are the resumed ones
        if self._module is None:
            # entity attention's queries and keys, where no token has an entity
            unused = self.model.can("entities")
            recompute = self.params.gradient_checkpointing and len(windows) > 1
            losses = (
                WindowLosses(self.model, recompute)
                if self.model.objective == "causal"
                else OwnLosses(self.model, self.params)
            )
            self._module = self.world.wrap(losses, unused)
        # a step may hide nothing, where it is of documents without text
        tokens, loss = max(1, sum(map(count_targets, windows))) / self.world.size, 0.0
        for group in range(len(self.groups)):
            loss += self._pass(self._module, windows, group, tokens)
        return self.world.sum(loss) / self.world.size

    def _pass(self, module: nn.Module, windows: list[Window], group: int, tokens: float) -> float:
        device, autocast = self.model.device.type, self.params.precision == "bfloat16"
        part, state = self.groups[group], self.states[group]
        synced = self.world.sync(module, now=part == self.groups[-1])
        with (
            memory_errors(self._describe_pass(), device, SMALLER),
            synced,
            torch.autocast(device, torch.bfloat16, enabled=autocast),
        ):
            loss, objective, state = module(windows, part, state)
            loss = loss / tokens
            (loss if objective is None else objective / tokens).backward()
        self.states[group] = state.detach()
        return loss.item()

    def _describe_pass(self) -> str:
        part = self.groups[0]
        windows = (part.stop - part.start) * (self.params.memory_gradient_windows + 1)
        return f"{windows} windows of {self.params.window} tokens"

    def state(self) -> dict[str, Tensor]:
        """Every process's states in the order of the streams, each [B, ...]; empty where there are
        none. All processes call it.
        """
        saved = [state.tensors() for state in self.states]
        device = self.model.device
        return {
            name: self.world.gather(torch.cat([tensors[name].to(device) for tensors in saved]))
            for name in saved[0]
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Put the state of `state` back, whatever number of processes saved it."""
        self.states = [
            old.replace({name: tensor[part] for name, tensor in state.items()})
            for part, old in zip(self.groups, self.states, strict=True)
        ]


@contextlib.contextmanager
def memory_errors(
    what: str,
    device: torch.device | str,
    advice: str = "free memory there, or lower lm.layers or lm.width",
) -> Iterator[None]:
    """Out of memory inside, on the CPU or on a device, is a TrainingError: ``what`` does not fit,
    and ``advice``.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise TrainingError(f"{what} do not fit {device}: {advice}") from error


def is_out_of_memory(error: Exception) -> bool:
    """The CPU's allocator and libraries of CUDA raise a plain RuntimeError."""
    signs = ("DefaultCPUAllocator", "out of memory", "ALLOC_FAILED")
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(
        sign in str(error) for sign in signs
    )
