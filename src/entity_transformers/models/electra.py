"""ELECTRA (Clark et al., 2020): transformers' discriminator and generator in one module.

The generator fills in hidden tokens; the discriminator, whose hidden states are the model's, tells
which tokens are not the text's own. Both have one embedding, which the generator projects to its
width.

Dimensions: B rows side by side, T tokens, n of them hidden, V tokens of the vocabulary, W width.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    ElectraPreTrainedModel,
)

from entity_transformers.artifacts import read_json, write_json
from entity_transformers.corpus.windows import Window
from entity_transformers.kinds import KINDS, ModelEntry
from entity_transformers.kinds.params import ElectraParams
from entity_transformers.models.base import IGNORED, Batch
from entity_transformers.models.bert import choose, pick, read, shape
from entity_transformers.models.folders import Pretrained

TABLES = ("word_embeddings", "position_embeddings", "token_type_embeddings", "LayerNorm")
GENERATOR = ("electra", "generator_predictions", "generator_lm_head")
SHARED = [f"electra.embeddings.{name}.weight" for name in TABLES]
SHARED += ["electra.embeddings.LayerNorm.bias"]
TIED = {f"generator.{name}": name for name in SHARED}
TIED["generator.generator_lm_head.weight"] = SHARED[0]


class ElectraPair(ElectraPreTrainedModel):
    """The parts of an ElectraForPreTraining, and those of its ``generator``, an ElectraForMaskedLM,
    whose embeddings, and with them its output matrix, are the discriminator's.
    """

    _tied_weights_keys = TIED

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__(config)
        whole = ElectraForPreTraining(config)
        self.electra = whole.electra
        self.discriminator_predictions = whole.discriminator_predictions
        small = ElectraForMaskedLM(shrink(config))
        small.electra.embeddings = self.electra.embeddings
        # its parts: as a whole it would look for embeddings of its own in a file
        self.generator = nn.ModuleDict({name: getattr(small, name) for name in GENERATOR})
        self.post_init()


def shrink(config: ElectraConfig) -> ElectraConfig:
    """The config of the generator of a discriminator."""
    small = deepcopy(config)
    small.hidden_size //= ElectraParams.quarter
    small.intermediate_size //= ElectraParams.quarter
    small.num_attention_heads = max(1, small.num_attention_heads // ElectraParams.quarter)
    return small


class ELECTRA(Pretrained):
    """An `ElectraPair` as the steps see it."""

    kind = KINDS["electra"]
    of = ElectraPair
    objective = "replaced"

    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        return read(self.module.electra, batch).last_hidden_state, state

    def draw(self, window: Window, params: ElectraParams, generator: np.random.Generator) -> Window:
        chosen = choose(~window.begins, params.mask_rate, generator)
        shown = np.where(chosen, self.mask, window.tokens)
        targets = np.where(chosen, window.tokens, IGNORED)
        # what is sampled with them then depends on the window alone
        points = generator.random(window.tokens.shape, dtype=np.float32)
        return replace(window, tokens=shown, targets=targets, more={"points": points})

    def sum_losses(
        self, batch: Batch, targets: Tensor, state: Any, share: float, params: ElectraParams
    ) -> tuple[Tensor, Any]:
        """The generator's nats of the hidden tokens, and lambda times the discriminator's of all
        tokens, whose mean counts as much as the mean of the former.
        """
        where = pick(targets)
        hidden_tokens = targets.flatten()[where]
        logits = self.generate(batch, where)
        nats = functional.cross_entropy(logits, hidden_tokens, reduction="sum")
        sampled = sample(logits, batch.more["points"].flatten()[where])
        filled = batch.tokens.flatten().index_copy(0, where, sampled)
        replaced = torch.zeros_like(filled, dtype=torch.bool)
        replaced[where] = sampled != hidden_tokens
        told = self.discriminate(replace(batch, tokens=filled.view_as(batch.tokens)))
        errors = functional.binary_cross_entropy_with_logits(
            told, replaced.view_as(told).float(), reduction="sum"
        )
        return nats + params.discriminator_weight * share * errors, state

    def generate(self, batch: Batch, where: Tensor) -> Tensor:
        """The generator's logits, float32 [n, V], at the places ``where`` int64 [n] of the window
        laid flat.
        """
        encoder, predict, score = (self.module.generator[name] for name in GENERATOR)
        hidden = read(encoder, batch).last_hidden_state.flatten(0, 1)[where]
        return score(predict(hidden)).float()

    def discriminate(self, batch: Batch) -> Tensor:
        """How likely each token is not the text's own: logits, float32 [B, T]."""
        hidden, _ = self.encode(batch, None)
        return self.module.discriminator_predictions(hidden).float()

    def save(self, folder: Path) -> None:
        """As the discriminator, beside whose weights those of the generator lie."""
        super().save(folder)
        config = read_json(folder / "config.json")
        write_json(
            folder / "config.json", config | {"architectures": [ElectraForPreTraining.__name__]}
        )

    @property
    def parts(self) -> Sequence[nn.Module]:
        return [self.module.electra, self.module.generator["electra"]]

    @classmethod
    def configure(cls, entry: ModelEntry, vocabulary: int, end: int) -> Any:
        sizes = shape(entry.lm, vocabulary, end)
        return ElectraConfig(**sizes, embedding_size=entry.lm.width)


@torch.no_grad()
def sample(logits: Tensor, points: Tensor) -> Tensor:
    """The token of each distribution of ``logits`` [n, V] whose part of the unit interval the
    point is in: int64 [n], without gradient; ``points`` [n] are of [0, 1).
    """
    ends = logits.softmax(-1).cumsum(-1)
    found = torch.searchsorted(ends, points[:, None], right=True)[:, 0]
    return found.clamp(max=logits.shape[-1] - 1)  # the last end may be rounded below 1
