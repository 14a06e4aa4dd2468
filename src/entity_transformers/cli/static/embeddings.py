"""Opens the files of extract-embeddings for static word vectors."""

from __future__ import annotations

from pathlib import Path

from entity_transformers.corpus.stored import Documents
from entity_transformers.cli.static import require
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.document import SPLITS
from entity_transformers.encode import PART, number_on, split_documents
from entity_transformers.encode.static import embed_mentions, embed_splits
from entity_transformers.streamed import arrays_writer
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
    facts = {"model": model, "seed": seed}
    with arrays_writer(output / "words.safetensors") as words:
        words.metadata = facts
        for part in embed_splits(vectors, filled):
            words.append(part)
    pairs = (
        (documents[split], AlignedCorpus.load(corpus / f"{split}.safetensors"))
        for split in params.embeddings.splits
    )
    parts = (
        embed_mentions(vectors, texts, aligned, groups)
        for pair in pairs
        for texts, aligned in split_documents(*pair, tokens=PART)
    )
    with arrays_writer(output / "mentions.safetensors") as mentions:
        mentions.metadata = facts | {"groups": list(groups)}
        for part in number_on(parts):
            mentions.append(part)
