"""Pretrained models of transformers, used as they are: kind ``pretrained``, causal language models,
and kind ``pretrained-encoder``, which see both sides.
"""

import os
import shutil
import time
from pathlib import Path
from typing import Any, Self, cast

import torch
from safetensors import safe_open
from tokenizers import Tokenizer
from torch import Tensor
from transformers import AutoModel, AutoModelForCausalLM

from entity_transformers import runtime
from entity_transformers.artifacts import (
    copy_file,
    read_json,
    read_tokenizer,
    write_csv,
    write_with,
)
from entity_transformers.kinds import KINDS, ModelEntry
from entity_transformers.models.base import Batch, LanguageModel, find_class
from entity_transformers.models.folders import Pretrained, load_whole, opened
from entity_transformers.models.gpt2 import Wrapped
from entity_transformers.models.weights import find_tokenizer, find_weights
from entity_transformers.step import Row, Run
from entity_transformers.study.plan import Plan
from entity_transformers.train.checkpoint import CURVE_COLUMNS
from entity_transformers.train.entry import list_rows

TOKENIZER = "tokenizer.json"
STORED = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""The precisions of weights by their names in safetensors."""


class TakenOver(Pretrained):
    """A pretrained model, taken over without training."""

    @classmethod
    def load(cls, folder: Path, dtype: Any = "auto") -> Self:
        """Load a saved model, by default in the precision in which it was saved."""
        with opened(folder):
            # the file may hold other heads, and an encoder's pooler is not used
            return cls(load_whole(cls.of, folder, "pooler", strict=False, dtype=dtype))

    @classmethod
    def take_over(cls, run: Run) -> Self:
        """Load the model whose weights the run's entry names onto the study's device, and put its
        files and its tokenizer into the run's folder.
        """
        params = run.entry.lm
        folder = cast(Path, find_weights(params.initial_weights))
        device = runtime.start(run.params.run.device, run.params.run.threads, cast(int, run.seed))
        model = cls.load(folder, getattr(torch, params.precision)).to(device).eval()
        tokenizer = find_tokenizer(params.initial_weights)
        check_fit(model, run.entry, tokenizer)
        if model.can("causal") and reads_corpus(run):
            check_tokens(run.entry, tokenizer, read_tokenizer(run.home("corpus") / TOKENIZER))
        store(model, folder, run.folder, params.precision)
        write_with(run.folder / TOKENIZER, lambda path: tokenizer.save(str(path)))
        return model


class PretrainedLM(TakenOver, Wrapped):
    """A pretrained causal language model of transformers."""

    kind = KINDS["pretrained"]
    of = AutoModelForCausalLM

    def encode_branches(self, begins: Tensor, lengths: Tensor, rests: Tensor, of: Tensor) -> Tensor:
        """Return the final hidden states [N, R, W] of texts with shared beginnings, each read once.

        begins   int64 [G, P]: beginnings, padded on the right
        lengths  int64 [G]: number of tokens of each beginning
        rests    int64 [N, R]: continuations, padded on the right
        of       int64 [N]: the beginning that each continuation follows
        """
        held = torch.arange(begins.shape[1], device=begins.device) < lengths[:, None]
        read = self.module.base_model(input_ids=begins, attention_mask=held.long(), use_cache=True)
        cache = read.past_key_values
        cache.batch_select_indices(of)
        places = lengths[of, None] + torch.arange(rests.shape[1], device=rests.device)
        last = None if self.context is None else self.context - 1  # padding may reach beyond it
        inputs = {
            "input_ids": rests,
            "attention_mask": torch.cat([held[of], torch.ones_like(rests, dtype=torch.bool)], 1),
            "position_ids": places.clamp(0, last),
        }
        states = self.module.base_model(**inputs, past_key_values=cache, use_cache=True)
        return states.last_hidden_state.float()


class PretrainedEncoder(TakenOver):
    """An encoder of the BERT family, which reads the text in its own tokens. Its hidden states are
    float32, whatever the dtype of its weights.
    """

    kind = KINDS["pretrained-encoder"]
    of = AutoModel

    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        mask = None if batch.valid is None else batch.valid.long()
        read = self.module(batch.tokens, attention_mask=mask, position_ids=batch.positions)
        return read.last_hidden_state.float(), state


def train(run: Run) -> list[Row]:
    """Take over the weights in the entry's precision: step lm for kinds that are not trained."""
    started = time.time()
    model = cast(type[TakenOver], find_class(run.entry.kind)).take_over(run)
    write_csv(run.folder / "curve.csv", [], CURVE_COLUMNS)
    numbers = {
        "parameters": model.count_parameters(),
        "seconds_total": time.time() - started,
        "device": str(model.device),
        "threads": run.params.run.threads,
    }
    return list_rows(numbers, run.entry)


def store(model: LanguageModel, source: Path, folder: Path, precision: str) -> None:
    """Write the model to a folder, from which it is loaded in this precision: as the files of
    ``source`` if they and their config have it, linked instead of copied where the disk allows,
    since they are never written again.
    """
    weights = source / "model.safetensors"

    def link_or_copy(target: Path) -> None:
        target.unlink(missing_ok=True)
        try:
            os.link(weights, target)
        except OSError:  # another disk, or one without hard links
            shutil.copyfile(weights, target)

    if weights.is_file():
        with safe_open(weights, "numpy") as file:
            found = {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
        config = read_json(source / "config.json")
        said = {config.get("dtype"), config.get("torch_dtype")}  # in which it would be loaded
        if said | {STORED.get(one) for one in found} <= {precision, None}:
            copy_file(source / "config.json", folder / "config.json")
            write_with(folder / weights.name, link_or_copy)
            return
    model.save(folder)


def check_fit(model: LanguageModel, entry: ModelEntry, tokenizer: Tokenizer) -> None:
    """Raise ValueError for a window longer than the model's positions, or for a tokenizer with more
    tokens than a causal model can predict.
    """
    if model.context is not None and entry.lm.window > model.context:
        raise ValueError(
            f"models.{entry.name}.window: {entry.lm.window}, but the model has only"
            f" {model.context} positions: lower it"
        )
    size = tokenizer.get_vocab_size()
    if model.can("causal") and size > (known := len(model.output_weight)):
        raise ValueError(
            f"models.{entry.name}: the tokenizer of {entry.lm.initial_weights} has {size} tokens,"
            f" but the model has {known}: give it the tokenizer that it was trained with"
        )


def reads_corpus(run: Run) -> bool:
    """Tell whether any step reads the study's corpus, which is in the study's tokens, with the
    model; step transfer reads examples of its own in the model's tokens.
    """
    params, entry = run.params, run.entry
    reading = (step for step in Plan(params).steps if step.needs and entry.can(step.needs))
    others = {step.name for step in reading if params.takes_part(entry.name, step.name)}
    return not entry.can({"finetunes"}) or bool(others - {"lm", "transfer"})


def check_tokens(entry: ModelEntry, own: Tokenizer, study: Tokenizer) -> None:
    """Raise ValueError if the study's tokens are not the model's ``own``."""
    if own.get_vocab() != study.get_vocab():
        weights = entry.lm.initial_weights
        raise ValueError(
            f"models.{entry.name}: the study's tokens are not those of {weights}: set tokenizer to"
            f" {{kind: pretrained, path: {weights!r}}}, or, if it is only fine-tuned, the entry's"
            " `only` to [lm, transfer]"
        )
