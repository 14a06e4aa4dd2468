"""The one training loop of GPT2, GPT2E and the controls (sections 3.2 and 4.1): the model is the
only difference.

A step is one window of each of B documents side by side, each with its own memory: read at the
start of the step, written at its end, reset where a document begins. With
``memory_gradient_windows`` k > 0 a step is k + 1 windows in a row, for every model, and the
gradient flows through the memory between them.
"""

from __future__ import annotations

import contextlib
import math
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.windows import Window, WindowPlan
from entity_transformers.kinds import LmParams
from entity_transformers.models.base import LanguageModel
from entity_transformers.train.checkpoint import (
    CheckpointStore,
    CurveRow,
    Progress,
    Snapshot,
    TrainingError,
    pack,
    pack_optimizer,
    random_states,
    set_random_states,
    unpack,
    unpack_optimizer,
)
from entity_transformers.train.streams import Streams, memory_errors, show_window

CALMER = "lower lm.learning_rate or set lm.clip_norm"


# not an error: the run goes on from its snapshot when it is called again
class TrainingStopped(Exception):  # noqa: N818
    """A signal or the time budget ended the run after its state was saved."""


@dataclass
class Training:
    """One run: the model with its optimizer, memories and progress, on windows that depend on
    (corpus, seed, step) alone.

    ``corpus`` carries the labels that the model learns. ``validate`` gives the model's mean loss
    per token on held-out text, with the labels that it is given or without; it is called in
    evaluation mode. ``store`` is saved to each ``checkpoint_every`` steps, and after the last one.
    ``max_minutes``: save and stop after so many. ``started`` is when this life of the run began
    (time.monotonic).
    """

    model: LanguageModel
    corpus: AlignedCorpus
    validate: Callable[[LanguageModel, bool], float]
    params: LmParams
    seed: int
    store: CheckpointStore
    checkpoint_every: int
    write_row: Callable[[int, CurveRow], str]
    log: Callable[[str], None] = lambda line: None
    max_minutes: float | None = None
    started: float = field(default_factory=time.monotonic)
    progress: Progress = field(default_factory=Progress)
    step_seconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        params = self.params
        self.device, self.best = self.model.device, dict[str, torch.Tensor]()
        self.windows_per_step = params.memory_gradient_windows + 1
        self.plan = WindowPlan(
            self.corpus,
            streams=params.documents_per_step,
            window=params.window,
            windows=params.steps * self.windows_per_step,
            seed=self.seed,
        )
        self.streams = Streams(self.model, self.plan, params)
        self.optimizer = make_optimizer(self.model.module, params)
        torch.manual_seed(self.seed)
        # else window by window, in `Streams`
        own = self.model.objective != "causal"
        if params.gradient_checkpointing and (own or self.windows_per_step == 1):
            self.model.checkpoint_activations()
        if params.attention == "flex" and self.device.type != "cpu":
            self.model.attend_packed()
        if params.compile != "off":
            self.model.compile(params.compile)
        if (snapshot := self.store.latest()) is not None:
            self._load(snapshot)
        self.earlier_seconds = self.progress.seconds

    def run(self, caught: list[int] | None = None) -> Progress:
        """Train to the last step; `TrainingStopped` if a signal or the time budget comes first, the
        state saved.

        ``caught``: the list of a `caught_signals` that this is called in; a signal that is there
        already counts after one step.
        """
        with caught_signals(caught) as caught:
            while self.progress.step < self.params.steps:
                self.train_step()
                self._after_step()
                self._stop_if_asked(caught)
        self._save()
        return self.progress

    def _stop_if_asked(self, caught: list[int]) -> None:
        late, progress = self._out_of_time(), self.progress
        if (caught or late) and progress.step < self.params.steps:
            self._save()
            reason = f"signal {caught[0]}" if caught else f"run.max_minutes {self.max_minutes}"
            raise TrainingStopped(
                f"{reason}: saved at step {progress.step} of {self.params.steps}; run again to"
                " go on"
            )

    def train_step(self) -> None:
        """One optimizer step; its mean loss per token goes into ``progress``."""
        begin, progress, count = time.perf_counter(), self.progress, self.windows_per_step
        if not self.model.module.training:
            self.model.module.train()
        windows = [self.window(progress.step * count + i) for i in range(count)]
        loss = self.streams.accumulate_gradients(windows)
        if not math.isfinite(loss):
            names = ", ".join(sorted({name for window in windows for name in window.documents}))
            raise TrainingError(f"step {progress.step + 1}: loss {loss} on {names}: {CALMER}")
        with memory_errors(f"{type(self.optimizer).__name__}'s states", self.device):
            moved = apply_gradients(self.model.module, self.optimizer, progress.step, self.params)
        progress.add_step(loss, sum(window.targets.size for window in windows), moved)
        self.step_seconds.append(time.perf_counter() - begin)

    def window(self, index: int) -> Window:
        """The window of the plan as the model's objective shows it: a pure function of (corpus,
        seed, index), as the plan itself.
        """
        return show_window(self.model, self.plan, index, self.params, self.seed)

    def _after_step(self) -> None:
        progress, params = self.progress, self.params
        last = progress.step == params.steps
        validate = last or progress.step % params.validate_every == 0
        if validate or progress.step % max(1, params.validate_every // 10) == 0:
            self._write_curve(validate)
        if progress.step % self.checkpoint_every == 0 and not last:
            self._save()

    def _write_curve(self, validate: bool) -> None:
        progress = self.progress
        row: CurveRow = {
            "step": progress.step,
            "tokens": progress.tokens,
            "train_loss": progress.take_train_loss(),
            "learning_rate": learning_rate(progress.step - 1, self.params),
            "dev_loss_on": "",
            "dev_loss_off": "",
        }
        if validate:
            row |= self._compare()
        progress.curve_digest = self.write_row(progress.curve_rows, row)
        progress.curve_rows += 1
        self.log(self._status(row))

    def _compare(self) -> CurveRow:
        """Validate the weights as they stand, and keep them where they are the best so far."""
        progress, on = self.progress, self._validate(labels=True)
        off = self._validate(labels=False) if self.model.can("entities") else on
        if progress.add_validation(on, off) and self.params.final_weights == "best":
            self.best = pack("best", self.model.module.state_dict())
        return {"dev_loss_on": on, "dev_loss_off": off}

    def _validate(self, labels: bool) -> float:
        """The held-out loss, never compiled: its windows have too many shapes. One that is not
        finite raises TrainingError.
        """
        begin, compiled = time.perf_counter(), self.params.compile != "off"
        eager = torch.compiler.set_stance("force_eager") if compiled else contextlib.nullcontext()
        with eager, memory_errors("the windows of a validation", self.device):
            loss = self.validate(self.model.eval(), labels)
        if not math.isfinite(loss):
            raise TrainingError(
                f"step {self.progress.step}: held-out loss {loss} with entities"
                f" {'on' if labels else 'off'}: {CALMER}"
            )
        if labels:
            self.progress.validation_seconds = time.perf_counter() - begin
        return loss

    def _status(self, row: CurveRow) -> str:
        progress, recent = self.progress, self.step_seconds[-100:]
        seconds = sum(recent) / len(recent)
        tokens = self.params.documents_per_step * self.params.window * self.windows_per_step
        left = time.strftime("%H:%M:%S", time.gmtime(seconds * (self.params.steps - progress.step)))
        dev = (
            f"  dev {row['dev_loss_on']:.4f} on {row['dev_loss_off']:.4f} off"
            if row["dev_loss_on"] != ""
            else ""
        )
        return (
            f"step {progress.step}/{self.params.steps}  loss {row['train_loss']:.4f}{dev} "
            f" {tokens / seconds:,.0f} tokens/s  {left} left"
        )

    def _snapshot(self) -> Snapshot:
        tensors = pack("model", self.model.module.state_dict()) | pack_optimizer(self.optimizer)
        tensors |= pack("memory", self.streams.tensors())
        tensors |= pack("random", random_states(self.device)) | self.best
        return Snapshot(tensors, replace(self.progress))

    def _save(self) -> None:
        self.progress.seconds = self.seconds()
        if self.step_seconds:
            self.progress.median_step_seconds = statistics.median(self.step_seconds)
        self.store.save(self.progress.step, self._snapshot())

    def _load(self, snapshot: Snapshot) -> None:
        self.progress = snapshot.progress
        self.model.module.load_state_dict(unpack("model", snapshot.tensors))
        unpack_optimizer(self.optimizer, snapshot.tensors)
        self.streams.load(unpack("memory", snapshot.tensors))
        self.best = {n: own for n, own in snapshot.tensors.items() if n.startswith("best/")}
        set_random_states(unpack("random", snapshot.tensors), self.device)
        self.log(f"going on from step {self.progress.step}")

    def load_final_weights(self) -> None:
        """Put the weights that the study goes on with into the model: those of the last step, or of
        the lowest dev loss.
        """
        if self.best:
            self.model.module.load_state_dict(unpack("best", self.best))

    def seconds(self) -> float:
        """Seconds of all lives of the run so far; of one that was killed those up to its last
        snapshot.
        """
        return self.earlier_seconds + time.monotonic() - self.started

    def _out_of_time(self) -> bool:
        minutes = self.max_minutes
        return minutes is not None and time.monotonic() - self.started > 60 * minutes


@contextlib.contextmanager
def caught_signals(caught: list[int] | None = None) -> Iterator[list[int]]:
    """SIGTERM and SIGINT are noted in the list instead of ending the process (in the main thread;
    elsewhere nothing is).
    """
    caught = [] if caught is None else caught
    try:
        old = {
            number: signal.signal(number, lambda received, frame: caught.append(received))
            for number in (signal.SIGTERM, signal.SIGINT)
        }
    except ValueError:
        old = {}
    try:
        yield caught
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


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


def make_optimizer(model: nn.Module, params: LmParams) -> torch.optim.Optimizer:
    """Fused AdamW with weight decay on matrices only, not on biases and layer norms."""
    every = list(model.parameters())
    groups = [
        {"params": [p for p in every if p.dim() >= 2], "weight_decay": params.weight_decay},
        {"params": [p for p in every if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=params.learning_rate, fused=True)


def apply_gradients(
    model: nn.Module, optimizer: torch.optim.Optimizer, step: int, params: LmParams
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
