"""A cache that holds a window and what is kept, against whole texts and masks written out."""

from typing import Any

import numpy as np
import pytest
import torch
from tiny import tiny_gpt2, tiny_llama
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from entity_transformers.models.entity_cache import AttendedCache, EntityCache

N, WINDOW, EVERY = 50, 8, 5
HOW: dict[str, Any] = {"window": WINDOW, "every": EVERY}
TOKENS = np.random.default_rng(3).integers(0, 30, N)
PEERS: dict[str, dict[str, Any]] = {
    "heavy hitters": {"budget": 4},
    "lately attended": {"budget": 4, "queries": 3, "pool": 3},
}


@pytest.fixture(params=["llama", "gpt2"])
def model(request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(2)
    if request.param == "gpt2":
        return tiny_gpt2(n_layer=3, n_head=4, eos_token_id=None, initializer_range=0.4)
    return tiny_llama(vocab_size=30, num_hidden_layers=3, initializer_range=0.4)


def keep_all(tokens: np.ndarray) -> np.ndarray:
    return np.arange(len(tokens))


def keep_small(tokens: np.ndarray) -> np.ndarray:
    """The latest three tokens below 6."""
    return np.flatnonzero(tokens < 6)[-3:]


def test_with_everything_kept_it_is_the_whole_text(model: Any) -> None:
    with torch.no_grad():
        whole = model.base_model(torch.from_numpy(TOKENS)[None]).last_hidden_state[0]
    used = model.config._attn_implementation
    many = (AttendedCache(**peer | {"budget": N}, **HOW) for peer in PEERS.values())
    for cache in (*many, EntityCache(keep_all, **HOW)):
        torch.testing.assert_close(cache.read(model, TOKENS), whole, rtol=1e-4, atol=1e-4)
        assert model.config._attn_implementation == used
    assert cache.get_seq_length() == N
    sizes = [layer.keys.nbytes + layer.values.nbytes for layer in cache.layers]
    assert cache.nbytes == sum(sizes) == N * sizes[0] // N * 3
    with pytest.raises(ValueError, match="has already read a text"):
        cache.read(model, TOKENS)


@pytest.mark.parametrize("sinks", [0, 2])
def test_a_token_attends_to_what_is_held_when_it_is_read(model: Any, sinks: int) -> None:
    """The same text in one pass, under a mask in which each row has what was held then."""
    cache = EntityCache(keep_small, **HOW, sinks=sinks)
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
    whole = {"attention_mask": mask, "position_ids": torch.arange(N)[None]}
    with torch.no_grad():
        expected = model.base_model(torch.from_numpy(TOKENS)[None], **whole).last_hidden_state[0]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_generation_holds_a_bounded_number_of_tokens(model: Any) -> None:
    prompt = torch.from_numpy(TOKENS[:20])[None]
    how: Any = {"max_new_tokens": 30, "do_sample": False, "pad_token_id": 0}
    cache = EntityCache(keep_all, **HOW)
    found = model.generate(prompt, past_key_values=cache, stopping_criteria=[cache], **how)
    assert found.tolist() == model.generate(prompt, **how).tolist()
    cache = EntityCache(keep_small, **HOW, sinks=1)
    model.generate(prompt, past_key_values=cache, stopping_criteria=[cache], **how)
    assert cache.layers[0].keys.shape[-2] <= WINDOW + 3 + 1 + EVERY + 1
    with pytest.raises(ValueError, match="holds one text, but 2 were given"):
        cache(prompt.expand(2, -1))


def attend_by_hand(
    attention: Any, hidden: torch.Tensor, turn: Any, peer: dict[str, Any], sinks: int
) -> tuple[torch.Tensor, list[list[int]]]:
    """The output of one attention of Llama [N, W] for its inputs, token by token and head by head,
    and the tokens that each head of keys holds at the end, in order.
    """
    budget, queries, pool = peer["budget"], peer.get("queries"), peer.get("pool", 1)
    split = [
        one(hidden).view(1, N, -1, attention.head_dim).transpose(1, 2)
        for one in (attention.q_proj, attention.k_proj, attention.v_proj)
    ]
    q, k = apply_rotary_pos_emb(split[0], split[1], *turn)
    q, k, v = q[0], k[0], split[2][0]
    found, shared = torch.zeros(N, len(q), attention.head_dim), len(q) // len(k)
    held: list[list[int]] = [[] for _ in k]
    for number in range(len(k)):
        got: dict[int, float] = {}
        for first in range(0, N, EVERY):
            end = first + EVERY
            got = got if queries is None else {}
            for t in range(first, end):
                visible = [*held[number], *range(first, t + 1)]
                for head in range(number * shared, (number + 1) * shared):
                    scores = q[head, t] @ k[number, visible].T * attention.head_dim**-0.5
                    weights = scores.softmax(-1)
                    found[t, head] = weights @ v[number, visible]
                    if queries is None or t >= end - queries:
                        for place, weight in zip(visible, weights.tolist(), strict=True):
                            got[place] = got.get(place, 0.0) + weight
            whole = [*held[number], *range(first, end)]
            gone = [place for place in whole if place < end - WINDOW]
            side = range(-(pool // 2), pool // 2 + 1)
            pooled = {
                place: sum(got[gone[i + s]] for s in side if 0 <= i + s < len(gone)) / pool
                for i, place in enumerate(gone)
            }
            asked = sorted((p for p in gone if p >= sinks), key=lambda p: -pooled[p])[:budget]
            held[number] = [p for p in whole if p < sinks or p >= end - WINDOW or p in asked]
    return attention.o_proj(found.flatten(1)), held


@pytest.mark.parametrize("sinks", [0, 2])
@pytest.mark.parametrize("peer", PEERS)
@torch.no_grad()
def test_attention_chooses_as_loops_over_tokens_and_heads_do(peer: str, sinks: int) -> None:
    torch.manual_seed(2)
    model = tiny_llama(vocab_size=30, num_hidden_layers=3, initializer_range=0.4)
    cache = AttendedCache(**PEERS[peer], **HOW, sinks=sinks)
    found = cache.read(model, TOKENS)
    hidden = model.model.embed_tokens(torch.from_numpy(TOKENS))
    turn = model.model.rotary_emb(hidden[None], torch.arange(N)[None])
    kept = []
    for block in model.model.layers:
        normed = block.input_layernorm(hidden)
        out, held = attend_by_hand(block.self_attn, normed, turn, PEERS[peer], sinks)
        hidden = hidden + out
        hidden = hidden + block.mlp(block.post_attention_layernorm(hidden))
        kept.append(held)
    torch.testing.assert_close(found, model.model.norm(hidden), rtol=1e-4, atol=1e-4)
    assert {len(one) for held in kept for one in held} == {sinks + 4 + WINDOW}
    assert len({tuple(one) for held in kept for one in held}) > 3  # heads and blocks differ
    layers: list[Any] = cache.layers
    assert all(layer.keys.shape[-2] == sinks + 4 + WINDOW for layer in layers)
    keys = sum(layer.keys.nbytes + layer.values.nbytes for layer in layers)
    sums = 4 * 3 * 2 * (sinks + 4 + WINDOW) if peer == "heavy hitters" else 0
    assert cache.nbytes == keys + sums
