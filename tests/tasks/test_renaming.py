"""The same text with other names."""

import numpy as np
import pytest

from entity_transformers.corpus.alignment import align_split, learn_tokenizer
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.prepare import add_layer
from entity_transformers.resolve.registry import make_resolver
from entity_transformers.tasks.renaming import invent, is_name, rename

TEXTS = (
    "Then Mr. Vanderpool met Jane at York Street . So Mr. Vanderpool saw Jane and Jane slept .",
    "Then Mr. Darcy met Lydia . So Mr. Darcy saw Lydia and the young Lydia wept .",
)
DOCUMENTS = [Document(f"d{i}", 0, "train", "", tuple(t.split()), (0,)) for i, t in enumerate(TEXTS)]
SAID = [Document("more", 0, "train", "", ("x", "Jane", "Lydia", "Darcy"), (0,))] * 50
TOKENIZER = learn_tokenizer(DOCUMENTS + SAID, 330, "natural")
ALIGNED = align_split(DOCUMENTS, TOKENIZER, split="train", policy="outermost", spacing="natural")
CORPUS, _ = add_layer(ALIGNED, DOCUMENTS, make_resolver("names"), "outermost")


def test_names_change_alike_and_nothing_else_does() -> None:
    found = rename(CORPUS, "resolver:names", TOKENIZER, 1)
    assert len(found.tokens) == len(CORPUS.tokens)
    changed = found.tokens != CORPUS.tokens
    inside = CORPUS.layers["resolver:names"] > 0
    assert changed.any()
    assert not changed[~inside].any()
    for d in range(2):
        own = CORPUS.document(d)
        both = CORPUS, found
        texts = [TOKENIZER.decode(one.tokens[own][1:].tolist()) for one in both]
        assert [one.bytes[own].sum() for one in both] == [len(text.encode()) for text in texts]
        before, after = map(str.split, texts)
        pairs = dict(zip(before, after, strict=True))
        assert [pairs[word] for word in before] == after
        kept = [word for word, new in pairs.items() if word == new]
        assert {"Then", "Mr.", "met", "So"} <= {*kept}
        assert not {"Vanderpool", "Darcy", "Jane", "Lydia"} & {*kept}
    again = rename(CORPUS, "resolver:names", TOKENIZER, 1)
    np.testing.assert_array_equal(again.tokens, found.tokens)


def test_a_name_of_one_token_comes_from_another_document() -> None:
    [jane, lydia] = (TOKENIZER.encode(" " + name).ids for name in ("Jane", "Lydia"))
    assert len(jane) == len(lydia) == 1
    found = rename(CORPUS, "resolver:names", TOKENIZER, 1)
    first, second = (CORPUS.document(d) for d in range(2))
    there = found.tokens[first][CORPUS.tokens[first] == jane[0]]
    assert len(set(there.tolist())) == 1
    assert there[0] in CORPUS.tokens[second]
    assert there[0] not in CORPUS.tokens[first]


def test_invented_names_have_as_many_tokens_as_asked() -> None:
    generator = np.random.default_rng(2)
    for length in (8, 10):
        names = invent(5, length, TOKENIZER, generator)
        assert len({*names}) == len(names) == 5
        for ids in names:
            text = TOKENIZER.decode(list(ids))
            assert is_name(text)
            assert tuple(TOKENIZER.encode(text).ids) == ids


@pytest.mark.parametrize(
    ("text", "expected"),
    [(" Darcy", True), ("Jane", True), (" Mr.", False), (" de", False), (" Street", False),
     (" 5th", False), (" X-ray", False)],
)  # fmt: skip
def test_titles_particles_and_things_are_no_names(text: str, expected: bool) -> None:
    assert is_name(text) == expected
