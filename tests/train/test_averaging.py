"""NT-ASGD: when averaging begins, what is averaged, validated and saved; resuming to the bit."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import AWD_RATES
from torch import Tensor, nn
from trainings import advance, assert_close, assert_resumes, gradients, make_training, weights

from entity_transformers.models.base import LanguageModel
from entity_transformers.train.averaging import Averaging
from entity_transformers.train.loop import Training

AWD: dict[str, Any] = AWD_RATES | {
    "dropout": 0.0, "hidden": 24, "activation_penalty": 2.0, "temporal_penalty": 1.0,
    "optimizer": "asgd", "learning_rate": 0.5, "schedule": "constant", "warmup_steps": 0,
    "validate_every": 2,
}  # fmt: skip
WITHOUT_CHANCE = dict.fromkeys(AWD_RATES, 0.0)


def run_algorithm_1(losses: list[float], interval: int) -> int | None:
    """The validation at which averaging begins, as the paper's algorithm 1 is written."""
    logs: list[float] = []
    for t, v in enumerate(losses):
        if t > interval and v > min(logs[i] for i in range(t - interval)):
            return t
        logs.append(v)
    return None


@pytest.mark.parametrize("interval", range(5))
def test_averaging_begins_where_the_algorithm_says(interval: int) -> None:
    generator, found = torch.Generator().manual_seed(0), set()
    for draw in range(400):
        falling = torch.linspace(draw / 20, 0.0, 8) + torch.randn(8, generator=generator)
        losses = falling.tolist()
        averaging = Averaging(nn.Linear(1, 1), interval)
        began = [k for k, loss in enumerate(losses) if averaging.follow(loss)]
        expected = run_algorithm_1(losses, interval)
        assert (began[0] if began else None) == expected
        found.add(expected)
    assert None in found
    assert len(found) > 3


