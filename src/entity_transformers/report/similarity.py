"""Mentions and their entities: similarity (table 4) and its anomaly."""

from __future__ import annotations

from collections.abc import Iterator

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import paper
from entity_transformers.report.cells import MISSING, Cell, Number, Table, show
from entity_transformers.report.frame import Key, Row, read_condition, write_condition
from entity_transformers.report.measures import Tree
from entity_transformers.report.results import Results, has_entities, write_label

UNITS = {
    "mention_similarity": "cosine",
    "mention_similarity_centred": "cosine",
    "entity_similarity": "cosine",
    "entity_similarity_to_ones": "cosine",
    "between_entities": "cosine",
    "between_entities_centred": "cosine",
    "mentions": "mentions",
}
STEP = "similarity"
CONTEXTS = {"words": "none", "context": "document"}
MEASURES = {
    "mention_similarity": "Average mention similarity",
    "entity_similarity": "Average entity similarity",
    "between_entities": "Between mentions of different entities",
    "mention_similarity_centred": "Average mention similarity, mean removed",
    "between_entities_centred": "Between different entities, mean removed",
}


def measure(tree: Tree) -> Iterator[Row]:
    """similarity.json of every run, over all splits that were embedded: means over entities, by
    part of speech, words alone or in context, entities given or not.
    """
    for model, seed, found in tree.each(STEP, "similarity.json"):
        for group, scores in found["groups"].items():
            for context in CONTEXTS:
                for entities, numbers in scores[context].items():
                    condition = write_condition(context=context, entities=entities, group=group)
                    for name, value in numbers.items():
                        if name != "entities":
                            yield Row(
                                STEP,
                                name,
                                value,
                                condition=condition,
                                count=None if name == "mentions" else numbers["entities"],
                                model=model,
                                seed=seed,
                            )


def at(group: str, context: str, entities: str, measure: str) -> Key:
    """A number of table 4; context "words" (none) or "context"."""
    condition = write_condition(context=context, entities=entities, group=group)
    return Key(STEP, measure, condition=condition)


Column = tuple[str, ModelEntry, str]


def _columns(models: tuple[ModelEntry, ...]) -> list[Column]:
    """(heading, model, entities) of each column: entities off, then on, for models that have them;
    one column for the others.
    """
    columns: list[Column] = []
    for model in models:
        name = write_label(model)
        columns += (
            [(f"{name} off", model, "off"), (f"{name} on", model, "on")]
            if has_entities(model)
            else [(name, model, "off")]
        )
    return columns


def _pair(results: Results) -> tuple[ModelEntry, ...]:
    return tuple(model for model in results.pair if model in results.measured(STEP))


def build_table4(results: Results) -> Table:
    """Table 4: cosine similarity of mentions and entities: the paper's rows, the same in context,
    what to read them against.
    """
    columns = _columns(_pair(results))
    cases = [
        (measure, context, group)
        for context in CONTEXTS
        for group in _groups(results)
        for measure in ("mention_similarity", "entity_similarity")
    ]
    cases += [
        (measure, context, group)
        for context in CONTEXTS
        for group in _groups(results)
        for measure in list(MEASURES)[2:]
    ]
    return Table(
        name="table4",
        title="Table 4: cosine similarity of mentions and their entities",
        columns=(
            "Measure",
            "Part of speech",
            "Context",
            *(label for label, _, _ in columns),
            *_PAPER_COLUMNS,
            "Entities",
            "Mentions",
        ),
        rows=tuple(_row(results, columns, *case) for case in cases),
        measures=(
            "How alike the vectors of one entity's mentions are, and how alike they and the"
            " entity's memory vector are; averages over entities. On and off: with and without"
            " entities."
        ),
        note=(
            "GPT2 has no memory: an entity's vector is"
            " the state of its latest mention there. Read a similarity against the one between"
            " different entities: in a narrow space everything is alike. “Mean removed” subtracts"
            " the mean vector first. Where the values of entity attention come from the hidden"
            " states, a word alone has one key, so its vector cannot depend on its entity."
        ),
        marked=frozenset(i for i, case in enumerate(cases) if _printed(results, *case)),
        paper_note="The paper takes each word without context.",
    )


