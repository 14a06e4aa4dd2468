"""Trains GPT2E and models with entity attention with transformers' Trainer, also with PEFT: the
windows of this package's own training loop as a dataset, and a callback that carries the memory
from one step to the next. docs/model.md has an example.

Dimensions: B streams, T tokens of a window, R = entities + 1 rows of the memory, W width.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.data import IterableDataset
from transformers import TrainerCallback

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.tokens import join_sources
from entity_transformers.corpus.windows import Window, WindowPlan
from entity_transformers.models.gpt2e.memory import EntityMemory

MEMORY = "entity_memory.safetensors"
"""The file in each of Trainer's checkpoints that holds the memory."""


@dataclass(frozen=True)
class StreamWindow:
    """One stream's row of a window. It is not a dict, because Trainer removes from a dict what the
    model's signature does not name.
    """

    window: Window
    stream: int


class EntityStreams(IterableDataset[StreamWindow]):
    """The windows of B parallel streams of documents, epoch after epoch, in the order in which this
    package's own training reads them with the same ``seed``.

    ``documents`` is either an aligned split with its labels, or a list with the tokens of each
    document (of which the first is not predicted) and the entity of each token (int [N]; 0: none).
    Trainer's batch size must be equal to ``streams``. Documents without a token to predict are left
    out; if no document remains, ValueError is raised.
    """

    def __init__(
        self,
        documents: AlignedCorpus | Sequence[tuple[Sequence[int], Sequence[int]]],
        *,
        streams: int,
        window: int,
        windows: int,
        seed: int = 0,
    ) -> None:
        corpus = documents if isinstance(documents, AlignedCorpus) else join_sources(documents)
        self.streams, self.windows = streams, windows
        self.plan = WindowPlan(corpus, streams=streams, window=window, windows=windows, seed=seed)

    def __len__(self) -> int:
        return self.streams * self.windows

    def __iter__(self) -> Iterator[StreamWindow]:
        for index in range(self.windows):
            window = self.plan[index]
            for stream in range(self.streams):
                yield StreamWindow(window, stream)


def collate_streams(rows: Sequence[StreamWindow]) -> dict[str, Tensor]:
    """Collate a batch for Trainer: input_ids, entity_ids [B, T] and so on, and ``fresh`` bool
    [B, R].

    The labels are the following tokens, including the one after the window. They are also given as
    ``shift_labels``, which tells transformers not to shift them again. There are position_ids only
    if a document begins within the window. Since a memory continues from batch to batch, the rows
    have to be one window of each stream, in order; otherwise ValueError is raised.
    """
    window = rows[0].window
    streams = len(window.tokens)
    if [row.stream for row in rows] != list(range(streams)):
        raise ValueError(
            f"a batch of {len(rows)} windows of {streams} streams: expected one of each:"
            " give Trainer per_device_train_batch_size (and per_device_eval_batch_size) equal to"
            " EntityStreams' streams, and one process"
        )
    arrays = {
        "input_ids": window.tokens,
        "labels": window.targets,
        "shift_labels": window.targets,
        "entity_ids": window.entity_ids,
        "fresh": window.new_rows,
    }
    if window.packed:
        arrays["position_ids"] = window.positions
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


class CarriedMemory(TrainerCallback):
    """Passes the memory after one batch to the model for the next one, detached as in the paper, so
    that no gradient flows from one step into the previous one.

    It is active from its creation until `remove` is called, with separate memories for training and
    evaluation, and for batches with ``entity_ids`` and ``fresh`` (`collate_streams`) only. As a
    callback of Trainer it also saves the memory in checkpoints and restores it. Raises ValueError
    for a model with an entity pointer, whose memory holds more; such models are trained by step lm.
    """

    def __init__(self, model: Any) -> None:
        base = model.get_base_model() if hasattr(model, "get_base_model") else model
        if not hasattr(base, "base_model"):
            raise TypeError(
                f"{type(model).__name__}: expected a model of transformers (of a DocumentReader:"
                " reader.model.module)"
            )
        if getattr(base, "entity_pointer", None) is not None:
            raise ValueError(
                f"{type(base).__name__} has an entity pointer, whose memory keeps forms that"
                " CarriedMemory does not know: train it by entity-transformers run lm"
            )
        self.write = getattr(base.config, "memory_write", "last")
        self.width = base.config.get_text_config(decoder=True).hidden_size
        self.memories: dict[bool, EntityMemory] = {}
        inner: nn.Module = base.base_model
        # on the whole model, where entity attention's own hooks look at the inputs; on the inner
        # one too, since PEFT calls the whole model's forward method without its hooks
        self._hooks = [
            base.register_forward_pre_hook(self._give, with_kwargs=True, prepend=True),
            inner.register_forward_pre_hook(self._give, with_kwargs=True, prepend=True),
            inner.register_forward_hook(self._take, with_kwargs=True, prepend=True),
        ]
        self._read: tuple[Tensor, EntityMemory] | None = None

    def remove(self) -> None:
        """Remove the hooks from the model."""
        for hook in self._hooks:
            hook.remove()

    def _give(
        self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        fresh = kwargs.pop("fresh", None)
        ids = kwargs.get("entity_ids")
        if fresh is None or ids is None:
            return args, kwargs
        memory = self.memories.get(model.training)
        rows, entities = fresh.shape[0], fresh.shape[1] - 1
        if memory is None or (memory.batch_size, memory.entities) != (rows, entities):
            memory = EntityMemory(rows, entities, self.width, device=ids.device)
        memory = memory.to(ids.device).reset(fresh)
        self._read = ids, memory
        kwargs = {**kwargs, "use_cache": False}  # with a cache documents in a row see each other
        if not ids.any():  # as in this package's loop: entity attention is then a plain mean
            return args, {key: value for key, value in kwargs.items() if key != "entity_ids"}
        return args, {**kwargs, "memory": memory}

    def _take(
        self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        if self._read is not None:
            ids, memory = self._read
            hidden = output.last_hidden_state.detach()
            self.memories[model.training] = memory.write(ids, hidden, self.write).detach()
            self._read = None

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Save the memory of training in the checkpoint."""
        if True in self.memories and state.is_world_process_zero:
            save_file(self.memories[True].tensors(), _checkpoint(args, state) / MEMORY)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Restore the memory from the checkpoint that Trainer resumes from, if it has one. The
        checkpoint has to be in ``output_dir``, because Trainer does not say where else it is:
        FileNotFoundError.
        """
        if not state.global_step:
            return
        if not (folder := _checkpoint(args, state)).is_dir():
            raise FileNotFoundError(
                f"{folder}: no such checkpoint: the memory of entities is restored from output_dir;"
                " copy the checkpoint there"
            )
        if (folder / MEMORY).is_file():
            states = load_file(folder / MEMORY)["states"]
            empty = EntityMemory(states.shape[0], states.shape[1] - 1, states.shape[2])
            self.memories[True] = empty.replace({"states": states})


def _checkpoint(args: Any, state: Any) -> Path:
    return Path(args.output_dir) / f"checkpoint-{state.global_step}"
