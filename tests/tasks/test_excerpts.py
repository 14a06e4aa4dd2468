"""Tokens of a few documents: losses, and what was read of the memory, written out by hand."""

from typing import Any

import numpy as np
import pytest
import torch
from tiny import lively_model, tiny_corpus

from entity_transformers.corpus.labels import give
from entity_transformers.corpus.tokens import cut
from entity_transformers.tasks.excerpts import TOP, read_memory, score_tokens
from entity_transformers.tasks.perplexity import score_modes

HOW: dict[str, Any] = {"window": 8, "stride": 8, "batch": 3}


@pytest.mark.parametrize("kind", ["gpt2", "gpt2e", "lstm"])
@pytest.mark.parametrize("stride", [8, 3])
def test_losses_are_those_of_perplexity(kind: str, stride: int) -> None:
    model, corpus, how = lively_model(kind), give(tiny_corpus(5), "gold"), HOW | {"stride": stride}
    whole = score_modes(model, corpus, **how, seed=1)
    short = cut(corpus, documents=3, tokens=20)
    found = score_tokens(model, short, **how)
    for mode in ("on", "off") if kind == "gpt2e" else ("off",):
        for d, name in enumerate(short.names):
            own, all_of_it = short.document(d), corpus.document(corpus.names.index(name))
            length = own.stop - own.start
            assert length == min(20, all_of_it.stop - all_of_it.start)
            expected = whole[mode][all_of_it][:length]
            np.testing.assert_allclose(found[mode][own], expected, rtol=1e-4, atol=1e-5)
    assert ("share" in found) == ("on" in found) == (kind == "gpt2e")


def attend(module: Any, hidden: torch.Tensor, entities: Any) -> torch.Tensor:
    """Mean over heads of softmax(Q K') [T, T], query by query and key by key, of one document."""
    vectors = entities.rows if entities.picks is None else entities.rows[0][entities.picks[0]][None]
    width = hidden.shape[-1] // module.heads
    queries = hidden[0] @ module.q_attn.weight + module.q_attn.bias
    keys = vectors[0] @ module.k_attn.weight + module.k_attn.bias
    weights = torch.zeros(len(queries), len(queries))
    for head in range(module.heads):
        part = slice(head * width, (head + 1) * width)
        for t in range(len(queries)):
            scores = (keys[: t + 1, part] @ queries[t, part] * module.scaling).tolist()
            weights[t, : t + 1] += torch.tensor(scores).softmax(0) / module.heads
    return weights


def test_what_was_read_is_the_attention_written_out() -> None:
    model, corpus = lively_model(seed=3), give(tiny_corpus(1, seed=4, shortest=20), "gold")
    length, seen = len(corpus.tokens), []
    modules = model.attention_modules()["entity"]

    def keep(module: Any, arguments: Any, keywords: Any, output: Any) -> None:
        values = [*arguments, *keywords.values()]
        entities = next(value for value in values if hasattr(value, "rows"))
        seen.append(attend(module, values[0].detach(), entities))

    model.show_attention()
    handles = [m.register_forward_hook(keep, with_kwargs=True) for m in modules]
    found = read_memory(model, corpus, **HOW)
    for handle in handles:
        handle.remove()
    windows = [seen[i : i + len(modules)] for i in range(0, len(seen), len(modules))]
    assert len(windows) == -(-length // 8)
    met = set()
    for number, layers in enumerate(windows):
        weights, start = torch.stack(layers).mean(0), 8 * number
        for t in range(len(weights)):
            sums: dict[int, float] = {}
            for j in range(t + 1):
                label = int(corpus.given[start + j])  # type: ignore[index]
                sums[label] = sums.get(label, 0.0) + float(weights[t, j])
            largest = sorted(((v, k) for k, v in sums.items() if k), reverse=True)[:TOP]
            if start + t + 1 < length:
                values = [v for v, _ in largest]
                expected = values + [0.0] * (TOP - len(values))
                np.testing.assert_allclose(found["share"][start + t + 1], expected, atol=1e-5)
                told = [sums[k] for k in found["entity"][start + t + 1].tolist() if k]
                assert told == pytest.approx(values, abs=1e-5)
                met |= {k for _, k in largest}
    assert len(met) > 2
    assert found["share"][0].sum() == 0


@pytest.mark.parametrize("tokens", [5, 1000])
def test_a_cut_corpus_keeps_its_columns_together(tokens: int) -> None:
    corpus = give(tiny_corpus(4), "gold")
    short = cut(corpus, documents=2, tokens=tokens)
    named = [int((corpus.gold[corpus.document(d)][:tokens] > 0).sum()) for d in range(4)]
    found = [corpus.names.index(name) for name in short.names]
    assert found == sorted(found)
    assert sorted(named[d] for d in found) == sorted(named)[-2:]
    for d, number in enumerate(found):
        own, whole = short.document(d), corpus.document(number)
        for name in ("tokens", "gold", "words", "given"):
            expected = getattr(corpus, name)[whole][:tokens]
            np.testing.assert_array_equal(getattr(short, name)[own], expected)
