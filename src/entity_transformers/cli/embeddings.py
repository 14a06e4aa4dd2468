"""Opens the files of extract-embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from entity_transformers.artifacts import read_tokenizer, write_arrays
from entity_transformers.cli.documents import Documents
from entity_transformers.cli.trained import open_model
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.document import SPLITS
from entity_transformers.encode import embed_mentions, embed_splits, join_mentions
from entity_transformers.study.params import Params


def extract_embeddings(
    params: Params, corpus: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """Vectors of all words (for the tagger) and of the mentions and entities of some splits (for
    the comparison).
    """
    entry, trained = open_model(params, lm, model, seed)
    tokenizer = read_tokenizer(corpus / "tokenizer.json")
    section = params.embeddings
    how: dict[str, Any] = {
        "window": entry.lm.window,
        "pooling": section.pooling,
        "batch": section.batch,
    }
    splits: dict[str, Any] = {
        s: (Documents(corpus / f"{s}.jsonl"), AlignedCorpus.load(corpus / f"{s}.safetensors"))
        for s in SPLITS
    }
    filled = {split: pair for split, pair in splits.items() if pair[0]}
    words = embed_splits(
        trained.encoder(layers=True), filled, tokenizer, context=section.ner_context, **how
    )
    words |= trained.split_layers(words["vectors"])
    reader = trained.encoder()
    compared = [filled[split] for split in section.splits if split in filled]
    mentions = join_mentions(
        embed_mentions(reader, documents, aligned, tokenizer, params.similarity.groups, **how)
        for documents, aligned in compared
    )
    write_arrays(output / "words.safetensors", words, {"model": model, "seed": seed})
    write_arrays(
        output / "mentions.safetensors",
        mentions,
        {"model": model, "seed": seed, "groups": list(params.similarity.groups)},
    )
