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
    Part,
    Pivot,
    Place,
    cross,
    list_models,
    models,
    side,
    values,
)
from entity_transformers.report.results import Results, Statistic, summarise, write_label

STEP = "ner"
SCORES = {"f1": "F1", "precision": "P", "recall": "R"}
F1 = at(STEP, "span_f1", "test", average="micro")


def average(results: Results, model: ModelEntry | None, key: Key) -> Statistic:
    """Mean and deviation of F1, precision or recall over the seeds in which a span (or tag) was
    there or predicted.
    """
    if model is None:
        return summarise(())
    level = key.measure.partition("_")[0]
    predicted = at(STEP, f"{level}_predicted", key.split, **dict(key.about))
    scores = results.by_seed(model, key)
    cells = {seed: results.frame.runs(predicted).get((model.name, seed)) for seed in scores}
    known = (seed for seed, cell in cells.items() if cell and (cell.count or cell.value))
    return summarise(scores[seed] for seed in known)


def _average(results: Results, place: Place) -> Statistic:
    return average(results, *side(place))


def list_labels(results: Results, level: str) -> list[str]:
    """The paper's five labels first, then the others in alphabetical order."""
    printed = [label.casefold() for label in paper.TABLE5_LABELS]
    there = sorted(results.frame.distinct("label", STEP, split="test", measure=f"{level}_f1"))
    five = [label for label in there if label.casefold() in printed]
    five.sort(key=lambda label: printed.index(label.casefold()))
    return five + [label for label in there if label not in five]


LABELS_NOTE = (
    "The paper prints the stressed rows; corpora other than OntoNotes define types differently."
)


def _rows(level: str) -> Axis:
    """The labels of spans or tags, then all of them together."""

    def entries(results: Results, _: Place) -> Iterator[Line]:
        for label in list_labels(results, level):
            yield (label,), {"label": label}
        if list_models(results, {"step": STEP}, "pair"):
            yield (paper.OVERALL,), {"average": "micro"}

    return Axis(("Label",), entries)


def _printed(heading: str, score: str, **where: ModelEntry) -> Measure:
    """The paper's number of a label, whatever its case, or of all."""

    def cell(results: Results, place: Place) -> float | None:
        label = place["label"].upper() if "label" in place else paper.OVERALL
        return getattr(paper.TABLE5.get((results.printed(place["model"]), label)), score, None)

    return Measure(heading, digits=1, percent=True, place=where, cell=cell)


def _columns(level: str, results: Results) -> Iterator[Measure]:
    """Support, then of each model its scores and the paper's; the paper prints GPT2 first here."""
    pair = list_models(results, {"step": STEP}, "pair")[::-1]

    def support(results: Results, place: Place) -> float:
        return max((results.count(*side(place, model=model)) or 0 for model in pair), default=0)

    yield Measure("Support", f"{level}_f1", 0, cell=support)
    for model in pair:
        for score, name in SCORES.items():
            heading, where = f"{write_label(model)} {name}", {"model": model}
            measure = f"{level}_{score}"
            yield Measure(heading, measure, 1, percent=True, place=where, cell=_average)
        for score, name in SCORES.items():
            yield _printed(f"Paper {write_label(model)} {name}", score, model=model)


TABLE5 = Pivot(
    name="table5",
    title="Table 5: named entity recognition, strict spans",
    step=STEP,
    where={"split": "test"},
    rows=(_rows("span"),),
    columns=(lambda results: _columns("span", results),),
    measures="A BiLSTM-CRF on the language model's word vectors alone; %, test split.",
    paper_note=LABELS_NOTE,
    marked=lambda _, row: row.get("label", "person").upper() in paper.TABLE5_LABELS,
)
BY_TAGS = replace(
    TABLE5,
    name="table5_tags",
    title="Table 5, by tags: means of the B- and I- rows",
    rows=(_rows("tag"),),
    columns=(lambda results: _columns("tag", results),),
    measures="The same taggers scored word by word; %, test split.",
    paper_note=(
        f"The paper's P, R and F1 do not agree, as those of means of two rows. {LABELS_NOTE}"
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
            place={"average": mean},
            cell=_average,
        )


OVERALL = Pivot(
    name="ner_overall",
    title="Table 5, every model: overall scores",
    step=STEP,
    where={"split": "test"},
    rows=(models(difference=True),),
    columns=(
        _printed("Paper F1", "f1"),
        *_overall("Span micro", "span", "micro"),
        *_overall("Span macro", "span", "macro"),
        *_overall("Tag micro", "tag", "micro"),
    ),
    measures="Overall scores in %, test split: micro over all spans or tags, macro over types.",
    note=("The difference is of span micro-F1, with the 95% interval over documents and seeds."),
)


def _layers(results: Results) -> dict[str, str]:
    layers = results.frame.distinct("layer", STEP, measure="layer_weight")
    names = {layer: f"Layer {layer}" for layer in sorted(layers, key=int)}
    return {**names, "0": "Token layer"} if names else {}


LAYERS = Pivot(
    name="ner_layers",
    title="Table 5, taggers that mix layers: what each layer weighs",
    step=STEP,
    rows=(models(),),
    keep=lambda results, place: results.has(place["model"], at(STEP, "layers_gamma")),
    columns=(
        Measure("Scale", "layers_gamma", 3),
        cross(values("layer", _layers, "Layer"), [Measure("", "layer_weight", 3)], STEP),
    ),
    measures="Weights of a model's layers in its tagger, which add up to 1, and their scale.",
    note=(
        "A word's vector is the scale times the weighted sum (Peters et al. 2018, equation 1). Of a"
        " pretrained model they are evenly spaced among its own layers, the last among them."
    ),
)
PARTS = (Part(STEP, "Named entities", (TABLE5, BY_TAGS, OVERALL, LAYERS)),)
