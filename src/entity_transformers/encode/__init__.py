"""Word and mention representations (section 4.1): final hidden states, pooled over a word's tokens,
as the float16 they are stored in.
"""

from entity_transformers.encode.mentions import MENTION_ARRAYS, embed_mentions, number_on
from entity_transformers.encode.words import (
    PART,
    embed_splits,
    embed_words,
    embed_words_in_context,
    index_words,
    split_documents,
)

__all__ = [
    "MENTION_ARRAYS",
    "PART",
    "embed_mentions",
    "embed_splits",
    "embed_words",
    "embed_words_in_context",
    "index_words",
    "number_on",
    "split_documents",
]
