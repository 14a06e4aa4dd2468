"""Every word that says something as an entity of its own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.resolve.words import Words


def resolve(text: str) -> list[Mention]:
    words = tuple(text.split())
    return Words().resolve(Document("d", 0, "train", "", words, (0,)))


def test_one_entity_for_each_spelling_but_for_stop_words_and_marks() -> None:
    found = resolve("The old house stood by the Old mill . It's 1811 , and the house fell .")
    assert found == [
        *(Mention(1, 2, 1), Mention(2, 3, 2), Mention(3, 4, 3), Mention(6, 7, 1)),
        *(Mention(7, 8, 4), Mention(14, 15, 2), Mention(15, 16, 5)),
    ]


WORDS = st.lists(st.sampled_from("the House house . mill 12 don't Of él".split()), max_size=12)


@given(WORDS, WORDS)
def test_what_follows_changes_nothing(before: list[str], after: list[str]) -> None:
    alone = resolve(" ".join(before))
    assert resolve(" ".join(before + after))[: len(alone)] == alone
