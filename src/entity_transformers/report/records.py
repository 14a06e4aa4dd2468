"""The results that are more than scalars, each read from the CSV that its step wrote: curves,
scores by document and passage, spans, attention heads.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

CURVE_COLUMNS = ("step", "tokens", "train_loss", "learning_rate", "dev_loss_on", "dev_loss_off")
NLL = "nll_"
_AGAIN = "run the step that writes it again"


@dataclass(frozen=True, slots=True)
class Documents:
    """documents.csv of one model and seed, one entry per document: split, name, predicted tokens,
    and nats [D] by condition (on, off, shuffled: which entities the model was given).

    passages.csv of LAMBADA has the same form, an entry per passage with its last word as the one
    "token".
    """

    split: np.ndarray
    document: np.ndarray
    tokens: np.ndarray
    nll: Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Spans:
    """documents.csv of the tagger on the test split: document names and int64 [D, 3] correct,
    predicted and gold spans.
    """

    document: list[str]
    counts: np.ndarray


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """One row of the probe's heads.csv (a head, layers and heads from 1) or documents.csv (a
    document, for the chosen head).

    ``where`` is the split or the document; ``scores`` are right answers: of the head (correct), of
    its mean weight at each distance (by_distance; may be missing) and, in documents.csv, of the
    baselines.
    """

    attention: str
    entities: str
    group: str
    layer: int
    head: int
    where: str
    n: int
    scores: Mapping[str, float]


def parse_curve(text: str, source: str = "curve.csv") -> dict[str, np.ndarray]:
    """Columns of curve.csv as float64 arrays, NaN where a cell is empty. Missing columns raise
    ValueError naming ``source``.
    """
    rows = _read(text, source)
    _require(rows, CURVE_COLUMNS, source)
    return {
        name: np.array([float(row[name]) if row[name] else math.nan for row in rows])
        for name in CURVE_COLUMNS
    }


def parse_documents(text: str, source: str = "documents.csv") -> Documents:
    """Scores per document of documents.csv or passages.csv. Missing columns raise ValueError naming
    ``source``.
    """
    rows = _read(text, source)
    _require(rows, ("split", "document", "tokens"), source)
    conditions = [name for name in (rows[0] if rows else ()) if name.startswith(NLL)]
    if rows and not conditions:
        _require(rows, (f"{NLL}off",), source)
    return Documents(
        split=np.array([row["split"] for row in rows]),
        document=np.array([row["document"] for row in rows]),
        tokens=np.array([int(row["tokens"]) for row in rows], dtype=np.int64),
        nll={
            name.removeprefix(NLL): np.array([float(row[name]) for row in rows])
            for name in conditions
        },
    )


def parse_spans(text: str, source: str = "documents.csv") -> Spans:
    """The tagger's spans on the test split, document by document. Missing columns raise ValueError
    naming ``source``.
    """
    rows = _read(text, source)
    _require(rows, ("split", "document", "correct", "predicted", "gold"), source)
    test = [row for row in rows if row["split"] == "test"]
    counts = [[int(row[name]) for name in ("correct", "predicted", "gold")] for row in test]
    return Spans([row["document"] for row in test], np.array(counts, np.int64).reshape(-1, 3))


def parse_probe(text: str, source: str) -> tuple[ProbeRow, ...]:
    """Rows of the probe's heads.csv or documents.csv. Missing columns raise ValueError naming
    ``source``.
    """
    rows = _read(text, source)
    where = "split" if rows and "split" in rows[0] else "document"
    labels = ("attention", "entities", "group", "layer", "head", where, "n")
    _require(rows, (*labels, "correct"), source)
    return tuple(_parse_probe_row(row, where, labels) for row in rows)


def _parse_probe_row(row: Mapping[str, str], where: str, labels: Sequence[str]) -> ProbeRow:
    scores = {name: float(value) for name, value in row.items() if name not in labels and value}
    numbers = int(row["layer"]), int(row["head"])
    return ProbeRow(
        row["attention"], row["entities"], row["group"], *numbers, row[where], int(row["n"]), scores
    )


def _read(text: str, source: str) -> list[dict[str, str]]:
    """The rows of a CSV file; one with a cut line raises ValueError with its number."""
    reader = csv.reader(io.StringIO(text))
    columns, rows = next(reader, []), []
    for cells in reader:
        if len(cells) != len(columns):
            raise ValueError(
                f"{source}, line {reader.line_num}: {len(cells)} cells, expected {len(columns)}:"
                f" {_AGAIN}"
            )
        rows.append(dict(zip(columns, cells, strict=True)))
    if not text.endswith("\n"):
        raise ValueError(f"{source}: cut in its last line: {_AGAIN}")
    return rows


def _require(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], source: str) -> None:
    missing = [name for name in columns if rows and name not in rows[0]]
    if missing:
        raise ValueError(
            f"{source}: no column {', '.join(missing)}; expected {','.join(columns)}: {_AGAIN}"
        )
