"""Averages of weights beside a training (NT-ASGD)."""

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_swa_multi_avg_fn


class Averaging:
    """Non-monotonically triggered averages of weights (NT-ASGD; Merity et al., 2018, algorithm 1).

    Gradient descent goes on unchanged. Beside it stands the mean of the weights after every step
    since step T, after which a validation was worse than the best one but the latest n before it.
    The mean is what is validated and saved; the steps are never taken from it. ``interval`` is n;
    with None, for other optimizers, the means never begin.
    """

    def __init__(self, module: nn.Module, interval: int | None) -> None:
        self.weights, self.interval = dict(module.named_parameters()), interval
        self.losses: list[float] = []
        self.means: dict[str, Tensor] = {}
        self.steps = 0
        self._average = get_swa_multi_avg_fn()

    def follow(self, loss: float | None) -> bool:
        """Begin with the present weights if a validation, whose ``loss`` it is, says so; returns
        whether they begin now.
        """
        if self.interval is None or self.means or loss is None:
            return False
        begin = begins(self.losses, loss, self.interval)
        self.losses.append(loss)
        if not begin:
            return False
        self.means, self.steps = {n: p.detach().clone() for n, p in self.weights.items()}, 1
        return True

    @torch.no_grad()
    def update(self) -> None:
        """Take the weights after one more step into the means, once these have begun."""
        if self.means:
            self._average(list(self.means.values()), list(self.weights.values()), self.steps)
            self.steps += 1

    @torch.no_grad()
    def put(self, tensors: Mapping[str, Tensor] | None = None) -> None:
        """Put the means, if they have begun, or these ``tensors`` into the module."""
        for name, tensor in (self.means if tensors is None else tensors).items():
            self.weights[name].copy_(tensor)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """The module with the means in it, if they have begun; then with its own weights again."""
        own = {name: self.weights[name].detach().clone() for name in self.means}
        self.put()
        try:
            yield
        finally:
            self.put(own)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps: losses so far, steps, means."""
        if self.interval is None:
            return {}
        losses = torch.tensor(self.losses, dtype=torch.float64)
        means = {f"means/{name}": mean for name, mean in self.means.items()}
        return {"losses": losses, "steps": torch.tensor(self.steps), **means}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Put what `state` gave back."""
        if self.interval is not None:
            self.losses, self.steps = state["losses"].tolist(), int(state["steps"])
            self.means = {
                name: state[f"means/{name}"].to(weight, copy=True)
                for name, weight in self.weights.items()
                if self.steps
            }


def begins(losses: list[float], loss: float, interval: int) -> bool:
    """Is ``loss`` worse than the best of ``losses`` but the latest ``interval`` (algorithm 1)?"""
    earlier = losses[: max(0, len(losses) - interval)]
    return bool(earlier) and loss > min(earlier)