_PAPER_COLUMNS = ("Paper GPT2E off", "Paper GPT2E on", "Paper GPT2")


def _groups(results: Results) -> list[str]:
    conditions = results.frame.distinct("condition", step=STEP)
    found = {read_condition(condition)["group"] for condition in conditions}
    order = [group for group in paper.TABLE4_TAGS if group in found]
    return order + sorted(found - set(order))


def _tags(results: Results, group: str) -> str:
    return ",".join(results.groups.get(group, (group,)))


def _printed(results: Results, measure: str, context: str, group: str) -> tuple[float, ...] | None:
    """The paper's three numbers, if this row is one of its own."""
    same_tags = set(results.groups.get(group, ())) == set(paper.TABLE4_TAGS.get(group, "?"))
    return paper.TABLE4.get((group, measure)) if context == "words" and same_tags else None


def _row(
    results: Results, columns: list[Column], measure: str, context: str, group: str
) -> tuple[Cell, ...]:
    keys = [(model, at(group, context, entities, measure)) for _, model, entities in columns]
    ours = (show(results.statistic(model, key), 4) for model, key in keys)
    entities = max((results.count(model, key) or 0 for model, key in keys), default=0)
    mentions = (
        results.statistic(model, at(group, context, entities, "mentions")).mean or 0
        for _, model, entities in columns
    )
    printed = _printed(results, measure, context, group)
    theirs = (Number(value, 4) for value in printed) if printed else (MISSING,) * 3
    return (
        MEASURES[measure],
        _tags(results, group),
        CONTEXTS[context],
        *ours,
        *theirs,
        Number(entities, 0),
        Number(max(mentions, default=0), 0),
    )


def build_ones(results: Results) -> Table:
    """An anomaly of table 4: what the similarity is to a memory that still holds its initial vector
    of ones.
    """
    columns = _columns(_pair(results))
    rows: list[tuple[Cell, ...]] = []
    for group in _groups(results):
        for measure, label in (
            ("entity_similarity", "to the entity's memory vector"),
            ("entity_similarity_to_ones", "to the vector of ones"),
        ):
            ours = (
                show(results.statistic(model, at(group, "words", entities, measure)), 4)
                for _, model, entities in columns
            )
            printed = _printed(results, "entity_similarity", "words", group) or (None,) * 3
            theirs = (Number(value, 4) for value in printed)
            rows.append((label, _tags(results, group), *ours, *theirs))
    return Table(
        name="table4_ones",
        title="Table 4, an anomaly: which vector is the entity?",
        columns=(
            "Mentions' similarity",
            "Part of speech",
            *(label for label, _, _ in columns),
            *_PAPER_COLUMNS,
        ),
        rows=tuple(rows) if results.paper else (),  # it explains a printed number
        measures=(
            "The paper's entity similarities lie near zero, GPT2's below it, though GPT2 has no"
            " memory: would the initial vector of ones explain them?"
        ),
        note="Words without context.",
    )


def build_similarity_models(results: Results) -> Table:
    """The main numbers of table 4 for every model, controls included."""
    short = {
        "mention_similarity": "mentions",
        "entity_similarity": "entity",
        "between_entities": "between",
    }
    keys = [(group, measure) for group in _groups(results) for measure in short]

    def row(column: Column, context: str) -> tuple[Cell, ...]:
        label, model, entities = column
        cells = (
            show(results.statistic(model, at(group, context, entities, measure)), 4)
            for group, measure in keys
        )
        return (label, CONTEXTS[context], *cells)

    return Table(
        name="similarity_models",
        title="Table 4, every model: similarity of mentions",
        columns=("Model", "Context", *(f"{group}: {short[measure]}" for group, measure in keys)),
        rows=tuple(
            row(column, context)
            for column in _columns(results.measured(STEP))
            for context in CONTEXTS
        ),
        measures=(
            "Is what table 4 shows owed to the entities, or to the extra weights? Mentions of one"
            " entity with each other, with their entity's vector, and mentions of different"
            " entities."
        ),
        note=(
            "Every model reads gold labels where entities are on, the controls too, which were"
            " trained without them or with others."
        ),
    )
