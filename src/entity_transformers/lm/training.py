"""The one training loop of GPT2, GPT2E and the controls (sections 3.2 and 4.1): the model is the only difference.

A step is one window of each of B documents side by side, each with its own memory: read at the start of the step, written
at its end, reset where a document begins. With ``memory_gradient_windows`` k > 0 a step is k + 1 windows in a row, for every
model, and the gradient flows through the memory between them.
"""

from __future__ import annotations

import contextlib
import math
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..corpus.alignment import AlignedCorpus
from ..corpus.windows import Window, WindowPlan
from ..params import LmParams
from .checkpoint import CheckpointStore, Snapshot, pack, pack_optimizer, pack_random_state, unpack, unpack_optimizer, unpack_random_state
from .loss import compute_loss
from .step import compute_hidden, new_memory, write_memory


class TrainingError(RuntimeError):
    """Training can't go on: a loss that is not finite, or a batch that does not fit the device."""


class TrainingStopped(Exception):  # noqa: N818 - not an error: the run goes on from its snapshot when it is called again
    """A signal or the time budget ended the run after its state was saved."""


@dataclass
class Progress:
    """Where a run stands: what a snapshot keeps beside the tensors."""

    step: int = 0
    pieces: int = 0
    loss_sum: float = 0.0
    loss_steps: int = 0
    interval_loss_sum: float = 0.0
    interval_steps: int = 0
    train_loss: float | None = None
    dev_loss_on: float | None = None
    dev_loss_off: float | None = None
    best_dev_loss: float | None = None
    best_step: int | None = None
    best_train_loss: float | None = None
    best_dev_loss_off: float | None = None
    skipped_steps: int = 0
    curve_rows: int = 0
    median_step_seconds: float | None = None
    validation_seconds: float | None = None


CurveRow = dict[str, float | int | str]
CURVE_COLUMNS = ("step", "pieces", "train_loss", "learning_rate", "dev_loss_on", "dev_loss_off")


def learning_rate(step: int, params: LmParams) -> float:
    """Rate of step ``step`` (0-based): linear warm-up, then constant or a cosine to 0 at the last step."""
    if step < params.warmup_steps:
        return params.learning_rate * (step + 1) / params.warmup_steps
    if params.schedule == "constant":
        return params.learning_rate
    done = (step - params.warmup_steps) / max(1, params.steps - params.warmup_steps)
    return params.learning_rate * 0.5 * (1 + math.cos(math.pi * done))


