"""Keys and values of what is kept, against windows that hold everything."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tiny import KEPT, lively_model, tiny_corpus

from entity_transformers.corpus.labels import give
from entity_transformers.steps.kept_keys import KeptKeysParams
from entity_transformers.tasks.kept_keys import read_with, score_keys
from entity_transformers.tasks.perplexity import score_corpus
from entity_transformers.tasks.text_memory import NOTHING, Reading, keep_nothing


def test_with_everything_kept_scores_are_those_of_a_window_over_the_whole_text() -> None:
    model = lively_model("gpt2", window=64).eval()
    corpus = tiny_corpus(1, seed=5, shortest=40, longest=41)
    reading = Reading(model, corpus, SimpleNamespace(context=4, sinks=0), 8)
    kept, held = read_with(reading, corpus.tokens, np.arange, NOTHING)
    whole = score_corpus(model, give(corpus, "none"), window=64, stride=64, batch=1)
    np.testing.assert_allclose(kept, whole, rtol=1e-4, atol=1e-4)
    none, least = read_with(reading, corpus.tokens, keep_nothing, NOTHING)
    assert np.abs(none - whole).max() > 0.01
    assert least == held * 4 // (len(corpus.tokens) - 1)  # the context alone


def test_rows_have_the_bytes_beyond_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    model = lively_model("gpt2", window=64).eval()
    corpus = tiny_corpus(3, seed=5, split="test", shortest=40, longest=50)
    section = KeptKeysParams(
        **KEPT | {"tokens": 60}, budgets=(3, 9), sinks=2,
        kept=({"policy": "recent"}, {"policy": "mentions", "labels": "gold"},
              {"policy": "heavy hitters"}, {"policy": "lately attended"}),
    )  # fmt: skip
    kept: dict[Any, Any] = {}

    def once(make: Any, *key: object) -> Any:
        return kept[key] if key in kept else kept.setdefault(key, make())

    reading = Reading(model, corpus, section, 8, 1, once=once)
    rows = list(score_keys(reading))
    held = {(r["policy"], r["budget"]): r["value"] for r in rows if r["measure"] == "bytes"}
    per_token = model.module.config.n_layer * 2 * model.width * 4
    assert held["recent", 3] == 3 * per_token
    assert held["recent", 9] == held["lately attended", 9] == 9 * per_token
    assert 0 < held["mentions", 3] <= 3 * per_token
    # a sum in float32 of each head and block, also of what the window holds: 4 tokens and 2 sinks
    numbers = 4 * model.module.config.n_layer * model.module.config.num_attention_heads
    assert held["heavy hitters", 3] == 3 * per_token + (4 + 2 + 3) * numbers
    own = [r for r in rows if (r["measure"], r.get("part")) == ("loss", "all")]
    losses = {(r["policy"], r["budget"]): r["value"] for r in own}
    assert len(losses) == 9
    assert losses["recent", 9] != pytest.approx(losses["none", 0], abs=1e-4)
    assert len({*losses.values()}) == 9

    monkeypatch.setattr("entity_transformers.tasks.kept_keys.read_with", None)
    assert list(score_keys(reading)) == rows  # nothing is read again
