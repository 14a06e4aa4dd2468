"""What every step of a study left behind, in one typed structure: the only input of tables, figures
and page.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from entity_transformers.report.spans import Example

NAMES = {
    "gpt2": "GPT2",
    "gpt2e": "GPT2E",
    "gpt2e-unlabelled": "GPT2E unlabelled",
    "gpt2e-shuffled": "GPT2E shuffled",
    "gpt2e-first-only": "GPT2E first-only",
    "gpt2-matched": "GPT2 parameter-matched",
}
CONTROLS = ("gpt2e-unlabelled", "gpt2e-shuffled", "gpt2-matched")
CURVE_COLUMNS = ("step", "tokens", "train_loss", "learning_rate", "dev_loss_on", "dev_loss_off")


@dataclass(frozen=True, slots=True)
class Statistic:
    """Mean and sample standard deviation over ``n`` seeds; ``std`` is None for fewer than two, both
    are None for none.
    """

    mean: float | None
    std: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Documents:
    """documents.csv of one model and seed, one entry a document: split, name, predicted tokens,
    nats by condition.

    The conditions are entities on, off and, where it was scored, ids shuffled among the mentions.
    passages.csv of LAMBADA has the same form, an entry a passage with its last word as the one
    "token".
    """

    split: np.ndarray
    document: np.ndarray
    tokens: np.ndarray
    nll_on: np.ndarray
    nll_off: np.ndarray
    nll_shuffled: np.ndarray | None = None


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


@dataclass(frozen=True, slots=True)
class MentionVectors:
    """Vectors [mentions, width] of mentions and the number of the entity that each refers to
    [mentions].
    """

    vectors: np.ndarray
    entities: np.ndarray


@dataclass(frozen=True, slots=True)
class Run:
    """The metrics of one model and seed, as their files hold them; what was not measured is None."""

    model: str
    seed: int
    training: Mapping[str, Any] | None = None
    timing: Mapping[str, Any] | None = None
    curve: Mapping[str, np.ndarray] = field(default_factory=dict)
    perplexity: Mapping[str, Any] | None = None
    documents: Documents | None = None
    lambada: Mapping[str, Any] | None = None
    passages: Documents | None = None
    similarity: Mapping[str, Any] | None = None
    probe: Mapping[str, Any] | None = None
    probe_heads: tuple[ProbeRow, ...] = ()
    probe_documents: tuple[ProbeRow, ...] = ()
    ner: Mapping[str, Any] | None = None
    ner_spans: Spans | None = None
    mentions: MentionVectors | None = None


Value = Callable[[Run], float | None]


@dataclass(frozen=True, slots=True)
class Results:
    """A whole study.

    runs          what exists of models x seeds
    statistics, alignment, lambada_passages    of statistics.json, alignment.json, lambada.jsonl
                                               (rows)
    lambada_tags  of lambada_tags.json: the target words' parts of speech
    recall       accuracy.json of every variant and seed of synthetic recall
    entity_names  a name for each entity number of the mention vectors
    anomalies       what each candidate of step anomalies measured, by its name
    manifest      where the numbers come from: params, commit, versions, device, in any order
    """

    title: str
    models: tuple[str, ...]
    seeds: tuple[int, ...]
    runs: tuple[Run, ...]
    statistics: Mapping[str, Any] | None = None
    alignment: Mapping[str, Any] | None = None
    lambada_passages: int | None = None
    lambada_tags: Mapping[str, Any] | None = None
    recall: Sequence[Mapping[str, Any]] = ()
    entity_names: Sequence[str] = ()
    example: Example | None = None
    anomalies: Mapping[str, Any] = field(default_factory=dict)
    manifest: Mapping[str, Any] = field(default_factory=dict)
    pictured_entities: int = 8
    bootstrap_samples: int = 10_000

    def of(self, model: str) -> tuple[Run, ...]:
        """The runs of one model in the order of the seeds; empty if it was not trained."""
        return tuple(
            run
            for seed in self.seeds
            for run in self.runs
            if run.model == model and run.seed == seed
        )

    @property
    def trained(self) -> tuple[str, ...]:
        """Models that have at least one run, in the study's order."""
        return tuple(model for model in self.models if self.of(model))

    @property
    def pair(self) -> tuple[str, ...]:
        """The models that the paper compares, GPT2E before GPT2 as in its tables; the first two
        trained where neither exists.
        """
        paper = tuple(model for model in ("gpt2e", "gpt2") if model in self.trained)
        return paper or self.trained[:2]

    def statistic(self, model: str, value: Value) -> Statistic:
        """Mean and standard deviation over the seeds for which ``value`` gives a number (missing
        keys and None give none).
        """
        return summarise(attempt(value, run) for run in self.of(model))


