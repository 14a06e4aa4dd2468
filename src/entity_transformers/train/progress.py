"""Where a training run stands, the rows of its learning curve (figures 2 and 3), and why it cannot
go on.
"""

from __future__ import annotations

import csv
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from entity_transformers.artifacts import write_text

CurveRow = dict[str, float | int | str]
CURVE_COLUMNS = ("step", "tokens", "train_loss", "learning_rate", "dev_loss_on", "dev_loss_off")


class TrainingError(RuntimeError):
    """Training cannot go on: a loss is not finite, a batch does not fit, a process is gone, or no
    checkpoint can be read.
    """


@dataclass
class Progress:
    """What a snapshot keeps beside the tensors. Losses are nats per token, of the training split
    means over steps.
    """

    step: int = 0
    tokens: int = 0
    loss_sum: float = 0.0
    loss_steps: int = 0
    interval_loss_sum: float = 0.0
    interval_steps: int = 0
    train_loss: float | None = None
    dev_loss_on: float | None = None
    dev_loss_off: float | None = None
    best_dev_loss: float | None = None
    best_step: int | None = None
    best_train_loss: float | None = None
    best_dev_loss_off: float | None = None
    skipped_steps: int = 0
    curve_rows: int = 0
    curve_digest: str = ""
    median_step_seconds: float | None = None
    validation_seconds: float | None = None
    seconds: float = 0.0

    def add_step(self, loss: float, tokens: int, moved: bool) -> None:
        """One more step, on ``tokens`` tokens; ``moved``: its gradient was finite and used."""
        self.step += 1
        self.tokens += tokens
        self.skipped_steps += not moved
        self.loss_sum, self.loss_steps = self.loss_sum + loss, self.loss_steps + 1
        self.interval_loss_sum, self.interval_steps = (
            self.interval_loss_sum + loss,
            self.interval_steps + 1,
        )

    def take_train_loss(self) -> float:
        """The mean loss since the last row of the curve, whose sum starts anew."""
        loss, self.loss_sum, self.loss_steps = self.loss_sum / self.loss_steps, 0.0, 0
        return loss

    def add_validation(self, on: float, off: float) -> bool:
        """Note a validation, entities on and off; returns whether it is the best so far."""
        self.train_loss = self.interval_loss_sum / self.interval_steps
        self.interval_loss_sum, self.interval_steps = 0.0, 0
        self.dev_loss_on, self.dev_loss_off = on, off
        better = self.best_dev_loss is None or on < self.best_dev_loss
        if better:
            self.best_dev_loss, self.best_step = on, self.step
            self.best_train_loss, self.best_dev_loss_off = self.train_loss, off
        return better


class CurveFile:
    """The learning curve as CSV, one line at a time; writing row i again drops what came after it
    (a resumed run).
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def check(self, progress: Progress) -> None:
        """TrainingError if the rows are not those that a snapshot counts."""
        rows = progress.curve_rows
        if rows and _digest(self._lines()[: rows + 1]) != progress.curve_digest:
            raise TrainingError(
                f"{self.path} is not as the checkpoint of step {progress.step} left it, with {rows}"
                f" rows: delete {self.path.parent} to train again"
            )

    def _lines(self) -> list[str]:
        header = ",".join(CURVE_COLUMNS) + "\n"
        return (
            self.path.read_text(encoding="utf-8").splitlines(keepends=True)
            if self.path.exists()
            else [header]
        )

    def write_row(self, index: int, row: CurveRow) -> str:
        """Append ``row`` as row ``index`` (0-based, the header not counted); the digest of all."""
        lines = self._lines()
        if len(lines) != index + 1 or index == 0:
            write_text(self.path, "".join(lines[: index + 1]))
        with self.path.open("a", encoding="utf-8", newline="") as file:
            csv.DictWriter(file, CURVE_COLUMNS, lineterminator="\n").writerow(row)
            file.flush()
            os.fsync(file.fileno())  # a checkpoint that counts the row must not outlive it
        return _digest(self._lines())


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("".join(lines).encode()).hexdigest()
