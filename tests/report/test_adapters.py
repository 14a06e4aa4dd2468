"""Entity attention against LoRA, on made-up documents in which the effects are known."""

from dataclasses import replace

import numpy as np
import pytest
from made import make_results, make_rows
from tiny import tiny_entry

from entity_transformers.report.lm import ADAPTERS, say_adapters
from entity_transformers.report.results import Results

DOCUMENTS = 40


def make(told: float, lagged: float) -> Results:
    """Losses: 3.5 without labels, 3.49 by LoRA, 3.2 in longer windows, 3.1 with a guided head, 3.4
    in more blocks and 3.38 with labels there, and as given.
    """
    losses = {"none": 3.5, "lora": 3.49, "lora-long": 3.2, "next": told, "lagged": lagged}
    losses |= {"lora-guided": 3.1, "lora-all": 3.4, "gold-all": 3.38}
    rows, units, entries = [], [], []
    difficulty = np.random.default_rng(1).normal(0, 0.3, DOCUMENTS)
    for name, mean in losses.items():
        labels, adapter = ("gold", "lora") if name.startswith("lora") else (name, "entities")
        how = {"labels": labels.removesuffix("-all"), "adapter": adapter}
        how |= {"window": 2048 if "long" in name else 256, "blocks": 1 + ("all" in name)}
        how["antecedent_weight"] = float(name == "lora-guided")
        entries.append(replace(tiny_entry("pretrained-entities", **how), name=name))
        about = {"model": name, "seed": 1}
        for rate in (0.001, 0.003):
            own = {"step": "lm", "split": "dev", "learning_rate": rate, **about}
            rows += make_rows(own, trial_loss=mean + rate)
        noise = np.random.default_rng(len(rows)).normal(0, 0.002, DOCUMENTS)
        key = {"step": "perplexity", "split": "test", "entities": "on", **about}
        rows += make_rows(key | {"count": 1}, loss=mean)
        for d, value in enumerate(mean + difficulty + noise):
            units += make_rows(key | {"unit": f"d{d:02}", "count": 100}, nll=100 * value)
    return make_results(rows, units, tuple(entries), seeds=(1,))


@pytest.mark.parametrize(("told", "lagged", "said"), [
    (3.499, 3.47, "It has not learnt to use labels, so no verdict on them is given"),
    (3.40, 3.4897, "(equivalent, margin 0.005)"),
    (3.40, 3.47, "(better)"),
    (3.40, 3.51, "(worse)"),
])  # fmt: skip
def test_a_verdict_is_given_where_the_positive_control_passes(told, lagged, said):
    results = make(told, lagged)
    [sentence] = say_adapters(results)
    assert said in sentence
    table = ADAPTERS.build(results)
    assert table.columns[1:4] == ("Dev, rate 0.001", "Dev, rate 0.003", "Test")
    cells = {row[0]: row[4] for row in table.rows}
    assert str(cells["LoRA"]) == "–"
    for name, gap in (
        ("after a mention has ended", lagged - 3.49),
        ("LoRA, a head guided by labels: as the paper gives them", 3.1 - 3.49),
        ("LoRA, in windows of 2,048", 3.2 - 3.49),
        ("as the paper gives them, in 2 blocks", 3.38 - 3.4),
    ):
        assert cells[name].value == pytest.approx(gap, abs=0.002)
