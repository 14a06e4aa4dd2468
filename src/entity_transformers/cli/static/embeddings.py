"""Opens the files of extract-embeddings for static word vectors."""

from __future__ import annotations

from pathlib import Path

from entity_transformers.artifacts import write_arrays
from entity_transformers.cli.documents import Documents
from entity_transformers.cli.static import require
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.document import SPLITS
from entity_transformers.encode import join_mentions
from entity_transformers.encode.static import embed_mentions, embed_splits
from entity_transformers.study.params import Params


def extract_embeddings(
    params: Params, corpus: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """Vectors of all words (for the tagger) and of the mentions and entities of some splits (for
    the comparison); context and pooling make no difference to them.
    """
    entry = require(params, model)
    vectors = entry.kind.module().load(lm)
    documents: dict[str, Documents] = {s: Documents(corpus / f"{s}.jsonl") for s in SPLITS}
    filled = {split: found for split, found in documents.items() if found}
    groups = params.similarity.groups
    parts = (
        embed_mentions(vectors, filled[split], _load(corpus, split), groups)
        for split in params.embeddings.splits
        if split in filled
    )
    facts = {"model": model, "seed": seed}
    write_arrays(output / "words.safetensors", embed_splits(vectors, filled), facts)
    write_arrays(
        output / "mentions.safetensors", join_mentions(parts), facts | {"groups": list(groups)}
    )


def _load(corpus: Path, split: str) -> AlignedCorpus:
    return AlignedCorpus.load(corpus / f"{split}.safetensors")
