"""Mentions and their entities: similarity (table 4) and its anomaly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from matplotlib.figure import Figure

from entity_transformers.report import paper
from entity_transformers.report.figures import draw_cloud
from entity_transformers.report.frame import Key
from entity_transformers.report.frame import at as key
from entity_transformers.report.pivot import (
    Axis,
    Measure,
    Pivot,
    Place,
    cross,
    key_of,
    runs,
    values,
)
from entity_transformers.report.results import Results, write_label
from entity_transformers.report.table import MISSING, Cell, Number

TITLE, STEP = "Mentions and their entities", "similarity"
CONTEXTS = {"words": "none", "context": "document"}
MEASURES = {
    "mention_similarity": "Average mention similarity",
    "entity_similarity": "Average entity similarity",
    "between_entities": "Between mentions of different entities",
    "mention_similarity_centred": "Average mention similarity, mean removed",
    "between_entities_centred": "Between different entities, mean removed",
}
PRINTED = list(MEASURES)[:2]


def at(group: str, context: str, entities: str, measure: str) -> Key:
    """A number of table 4; context "words" (none) or "context"."""
    return key(STEP, measure, context=context, entities=entities, group=group)


def _tags(results: Results) -> Mapping[str, str]:
    """The groups of parts of speech, the paper's first, by their tags."""
    there = results.frame.distinct("group", STEP)
    order = [group for group in paper.TABLE4_TAGS if group in there]
    order += sorted(set(there) - set(order))
    return {group: ",".join(results.groups.get(group, (group,))) for group in order}


def _printed(results: Results, place: Place) -> tuple[float, ...] | None:
    """The paper's three numbers, if this row is one of its own."""
    group, measure = place["group"], place["measure"].removesuffix("_to_ones")
    same = set(results.groups.get(group, ())) == set(paper.TABLE4_TAGS.get(group, "?"))
    return paper.TABLE4.get((group, measure)) if same and place["context"] == "words" else None


def _paper(number: int) -> Measure:
    def cell(results: Results, place: Place) -> Cell:
        printed = _printed(results, place)
        return MISSING if printed is None else Number(printed[number], 4)

    return Measure(f"Paper {('GPT2E off', 'GPT2E on', 'GPT2')[number]}", cell=cell)


def _count(results: Results, place: Place) -> Cell:
    """Entities, or mentions, that the means of the pair are of."""
    found = []
    for _, run in runs("pair").entries(results, place):
        one, model = {**place, **run}, run["model"]
        if one["measure"] == "mentions":
            found.append(results.statistic(model, key_of(one)).mean)
        else:
            found.append(results.count(model, key_of(one)))
    return Number(max((count or 0 for count in found), default=0), 0)


def _blocks(results: Results, place: Place) -> Iterator[tuple[tuple[Cell, ...], Place]]:
    """Contexts, groups and measures: what the paper prints, then what to read it against."""
    for names in (PRINTED, list(MEASURES)[2:]):
        for context, shown in CONTEXTS.items():
            for group, tags in _tags(results).items():
                for name in names:
                    about = {"context": context, "group": group, "measure": name}
                    yield (MEASURES[name], tags, shown), about


PAIR = cross(runs("pair"), (Measure("", digits=4),), STEP)
TABLE4 = Pivot(
    name="table4",
    title="Table 4: cosine similarity of mentions and their entities",
    step=STEP,
    rows=(Axis(("Measure", "Part of speech", "Context"), _blocks),),
    columns=(
        PAIR,
        *map(_paper, range(3)),
        Measure("Entities", cell=_count),
        Measure("Mentions", "mentions", cell=_count),
    ),
    measures=(
        "How alike the vectors of one entity's mentions are, and how alike they and the entity's"
        " memory vector are; averages over entities. On and off: with and without entities."
    ),
    note=(
        "GPT2 has no memory: there an entity's vector is the state of its latest mention. Read a"
        " similarity against the one between different entities: in a narrow space everything is"
        " alike. “Mean removed” subtracts the mean vector first. Where the values of entity"
        " attention come from the hidden states, a word alone has one key, so its vector cannot"
        " depend on its entity."
    ),
    paper_note="The paper takes each word without context.",
    marked=lambda results, place: _printed(results, place) is not None,
)
ONES = replace(
    TABLE4,
    name="table4_ones",
    title="Table 4, an anomaly: which vector is the entity?",
    where={"context": "words"},
    rows=(
        values("group", _tags, "Part of speech"),
        values(
            "measure",
            {
                "entity_similarity": "to the entity's memory vector",
                "entity_similarity_to_ones": "to the vector of ones",
            },
            "Mentions' similarity",
        ),
    ),
    order=("Mentions' similarity", "Part of speech"),
    columns=(PAIR, *map(_paper, range(3))),
    measures=(
        "The paper's entity similarities lie near zero, GPT2's below it, though GPT2 has no memory:"
        " would the initial vector of ones explain them?"
    ),
    note="Words without context.",
    paper_note="",
    marked=lambda results, place: False,
    paper=True,  # it explains a printed number
)
_SHORT = {
    "mention_similarity": "mentions",
    "entity_similarity": "entity",
    "between_entities": "between",
}
EVERY = Pivot(
    name="similarity_models",
    title="Table 4, every model: similarity of mentions",
    step=STEP,
    rows=(runs(), values("context", CONTEXTS, "Context")),
    columns=(
        cross(
            values("group", lambda results: {group: group for group in _tags(results)}, "Group"),
            [Measure(text, name, 4) for name, text in _SHORT.items()],
            STEP,
            "{0}: {1}",
        ),
    ),
    measures=(
        "Is what table 4 shows owed to the entities, or to the extra weights? Mentions of one"
        " entity with each other, with their entity's vector, and mentions of different entities."
    ),
    note=(
        "Every model reads gold labels where entities are on, the controls too, which were trained"
        " without them or with others."
    ),
)
TABLES = (TABLE4, ONES, EVERY)


def _draw(name: str) -> Callable[[Results], Figure | None]:
    """A picture of mention vectors from the coordinates of pictures.json."""

    def draw(results: Results) -> Figure | None:
        cloud = results.pictures.clouds.get(name)
        if cloud is None:
            return None
        labels = {entry.name: write_label(entry) for entry in results.entries}
        return draw_cloud(cloud, [labels.get(model, model) for model in cloud.models])

    return draw


FIGURES = {
    name: (_draw(name), f"Appendix: {caption}")
    for name, caption in (
        (
            "embeddings_proposed",
            "mentions of the most-mentioned entities in GPT2E's space: head words in their"
            " document, entities given.",
        ),
        ("embeddings_baseline", "the same mentions in GPT2's space."),
        (
            "embeddings_both",
            "both models' vectors in one projection (unit length, each model's mean removed).",
        ),
    )
}
CLOUDS = {
    "embeddings_proposed": ("proposed",),
    "embeddings_baseline": ("baseline",),
    "embeddings_both": ("proposed", "baseline"),
}
"""Whose vectors each picture has, by role."""
