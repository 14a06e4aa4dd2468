"""The training loop: its gradient by brute force, memory across windows, bad losses, switches."""

import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import SMALL, VOCABULARY, tiny_entry, tiny_params
from trainings import advance, assert_close, gradients, make_training, named_gradients, weights

from entity_transformers.artifacts import write_csv
from entity_transformers.kinds import KINDS, LmParams, resolve
from entity_transformers.models.base import Batch, build_model
from entity_transformers.train import loop
from entity_transformers.train.entry import list_rows
from entity_transformers.train.loop import TrainingError, TrainingStopped, caught_signals

HALF_PRECISION = 5e-3
MEASURE = ("measure", "value")


def test_documents_side_by_side_give_the_mean_of_the_gradients_that_each_gives_alone(tmp_path):
    both = make_training(tmp_path, dropout=0.0, documents_per_step=4)
    window = both.plan[0]
    assert window.packed or not (window.positions == 0).all()
    for stream in range(4):
        tokens, targets, labels, positions = (
            torch.from_numpy(column[stream : stream + 1])
            for column in (window.tokens, window.targets, window.entity_ids, window.positions)
        )
        batch = Batch(tokens, labels, positions)
        hidden, _ = both.model.encode(batch, both.model.start(1, both.plan.rows))
        (both.model.nats(hidden, targets).mean() / 4).backward()
    expected = named_gradients(both)
    both.model.module.zero_grad()
    assert_close(gradients(both), expected)


def test_the_best_weights_come_back(tmp_path: Path) -> None:
    how = {"final_weights": "best", "learning_rate": 0.02, "schedule": "constant", "steps": 60}
    training = make_training(tmp_path, **how)
    progress = training.run()
    training.load_final_weights()
    assert progress.best_step is not None
    assert progress.best_step < 60
    assert training._validate(labels=True) == progress.best_dev_loss


def test_a_run_goes_on_with_the_best_weights_so_far(tmp_path: Path) -> None:
    """Those from after its checkpoint are forgotten: they may not come again."""
    settings: dict[str, Any] = {"final_weights": "best", "checkpoint_every": 10}
    cut = make_training(tmp_path, **settings)
    advance(cut, 15)  # dies at step 15, the best one so far
    assert cut.progress.best_step == 15
    resumed = make_training(tmp_path, **settings)
    assert (resumed.progress.step, resumed.progress.best_step) == (10, 10)
    best = resumed.progress.best_dev_loss
    resumed.load_final_weights()
    assert resumed._validate(labels=True) == best


def test_a_signal_or_the_time_budget_saves_and_stops(tmp_path: Path) -> None:
    training = make_training(tmp_path / "signal")
    step = training.train_step

    def interrupted() -> None:
        step()
        if training.progress.step == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    training.train_step = interrupted  # type: ignore[method-assign]
    told = "saved at step 3 of 20; run it again"
    with caught_signals() as caught, pytest.raises(TrainingStopped, match=told):
        training.run(caught)
    assert make_training(tmp_path / "signal").progress.step == 3
    with caught_signals() as caught:  # one from before the first step counts
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(TrainingStopped, match="signal 15: saved at step 1 of 20"):
            make_training(tmp_path / "early").run(caught)
    with pytest.raises(TrainingStopped, match="max_minutes"):
        make_training(tmp_path / "budget", max_minutes=1e-9).run()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_names_step_documents_and_remedy(tmp_path, value):
    training = make_training(tmp_path / "1")
    training.validate = lambda model, labels: 1.0 if labels else value
    message = rf"step 5: held-out loss {value} with entities off: lower lm.learning_rate or set lm"
    with pytest.raises(TrainingError, match=message):
        training.run()
    assert training.progress.best_dev_loss is None
    training = make_training(tmp_path / "2")
    torch.nn.init.constant_(training.model.module.transformer.ln_f.weight, math.nan)
    with pytest.raises(TrainingError, match=r"step 1: loss nan on d\d#0"):
        training.run()


@pytest.mark.parametrize(("kind", "asked"), [("gpt2", [True]), ("gpt2e", [True, False])])
def test_a_plain_gpt2_is_validated_once(tmp_path: Path, kind: str, asked: list[bool]) -> None:
    training, calls = make_training(tmp_path, kind, steps=5), []

    def validate(model: Any, labels: bool) -> float:
        calls.append(labels)
        return 1.0

    training.validate = validate
    training.run()
    assert calls == asked
    assert training.progress.dev_loss_off == 1.0


CPU_MEMORY = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 kB")


@pytest.mark.parametrize("error", [CPU_MEMORY, torch.OutOfMemoryError("CUDA"), MemoryError()])
def test_out_of_memory_names_what_would_fit(tmp_path, monkeypatch, error) -> None:
    def fail(*given: Any) -> None:
        raise error

    def refused(training: loop.Training, message: str) -> None:
        with pytest.raises(TrainingError, match=message):
            training.run()

    how = {"documents_per_step": 3, "steps": 1, "warmup_steps": 0}
    trainings = [make_training(tmp_path / name, **how) for name in "abc"]
    trainings[0].optimizer.step = fail
    refused(trainings[0], "AdamW's states do not fit on cpu")
    trainings[1].validate = fail
    refused(trainings[1], "the windows of a validation do not fit on cpu")
    monkeypatch.setattr("entity_transformers.train.loop.compute_loss", fail)
    refused(trainings[2], r"^3 windows of 8 tokens do not fit on cpu: set lm\.gradient_check")


