"""Every candidate against brute force or a property that it must have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tiny import tiny_corpus

from entity_transformers.study.steps.anomalies import Anomaly
from entity_transformers.tasks.anomalies.trials import (
    TRIALS,
    Material,
    build,
    measure_context_gain,
    score_padded,
    shorten,
    steps_of_a_pass,
    train_passes,
    try_literal_block,
    try_padding,
    try_validation_seen,
    try_validation_trains,
)
from entity_transformers.tasks.perplexity import mean_loss

Make = Callable[..., Material]


def plain_losses(model: Any, tokens: list[int], window: int) -> list[float]:
    """Nats of each token after the first, one window at a time, from the model's own logits."""
    found = []
    for start in range(0, len(tokens) - 1, window):
        inputs, targets = tokens[start : start + window], tokens[start + 1 : start + window + 1]
        logits = model.module(torch.tensor([inputs[: len(targets)]])).logits[0].double()
        found += torch.nn.functional.cross_entropy(
            logits, torch.tensor(targets), reduction="none"
        ).tolist()
    return found


def test_the_padded_loss_is_the_mix_of_text_and_padding(make_material: Make) -> None:
    """Brute force: each document filled up by hand, each window read alone."""
    material = make_material()
    model, window = build(material, "gpt2").eval(), material.entries["gpt2"].lm.window
    text, padding = [], []
    for d in range(len(material.dev)):
        tokens = material.dev.tokens[material.dev.document(d)].tolist()
        whole = tokens + [0] * (-(len(tokens) - 1) % window)
        losses = plain_losses(model, whole, window)
        text, padding = text + losses[: len(tokens) - 1], padding + losses[len(tokens) - 1 :]
    found = score_padded(model, material.dev, window)
    assert (found["real"], found["pad"]) == pytest.approx(
        (np.mean(text), np.mean(padding)), rel=1e-5
    )
    share = len(text) / (len(text) + len(padding))
    assert found["real_share"] == pytest.approx(share, rel=1e-12)
    assert found["padded"] == pytest.approx(
        share * np.mean(text) + (1 - share) * np.mean(padding), rel=1e-5
    )


def test_text_that_fills_its_windows_has_no_padding(make_material: Make) -> None:
    material, corpus = make_material(), tiny_corpus(2, shortest=17, longest=18)
    found = score_padded(build(material, "gpt2"), corpus, 8)
    assert found["pad"] is None
    assert found["padded"] == found["real"]
    assert found["real_share"] == 1.0


def test_counted_padding_makes_the_loss_smaller_for_sentences_more_than_for_documents(
    make_material: Make,
) -> None:
    found = try_padding(make_material(lm={"window": 16}, anomalies={"steps": 60}))
    assert set(found) == {"documents", "sentences"}
    for numbers in found.values():
        assert numbers["dev"]["pad"] < numbers["dev"]["padded"] < numbers["dev"]["real"]
        assert numbers["real_share"]["1024"] < numbers["real_share"]["512"]
    assert found["sentences"]["dev"]["real_share"] < found["documents"]["dev"]["real_share"]


def test_validation_that_trains_lowers_the_validation_loss_pass_by_pass(
    make_material: Make,
) -> None:
    found = try_validation_trains(make_material(lm={"learning_rate": 1e-2}))
    losses = [found["dev_loss"], *(one["dev_loss"] for one in found["passes"])]
    assert [one["number"] for one in found["passes"]] == [1, 2, 3, 4]
    assert losses == sorted(losses, reverse=True)


def test_validation_text_that_was_read_is_better_known_than_other_text(make_material: Make) -> None:
    found = try_validation_seen(
        make_material(lm={"learning_rate": 2e-2, "dropout": 0.0}, anomalies={"passes": 40})
    )
    assert found["passes"][-1]["dev_loss"] < found["passes"][0]["dev_loss"]
    assert found["passes"][-1]["dev_loss"] < found["held_out"] - 0.1


def test_no_further_dev_document_means_no_held_out_loss(make_material: Make) -> None:
    found = try_validation_seen(
        make_material(dev=tiny_corpus(1, split="dev"), anomalies={"passes": 1})
    )
    assert found["held_out"] is None


def test_the_literal_block_gains_nothing_from_the_context(make_material: Make) -> None:
    found = try_literal_block(
        make_material(lm={"learning_rate": 1e-2, "layers": 1}, anomalies={"steps": 150})
    )
    gains = {name: numbers["context_gain"] for name, numbers in found["models"].items()}
    assert gains["gpt2"] > 0.5
    assert gains["gpt2e"] > 0.5
    assert gains["gpt2e-literal"] < 0.05
    assert (
        found["models"]["gpt2"]["dev_loss"]
        < found["unigram_entropy"]
        < found["models"]["gpt2e-literal"]["dev_loss"]
    )


