"""Perplexity (tables 2 and 3): reading documents window by window, scoring a corpus split and scoring LAMBADA."""

from .corpus import document_rows, score_corpus, score_modes, summarise_split
from .lambada import encode_passages, passage_rows, score_passages, summarise_passages

__all__ = [
    "document_rows",
    "encode_passages",
    "passage_rows",
    "score_corpus",
    "score_modes",
    "score_passages",
    "summarise_passages",
    "summarise_split",
]
