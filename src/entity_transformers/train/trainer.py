"""GPT2E and models with entity attention in transformers' Trainer, with PEFT too: the windows of
this package's own loop as a dataset, and their memory from one step to the next.

    dataset = EntityStreams(documents, streams=8, window=512, windows=1000)
    carried = CarriedMemory(model)
    Trainer(
        model=model,
        args=TrainingArguments(..., per_device_train_batch_size=8, max_steps=1000),
        train_dataset=dataset,
        data_collator=collate_streams,
        callbacks=[carried],
    ).train()

Dimensions: B streams, T tokens of a window, R = entities + 1 rows of the memory, W width.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.data import IterableDataset
from transformers import TrainerCallback

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.tokens import join_sources
from entity_transformers.corpus.windows import WindowPlan
from entity_transformers.models.gpt2e.memory import EntityMemory

MEMORY = "entity_memory.safetensors"
"""In each checkpoint of Trainer, beside its own files."""


@dataclass(frozen=True)
class StreamWindow:
    """A window of one of so many streams.

    Not a dict, because Trainer takes out of a dict what the model's signature does not name.
    """

    arrays: dict[str, np.ndarray]
    stream: int
    streams: int


class EntityStreams(IterableDataset[StreamWindow]):
    """The windows of B streams over documents, stream by stream, window after window: what this
    package's training reads with the same ``seed``, one epoch after another.

    ``documents``: a split with labels to give, or for each document its tokens, the first of which
    is not predicted, and the entity of each token (int [N]; 0: none). Trainer's batch must be as
    many as ``streams``. A document without a token to predict is left out; where all are such,
    ValueError.
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
            for row in range(self.streams):
                yield StreamWindow(
                    {
                        "input_ids": window.tokens[row],
                        "labels": window.targets[row],
                        "entity_ids": window.entity_ids[row],
                        "position_ids": window.positions[row],
                        "fresh": window.new_rows[row],
                    },
                    row,
                    self.streams,
                )


def collate_streams(rows: Sequence[StreamWindow]) -> dict[str, Tensor]:
    """A batch of Trainer: input_ids, entity_ids [B, T] and so on, ``fresh`` bool [B, R].

    The labels are the tokens that follow, also after the window's last one, so that they stand as
    ``shift_labels`` too, which tells transformers not to shift them again. Without a document that
    begins within the window there are no position_ids. ValueError unless the rows are a window of
    each stream, in order: a memory goes on from batch to batch.
    """
    if [row.stream for row in rows] != list(range(rows[0].streams)):
        raise ValueError(
            f"a batch of {len(rows)} windows of {rows[0].streams} streams: expected one of each:"
            " give Trainer per_device_train_batch_size (and per_device_eval_batch_size) equal to"
            " EntityStreams' streams, and one process"
        )
    names = rows[0].arrays
    batch = {name: torch.from_numpy(np.stack([row.arrays[name] for row in rows])) for name in names}
    if not (batch["position_ids"][:, 1:] == 0).any():
        del batch["position_ids"]
    return batch | {"shift_labels": batch["labels"]}


class CarriedMemory(TrainerCallback):
    """Hands a model the memory that the last batch left, and writes what this one leaves: detached,
    as in the paper, so that no gradient goes from one step into the one before.

    It works from when it is made until `remove`, in training and in evaluation with a memory each,
    on batches with ``entity_ids`` and ``fresh`` (`collate_streams`); other calls of the model are
    left alone. As a callback of Trainer it also keeps the memory in checkpoints. ``write``: "last"
    or "mean", by default what the model's config says. ValueError for a model with an entity
    pointer, whose memory keeps more: step lm trains those.
    """

    def __init__(self, model: Any, write: str | None = None) -> None:
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
        self.write = str(write or getattr(base.config, "memory_write", "last"))
        self.width = base.config.get_text_config(decoder=True).hidden_size
        self.memories: dict[bool, EntityMemory] = {}
        inner: nn.Module = base.base_model
        # before the model, because entity attention's own hooks look at its inputs there; PEFT
        # calls its forward method alone, without hooks
        self._hooks = [
            base.register_forward_pre_hook(self._give, with_kwargs=True, prepend=True),
            inner.register_forward_pre_hook(self._give, with_kwargs=True, prepend=True),
            inner.register_forward_hook(self._take, with_kwargs=True, prepend=True),
        ]
        self._read: tuple[Tensor, EntityMemory] | None = None

    def remove(self) -> None:
        """Leave the model as it was."""
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
        if not ids.any():  # as in this package's loop: nothing to read, the mean over all tokens
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
        """Keep training's memory in the checkpoint."""
        if True in self.memories and state.is_world_process_zero:
            save_file(self.memories[True].tensors(), _checkpoint(args, state) / MEMORY)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Go on with the memory of the checkpoint that Trainer goes on from, if it has one."""
        path = _checkpoint(args, state) / MEMORY
        if state.global_step and path.is_file():
            states = load_file(path)["states"]
            empty = EntityMemory(states.shape[0], states.shape[1] - 1, states.shape[2])
            self.memories[True] = empty.replace({"states": states})


def _checkpoint(args: Any, state: Any) -> Path:
    return Path(args.output_dir) / f"checkpoint-{state.global_step}"
