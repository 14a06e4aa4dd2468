"""TagLM (Peters et al., 2017): ELMo's language model, whose top layers a tagger reads after its
first BiLSTM.
"""

from __future__ import annotations

from entity_transformers.kinds.base import Kind
from entity_transformers.kinds.elmo import ELMoParams

KIND = Kind(
    name="taglm",
    label="TagLM",
    year=2017,
    era="recurrent",
    params=ELMoParams,
    can=frozenset({"encode", "causal", "state", "layers", "windows"}),
    home="entity_transformers.models.taglm",
    also=frozenset({"elmo"}),
    predicts="forward half",
)