def summarise(values: Iterable[float | None]) -> Statistic:
    """Mean and sample standard deviation (n - 1) of the values that are numbers."""
    numbers = [value for value in values if value is not None]
    if not numbers:
        return Statistic(None, None, 0)
    return Statistic(
        float(np.mean(numbers)),
        float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None,
        len(numbers),
    )


def attempt(value: Value, run: Run) -> float | None:
    """``value(run)``, None where a section or key of the metrics is missing."""
    try:
        number = value(run)
    except (KeyError, TypeError):
        return None
    return None if number is None or not math.isfinite(number) else float(number)


def name_model(model: str) -> str:
    """The name a model has in tables and figures."""
    return NAMES.get(model, model)


def uses_entities(model: str) -> bool:
    """Does entity attention exist in this model, so that entities on and off can differ?"""
    return model.startswith("gpt2e")


def exp(loss: float | None) -> float | None:
    """Perplexity of a loss in nats; None stays None."""
    return None if loss is None else math.exp(loss)


def read_loss(split: str, condition: str, key: str = "loss") -> Value:
    """A score of a whole split; condition "on" or "off"."""
    return lambda run: run.perplexity["splits"][split][condition][key]  # type: ignore[index]


def read_class(
    split: str, name: str, condition: str, key: str = "loss", by: str = "by_class"
) -> Value:
    """A score of the tokens of one class (outside, first, later) or, ``by`` "by_group", of one part
    of speech.
    """
    return lambda run: run.perplexity["splits"][split][by][name][condition][key]  # type: ignore[index]


def read_similarity(group: str, context: str, condition: str, measure: str) -> Value:
    """A number of table 4; context "words" (none) or "context"."""
    return lambda run: run.similarity["groups"][group][context][condition][measure]  # type: ignore[index]


def read_ner(*keys: str) -> Value:
    """A number of the NER scores on the test split; precision, recall and F1 are none where no span
    was there or was predicted.
    """

    def read(run: Run) -> float | None:
        scores: Any = run.ner["test"]  # type: ignore[index]
        for key in keys[:-1]:
            scores = scores[key]
        nothing = keys[-1] != "support" and not (scores["support"] or scores["predicted"])
        return None if nothing else scores[keys[-1]]

    return read


def take_mentions(arrays: Mapping[str, np.ndarray], key: str = "context_on") -> MentionVectors:
    """The vectors to picture out of the arrays of mentions.safetensors: head words in their
    document, entities given.
    """
    return MentionVectors(arrays[key], arrays["entity"])


def parse_curve(text: str, source: str = "curve.csv") -> dict[str, np.ndarray]:
    """Columns of a training curve as float64 arrays, empty cells as NaN. Missing columns raise
    ValueError naming ``source``.
    """
    rows = list(csv.DictReader(io.StringIO(text)))
    _require(rows, CURVE_COLUMNS, source)
    return {
        name: np.array([float(row[name]) if row[name] else math.nan for row in rows])
        for name in CURVE_COLUMNS
    }


def parse_documents(text: str, source: str = "documents.csv") -> Documents:
    """Scores per document of documents.csv or passages.csv. Missing columns raise ValueError naming
    ``source``.
    """
    rows = list(csv.DictReader(io.StringIO(text)))
    _require(rows, ("split", "document", "tokens", "nll_on", "nll_off"), source)
    return Documents(
        split=np.array([row["split"] for row in rows]),
        document=np.array([row["document"] for row in rows]),
        tokens=np.array([int(row["tokens"]) for row in rows], dtype=np.int64),
        nll_on=np.array([float(row["nll_on"]) for row in rows]),
        nll_off=np.array([float(row["nll_off"]) for row in rows]),
        nll_shuffled=(
            np.array([float(row["nll_shuffled"]) for row in rows])
            if rows and "nll_shuffled" in rows[0]
            else None
        ),
    )


def parse_spans(text: str, source: str = "documents.csv") -> Spans:
    """The tagger's spans on the test split, document by document. Missing columns raise ValueError
    naming ``source``.
    """
    rows = list(csv.DictReader(io.StringIO(text)))
    _require(rows, ("split", "document", "correct", "predicted", "gold"), source)
    test = [row for row in rows if row["split"] == "test"]
    counts = [[int(row[name]) for name in ("correct", "predicted", "gold")] for row in test]
    return Spans([row["document"] for row in test], np.array(counts, np.int64).reshape(-1, 3))


def parse_probe(text: str, source: str) -> tuple[ProbeRow, ...]:
    """Rows of the probe's heads.csv or documents.csv. Missing columns raise ValueError naming
    ``source``.
    """
    rows = list(csv.DictReader(io.StringIO(text)))
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


def _require(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], source: str) -> None:
    missing = [name for name in columns if rows and name not in rows[0]]
    if missing:
        raise ValueError(
            f"{source}: no column {', '.join(missing)}; expected {','.join(columns)}: run the step"
            " that writes it again"
        )
