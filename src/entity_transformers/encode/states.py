"""Hidden states of a corpus below a block of a pretrained model, computed once and kept on disk.

What is trained above them reads them as if they were tokens: a corpus whose tokens are the places
of its states.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from entity_transformers.artifacts import atomic, write_json
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.digests import file_digest
from entity_transformers.encode.reader import read_windows
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.provenance import digest

log = logging.getLogger(__name__)
NORMS = ("norm", "ln_f", "final_layer_norm")
"""What decoders of transformers call the layer norm after their last block."""


def split_blocks(base: Any, first: int, last: int | None, *, normed: bool) -> Any:
    """The base model of a decoder with its blocks ``first`` to ``last`` - 1 alone (None: to the
    end), which are the same modules; without its last layer norm unless ``normed``. One without a
    single list of blocks raises ValueError.
    """
    lists = [name for name, child in base.named_children() if isinstance(child, nn.ModuleList)]
    norms = [name for name in NORMS if hasattr(base, name)]
    if len(lists) != 1 or len(norms) != 1:
        raise ValueError(
            f"{type(base).__name__} has {len(lists)} lists of blocks and {len(norms)} final layer"
            " norms, expected 1 of each: it cannot be split"
        )
    part = copy.copy(base)
    part._modules = dict(base._modules)
    part._modules[lists[0]] = nn.ModuleList(list(getattr(base, lists[0]))[first:last])
    if not normed:
        part._modules[norms[0]] = nn.Identity()
    return part


def keep_states(
    model: Any,
    weights: Path,
    corpus: AlignedCorpus,
    block: int | None,
    window: int,
    folder: Path,
    stride: int | None = None,
) -> np.ndarray:
    """The hidden states float16 [N, W] of a corpus that enter block ``block`` (from 0) of a
    `PretrainedLM`, or the final ones of any model (None), memory-mapped. Each document is read in
    windows of ``window`` tokens, each ``stride`` after the one before and without anything of it;
    None: they follow one another.

    They are computed where ``folder`` does not have those of the same weights (the file), tokens,
    block, window and stride. A state beyond float16 raises ValueError.
    """
    stride = window if stride is None else stride
    text = corpus.tokens.tobytes(), corpus.offsets.tobytes()
    key = digest(file_digest(weights), *text, str(block), str(window), str(stride))
    path, width = folder / f"{key}.npy", model.width
    if not path.is_file():
        with atomic(path) as temporary:
            shape = (len(corpus.tokens), width)
            made = np.lib.format.open_memmap(temporary, "w+", np.float16, shape)
            lower = copy.copy(model)
            if block is not None:
                lower.module = split_blocks(model.module.base_model, 0, block, normed=False)
            for where, states in read_states(lower, corpus, window, stride):
                if not (np.abs(states) < np.finfo(np.float16).max).all():
                    raise ValueError(f"{weights}: a state below block {block} is beyond float16")
                made[where] = states
            made.flush()
            facts = {"weights": str(weights), "block": block, "window": window, "stride": stride}
            write_json(path.with_suffix(".json"), facts)
        which = "final states" if block is None else f"states below block {block}"
        log.info("%s: %d %s", corpus.split, len(corpus.tokens), which)
    return np.load(path, mmap_mode="r")


@torch.inference_mode()
def read_states(
    model: LanguageModel, corpus: AlignedCorpus, window: int, stride: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Places int64 [n] and final hidden states float32 [n, W] of every token, window by window."""
    batch = max(1, 2048 // window)
    for reading in read_windows(model, corpus, window=window, stride=stride, batch=batch):
        found = reading.hidden[torch.from_numpy(reading.valid).to(reading.hidden.device)]
        yield reading.where[reading.valid], found.float().cpu().numpy()


class Upper(LanguageModel):
    """The blocks above, which may have entity attention: places of ``states`` in, final hidden
    states of the whole model out. Each window starts from the memory of the one before, without
    gradient into it.
    """

    def __init__(self, module: Any, model: Any, states: np.ndarray) -> None:
        self.module, self.whole, self.states = module, model, states
        self.kind, self.width = model.kind, model.width  # type: ignore[misc]
        self.context = model.context

    def start(self, rows: int, entities: int = 0) -> Any:
        return self.whole.start(rows, entities)

    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        stored = np.asarray(self.states[batch.tokens.cpu().numpy()])
        below = torch.from_numpy(stored).to(self.device, self.whole.output_weight.dtype)
        with self.whole.mixed():
            if batch.entity_ids is None or not self.whole.reads:
                found = self.module(inputs_embeds=below, use_cache=False)
                return found.last_hidden_state.float(), state
            found = self.module(
                inputs_embeds=below, use_cache=False, entity_ids=batch.entity_ids, memory=state
            )
        hidden = found.last_hidden_state.float()
        return hidden, state.write(batch.entity_ids, hidden, self.whole.memory_write).detach()

    @property
    def output_weight(self) -> Tensor:
        return self.whole.output_weight

    def save(self, folder: Path) -> None:
        self.whole.save(folder)


def index_states(corpus: AlignedCorpus) -> AlignedCorpus:
    """The corpus with the place of each token in the stead of the token, for `Upper`."""
    return replace(corpus, tokens=np.arange(len(corpus.tokens), dtype=np.int64))
