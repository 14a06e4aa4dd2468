"""Named entity recognition (table 5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import paper
from entity_transformers.report.cells import MISSING, Cell, Number, Table, show
from entity_transformers.report.differences import compare_spans
from entity_transformers.report.frame import Key, Row, read_condition, write_condition
from entity_transformers.report.measures import Tree
from entity_transformers.report.results import (
    Results,
    Statistic,
    summarise,
    write_label,
    write_pair,
)

SCORES = {"f1": "F1", "precision": "P", "recall": "R"}
LEVELS = ("span", "tag")
UNITS = {
    **{f"{level}_{score}": "fraction" for level in LEVELS for score in SCORES},
    "span_predicted": "spans",
    "tag_predicted": "tags",
    "epochs": "epochs",
    "best_epoch": "epochs",
    "sentences": "sentences",
    "sentences_left_out": "sentences",
    "words": "words",
    "layer_weight": "fraction",
    "layers_gamma": "ratio",
}
STEP = "ner"
MICRO, MACRO = write_condition(average="micro"), write_condition(average="macro")


def measure(tree: Tree) -> Iterator[Row]:
    """metrics.json of every run: dev and test, by span and by tag, over all types (average), by
    type (label) and by B- and I- row. What was found stands as count, what was predicted as a
    measure of its own.
    """
    for model, seed, found in tree.each(STEP, "metrics.json"):
        run: dict[str, Any] = {"model": model, "seed": seed}
        for name in ("epochs", "best_epoch"):
            yield Row(STEP, name, found[name], **run)
        if "train_sentences" in found:
            yield Row(STEP, "sentences", found["train_sentences"], "train", **run)
        for split, count in found.get("sentences_left_out", {}).items():
            yield Row(STEP, "sentences_left_out", count, split, **run)
        if "layers" in found:
            yield Row(STEP, "layers_gamma", found["layers"]["gamma"], **run)
            for layer, weight in enumerate(found["layers"]["weights"]):
                condition = write_condition(layer=layer)
                yield Row(STEP, "layer_weight", weight, condition=condition, **run)
        for split in ("dev", "test"):
            for name, scores in found[split].items():
                if name not in LEVELS:
                    yield Row(STEP, name, scores, split, **run)
                    continue
                for part, score in scores.items():
                    yield from _measure_part(name, part, score, {"split": split, **run})


def _measure_part(
    level: str, part: str, score: Mapping[str, Any], run: Mapping[str, Any]
) -> Iterator[Row]:
    key = {"labels": "label", "rows": "row"}.get(part)
    several = score.items() if key else [(part, score)]
    for name, one in several:
        condition = write_condition(**{key or "average": name})
        for measured, value in one.items():
            if measured != "support":
                count = one["support"]
                yield Row(
                    STEP, f"{level}_{measured}", value, condition=condition, count=count, **run
                )


def read_scores(results: Results, model: ModelEntry | None, key: Key) -> dict[int, float]:
    """F1, precision or recall on test by seed; none where no span was there or predicted."""
    if model is None:
        return {}
    predicted = Key(STEP, f"{key.measure.partition('_')[0]}_predicted", key.split, key.condition)
    known: dict[int, float] = {}
    for seed, value in results.by_seed(model, key).items():
        row = results.frame.get(predicted, model.name, seed)
        if row is not None and (row.count or row.value):
            known[seed] = value
    return known


def average(results: Results, model: ModelEntry | None, key: Key) -> Statistic:
    """Mean and deviation of `read_scores`."""
    return summarise(read_scores(results, model, key).values())


def at(level: str, score: str, condition: str = MICRO) -> Key:
    """A score on test."""
    return Key(STEP, f"{level}_{score}", "test", condition)


F1 = at("span", "f1")


def build_table5(results: Results) -> Table:
    """Table 5 by spans: a named entity counts when both its borders and its type are right
    (seqeval, strict IOB2).
    """
    return _build(
        results,
        "span",
        name="table5",
        title="Table 5: named entity recognition, strict spans",
        measures=(
            "What a BiLSTM-CRF finds when all it reads are the language model's word vectors; %,"
            " test split."
        ),
    )


def build_table5_tags(results: Results) -> Table:
    """Table 5 by tags: each type is the mean of its B- and I- rows."""
    return _build(
        results,
        "tag",
        name="table5_tags",
        title="Table 5, by tags: means of the B- and I- rows",
        measures="The same taggers scored word by word; %, test split.",
        paper_note=(
            "The paper's rows are multiples of 0.5 whose P, R and F1 do not agree with each other,"
            " as means of two rows would be."
        ),
    )


def _build(
    results: Results, level: str, *, name: str, title: str, measures: str, paper_note: str = ""
) -> Table:
    labels = list_labels(results, level)
    # the paper prints GPT2 first here
    models = tuple(m for m in results.pair[::-1] if m in results.measured(STEP))
    headings = [
        f"{prefix}{write_label(model)} {score}"
        for model in models
        for prefix in ("", "Paper ")
        for score in SCORES.values()
    ]
    rows = [_row(results, models, label, level, write_condition(label=label)) for label in labels]
    rows += [_row(results, models, paper.OVERALL, level, MICRO)] if models else []
    stressed = {*map(str.casefold, paper.TABLE5_LABELS), paper.OVERALL.casefold()}
    return Table(
        name=name,
        title=title,
        columns=("Label", "Support", *headings),
        rows=tuple(rows),
        measures=measures,
        paper_note=f"{paper_note} {_label_note(labels)}".strip(),
        marked=frozenset(i for i, row in enumerate(rows) if str(row[0]).casefold() in stressed),
    )


def list_labels(results: Results, level: str) -> list[str]:
    """The paper's five labels first, then the others in alphabetical order."""
    rows = results.frame.find(step=STEP, split="test", measure=f"{level}_f1")
    parts = (read_condition(row.condition) for row in rows)
    found = {part["label"] for part in parts if "label" in part}
    five = [
        label
        for printed in paper.TABLE5_LABELS
        for label in sorted(found)
        if label.casefold() == printed.casefold()
    ]
    return five + sorted(found - set(five))


