"""A tiny corpus, tiny parameters and tiny models for tests of training and evaluation."""

from collections.abc import Mapping
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.kinds import KINDS, ModelEntry, resolve
from entity_transformers.models.base import IGNORED, LanguageModel, build_model
from entity_transformers.models.gpt2e.memory import EntityMemory
from entity_transformers.study.params import Params, load, parse

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "studies" / "sample.yaml"
VOCABULARY, WIDTH = 40, 16
SMALL: dict[str, Any] = {
    "layers": 2, "heads": 2, "width": WIDTH, "window": 8, "dropout": 0.1, "steps": 20,
    "warmup_steps": 2, "documents_per_step": 2, "validate_every": 5,
}  # fmt: skip
AWD_RATES = {
    "weight_drop": 0.5, "embedding_dropout": 0.1, "input_dropout": 0.4, "hidden_dropout": 0.25,
    "output_dropout": 0.3,
}  # fmt: skip
"""AWD-LSTM's kinds of dropout."""
KEPT: dict[str, Any] = {
    "splits": ("test",), "tokens": None, "windows": (8,), "context": 4, "parts": "gold",
    "texts": ("original",),
}  # fmt: skip
"""Values of the sections of those steps that read beside what a policy keeps."""
GPT2_SHAPE: dict[str, Any] = {
    "vocab_size": 31, "n_positions": 64, "n_embd": WIDTH, "n_layer": 2, "n_head": 2,
    "bos_token_id": 0, "eos_token_id": 0, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0,
}  # fmt: skip


def keep_odd(start: int) -> np.ndarray:
    """A policy: of what is before a window, the latest four odd places."""
    return np.arange(1, start, 2)[-4:]


def tiny_corpus(
    documents: int = 6, seed: int = 0, split: str = "train", shortest: int = 12, longest: int = 40
) -> AlignedCorpus:
    """Random tokens 1.. after an <|endoftext|> of 0; a third in mentions of 4 entities (gold)."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(shortest, longest, documents)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    total = int(offsets[-1])
    tokens = generator.integers(1, VOCABULARY, total).astype(np.int32)
    gold = np.where(generator.random(total) < 0.33, generator.integers(1, 5, total), 0)
    gold = gold.astype(np.int32)
    words = np.concatenate([np.arange(-1, n - 1) for n in lengths]).astype(np.int32)
    tokens[offsets[:-1]], gold[offsets[:-1]] = 0, 0
    mentions = np.full(total, -1, np.int32)
    for start, end in pairwise(offsets):
        inside = gold[start:end] > 0
        mentions[start:end][inside] = np.arange(inside.sum())
    return AlignedCorpus(
        split, tuple(f"d{i}#0" for i in range(documents)), ("", "NN"), tokens=tokens, gold=gold,
        mentions=mentions, words=words, tags=np.ones(total, np.uint8),
        bytes=np.where(words < 0, 0, 2).astype(np.uint16), offsets=offsets.astype(np.int64),
    )  # fmt: skip


def every_text(size: int, vocabulary: int) -> AlignedCorpus:
    """Each text of so many tokens of such a vocabulary as a document, without mentions."""
    texts = np.array(list(product(range(vocabulary), repeat=size)), np.int32)
    tokens = np.concatenate([np.zeros((len(texts), 1), np.int32), texts], axis=1)
    none = np.zeros(tokens.size, np.int32)
    words = np.tile(np.arange(-1, size, dtype=np.int32), len(texts))
    offsets = np.arange(len(texts) + 1, dtype=np.int64) * (size + 1)
    columns = {"tokens": tokens.reshape(-1), "words": words, "bytes": none}
    return plain_corpus(none, none - 1, offsets, "test", **columns)


def plain_corpus(
    gold: ArrayLike, mentions: ArrayLike, offsets: ArrayLike, split: str = "train", **columns: Any
) -> AlignedCorpus:
    """Documents without tags; each token is another, and a word, if ``columns`` are not given."""
    places = np.arange(len(np.asarray(gold)), dtype=np.int32)
    own = {"tokens": places, "words": places - 1, "bytes": np.ones(len(places), np.uint16)}
    own |= {"gold": np.array(gold, np.int32), "mentions": np.array(mentions, np.int32)}
    own |= {"tags": np.zeros(len(places), np.uint8), "offsets": np.asarray(offsets)}
    names = tuple(f"d{i}" for i in range(len(own["offsets"]) - 1))
    return AlignedCorpus(split, names, ("",), **own | columns)


@cache
def _sample() -> Params:
    return load(SAMPLE)


def tiny_params(run: Mapping[str, Any] | None = None, **lm: Any) -> Params:
    """The sample's params with a shrunk section lm; ``run`` and ``lm`` change these sections."""
    values = _sample().model_dump()
    values["lm"] |= SMALL | lm
    values["run"] |= run or {}
    values["perplexity"]["stride"] = values["lm"]["window"]
    return parse(values, "tiny")