def test_the_means_are_those_of_torch_s_asgd() -> None:
    """Which, told to begin at t0, first averages the weights after steps t0 + 2 and t0 + 3."""
    first, steps = 5, 40
    generator = torch.Generator().manual_seed(0)
    inputs, targets = (torch.randn(64, n, generator=generator) for n in (4, 3))
    own, theirs = nn.Linear(4, 3), nn.Linear(4, 3)
    theirs.load_state_dict(own.state_dict())
    averaging = Averaging(own, 0)
    descent = torch.optim.SGD(own.parameters(), lr=0.1)
    asgd = torch.optim.ASGD(theirs.parameters(), lr=0.1, lambd=0.0, t0=first - 2)
    for step in range(1, steps + 1):
        for module, optimizer in ((own, descent), (theirs, asgd)):
            optimizer.zero_grad()
            rows = slice(step % 8 * 8, step % 8 * 8 + 8)
            (module(inputs[rows]) - targets[rows]).square().mean().backward()
            optimizer.step()
        averaging.update()
        # a validation after each step, worse than the one before at the first that counts
        began = averaging.follow(float(step == first))
        assert began == (step == first)
    for (name, mean), parameter in zip(averaging.means.items(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mean, asgd.state[parameter]["ax"], rtol=0, atol=1e-6)
        assert (mean - dict(own.named_parameters())[name]).abs().max() > 1e-3


def script(training: Training, worse: int) -> list[Tensor]:
    """Have the loss fall up to step ``worse`` and rise there; a list of the weights validated."""
    seen: list[Tensor] = []

    def validate(model: LanguageModel, labels: bool) -> float:
        seen.append(weights(training).clone())
        step = training.progress.step
        return 10.0 - step / 10 + 5.0 * (step == worse)

    training.validate = validate
    return seen


@pytest.mark.parametrize("final", ["last", "best"])
def test_what_is_validated_and_saved_are_the_means_since_the_trigger(tmp_path, final):
    settings = AWD | {"nonmonotone_interval": 1, "final_weights": final, "steps": 12}
    training = make_training(tmp_path, "lstm", **settings)
    seen, after = script(training, worse=6), []
    while training.progress.step < 12:
        advance(training, 1)
        after.append(weights(training).clone())
    for i, validated in enumerate(seen):
        step = 2 * (i + 1)
        # up to the trigger's own validation the weights, then the mean of those after steps 6 to i
        expected = after[step - 1] if step <= 6 else torch.stack(after[5:step]).mean(0)
        torch.testing.assert_close(validated, expected, rtol=0, atol=1e-6)
        assert torch.equal(validated, after[step - 1]) == (step <= 6)
    training.load_final_weights()
    assert torch.equal(weights(training), seen[-1])
    assert training.progress.best_step == 12
    # the steps themselves are as if nothing were averaged
    plain = make_training(tmp_path / "plain", "lstm", **settings | {"nonmonotone_interval": 9})
    script(plain, worse=6)
    plain.run()
    assert not plain.averaging.means
    assert torch.equal(weights(plain), after[-1])
    plain.load_final_weights()
    assert torch.equal(weights(plain), after[-1])


@pytest.mark.parametrize("worse", [6, 12])
@pytest.mark.parametrize("windows", [0, 1])
def test_a_resumed_run_ends_in_the_same_bytes(tmp_path: Path, worse: int, windows: int) -> None:
    """Stopped after averaging began and before; masks are drawn all the way."""
    settings = AWD | {"nonmonotone_interval": 1, "memory_gradient_windows": windows}
    settings["gradient_checkpointing"] = bool(windows)
    settings |= {"steps": 20, "stop": 13, "begun": 10, "script": partial(script, worse=worse)}
    whole, resumed = assert_resumes(tmp_path, "lstm", **settings)
    assert whole.averaging.losses == resumed.averaging.losses
    assert whole.averaging.steps == resumed.averaging.steps == 20 - worse + 1
    means = (training.averaging.means for training in (whole, resumed))
    torch.testing.assert_close(*means, rtol=0, atol=0)


def test_penalties_are_in_the_gradient_and_in_no_loss_that_is_logged(tmp_path: Path) -> None:
    """A step's gradient is that of nats per token and, written out, of the penalties per token."""
    free = {"activation_penalty": 0.0, "temporal_penalty": 0.0}
    with_, without = (
        make_training(tmp_path / name, "lstm", **AWD | WITHOUT_CHANCE | changes)
        for name, changes in (("with", {}), ("without", free))
    )
    losses, found = [], []
    for training in (with_, without):
        training.model.module.train()
        losses.append(training.streams.accumulate_gradients([training.plan[0]]))
        found.append({n: p.grad.clone() for n, p in training.model.module.named_parameters()})
    assert losses[0] == losses[1]
    network, window = without.model.module, without.plan[0]
    tokens, begin = torch.from_numpy(window.tokens), torch.from_numpy(window.begins)
    assert not begin[:, 1:].any()
    zeros = without.model.start(len(tokens))
    masks = network.draw_masks(len(tokens))
    (_, outputs, dropped), *_ = network(tokens, zeros.hidden, zeros.cell, masks)
    assert torch.equal(outputs, dropped)
    changes = (outputs[:, 1:] - outputs[:, :-1]).square().mean(-1).sum() / tokens.numel()
    (2.0 * outputs.square().mean() + 1.0 * changes).backward()
    assert_close(found[0], {n: p.grad for n, p in network.named_parameters()})
    assert with_._validate(labels=True) == without._validate(labels=True)


def test_a_step_is_one_of_gradient_descent(tmp_path: Path) -> None:
    """The gradient and, of matrices, decay: nothing else is kept from step to step."""
    settings = AWD | WITHOUT_CHANCE | {"weight_decay": 0.1, "clip_norm": 0.0}
    one, other = (make_training(tmp_path / name, "lstm", **settings) for name in "ab")
    found, before = gradients(one), dict(one.model.module.named_parameters())
    other.train_step()
    assert not other.optimizer.state
    for name, weight in other.model.module.named_parameters():
        decay = 0.1 * before[name] * (weight.dim() > 1)
        expected = before[name] - 0.5 * (found[name] + decay)
        torch.testing.assert_close(weight, expected, rtol=0, atol=1e-7)
