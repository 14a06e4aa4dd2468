"""A continuous cache (`tasks.cache`) of a few tokens, kept by some policy, beside the window of an
unchanged model.

An entry is the model's hidden state before a kept token, in float16, and the token. Sorted by name,
every other text is in the first of two folds; theta and lambda are chosen on one fold for the
other, so that each text is judged once.

Dimensions: N tokens of a text, W width, A thetas, K policies at some budget.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from entity_transformers.encode.reader import compute_token_losses, plan_windows
from entity_transformers.encode.states import keep_states
from entity_transformers.logs import log_progress
from entity_transformers.models.base import LanguageModel
from entity_transformers.models.folders import list_weights
from entity_transformers.step import Rows
from entity_transformers.tasks.cache import CacheScores, choose, mix
from entity_transformers.tasks.text_memory import NOTHING, Keep, Reading

THETAS = (6.0, 10.0, 15.0, 25.0, 40.0, 65.0, 100.0)
"""Higher than in `tasks.cache`: the states of a pretrained model are all alike to some extent."""


@torch.inference_mode()
def read_kept(
    states: Tensor, tokens: Tensor, keeps: Sequence[Keep], window: int, stride: int
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Return p_cache float32 [K, A, N] of each token, after states float16 [N, W]; whether each
    cache holds anything then, bool [K, N]; and the most bytes that each holds.
    """
    unit = functional.normalize(states.float(), dim=-1)
    found = torch.zeros(len(keeps), len(THETAS), len(tokens), device=states.device)
    filled = np.zeros((len(keeps), len(tokens)), bool)
    held = [0] * len(keeps)
    for start, new, end in plan_windows(len(tokens) - 1, window, stride):
        chosen = torch.zeros(start, len(keeps), device=states.device, dtype=torch.float64)
        for k, keep in enumerate(keeps):
            kept = keep(start)
            entries = torch.from_numpy(kept[kept > 0] - 1).to(states.device)
            held[k] = max(held[k], states[entries].nbytes + tokens[entries + 1].nbytes)
            chosen[entries, k] = 1
            filled[k, new + 1 : end + 1] = len(entries) > 0
        close = unit[new:end] @ unit[:start].T
        if start:
            close -= close.amax(1, keepdim=True)
        same = tokens[new + 1 : end + 1, None] == tokens[1 : start + 1]
        # one matrix product sums the weights of the entries of every policy, whose best entry may
        # be so far from the best of all that float32 would have 0
        for a, theta in enumerate(THETAS):
            weight = torch.exp(theta * close.double())
            whole, hit = weight @ chosen, (weight * same) @ chosen
            found[:, a, new + 1 : end + 1] = (hit / whole.clamp_min(1e-300)).T
    return found.cpu().numpy(), filled, held


def measure_window(model: LanguageModel, window: int) -> int | None:
    """Return the bytes of the keys and values of a window; None for a model that keeps none."""
    if not model.can("attend"):
        return None
    ids = torch.zeros(1, window, dtype=torch.int64, device=model.device)
    with torch.inference_mode():
        cache = model.module.base_model(input_ids=ids, use_cache=True).past_key_values
    return sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)


def fold_texts(names: Sequence[str]) -> np.ndarray:
    """Return the fold of each text, bool [D], alternating by name; ValueError for a single text."""
    if len(names) < 2:
        raise ValueError(
            f"{', '.join(names)}: expected at least 2 texts in the split, got {len(names)}: each is"
            " scored with values chosen on the others: score another split or add texts"
        )
    folds = np.zeros(len(names), bool)
    folds[np.argsort(names)[1::2]] = True
    return folds


def cross_fit(
    model: np.ndarray,
    cache: np.ndarray,
    filled: np.ndarray,
    offsets: np.ndarray,
    folds: np.ndarray,
) -> tuple[np.ndarray, list[tuple[float, float]]]:
    """Return the nats, float64 [N], of all tokens but the first of each text (0), with the theta
    and lambda that are best on the other fold; and both folds' values. ``model`` [N] and ``cache``
    [A, N] are probabilities, ``filled`` bool [N]: does the cache hold anything?
    """
    nats, chosen = np.zeros(len(model)), []
    fold = np.repeat(folds, np.diff(offsets))
    fold_of = np.where(np.isin(np.arange(len(model)), offsets[:-1]), -1, fold)
    for judged in (0, 1):
        own, other = (
            CacheScores(model[at], cache[None, :, at], filled[at])
            for at in (fold_of == judged, fold_of == 1 - judged)
        )
        theta, weight = choose(other, 0)
        nats[fold_of == judged] = mix(own, 0, theta, weight)
        chosen.append((THETAS[theta], weight))
    return nats, chosen


def read_texts(reading: Reading) -> Iterator[tuple[slice, Tensor, np.ndarray, list[Keep]]]:
    """Yield, for each text, its place in the corpus, its final states float16 [N, W], the model's
    nats [N] of its tokens, and what is kept by each policy and budget. The states are kept on disk.
    """
    model, corpus, window = reading.model, reading.corpus, reading.window
    [weights] = [one for one in list_weights(reading.home) if one.suffix == ".safetensors"]
    states = keep_states(model, weights, corpus, None, window, stride=reading.stride)
    for d in log_progress(range(len(corpus)), f"window {window}: texts"):
        own = corpus.document(d)
        before = torch.from_numpy(states[own].copy()).to(model.device)
        with torch.inference_mode():
            nats = compute_token_losses(model, before[:-1].float(), corpus.tokens[own][1:])
        nats = np.concatenate([np.zeros(1, np.float32), nats])
        yield own, before, nats, list(reading.list_keeps(d, nats).values())


def score_caches(reading: Reading) -> Rows:
    """Yield the rows of step kept_cache."""
    corpus, window = reading.corpus, reading.window
    base, folds = np.ones(len(corpus.tokens)), fold_texts(corpus.names)
    cached = np.zeros((len(reading.keys), len(THETAS), len(base)), np.float32)
    filled = np.zeros((len(reading.keys), len(base)), bool)
    held = np.zeros(len(reading.keys), int)
    for own, before, nats, keeps in read_texts(reading):
        base[own] = np.exp(-nats.astype(np.float64))
        wanted = torch.from_numpy(corpus.tokens[own]).to(reading.model.device)
        found = read_kept(before, wanted, keeps, window, reading.stride)
        cached[..., own], filled[:, own], most = found
        held = np.maximum(held, most)
    about = {"split": corpus.split, "window": window}
    size = measure_window(reading.model, window)
    yield {"measure": "window_bytes", "value": size, "count": window, **about}
    yield from reading.list_rows(NOTHING, 0, -np.log(base))
    for k, (key, most) in enumerate(zip(reading.keys, held.tolist(), strict=True)):
        nats, chosen = cross_fit(base, cached[k], filled[k], corpus.offsets, folds)
        yield from reading.list_rows(key, most, nats)
        for fold, (theta, weight) in enumerate(chosen):
            place = {"policy": key[0], "labels": key[1], "budget": key[2], "fold": fold}
            yield {"measure": "theta", "value": theta, **place, **about}
            yield {"measure": "weight", "value": weight, **place, **about}
