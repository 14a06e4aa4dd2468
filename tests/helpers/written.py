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
    generator, documents = np.random.default_rng(11), []
    for index in range(count):
        chosen = generator.choice(list(LEXICON), int(generator.integers(1, longest + 1)))
        words = tuple(chosen.tolist())
        starts = sorted({0, *generator.integers(0, len(words), 3).tolist()})
        firsts = generator.integers(0, len(words), mentions).tolist()
        sizes = generator.integers(1, longest_mention + 1, mentions).tolist()
        ends = [min(len(words), place + size) for place, size in zip(firsts, sizes, strict=True)]
        spans = sorted({*zip(firsts, ends, strict=True)}, key=lambda span: (span[0], -span[1]))
        kept = tuple(Mention(*span, int(generator.integers(3, 6))) for span in spans)
        tags = tuple(LEXICON[word] for word in words)
        documents.append(Document(f"doc{index}", 0, "dev", "", words, tuple(starts), kept, tags))
    return documents


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
