"""A split of awkward lengths: documents of one token, of whole windows, of a window and one."""

import numpy as np

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give

VOCABULARY, WINDOW = 50, 12
LENGTHS = (31, 7, 1, 12, 25, 13, 2, 24)
TAGS = ("", "DT", "NN", "PRP", "VB")


def mixed_corpus() -> AlignedCorpus:
    """Its gold labels are those that it gives; words, tags and bytes are of several tokens."""
    generator = np.random.default_rng(5)
    documents = [_random_document(length, generator) for length in LENGTHS]
    kinds = {"tags": np.uint8, "bytes": np.uint16}
    columns = {
        name: np.concatenate([d[name] for d in documents]).astype(kinds.get(name, np.int32))
        for name in documents[0]
    }
    offsets = np.cumsum([0, *LENGTHS], dtype=np.int64)
    names = tuple(f"doc#{d}" for d in range(len(LENGTHS)))
    return give(AlignedCorpus("dev", names, TAGS, offsets=offsets, **columns), "gold")


def _random_document(length: int, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """A document of words of 1 to 3 tokens and mentions of 1 to 4 tokens, of up to 4 entities."""
    words = np.repeat(np.arange(length), generator.integers(1, 4, length))
    words = np.concatenate([[-1], words])[:length]
    gold, mentions = np.zeros(length, np.int32), np.full(length, -1, np.int32)
    place, count, numbers = 1, 0, {}
    while (place := place + int(generator.integers(0, 4))) < length:
        end = min(length, place + int(generator.integers(1, 5)))
        gold[place:end] = numbers.setdefault(int(generator.integers(4)), len(numbers) + 1)
        mentions[place:end] = count
        place, count = end, count + 1
    tokens = generator.integers(1, VOCABULARY, length)
    tokens[0] = 0
    tags = np.concatenate([[0], generator.integers(0, len(TAGS), length)])[words + 1]
    sizes = generator.integers(1, 6, length)
    sizes[0] = 0
    found = {"tokens": tokens, "gold": gold, "mentions": mentions}
    return found | {"words": words, "tags": tags, "bytes": sizes}