def test_the_context_gain_is_the_loss_of_the_mean_prediction_less_the_loss(
    make_material: Make,
) -> None:
    material = make_material(lm={"window": 64})
    model = build(material, "gpt2").eval()
    predictions, targets = [], []
    for d in range(len(material.dev)):
        tokens = material.dev.tokens[material.dev.document(d)].astype(np.int64)
        predictions.append(
            model.module(torch.from_numpy(tokens[None, :-1])).logits[0].double().softmax(-1)
        )
        targets.append(torch.from_numpy(tokens[1:]))
    shares, following = torch.cat(predictions), torch.cat(targets)
    gain = (
        (shares.gather(1, following[:, None])[:, 0].log() - shares.mean(0)[following].log())
        .mean()
        .item()
    )
    assert measure_context_gain(model, material.dev, 64) == pytest.approx(gain, abs=1e-6)


def test_a_model_that_ignores_its_input_has_no_context_gain(make_material: Make) -> None:
    material = make_material()
    model = build(material, "gpt2").eval()
    with torch.no_grad():
        model.module.transformer.ln_f.weight.zero_()
    assert measure_context_gain(model, material.dev, material.entries["gpt2"].lm.window) == pytest.approx(
        0.0, abs=1e-6
    )


def test_a_pass_has_the_means_of_its_own_steps_and_the_loss_after_it(make_material: Make) -> None:
    material = make_material(lm={"dropout": 0.0})
    model = build(material, "gpt2")
    rows: list[float] = []
    quiet = make_material(
        lm={"dropout": 0.0}, log=lambda line: rows.append(float(line.split("loss ")[1].split()[0]))
    )
    passes = train_passes(quiet, "gpt2", model, quiet.train, quiet.dev, 3, 2)
    assert [one.train_loss for one in passes] == pytest.approx(
        [np.mean(rows[:3]), np.mean(rows[3:])], abs=1e-4
    )
    assert passes[-1].dev_loss == mean_loss(model.eval(), quiet.dev, window=8)


@pytest.mark.parametrize("anomaly", TRIALS)
def test_the_same_seed_gives_the_same_numbers_and_they_are_finite(
    make_material: Make, anomaly: str
) -> None:
    one, other = (
        TRIALS[anomaly](make_material(anomalies={"steps": 4, "passes": 2})) for _ in range(2)
    )
    assert one == other
    assert all(math.isfinite(value) for value in leaves(one))


def leaves(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in leaves(item)]
    return [] if value is None else [value]


def test_the_candidates_are_those_of_the_params() -> None:
    assert tuple(TRIALS) == Anomaly.__args__  # type: ignore[attr-defined]


@pytest.mark.parametrize(("windows", "expected"), [(0, 4), (1, 2), (99, 1)])
def test_the_steps_of_a_pass_read_the_text_once(
    make_material: Make, windows: int, expected: int
) -> None:
    corpus = tiny_corpus(2, shortest=33, longest=34)  # 64 predictions, 16 a step
    lm = make_material(lm={"memory_gradient_windows": windows}).entries["gpt2"].lm
    assert steps_of_a_pass(corpus, lm) == expected


def test_a_short_training_keeps_the_studys_values_but_its_length(make_material: Make) -> None:
    material = make_material(lm={"warmup_steps": 15, "final_weights": "best"})
    for name, entry in material.entries.items():
        short = shorten(entry.lm, 5, 8, None)
        assert type(short) is entry.kind.params, name
        values = short.model_dump().items()
        changed = {key for key, value in values if value != getattr(entry.lm, key)}
        assert changed == {"steps", "warmup_steps", "final_weights"}
        assert (short.steps, short.warmup_steps, short.validate_every) == (40, 4, 5)
        assert shorten(entry.lm, 5, 8, "constant").schedule == "constant"


def test_pretrained_weights_are_not_used(make_material: Make) -> None:
    material = make_material(lm={"initial_weights": "/nowhere"})
    assert build(material, "gpt2") is not None


def test_a_block_is_trained_and_scored_with_the_labels_of_its_entry(
    make_material: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def note(material: Any, name: str, model: Any, text: Any, dev: Any, *rest: Any) -> Any:
        seen.extend((text.layer, dev.layer))
        return train_passes(material, name, model, text, dev, *rest)

    monkeypatch.setattr("entity_transformers.tasks.anomalies.trials.train_passes", note)
    try_literal_block(make_material(anomalies={"steps": 1}))
    assert seen == ["none", "none", "gold", "gold", "gold", "gold"]
