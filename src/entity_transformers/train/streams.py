"""The streams that a process trains on: their memories, and the gradient of a step over them.

Dimensions: B streams of all processes, R = entities + 1 rows, W width.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from entity_transformers.corpus.windows import Window, WindowPlan
from entity_transformers.models.gpt2e.memory import EntityMemory
from entity_transformers.models.step import compute_hidden, has_memory, new_memory, write_memory
from entity_transformers.study.sections import LmParams
from entity_transformers.train.distributed import World
from entity_transformers.train.kept import KeptStates
from entity_transformers.train.loss import compute_loss
from entity_transformers.train.progress import TrainingError


class WindowLosses(nn.Module):
    """The model and its loss as one module, because DDP sees only what its own forward pass calls.

    ``recompute``: of each window only the hidden states and the memory are kept, the rest is
    computed again for its gradient.
    """

    def __init__(self, model: Any, recompute: bool = False) -> None:
        super().__init__()
        self.model, self.recompute = model, recompute

    def forward(
        self,
        windows: list[Window],
        part: slice,
        memory: EntityMemory | None,
        kept: KeptStates | None,
    ) -> Tensor:
        """Sum of the losses of the streams ``part`` over windows in a row, between which their
        memory is handed on.
        """
        hidden = torch.cat(
            [self._read(i, window, part, memory, kept) for i, window in enumerate(windows)]
        )
        return compute_loss(
            self.model,
            hidden,
            self._tensor(np.concatenate([window.targets[part] for window in windows])),
        )

    def _read(
        self,
        index: int,
        window: Window,
        part: slice,
        memory: EntityMemory | None,
        kept: KeptStates | None,
    ) -> Tensor:
        """Hidden states [streams, tokens, W] of one window; what it leaves in the memory is
        written.
        """
        entities = states = None
        if memory is not None:
            states = self._start_documents(memory.states, window, part, kept)
            entities = self._tensor(window.entities[part]) if window.entities[part].any() else None
        positions = self._tensor(window.positions[part]) if window.packed else None
        given = memory, states, self._tensor(window.tokens[part]), entities, positions
        hidden, states = (
            checkpoint(self._compute, *given, use_reentrant=False)
            if self.recompute
            else self._compute(*given)
        )
        if memory is not None and states is not None:
            memory.states = states
            if kept is not None:
                kept.take(states, index, part)
        return hidden

    def _compute(
        self,
        memory: EntityMemory | None,
        states: Tensor | None,
        tokens: Tensor,
        entities: Tensor | None,
        positions: Tensor | None,
    ) -> tuple[Tensor, Tensor | None]:
        """Hidden states of a window that reads a memory with the vectors ``states``, and the
        vectors it leaves; changes nothing.
        """
        if memory is not None and states is not None:
            memory = copy.copy(memory)
            memory.states = states
            if entities is not None:
                # before the device has work: `EntityMemory.write` would wait for all of the
                # window's
                memory.check(entities)
        hidden = compute_hidden(self.model, tokens, entities, memory, positions)
        write_memory(self.model, memory, entities, hidden)
        return hidden, None if memory is None else memory.states

    def _start_documents(
        self, states: Tensor, window: Window, part: slice, kept: KeptStates | None
    ) -> Tensor:
        if kept is not None:
            return kept.give_back(states, window, part)
        return states.masked_fill(self._tensor(window.new_rows[part])[..., None], 1.0)

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.model.device, non_blocking=True)


class Streams:
    """This process's share of the streams, in ``accumulation`` groups that are passed one after
    another, each with its memory.

    A number of streams that accumulation and processes do not divide raises ValueError.
    """

    def __init__(self, model: Any, plan: WindowPlan, params: LmParams, world: World) -> None:
        streams, passes = params.documents_per_step, params.accumulation * world.size
        if streams % passes:
            raise ValueError(
                f"lm.documents_per_step {streams} is not divisible by lm.accumulation"
                f" {params.accumulation} times {world.size} processes: change one of them"
            )
        self.model, self.params, self.world = model, params, world
        share, count = world.share(streams), streams // passes
        self.groups = [slice(start, start + count) for start in share[::count]]
        self.memories = [new_memory(model, count, plan.rows) for _ in self.groups]
        keeps = params.memory_life == "epochs" and has_memory(model)
        self.kept = KeptStates(plan.chains, model.config.n_embd, model.device) if keeps else None
        self._module: nn.Module | None = None

    def accumulate_gradients(self, windows: list[Window]) -> float:
        """Backward pass of the mean loss over all tokens of the step, one group of streams after
        another; returns that loss.

        DDP leaves the mean over the processes, so each multiplies its share of the loss by their
        number.
        """
        # wrapped late: DDP hands out the main process's weights, which by now are the resumed ones
        if self._module is None:
            # entity attention's queries and keys, where no token has an entity
            unused = has_memory(self.model)
            recompute = self.params.gradient_checkpointing and len(windows) > 1
            self._module = self.world.wrap(WindowLosses(self.model, recompute), unused)
        tokens, loss = sum(window.targets.size for window in windows) / self.world.size, 0.0
        if self.kept is not None:
            self.kept.begin(windows)
        for part, memory in zip(self.groups, self.memories, strict=True):
            loss += self._pass(self._module, windows, part, memory, tokens)
        if self.kept is not None:
            self.kept.commit(self.world)
        return self.world.sum_number(loss) / self.world.size

    def _pass(
        self,
        module: nn.Module,
        windows: list[Window],
        part: slice,
        memory: EntityMemory | None,
        tokens: float,
    ) -> float:
        device, autocast = self.model.device.type, self.params.precision == "bfloat16"
        synced = self.world.sync(module, now=part == self.groups[-1])
        with (
            self._memory_errors(),
            synced,
            torch.autocast(device, torch.bfloat16, enabled=autocast),
        ):
            loss = module(windows, part, memory, self.kept) / tokens
            loss.backward()
        if memory is not None:
            memory.detach()
        return loss.item()

    def state(self) -> dict[str, Tensor]:
        """Every process's memories in the order of the streams [B, R, W], and what is kept; empty
        without a memory. All processes call it.
        """
        memories = [memory.states for memory in self.memories if memory is not None]
        streams = {"streams": self.world.gather(torch.cat(memories))} if memories else {}
        return streams | ({"kept": self.kept.states} if self.kept is not None else {})

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Put the state of `state` back, whatever number of processes saved it."""
        for part, memory in zip(self.groups, self.memories, strict=True):
            if memory is not None:
                memory.states = state["streams"][part].to(self.model.device)
        if self.kept is not None:
            self.kept.states = state["kept"].to(self.model.device)

    def _memory_errors(self) -> contextlib.AbstractContextManager[None]:
        windows = (self.groups[0].stop - self.groups[0].start) * (
            self.params.memory_gradient_windows + 1
        )
        what = f"{windows} windows of {self.params.window} tokens"
        return memory_errors(
            what, self.model.device, f"try {suggest_smaller(self.params, self.world.size)}"
        )


def suggest_smaller(params: LmParams, processes: int) -> str:
    """Params of a smaller pass that are possible: fewer streams in it, or with one stream
    recomputed activations or a shorter window.
    """
    streams = params.documents_per_step // processes
    for groups in range(params.accumulation + 1, streams + 1):
        if streams % groups == 0:
            return f"lm.accumulation {groups}" + (
                " and lm.compile default" if params.compile == "reduce-overhead" else ""
            )
    shorter = f"lm.window {max(2, params.window // 2)}, with perplexity.stride at most that"
    return (
        shorter
        if params.gradient_checkpointing
        else f"lm.gradient_checkpointing true, or {shorter}"
    )


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
