"""The training loop: its gradient by brute force, resuming to the bit, accumulation, memory across
windows, bad losses.
"""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import VOCABULARY, tiny_corpus, tiny_params
from torch import Tensor

from entity_transformers.cli.lm import CurveFile
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.models.gpt2e.memory import EntityMemory
from entity_transformers.models.registry import (
    VARIANTS,
    build_model,
    count_parameters,
    label_corpus,
)
from entity_transformers.models.step import compute_hidden, compute_losses
from entity_transformers.tasks.perplexity import mean_loss
from entity_transformers.train.checkpoint import CheckpointStore
from entity_transformers.train.distributed import World
from entity_transformers.train.loop import (
    Training,
    TrainingError,
    TrainingStopped,
    caught_signals,
    learning_rate,
)
from entity_transformers.train.streams import suggest_smaller


def make_training(
    folder: Path,
    name: str = "gpt2e",
    world: World | None = None,
    corpus: AlignedCorpus | None = None,
    **changes: Any,
) -> Training:
    params = tiny_params(**changes)
    model = build_model(name, params, VOCABULARY, 0, seed=1)
    train, dev = (
        label_corpus(corpus or tiny_corpus(), name, 1),
        label_corpus(tiny_corpus(3, seed=9, split="dev"), name, 1),
    )

    def validate(model: Any, entities: bool) -> float:
        return mean_loss(model, dev, window=params.window, entities=entities)

    store, write_row = (
        CheckpointStore(folder / "checkpoints", 2),
        CurveFile(folder / "curve.csv").write_row,
    )
    return Training(model, train, validate, params, 1, store, write_row, world=world or World())


def weights(training: Training) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in training.model.parameters()])


def gradients(training: Training) -> dict[str, Tensor]:
    """The gradients of the first step, before the optimizer has used them."""
    count = training.windows_per_step
    training.model.train()
    training.streams.accumulate_gradients([training.plan[i] for i in range(count)])
    return {
        name: p.grad.clone() for name, p in training.model.named_parameters() if p.grad is not None
    }


def assert_close(one: dict[str, Tensor], other: dict[str, Tensor], tolerance: float = 1e-6) -> None:
    assert one.keys() == other.keys()
    for name, gradient in one.items():
        torch.testing.assert_close(gradient, other[name], atol=tolerance, rtol=1e-4)


def test_documents_side_by_side_give_the_mean_of_the_gradients_that_each_gives_alone(
    tmp_path: Path,
) -> None:
    both = make_training(tmp_path, dropout=0.0, documents_per_step=4)
    expected: dict[str, Tensor] = {}
    window = both.plan[0]
    assert window.packed or not (window.positions == 0).all()
    for stream in range(4):
        both.model.zero_grad()
        memory = EntityMemory(1, both.plan.rows, 16)
        ids = torch.from_numpy(window.entities[stream : stream + 1])
        positions = torch.from_numpy(window.positions[stream : stream + 1])
        hidden = compute_hidden(
            both.model, torch.from_numpy(window.tokens[stream : stream + 1]), ids, memory, positions
        )
        compute_losses(
            both.model, hidden, torch.from_numpy(window.targets[stream : stream + 1])
        ).mean().backward()
        for name, p in both.model.named_parameters():
            if p.grad is not None:
                expected[name] = expected.get(name, torch.zeros_like(p)) + p.grad / 4
    both.model.zero_grad()
    assert_close(gradients(both), expected)


@pytest.mark.parametrize("name", ["gpt2", "gpt2e"])
def test_accumulation_gives_the_gradients_of_one_pass(tmp_path: Path, name: str) -> None:
    one = make_training(tmp_path / "1", name, dropout=0.0, documents_per_step=4)
    four = make_training(tmp_path / "4", name, dropout=0.0, documents_per_step=4, accumulation=4)
    assert_close(gradients(one), gradients(four))


def test_gradient_checkpointing_and_chunked_losses_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = gradients(make_training(tmp_path / "1", dropout=0.0))
    monkeypatch.setattr("entity_transformers.lm.loss.CHUNKS", {"cpu": 3})
    assert_close(
        plain, gradients(make_training(tmp_path / "2", dropout=0.0, gradient_checkpointing=True))
    )


