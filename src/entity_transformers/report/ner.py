"""Named entity recognition (table 5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import paper
from entity_transformers.report.frame import Key, at
from entity_transformers.report.pivot import (
    Axis,
    Line,
    Measure,
    Pivot,
    Place,
    key_of,
    list_models,
    models,
)
from entity_transformers.report.results import Results, Statistic, summarise, write_label
from entity_transformers.report.table import MISSING, Cell, Number

TITLE, STEP = "Named entities", "ner"
SCORES = {"f1": "F1", "precision": "P", "recall": "R"}
F1 = at(STEP, "span_f1", "test", average="micro")


def read_scores(results: Results, model: ModelEntry | None, key: Key) -> dict[int, float]:
    """F1, precision or recall on test by seed; none where no span was there or predicted."""
    if model is None:
        return {}
    level = key.measure.partition("_")[0]
    predicted = results.frame.runs(at(STEP, f"{level}_predicted", key.split, **dict(key.about)))
    cells = {seed: predicted.get((model.name, seed)) for seed in results.seeds}
    known = {seed for seed, cell in cells.items() if cell and (cell.count or cell.value)}
    return {s: value for s, value in results.by_seed(model, key).items() if s in known}


def average(results: Results, model: ModelEntry | None, key: Key) -> Statistic:
    """Mean and deviation of `read_scores`."""
    return summarise(read_scores(results, model, key).values())


def _average(results: Results, place: Place) -> Statistic:
    return average(results, place["model"], key_of(place))


def list_labels(results: Results, level: str) -> list[str]:
    """The paper's five labels first, then the others in alphabetical order."""
    there = results.frame.distinct("label", STEP, split="test", measure=f"{level}_f1")
    five = [
        label
        for printed in paper.TABLE5_LABELS
        for label in sorted(there)
        if label.casefold() == printed.casefold()
    ]
    return five + sorted(set(there) - set(five))


def _label_note(results: Results) -> str:
    if set(list_labels(results, "span")) <= paper.ONTONOTES_LABELS:
        return "The paper prints five labels and the overall score (stressed)."
    return (
        "This corpus has other entity types than the paper's 18; where a name is the same"
        " (stressed) the paper's numbers stand beside it, but the definitions differ."
    )


def _rows(results: Results, place: Place) -> Iterator[Line]:
    for label in list_labels(results, place["level"]):
        yield (label,), {"label": label}
    if list_models(results, {"step": STEP}, "pair"):
        yield (paper.OVERALL,), {"average": "micro"}


def _name(place: Place, case: str) -> str:
    return getattr(place["label"], case)() if "label" in place else paper.OVERALL


def _key(place: Place, score: str) -> Place:
    """The place of a score of a row's level."""
    rest = {name: value for name, value in place.items() if name != "level"}
    return {**rest, "measure": f"{place['level']}_{score}"}


def _columns(results: Results) -> Iterator[Measure]:
    """Support, then of each model its scores and the paper's; the paper prints GPT2 first here."""
    pair = list_models(results, {"step": STEP}, "pair")[::-1]

    def count(results: Results, place: Place) -> Cell:
        counts = (results.count(model, key_of(_key(place, "f1"))) or 0 for model in pair)
        return Number(max(counts, default=0), 0)

    def ours(model: ModelEntry, score: str) -> Measure:
        return Measure(
            f"{write_label(model)} {SCORES[score]}",
            digits=1,
            percent=True,
            read=lambda results, place: _average(results, {**_key(place, score), "model": model}),
        )

    def theirs(model: ModelEntry, score: str) -> Measure:
        def cell(results: Results, place: Place) -> Cell:
            printed = paper.TABLE5.get((results.printed(model), _name(place, "upper")))
            return Number(getattr(printed, score) if printed else None, 1, percent=True)

        return Measure(f"Paper {write_label(model)} {SCORES[score]}", cell=cell)

    yield Measure("Support", cell=count)
    for model in pair:
        yield from (ours(model, score) for score in SCORES)
        yield from (theirs(model, score) for score in SCORES)


STRESSED = {*map(str.casefold, paper.TABLE5_LABELS), paper.OVERALL.casefold()}
TABLE5 = Pivot(
    name="table5",
    title="Table 5: named entity recognition, strict spans",
    step=STEP,
    where={"split": "test", "level": "span"},
    rows=(Axis(("Label",), _rows),),
    columns=(_columns,),
    measures=(
        "What a BiLSTM-CRF finds when all it reads are the language model's word vectors; %, test"
        " split."
    ),
    paper_note=_label_note,
    marked=lambda results, place: _name(place, "casefold").casefold() in STRESSED,
)
BY_TAGS = replace(
    TABLE5,
    name="table5_tags",
    title="Table 5, by tags: means of the B- and I- rows",
    where={"split": "test", "level": "tag"},
    measures="The same taggers scored word by word; %, test split.",
    paper_note=lambda results: (
        "The paper's rows are multiples of 0.5 whose P, R and F1 do not agree with each other, as"
        f" means of two rows would be. {_label_note(results)}"
    ),
)


def _overall(heading: str, level: str, mean: str) -> Iterator[Measure]:
    for score, name in SCORES.items():
        yield Measure(
            f"{heading} {name}",
            f"{level}_{score}",
            1,
            percent=True,
            compare="units" if (heading, score) == ("Span micro", "f1") else "",
            place={"split": "test", "average": mean},
            read=_average,
        )


def _printed(results: Results, place: Place) -> Cell:
    if "against" in place:
        return MISSING
    printed = paper.TABLE5.get((results.printed(place["model"]), paper.OVERALL))
    return Number(printed.f1 if printed else None, 1, percent=True)


OVERALL = Pivot(
    name="ner_overall",
    title="Table 5, every model: overall scores",
    step=STEP,
    rows=(models(difference=True),),
    columns=(
        Measure("Paper F1", cell=_printed),
        *_overall("Span micro", "span", "micro"),
        *_overall("Span macro", "span", "macro"),
        *_overall("Tag micro", "tag", "micro"),
    ),
    measures="Overall scores in %, test split: micro over all spans or tags, macro over types.",
    note=(
        "The difference is of span micro-F1, with the 95% interval over documents and seeds, spans"
        " averaged over seeds."
    ),
)


def _layers(results: Results) -> Iterator[Measure]:
    layers = results.frame.distinct("layer", STEP, measure="layer_weight")
    for layer in sorted(layers, key=int):
        name = f"Layer {layer}" if int(layer) else "Token layer"
        yield Measure(name, "layer_weight", 3, place={"layer": layer})


LAYERS = Pivot(
    name="ner_layers",
    title="Table 5, taggers that mix layers: what each layer weighs",
    step=STEP,
    rows=(models(),),
    keep=lambda results, place: results.has(place["model"], at(STEP, "layers_gamma")),
    columns=(Measure("Scale", "layers_gamma", 3), _layers),
    measures="Weights of a model's layers in its tagger, which add up to 1, and their scale.",
    note=(
        "A word's vector is the scale times the weighted sum of its layers (Peters et al. 2018,"
        " equation 1); both are learnt with the tagger, and begin equal and at 1."
    ),
)
TABLES = (TABLE5, BY_TAGS, OVERALL, LAYERS)
