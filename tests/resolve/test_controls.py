"""Words in turn as slots."""

import torch
from written import document_of

from entity_transformers.corpus.document import Mention
from entity_transformers.models.pointer.memory import PointerMemory
from entity_transformers.resolve.registry import SLOTS, make_resolver


def test_a_memory_of_slots_holds_the_latest_words() -> None:
    """Read to the end each slot has the state before the latest word that fell to it."""
    count, lag = 2 * SLOTS + 40, 3
    found = make_resolver("resolver:slots-causal").resolve(document_of(["word"] * count))
    assert found[0] == Mention(0, 1, 1)
    last, again = Mention(SLOTS - 1, SLOTS, SLOTS), Mention(SLOTS, SLOTS + 1, 1)
    assert found[SLOTS - 1 : SLOTS + 1] == [last, again]
    labels = torch.tensor([[one.chain for one in found]])
    tokens, starts = torch.arange(count)[None], torch.zeros(1, count, dtype=torch.bool)
    states = torch.arange(count, dtype=torch.float32)[None, :, None]
    memory = PointerMemory.start(1, SLOTS, 2, 1, lag, torch.zeros(1))
    for start in range(0, count, 64):
        columns = (part[:, start : start + 64] for part in (tokens, labels, states, starts))
        memory = memory.write(*columns)
    held = sorted(memory.keys[0, 1:, 0].tolist())
    assert held == [float(at - 1) for at in range(count - lag - SLOTS, count - lag)]
    first, second = memory.forms[0, 1:, :, 0].unbind(-1)
    assert sorted(first.tolist()) == list(range(count - lag - SLOTS, count - lag))
    assert sorted(second.tolist()) == list(range(count - lag - 2 * SLOTS, count - lag - SLOTS))
