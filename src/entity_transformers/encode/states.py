"""Hidden states of a corpus below a block of a pretrained model, computed once and kept on disk.

Modules trained on top of them read them as if they were tokens, from a corpus whose tokens are the
indices of its states.
"""

import copy
import logging
from collections.abc import Callable, Iterator
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

Above = Callable[[AlignedCorpus, int], tuple[LanguageModel, AlignedCorpus]]
"""Gives, for a text and a window, the upper blocks of a model, and the text as they read it: as
indices of the kept states of the lower ones.
"""
STATES = Path("work/states")
log = logging.getLogger(__name__)
NORMS = ("norm", "ln_f", "final_layer_norm")
"""Names of the layer norm after the last block in decoders of transformers."""


def split_blocks(model: Any, first: int, last: int | None, *, normed: bool) -> Any:
    """Return the `PretrainedLM` with only its blocks ``first`` to ``last`` - 1 (None: to the end),
    which are shared, and with its final layer norm only if ``normed``. ValueError for a model
    without exactly one list of blocks and one final layer norm, or whose first block reads other
    vectors than the tokens' embeddings: states given in their place would change as well.
    """
    base = model.module.base_model
    lists = [name for name, child in base.named_children() if isinstance(child, nn.ModuleList)]
    norms = [name for name in NORMS if hasattr(base, name)]
    if len(lists) != 1 or len(norms) != 1:
        raise ValueError(
            f"{type(base).__name__} has {len(lists)} lists of blocks and {len(norms)} final layer"
            " norms, expected 1 of each: it cannot be split"
        )
    empty = _replace(base, {lists[0]: nn.ModuleList(), norms[0]: nn.Identity()})
    given = torch.arange(2.0 * model.width, device=model.device).view(1, 2, -1)
    given = given.to(model.output_weight.dtype)
    with torch.no_grad():
        changed = not torch.equal(empty(inputs_embeds=given, use_cache=False)[0], given)
    if changed:
        raise ValueError(
            f"{type(base).__name__} changes embeddings before its first block, as by adding learned"
            " positions, and would change the states of lower blocks again: it cannot be split"
        )
    blocks: dict[str, Any] = {lists[0]: nn.ModuleList(list(getattr(base, lists[0]))[first:last])}
    part = _replace(base, blocks if normed else blocks | {norms[0]: nn.Identity()})
    made = copy.copy(model)
    made.module = _replace(model.module, {model.module.base_model_prefix: part})
    return made


def _replace(module: Any, children: dict[str, Any]) -> Any:
    """Return a shallow copy of the module with these children in place of its own."""
    made = copy.copy(module)
    made._modules = module._modules | children
    return made


def keep_states(
    model: Any,
    weights: Path,
    corpus: AlignedCorpus,
    block: int | None,
    window: int,
    folder: Path = STATES,
    stride: int | None = None,
) -> np.ndarray:
    """Return a corpus' hidden states, float16 [N, W], memory-mapped: those that enter block
    ``block`` (from 0) of a `PretrainedLM`, or the final ones of any model (None). Each document is
    read in windows of ``window`` tokens, each starting ``stride`` tokens after the one before
    (None: at its end). They are computed unless ``folder`` has those of the same weights (for final
    states also any adapter beside the file), tokens, block, window and stride. NaN, or a state
    beyond float16, raises ValueError.
    """
    stride = window if stride is None else stride
    text = corpus.tokens.tobytes(), corpus.offsets.tobytes()
    files = [weights] if block is not None else sorted(weights.parent.glob("*.safetensors"))
    key = digest(*map(file_digest, files), *text, str(block), str(window), str(stride))
    path, width = folder / f"{key}.npy", model.width
    which = "final states" if block is None else f"states below block {block}"
    if not path.is_file():
        with atomic(path) as temporary:
            shape = (len(corpus.tokens), width)
            made = np.lib.format.open_memmap(temporary, "w+", np.float16, shape)
            lower = model if block is None else split_blocks(model, 0, block, normed=False)
            for where, states in read_states(lower, corpus, window, stride):
                if not (np.abs(states) < np.finfo(np.float16).max).all():
                    raise ValueError(f"{weights}: not all {which} are numbers in float16's range")
                made[where] = states
            made.flush()
            facts = {"weights": str(weights), "block": block, "window": window, "stride": stride}
            write_json(path.with_suffix(".json"), facts)
        log.info("%s: %d %s", corpus.split, len(corpus.tokens), which)
    return np.load(path, mmap_mode="r")


@torch.inference_mode()
def read_states(
    model: LanguageModel, corpus: AlignedCorpus, window: int, stride: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield indices int64 [n] and final hidden states float32 [n, W] of each window's tokens."""
    batch = max(1, 2048 // window)
    for reading in read_windows(model, corpus, window=window, stride=stride, batch=batch):
        found = reading.hidden[torch.from_numpy(reading.valid).to(reading.hidden.device)]
        yield reading.where[reading.valid], found.float().cpu().numpy()


def index_states(corpus: AlignedCorpus) -> AlignedCorpus:
    """Return the corpus with each token replaced by its index in the arrays."""
    return replace(corpus, tokens=np.arange(len(corpus.tokens), dtype=np.int64))
