"""What models hand on from window to window: values with one protocol."""

from __future__ import annotations

import pytest
import torch
from tiny import random_memory

from entity_transformers.models.base import Nothing, State
from entity_transformers.models.gpt2e.memory import EntityMemory

BATCH, ENTITIES, WIDTH = 3, 4, 5
PROTOCOL = {name for name in vars(State) if not name.startswith("_")}


@pytest.fixture(params=["memory", "nothing"])
def state(request: pytest.FixtureRequest) -> State:
    torch.manual_seed(0)
    return random_memory(BATCH, ENTITIES, WIDTH) if request.param == "memory" else Nothing()


def same(one: State, other: State) -> bool:
    left, right = one.tensors(), other.tensors()
    return left.keys() == right.keys() and all(
        torch.equal(left[name], right[name]) for name in left
    )


@pytest.mark.parametrize("kind", [EntityMemory, Nothing])
def test_a_state_has_the_protocol_s_methods(kind: type) -> None:
    assert {"reset", "detach", "select", "tensors", "replace"} == PROTOCOL
    assert all(callable(getattr(kind, name)) for name in PROTOCOL)


def test_reset_leaves_the_state_of_documents_that_begin(state: State) -> None:
    begun = state.reset(torch.ones(BATCH, dtype=torch.bool))
    fresh = EntityMemory(BATCH, ENTITIES, WIDTH) if isinstance(state, EntityMemory) else Nothing()
    assert same(begun, fresh)
    assert same(state.reset(torch.zeros(BATCH, dtype=torch.bool)), state)
    one = torch.tensor([False, True, False])
    for row, kept in enumerate((True, False, True)):
        chosen = slice(row, row + 1)
        expected = state if kept else fresh
        assert same(state.reset(one).select(chosen), expected.select(chosen))
    rows = torch.zeros(BATCH, ENTITIES + 1, dtype=torch.bool)
    assert same(state.reset(rows), state)


@pytest.mark.parametrize(
    "rows",
    [slice(1, 3), slice(0), torch.tensor([2, 0]), torch.tensor([True, False, True])],
    ids=str,
)
def test_select_takes_documents(state: State, rows: torch.Tensor | slice) -> None:
    chosen, whole = state.select(rows).tensors(), state.tensors()
    assert chosen.keys() == whole.keys()
    assert all(torch.equal(chosen[name], tensor[rows]) for name, tensor in whole.items())


def test_what_is_selected_of_what_is_selected_is_selected(state: State) -> None:
    assert same(state.select(slice(2)).select(slice(1)), state.select(slice(1)))


def test_a_state_comes_back_from_its_tensors(state: State) -> None:
    saved = {name: tensor.clone() for name, tensor in state.tensors().items()}
    assert all(len(tensor) == BATCH for tensor in saved.values())
    begun = state.reset(torch.ones(BATCH, dtype=torch.bool))
    assert same(begun.replace(saved), state)
    assert type(begun.replace(saved)) is type(state)


def test_parts_of_a_state_put_together_are_the_state(state: State) -> None:
    """As a checkpoint joins the groups of streams of one process, and another divides them."""
    parts = [state.select(slice(2)).tensors(), state.select(slice(2, None)).tensors()]
    joined = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    assert same(state.replace(joined), state)
    for part in (slice(1), slice(1, None)):
        cut = {name: tensor[part] for name, tensor in joined.items()}
        assert same(state.select(part).replace(cut), state.select(part))


def test_a_detached_state_has_the_same_values_without_gradient() -> None:
    memory = random_memory(BATCH, ENTITIES, WIDTH)
    hidden = torch.randn(BATCH, 2, WIDTH, requires_grad=True)
    memory = memory.write(torch.ones(BATCH, 2, dtype=torch.int64), hidden)
    assert memory.states.requires_grad
    assert same(memory.detach(), memory)
    assert not memory.detach().states.requires_grad
    assert not memory.tensors()["states"].requires_grad
    for derived in (memory.select(slice(2)), memory.reset(torch.tensor([True, False, False]))):
        assert derived.states.requires_grad
    nothing = Nothing()
    assert nothing.detach() is nothing


def test_nothing_has_nothing_to_keep() -> None:
    assert Nothing().tensors() == {}
