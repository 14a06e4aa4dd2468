"""Documents of random words with chains, as a corpus' reader would give them; a tokenizer."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from entity_transformers.corpus.alignment import learn_tokenizer
from entity_transformers.corpus.document import Document, Mention

LEXICON = {
    "Ann": "NNP", "Bobby": "NNP", "harbour": "NN", "tailor": "NN", "she": "PRP", "his": "PRP$",
    "the": "DT", "of": "IN", "old": "JJ", "walked": "VBD", "extraordinarily": "RB", ",": ",",
    ".": ".",
}  # fmt: skip


def write_documents(
    count: int, longest: int, mentions: int, longest_mention: int = 4
) -> list[Document]:
    """Documents of random words with mentions of three chains, some of them nested or crossing."""
    generator = np.random.default_rng(11)
    return [_write(i, generator, longest, mentions, longest_mention) for i in range(count)]


def _write(
    index: int, generator: np.random.Generator, longest: int, mentions: int, longest_mention: int
) -> Document:
    words = tuple(generator.choice(list(LEXICON), int(generator.integers(1, longest + 1))).tolist())
    starts = sorted({0, *generator.integers(0, len(words), 3).tolist()})
    places = zip(
        generator.integers(0, len(words), mentions).tolist(),
        generator.integers(1, longest_mention + 1, mentions).tolist(),
        strict=True,
    )
    spans = {(start, min(len(words), start + length)) for start, length in places}
    kept = tuple(
        Mention(start, end, int(generator.integers(3, 6)))
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1]))
    )
    tags = tuple(LEXICON[word] for word in words)
    return Document(f"doc{index}", 0, "dev", "", words, tuple(starts), kept, tags)


def document_of(
    text: str | Sequence[str], mentions: Iterable[Sequence[int]] = (), **more: Any
) -> Document:
    """The words of a text, with mentions as (start, end, chain); a training document of one
    sentence, named d, where ``more`` has nothing else.
    """
    words = tuple(text.split() if isinstance(text, str) else text)
    own = {"name": "d", "part": 0, "split": "train", "genre": "", "sentence_starts": (0,)}
    return Document(**own | more, words=words, mentions=tuple(Mention(*m) for m in mentions))


def teach(text: str, size: int = 300, spacing: str = "natural") -> Tokenizer:
    """A tokenizer that is learnt from the words of a text."""
    return learn_tokenizer([document_of(text)], size, spacing)


def join_parts(parts: Iterable[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Arrays that come part by part, as the file that holds them has them."""
    found: dict[str, list[np.ndarray]] = {}
    for part in parts:
        for name, array in part.items():
            found.setdefault(name, []).append(array)
    return {name: np.concatenate(arrays) for name, arrays in found.items()}
