"""The learning curve while a model trains: as CSV, and for TensorBoard."""

from __future__ import annotations

import csv
import importlib.util
import os
from pathlib import Path

from entity_transformers.artifacts import write_text
from entity_transformers.train.progress import CURVE_COLUMNS, CurveRow


class CurveFile:
    """The learning curve as CSV, one line at a time; writing row i again drops what came after it
    (a resumed run).
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[CurveRow]:
        """The rows so far; cells are text."""
        return list(csv.DictReader(self._lines()))

    def _lines(self) -> list[str]:
        header = ",".join(CURVE_COLUMNS) + "\n"
        return (
            self.path.read_text(encoding="utf-8").splitlines(keepends=True)
            if self.path.exists()
            else [header]
        )

    def write_row(self, index: int, row: CurveRow) -> None:
        """Append ``row`` as row ``index`` (0-based, the header not counted)."""
        lines = self._lines()
        if len(lines) != index + 1 or index == 0:
            write_text(self.path, "".join(lines[: index + 1]))
        with self.path.open("a", encoding="utf-8", newline="") as file:
            csv.DictWriter(file, CURVE_COLUMNS, lineterminator="\n").writerow(row)
            file.flush()
            os.fsync(file.fileno())  # a checkpoint that counts the row must not outlive it


class Board:
    """The curve in ``folder`` as TensorBoard's scalars. Each one that is opened draws the curve
    anew: what is there counts no more.

    Without the package tensorboard: ValueError.
    """

    def __init__(self, folder: Path) -> None:
        if importlib.util.find_spec("tensorboard") is None:
            raise ValueError(
                "--tensorboard needs the package tensorboard: pip install '.[tensorboard]' in the"
                " checkout, or leave it out"
            )
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder), purge_step=0)

    def add(self, row: CurveRow) -> None:
        """One more row of the curve; empty cells are left out."""
        for column in CURVE_COLUMNS[1:]:
            if row[column] != "":
                self._writer.add_scalar(f"lm/{column}", float(row[column]), int(row["step"]))
        self._writer.flush()


def show(board: Board | None, rows: list[CurveRow]) -> None:
    if board is not None:
        for row in rows:
            board.add(row)
