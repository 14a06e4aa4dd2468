"""Hidden states of a corpus below a block of a pretrained model, computed once and kept on disk.

What is trained above them reads them as if they were tokens: a corpus whose tokens are the places
of its states.
"""

import copy
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from entity_transformers.artifacts import atomic, write_json
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.encode.reader import read_windows
from entity_transformers.models.base import LanguageModel
from entity_transformers.provenance import digest, file_digest

log = logging.getLogger(__name__)
NORMS = ("norm", "ln_f", "final_layer_norm")
"""What decoders of transformers call the layer norm after their last block."""


def split_blocks(model: Any, first: int, last: int | None, *, normed: bool) -> Any:
    """The `PretrainedLM` with its blocks ``first`` to ``last`` - 1 alone (None: to the end), which
    are the same modules; without its last layer norm unless ``normed``. One without a single list
    of blocks raises ValueError.
    """
    base = model.module.base_model
    lists = [name for name, child in base.named_children() if isinstance(child, nn.ModuleList)]
    norms = [name for name in NORMS if hasattr(base, name)]
    if len(lists) != 1 or len(norms) != 1:
        raise ValueError(
            f"{type(base).__name__} has {len(lists)} lists of blocks and {len(norms)} final layer"
            " norms, expected 1 of each: it cannot be split"
        )
    blocks: dict[str, Any] = {lists[0]: nn.ModuleList(list(getattr(base, lists[0]))[first:last])}
    part = _replace(base, blocks if normed else blocks | {norms[0]: nn.Identity()})
    made = copy.copy(model)
    made.module = _replace(model.module, {model.module.base_model_prefix: part})
    return made


def _replace(module: Any, children: dict[str, Any]) -> Any:
    """The module, the same but for these children."""
    made = copy.copy(module)
    made._modules = module._modules | children
    return made


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

    They are computed where ``folder`` does not have those of the same weights (the file, for final
    states with any adapter beside it), tokens, block, window and stride. A state beyond float16
    raises ValueError.
    """
    stride = window if stride is None else stride
    text = corpus.tokens.tobytes(), corpus.offsets.tobytes()
    files = [weights] if block is not None else sorted(weights.parent.glob("*.safetensors"))
    key = digest(*map(file_digest, files), *text, str(block), str(window), str(stride))
    path, width = folder / f"{key}.npy", model.width
    if not path.is_file():
        with atomic(path) as temporary:
            shape = (len(corpus.tokens), width)
            made = np.lib.format.open_memmap(temporary, "w+", np.float16, shape)
            lower = model if block is None else split_blocks(model, 0, block, normed=False)
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


def index_states(corpus: AlignedCorpus) -> AlignedCorpus:
    """The corpus with the place of each token in the stead of the token."""
    return replace(corpus, tokens=np.arange(len(corpus.tokens), dtype=np.int64))
