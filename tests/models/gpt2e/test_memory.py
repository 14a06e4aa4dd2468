"""The entity memory against loops over documents and tokens."""

from typing import Any

import pytest
import torch
from plainly import latest_run
from tiny import random_memory
from torch import Tensor

from entity_transformers.models.gpt2e.memory import EntityMemory


def make_case(
    seed: int, batch: int = 3, length: int = 23, entities: int = 6, width: int = 5
) -> tuple[EntityMemory, Tensor, Tensor]:
    torch.manual_seed(seed)
    memory = random_memory(batch, entities, width)
    ids = torch.randint(0, entities + 1, (batch, length)) * (torch.rand(batch, length) < 0.5)
    ids = ids.repeat_interleave(2, dim=1)[:, :length] if seed % 2 else ids
    return memory, ids, torch.randn(batch, length, width)


def write_slowly(states: Tensor, ids: Tensor, hidden: Tensor, mode: str) -> Tensor:
    """Section 3.2 with loops: an entity's last state, or the mean of its latest run."""
    written = states.clone()
    for row in range(len(ids)):
        for entity in set(ids[row].tolist()) - {0}:
            run = latest_run(ids[row].tolist(), entity, mode)
            written[row, entity] = hidden[row, run].mean(0)
    return written


@pytest.mark.parametrize("mode", ["last", "mean"])
@pytest.mark.parametrize("seed", range(6))
def test_a_write_equals_the_loop(seed: int, mode: str) -> None:
    """To the bit where nothing is averaged, also in torch's deterministic mode."""
    memory, ids, hidden = make_case(seed)
    expected = write_slowly(memory.states, ids, hidden, mode)
    written = memory.write(ids, hidden, mode)
    atol = 0 if mode == "last" else 1e-6
    torch.testing.assert_close(written.states, expected, rtol=0, atol=atol)
    assert torch.equal(written.states[:, 0], torch.ones(3, 5))
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.equal(memory.write(ids, hidden, mode).states, written.states)
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("mode", ["last", "mean"])
def test_gradients_of_what_is_written_are_those_of_finite_differences(mode: str) -> None:
    _, ids, hidden = make_case(3, batch=2, length=7, entities=3, width=2)

    def read_after_write(states: torch.Tensor) -> torch.Tensor:
        return EntityMemory(2, 3, 2, dtype=torch.float64).write(ids, states, mode).read(ids)

    assert torch.autograd.gradcheck(read_after_write, hidden.double().requires_grad_())


def test_start_read_reset_grow_expand_select_and_put() -> None:
    """Documents or single vectors are reset."""
    memory, ids, _ = make_case(0)
    assert torch.equal(EntityMemory(2, 3, 4).states, torch.ones(2, 4, 4))
    each = zip(memory.states, ids, strict=True)
    assert torch.equal(memory.read(ids), torch.stack([states[own] for states, own in each]))
    for rows in (torch.tensor([True, False, False]), torch.rand(3, 7) < 0.5):
        found = memory.reset(rows).states
        assert (found[rows] == 1).all()
        assert torch.equal(found[~rows], memory.states[~rows])
    grown = memory.grow(9)
    assert (grown.entities, memory.grow(2).entities) == (9, 6)
    assert torch.equal(grown.states[:, :7], memory.states)
    assert torch.equal(grown.states[:, 7:], torch.ones(3, 3, 5))
    assert torch.equal(memory.expand(2).states, memory.states[[0, 0, 1, 1, 2, 2]])
    for rows in (slice(1, None), torch.tensor([1, 2]), torch.tensor([False, True, True])):
        assert torch.equal(memory.select(rows).states, memory.states[1:])
    vectors, expected = torch.randn(2, 5), memory.states.clone()
    put = memory.put(torch.tensor([0, 2]), torch.tensor([4, 1]), vectors).states
    expected[0, 4], expected[2, 1] = vectors
    assert torch.equal(put, expected)


def test_what_a_checkpoint_keeps_comes_back_with_its_room() -> None:
    memory, ids, hidden = make_case(0)
    saved = memory.write(ids, hidden.requires_grad_()).tensors()
    assert not saved["states"].requires_grad
    twin = EntityMemory(3, 1, 5).replace(saved)
    assert torch.equal(twin.states, saved["states"])
    saved["states"][:, 1:] = 7.0  # the memory has its own
    assert not (twin.states == 7).any()
    half = EntityMemory(3, 1, 5, dtype=torch.bfloat16).replace(memory.tensors())
    assert half.states.dtype == torch.bfloat16


def test_no_method_changes_the_memory() -> None:
    memory, ids, hidden = make_case(0)
    memory = memory.write(ids, hidden.requires_grad_())
    states, before, version = memory.states, memory.states.detach().clone(), memory.states._version
    some, hidden = ids[:, 0] * 0, torch.randn(3, 23, 5)
    for method, given in (
        ("check", [ids]), ("read", [ids]), ("write", [ids, hidden]), ("grow", [20]),
        ("write", [ids, hidden, "mean"]), ("reset", [torch.ones(3, 7, dtype=torch.bool)]),
        ("put", [some, some + 1, hidden[:, 0]]), ("detach", []), ("select", [slice(2)]),
        ("expand", [3]), ("to", ["cpu", torch.float64]), ("tensors", []),
        ("replace", [EntityMemory(3, 2, 5).tensors()]),
    ):  # fmt: skip
        getattr(memory, method)(*given)
        assert (memory.states is states, memory.states._version) == (True, version), method
        assert torch.equal(memory.states, before)
    with pytest.raises(AttributeError):
        memory.states = before  # type: ignore[misc]


IDS, HIDDEN = torch.zeros(2, 5, dtype=torch.int64), torch.zeros(2, 5, 4)
BAD: list[tuple[Any, str]] = [
    (lambda m: m.read(IDS + 4), r"entity_ids of shape \[2, 5\] holds ids 4 to 4, expected 0 to 3"),
    (lambda m: m.read(IDS.int()), r"type torch\.int32, expected an int64"),
    (lambda m: m.read(IDS[:1]), r"entity_ids has shape \[1, 5\], expected \[2, 5\]"),
    (lambda m: m.write(IDS, HIDDEN[..., :3]), r"hidden has shape \[2, 5, 3\], expected \[2, 5"),
    (lambda m: m.write(IDS, HIDDEN, "first"), "expected 'last' or 'mean'"),
    (lambda m: m.replace(EntityMemory(1, 3, 4).tensors()), r"\[1, 4, 4\] do not fit this"),
    (lambda m: m.replace({"states": torch.zeros(2, 3, 4)}), "row 0 of each document ones"),
    (lambda m: m.reset(torch.tensor([True])), r"torch.bool \[1\], expected bool \[2\] or \[2, 4\]"),
    (lambda m: EntityMemory(0, 1, 1), "batch_size=0"),
]


@pytest.mark.parametrize(("ask", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_names_tensor_shape_and_expectation(ask: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ask(EntityMemory(2, 3, 4))


def test_ids_are_checked_again_where_they_or_the_room_for_entities_changed() -> None:
    memory, ids = EntityMemory(2, 9, 4), torch.tensor([[7, 1], [1, 1]])
    memory.read(ids)
    with pytest.raises(ValueError, match="holds ids 1 to 7, expected 0 to 5"):
        memory.replace(EntityMemory(2, 5, 4).tensors()).read(ids)
    ids[0, 0] = 99
    with pytest.raises(ValueError, match="99"):
        memory.read(ids)
