"""BERT (Devlin et al., 2019) as transformers has it, trained on masked tokens (section 3.1, task
#1), and BERTE, with entity attention behind each block and the memory of GPT2E.

The tokenizer has no mask token, so the embeddings have one more row than it has tokens; no text
contains that token. A window may hold several documents, none of which sees another.

Dimensions: B rows side by side, T tokens, n of them masked, W width.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor
from torch.nn import functional
from transformers import BertConfig, BertForMaskedLM

from entity_transformers.artifacts import read_json
from entity_transformers.corpus.windows import Window
from entity_transformers.kinds import KINDS, ModelEntry
from entity_transformers.kinds.params import BertParams, MaskedParams
from entity_transformers.models.base import IGNORED, Batch, find_together
from entity_transformers.models.folders import Pretrained
from entity_transformers.models.gpt2 import Remembering
from entity_transformers.models.gpt2e.adapter import KEY, add_entity_attention


class BERT(Pretrained):
    """A `LanguageModel` around a BertForMaskedLM."""

    kind = KINDS["bert"]
    of = BertForMaskedLM
    objective = "masked"

    def read(self, batch: Batch, **more: Any) -> Any:
        """Run transformers' BertModel on a window."""
        return read(self.module.bert, batch, **more)

    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        return self.read(batch).last_hidden_state, state

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits of the tokens at the hidden states' own positions."""
        return self.module.cls.predictions(hidden)

    def nats(self, hidden: Tensor, targets: Tensor) -> Tensor:
        logits, wanted = self.logits(hidden.flatten(0, 1)).float(), targets.flatten()
        losses = functional.cross_entropy(logits, wanted, ignore_index=IGNORED, reduction="none")
        return losses.view(targets.shape)

    def draw(self, window: Window, params: BertParams, generator: np.random.Generator) -> Window:
        chosen = choose_hidden(window, params, generator)
        shown = corrupt(
            window.tokens,
            chosen,
            mask=self.mask,
            shares=(params.mask_share, params.random_share),
            generator=generator,
            end=self.module.config.bos_token_id,
        )
        return replace(window, tokens=shown, targets=np.where(chosen, window.tokens, IGNORED))

    def sum_losses(
        self, batch: Batch, targets: Tensor, state: Any, share: float, params: BertParams
    ) -> tuple[Tensor, Any]:
        hidden, state = self.encode(batch, state)
        where = pick(targets)
        logits = self.logits(hidden.flatten(0, 1)[where]).float()
        loss = functional.cross_entropy(logits, targets.flatten()[where], reduction="sum")
        return loss, state

    @classmethod
    def configure(cls, entry: ModelEntry, vocabulary: int, end: int) -> Any:
        return BertConfig(**shape(entry.lm, vocabulary, end))


class BertEForMaskedLM(BertForMaskedLM):
    """A BertForMaskedLM to which `add_entity_attention` has been applied."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        add_entity_attention(
            self,
            gate="none",
            attention_dropout=config.attention_probs_dropout_prob,
            dropout=config.hidden_dropout_prob,
        )


class BERTE(Remembering, BERT):
    """A `LanguageModel` around a `BertEForMaskedLM`; its state is an `EntityMemory`."""

    kind = KINDS["berte"]
    of = BertEForMaskedLM

    @classmethod
    def check_type(cls, folder: Path, expected: Collection[str]) -> None:
        super().check_type(folder, expected)
        if KEY not in read_json(folder / "config.json"):
            raise ValueError(f"{folder}: a model without entity attention: name another folder")


def shape(lm: Any, vocabulary: int, end: int) -> Mapping[str, Any]:
    """Return the config values of masked models; ``end`` is the id of ``<|endoftext|>``."""
    return {
        "vocab_size": vocabulary + 1,
        "mask_token_id": vocabulary,
        "hidden_size": lm.width,
        "num_hidden_layers": lm.layers,
        "num_attention_heads": lm.heads,
        "intermediate_size": 4 * lm.width,
        "max_position_embeddings": lm.context,
        "hidden_dropout_prob": lm.dropout,
        "attention_probs_dropout_prob": lm.dropout,
        "bos_token_id": end,
        "eos_token_id": end,
        "pad_token_id": None,  # its embedding would never be trained
    }


def choose_hidden(
    window: Window, params: MaskedParams, generator: np.random.Generator
) -> np.ndarray:
    """Choose what is to be predicted in a window, bool [B, T]: tokens or whole words."""
    text, rate = ~window.begins, params.mask_rate
    if params.whole_words:
        return choose_words(text, window.words, rate, generator)
    return choose(text, rate, generator)


def choose(text: np.ndarray, rate: float, generator: np.random.Generator) -> np.ndarray:
    """Choose in each row round(rate n) of the n tokens of ``text`` (bool [B, T]), at least one if
    there are any, all subsets of that size equally likely.
    """
    count = text.sum(1)
    wanted = np.minimum(count, np.maximum(1, np.round(rate * count)))
    order = np.where(text, generator.random(text.shape), 2.0).argsort(1)
    return order.argsort(1) < wanted[:, None]


def choose_words(
    text: np.ndarray, words: np.ndarray, rate: float, generator: np.random.Generator
) -> np.ndarray:
    """Choose whole words, whose tokens have one number in ``words`` (int64 [B, T]). They are taken
    in random order, as in the code of BERT's authors, and a word that would make it more than
    round(rate n) tokens is skipped.
    """
    chosen = np.zeros_like(text)
    for row, of_row, found in zip(text, words, chosen, strict=True):
        places = np.flatnonzero(row)
        runs = np.split(places, np.flatnonzero(np.diff(of_row[places]) | (np.diff(places) > 1)) + 1)
        left = max(1, round(rate * len(places)))
        for index in generator.permutation(len(runs)):
            if len(runs[index]) <= left:
                found[runs[index]] = True
                left -= len(runs[index])
    return chosen


def corrupt(
    tokens: np.ndarray,
    chosen: np.ndarray,
    *,
    mask: int,
    shares: tuple[float, float],
    generator: np.random.Generator,
    end: int,
) -> np.ndarray:
    """Replace the tokens [B, T] that are ``chosen`` (bool [B, T]): with the first probability of
    ``shares`` by the mask, with the second by a random token of 0 ... mask - 1 other than ``end``;
    the others stay.
    """
    masked, replaced = shares
    where, other = generator.random(tokens.shape), generator.integers(0, mask - 1, tokens.shape)
    other += other >= end
    changed = np.where(where < masked, mask, np.where(where < masked + replaced, other, tokens))
    return np.where(chosen, changed, tokens)


def see(batch: Batch) -> Tensor | None:
    """Return which tokens each token sees, bool [B, 1, T or 1, T]: those of its document in the
    window, without padding; None: every token sees all.
    """
    seen = None if batch.positions is None else find_together(batch.positions)[:, None]
    if (valid := batch.valid) is not None:
        there = valid[:, None, None]
        seen = there if seen is None else seen & there
    return seen


def read(encoder: Any, batch: Batch, **more: Any) -> Any:
    return encoder(batch.tokens, attention_mask=see(batch), position_ids=batch.positions, **more)


def pick(targets: Tensor) -> Tensor:
    """Return the indices int64 [n] of the predicted tokens in the flattened targets [B, T]."""
    return (targets.reshape(-1) != IGNORED).nonzero()[:, 0]