def test_a_gradient_that_is_not_finite_is_skipped_and_counted(tmp_path: Path) -> None:
    training = make_training(tmp_path)
    before = weights(training)
    training.model.module.transformer.ln_f.weight.register_hook(lambda grad: grad * math.inf)
    training.train_step()
    assert training.progress.skipped_steps == 1
    assert torch.equal(before, weights(training))


def test_the_gradient_reaches_earlier_windows_only_through_a_kept_memory(tmp_path: Path) -> None:
    """With k = 1 a step's loss in its second window depends on what the first one wrote."""
    how = {"dropout": 0.0, "entity_values": "both", "steps": 10}
    paper, kept = (
        make_training(tmp_path / str(k), memory_gradient_windows=k, **how) for k in (0, 1)
    )
    assert (paper.windows_per_step, kept.windows_per_step) == (1, 2)
    joint = gradients(kept)
    for index in range(2):
        paper.streams.accumulate_gradients([paper.plan[index]])
    detached = named_gradients(paper)  # the sum of both windows'
    assert any((joint[name] - detached[name] / 2).abs().max() > 1e-4 for name in joint)


@pytest.mark.parametrize("width", [16, 64])
@pytest.mark.parametrize(
    "switches", [{}, {"entity_values": "both"}, {"entity_layer_norm": True, "entity_gate": "zero"}]
)
def test_a_matched_gpt2_weighs_as_much_as_its_gpt2e(width: int, switches: dict[str, Any]) -> None:
    models = {"gpt2e": {"kind": "gpt2e", **switches}, "wide": {"kind": "gpt2"}}
    models["wide"]["matched_to"] = "gpt2e"
    sample = tiny_params(width=width)
    shared = sample.lm.model_dump(), sample.kinds, KINDS
    entries = (resolve(name, models, *shared) for name in models)
    gpt2e, wide = (build_model(one, VOCABULARY, 0, seed=1).count_parameters() for one in entries)
    assert abs(wide - gpt2e) <= SMALL["layers"] * (2 * width + 1) / 2 + 1


def test_the_schedule_warms_up_and_falls() -> None:
    params = tiny_params(steps=100, warmup_steps=10, schedule="cosine", learning_rate=1.0).lm
    expected = {0: 0.1, 9: 1.0, 55: 0.5, 100: 0.0}
    assert {step: loop.learning_rate(step, params) for step in expected} == pytest.approx(expected)
    constant = tiny_params(schedule="constant", warmup_steps=0, learning_rate=2e-5).lm
    assert {loop.learning_rate(step, constant) for step in range(20)} == {2e-5}


@pytest.mark.parametrize("kind", ["gpt2", "gpt2e"])
def test_bfloat16_learns_what_float32_learns(tmp_path: Path, kind: str) -> None:
    curves = []
    for precision in ("float32", "bfloat16"):
        training = make_training(
            tmp_path / precision, kind, precision=precision, steps=40, validate_every=10
        )
        training.run()
        assert {p.dtype for p in training.model.module.parameters()} == {torch.float32}
        rows = training.progress.curve
        values = [row[column] for row in rows for column in ("train_loss", "dev_loss_on")]
        curves.append([float(value) for value in values if value != ""])
    assert curves[0] != curves[1]
    assert curves[0][0] - min(curves[0]) > 20 * HALF_PRECISION  # learnt more than is tolerated
    assert curves[1] == pytest.approx(curves[0], abs=HALF_PRECISION)


def test_a_bare_off_of_yaml_means_off_and_another_mode_of_compile_is_refused() -> None:
    values = tiny_params().lm.model_dump()
    assert LmParams(**values | {"compile": False}).compile == "off"
    for written in (True, "max-autotune", None):
        with pytest.raises(ValueError, match="'off', 'default' or 'reduce-overhead'"):
            LmParams(**values | {"compile": written})


def test_cuda_graphs_are_refused_where_windows_are_recomputed() -> None:
    """CUDA graphs give .grad a buffer that the next pass overwrites (pytorch issue 169545)."""
    how = {"gradient_checkpointing": True, "memory_gradient_windows": 2}
    with pytest.raises(ValueError, match="loses gradients where windows are recomputed"):
        tiny_params(compile="reduce-overhead", **how)


@pytest.mark.parametrize("kind", ["gpt2", "ngram", "pretrained", "word2vec"])
@pytest.mark.parametrize("weights", ["study:other/first/1", "data/other/models/first/1"])
def test_what_the_weights_at_the_start_cost_is_counted(tmp_path, monkeypatch, kind, weights):
    monkeypatch.chdir(tmp_path)
    folder = Path("data/other/models/first/1")
    folder.mkdir(parents=True)
    costs = [("tokens_seen", 7), ("tokens_before", 5), ("seconds_total", 2.5)]
    costs += [("tokens_predicted", 3), ("predicted_before", 2), ("seconds_before", 1.0)]
    costs += [("seconds_per_step", 0.5), ("steps", 4)] if kind == "gpt2" else []
    write_csv(folder / "rows.csv", [{"measure": m, "value": v} for m, v in costs], MEASURE)
    rows = list_rows({"tokens_seen": 1}, tiny_entry(kind, initial_weights=weights))
    found = {row["measure"]: row["value"] for row in rows}
    assert (found["tokens_before"], found["predicted_before"]) == (12, 5)
    assert found["seconds_before"] == (3.0 if kind == "gpt2" else 3.5)  # without validations
    assert found["tokens_seen"] == 1
