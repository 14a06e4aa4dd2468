"""The one training loop of GPT2, GPT2E and the controls (sections 3.2 and 4.1): the model is the
only difference.

A step is one window of each of B documents side by side, each with its own memory: read at the
start of the step, written at its end, reset where a document begins. With
``memory_gradient_windows`` k > 0 a step is k + 1 windows in a row, for every model, and the
gradient flows through the memory between them.
"""

import contextlib
import math
import signal
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from entity_transformers import runtime
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.windows import Window, WindowPlan
from entity_transformers.kinds import LmParams
from entity_transformers.kinds.params import GPT2EParams, LSTMParams
from entity_transformers.models.base import IGNORED, Batch, LanguageModel
from entity_transformers.models.gpt2e.memory import EntityMemory
from entity_transformers.models.loss import compute_loss
from entity_transformers.train.averaging import Averaging
from entity_transformers.train.checkpoint import (
    CheckpointStore,
    CurveRow,
    Progress,
    TrainingError,
    random_states,
    set_random_states,
)

CALMER = "lower lm.learning_rate or set lm.clip_norm"
SMALLER = "set lm.gradient_checkpointing to true, or lower lm.documents_per_step or lm.window"


# not an error: started again, the run resumes from its snapshot
class TrainingStopped(Exception):  # noqa: N818
    """A signal or the time budget ended the run after its state was saved."""


