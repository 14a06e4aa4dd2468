"""Tables about mentions: similarity (table 4), its anomaly, named entity recognition (table 5)."""

from __future__ import annotations

from entity_transformers.report import paper
from entity_transformers.report.cells import MISSING, Cell, Number, Table, show
from entity_transformers.report.differences import compare_spans
from entity_transformers.report.results import (
    Results,
    name_model,
    read_ner,
    read_similarity,
    uses_entities,
)

CONTEXTS = {"words": "none", "context": "document"}
MEASURES = {
    "mention_similarity": "Average mention similarity",
    "entity_similarity": "Average entity similarity",
    "between_entities": "Between mentions of different entities",
    "mention_similarity_centred": "Average mention similarity, mean removed",
    "between_entities_centred": "Between different entities, mean removed",
}
SCORES = ("f1", "precision", "recall")
SCORE_NAMES = {"f1": "F1", "precision": "P", "recall": "R"}


def build_table4(results: Results) -> Table:
    """Table 4: cosine similarity of mentions and entities: the paper's rows, the same in context,
    what to read them against.
    """
    columns = _similarity_columns(results, results.pair)
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
        rows=tuple(_similarity_row(results, columns, *case) for case in cases),
        measures=(
            "How alike the vectors of one entity's mentions are, and how alike they and the"
            " entity's memory vector are; averages over entities. On and off: with and without"
            " entities."
        ),
        note=(
            "The paper takes each word without context. GPT2 has no memory: an entity's vector is"
            " the state of its latest mention there. Read a similarity against the one between"
            " different entities: in a narrow space everything is alike. “Mean removed” subtracts"
            " the mean vector first. Where the values of entity attention come from the hidden"
            " states, a word alone has one key, so its vector cannot depend on its entity."
        ),
        marked=frozenset(i for i, case in enumerate(cases) if _printed(results, *case)),
    )


_PAPER_COLUMNS = ("Paper GPT2E off", "Paper GPT2E on", "Paper GPT2")


