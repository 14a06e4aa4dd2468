"""Cosine similarity of mentions and their entities (table 4), and of words alone."""

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
    Line,
    Measure,
    Part,
    Pivot,
    Place,
    cross,
    found,
    models,
    runs,
    side,
    values,
)
from entity_transformers.report.results import Results, write_label

STEP = "similarity"
CONTEXTS = {"words": "none", "context": "document"}
MEASURES = {
    "mention_similarity": "Average mention similarity",
    "entity_similarity": "Average entity similarity",
    "between_entities": "Between mentions of different entities",
    "mention_similarity_centred": "Average mention similarity, mean removed",
    "between_entities_centred": "Between different entities, mean removed",
}


def at(group: str, context: str, entities: str, measure: str) -> Key:
    """A number of table 4; context "words" (none) or "context"."""
    return key(STEP, measure, context=context, entities=entities, group=group)


def _tags(results: Results) -> Mapping[str, str]:
    """The groups of parts of speech, the paper's first, by their tags."""
    there = set(results.frame.distinct("group", STEP))
    order = [group for group in paper.TABLE4_TAGS if group in there]
    order += sorted(there.difference(order))
    return {group: ",".join(results.groups.get(group, (group,))) for group in order}


def _printed(results: Results, place: Place) -> tuple[float, ...] | None:
    """The paper's three numbers, if this row is one of its own."""
    group, measure = place["group"], place["measure"].removesuffix("_to_ones")
    same = set(results.groups.get(group, ())) == set(paper.TABLE4_TAGS.get(group, "?"))
    return paper.TABLE4.get((group, measure)) if same and place["context"] == "words" else None


def _count(results: Results, place: Place) -> float:
    """Entities, or mentions, that the means of the pair are of."""
    counts: list[float | None] = []
    for _, run in runs("pair").entries(results, place):
        one, mentions = side(place, **run), place["measure"] == "mentions"
        counts.append(results.statistic(*one).mean if mentions else results.count(*one))
    return max((count or 0 for count in counts), default=0)


def _blocks(results: Results, _: Place) -> Iterator[Line]:
    """Contexts, groups and measures: what the paper prints, then what to read it against."""
    names = list(MEASURES)
    for block in (names[:2], names[2:]):
        for context, shown in CONTEXTS.items():
            for group, tags in _tags(results).items():
                for name in block:
                    about = {"context": context, "group": group, "measure": name}
                    yield (MEASURES[name], tags, shown), about


PAIR = cross(runs("pair"), (Measure("", digits=4),), STEP)
PRINTED = tuple(
    Measure(
        f"Paper {heading}",
        digits=4,
        cell=lambda results, place, i=i: (_printed(results, place) or (None,) * 3)[i],  # type: ignore[misc]
    )
    for i, heading in enumerate(("GPT2E off", "GPT2E on", "GPT2"))
)
TABLE4 = Pivot(
    name="table4",
    title="Table 4: cosine similarity of mentions and their entities",
    step=STEP,
    rows=(Axis(("Measure", "Part of speech", "Context"), _blocks),),
    columns=(
        PAIR,
        *PRINTED,
        Measure("Entities", digits=0, cell=_count),
        Measure("Mentions", "mentions", 0, cell=_count),
    ),
    measures=(
        "How alike the vectors of one entity's mentions are, and how alike they and the entity's"
        " memory vector are; averages over entities. On and off: with and without entities."
    ),
    note=(
        "GPT2 has no memory: there an entity's vector is the state of its latest mention. Read a"
        " similarity against the one between different entities. If the values of entity attention"
        " are hidden states, a word alone has one key, and its vector cannot depend on its entity."
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
    columns=(PAIR, *PRINTED),
    measures="Would the initial vector of ones explain that the paper's lie near zero?",
    note="Words without context.",
    paper_note="",
    marked=lambda results, place: False,
    paper=True,  # it explains a printed number
)
SHORT = {
    "mention_similarity": "mentions",
    "entity_similarity": "entity",
    "between_entities": "between",
}
GROUPS = values("group", lambda results: {group: group for group in _tags(results)}, "Group")
EVERY = Pivot(
    name="similarity_models",
    title="Table 4, every model: similarity of mentions",
    step=STEP,
    rows=(runs(), values("context", CONTEXTS, "Context")),
    columns=(
        cross(
            GROUPS,
            [Measure(text, name, 4) for name, text in SHORT.items()],
            STEP,
            "{0}: {1}",
        ),
    ),
    measures=(
        "Mentions of one entity with each other, with their entity's vector, and mentions of"
        " different entities."
    ),
    note="Every model reads gold labels where entities are on, the controls too.",
)
ACROSS = Pivot(
    name="similarity_across",
    title="Table 4, across models: the same words in both",
    step=STEP,
    where={"measure": "cka"},
    rows=(runs("pair"), values("context", CONTEXTS, "Context")),
    columns=(cross(GROUPS, [Measure("", digits=4)], STEP),),
    keep=lambda results, place: any(
        results.has(*side(place, group=group)) for group in _tags(results)
    ),
    measures=(
        "Linear CKA of a model's vectors and the baseline's of the same words: 1 where one is a"
        " rotation of the other. On: with their entities, as mentions; off: as words outside them."
    ),
    note=(
        "A cosine of two models' vectors says nothing: each model's axes are its own, and a model"
        " that is rotated throughout is the same model."
    ),
)
WORDS = Pivot(
    name="analogies",
    title="Words alone: analogies and similarity",
    step="analogies",
    rows=(models(),),
    columns=(
        *(
            Measure(heading, measure, 1, percent=True, place={"group": group})
            for group in ("meaning", "grammar")
            for heading, measure in (
                (f"Analogies, {group}", "analogies"),
                ("of them known", "analogies_known"),
            )
        ),
        cross(
            found("list", "List", measure="word_similarity"),
            (
                Measure(", Spearman", "word_similarity", 3),
                Measure(": pairs known", "word_similarity_known", 1, percent=True),
            ),
            "analogies",
            "{0}{1}",
        ),
    ),
    measures=(
        "Right answers to a is to b as c is to what, and the rank correlation of cosines with what"
        " people said of the similarity of two words."
    ),
    note=(
        "Questions of Mikolov et al. (2013), pairs of WordSim-353 and SimLex-999; only those whose"
        " words are all known count: compare rows with equal shares of known ones."
    ),
)
CLOUDS = {
    "embeddings_proposed": ("proposed",),
    "embeddings_baseline": ("baseline",),
    "embeddings_both": ("proposed", "baseline"),
}
"""Whose vectors each picture has, by role."""


def _draw(name: str) -> Callable[[Results], Figure | None]:
    def draw(results: Results) -> Figure | None:
        """Appendix: mentions of the most-mentioned entities, head words in their document, entities
        given; of two models in one projection, each one's mean removed.
        """
        cloud = results.pictures.clouds.get(name)
        if cloud is None:
            return None
        labels = {entry.name: write_label(entry) for entry in results.entries}
        return draw_cloud(cloud, [labels.get(model, model) for model in cloud.models])

    return draw


PARTS = (
    Part(
        STEP,
        "Mentions and their entities",
        (TABLE4, ONES, EVERY, ACROSS),
        {name: _draw(name) for name in CLOUDS},
    ),
    Part("analogies", "Words alone", (WORDS,)),
)
