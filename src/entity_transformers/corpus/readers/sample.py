"""The sample corpus: generated on the spot, in the official layout of CoNLL-2012."""

from __future__ import annotations

from entity_transformers.corpus.readers import Reader, ontonotes


def _generate(words: int, seed: int) -> dict[str, str]:
    from entity_transformers.corpus.sample import generate_corpus

    return generate_corpus(words, seed)


READER = Reader(
    name="sample",
    form="generated, in files as ontonotes has them",
    read=ontonotes.read,
    recognise=lambda path: None,  # once written it is a corpus of the format ontonotes
    splits=("train", "dev", "test"),
    generate=_generate,
)