def test_losses_equal_cross_entropy_of_the_logits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("entity_transformers.lm.step.CHUNK", 5)
    model = make_training(tmp_path, "gpt2").model.eval()
    tokens = torch.randint(1, VOCABULARY, (3, 8))
    targets = torch.randint(1, VOCABULARY, (3, 8)).masked_fill(torch.rand(3, 8) < 0.3, -100)
    logits = model(tokens).logits
    expected = torch.nn.functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    torch.testing.assert_close(
        compute_losses(model, compute_hidden(model, tokens), targets), expected
    )


@pytest.mark.parametrize("name", ["gpt2", "gpt2e"])
def test_a_resumed_run_ends_in_the_same_bytes(tmp_path: Path, name: str) -> None:
    whole = make_training(tmp_path / "whole", name)
    whole.run()
    cut = make_training(tmp_path / "cut", name)
    for _ in range(13):  # dies at step 13, three steps after its last checkpoint
        cut.train_step()
        cut._after_step()
    resumed = make_training(tmp_path / "cut", name)
    assert resumed.progress.step == 10
    resumed.run()
    assert torch.equal(weights(whole), weights(resumed))
    assert (tmp_path / "whole/curve.csv").read_bytes() == (tmp_path / "cut/curve.csv").read_bytes()
    for progress in (whole.progress, resumed.progress):
        progress.median_step_seconds = progress.validation_seconds = progress.seconds = None  # type: ignore[assignment]
    assert vars(whole.progress) == vars(resumed.progress)


def test_the_best_weights_come_back(tmp_path: Path) -> None:
    training = make_training(
        tmp_path, final_weights="best", learning_rate=0.02, schedule="constant", steps=60
    )
    progress = training.run()
    training.load_final_weights()
    assert progress.best_step is not None
    assert progress.best_step < 60
    assert training._validate(entities=True) == progress.best_dev_loss


def test_best_weights_from_after_the_snapshot_are_forgotten(tmp_path: Path) -> None:
    """They may not come again: a run that goes on with other processes has other numbers."""
    settings: dict[str, Any] = {
        "final_weights": "best",
        "validate_every": 5,
        "checkpoint_every": 10,
    }
    cut = make_training(tmp_path, **settings)
    for _ in range(15):  # dies at step 15, the best one so far
        cut.train_step()
        cut._after_step()
    assert cut.progress.best_step == 15
    resumed = make_training(tmp_path, **settings)
    assert resumed.progress.step == 10
    assert [folder.name for folder in (tmp_path / "checkpoints").glob("best-*")] == [
        f"best-{resumed.progress.best_step:09d}"
    ]


def test_a_signal_saves_and_stops(tmp_path: Path) -> None:
    training = make_training(tmp_path)
    step = training.train_step

    def interrupted() -> None:
        step()
        if training.progress.step == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    training.train_step = interrupted  # type: ignore[method-assign]
    with pytest.raises(TrainingStopped, match="saved at step 3 of 20; run again"):
        training.run()
    assert make_training(tmp_path).progress.step == 3


def test_a_signal_from_before_the_first_step_counts(tmp_path: Path) -> None:
    with caught_signals() as caught:
        os.kill(os.getpid(), signal.SIGTERM)
        training = make_training(tmp_path)
        with pytest.raises(TrainingStopped, match="signal 15: saved at step 1 of 20"):
            training.run(caught)


def test_the_time_budget_saves_and_stops(tmp_path: Path) -> None:
    with pytest.raises(TrainingStopped, match="max_minutes"):
        make_training(tmp_path, max_minutes=1e-9).run()


def test_a_loss_that_is_not_finite_names_step_and_documents(tmp_path: Path) -> None:
    training = make_training(tmp_path)
    with torch.no_grad():
        training.model.transformer.ln_f.weight.fill_(math.nan)
    with pytest.raises(TrainingError, match=r"step 1: loss nan on d\d#0"):
        training.run()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_held_out_loss_that_is_not_finite_names_step_and_remedy(
    tmp_path: Path, value: float
) -> None:
    training = make_training(tmp_path)
    training.validate = lambda model, entities: 1.0 if entities else value
    with pytest.raises(
        TrainingError,
        match=(
            rf"step 5: held-out loss {value} with entities off: lower lm.learning_rate or set"
            r" lm.clip_norm"
        ),
    ):
        training.run()
    assert training.progress.best_dev_loss is None


