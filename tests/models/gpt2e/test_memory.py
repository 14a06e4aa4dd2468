"""The entity memory against loops over documents and tokens."""

from __future__ import annotations

import pytest
import torch

from entity_transformers.models.gpt2e.memory import EntityMemory


def make_case(
    seed: int, batch: int = 3, length: int = 23, entities: int = 6, width: int = 5
) -> tuple[EntityMemory, torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    memory = EntityMemory(batch, entities, width)
    memory.states[:, 1:] = torch.randn(batch, entities, width)
    ids = torch.randint(0, entities + 1, (batch, length)) * (torch.rand(batch, length) < 0.5)
    ids = ids.repeat_interleave(2, dim=1)[:, :length] if seed % 2 else ids
    return memory, ids, torch.randn(batch, length, width)


def write_slowly(
    states: torch.Tensor, ids: torch.Tensor, hidden: torch.Tensor, mode: str
) -> torch.Tensor:
    """Section 3.2 with loops: the latest mention's last state, or the mean of its run, takes the
    entity's place.
    """
    written = states.clone()
    for row in range(len(ids)):
        for entity in set(ids[row].tolist()) - {0}:
            end = max(t for t, found in enumerate(ids[row].tolist()) if found == entity)
            begin = end
            while mode == "mean" and begin > 0 and ids[row, begin - 1] == entity:
                begin -= 1
            written[row, entity] = (
                hidden[row, begin : end + 1].mean(0) if mode == "mean" else hidden[row, end]
            )
    return written


def test_starts_as_ones_and_reads_by_row() -> None:
    memory, ids, _ = make_case(0)
    assert torch.equal(EntityMemory(2, 3, 4).states, torch.ones(2, 4, 4))
    read = memory.read(ids)
    for row in range(ids.shape[0]):
        for t in range(ids.shape[1]):
            assert torch.equal(read[row, t], memory.states[row, ids[row, t]])
    assert torch.equal(read[ids == 0], torch.ones_like(read[ids == 0]))


@pytest.mark.parametrize("seed", range(6))
def test_last_write_equals_the_loop_to_the_bit(seed: int) -> None:
    memory, ids, hidden = make_case(seed)
    expected = write_slowly(memory.states, ids, hidden, "last")
    memory.write(ids, hidden)
    assert torch.equal(memory.states, expected)
    assert torch.equal(memory.states[:, 0], torch.ones(3, 5))


@pytest.mark.parametrize("seed", range(6))
def test_mean_write_equals_the_loop(seed: int) -> None:
    memory, ids, hidden = make_case(seed)
    expected = write_slowly(memory.states, ids, hidden, "mean")
    memory.write(ids, hidden, "mean")
    torch.testing.assert_close(memory.states, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("mode", ["last", "mean"])
def test_write_works_in_deterministic_mode_with_the_same_bits(mode: str) -> None:
    memory, ids, hidden = make_case(1)
    twin = EntityMemory(3, 6, 5)
    twin.load_state_dict(memory.state_dict())
    memory.write(ids, hidden, mode)
    torch.use_deterministic_algorithms(True)
    try:
        twin.write(ids, hidden, mode)
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(memory.states, twin.states)


@pytest.mark.parametrize("mode", ["last", "mean"])
def test_gradient_reaches_the_written_states_until_detached(mode: str) -> None:
    _, ids, hidden = make_case(3, batch=2, length=7, entities=3, width=2)

    def read_after_write(states: torch.Tensor) -> torch.Tensor:
        memory = EntityMemory(2, 3, 2, dtype=torch.float64)
        memory.write(ids, states, mode)
        return memory.read(ids)

    assert torch.autograd.gradcheck(read_after_write, hidden.double().requires_grad_())
    memory = EntityMemory(2, 3, 2)
    memory.write(ids, hidden.requires_grad_(), mode)
    assert memory.states.requires_grad
    memory.detach()
    assert not memory.read(ids).requires_grad


def test_reset_grow_expand_and_restore() -> None:
    memory, _, _ = make_case(0)
    before = memory.states.clone()
    memory.reset(torch.tensor([True, False, False]))
    assert torch.equal(memory.states[0], torch.ones(7, 5))
    assert torch.equal(memory.states[1:], before[1:])
    memory.reset(torch.tensor([2]))
    assert torch.equal(memory.states[2], torch.ones(7, 5))
    assert torch.equal(memory.states[1], before[1])
    memory.grow(9)
    assert memory.entities == 9
    assert torch.equal(memory.states[1, :7], before[1])
    assert torch.equal(memory.states[:, 7:], torch.ones(3, 3, 5))
    memory.grow(2)
    assert memory.entities == 9
    assert torch.equal(memory.expand(2).states, memory.states[[0, 0, 1, 1, 2, 2]])
    twin = EntityMemory(3, 1, 5)
    twin.load_state_dict(memory.state_dict())
    assert torch.equal(twin.states, memory.states)
    memory.reset()
    assert torch.equal(memory.states, torch.ones(3, 10, 5))


def test_bad_input_names_tensor_shape_and_expectation() -> None:
    memory = EntityMemory(2, 3, 4)
    ids, hidden = torch.zeros(2, 5, dtype=torch.int64), torch.zeros(2, 5, 4)
    with pytest.raises(
        ValueError, match=r"entity_ids of shape \[2, 5\] holds ids 4 to 4, expected 0 to 3"
    ):
        memory.read(ids + 4)
    with pytest.raises(ValueError, match="holds ids -1 to -1"):
        memory.write(ids - 1, hidden)
    with pytest.raises(ValueError, match=r"type torch\.int32, expected an int64"):
        memory.read(ids.int())
    with pytest.raises(ValueError, match=r"entity_ids has shape \[3, 5\], expected \[2, 5\]"):
        memory.read(torch.zeros(3, 5, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"hidden has shape \[2, 5, 3\], expected \[2, 5, 4\]"):
        memory.write(ids, hidden[..., :3])
    with pytest.raises(ValueError, match="expected 'last' or 'mean'"):
        memory.write(ids, hidden, "first")
    with pytest.raises(
        ValueError, match=r"states has shape \[1, 4, 4\], expected \[2, entities \+ 1, 4\]"
    ):
        memory.load_state_dict(EntityMemory(1, 3, 4).state_dict())
    with pytest.raises(
        ValueError,
        match=r"rows is torch.bool \[1\], expected bool \[2\] or int64 indices from 0 to 1",
    ):
        memory.reset(torch.tensor([True]))
    with pytest.raises(ValueError, match="batch_size=0"):
        EntityMemory(0, 1, 1)


def test_what_is_no_tensor_or_names_no_document_is_refused() -> None:
    memory = EntityMemory(2, 3, 4)
    ids = torch.zeros(2, 5, dtype=torch.int64)
    with pytest.raises(
        ValueError, match=r"hidden has type list, expected a tensor of shape \[2, 5, 4\]"
    ):
        memory.write(ids, [[0.0]])  # type: ignore[arg-type]
    for rows in (torch.tensor([5]), torch.tensor([-1]), torch.tensor([0.7]), [0]):
        with pytest.raises(ValueError, match="expected bool \\[2\\] or int64 indices from 0 to 1"):
            memory.reset(rows)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"states has shape \[2, 0, 4\]"):
        memory.load_state_dict({"states": torch.ones(2, 0, 4)})
    with pytest.raises(ValueError, match="row 0 of each document is expected to be ones"):
        memory.load_state_dict({"states": torch.zeros(2, 3, 4)})


def test_ids_are_checked_again_where_the_room_for_entities_changed() -> None:
    memory = EntityMemory(2, 9, 4)
    ids = torch.tensor([[7, 1], [1, 1]])
    memory.read(ids)
    memory.load_state_dict(EntityMemory(2, 5, 4).state_dict())
    with pytest.raises(ValueError, match="holds ids 1 to 7, expected 0 to 5"):
        memory.read(ids)


def test_ids_changed_in_place_are_checked_again() -> None:
    memory, ids, _ = make_case(0)
    memory.read(ids)
    ids[0, 0] = 99
    with pytest.raises(ValueError, match="99"):
        memory.read(ids)