def tiny_entry(kind: str = "gpt2e", labels: str | None = None, **changes: Any) -> ModelEntry:
    """An entry with `tiny_params` and ``changes``; ``labels``: gold where the kind reads any."""
    given = labels or ("gold" if KINDS[kind].can & {"entities", "guided"} else "none")
    own: dict[str, Any] = {}
    if "entity_lag" in KINDS[kind].params.model_fields:
        own["entity_lag"] = 2
    if "pretrained" in KINDS[kind].can:
        own["initial_weights"] = "none/that/is/there"
    entry = {"kind": kind, "role": "other", "labels": given, **own, **changes}
    lm = _sample().lm.model_dump() | SMALL
    return resolve(kind, {kind: entry}, lm, _sample().kinds, KINDS)


def tiny_model(
    kind: str = "gpt2e", vocabulary: int = VOCABULARY, seed: int = 1, **changes: Any
) -> LanguageModel:
    """The model of `tiny_entry` with random weights."""
    return build_model(tiny_entry(kind, **changes), vocabulary, 0, seed=seed)


def lively_model(
    kind: str = "gpt2e", vocabulary: int = VOCABULARY, seed: int = 1, **changes: Any
) -> LanguageModel:
    """`tiny_model` to be evaluated, with weights so large that whatever it reads shows."""
    model = tiny_model(kind, vocabulary, seed, **changes)
    pointer = getattr(model.module, "entity_pointer", None)
    scaled = {} if pointer is None else dict.fromkeys(pointer.parameters(), pointer.rate)
    with torch.no_grad():
        for parameter in model.module.parameters():
            if parameter.dim() == 2:
                scale = scaled.get(parameter, 1.0)  # by which the model multiplies it
                parameter.mul_(min(15.0, 0.3 / (scale * parameter.std().item())))
    return model.eval()


def stir(module: torch.nn.Module, by: float, others: float | None = None, part: str = "") -> None:
    """Add noise to the parameters with ``part`` in their names; ``others``: to no matrices."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if part in name:
                scale = by if parameter.dim() > 1 or others is None else others
                parameter.add_(torch.randn_like(parameter) * scale)


def tiny_llama(**changes: Any) -> LlamaForCausalLM:
    """A Llama with large random weights, drawn from torch's present state."""
    shape = {
        "vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 24,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 64, "initializer_range": 0.3,
    }  # fmt: skip
    return LlamaForCausalLM(LlamaConfig(**shape | changes)).eval()


def tiny_gpt2(**changes: Any) -> GPT2LMHeadModel:
    """transformers' GPT-2 of `GPT2_SHAPE`, drawn from torch's present state."""
    return GPT2LMHeadModel(GPT2Config(**GPT2_SHAPE | changes)).eval()


def hidden_window(rows: int, share: float) -> tuple[Tensor, Tensor]:
    """Tokens of rows with masks among them, and the targets there."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(1, VOCABULARY, (rows, SMALL["window"]), generator=generator)
    chosen = torch.rand(tokens.shape, generator=generator) < share
    return tokens.masked_fill(chosen, VOCABULARY), tokens.masked_fill(~chosen, IGNORED)


def random_memory(
    batch: int, entities: int, width: int, dtype: torch.dtype = torch.float32
) -> EntityMemory:
    """A memory of normal random vectors, drawn from torch's present state."""
    vectors = torch.randn(batch, entities, width, dtype=dtype)
    states = torch.cat([torch.ones(batch, 1, width, dtype=dtype), vectors], dim=1)
    return EntityMemory(batch, entities, width, dtype=dtype).replace({"states": states})
