"""Random documents for hypothesis."""

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from entity_transformers.corpus.document import SPLITS, Document, Mention, NamedEntity

Words = st.SearchStrategy[str]
CHARACTERS = st.characters(codec="utf-8", exclude_categories=("Z", "C"))
WORD: Words = st.text(CHARACTERS, min_size=1, max_size=6)
CHAIN = st.integers(0, 3)


@st.composite
def documents(
    draw: st.DrawFn,
    word: Words = WORD,
    tag: Words = WORD,
    label: Words = WORD,
    name: Words = WORD,
    chain: st.SearchStrategy[int] = CHAIN,
    keep: Callable[[Mention, Sequence[Mention]], bool] = lambda mention, earlier: True,
    **fixed: Any,
) -> Document:
    """Up to 20 words with the mentions that ``keep`` lets stand beside earlier ones."""
    words = draw(st.lists(word, min_size=1, max_size=20))
    places, n = st.integers(0, len(words) - 1), len(words)
    mentions: list[Mention] = []
    for start, size, number in draw(st.lists(st.tuples(places, st.integers(1, 4), chain))):
        mention = Mention(start, min(start + size, n), number)
        mentions += [mention] if keep(mention, mentions) else []
    named = draw(st.dictionaries(places, label, max_size=3))
    own = {
        "name": draw(name), "part": draw(st.integers(0, 99)), "genre": "nw",
        "split": draw(st.sampled_from(SPLITS)), "words": tuple(words),
        "sentence_starts": (0, *sorted(draw(st.sets(places, max_size=3)) - {0})),
        "mentions": tuple(sorted(mentions, key=lambda m: (m.start, -m.end, m.chain))),
        "tags": tuple(draw(st.lists(tag, min_size=n, max_size=n))),
        "space_after": tuple(draw(st.lists(st.booleans(), min_size=n, max_size=n))),
        "named_entities": tuple(NamedEntity(at, at + 1, named[at]) for at in sorted(named)),
    }  # fmt: skip
    for column in draw(st.sets(st.sampled_from(["tags", "space_after", "named_entities"]))):
        own[column] = None
    return Document(**own | fixed)
