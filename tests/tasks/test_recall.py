"""Synthetic recall: what is trained and how it is counted; then rows of the table of PAPER.md, each
a test.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

from entity_transformers.cli import main
from entity_transformers.corpus.facts import Answers, FactTask, find_answers, make_facts
from entity_transformers.models.gpt2e.memory import EntityMemory
from entity_transformers.report.recall import ROWS
from entity_transformers.study.params import load
from entity_transformers.study.sections import RecallVariant
from entity_transformers.study.steps.recall import RecallParams
from entity_transformers.tasks.recall import (
    VARIANTS,
    guess_tokens,
    make_lm_params,
    make_task,
    measure_accuracy,
    score_training,
    start_training,
)
from entity_transformers.train.checkpoint import CheckpointStore
from entity_transformers.train.loop import Training, TrainingError, TrainingStopped

ROOT = Path(__file__).resolve().parents[2]
FULL = load(ROOT / "params.yaml").recall
TASK = make_task(FULL)


def make_params(**changes: Any) -> RecallParams:
    return RecallParams(**(FULL.model_dump() | changes))


def test_every_variant_has_a_training_and_a_row() -> None:
    assert set(get_args(RecallVariant)) == set(VARIANTS) == set(ROWS)


@pytest.mark.parametrize(("name", "window", "earlier", "values", "steps"), [
    ("gpt2", 12, 0, "hidden", 4500),
    ("gpt2-document", 36, 0, "hidden", 1500),
    ("keys-detached", 12, 0, "hidden", 4500),
    ("keys-values-detached", 12, 0, "both", 4500),
    ("keys-gradient", 12, 2, "hidden", 1500),
    ("keys-values-gradient", 12, 2, "both", 1500),
])  # fmt: skip
def test_every_row_reads_as_many_tokens(
    name: str, window: int, earlier: int, values: str, steps: int
) -> None:
    params = make_lm_params(FULL, VARIANTS[name])
    assert (params.window, params.memory_gradient_windows, params.entity_values, params.steps) == (
        window,
        earlier,
        values,
        steps,
    )
    assert (
        params.steps
        * params.window
        * (params.memory_gradient_windows + 1)
        * params.documents_per_step
        == 96_000 * 36
    )
    assert params.warmup_steps == steps // 20


def test_the_switches_are_fields_of_the_model_s_config(tmp_path: Path) -> None:
    training = start_training(
        make_params(documents=64, width=16), "keys-values-gradient", 1, CheckpointStore(tmp_path, 1)
    )
    assert (training.model.config.entity_values, training.model.config.memory_gradient_windows) == (
        "both",
        2,
    )


def test_guesses_are_the_likeliest_tokens_of_each_document_read_alone(tmp_path: Path) -> None:
    params = make_params(documents=64, width=16, kinds=("colour", "town"), entities=3)
    training = start_training(params, "keys-values-gradient", 1, CheckpointStore(tmp_path, 1))
    training.run()
    task, model = make_task(params), training.model.eval()
    corpus = make_facts(task, 7, 5)
    guesses = guess_tokens(model, corpus, window=task.window)
    with torch.no_grad():
        for d in range(7):
            tokens, ids = (
                torch.from_numpy(a[corpus.document(d)].astype(np.int64))[None]
                for a in (corpus.tokens, corpus.entities)
            )
            memory = EntityMemory(1, task.entities, 16)
            for start in range(0, task.length, task.window):
                part = slice(start, start + task.window)
                hidden = model.transformer(
                    tokens[:, part], entity_ids=ids[:, part], memory=memory
                ).last_hidden_state
                memory.write(ids[:, part], hidden)
                expected = model.lm_head(hidden).argmax(-1)[0].numpy()
                place = corpus.offsets[d] + start + 1
                np.testing.assert_array_equal(guesses[place : place + task.window], expected)
    assert (guesses[corpus.offsets[:-1]] == -1).all()


def test_accuracy_is_counted_by_distance_and_kind() -> None:
    task = FactTask(("colour", "town"), 1, 3, 4, 5)
    distances, kinds = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 0, 0, 0, 0])
    right = np.array([True, False, True, True, False, True])
    counted = measure_accuracy(task, Answers(np.arange(6), distances, kinds), right)
    assert counted == {
        "chance": 0.25,
        "later": {"accuracy": 0.75, "questions": 4},
        "by_distance": {
            "0": {"accuracy": 0.5, "questions": 2}, "1": {"accuracy": 1.0, "questions": 2}, "2": {"accuracy": 0.5, "questions": 2},
        },
        "by_kind": {"colour": {"accuracy": 0.75, "questions": 4}, "town": {"accuracy": None, "questions": 0}},
    }  # fmt: skip


def test_a_seed_changes_what_is_trained_on_and_not_what_is_asked(tmp_path: Path) -> None:
    params = make_params(documents=64, test_documents=50, width=16, windows=2)
    one, other = (
        start_training(params, "gpt2", seed, CheckpointStore(tmp_path / str(seed), 1))
        for seed in (1, 2)
    )
    assert (one.corpus.tokens != other.corpus.tokens).any()
    assert len(find_answers(make_task(params), one.corpus).places) == 64 * 2 * 2
    other.model.load_state_dict(one.model.state_dict())
    assert score_training(one, params) == score_training(other, params)
    assert score_training(one, params)["later"]["questions"] == 50 * 2


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("name", "low", "high"), [
    ("gpt2", 0.05, 0.15),
    ("gpt2-document", 0.6, 0.95),
    ("keys-detached", 0.05, 0.35),
    ("keys-gradient", 0.85, 1.0),
    ("keys-values-gradient", 0.95, 1.0),
])  # fmt: skip
def test_the_gradient_through_the_memory_makes_it_carry_a_fact(
    tmp_path: Path, name: str, low: float, high: float
) -> None:
    """Rows of PAPER.md's table with params.yaml's own setting (chance 0.10, 4,000 questions), so at
    the width at which it was made.

    Over seeds 1 to 3 the second row is 0.78, the third 0.10 to 0.18 and the last two are 1.00. Keys
    and values with a detached memory have no test: by seed they are 0.19 to 0.56. In smaller
    settings a detached memory may carry all of it (PAPER.md's log).
    """
    torch.set_num_threads(1)
    training = start_training(FULL, name, 1, CheckpointStore(tmp_path, 1))
    training.run()
    scores = score_training(training, FULL)
    assert scores["by_distance"]["0"]["accuracy"] > 0.99
    assert scores["later"]["questions"] == 4000
    assert low <= scores["later"]["accuracy"] <= high


@pytest.mark.parametrize(
    ("error", "code"), [(TrainingStopped("x"), 75), (TrainingError("loss nan"), 2)]
)
def test_a_run_that_ends_early_leaves_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    code: int,
) -> None:
    def fail(training: Training) -> None:
        raise error

    monkeypatch.setattr(Training, "run", fail)
    command = [
        "train-recall",
        "--params",
        str(ROOT / "params.yaml"),
        "--variant",
        "keys-detached",
        "--seed",
        "1",
    ]
    with pytest.raises(SystemExit) as stop:
        main([*command, "--output", str(tmp_path / "out"), "--recall.documents", "64"])
    assert stop.value.code == code
    assert capsys.readouterr().err.endswith(
        "train-recall: keys-detached, seed 1: loss nan\n" if code == 2 else ""
    )
    assert not (tmp_path / "out").exists()