@dataclass
class Training:
    """One training run: the model with its optimizer, memories and progress, on windows that depend
    on (corpus, seed, step) alone.

    ``corpus`` carries the labels for training. ``validate`` returns the mean loss per token of the
    model, in evaluation mode, on held-out text with its labels or without. A snapshot is saved to
    ``store`` every ``checkpoint_every`` steps and after the last one. The run is saved and stopped
    after ``max_minutes`` since ``started`` (time.monotonic), when this process took it up.
    """

    model: LanguageModel
    corpus: AlignedCorpus
    validate: Callable[[LanguageModel, bool], float]
    params: LmParams
    seed: int
    store: CheckpointStore
    checkpoint_every: int
    log: Callable[[str], None] = lambda line: None
    max_minutes: float | None = None
    started: float = field(default_factory=time.monotonic)
    progress: Progress = field(default_factory=Progress)
    step_seconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        params = self.params
        self.device, self.best = self.model.device, dict[str, Tensor]()
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
        self.averaging = Averaging(self.model.module, averaging_interval(params))
        torch.manual_seed(self.seed)
        own = self.model.objective != "causal"
        # causal models with several windows per step recompute window by window, in `Streams`
        if params.gradient_checkpointing and (own or self.windows_per_step == 1):
            self.model.checkpoint_activations()
        if params.attention == "flex" and self.device.type != "cpu":
            self.model.attend_packed()
        if params.compile != "off":
            self.model.compile(params.compile)
        if (snapshot := self.store.latest()) is not None:
            self._load(*snapshot)
        self.earlier_seconds = self.progress.seconds

    def run(self, caught: Sequence[int] = ()) -> Progress:
        """Train to the last step. If there is a signal in ``caught`` (`caught_signals`) after a
        step, or the time budget is used up, save the state and raise `TrainingStopped`.
        """
        while self.progress.step < self.params.steps:
            self.train_step()
            self._after_step()
            step, steps, minutes = self.progress.step, self.params.steps, self.max_minutes
            late = minutes is not None and time.monotonic() - self.started > 60 * minutes
            if (caught or late) and step < steps:
                self._save()
                reason = f"signal {caught[0]}" if caught else f"run.max_minutes {minutes}"
                raise TrainingStopped(
                    f"{reason}: saved at step {step} of {steps}; run it again to continue"
                )
        return self.progress

    def train_step(self) -> None:
        """Take one optimizer step, and add its mean loss per token to ``progress``."""
        begin, progress = time.perf_counter(), self.progress
        if not self.model.module.training:
            self.model.module.train()
        windows = self.next_windows()
        loss = self.streams.accumulate_gradients(windows)
        if not math.isfinite(loss):
            names = ", ".join(sorted({name for window in windows for name in window.documents}))
            raise TrainingError(f"step {progress.step + 1}: loss {loss} on {names}: {CALMER}")
        with memory_errors(f"{type(self.optimizer).__name__}'s states", self.device):
            moved = apply_gradients(self.model.module, self.optimizer, progress.step, self.params)
        if moved:
            self.averaging.update()
        tokens = sum(window.targets.size for window in windows)
        progress.add_step(loss, tokens, sum(map(count_targets, windows)), moved)
        self.step_seconds.append(time.perf_counter() - begin)

    def next_windows(self) -> list[Window]:
        """Return the windows of the next step."""
        first = self.progress.step * self.windows_per_step
        indices = range(first, first + self.windows_per_step)
        return [show_window(self.model, self.plan, i, self.params, self.seed) for i in indices]

    def _after_step(self) -> None:
        progress, params = self.progress, self.params
        last = progress.step == params.steps
        validate = last or progress.step % params.validate_every == 0
        if validate or progress.step % max(1, params.validate_every // 10) == 0:
            self._add_row(validate)
        if last or progress.step % self.checkpoint_every == 0:
            self._save()

    def _add_row(self, validate: bool) -> None:
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
            with self.averaging.applied():
                on, off = self._compare()
            row |= {"dev_loss_on": on, "dev_loss_off": off}
        progress.curve.append(row)
        self.log(self._status(row))
        if validate and self.averaging.follow(on):
            self.log(f"weights are averaged from step {progress.step} on")

    def _compare(self) -> tuple[float, float]:
        """Validate the weights as they stand, with entities on and off; keep the best ones if
        ``final_weights`` says so.
        """
        progress, on = self.progress, self._validate(labels=True)
        off = self._validate(labels=False) if self.model.can("entities") else on
        if progress.add_validation(on, off) and self.params.final_weights == "best":
            own = self.model.module.state_dict()
            self.best = {name: tensor.cpu().clone() for name, tensor in own.items()}
        return on, off

    def _validate(self, labels: bool) -> float:
        """Return the held-out loss, computed without compilation, since its windows have too many
        shapes. TrainingError if it is not finite.
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
        step, steps, recent = self.progress.step, self.params.steps, self.step_seconds[-100:]
        seconds = sum(recent) / len(recent)
        tokens = self.params.documents_per_step * self.params.window * self.windows_per_step
        left = time.strftime("%H:%M:%S", time.gmtime(seconds * (steps - step)))
        status = f"step {step}/{steps}  loss {row['train_loss']:.4f}"
        if row["dev_loss_on"] != "":
            status += f"  dev {row['dev_loss_on']:.4f} on {row['dev_loss_off']:.4f} off"
        return f"{status}  {tokens / seconds:,.0f} tokens/s  {left} left"

    def _save(self) -> None:
        # of all processes of the run; one that was killed counts up to its last snapshot
        self.progress.seconds = self.earlier_seconds + time.monotonic() - self.started
        self.progress.median_step_seconds = statistics.median(self.step_seconds)
        parts = {
            "model": self.model.module.state_dict(),
            "optimizer": self.optimizer.state_dict()["state"],
            "memory": self.streams.tensors(),
            "random": random_states(self.device),
            "averaging": self.averaging.state(),
            "best": self.best,
        }
        self.store.save(parts, self.progress)

    def _load(self, parts: defaultdict[str, Any], progress: Progress) -> None:
        self.progress = progress
        self.model.module.load_state_dict(parts["model"])
        states = {int(number): states for number, states in parts["optimizer"].items()}
        self.optimizer.load_state_dict(self.optimizer.state_dict() | {"state": states})
        self.averaging.load_state(parts["averaging"])
        self.streams.load(parts["memory"])
        self.best = parts["best"]
        set_random_states(parts["random"], self.device)
        self.log(f"resuming from step {self.progress.step}")

    def load_final_weights(self) -> None:
        """Put the weights that the study uses from here on into the model: those of the last step
        or of the lowest dev loss, or the averages if weights are averaged.
        """
        if self.best:
            self.model.module.load_state_dict(self.best)
        else:
            self.averaging.put(self.averaging.means)


@contextlib.contextmanager
def caught_signals() -> Iterator[list[int]]:
    """Inside the block, append SIGTERM and SIGINT to the list instead of ending the process (in the
    main thread; elsewhere nothing changes).
    """
    caught: list[int] = []
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
    """Return the learning rate of step ``step`` (0-based): linear warm-up, then constant or a
    cosine to 0 at the last step.
    """
    if step < params.warmup_steps:
        return params.learning_rate * (step + 1) / params.warmup_steps
    if params.schedule == "constant":
        return params.learning_rate
    done = (step - params.warmup_steps) / max(1, params.steps - params.warmup_steps)
    return params.learning_rate * 0.5 * (1 + math.cos(math.pi * done))


def make_optimizer(model: nn.Module, params: LmParams) -> torch.optim.Optimizer:
    """Return fused AdamW, or plain gradient descent if the weights are averaged, with weight decay
    on matrices only, not on biases and layer norms (the biases of relative attention in
    Transformer-XL and XLNet are matrices).
    """
    every = list(model.parameters())
    groups = [
        {"params": [p for p in every if p.dim() >= 2], "weight_decay": params.weight_decay},
        {"params": [p for p in every if p.dim() < 2], "weight_decay": 0.0},
    ]
    of = torch.optim.AdamW if averaging_interval(params) is None else torch.optim.SGD
    return of(groups, lr=params.learning_rate, fused=True)


def averaging_interval(params: LmParams) -> int | None:
    """Return ``nonmonotone_interval`` if the optimizer is asgd, else None (`Averaging`)."""
    if not isinstance(params, LSTMParams) or params.optimizer != "asgd":
        return None
    return params.nonmonotone_interval


def apply_gradients(
    model: nn.Module, optimizer: torch.optim.Optimizer, step: int, params: LmParams
) -> bool:
    """Clip the gradients and update the weights in step ``step``; gradients that are not finite are
    dropped. Return whether the weights were updated.
    """
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(step, params)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), params.clip_norm or math.inf)
    finite = bool(torch.isfinite(norm))
    if finite:
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return finite


class KeptStates:
    """The chains' vectors that outlive a document (``memory_life: epochs``), to be given back when
    training reads it again. ``states`` [C + 1, W], for C chains of the training split, has each
    chain's vector from the latest complete reading of its document, ones before the first; row 0 is
    unused.

    A step gives back what was kept when it began; at its end it keeps the vectors of the documents
    that ended in it (if one ended twice, those of the last window, and there stream).
    """

    def __init__(self, chains: int, width: int, device: torch.device) -> None:
        self.states = torch.ones(chains + 1, width, device=device)
        self._left: list[tuple[Tensor, Tensor]] = []

    def give_back(self, memory: EntityMemory, window: Window) -> EntityMemory:
        """Return the memory with kept vectors in rows of documents that start in the window."""
        streams, rows = window.starting.nonzero()
        vectors = self.states[torch.from_numpy(window.starting[streams, rows])]
        return memory.put(torch.from_numpy(streams), torch.from_numpy(rows), vectors)

    def take(self, memory: EntityMemory, window: Window) -> None:
        """Note the vectors of the documents that ended in the window, as ``memory`` holds them."""
        places = np.argwhere(window.ending)[::-1]  # stream and row, the last stream first
        chains, latest = np.unique(window.ending[tuple(places.T)], return_index=True)
        streams, rows = torch.from_numpy(places[latest].T)
        self._left.append((torch.from_numpy(chains), memory.states.detach()[streams, rows]))

    def commit(self) -> None:
        """End the step: keep the vectors that were noted."""
        for chains, vectors in self._left:
            self.states[chains] = vectors
        self._left.clear()


class Streams:
    """The parallel streams of documents with their states."""

    def __init__(self, model: LanguageModel, plan: WindowPlan, params: LmParams) -> None:
        self.model, self.params = model, params
        self.state: Any = model.start(params.documents_per_step, plan.rows)
        keeps = isinstance(params, GPT2EParams) and params.memory_life == "epochs"
        chains = int(plan.entities.sum())
        self.kept = KeptStates(chains, model.width, model.device) if keeps else None

    def accumulate_gradients(self, windows: list[Window]) -> float:
        """Run the backward pass of the mean loss over all targets of consecutive windows, which
        hand the state on, or of what training minimises instead; return the mean loss.
        """
        # a step of documents without text may have no targets
        tokens = max(1, sum(map(count_targets, windows)))
        device, autocast = self.model.device.type, self.params.precision == "bfloat16"
        what = f"{len(windows) * self.params.documents_per_step} windows"
        with (
            memory_errors(f"{what} of {self.params.window} tokens", device, SMALLER),
            torch.autocast(device, torch.bfloat16, enabled=autocast),
        ):
            if self.model.objective == "causal":
                loss, objective, state = self._read(windows)
            else:
                loss, state = sum_own_losses(self.model, windows, self.state, self.params)
                objective = loss
            (objective / tokens).backward()
        self.state = state.detach()
        if self.kept is not None:
            self.kept.commit()
        return (loss / tokens).item()

    def _read(self, windows: list[Window]) -> tuple[Tensor, Tensor, Any]:
        """Return the sum of the losses over the windows, the sum that training minimises, and the
        state after the last window.
        """
        # keep only each window's hidden states and state; the backward pass recomputes the rest
        recompute = self.params.gradient_checkpointing and len(windows) > 1
        state, read, states = self.state, [], []
        for window in windows:
            batch = show_batch(self.model, window, resets=self.kept is None)
            if self.kept is not None:
                state = self.kept.give_back(state, window)
            hidden, state = (
                checkpoint(self.model.encode, batch, state, use_reentrant=False)
                if recompute
                else self.model.encode(batch, state)
            )
            if self.kept is not None:
                self.kept.take(state, window)
            states.append(state)
            read.append(hidden)
        targets = _tensor(self.model, np.concatenate([window.targets for window in windows]))
        loss = compute_loss(self.model, torch.cat(read), targets)
        return loss, self._find_objective(loss, states), state

    def _find_objective(self, loss: Tensor, states: list[Any]) -> Tensor:
        """Return the sum that training minimises: ``loss``, averaged with the backward half's if
        there is one, plus the penalties of windows that left ``states``.
        """
        backward = [half for state in states if (half := getattr(state, "backward", None))]
        penalties = [getattr(state, "penalty", None) for state in states]
        if backward:
            hidden, targets = (torch.cat(parts) for parts in zip(*backward, strict=True))
            loss = (loss + compute_loss(self.model, hidden, targets)) / 2
        if given := [penalty for penalty in penalties if penalty is not None]:
            loss = loss + torch.stack(given).sum()
        return loss

    def tensors(self) -> dict[str, Tensor]:
        """Return the streams' states, each [B, ...], and the kept vectors; empty without either."""
        kept = {} if self.kept is None else {"kept": self.kept.states}
        return {**self.state.tensors(), **kept}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what `tensors` returned."""
        own = {name: tensor for name, tensor in tensors.items() if name != "kept"}
        self.state = self.state.replace(own)
        if self.kept is not None:
            self.kept.states = tensors["kept"].to(self.model.device)


def show_batch(model: LanguageModel, window: Window, resets: bool = True) -> Batch:
    """Return the window as the model's input; with ``resets`` new documents' rows start afresh."""
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
    """Sum the model's own losses over consecutive windows; also return the state after them."""
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
    """Return window ``index`` of the plan with what the model's objective draws for it; this
    depends on (plan, seed, index) alone.
    """
    if model.objective == "causal":
        return plan[index]
    # a third number, because the plan draws its orders from [seed, epoch]
    return model.draw(plan[index], params, np.random.default_rng([seed, index, 1]))


def count_targets(window: Window) -> int:
    """Count the targets of a window that are predicted."""
    return int((window.targets != IGNORED).sum())


@contextlib.contextmanager
def memory_errors(
    what: str,
    device: torch.device | str,
    advice: str = "free memory there, or lower lm.layers or lm.width",
) -> Iterator[None]:
    """Turn running out of memory inside the block, on the CPU or a device, into a TrainingError:
    ``what`` does not fit, and ``advice``.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not runtime.is_out_of_memory(error):
            raise
        raise TrainingError(f"{what} do not fit on {device}: {advice}") from error


@torch.inference_mode()
def mean_objective(model: LanguageModel, corpus: AlignedCorpus, params: LmParams) -> float:
    """Return the model's own objective per target, over windows of a split that are made as in
    training and hold about as many tokens as the split; 0 for a split without tokens.

    Windows and draws are the same at every call, whatever the run's seed is.
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
