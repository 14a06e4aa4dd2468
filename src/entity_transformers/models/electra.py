"""ELECTRA (Clark et al., 2020): transformers' discriminator and generator in one module.

The generator fills in masked tokens; the discriminator, whose hidden states are the model's, tells
which tokens are not the text's own. They share one embedding, which the generator projects to its
width.

Dimensions: B rows side by side, T tokens, n of them masked, V tokens of the vocabulary, W width.
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
from entity_transformers.models.bert import choose_hidden, pick, read, shape
from entity_transformers.models.folders import Pretrained

TABLES = ("word_embeddings", "position_embeddings", "token_type_embeddings", "LayerNorm")
GENERATOR = ("electra", "generator_predictions", "generator_lm_head")
SHARED = [f"electra.embeddings.{name}.weight" for name in TABLES]
SHARED += ["electra.embeddings.LayerNorm.bias"]
TIED = {f"generator.{name}": name for name in SHARED}
TIED["generator.generator_lm_head.weight"] = SHARED[0]


class ElectraPair(ElectraPreTrainedModel):
    """The parts of an ElectraForPreTraining, and those of its ``generator``, an ElectraForMaskedLM
    that shares its embeddings and output matrix.
    """

    _tied_weights_keys = TIED

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__(config)
        whole = ElectraForPreTraining(config)
        self.electra = whole.electra
        self.discriminator_predictions = whole.discriminator_predictions
        small = ElectraForMaskedLM(shrink(config))
        small.electra.embeddings = self.electra.embeddings
        # only its parts: the whole would look for its own embeddings in a file
        self.generator = nn.ModuleDict({name: getattr(small, name) for name in GENERATOR})
        self.post_init()


def shrink(config: ElectraConfig) -> ElectraConfig:
    """Return the generator's config."""
    small = deepcopy(config)
    small.hidden_size //= ElectraParams.quarter
    small.intermediate_size //= ElectraParams.quarter
    small.num_attention_heads = max(1, small.num_attention_heads // ElectraParams.quarter)
    return small


class ELECTRA(Pretrained):
    """A `LanguageModel` around an `ElectraPair`."""

    kind = KINDS["electra"]
    of = ElectraPair
    objective = "replaced"

    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        return read(self.module.electra, batch).last_hidden_state, state

    def draw(self, window: Window, params: ElectraParams, generator: np.random.Generator) -> Window:
        chosen = choose_hidden(window, params, generator)
        shown = np.where(chosen, self.mask, window.tokens)
        targets = np.where(chosen, window.tokens, IGNORED)
        # drawn here, so that the sampled tokens depend on the window alone
        points = generator.random(window.tokens.shape, dtype=np.float32)
        return replace(window, tokens=shown, targets=targets, more={"points": points})

    def sum_losses(
        self, batch: Batch, targets: Tensor, state: Any, share: float, params: ElectraParams
    ) -> tuple[Tensor, Any]:
        """Sum the generator's nats over the masked tokens and lambda times the discriminator's over
        all tokens; ``share`` scales the latter so that the means of both are added.
        """
        where = pick(targets)
        hidden_tokens = targets.flatten()[where]
        encoder, predict, score = (self.module.generator[name] for name in GENERATOR)
        states = read(encoder, batch).last_hidden_state.flatten(0, 1)[where]
        logits = score(predict(states)).float()
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

    def discriminate(self, batch: Batch) -> Tensor:
        """Return logits, float32 [B, T], of each token being other than the text's own."""
        hidden, _ = self.encode(batch, None)
        return self.module.discriminator_predictions(hidden).float()

    def save(self, folder: Path) -> None:
        """Save as a discriminator, with the generator's weights in the same file."""
        super().save(folder)
        path = folder / "config.json"
        write_json(path, read_json(path) | {"architectures": [ElectraForPreTraining.__name__]})

    @property
    def parts(self) -> Sequence[nn.Module]:
        return [self.module.electra, self.module.generator["electra"]]

    @classmethod
    def configure(cls, entry: ModelEntry, vocabulary: int, end: int) -> Any:
        sizes = shape(entry.lm, vocabulary, end)
        return ElectraConfig(**sizes, embedding_size=entry.lm.width)


@torch.no_grad()
def sample(logits: Tensor, points: Tensor) -> Tensor:
    """Sample a token from each distribution of ``logits`` [n, V]: the one whose part of the unit
    interval contains the point; int64 [n], without gradient. ``points`` [n] are in [0, 1).
    """
    ends = logits.softmax(-1).cumsum(-1)
    found = torch.searchsorted(ends, points[:, None], right=True)[:, 0]
    return found.clamp(max=logits.shape[-1] - 1)  # the last end may be rounded below 1