def make_optimizer(model: torch.nn.Module, params: LmParams) -> torch.optim.AdamW:
    """Fused AdamW; weight decay on matrices only, not on biases and layer norms."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": params.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=params.learning_rate, fused=True)


@dataclass
class Training:
    """One run: the model with its optimizer, memories and progress, on windows that depend on (corpus, seed, step) alone.

    ``corpus`` carries the labels that the model learns. ``validate`` gives the model's mean loss per piece on held-out text, with
    or without entities; it is called in evaluation mode.
    """

    model: Any
    corpus: AlignedCorpus
    validate: Callable[[Any, bool], float]
    params: LmParams
    seed: int
    store: CheckpointStore
    write_row: Callable[[int, CurveRow], None]
    log: Callable[[str], None] = lambda line: None
    progress: Progress = field(default_factory=Progress)
    step_seconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        params = self.params
        self.device = self.model.device
        self.windows_per_step = params.memory_gradient_windows + 1
        self.plan = WindowPlan(
            self.corpus, lanes=params.documents_per_step, window=params.window, windows=params.steps * self.windows_per_step, seed=self.seed
        )
        lanes = params.documents_per_step // params.accumulation
        self.memories = [new_memory(self.model, lanes, self.plan.rows) for _ in range(params.accumulation)]
        self.optimizer = make_optimizer(self.model, params)
        self.started = time.monotonic()
        torch.manual_seed(self.seed)
        if params.gradient_checkpointing:
            getattr(self.model, "activation_checkpointing_enable", self.model.gradient_checkpointing_enable)()
        if params.compile:
            self.model.transformer.compile()
        self._resume()

    def run(self) -> Progress:
        """Train to the last step; `TrainingStopped` if a signal or the time budget comes first, the state saved."""
        with caught_signals() as caught:
            while self.progress.step < self.params.steps:
                self.train_step()
                self._after_step()
                if (caught or self._out_of_time()) and self.progress.step < self.params.steps:
                    self._save()
                    reason = f"signal {caught[0]}" if caught else f"lm.max_minutes {self.params.max_minutes}"
                    raise TrainingStopped(f"{reason}: saved at step {self.progress.step} of {self.params.steps}; run again to go on")
        self._save()
        return self.progress

    def train_step(self) -> None:
        """One optimizer step; its mean loss per piece goes into ``progress``."""
        begin, progress, count = time.perf_counter(), self.progress, self.windows_per_step
        self.model.train()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(progress.step, self.params)
        windows = [self.plan[progress.step * count + i] for i in range(count)]
        loss = self._accumulate_gradients(windows)
        if not math.isfinite(loss):
            names = ", ".join(sorted({name for window in windows for name in window.documents}))
            raise TrainingError(f"step {progress.step}: loss {loss} on {names}: lower lm.learning_rate or set lm.clip_norm")
        progress.skipped_steps += not self._apply_gradients()
        progress.step += 1
        progress.pieces += sum(window.targets.size for window in windows)
        progress.loss_sum, progress.loss_steps = progress.loss_sum + loss, progress.loss_steps + 1
        progress.interval_loss_sum, progress.interval_steps = progress.interval_loss_sum + loss, progress.interval_steps + 1
        self.step_seconds.append(time.perf_counter() - begin)

    def _accumulate_gradients(self, windows: list[Window]) -> float:
        """Backward pass of the mean loss over all pieces of the step, one group of lanes after another; returns that loss."""
        total, lanes = sum(window.targets.size for window in windows), self.params.documents_per_step // self.params.accumulation
        loss = 0.0
        for group, memory in enumerate(self.memories):
            part = slice(group * lanes, (group + 1) * lanes)
            with self._memory_errors(lanes), torch.autocast(self.device.type, torch.bfloat16, enabled=self.params.precision == "bfloat16"):
                group_loss = torch.stack([self._window_loss(window, part, memory) for window in windows]).sum() / total
                group_loss.backward()
            if memory is not None:
                memory.detach()
            loss += group_loss.item()
        return loss

    def _window_loss(self, window: Window, part: slice, memory: Any) -> Tensor:
        """Sum of the losses of the lanes ``part``, whose memory is read first and written afterwards."""
        entities = None
        if memory is not None:
            memory.states = memory.states.masked_fill(self._tensor(window.new_rows[part])[..., None], 1.0)
            entities = self._tensor(window.entities[part]) if window.entities[part].any() else None
        positions = self._tensor(window.positions[part]) if window.packed else None
        hidden = compute_hidden(self.model, self._tensor(window.pieces[part]), entities, memory, positions)
        write_memory(self.model, memory, entities, hidden)
        return compute_loss(self.model, hidden, self._tensor(window.targets[part]))

    def _apply_gradients(self) -> bool:
        """Clip and step; a gradient that is not finite is dropped. Returns whether the weights moved."""
        limit = self.params.clip_norm or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit)
        finite = bool(torch.isfinite(norm))
        if finite:
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return finite

    def _after_step(self) -> None:
        progress, params = self.progress, self.params
        last = progress.step == params.steps
        validate = last or progress.step % params.validate_every == 0
        if validate or progress.step % max(1, params.validate_every // 10) == 0:
            self._write_curve(validate)
        if progress.step % params.checkpoint_every == 0 and not last:
            self._save()

    def _write_curve(self, validate: bool) -> None:
        progress = self.progress
        row: CurveRow = {"step": progress.step, "pieces": progress.pieces, "train_loss": progress.loss_sum / progress.loss_steps}
        row |= {"learning_rate": learning_rate(progress.step - 1, self.params), "dev_loss_on": "", "dev_loss_off": ""}
        progress.loss_sum, progress.loss_steps = 0.0, 0
        if validate:
            row |= {"dev_loss_on": self._validate(entities=True), "dev_loss_off": self._validate(entities=False)}
            self._note_validation(float(row["dev_loss_on"]), float(row["dev_loss_off"]))
        self.write_row(progress.curve_rows, row)
        progress.curve_rows += 1
        self.log(self._status(row))

    def _note_validation(self, on: float, off: float) -> None:
        progress = self.progress
        progress.train_loss = progress.interval_loss_sum / progress.interval_steps
        progress.interval_loss_sum, progress.interval_steps = 0.0, 0
        progress.dev_loss_on, progress.dev_loss_off = on, off
        if progress.best_dev_loss is None or on < progress.best_dev_loss:
            progress.best_dev_loss, progress.best_step = on, progress.step
            progress.best_train_loss, progress.best_dev_loss_off = progress.train_loss, off
            if self.params.final_weights == "best":
                self.store.save(progress.step, Snapshot(pack("model", self.model.state_dict()), {}), kind="best")

    def _validate(self, entities: bool) -> float:
        begin = time.perf_counter()
        loss = self.validate(self.model.eval(), entities)
        if entities:
            self.progress.validation_seconds = time.perf_counter() - begin
        return loss

    def _status(self, row: CurveRow) -> str:
        progress, recent = self.progress, self.step_seconds[-100:]
        seconds = sum(recent) / len(recent)
        pieces = self.params.documents_per_step * self.params.window * self.windows_per_step
        left = time.strftime("%H:%M:%S", time.gmtime(seconds * (self.params.steps - progress.step)))
        dev = f"  dev {row['dev_loss_on']:.4f} on {row['dev_loss_off']:.4f} off" if row["dev_loss_on"] != "" else ""
        return f"step {progress.step}/{self.params.steps}  loss {row['train_loss']:.4f}{dev}  {pieces / seconds:,.0f} pieces/s  {left} left"

    def _snapshot(self) -> Snapshot:
        memories = {str(i): memory.states for i, memory in enumerate(self.memories) if memory is not None}
        tensors = pack("model", self.model.state_dict()) | pack_optimizer(self.optimizer) | pack("memory", memories) | pack_random_state()
        return Snapshot(tensors, vars(self.progress).copy())

    def _save(self) -> None:
        if self.step_seconds:
            self.progress.median_step_seconds = statistics.median(self.step_seconds)
        self.store.save(self.progress.step, self._snapshot())
        self.store.keep_best(self.progress.best_step)

    def _resume(self) -> None:
        snapshot = self.store.latest()
        if snapshot is None:
            return
        self.progress = Progress(**snapshot.values)
        self.model.load_state_dict(unpack("model", snapshot.tensors))
        unpack_optimizer(self.optimizer, snapshot.tensors)
        for name, states in unpack("memory", snapshot.tensors).items():
            memory = self.memories[int(name)]
            assert memory is not None  # only runs with a memory save one
            memory.states = states.to(self.device)
        unpack_random_state(snapshot.tensors)
        self.log(f"going on from step {self.progress.step}")

    def load_final_weights(self) -> None:
        """Put the weights that the study goes on with into the model: those of the last step, or of the lowest dev loss."""
        best = self.progress.best_step
        if self.params.final_weights == "best" and best is not None:
            self.model.load_state_dict(unpack("model", self.store.at(best, "best").tensors))

    def _out_of_time(self) -> bool:
        minutes = self.params.max_minutes
        return minutes is not None and time.monotonic() - self.started > 60 * minutes

    @contextlib.contextmanager
    def _memory_errors(self, lanes: int) -> Iterator[None]:
        try:
            yield
        except torch.OutOfMemoryError as error:
            fit = f"lm.accumulation {self.params.accumulation * 2}" if lanes > 1 else f"lm.window {self.params.window // 2}"
            raise TrainingError(f"{lanes} windows of {self.params.window} pieces do not fit {self.device}: try {fit}") from error

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.device, non_blocking=True)


@contextlib.contextmanager
def caught_signals() -> Iterator[list[int]]:
    """SIGTERM and SIGINT are noted in the list instead of ending the process (in the main thread; elsewhere nothing is)."""
    caught: list[int] = []
    try:
        old = {number: signal.signal(number, lambda received, frame: caught.append(received)) for number in (signal.SIGTERM, signal.SIGINT)}
    except ValueError:
        old = {}
    try:
        yield caught
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
