"""A cache that holds a window and what is kept, against whole texts and masks written out."""

from typing import Any

import numpy as np
import pytest
import torch
from tiny import GPT2_SHAPE, tiny_llama
from transformers import GPT2Config, GPT2LMHeadModel

from entity_transformers.models.entity_cache import EntityCache

N, WINDOW, EVERY = 50, 8, 5
TOKENS = np.random.default_rng(3).integers(0, 30, N)


@pytest.fixture(params=["llama", "gpt2"])
def model(request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(2)
    if request.param == "gpt2":
        shape = GPT2_SHAPE | {"n_layer": 3, "n_head": 4, "eos_token_id": None}
        return GPT2LMHeadModel(GPT2Config(**shape, initializer_range=0.4)).eval()
    return tiny_llama(vocab_size=30, num_hidden_layers=3, initializer_range=0.4)


def keep_all(tokens: np.ndarray) -> np.ndarray:
    return np.arange(len(tokens))


def keep_small(tokens: np.ndarray) -> np.ndarray:
    """The latest three tokens below 6."""
    return np.flatnonzero(tokens < 6)[-3:]


def test_with_everything_kept_it_is_the_whole_text(model: Any) -> None:
    cache = EntityCache(keep_all, window=WINDOW, every=EVERY)
    with torch.no_grad():
        whole = model.base_model(torch.from_numpy(TOKENS)[None]).last_hidden_state[0]
    torch.testing.assert_close(cache.read(model, TOKENS), whole, rtol=1e-4, atol=1e-4)
    assert cache.get_seq_length() == N
    sizes = [layer.keys.nbytes + layer.values.nbytes for layer in cache.layers]
    assert cache.nbytes == sum(sizes) == N * sizes[0] // N * 3


@pytest.mark.parametrize("sinks", [0, 2])
def test_a_token_attends_to_what_is_held_when_it_is_read(model: Any, sinks: int) -> None:
    """The same text in one pass, under a mask in which each row has what was held then."""
    cache = EntityCache(keep_small, window=WINDOW, sinks=sinks, every=EVERY)
    found = cache.read(model, TOKENS)
    visible = np.zeros((N, N), bool)
    held: set[int] = set()
    for first in range(0, N, EVERY):
        end = first + EVERY
        for t in range(first, end):
            visible[t, [*held, *range(first, t + 1)]] = True
        held |= set(range(first, end))
        start = max(0, end - WINDOW)
        small = [place for place in range(start) if TOKENS[place] < 6][-3:]
        held = {p for p in held if p < sinks or p >= start or p in small}
    assert cache.places.tolist() == sorted(held)
    mask = torch.where(torch.from_numpy(visible), 0.0, torch.finfo(torch.float32).min)[None, None]
    with torch.no_grad():
        expected = model.base_model(
            torch.from_numpy(TOKENS)[None], attention_mask=mask,
            position_ids=torch.arange(N)[None],
        ).last_hidden_state[0]  # fmt: skip
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_generation_holds_a_bounded_number_of_tokens(model: Any) -> None:
    prompt = torch.from_numpy(TOKENS[:20])[None]
    how: Any = {"max_new_tokens": 30, "do_sample": False, "pad_token_id": 0}
    plain = model.generate(prompt, **how)
    cache = EntityCache(keep_all, window=WINDOW, every=EVERY)
    assert model.generate(
        prompt, past_key_values=cache, stopping_criteria=[cache], **how
    ).tolist() == plain.tolist()  # fmt: skip
    cache = EntityCache(keep_small, window=WINDOW, sinks=1, every=EVERY)
    model.generate(prompt, past_key_values=cache, stopping_criteria=[cache], **how)
    assert cache.layers[0].keys.shape[-2] <= WINDOW + 3 + 1 + EVERY + 1
    with pytest.raises(ValueError, match="holds one text, 2 were given"):
        cache(prompt.expand(2, -1))


def test_nothing_after_a_token_changes_its_state(model: Any) -> None:
    other = TOKENS.copy()
    other[31:] = other[31:][::-1]
    states = [
        EntityCache(keep_small, window=WINDOW, every=EVERY).read(model, tokens)
        for tokens in (TOKENS, other)
    ]
    torch.testing.assert_close(states[0][:31], states[1][:31])