@pytest.mark.parametrize(("name", "asked"), [("gpt2", [True]), ("gpt2e", [True, False])])
def test_a_plain_gpt2_is_validated_once(tmp_path: Path, name: str, asked: list[bool]) -> None:
    training, calls = make_training(tmp_path, name, steps=5), []

    def validate(model: Any, entities: bool) -> float:
        calls.append(entities)
        return 1.0

    training.validate = validate
    training.run()
    assert calls == asked
    assert training.progress.dev_loss_off == 1.0


CPU_MEMORY = RuntimeError(
    "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you"
    " tried to allocate 4000 bytes"
)


@pytest.mark.parametrize(
    "error", [CPU_MEMORY, torch.OutOfMemoryError("CUDA out of memory"), MemoryError()]
)
def test_out_of_memory_names_what_would_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    training = make_training(tmp_path, documents_per_step=6, accumulation=2)

    def fail(*given: Any) -> None:
        raise error

    monkeypatch.setattr("entity_transformers.lm.streams.compute_loss", fail)
    with pytest.raises(
        TrainingError, match=r"^3 windows of 8 tokens do not fit cpu: try lm\.accumulation 3$"
    ):
        training.run()
    monkeypatch.undo()
    for place, message in (
        ("optimizer.step", "AdamW's states do not fit cpu"),
        ("validate", "the windows of a validation do not fit cpu"),
    ):
        training = make_training(tmp_path / place, steps=1, warmup_steps=0)
        target = training if place == "validate" else training.optimizer
        setattr(target, place.split(".")[-1], fail)
        with pytest.raises(TrainingError, match=message):
            training.run()


def test_an_error_that_is_not_of_memory_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = make_training(tmp_path)
    monkeypatch.setattr(
        "entity_transformers.lm.streams.compute_loss",
        lambda *given: torch.zeros(2) + torch.zeros(3),
    )
    with pytest.raises(RuntimeError, match="size of tensor"):
        training.run()


@pytest.mark.parametrize("documents", [1, 3, 6, 8])
@pytest.mark.parametrize("processes", [1, 2])
def test_what_is_suggested_is_possible_until_one_stream_is_left(
    documents: int, processes: int
) -> None:
    params = tiny_params(documents_per_step=documents * processes)
    while "lm.accumulation" in (words := suggest_smaller(params, processes).split()):
        params = tiny_params(documents_per_step=documents * processes, accumulation=int(words[1]))
        assert params.documents_per_step % (params.accumulation * processes) == 0
    assert params.accumulation == documents
    assert (
        " ".join(words)
        == "lm.gradient_checkpointing true, or lm.window 4, with perplexity.stride at most that"
    )


def test_what_is_suggested_goes_with_the_other_params() -> None:
    assert (
        suggest_smaller(tiny_params(compile="reduce-overhead"), 1)
        == "lm.accumulation 2 and lm.compile default"
    )
    alone = tiny_params(documents_per_step=1, gradient_checkpointing=True)
    assert suggest_smaller(alone, 1) == "lm.window 4, with perplexity.stride at most that"


def test_seconds_of_all_lives_are_counted(tmp_path: Path) -> None:
    first = make_training(tmp_path)
    first.started -= 1000
    for _ in range(5):
        first.train_step()
        first._after_step()
    second = make_training(tmp_path)
    second.started -= 100
    assert 1100 <= second.seconds() < 1200
    second.run()
    assert second.progress.seconds >= 1100


def test_a_gradient_that_is_not_finite_is_skipped_and_counted(tmp_path: Path) -> None:
    training = make_training(tmp_path)
    before = weights(training)
    training.model.transformer.ln_f.weight.register_hook(lambda grad: grad * math.inf)
    training.train_step()
    assert training.progress.skipped_steps == 1
    assert torch.equal(before, weights(training))


def test_the_gradient_reaches_earlier_windows_only_through_a_kept_memory(tmp_path: Path) -> None:
    """With k = 1 a step's loss in its second window depends on what the first one wrote."""
    paper = make_training(
        tmp_path / "0", dropout=0.0, entity_values="both", memory_gradient_windows=0
    )
    kept = make_training(
        tmp_path / "1", dropout=0.0, entity_values="both", memory_gradient_windows=1, steps=10
    )
    assert (paper.windows_per_step, kept.windows_per_step) == (1, 2)
    np.testing.assert_array_equal(kept.plan[3].tokens, paper.plan[3].tokens)
    joint = gradients(kept)
    detached: dict[str, Tensor] = {}
    for index in range(2):
        paper.model.zero_grad()
        paper.streams.accumulate_gradients([paper.plan[index]])
        for name, p in paper.model.named_parameters():
            if p.grad is not None:
                detached[name] = detached.get(name, torch.zeros_like(p)) + p.grad / 2
    assert any((joint[name] - detached[name]).abs().max() > 1e-4 for name in joint)


