"""Trials of learning rates: what is changed, what a trial's loss is, what diverges."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tiny import tiny_corpus, tiny_entry, tiny_params

from entity_transformers.artifacts import write_arrays
from entity_transformers.cli import main
from entity_transformers.corpus.alignment import learn_tokenizer
from entity_transformers.corpus.labels import give
from entity_transformers.kinds import LmParams
from entity_transformers.runtime import STOPPED
from entity_transformers.tasks.search import (
    Trial,
    find_best,
    shorten,
    spread_documents,
    try_rates,
)
from entity_transformers.train.loop import Training
from entity_transformers.train.progress import TrainingError


def test_trials_differ_in_their_rate_alone() -> None:
    lm = tiny_entry("gpt2", learning_rate=1e-3, steps=100, warmup_steps=10).lm
    given: list[LmParams] = []

    def train(tried: LmParams) -> float:
        given.append(tried)
        if tried.learning_rate > 3e-3:
            raise TrainingError("diverged")
        return abs(tried.learning_rate - 2e-3)

    trials = list(try_rates(lm, (0.5, 1.0, 2.0, 4.0), 20, train))
    assert [trial.learning_rate for trial in trials] == pytest.approx([5e-4, 1e-3, 2e-3, 4e-3])
    assert [trial.loss for trial in trials] == [pytest.approx(1.5e-3), 1e-3, 0.0, None]
    assert find_best(trials) == 2e-3
    for tried in given:
        changed = {"learning_rate", "steps", "warmup_steps", "validate_every", "final_weights"}
        assert tried.model_dump(exclude=changed) == lm.model_dump(exclude=changed)
        assert (tried.steps, tried.warmup_steps, tried.validate_every) == (20, 2, 20)
    assert shorten(lm, 1.0, 100).warmup_steps == 10


def test_the_smaller_of_equal_rates_is_best_and_none_where_all_diverged() -> None:
    assert find_best([Trial(1.0, 2.0), Trial(2.0, 2.0), Trial(3.0, None)]) == 1.0
    assert find_best([Trial(1.0, None)]) is None


def test_a_trial_for_which_there_is_no_memory_is_no_divergence() -> None:
    def train(tried: LmParams) -> float:
        if tried.learning_rate > 1e-3:
            raise TrainingError("4 windows do not fit") from MemoryError()
        return 1.0

    lm = tiny_entry("gpt2").lm.model_copy(update={"learning_rate": 1e-3})
    with pytest.raises(TrainingError, match="do not fit"):
        list(try_rates(lm, (1.0, 2.0), 20, train))


def test_documents_are_taken_from_all_over_the_split() -> None:
    corpus = give(tiny_corpus(11, seed=3), "gold", 1)
    found = spread_documents(corpus, 4)
    assert found.names == tuple(corpus.names[d] for d in (0, 2, 5, 8))
    assert found.given is not None
    assert corpus.given is not None
    for d, other in enumerate((0, 2, 5, 8)):
        own, place = found.document(d), corpus.document(other)
        assert np.array_equal(found.tokens[own], corpus.tokens[place])
        assert np.array_equal(found.given[own], corpus.given[place])
        assert np.array_equal(found.gold[own], corpus.gold[place])
    assert spread_documents(corpus, 11) is spread_documents(corpus, None) is corpus


def make_corpus(folder: Path) -> Path:
    """The files that a search reads."""
    for split in ("train", "dev"):
        aligned = tiny_corpus(seed=len(split), split=split)
        write_arrays(folder / f"{split}.safetensors", *aligned.arrays())
    learn_tokenizer([], 300, "natural").save(str(folder / "tokenizer.json"))
    return folder


@pytest.mark.parametrize("kind", ["gpt2", "gpt2e", "bert", "xlnet"])
def test_a_trial_of_all_steps_at_the_model_s_own_rate_is_its_training(
    kind: str, tmp_path: Path
) -> None:
    """The same dev loss to the bit; other rates have others, and one far too large diverges."""
    values = tiny_params(steps=6, validate_every=3).model_dump(mode="json")
    values["models"] = {kind: {"kind": kind, "labels": "gold" if kind == "gpt2e" else "none"}}
    values["study"]["steps"] = ["corpus", "lm", "search", "report"]
    values["search"] = {"factors": [0.5, 1.0, 1e30], "steps": 6}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(values))
    corpus = make_corpus(tmp_path / "corpus")
    where = [
        "--params", str(tmp_path / "params.yaml"), "--corpus", str(corpus), "--model", kind,
        "--seed", "1", "--work", str(tmp_path / "work"), "--output", str(tmp_path / "out"),
    ]  # fmt: skip
    main(["search-rates", *where])
    main(["train-lm", *where])
    found: dict[str, Any] = json.loads((tmp_path / "out/search.json").read_text())
    metrics = json.loads((tmp_path / "out/metrics.json").read_text())
    slow, own, fast = found["trials"]
    assert own["learning_rate"] == found["learning_rate"] == values["lm"]["learning_rate"]
    assert own["loss"] == metrics["dev_loss_on"]
    assert slow["loss"] != own["loss"]
    assert fast["loss"] is None or fast["loss"] > own["loss"]
    assert found["objective"] == metrics.get("objective", "causal")
    assert found["best"] in (slow["learning_rate"], own["learning_rate"])


def test_a_trial_that_was_edited_or_is_of_another_rate_is_trained_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    values = tiny_params(steps=4, validate_every=2).model_dump(mode="json")
    values["models"] = {"gpt2": {"kind": "gpt2"}}
    values["study"]["steps"] = ["corpus", "lm", "search", "report"]
    values["search"] = {"factors": [0.5, 1.0], "steps": 4}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(values))
    words = [
        "search-rates", "--params", str(tmp_path / "params.yaml"), "--corpus",
        str(make_corpus(tmp_path / "corpus")), "--model", "gpt2", "--seed", "1",
        "--work", str(tmp_path / "work"), "--output", str(tmp_path / "out"),
    ]  # fmt: skip
    main(words)
    found = (tmp_path / "out/search.json").read_bytes()
    one, two = sorted((tmp_path / "work").glob("*/trial.json"))
    kept = one.read_bytes(), two.read_bytes()
    losses = [json.loads(text)["scores"]["loss"] for text in kept]
    one.write_bytes(kept[0].replace(str(losses[0]).encode(), b"0.5"))  # better than any
    main(words)
    assert f"{one}: not as this run wrote it" in caplog.text
    assert str(two) not in caplog.text
    assert (one.read_bytes(), (tmp_path / "out/search.json").read_bytes()) == (kept[0], found)
    one.write_bytes(kept[1])
    two.write_bytes(b'{"loss": 0.5, "objective": "causal"}')  # as they were kept before
    main(words)
    assert str(two) in caplog.text
    assert (one.read_bytes(), two.read_bytes()) == kept
    assert (tmp_path / "out/search.json").read_bytes() == found
    for damaged in (b"", b"[]", b'{"scores": 1, "digest": 2}'):
        one.write_bytes(damaged)
        main(words)
        assert one.read_bytes() == kept[0]


@pytest.mark.parametrize("at", [9, 12])  # the third step of the second trial, and its last
def test_a_search_that_is_stopped_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Stopped in its second trial, it trains the rest of it and the third; what comes out is what
    a search in one go gives.
    """
    values = tiny_params(steps=6, validate_every=3).model_dump(mode="json")
    values["models"] = {"gpt2": {"kind": "gpt2"}}
    values["study"]["steps"] = ["corpus", "lm", "search", "report"]
    values["search"] = {"factors": [0.5, 1.0, 2.0], "steps": 6}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(values))
    make_corpus(tmp_path / "corpus")

    def search(name: str) -> None:
        main([
            "search-rates", "--params", str(tmp_path / "params.yaml"), "--corpus",
            str(tmp_path / "corpus"), "--model", "gpt2", "--seed", "1",
            "--work", str(tmp_path / name / "work"), "--output", str(tmp_path / name),
        ])  # fmt: skip

    search("whole")
    steps: list[int] = []
    plain = Training.train_step

    def train_step(training: Training) -> Any:
        steps.append(1)
        if len(steps) == at:
            signal.raise_signal(signal.SIGTERM)
        return plain(training)

    monkeypatch.setattr(Training, "train_step", train_step)
    with pytest.raises(SystemExit) as stop:
        search("cut")
    assert stop.value.code == STOPPED
    assert not (tmp_path / "cut/search.json").exists()
    search("cut")
    assert len(steps) == 3 * 6
    found, whole = ((tmp_path / name / "search.json").read_bytes() for name in ("cut", "whole"))
    assert found == whole
    assert not list((tmp_path / "cut/work").glob("*/checkpoints"))
    search("cut")
    assert len(steps) == 3 * 6