def _label_note(labels: list[str]) -> str:
    if set(labels) <= paper.ONTONOTES_LABELS:
        return "The paper prints five labels and the overall score (stressed)."
    return (
        "This corpus has other entity types than the paper's 18; where a name is the same"
        " (stressed) the paper's numbers stand beside it, but the definitions differ."
    )


def _row(
    results: Results, models: tuple[ModelEntry, ...], label: str, level: str, condition: str
) -> tuple[Cell, ...]:
    support = (results.count(model, at(level, "f1", condition)) or 0 for model in models)
    cells: list[Cell] = []
    for model in models:
        cells += [
            show(average(results, model, at(level, score, condition)), 1, percent=True)
            for score in SCORES
        ]
        printed = paper.TABLE5.get(
            (results.printed(model), label if label == paper.OVERALL else label.upper())
        )
        cells += [
            Number(getattr(printed, score) if printed else None, 1, percent=True)
            for score in SCORES
        ]
    return (label, Number(max(support, default=0), 0), *cells)


def build_ner_overall(results: Results) -> Table:
    """Every model's overall NER scores, spans and tags, micro and macro."""
    shown = (
        ("Span micro", "span", MICRO),
        ("Span macro", "span", MACRO),
        ("Tag micro", "tag", MICRO),
    )
    headings = [f"{label} {score}" for label, _, _ in shown for score in SCORES.values()]

    def row(model: ModelEntry) -> tuple[Cell, ...]:
        scores = (
            show(average(results, model, at(level, score, condition)), 1, percent=True)
            for _, level, condition in shown
            for score in SCORES
        )
        printed = paper.TABLE5.get((results.printed(model), paper.OVERALL))
        f1 = Number(printed.f1 if printed else None, 1, percent=True)
        return (write_label(model), f1, *scores)

    rows = [row(model) for model in results.measured(STEP)]
    ours, theirs = results.proposed, results.baseline
    found = compare_spans(results, ours, theirs)
    if ours and theirs and found is not None and found["difference"] is not None:
        low, high = found["interval"] or (None, None)
        difference = Number(found["difference"], 1, percent=True, low=low, high=high, signed=True)
        dashes = (Number(None, 1) for _ in headings[1:])
        rows.append((write_pair(ours, theirs), MISSING, difference, *dashes))
    return Table(
        name="ner_overall",
        title="Table 5, every model: overall scores",
        columns=("Model", "Paper F1", *headings),
        rows=tuple(rows),
        measures="Overall scores in %, test split: micro over all spans or tags, macro over types.",
        note=(
            "The difference is of span micro-F1, with the 95% interval of a paired bootstrap over"
            " documents, spans added up over seeds."
        ),
    )


def build_ner_layers(results: Results) -> Table:
    """What the taggers that mix a model's layers learnt of them."""
    gamma = Key(STEP, "layers_gamma")
    models = [model for model in results.measured(STEP) if results.has(model, gamma)]
    most = max((len(_list_layers(results, model)) for model in models), default=0)
    rows: list[tuple[Cell, ...]] = []
    for model in models:
        keys = [gamma, *_list_layers(results, model)]
        cells = [show(results.statistic(model, key), 3) for key in keys]
        dashes = [Number(None, 3)] * (most + 1 - len(cells))
        rows.append((write_label(model), *cells, *dashes))
    return Table(
        name="ner_layers",
        title="Table 5, taggers that mix layers: what each layer weighs",
        columns=("Model", "Scale", *(_name_layer(layer) for layer in range(most))),
        rows=tuple(rows),
        measures="Weights of a model's layers in its tagger, which add up to 1, and their scale.",
        note=(
            "A word's vector is the scale times the weighted sum of its layers (Peters et al. 2018,"
            " equation 1); both are learnt with the tagger, and begin equal and at 1."
        ),
    )


def _list_layers(results: Results, model: ModelEntry) -> list[Key]:
    """The weight of each layer of a model."""
    rows = results.frame.find(step=STEP, measure="layer_weight")
    layers = {read_condition(row.condition)["layer"] for row in rows if row.model == model.name}
    return [
        Key(STEP, "layer_weight", condition=write_condition(layer=layer))
        for layer in sorted(layers, key=int)
    ]


def _name_layer(layer: int) -> str:
    return f"Layer {layer}" if layer else "Token layer"
