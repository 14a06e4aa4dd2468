"""Perplexity on the corpus: table 2, the controls, and perplexity by class of the token."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import lm, paper
from entity_transformers.report.cells import MISSING, Cell, Number, Table, show
from entity_transformers.report.differences import (
    LEVEL,
    Difference,
    compare,
    pair_seeds,
)
from entity_transformers.report.frame import Key, Row, read_condition, write_condition
from entity_transformers.report.measures import Tree
from entity_transformers.report.results import (
    TRAIN_LOSS,
    Results,
    Statistic,
    has_entities,
    write_minus,
    write_pair,
    write_scored,
)

UNITS = {
    "loss": "nats per token",
    "nll": "nats",
    "perplexity": "perplexity per token",
    "perplexity_word": "perplexity per word",
    "bits_per_byte": "bits per byte",
    "documents": "documents",
    "words": "words",
    "bytes": "bytes",
}
STEP = "perplexity"
PROCESSES = {"train": "Training", "dev": "Validation", "test": "Test", "test2": "Test 2"}
CLASSES = {"outside": "outside mentions", "first": "first mention", "later": "later mention"}
CONDITIONS = ("on", "off", "shuffled")
PARTS = {"by_class": "class", "by_group": "group", "by_distance": "distance"}


def measure(tree: Tree) -> Iterator[Row]:
    """perplexity.json of every run: each split as a whole, then its parts by class, part of speech
    and distance; entities on, off and shuffled are what the model was given.
    """
    for model, seed, found in tree.each(STEP, "perplexity.json"):
        run: dict[str, Any] = {"model": model, "seed": seed}
        for split, scores in found["splits"].items():
            for name, score in scores.items():
                if name in PARTS:
                    for part, given in score.items():
                        for entities, one in given.items():
                            about = {"entities": entities, PARTS[name]: part}
                            yield from _measure_score(one, split, about, run)
                elif isinstance(score, Mapping):
                    yield from _measure_score(score, split, {"entities": name}, run)
                else:
                    yield Row(STEP, name, score, split, **run)


def _measure_score(
    score: Mapping[str, Any], split: str, about: Mapping[str, str], run: Mapping[str, Any]
) -> Iterator[Row]:
    for name, value in score.items():
        if name != "tokens":
            yield Row(STEP, name, value, split, write_condition(**about), score["tokens"], **run)


def at(split: str, entities: str, measure: str = "loss", **part: str) -> Key:
    """A score of a split, or of its part (class, group or distance), with these entities given."""
    return Key(STEP, measure, split, write_condition(entities=entities, **part))


def scored_splits(results: Results) -> tuple[str, ...]:
    """Splits that some model was scored on, in the order dev, test, test2, then others."""
    found = results.frame.distinct("split", step=STEP)
    order = tuple(PROCESSES)
    return tuple(sorted(found, key=lambda s: (order.index(s) if s in order else len(order), s)))


def class_split(results: Results) -> str | None:
    """The split that is looked at by class: test, else the first that was scored."""
    splits = scored_splits(results)
    return next((split for split in ("test", *splits) if split in splits), None)


def build_table2(results: Results) -> Table:
    """Table 2: loss, perplexity and seconds per step of every model, entities on and off, with the
    paper's numbers; then the differences.
    """
    rows = [_training_row(results, model) for model in results.measured(lm.STEP)]
    pair = results.proposed, results.baseline
    for split in scored_splits(results):
        for model in results.measured(STEP):
            rows += [
                _scored_row(results, split, model, entities)
                for entities in _conditions(results, model, split)
            ]
        difference = compare(results, split, pair[0], "on", pair[1], "off")
        rows += [_difference_row(difference, split)] if difference else []
    return Table(
        name="table2",
        title="Table 2: loss and perplexity on the corpus",
        columns=("Process", "Model", "Entities", *_TABLE2_COLUMNS),
        rows=tuple(rows),
        measures=(
            "How well each model predicts the text it was trained on (training) and text it never"
            " saw (validation, test); PPL and loss (nats) are per token."
        ),
        note=(
            "Training is the mean over the validation interval that ends at the weights scored"
            " here, dropout on; elsewhere each token is counted once. A difference row is"
            f" {write_minus(results)} with the {LEVEL:.0%} interval of a paired bootstrap over"
            " documents. Time is in seconds: the median of a training step, and the scoring of as"
            f" many tokens in validation.{lm.explain_missing(results)}"
        ),
        paper_note=(
            "The paper's two time columns look swapped: its text says that GPT2E is 0.008 s per"
            " step slower. Its validation loss of 0.187 beside a training loss of 1.71 cannot be a"
            " held-out loss. The per-word perplexities that it compares itself with"
            f" ({', '.join(f'{name} {ppl:g}' for name, ppl in paper.WORD_PERPLEXITIES.items())})"
            " are over 10,000-word vocabularies with an unknown word, and it does not say whether"
            " decisions were given: they are not comparable with ours."
        ),
    )


_TABLE2_COLUMNS = (
    "PPL",
    "Paper PPL",
    "Loss",
    "Paper loss",
    "Time per step",
    "Paper time",
    "PPL per word",
    "Bits per byte",
)
_TIMES = {"train": "seconds_per_step", "dev": "seconds_validation_step"}


def _conditions(results: Results, model: ModelEntry, split: str) -> tuple[str, ...]:
    """What of entities on, off and shuffled a model was scored with; it has one row if it reads
    none.
    """
    possible = CONDITIONS if has_entities(model) else ("off",)
    return tuple(given for given in possible if results.has(model, at(split, given)))


def _training_row(results: Results, model: ModelEntry) -> tuple[Cell, ...]:
    return _table2_row(
        results,
        "train",
        model,
        "on",
        results.statistic(model, TRAIN_LOSS),
        results.statistic(model, TRAIN_LOSS, math.exp),
    )


def _scored_row(results: Results, split: str, model: ModelEntry, entities: str) -> tuple[Cell, ...]:
    loss = at(split, entities)
    return _table2_row(
        results,
        split,
        model,
        entities,
        results.statistic(model, loss),
        results.statistic(model, loss, math.exp),
    )


def _table2_row(
    results: Results,
    split: str,
    model: ModelEntry,
    entities: str,
    loss: Statistic,
    perplexity: Statistic,
) -> tuple[Cell, ...]:
    main = entities == "on" or not has_entities(model)
    timed = main and split in _TIMES
    seconds = lm.read_timing(results, model, _TIMES[split]) if timed else Statistic(None, None, 0)
    printed = paper.TABLE2.get((results.printed(model), split)) if main else None
    ours = (show(perplexity), show(loss, 4), show(seconds, 3))
    theirs: tuple[Cell, ...] = (MISSING,) * 3
    if printed:
        theirs = (Number(printed.perplexity), Number(printed.loss, 3), Number(printed.seconds, 3))
    return (
        PROCESSES.get(split, split),
        write_scored(model),
        write_entities(model, entities),
        *(cell for pair in zip(ours, theirs, strict=True) for cell in pair),
        show(results.statistic(model, at(split, entities, "perplexity_word"))),
        show(results.statistic(model, at(split, entities, "bits_per_byte")), 4),
    )


def write_entities(model: ModelEntry, entities: str) -> str:
    """Which entities a model was given; a dash for one that reads none."""
    return entities if has_entities(model) else MISSING


def _difference_row(difference: Difference, split: str) -> tuple[Cell, ...]:
    ours, dashes = (MISSING, MISSING, difference.cell), (MISSING,) * 5
    name = write_pair(difference.model, difference.against)
    return (PROCESSES.get(split, split), name, "on", *ours, *dashes)


def build_classes(results: Results) -> Table:
    """Perplexity of the tokens outside mentions, in first and in later mentions, and by part of
    speech, entities on and off.
    """
    split = class_split(results) or "test"
    found = [
        read_condition(condition)
        for condition in results.frame.distinct("condition", step=STEP, split=split)
    ]
    conditions = [
        c for c in CONDITIONS if any("class" in part and part["entities"] == c for part in found)
    ]
    rows = [
        _class_row(results, split, model, part, label, conditions)
        for part, label in _parts(found)
        if has_mentions(results, split) or "class" not in part
        for model in results.measured(STEP)
        if _count(results, split, model, part)
    ]
    return Table(
        name="perplexity_by_class",
        title=f"Perplexity by class of the predicted token ({split})",
        columns=(
            "Predicted token",
            "Model",
            "Tokens",
            *(f"PPL {condition}" for condition in conditions),
            "Loss on − off",
        ),
        rows=tuple(rows),
        measures=(
            "Where knowing entities could help: tokens outside mentions, in the first mention of an"
            " entity, in a later mention."
        ),
        note=(
            "A gold label on a first mention tells that the entity will come back, and later"
            " mentions are read with labels that a reader would have to find: compare entities off,"
            " and the controls, before crediting the memory."
        ),
    )


def has_mentions(results: Results, split: str) -> bool:
    """Has the split gold mentions? Else every token of it would be outside of them."""
    parts = ({"class": name} for name in CLASSES if name != "outside")
    return any(
        _count(results, split, model, part) for part in parts for model in results.measured(STEP)
    )


def _count(results: Results, split: str, model: ModelEntry, part: dict[str, str]) -> int:
    """The tokens of a part that a model was scored on."""
    keys = (at(split, entities, "loss", **part) for entities in ("on", "off"))
    return int(max(results.count(model, key) or 0 for key in keys))


def _parts(found: list[dict[str, str]]) -> list[tuple[dict[str, str], str]]:
    """What a split is divided into, and how it is called; classes, groups, distances."""
    groups = {part["group"] for part in found if "group" in part}
    distances = {part["distance"] for part in found if "distance" in part}
    rows = [({"class": name}, label) for name, label in CLASSES.items()] if found else []
    rows += [
        ({"group": name}, name)
        for name in sorted(groups, key=lambda name: (name in ("other", "unknown"), name))
    ]
    return rows + [
        ({"distance": name}, f"{name} tokens after a mention")
        for name in sorted(distances, key=lambda name: int(re.split(r"\D", name)[0]))
    ]


def _class_row(
    results: Results,
    split: str,
    model: ModelEntry,
    part: dict[str, str],
    label: str,
    conditions: list[str],
) -> tuple[Cell, ...]:
    shown = (
        show(results.statistic(model, at(split, entities, "perplexity", **part)))
        for entities in conditions
    )
    on, off = (at(split, entities, "loss", **part) for entities in ("on", "off"))
    gap = pair_seeds(results, (model, on), (model, off)) if has_entities(model) else []
    difference: Cell = Number(math.fsum(gap) / len(gap), 4, signed=True) if gap else MISSING
    tokens = Number(_count(results, split, model, part), 0)
    return (label, write_scored(model), tokens, *shown, difference)
