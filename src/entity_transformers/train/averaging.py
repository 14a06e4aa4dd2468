"""Non-monotonically triggered averages of weights (NT-ASGD; Merity et al., 2018, algorithm 1).

Gradient descent goes on as it was; beside it stands the mean of the weights after every step since
step T, at whose end a validation was worse than the best one but the latest n before it. The mean
is what is validated and saved; the steps are never taken from it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_swa_multi_avg_fn

from entity_transformers.kinds import LmParams
from entity_transformers.train.distributed import World
from entity_transformers.train.optimizer import is_averaged


class Averaging:
    """The means of a module's weights, once they have begun; with another optimizer than asgd
    nothing ever begins, and nothing is saved.
    """

    def __init__(self, module: nn.Module, params: LmParams) -> None:
        self.module = module
        averaged = is_averaged(params)
        self.interval: int | None = getattr(params, "nonmonotone_interval", 0) if averaged else None
        self.losses: list[float] = []
        self.means: dict[str, Tensor] = {}
        self.steps = 0
        self._average = get_swa_multi_avg_fn()

    def follow(self, loss: float | None, world: World) -> bool:
        """Begin with the present weights if the main process's validation says so, whose ``loss``
        it is; returns whether they begin now. All processes call it.
        """
        if self.interval is None or self.means:
            return False
        begin = world.main and loss is not None and begins(self.losses, loss, self.interval)
        if world.main and loss is not None:
            self.losses.append(loss)
        if not world.any(begin):
            return False
        self.means = {name: p.detach().clone() for name, p in self.module.named_parameters()}
        self.steps = 1
        return True

    @torch.no_grad()
    def update(self) -> None:
        """Take the weights after one more step into the means, once these have begun."""
        if self.means:
            weights = dict(self.module.named_parameters())
            self._average(list(self.means.values()), [weights[n] for n in self.means], self.steps)
            self.steps += 1

    @torch.no_grad()
    def put(self) -> None:
        """Put the means into the module, if they have begun."""
        weights = dict(self.module.named_parameters())
        for name, mean in self.means.items():
            weights[name].copy_(mean)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """The module with the means in it, if they have begun; then with its own weights again."""
        weights = dict(self.module.named_parameters()) if self.means else {}
        own = {name: weight.detach().clone() for name, weight in weights.items()}
        self.put()
        try:
            yield
        finally:
            with torch.no_grad():
                for name, weight in weights.items():
                    weight.copy_(own[name])

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps: losses so far, steps, means."""
        if self.interval is None:
            return {}
        return {
            "losses": torch.tensor(self.losses, dtype=torch.float64),
            "steps": torch.tensor(self.steps),
            **{f"means/{name}": mean for name, mean in self.means.items()},
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Put what `state` gave back."""
        if self.interval is None:
            return
        self.losses, self.steps = state["losses"].tolist(), int(state["steps"])
        own = dict(self.module.named_parameters())
        self.means = {
            name: state[f"means/{name}"].to(weight)
            for name, weight in own.items()
            if f"means/{name}" in state
        }


def begins(losses: list[float], loss: float, interval: int) -> bool:
    """Is ``loss`` worse than the best of ``losses`` but the latest ``interval`` (algorithm 1)?"""
    earlier = losses[: max(0, len(losses) - interval)]
    return bool(earlier) and loss > min(earlier)
