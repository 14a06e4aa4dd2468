"""The streams of a step side by side: their states, what outlives a document, and the gradient of a
step over them.

Dimensions: B streams, R = entities + 1 rows of a stream's memory, C chains of the training split, W
width.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.windows import Window, WindowPlan
from entity_transformers.kinds import LmParams
from entity_transformers.kinds.params import GPT2EParams
from entity_transformers.models.base import IGNORED, Batch, LanguageModel
from entity_transformers.models.gpt2e.memory import EntityMemory
from entity_transformers.models.loss import compute_loss
from entity_transformers.train.checkpoint import TrainingError

SMALLER = "set lm.gradient_checkpointing to true, or lower lm.documents_per_step or lm.window"


class KeptStates:
    """What outlives a document (``memory_life: epochs``), to be given back when training reads it
    again: ``states`` [C + 1, W], each chain as the latest finished reading of its document left it,
    ones before the first; row 0 unused.

    A step gives back what was kept when it began, and keeps at its end what its documents left: of
    a chain that ended several times, in the last window and there in the last stream. 4 C W bytes.
    """

    def __init__(self, chains: int, width: int, device: torch.device) -> None:
        self.states = torch.ones(chains + 1, width, device=device)

    def begin(self, windows: Sequence[Window]) -> None:
        """A step of these windows begins."""
        ending = np.stack([window.ending for window in windows])
        window, stream, row = ending.nonzero()
        chain = ending[window, stream, row]
        ends = pd.DataFrame({"window": window, "stream": stream, "row": row, "chain": chain})
        self._ends = ends.drop_duplicates("chain", keep="last", ignore_index=True)
        self._left = self.states.new_zeros(len(self._ends), self.states.shape[1])

    def give_back(self, memory: EntityMemory, window: Window) -> EntityMemory:
        """The memory as the window begins: rows of documents that start in it as they were kept."""
        streams, rows = window.starting.nonzero()
        vectors = self.states[torch.from_numpy(window.starting[streams, rows])]
        return memory.put(torch.from_numpy(streams), torch.from_numpy(rows), vectors)

    def take(self, memory: EntityMemory, index: int) -> None:
        """Note the rows of the documents that ended in the step's window ``index``, as ``memory``
        holds them.
        """
        ends = self._ends[self._ends["window"] == index]
        streams, rows = torch.tensor(ends[["stream", "row"]].to_numpy()).T
        self._left[torch.tensor(ends.index.tolist(), dtype=torch.int64)] = memory.states.detach()[
            streams, rows
        ]

    def commit(self) -> None:
        """The step has ended: keep what was noted."""
        if len(self._ends):
            self.states[torch.tensor(self._ends["chain"].tolist())] = self._left


class Streams:
    """The streams and their states."""

    def __init__(self, model: LanguageModel, plan: WindowPlan, params: LmParams) -> None:
        self.model, self.params = model, params
        self.state: Any = model.start(params.documents_per_step, plan.rows)
        keeps = isinstance(params, GPT2EParams) and params.memory_life == "epochs"
        chains = int(plan.entities.sum())
        self.kept = KeptStates(chains, model.width, model.device) if keeps else None

    def accumulate_gradients(self, windows: list[Window]) -> float:
        """Backward pass of the mean loss over all targets of windows in a row, between which the
        state is handed on, or of what the model learns by instead; returns that loss.
        """
        # a step may hide nothing, where it is of documents without text
        tokens = max(1, sum(map(count_targets, windows)))
        device, autocast = self.model.device.type, self.params.precision == "bfloat16"
        if self.kept is not None:
            self.kept.begin(windows)
        what = f"{len(windows) * self.params.documents_per_step} windows"
        with (
            memory_errors(f"{what} of {self.params.window} tokens", device, SMALLER),
            torch.autocast(device, torch.bfloat16, enabled=autocast),
        ):
            if self.model.objective == "causal":
                loss, objective, state = self._read(windows)
            else:
                loss, state = sum_own_losses(self.model, windows, self.state, self.params)
                objective = None
            loss = loss / tokens
            (loss if objective is None else objective / tokens).backward()
        self.state = state.detach()
        if self.kept is not None:
            self.kept.commit()
        return loss.item()

    def _read(self, windows: list[Window]) -> tuple[Tensor, Tensor | None, Any]:
        """Sum of the losses over the windows, the sum that training minimises where it is another
        one, and the state that the last window leaves.
        """
        # of each window only the hidden states and the state are kept, the rest is computed again
        recompute = self.params.gradient_checkpointing and len(windows) > 1
        state, read, states = self.state, [], []
        for index, window in enumerate(windows):
            batch = show_batch(self.model, window, resets=self.kept is None)
            if self.kept is not None:
                state = self.kept.give_back(state, window)
            hidden, state = (
                checkpoint(self.model.encode, batch, state, use_reentrant=False)
                if recompute
                else self.model.encode(batch, state)
            )
            if self.kept is not None:
                self.kept.take(state, index)
            states.append(state)
            read.append(hidden)
        targets = _tensor(self.model, np.concatenate([window.targets for window in windows]))
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

    def tensors(self) -> dict[str, Tensor]:
        """The states of the streams, each [B, ...], and what is kept; empty without either."""
        kept = {} if self.kept is None else {"kept": self.kept.states}
        return {**self.state.tensors(), **kept}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Put what `tensors` gave back."""
        own = {name: tensor for name, tensor in tensors.items() if name != "kept"}
        self.state = self.state.replace(own)
        if self.kept is not None:
            self.kept.states = tensors["kept"].to(self.model.device)