def test_checkpointing_bounds_the_memory_gradient_s_activations_and_changes_nothing(
    tmp_path: Path,
) -> None:
    """The windows of a step in one graph, each recomputed in the backward pass: the same gradients,
    also with dropout.
    """
    found: dict[tuple[int, bool], tuple[int, dict[str, Tensor]]] = {}
    for earlier in (2, 8):
        for recomputed in (False, True):
            training = make_training(
                tmp_path / f"{earlier}{recomputed}", dropout=0.1, memory_gradient_windows=earlier, entity_values="both", steps=6,
                warmup_steps=0, gradient_checkpointing=recomputed,
            )  # fmt: skip
            found[earlier, recomputed] = count_kept(training)
        assert_close(found[earlier, False][1], found[earlier, True][1])
    more = {
        recomputed: (found[8, recomputed][0] - found[2, recomputed][0]) / 6
        for recomputed in (False, True)
    }
    memory = training.streams.memories[0]
    assert memory is not None
    # what a window hands on: its memory and its hidden states
    window = memory.states.nbytes + 4 * 2 * 8 * 16
    assert more[True] <= 4 * window < more[False] / 4


def count_kept(training: Training) -> tuple[int, dict[str, Tensor]]:
    """Bytes that the forward pass of a step keeps outside recomputed parts, and the step's
    gradients.
    """
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    torch.manual_seed(1)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        found = gradients(training)
    return sum(kept.values()), found


def test_both_models_start_from_the_same_shared_weights() -> None:
    params = tiny_params()
    gpt2, gpt2e = (build_model(name, params, VOCABULARY, 0, seed=3) for name in ("gpt2", "gpt2e"))
    shared = gpt2e.state_dict()
    for name, tensor in gpt2.state_dict().items():
        assert torch.equal(tensor, shared[name]), name


@pytest.mark.parametrize("width", [16, 64])
@pytest.mark.parametrize(
    "switches", [{}, {"entity_values": "both"}, {"entity_layer_norm": True, "entity_gate": "zero"}]
)
def test_the_wide_control_weighs_as_much_as_gpt2e(width: int, switches: dict[str, Any]) -> None:
    params = tiny_params(width=width, **switches)
    wide, gpt2e = (
        count_parameters(build_model(name, params, VOCABULARY, 0, seed=1))
        for name in ("gpt2-matched", "gpt2e")
    )
    assert abs(wide - gpt2e) <= params.layers * (2 * width + 1) / 2 + 1


def test_null_and_shuffled_controls_differ_from_gpt2e_in_labels_alone() -> None:
    corpus = tiny_corpus()
    for name in VARIANTS:
        labelled = label_corpus(corpus, name, 1)
        np.testing.assert_array_equal(labelled.tokens, corpus.tokens)
    assert not label_corpus(corpus, "gpt2e-unlabelled", 1).entities.any()
    assert (label_corpus(corpus, "gpt2e-shuffled", 1).entities > 0).sum() == (
        corpus.entities > 0
    ).sum()


def test_the_schedule_warms_up_and_falls() -> None:
    params = tiny_params(steps=100, warmup_steps=10, schedule="cosine", learning_rate=1.0)
    assert learning_rate(0, params) == pytest.approx(0.1)
    assert learning_rate(9, params) == pytest.approx(1.0)
    assert learning_rate(55, params) == pytest.approx(0.5)
    assert learning_rate(100, params) == pytest.approx(0.0)
    constant = tiny_params(schedule="constant", warmup_steps=0, learning_rate=2e-5)
    assert {learning_rate(step, constant) for step in range(20)} == {2e-5}


def test_training_lowers_the_loss(tmp_path: Path) -> None:
    training = make_training(
        tmp_path, steps=150, dropout=0.0, learning_rate=1e-2, validate_every=50
    )
    first = math.log(VOCABULARY)
    assert training.run().train_loss < first - 0.3
