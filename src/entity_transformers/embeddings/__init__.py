"""Word and mention representations (section 4.1): final hidden states, pooled over a word's pieces, as the float16 they are stored in."""

from .mentions import MENTION_ARRAYS, embed_mentions, join_mentions
from .words import embed_splits, embed_tokens, embed_words, index_words

__all__ = ["MENTION_ARRAYS", "embed_mentions", "embed_splits", "embed_tokens", "embed_words", "index_words", "join_mentions"]