def _similarity_columns(results: Results, models: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """(heading, model, condition) of each column: entities off, then on, for models that have them;
    one column for the others.
    """
    columns = []
    for model in models:
        name = name_model(model)
        columns += (
            [(f"{name} off", model, "off"), (f"{name} on", model, "on")]
            if uses_entities(model)
            else [(name, model, "on")]
        )
    return columns


def _groups(results: Results) -> list[str]:
    found = [group for run in results.runs for group in (run.similarity or {}).get("groups", {})]
    order = [group for group in paper.TABLE4_TAGS if group in found]
    return order + sorted(set(found) - set(order))


def _tags(results: Results, group: str) -> tuple[str, ...]:
    return next(
        tuple(run.similarity["groups"][group]["tags"])
        for run in results.runs
        if run.similarity and group in run.similarity["groups"]
    )


def _printed(results: Results, measure: str, context: str, group: str) -> tuple[float, ...] | None:
    """The paper's three numbers, if this row is one of its own."""
    same_tags = set(_tags(results, group)) == set(paper.TABLE4_TAGS.get(group, ()))
    return paper.TABLE4.get((group, measure)) if context == "words" and same_tags else None


def _similarity_row(
    results: Results, columns: list[tuple[str, str, str]], measure: str, context: str, group: str
) -> tuple[Cell, ...]:
    ours = (
        show(results.statistic(model, read_similarity(group, context, condition, measure)), 4)
        for _, model, condition in columns
    )
    counts = (_most(results, columns, group, context, key) for key in ("entities", "mentions"))
    printed = _printed(results, measure, context, group)
    theirs = (Number(value, 4) for value in printed) if printed else (MISSING,) * 3
    return (
        MEASURES[measure],
        ",".join(_tags(results, group)),
        CONTEXTS[context],
        *ours,
        *theirs,
        *counts,
    )


def _most(
    results: Results, columns: list[tuple[str, str, str]], group: str, context: str, key: str
) -> Number:
    """The number of entities or mentions that were averaged over, 0 where none was found."""
    counts = [
        results.statistic(model, read_similarity(group, context, condition, key)).mean or 0
        for _, model, condition in columns
    ]
    return Number(max(counts, default=0), 0)


def build_ones(results: Results) -> Table:
    """An anomaly of table 4: what the similarity is to a memory that still holds its initial vector
    of ones.
    """
    columns = _similarity_columns(results, results.pair)
    rows: list[tuple[Cell, ...]] = []
    for group in _groups(results):
        for measure, label in (
            ("entity_similarity", "to the entity's memory vector"),
            ("entity_similarity_to_ones", "to the vector of ones"),
        ):
            ours = (
                show(
                    results.statistic(model, read_similarity(group, "words", condition, measure)), 4
                )
                for _, model, condition in columns
            )
            printed = _printed(results, "entity_similarity", "words", group) or (None,) * 3
            rows.append(
                (
                    label,
                    ",".join(_tags(results, group)),
                    *ours,
                    *(Number(value, 4) for value in printed),
                )
            )
    return Table(
        name="table4_ones",
        title="Table 4, an anomaly: which vector is the entity?",
        columns=(
            "Mentions' similarity",
            "Part of speech",
            *(label for label, _, _ in columns),
            *_PAPER_COLUMNS,
        ),
        rows=tuple(rows),
        measures=(
            "The paper's entity similarities lie near zero, GPT2's below it, though GPT2 has no"
            " memory: would the initial vector of ones explain them?"
        ),
        note="Words without context.",
    )


def build_similarity_models(results: Results) -> Table:
    """The main numbers of table 4 for every model, controls included."""
    keys = [
        (group, measure)
        for group in _groups(results)
        for measure in ("mention_similarity", "entity_similarity", "between_entities")
    ]
    short = {
        "mention_similarity": "mentions",
        "entity_similarity": "entity",
        "between_entities": "between",
    }

    def row(label: str, model: str, condition: str, context: str) -> tuple[Cell, ...]:
        cells = (
            show(results.statistic(model, read_similarity(group, context, condition, measure)), 4)
            for group, measure in keys
        )
        return (label, CONTEXTS[context], *cells)

    return Table(
        name="similarity_models",
        title="Similarity of mentions, every model",
        columns=("Model", "Context", *(f"{group}: {short[measure]}" for group, measure in keys)),
        rows=tuple(
            row(*column, context)
            for column in _similarity_columns(results, results.trained)
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


def build_table5(results: Results) -> Table:
    """Table 5 by spans: a named entity counts when both its borders and its type are right
    (seqeval, strict IOB2).
    """
    return _ner_table(
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
    return _ner_table(
        results,
        "tag",
        name="table5_tags",
        title="Table 5, by tags: means of the B- and I- rows",
        measures="The same taggers scored word by word; %, test split.",
        note_start=(
            "The paper's rows are multiples of 0.5 whose P, R and F1 do not agree with each other,"
            " as means of two rows would be. "
        ),
    )


def _ner_table(
    results: Results, level: str, *, name: str, title: str, measures: str, note_start: str = ""
) -> Table:
    labels = _labels(results, level)
    models = results.pair[::-1]  # the paper prints GPT2 first here
    headings = [
        f"{prefix}{name_model(model)} {SCORE_NAMES[score]}"
        for model in models
        for prefix in ("", "Paper ")
        for score in SCORES
    ]
    rows = [_ner_row(results, models, label, (level, "labels", label)) for label in labels]
    rows.append(_ner_row(results, models, paper.OVERALL, (level, "micro")))
    return Table(
        name=name,
        title=title,
        columns=("Label", "Support", *headings),
        rows=tuple(rows),
        measures=measures,
        note=note_start + _label_note(labels),
        marked=frozenset(
            i
            for i, row in enumerate(rows)
            if row[0]
            in (*map(str.casefold, paper.TABLE5_LABELS), *paper.TABLE5_LABELS, paper.OVERALL)
        ),
    )


def _labels(results: Results, level: str) -> list[str]:
    """The paper's five labels first, then the others in alphabetical order."""
    found = {
        label
        for run in results.runs
        for label in (run.ner or {}).get("test", {}).get(level, {}).get("labels", {})
    }
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


def _ner_row(
    results: Results, models: tuple[str, ...], label: str, keys: tuple[str, ...]
) -> tuple[Cell, ...]:
    support = max(
        (results.statistic(model, read_ner(*keys, "support")).mean or 0 for model in models),
        default=0,
    )
    cells: list[Cell] = []
    for model in models:
        cells += [
            show(results.statistic(model, read_ner(*keys, score)), 1, percent=True)
            for score in SCORES
        ]
        printed = paper.TABLE5.get((model, label if label == paper.OVERALL else label.upper()))
        cells += [
            Number(getattr(printed, score) if printed else None, 1, percent=True)
            for score in SCORES
        ]
    return (label, Number(support, 0), *cells)


def build_ner_overall(results: Results) -> Table:
    """Every model's overall NER scores, spans and tags, micro and macro."""
    kinds = (
        ("Span micro", ("span", "micro")),
        ("Span macro", ("span", "macro")),
        ("Tag micro", ("tag", "micro")),
    )
    headings = [f"{label} {SCORE_NAMES[score]}" for label, _ in kinds for score in SCORES]

    def row(model: str) -> tuple[Cell, ...]:
        scores = (
            show(results.statistic(model, read_ner(*keys, score)), 1, percent=True)
            for _, keys in kinds
            for score in SCORES
        )
        printed = paper.TABLE5.get((model, paper.OVERALL))
        return (
            name_model(model),
            *scores,
            Number(printed.f1 if printed else None, 1, percent=True),
        )

    found = compare_spans(results, "gpt2e", "gpt2")
    rows = [row(model) for model in results.trained]
    if found is not None and found["difference"] is not None:
        low, high = found["interval"] or (None, None)
        difference = Number(found["difference"], 1, percent=True, low=low, high=high, signed=True)
        rows.append(("GPT2E − GPT2", difference, *(Number(None, 1) for _ in range(len(headings)))))
    return Table(
        name="ner_overall",
        title="Named entity recognition, every model",
        columns=("Model", *headings, "Paper F1"),
        rows=tuple(rows),
        measures="Overall scores in %, test split: micro over all spans or tags, macro over types.",
        note=(
            "The difference is of span micro-F1, with the 95% interval of a paired bootstrap over"
            " documents, spans added up over seeds."
        ),
    )
