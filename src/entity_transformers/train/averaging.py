"""Running averages of a training's weights (NT-ASGD)."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_swa_multi_avg_fn


class Averaging:
    """Non-monotonically triggered averages of weights (NT-ASGD; Merity et al., 2018, algorithm 1).

    Gradient descent goes on unchanged. Beside it the mean of the weights after every step from step
    T on is kept, where T is the first step whose validation is worse than the best one before, the
    latest n left out. The mean is validated and saved, but no step is ever taken from it.
    ``interval`` is n; with None, for other optimizers, averaging never begins.
    """

    def __init__(self, module: nn.Module, interval: int | None) -> None:
        self.weights, self.interval = dict(module.named_parameters()), interval
        self.losses: list[float] = []
        self.means: dict[str, Tensor] = {}
        self.steps = 0
        self._average = get_swa_multi_avg_fn()

    def follow(self, loss: float) -> bool:
        """Begin to average, with the present weights, if a validation with this ``loss`` triggers
        it; return whether averaging begins now.
        """
        if self.interval is None or self.means:
            return False
        earlier = self.losses[: max(0, len(self.losses) - self.interval)]
        self.losses.append(loss)
        if not earlier or loss <= min(earlier):
            return False
        self.means, self.steps = {n: p.detach().clone() for n, p in self.weights.items()}, 1
        return True

    @torch.no_grad()
    def update(self) -> None:
        """Add the weights after one more step to the means, if averaging has begun."""
        if self.means:
            self._average(list(self.means.values()), list(self.weights.values()), self.steps)
            self.steps += 1

    @torch.no_grad()
    def put(self, tensors: Mapping[str, Tensor]) -> None:
        """Put ``tensors``, such as the means, into the module."""
        for name, tensor in tensors.items():
            self.weights[name].copy_(tensor)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Put the means into the module inside the block, if averaging has begun."""
        own = {name: self.weights[name].detach().clone() for name in self.means}
        self.put(self.means)
        try:
            yield
        finally:
            self.put(own)

    def state(self) -> dict[str, Any]:
        """Return the tensors for a checkpoint: losses so far, steps, means by name."""
        losses = torch.tensor(self.losses, dtype=torch.float64)
        return {"losses": losses, "steps": torch.tensor(self.steps), "means": self.means}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self.losses, self.steps = state["losses"].tolist(), int(state["steps"])
        means = state.get("means", {})  # no tensors before averaging begins
        self.means = {name: means[name].to(w) for name, w in self.weights.items() if name in means}
