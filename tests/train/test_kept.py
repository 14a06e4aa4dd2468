"""`memory_life: epochs` against a slow reading of every document's part of every window."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import tiny_corpus
from trainings import assert_resumes, make_training

from entity_transformers.models.base import Batch
from entity_transformers.models.gpt2e.memory import EntityMemory
from entity_transformers.train.loop import Training

SHORT = tiny_corpus(5, seed=3, shortest=2, longest=9)  # several end in one window, some twice
STILL = {
    "dropout": 0.0, "learning_rate": 1e-30, "warmup_steps": 0, "entity_values": "both",
    "entity_layer_norm": True,
}  # fmt: skip
EPOCHS = {"memory_life": "epochs"}


@torch.no_grad()
def read_slowly(training: Training, steps: int) -> tuple[list[float], dict[int, EntityMemory]]:
    """Mean loss of each step with the weights as they are, and each document's last entities."""
    kept: dict[int, EntityMemory] = {}
    open_: dict[tuple[int, int], EntityMemory] = {}
    losses, count, plan = [], training.windows_per_step, training.plan
    for step in range(steps):
        left: dict[int, EntityMemory] = {}
        total = 0.0
        for index in range(step * count, (step + 1) * count):
            for number, stream in enumerate(plan.streams):
                for k, document in enumerate(stream.documents.tolist()):
                    begin = int(stream.starts[k])
                    end = begin + int(plan.lengths[document])
                    low, high = max(begin, index * plan.window), min(end, (index + 1) * plan.window)
                    if low >= high:
                        continue
                    first = training.model.start(1, int(plan.entities[document]))
                    before = open_.pop((number, k), kept.get(document, first))
                    loss, after = read_part(training, document, low - begin, high - begin, before)
                    total += loss
                    if high == end:
                        left[document] = after
                    else:
                        open_[number, k] = after
        kept |= left
        losses.append(total / (count * len(plan.streams) * plan.window))
    return losses, kept


def read_part(
    training: Training, document: int, low: int, high: int, memory: EntityMemory
) -> tuple[float, EntityMemory]:
    corpus, start = training.corpus, int(training.corpus.offsets[document])
    columns = (corpus.tokens, corpus.gold, corpus.tokens[1:])
    tokens, labels, targets = (
        torch.from_numpy(column[start + low : start + high].astype(np.int64))[None]
        for column in columns
    )
    hidden, memory = training.model.encode(Batch(tokens, labels), memory)
    return float(training.model.nats(hidden, targets).sum()), memory


def spread(model: Any) -> None:
    """Larger weights, so that what an entity's vector is shows in the loss."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 2 and "entity" in name:
                p.mul_(20)


@pytest.mark.parametrize("corpus", [tiny_corpus(), SHORT], ids=["long", "short"])
@pytest.mark.parametrize("changes", [
    {}, {"documents_per_step": 4}, {"memory_gradient_windows": 2, "documents_per_step": 3},
], ids=str)  # fmt: skip
def test_documents_go_on_with_their_entities(tmp_path, corpus, changes):
    training = make_training(tmp_path / "1", corpus=corpus, **(STILL | EPOCHS | changes))
    spread(training.model.module)
    expected, kept = read_slowly(training, 20)
    losses = []
    for step in range(20):
        training.train_step()
        losses.append(training.progress.loss_sum - sum(losses))
        assert losses[step] == pytest.approx(expected[step], abs=2e-6), step
    assert training.streams.kept is not None
    for document, memory in kept.items():
        first = int(training.plan.first_chains[document])
        found = training.streams.kept.states[first + 1 : first + 1 + memory.entities]
        torch.testing.assert_close(found, memory.states[0, 1:], rtol=0, atol=2e-5)
    anew = make_training(tmp_path / "2", corpus=corpus, **(STILL | changes))
    spread(anew.model.module)
    assert anew.streams.kept is None
    for _ in range(20):
        anew.train_step()
    assert abs(anew.progress.loss_sum - sum(losses)) > 1e-3


def test_what_is_kept_is_in_the_snapshot(tmp_path: Path) -> None:
    _, resumed = assert_resumes(tmp_path, steps=24, stop=18, begun=15, **EPOCHS)
    assert resumed.streams.kept is not None
    assert (resumed.streams.kept.states != 1).any()


def test_evaluation_starts_anew(tmp_path: Path) -> None:
    """The same held-out loss however much has been kept."""
    training = make_training(tmp_path, **(STILL | EPOCHS))
    spread(training.model.module)
    before = training._validate(labels=True)
    for _ in range(15):
        training.train_step()
    assert training._validate(labels=True) == before
