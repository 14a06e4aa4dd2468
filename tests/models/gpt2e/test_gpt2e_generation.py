"""The cache and `generate` against full forward passes."""

from typing import Any

import pytest
import torch
from tiny import GPT2_SHAPE, random_memory, stir
from torch import Tensor

from entity_transformers.models.gpt2e.memory import EntityMemory
from entity_transformers.models.gpt2e.model import GPT2EConfig, GPT2EForCausalLM

LENGTH = 12


def make_model(**changes: Any) -> GPT2EForCausalLM:
    torch.manual_seed(1)
    model = GPT2EForCausalLM(GPT2EConfig(**GPT2_SHAPE | {"eos_token_id": 30} | changes))
    stir(model, 0.5, 0.05)
    return model.double().eval()


def make_input() -> tuple[Tensor, Tensor, EntityMemory]:
    torch.manual_seed(1)
    ids = torch.randint(1, 4, (2, LENGTH)) * (torch.rand(2, LENGTH) < 0.5)
    memory = random_memory(2, 3, 16, torch.float64)
    return torch.randint(30, (2, LENGTH)), ids, memory


def pick_entity(tokens: Tensor, ids: Tensor) -> Tensor:
    """Every third token goes on with the entity before, others take one by their number."""
    assert ids.shape[1] == tokens.shape[1] - 1
    return torch.where(tokens[:, -1] % 3 == 0, ids[:, -1], tokens[:, -1] % 4)


def continue_slowly(
    model: Any, tokens: Tensor, ids: Tensor | None, memory: EntityMemory, rule: Any, steps: int
) -> Tensor:
    """Greedy continuation of one document by full forward passes without a cache."""
    for _ in range(steps):
        given = {} if ids is None else {"entity_ids": ids, "memory": memory}
        logits = model(tokens, use_cache=False, **given).logits
        tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], dim=1)
        if ids is not None:
            new = rule(tokens, ids) if callable(rule) else torch.full((len(tokens),), rule)
            ids = torch.cat([ids, new[:, None]], dim=1)
    return tokens


GREEDY: dict[str, Any] = {"do_sample": False, "pad_token_id": 0}


@pytest.mark.parametrize("how", [
    {"use_cache": True}, {"use_cache": False},
    {"cache_implementation": "static", "disable_compile": True},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("rule", [0, 2, pick_entity])
def test_generate_equals_full_passes(rule: Any, how: dict[str, Any]) -> None:
    """Of each document alone, whose tokens begin after padding in the first; entities matter."""
    model = make_model(eos_token_id=None)
    tokens, ids, memory = make_input()
    plain = model.generate(tokens, max_new_tokens=9, **how, **GREEDY)
    assert plain.tolist() == continue_slowly(model, tokens, None, memory, 0, 9).tolist()
    assert all(len(set(row)) >= 3 for row in plain[:, LENGTH:].tolist())
    given = {"entity_ids": ids, "memory": memory, "new_entities": rule, **how, **GREEDY}
    found = model.generate(tokens, max_new_tokens=9, **given)
    assert found.tolist() != plain.tolist()
    mask = torch.ones_like(tokens)
    mask[0, :5], ids[0, :5] = 0, 0
    padded = model.generate(tokens, attention_mask=mask, max_new_tokens=6, **given)
    for b in range(2):
        alone = memory.select(slice(b, b + 1))
        for answer, start, steps in ((found, 0, 9), (padded, 5 * (b == 0), 6)):
            part = slice(start, None)
            labels = make_input()[1][b : b + 1, part]
            expected = continue_slowly(model, tokens[b : b + 1, part], labels, alone, rule, steps)
            assert answer[b, part].tolist() == expected[0].tolist()


def test_beams_carry_their_own_entities() -> None:
    """With the cache beams are re-ordered at each step; without it each step is a full pass."""
    model = make_model(eos_token_id=None)
    tokens, ids, memory = make_input()
    given = {"entity_ids": ids, "memory": memory, "max_new_tokens": 8, "num_beams": 4, **GREEDY}
    for rule in (1, pick_entity):
        cached, full = (
            model.generate(tokens, new_entities=rule, use_cache=use, **given).tolist()
            for use in (True, False)
        )
        assert cached == full
    several = model.generate(tokens, new_entities=pick_entity, num_return_sequences=3, **given)
    assert several.shape[0] == 6
    assert several[::3].tolist() == cached


_, IDS, MEMORY = make_input()
GIVEN = {"entity_ids": IDS, "memory": MEMORY}
BAD: list[tuple[dict[str, Any], str]] = [
    (GIVEN | {"entity_ids": IDS[:, 1:]}, r"entity_ids has shape \[2, 11\], expected \[2, 12\]"),
    ({"entity_ids": IDS}, "given without memory"),
    ({"entity_states": MEMORY.read(IDS)}, "not entity_states or inputs_embeds"),
    (GIVEN | {"memory": EntityMemory(1, 3, 16), "num_beams": 2},
     r"\[1, 4, 16\], expected an EntityMemory \[2, entities \+ 1, 16\]"),
    (GIVEN | {"new_entities": 1.5}, r"new_entities is 1\.5, expected one entity id or a function"),
    ({"new_entities": 2}, "new_entities 2 needs memory and the entity_ids"),
    (GIVEN | {"new_entities": lambda p, e: [1, 1]}, r"returned list \[\], expected int64 \[2\]"),
    (GIVEN | {"new_entities": lambda p, e: torch.tensor(1)}, r"returned torch.int64 \[\], exp"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_requests_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_model().generate(make_input()[0], max_new_tokens=3, **given, **GREEDY)
