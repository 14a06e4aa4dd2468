"""Step embeddings (section 4.1): vectors of words, mentions and entities."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Literal

from entity_transformers.corpus.document import SPLITS
from entity_transformers.step import DOCUMENTS, MODEL, TOKENS, Rows, Run, step
from entity_transformers.study.sections import Section, Size, Splits


class EmbeddingsParams(Section):
    """Word and mention representations (section 4.1)."""

    splits: Splits
    """splits whose mentions are compared"""
    ner_context: Literal["word", "sentence", "document"]
    """text around a word when its NER vector is made; word: none, the paper"""
    ner_layers: Literal["last", "all"]
    """all: a tagger also reads a learnt mix of a transformer's layers, as one reads ELMo's"""
    batch: Size
    """words, sentences or documents of one forward pass"""


@step(
    "embeddings",
    "[4.1] vectors of words, mentions and entities",
    params=EmbeddingsParams,
    also=("similarity",),
    reads={"corpus": (*DOCUMENTS, *TOKENS, "tokenizer.json"), "lm": MODEL},
    writes=("words.safetensors", "mentions.safetensors"),
    needs={"encode"},
)
def embeddings(run: Run) -> Rows:
    """Vectors of all words, for the tagger, and of the mentions and entities of some splits."""
    from entity_transformers.artifacts import write_array_parts
    from entity_transformers.encode.mentions import number_on
    from entity_transformers.encode.words import PART, split_documents

    groups = run.params.similarity.groups
    embed_words, embed_mentions = _find_encoders(run, groups)
    documents = {split: run.documents(split) for split in SPLITS}
    aligned = _find_tokens(run, documents)
    filled = {split: (found, aligned(split)) for split, found in documents.items() if found}
    facts = {"model": run.model, "seed": run.seed}
    write_array_parts(run.folder / "words.safetensors", embed_words(filled), facts)
    parts = (
        embed_mentions(texts, some)
        for split in run.section.splits
        for texts, some in split_documents(documents[split], aligned(split), tokens=PART)
    )
    facts |= {"groups": list(groups)}
    write_array_parts(run.folder / "mentions.safetensors", number_on(parts), facts)
    yield from ()


def _find_tokens(run: Run, documents: Mapping[Any, Any]) -> Callable[[str], Any]:
    """Return a function from a split to its aligned tokens: the study's, or the model's own."""
    if not run.entry.can({"own-tokens"}):
        return run.tokens
    from entity_transformers.corpus.alignment import align_split

    section = run.params.corpus
    how = {"policy": section.nested_mentions, "spacing": section.spacing, "running_text": True}
    return cache(lambda split: align_split(documents[split], run.tokenizer, split=split, **how))


def _find_encoders(run: Run, groups: Any) -> tuple[Any, Any]:
    """Return functions that make the vectors of splits' words, and of documents' mentions."""
    from entity_transformers.encode.mentions import embed_mentions, embed_static_mentions
    from entity_transformers.encode.words import LayerEncoder, embed_splits, embed_vocabulary

    if run.entry.can({"static"}):
        vectors = run.entry.kind.module().load(run.home("lm"))

        def words_of(filled: Any) -> Any:
            texts = {split: found for split, (found, _) in filled.items()}
            return embed_vocabulary(texts, lambda words: vectors.look_up(words).astype("float16"))

        return words_of, partial(embed_static_mentions, vectors, groups=groups)
    how = {"window": run.entry.lm.window, "batch": run.section.batch}
    encoder, reader = run.trained.encoder(layers=True), run.trained.encoder()
    context = run.section.ner_context
    layers = len(run.trained.blocks) + 1 if run.section.ner_layers == "all" else 1
    if run.entry.can({"pretrained", "layers"}):
        layers = run.entry.lm.mixed_layers
        context = run.entry.lm.ner_context or context
    if layers > 1:
        encoder = LayerEncoder(reader, layers)

    def with_layers(filled: Any) -> Any:
        for part in embed_splits(encoder, filled, run.tokenizer, context=context, **how):
            yield part | (encoder.split_layers(part["vectors"]) if "vectors" in part else {})

    given = {"tokenizer": run.tokenizer, "groups": groups}
    return with_layers, partial(embed_mentions, reader, **given, **how)
