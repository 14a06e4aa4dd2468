"""Opens the files of extract-embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from entity_transformers.artifacts import read_tokenizer
from entity_transformers.corpus.stored import Documents
from entity_transformers.cli.trained import open_model
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.document import SPLITS
from entity_transformers.encode import (
    PART,
    embed_mentions,
    embed_splits,
    number_on,
    split_documents,
)
from entity_transformers.streamed import arrays_writer
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
    splits: dict[str, tuple[Documents, AlignedCorpus]] = {
        s: (Documents(corpus / f"{s}.jsonl"), AlignedCorpus.load(corpus / f"{s}.safetensors"))
        for s in SPLITS
    }
    filled = {split: pair for split, pair in splits.items() if pair[0]}
    facts = {"model": model, "seed": seed}
    with arrays_writer(output / "words.safetensors") as words:
        words.metadata = facts
        encoder = trained.encoder(layers=True)
        for part in embed_splits(
            encoder, filled, tokenizer, context=section.ner_context, tokens=PART, **how
        ):
            layers = trained.split_layers(part["vectors"]) if "vectors" in part else {}
            words.append(part | layers)
    reader = trained.encoder()
    groups = params.similarity.groups
    parts = (
        embed_mentions(reader, documents, aligned, tokenizer, groups, **how)
        for split in section.splits
        for documents, aligned in split_documents(*splits[split], tokens=PART)
    )
    with arrays_writer(output / "mentions.safetensors") as mentions:
        mentions.metadata = facts | {"groups": list(groups)}
        for part in number_on(parts):
            mentions.append(part)
