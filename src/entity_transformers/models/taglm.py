"""TagLM's language model (Peters et al., 2017): ELMo's, of which a tagger reads the top layers
alone, after its own first BiLSTM.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from entity_transformers.kinds import KINDS, ModelEntry
from entity_transformers.models import elmo


class TagLM(elmo.ELMo):
    """An ELMo whose `split_layers` differ: with the same values and seed its weights are ELMo's."""

    kind = KINDS["taglm"]

    @property
    def word_layers(self) -> tuple[int, ...]:
        """The token layer and the top."""
        return (0, self.module.layers)

    def split_layers(self, vectors: np.ndarray) -> dict[str, np.ndarray]:
        """``vectors`` [N, W]: the token layer, which the tagger's first BiLSTM reads; ``later`` [N,
        2 W]: [forward; backward] of the top, which its second one reads too.
        """
        width = self.module.embeddings.embedding_dim
        return {"vectors": vectors[:, :width], "later": vectors[:, 2 * width :]}


def build(entry: ModelEntry, vocabulary: int, end: int, seed: int) -> elmo.ELMo:
    """As `elmo.build`; ``initial_weights`` may be those of an ELMo."""
    return elmo.build(entry, vocabulary, end, seed, TagLM)


def load(folder: Path) -> elmo.ELMo:
    """A saved TagLM, or an ELMo as one, in float32; none saved there: FileNotFoundError."""
    return elmo.load(folder, TagLM)
