"""Every word that says something as an entity of its own, and words in turn as slots."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.models.pointer.memory import Keep, PointerMemory
from entity_transformers.resolve.controls import SLOTS
from entity_transformers.resolve.registry import make_resolver


def resolve(name: str, words: list[str]) -> list[Mention]:
    return [*make_resolver(name).resolve(Document("d", 0, "train", "", tuple(words), (0,)))]


def test_one_entity_for_each_spelling_but_for_stop_words_and_marks() -> None:
    text = "The old house stood by the Old mill . It's 1811 , and the house fell ."
    assert resolve("resolver:words-causal", text.split()) == [
        *(Mention(1, 2, 1), Mention(2, 3, 2), Mention(3, 4, 3), Mention(6, 7, 1)),
        *(Mention(7, 8, 4), Mention(14, 15, 2), Mention(15, 16, 5)),
    ]


WORDS = st.lists(st.sampled_from("the House house . mill 12 don't Of él".split()), max_size=12)


@given(WORDS, WORDS)
def test_what_follows_changes_nothing(before: list[str], after: list[str]) -> None:
    for name in ("words-causal", "slots-causal"):
        alone = resolve(name, before)
        assert resolve(name, before + after)[: len(alone)] == alone


def test_a_memory_of_slots_holds_the_latest_words() -> None:
    """Read to the end each slot has the state before the latest word that fell to it."""
    count, lag = 2 * SLOTS + 40, 3
    found = resolve("slots-causal", ["word"] * count)
    assert found[0] == Mention(0, 1, 1)
    assert found[SLOTS - 1 : SLOTS + 1] == [
        Mention(SLOTS - 1, SLOTS, SLOTS),
        Mention(SLOTS, SLOTS + 1, 1),
    ]
    labels = torch.tensor([[one.chain for one in found]])
    tokens, starts = torch.arange(count)[None], torch.zeros(1, count, dtype=torch.bool)
    states = torch.arange(count, dtype=torch.float32)[None, :, None]
    memory = PointerMemory.start(None, Keep(2, 1, lag), 1, SLOTS, torch.zeros(1))
    for start in range(0, count, 64):
        columns = (part[:, start : start + 64] for part in (tokens, labels, states, starts))
        memory, *_ = memory.write(*columns)
    held = sorted(memory.keys[0, 1:, 0].tolist())
    assert held == [float(at - 1) for at in range(count - lag - SLOTS, count - lag)]
    first, second = memory.forms[0, 1:, :, 0].unbind(-1)
    assert sorted(first.tolist()) == list(range(count - lag - SLOTS, count - lag))
    assert sorted(second.tolist()) == list(range(count - lag - 2 * SLOTS, count - lag - SLOTS))