def show_batch(model: LanguageModel, window: Window, resets: bool = True) -> Batch:
    """The window as the model reads it; ``resets``: a memory's rows begin anew with a document."""
    entities = model.can("entities")
    reads = window.entity_ids.any() and (entities or model.can("guided"))
    return Batch(
        _tensor(model, window.tokens),
        _tensor(model, window.entity_ids) if reads else None,
        positions=_tensor(model, window.positions) if window.packed else None,
        fresh=_tensor(model, window.new_rows) if entities and resets else None,
        begins=_tensor(model, window.begins) if model.context is None else None,
        more={name: _tensor(model, array) for name, array in window.more.items()},
    )


def _tensor(model: LanguageModel, array: np.ndarray) -> Tensor:
    return torch.from_numpy(array).to(model.device, non_blocking=True)


def sum_own_losses(
    model: LanguageModel, windows: list[Window], state: Any, params: LmParams
) -> tuple[Tensor, Any]:
    """Sum of the losses of the model's own objective over windows in a row, and the state that the
    last one leaves.
    """
    share = sum(map(count_targets, windows)) / sum(window.targets.size for window in windows)
    losses = []
    for window in windows:
        batch, targets = show_batch(model, window), _tensor(model, window.targets)
        loss, state = model.sum_losses(batch, targets, state, share, params)
        losses.append(loss)
    return torch.stack(losses).sum(), state


def show_window(
    model: LanguageModel, plan: WindowPlan, index: int, params: LmParams, seed: int
) -> Window:
    """Window ``index`` of the plan with what the model's objective draws there: it depends on
    (plan, seed, index) alone.
    """
    if model.objective == "causal":
        return plan[index]
    # a third number, because the plan draws its orders from [seed, epoch]
    return model.draw(plan[index], params, np.random.default_rng([seed, index, 1]))


def count_targets(window: Window) -> int:
    """The targets of a window that are predicted."""
    return int((window.targets != IGNORED).sum())


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


@torch.inference_mode()
def mean_objective(model: LanguageModel, corpus: AlignedCorpus, params: LmParams) -> float:
    """The model's own objective per target, over windows of a split that are made as in training
    and hold about as many tokens as it has; 0 for a split without tokens.

    Windows and draws are the same at every call, whatever the seed of the run is.
    """
    tokens = len(corpus.tokens) - len(corpus)
    streams = params.documents_per_step
    if not tokens:
        return 0.0
    count = max(1, round(tokens / (streams * params.window)))
    plan = WindowPlan(corpus, streams=streams, window=params.window, windows=count, seed=0)
    windows = [show_window(model, plan, index, params, 0) for index in range(count)]
    loss, _ = sum_own_losses(model, windows, model.start(streams, plan.rows), params)
    return loss.item() / max(1, sum(map(count_targets, windows)))
