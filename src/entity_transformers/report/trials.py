"""The numbers of the anomalies that short trainings try."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from entity_transformers.report.frame import Key, Row, read_condition, write_condition
from entity_transformers.report.measures import Tree
from entity_transformers.report.results import Results

UNITS = {
    "loss": "nats per token",
    "running_loss": "nats per token",
    "held_out_loss": "nats per token",
    "context_gain": "nats per token",
    "unigram_entropy": "nats per token",
    "text_share": "fraction",
    "mean_length": "tokens",
    "documents": "documents",
    "passes": "passes",
    "steps": "steps",
    "window": "tokens",
}
STEP = "anomalies"
TRIED = ("padding", "validation-trains", "validation-seen", "literal-block")
UNITS_OF_TEXT = ("documents", "sentences")
_COUNTED = {"padded": "all", "real": "text", "pad": "padding"}


def measure(tree: Tree) -> Iterator[Row]:
    """anomalies.json, a part per candidate. ``counted`` says which predictions a loss is of,
    ``pass`` after how many passes; models are entries of anomalies.models.
    """
    for anomaly, found in (tree.read(f"{STEP}/anomalies.json") or {}).get("candidates", {}).items():
        seed = found["settings"]["seed"]
        for name, value in found["settings"].items():
            if name in UNITS:
                yield _row(seed, name, value, anomaly=anomaly)
        yield from _MEASURES[anomaly](found, anomaly, seed)


def _row(
    seed: int, measured: str, value: float | None, split: str = "", model: str = "", **about: Any
) -> Row:
    return Row(STEP, measured, value, split, write_condition(**about), None, model, seed)


def _measure_padding(found: Mapping[str, Any], anomaly: str, seed: int) -> Iterator[Row]:
    for unit in UNITS_OF_TEXT:
        one, about = found[unit], {"anomaly": anomaly, "unit": unit}
        for split in ("train", "dev"):
            for name, counted in _COUNTED.items():
                yield _row(seed, "loss", one[split][name], split, **about, counted=counted)
            yield _row(seed, "text_share", one[split]["real_share"], split, **about)
        for window, share in one["real_share"].items():
            yield _row(seed, "text_share", share, **about, window=window)
        yield _row(seed, "mean_length", one["mean_length"], **about)
        yield _row(seed, "running_loss", one["train_running"], "train", **about)


def _measure_passes(found: Mapping[str, Any], anomaly: str, seed: int) -> Iterator[Row]:
    for name, (measured, split) in _BEFORE.items():
        if name in found:
            yield _row(seed, measured, found[name], split, anomaly=anomaly)
    for one in found["passes"]:
        for split in ("train", "dev"):
            value = one[f"{split}_loss"]
            yield _row(seed, "loss", value, split, anomaly=anomaly, pass_=one["number"])


_BEFORE = {
    "train_loss": ("loss", "train"),
    "dev_loss": ("loss", "dev"),
    "held_out": ("held_out_loss", "dev"),
}


def _measure_literal(found: Mapping[str, Any], anomaly: str, seed: int) -> Iterator[Row]:
    yield _row(seed, "unigram_entropy", found["unigram_entropy"], "dev", anomaly=anomaly)
    for model, one in found["models"].items():
        for split in ("train", "dev"):
            yield _row(seed, "loss", one[f"{split}_loss"], split, model, anomaly=anomaly)
        yield _row(seed, "context_gain", one["context_gain"], "dev", model, anomaly=anomaly)


_MEASURES = {
    "padding": _measure_padding,
    "validation-trains": _measure_passes,
    "validation-seen": _measure_passes,
    "literal-block": _measure_literal,
}


class Trial:
    """The numbers of one candidate, as its training left them."""

    def __init__(self, results: Results, anomaly: str) -> None:
        """``anomaly`` is one of `TRIED`."""
        self.rows = {
            (row.model, row.key): row.value
            for row in results.frame.find(step=STEP)
            if f"anomaly={anomaly}" in row.condition.split("/")
        }
        self.anomaly = anomaly

    def get(self, measured: str, split: str = "", model: str = "", **about: Any) -> float | None:
        """One number; None where it was not measured."""
        condition = write_condition(anomaly=self.anomaly, **about)
        return self.rows.get((model, Key(STEP, measured, split, condition)))

    def take(self, measured: str, split: str = "", model: str = "", **about: Any) -> float:
        """One number that has to be there."""
        value = self.get(measured, split, model, **about)
        if value is None:
            asked = write_condition(anomaly=self.anomaly, **about)
            raise ValueError(
                f"measures.csv: no {measured} of step {STEP}, split {split!r}, condition {asked}:"
                " run the step again"
            )
        return value

    @property
    def there(self) -> bool:
        """Was it tried?"""
        return bool(self.rows)

    @property
    def passes(self) -> list[Pass]:
        """The passes over the text, in order."""
        numbers = {read_condition(key.condition).get("pass") for _, key in self.rows}
        return [
            Pass(n, self.take("loss", "train", pass_=n), self.take("loss", "dev", pass_=n))
            for n in sorted(int(number) for number in numbers if number is not None)
        ]

    @property
    def windows(self) -> list[str]:
        """The windows that padding was counted for, the shortest first."""
        found = {read_condition(key.condition).get("window") for _, key in self.rows}
        return sorted((window for window in found if window is not None), key=int)


class Pass(NamedTuple):
    """The losses after a pass over the text, in nats per token."""

    number: int
    train: float
    dev: float
