"""What the numbers of tags and named entities stand for in the hub's copy of CoNLL-2012."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from entity_transformers.corpus.brackets import ONTONOTES_TYPES

TAGS_V4 = [
    "XX", "``", "$", "''", ",", "-LRB-", "-RRB-", ".", ":", "ADD", "AFX", "CC", "CD", "DT", "EX",
    "FW", "HYPH", "IN", "JJ", "JJR", "JJS",
    "LS", "MD", "NFP", "NN", "NNP", "NNPS", "NNS", "PDT", "POS", "PRP", "PRP$", "RB", "RBR", "RBS",
    "RP", "SYM", "TO", "UH", "VB", "VBD",
    "VBG", "VBN", "VBP", "VBZ", "WDT", "WP", "WP$", "WRB",
]  # fmt: skip
TAGS_V12 = [*TAGS_V4[:4], "*", *TAGS_V4[4:45], "VERB", *TAGS_V4[45:]]
Names = tuple[list[str], list[str]]
"""Of the tags and of the named-entity labels."""

_LABELS = ["O", *(f"{prefix}-{label}" for label in ONTONOTES_TYPES for prefix in "BI")]


def label_names(metadata: Mapping[bytes, bytes], source: str) -> Names:
    """Names of the numbers in pos_tags and named_entities: the file's own (Hugging Face feature
    metadata), else the card's order.
    """
    tags, labels = (TAGS_V12 if "v12" in source else TAGS_V4), _LABELS
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))
    except (ValueError, RecursionError):
        return tags, labels
    return (
        _find_names(features, "pos_tags") or tags,
        _find_names(features, "named_entities") or labels,
    )


def _find_names(features: Any, key: str) -> list[str] | None:
    """The first ``names`` list below ``key``, however deep: the layout of the metadata changed with
    datasets' versions.
    """
    if isinstance(features, list):
        return next((found for item in features if (found := _find_names(item, key))), None)
    if not isinstance(features, dict):
        return None
    if key == "names":
        names = features.get("names")
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return names
    elif key in features:
        return _find_names(features[key], "names")
    return next((found for item in features.values() if (found := _find_names(item, key))), None)
