"""Losses by the place of a token, against sums in plain Python."""

import numpy as np
import pytest
from tiny import tiny_corpus

from entity_transformers.tasks.perplexity import sum_places


def test_losses_by_place_are_sums_over_the_documents_tokens() -> None:
    corpus = tiny_corpus()
    nll = np.random.default_rng(1).random(len(corpus.tokens)).astype(np.float32)
    bounds, expected = (0, 4, 9), {}
    for d, name in enumerate(corpus.names):
        own = nll[corpus.document(d)][1:].tolist()
        for low, high in ((0, 4), (4, 9), (9, 10**9)):
            if own[low:high]:
                place = f"{low}-{high - 1}" if high < 10**9 else f"{low}+"
                expected[place, name] = (sum(own[low:high]), len(own[low:high]))
    rows = list(sum_places(corpus, nll, bounds))
    found = {(r["place"], r["unit"]): (r["value"], r["count"]) for r in rows if "unit" in r}
    assert found == {key: (pytest.approx(nats), count) for key, (nats, count) in expected.items()}
    for place, loss in {r["place"]: r["value"] for r in rows if r["measure"] == "loss"}.items():
        parts = [one for (where, _), one in expected.items() if where == place]
        whole = sum(nats for nats, _ in parts) / sum(count for _, count in parts)
        assert loss == pytest.approx(whole)
