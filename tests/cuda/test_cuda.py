"""The models, their training and their evaluation on a GPU against the CPU, in float32.

Skipped where torch sees no GPU. ENTITY_TRANSFORMERS_TEST_DEVICE=cpu runs them against the CPU
itself, to see that they run (`make rehearse`).
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_model
from tiny import KEPT, lively_model, tiny_corpus, tiny_entry, tiny_model
from torch import Tensor
from trainings import gradients, make_training, train_each, weights

from entity_transformers import runtime
from entity_transformers.corpus.labels import give
from entity_transformers.kinds import KINDS
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.steps.kept_pointer import KeptPointerParams
from entity_transformers.tasks.kept_pointer import score_pointers
from entity_transformers.tasks.perplexity import score_corpus
from entity_transformers.tasks.text_memory import Reading
from entity_transformers.train.loop import TrainingStopped, mean_objective

DEVICE = os.environ.get("ENTITY_TRANSFORMERS_TEST_DEVICE", "cuda")
pytestmark = pytest.mark.skipif(
    DEVICE == "cuda" and not torch.cuda.is_available(), reason="needs a CUDA device"
)
NEURAL = [name for name, kind in KINDS.items() if "windows" in kind.can]
SWITCHES: list[dict[str, Any]] = [
    {}, {"entity_values": "both"}, {"entity_values": "entity", "memory_write": "mean"},
    {"entity_gate": "zero", "entity_layer_norm": True}, {"memory_gradient_windows": 2},
    {"memory_life": "epochs"}, {"gradient_checkpointing": True},
]  # fmt: skip
CLOSE = {"rtol": 1e-3, "atol": 1e-5}


@pytest.fixture(autouse=True)
def plain_arithmetic() -> None:
    """Float32 as the package sets it before any work: no TF32."""
    runtime.start(DEVICE, torch.get_num_threads(), 1)


def windows(model: LanguageModel, device: str) -> list[Batch]:
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(3):
        tokens = torch.randint(1, 40, (3, 8), generator=generator)
        labels = torch.randint(0, 5, (3, 8), generator=generator)
        given = labels.to(device) if model.can("entities") else None
        found.append(Batch(tokens.to(device), given))
    return found


def read(model: LanguageModel, device: str) -> list[Tensor]:
    """Hidden states of three windows in a row, and the state that the last one leaves."""
    model = model.to(device)
    state, found = model.start(3, 4), []
    with torch.no_grad():
        for batch in windows(model, device):
            hidden, state = model.encode(batch, state)
            found.append(hidden.cpu())
    return [*found, *(tensor.cpu() for _, tensor in sorted(state.tensors().items()))]


@pytest.mark.parametrize("kind", NEURAL)
def test_a_model_reads_what_it_reads_on_the_cpu(kind: str) -> None:
    expected, found = (read(lively_model(kind), device) for device in ("cpu", DEVICE))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("kind", [name for name in NEURAL if "causal" in KINDS[name].can])
@pytest.mark.parametrize("split", ["train", "dev"])
def test_every_token_gets_its_nats(kind: str, split: str) -> None:
    entry, model = tiny_entry(kind), lively_model(kind)
    corpus = give(tiny_corpus(5, seed=3, split=split), entry.labels, 1)
    how = {"window": 8, "stride": 4 if model.context else 8, "batch": 2}
    expected = score_corpus(model, corpus, **how)
    found = score_corpus(model.to(DEVICE), corpus, **how)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_a_kept_pointer_learns_what_it_learns_on_the_cpu(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_model((model := lively_model("gpt2", window=16)).module, "model.safetensors")
    how = {**KEPT, "budgets": (6,), "kept": ({"policy": "recent"},), "size": 4, "epochs": 3}
    section = KeptPointerParams(**how, learning_rate=0.01, trainings=1)
    corpus = tiny_corpus(4, split="test", shortest=30)
    readings = (Reading(model.to(one), corpus, section, 8, 1, Path()) for one in ("cpu", DEVICE))
    expected, found = ([row["value"] for row in score_pointers(one)] for one in readings)
    assert found == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    "kind", [name for name in NEURAL if tiny_model(name).objective != "causal"]
)
def test_an_objective_of_its_own_is_that_of_the_cpu(kind: str) -> None:
    entry, model = tiny_entry(kind), lively_model(kind)
    corpus = give(tiny_corpus(9, seed=3, split="dev"), entry.labels, 1)
    expected = mean_objective(model, corpus, entry.lm)
    found = mean_objective(model.to(DEVICE), corpus, entry.lm)
    assert found == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_gradients_of_gpt2e_are_those_of_the_cpu(switches: dict[str, Any], tmp_path: Path) -> None:
    how = {"kind": "gpt2e", "dropout": 0.0, **switches}
    expected = gradients(make_training(tmp_path / "cpu", **how))
    found = gradients(make_training(tmp_path / "device", device=DEVICE, **how))
    moved = {name: gradient.cpu() for name, gradient in found.items()}
    torch.testing.assert_close(moved, expected, rtol=1e-2, atol=1e-5)


@pytest.mark.parametrize("kind", NEURAL)
def test_a_training_ends_where_it_ends_on_the_cpu(kind: str, tmp_path: Path) -> None:
    """Twenty steps; after a stop in the middle it goes on from its checkpoint."""
    how: dict[str, Any] = {"kind": kind, "dropout": 0.0, "steps": 20}
    whole = make_training(tmp_path / "cpu", **how)
    whole.run()
    first = make_training(tmp_path / "device", device=DEVICE, max_minutes=1e-9, **how)
    with pytest.raises(TrainingStopped):
        first.run()
    training = make_training(tmp_path / "device", device=DEVICE, **how)
    training.run()
    assert training.device.type == torch.device(DEVICE).type
    torch.testing.assert_close(weights(training).cpu(), weights(whole), rtol=5e-2, atol=2e-3)
    again = make_training(tmp_path / "device", device=DEVICE, **how)
    assert again.progress.step == 20
    assert torch.equal(weights(again), weights(training))


@pytest.mark.skipif(
    DEVICE == "cpu" and not torch.ops.mkldnn._is_mkldnn_bf16_supported(),
    reason="this processor has no LSTM in bfloat16",
)
@pytest.mark.parametrize("kind", NEURAL)
def test_bfloat16_is_near(kind: str, tmp_path: Path) -> None:
    how: dict[str, Any] = {"kind": kind, "dropout": 0.0, "device": DEVICE}
    one, half = train_each(tmp_path, 5, {}, {"precision": "bfloat16"}, **how)
    expected = pytest.approx(one.progress.take_train_loss(), rel=0.02)
    assert half.progress.take_train_loss() == expected


@pytest.mark.skipif(DEVICE != "cuda", reason="a CPU compiles elsewhere, and has no such gradient")
@pytest.mark.parametrize("changes", [
    {"compile": "default"}, {"compile": "reduce-overhead"}, {"attention": "flex"},
    {"attention": "flex", "compile": "default"},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("kind", ["gpt2", "gpt2e"])
def test_compiled_is_as_eager_and_flex_as_the_mask(kind: str, changes, tmp_path: Path) -> None:
    """Weights after six steps; FlexAttention in windows of 128 in which documents begin."""
    how: dict[str, Any] = {"kind": kind, "dropout": 0.0, "steps": 6, "device": DEVICE}
    if flex := "attention" in changes:
        how |= {"window": 128, "heads": 1, "corpus": tiny_corpus(40, seed=3)}
    both = train_each(tmp_path, 6, {}, changes, **how)
    assert not flex or all(any(one.plan[step].packed for step in range(6)) for one in both)
    torch.testing.assert_close(*map(weights, both[::-1]), rtol=5e-2, atol=2e-3)


def test_dropout_draws_on_the_device(tmp_path: Path) -> None:
    trainings = train_each(tmp_path, 3, {}, {}, device=DEVICE, dropout=0.3)
    losses = [training.progress.take_train_loss() for training in trainings]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
