"""A training of a tiny model, and what is compared of two."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tiny import VOCABULARY, tiny_corpus, tiny_entry
from torch import Tensor

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.models.base import LanguageModel, build_model
from entity_transformers.train.checkpoint import CheckpointStore
from entity_transformers.train.entry import measure_held_out
from entity_transformers.train.loop import Training


def make_training(
    folder: Path,
    kind: str = "gpt2e",
    *,
    labels: str | None = None,
    corpus: AlignedCorpus | None = None,
    checkpoint_every: int = 5,
    max_minutes: float | None = None,
    device: str = "cpu",
    **changes: Any,
) -> Training:
    """A training that goes on from the folder's checkpoints; ``changes``: the entry's params."""
    entry = tiny_entry(kind, labels, **changes)
    dev = give(tiny_corpus(3, seed=9, split="dev"), entry.labels, 1)
    unlabelled = give(dev, "none")

    def validate(model: LanguageModel, labels: bool) -> float:
        return measure_held_out(model, dev if labels else unlabelled, entry.lm)

    return Training(
        build_model(entry, VOCABULARY, 0, seed=1).to(device),
        give(corpus or tiny_corpus(), entry.labels, 1), validate, entry.lm, 1,
        CheckpointStore(folder / "checkpoints", 2), checkpoint_every, max_minutes=max_minutes,
    )  # fmt: skip


def train_each(folder: Path, count: int, /, *changes: dict[str, Any], **how: Any) -> list[Training]:
    """A training for each of the ``changes`` of the same values, after so many steps."""
    trainings = []
    for number, own in enumerate(changes):
        trainings.append(make_training(folder / str(number), **how | own))
        for _ in range(count):
            trainings[-1].train_step()
    return trainings


def advance(training: Training, steps: int) -> None:
    """Steps with what follows each, as `Training.run` takes them."""
    for _ in range(steps):
        training.train_step()
        training._after_step()


def weights(training: Training) -> Tensor:
    """All of the model's numbers in a row."""
    return torch.cat([p.detach().reshape(-1) for p in training.model.module.parameters()])


def named_gradients(training: Training) -> dict[str, Tensor]:
    """The gradients as they stand, by the parameter's name."""
    parameters = training.model.module.named_parameters()
    return {name: p.grad.clone() for name, p in parameters if p.grad is not None}


def gradients(training: Training) -> dict[str, Tensor]:
    """The gradients of the first step, before the optimizer has used them; dropout is the same."""
    torch.manual_seed(1)
    training.model.module.train()
    training.streams.accumulate_gradients(training.next_windows())
    return named_gradients(training)


def assert_close(one: dict[str, Tensor], other: dict[str, Tensor], tolerance: float = 1e-6) -> None:
    """Equal gradients of the same parameters."""
    assert one.keys() == other.keys()
    for name, gradient in one.items():
        torch.testing.assert_close(gradient, other[name], atol=tolerance, rtol=1e-4)


def assert_resumes(
    folder: Path,
    kind: str = "gpt2e",
    *,
    steps: int,
    stop: int,
    begun: int,
    script: Callable[[Training], object] = id,
    **how: Any,
) -> tuple[Training, Training]:
    """A whole training and one that dies and goes on end in the same bytes, and are returned."""
    how["steps"] = steps
    whole = make_training(folder / "whole", kind, **how)
    script(whole)
    whole.run()
    cut = make_training(folder / "cut", kind, **how)
    script(cut)
    advance(cut, stop)
    resumed = make_training(folder / "cut", kind, **how)
    assert resumed.progress.step == begun
    script(resumed)
    resumed.run()
    assert torch.equal(weights(whole), weights(resumed))
    for name, tensor in whole.streams.tensors().items():
        assert torch.equal(tensor, resumed.streams.tensors()[name]), name
    assert whole.progress.curve == resumed.progress.curve
    return whole, resumed
