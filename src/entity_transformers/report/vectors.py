"""What vectors say of entities: the similarity of mentions (table 4), named entities that a tagger
finds in them (table 5), and which attention heads point to an antecedent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import intervals, paper
from entity_transformers.report.figures import draw_cloud
from entity_transformers.report.frame import Key, at
from entity_transformers.report.intervals import Estimate
from entity_transformers.report.pivot import (
    Axis,
    Line,
    Measure,
    Part,
    Pivot,
    Place,
    cross,
    found,
    list_models,
    models,
    runs,
    side,
    values,
)
from entity_transformers.report.results import (
    Results,
    has_entities,
    summarise,
    write_label,
    write_pair,
)
from entity_transformers.report.table import MISSING, Cell, Number

SIMILARITY = "similarity"
CONTEXTS = {"words": "none", "context": "document"}
MEASURES = {
    "mention_similarity": "Average mention similarity",
    "entity_similarity": "Average entity similarity",
    "between_entities": "Between mentions of different entities",
    "mention_similarity_centred": "Average mention similarity, mean removed",
    "between_entities_centred": "Between different entities, mean removed",
}


def similarity_key(group: str, context: str, entities: str, measure: str) -> Key:
    """A number of table 4; context "words" (none) or "context"."""
    return at(SIMILARITY, measure, context=context, entities=entities, group=group)


def _tags(results: Results) -> Mapping[str, str]:
    """The groups of parts of speech, the paper's first, by their tags."""
    there = set(results.frame.distinct("group", SIMILARITY))
    order = [group for group in paper.TABLE4_TAGS if group in there]
    order += sorted(there.difference(order))
    return {group: ",".join(results.groups.get(group, (group,))) for group in order}


def _is_printed(results: Results, place: Place) -> bool:
    """Is this row one of the paper's?"""
    group, words = place["group"], place["context"] == "words"
    same = {*results.groups.get(group, ())} == {*paper.TABLE4_TAGS.get(group, "?")}
    return same and words and (group, place["measure"]) in paper.TABLE4


def _printed4(heading: str, number: int) -> Measure:
    """One of the paper's three numbers in its rows."""

    def cell(results: Results, place: Place) -> float | None:
        row = {**place, "measure": place["measure"].removesuffix("_to_ones")}
        printed = paper.TABLE4.get((row["group"], row["measure"]))
        return printed[number] if printed and _is_printed(results, row) else None

    return Measure(heading, digits=4, cell=cell)


def _count(results: Results, place: Place) -> float:
    """Entities, or mentions, that the means of the pair are of."""
    sides = [side(place, **run) for _, run in runs("pair").entries(results, place)]
    if place["measure"] == "mentions":
        return max((results.statistic(*one).value or 0 for one in sides), default=0)
    return max((results.count(*one) or 0 for one in sides), default=0)


def _blocks(results: Results, _: Place) -> Iterator[Line]:
    """Contexts, groups and measures: what the paper prints, then what to read it against."""
    names = list(MEASURES)
    for block in (names[:2], names[2:]):
        for context, (group, tags), name in product(CONTEXTS, _tags(results).items(), block):
            about = {"context": context, "group": group, "measure": name}
            yield (MEASURES[name], tags, CONTEXTS[context]), about


PAIR = cross(runs("pair"), (Measure("", digits=4),), SIMILARITY)
PRINTED = tuple(
    _printed4(f"Paper {heading}", number)
    for number, heading in enumerate(("GPT2E off", "GPT2E on", "GPT2"))
)
TABLE4 = Pivot(
    name="table4",
    title="Table 4: cosine similarity of mentions and their entities",
    step=SIMILARITY,
    rows=(Axis(("Measure", "Part of speech", "Context"), _blocks),),
    columns=(
        PAIR,
        *PRINTED,
        Measure("Entities", digits=0, cell=_count),
        Measure("Mentions", "mentions", 0, cell=_count),
    ),
    measures="""How alike the vectors of one entity's mentions are, and how alike they and the
        entity's memory vector are; averages over entities. On and off: with and without
        entities.""",
    note="""GPT2 has no memory: there an entity's vector is the state of its latest mention. Read a
        similarity against the one between different entities. If the values of entity attention are
        hidden states, a word alone has one key, and its vector cannot depend on its entity.""",
    paper_note="The paper takes each word without context.",
    marked=_is_printed,
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
    keep=lambda results, place: results.paper,  # it explains a printed number
)


GROUPS = values("group", lambda results: {group: group for group in _tags(results)}, "Group")
SHORT = {
    "mention_similarity": "mentions",
    "entity_similarity": "entity",
    "between_entities": "between",
}
MENTIONED = tuple(Measure(text, name, 4) for name, text in SHORT.items())
EVERY = Pivot(
    name="similarity_models",
    title="Table 4, every model: similarity of mentions",
    step=SIMILARITY,
    rows=(runs(), values("context", CONTEXTS, "Context")),
    columns=(cross(GROUPS, MENTIONED, SIMILARITY, "{0}: {1}"),),
    measures="""Mentions of one entity with each other, with their entity's vector, and mentions of
        different entities.""",
    note="Every model reads gold labels where entities are on, the controls too.",
)
ACROSS = Pivot(
    name="similarity_across",
    title="Table 4, across models: the same words in both",
    step=SIMILARITY,
    where={"measure": "cka"},
    rows=(runs("pair"), values("context", CONTEXTS, "Context")),
    columns=(cross(GROUPS, [Measure("", digits=4)], SIMILARITY),),
    keep=lambda results, place: any(
        results.has(*side(place, group=group)) for group in _tags(results)
    ),
    measures="""Linear CKA of a model's vectors and the baseline's of the same words: 1 where one is
        a rotation of the other. On: with their entities, as mentions; off: as words outside
        them.""",
    note="""A cosine of two models' vectors says nothing: each model's axes are its own, and a model
        that is rotated throughout is the same model.""",
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
    measures="""Right answers to a is to b as c is to what, and the rank correlation of cosines with
        what people said of the similarity of two words.""",
    note="""Questions of Mikolov et al. (2013), pairs of WordSim-353 and SimLex-999; only those
        whose words are all known count: compare rows with equal shares of known ones.""",
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


NER = "ner"
SCORES = {"f1": "F1", "precision": "P", "recall": "R"}
F1 = at(NER, "span_f1", "test", average="micro")


def average(results: Results, model: ModelEntry | None, key: Key) -> Number:
    """Mean and deviation of F1, precision or recall over the seeds in which a span (or tag) was
    there or predicted.
    """
    level = key.measure.partition("_")[0]
    predicted = at(NER, f"{level}_predicted", key.split, **dict(key.about))
    scores, cells = results.by_seed(model, key), results.frame.runs(predicted)
    runs = {seed: cells.get((model.name, seed)) for seed in scores} if model else {}
    return summarise(
        scores[seed] for seed, cell in runs.items() if cell and (cell.count or cell.value)
    )


def _average(results: Results, place: Place) -> Number:
    return average(results, *side(place))


def _printed5(heading: str, score: str, **where: ModelEntry) -> Measure:
    """The paper's number of a label, whatever its case, or of all."""

    def cell(results: Results, place: Place) -> float | None:
        label = place["label"].upper() if "label" in place else paper.OVERALL
        return getattr(paper.TABLE5.get((results.printed(place["model"]), label)), score, None)

    return Measure(heading, digits=1, percent=True, place=where, cell=cell)


def make_table5(level: str, **texts: Any) -> Pivot:
    """Scores by label, of spans or of tags: the paper's five labels first, then the others in
    alphabetical order that the text or a tagger has, then all of them together.
    """

    def labels(results: Results, place: Place) -> Iterator[Line]:
        printed = [label.casefold() for label in paper.TABLE5_LABELS]
        there = sorted(results.frame.distinct("label", NER, split="test", measure=f"{level}_f1"))
        five = [one for label in printed for one in there if one.casefold() == label]
        pair = list_models(results, {"step": NER}, "pair")
        for label in dict.fromkeys((*five, *there)):
            row = {**place, "label": label, "measure": f"{level}_f1"}
            if any(_average(results, {**row, "model": model}).value is not None for model in pair):
                yield (label,), {"label": label}
        if pair:
            yield (paper.OVERALL,), {"average": "micro"}

    def columns(results: Results) -> Iterator[Measure]:
        """Support, then of each model its scores and the paper's; here it prints GPT2 first."""
        pair = list_models(results, {"step": NER}, "pair")[::-1]

        def support(results: Results, place: Place) -> float:
            return max((results.count(*side(place, model=model)) or 0 for model in pair), default=0)

        yield Measure("Support", f"{level}_f1", 0, cell=support)
        for model in pair:
            label, how = write_label(model), dict[str, Any](percent=True, place={"model": model})
            for score, name in SCORES.items():
                yield Measure(f"{label} {name}", f"{level}_{score}", 1, cell=_average, **how)
            for score, name in SCORES.items():
                yield _printed5(f"Paper {label} {name}", score, model=model)

    return Pivot(
        step=NER,
        where={"split": "test"},
        rows=(Axis(("Label",), labels),),
        columns=(columns,),
        marked=lambda _, row: row.get("label", "person").upper() in paper.TABLE5_LABELS,
        **texts,
    )


LABELS_NOTE = (
    "The paper prints the stressed rows; corpora other than OntoNotes define types differently."
)
TABLE5 = make_table5(
    "span",
    name="table5",
    title="Table 5: named entity recognition, strict spans",
    measures="A BiLSTM-CRF on the language model's word vectors alone; %, test split.",
    paper_note=LABELS_NOTE,
)
BY_TAGS = make_table5(
    "tag",
    name="table5_tags",
    title="Table 5, by tags: means of the B- and I- rows",
    measures="The same taggers scored word by word; %, test split.",
    paper_note=f"""The paper's P, R and F1 do not agree, as those of means of two rows.
        {LABELS_NOTE}""",
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
    step=NER,
    where={"split": "test"},
    rows=(models(difference=True),),
    columns=(
        _printed5("Paper F1", "f1"),
        *_overall("Span micro", "span", "micro"),
        *_overall("Span macro", "span", "macro"),
        *_overall("Tag micro", "tag", "micro"),
    ),
    measures="Overall scores in %, test split: micro over all spans or tags, macro over types.",
    note="The difference is of span micro-F1, with the 95% interval over documents and seeds.",
)


def _layers(results: Results) -> dict[str, str]:
    layers = sorted(results.frame.distinct("layer", NER, measure="layer_weight"), key=int)
    return {layer: f"Layer {layer}" for layer in layers} | ({"0": "Token layer"} if layers else {})


LAYERS = Pivot(
    name="ner_layers",
    title="Table 5, taggers that mix layers: what each layer weighs",
    step=NER,
    rows=(models(),),
    keep=lambda results, place: results.has(place["model"], at(NER, "layers_gamma")),
    columns=(
        Measure("Scale", "layers_gamma", 3),
        cross(values("layer", _layers, "Layer"), [Measure("", "layer_weight", 3)], NER),
    ),
    measures="Weights of a model's layers in its tagger, which add up to 1, and their scale.",
    note="""A word's vector is the scale times the weighted sum (Peters et al. 2018, equation 1). Of
        a pretrained model they are evenly spaced among its own layers, the last among them.""",
)


PROBE = "probe"


def _head_rows(results: Results, _: Place) -> Iterator[Line]:
    """Model, attention and whether entities are given, of all that was probed, by the group of the
    mentions; then the model under test less the baseline.
    """
    rows, split = results.frame.find(PROBE, measure="accuracy"), results.split(PROBE, "accuracy")
    named, off = list[tuple[str, str, Place]](), dict[ModelEntry, Place]()
    for model in results.measured(PROBE):
        own = rows[rows["model"] == model.name][["attention", "entities"]].drop_duplicates()
        for attention, given in own.itertuples(index=False):
            read = {"attention": attention, "entities": given}
            place: Place = {"split": split, "model": model, **read}
            said = f", entities {given}" if has_entities(model) else ""
            named.append((write_label(model), f"{attention}{said}", place))
            if given == "off":
                off.setdefault(model, place)
    ours, theirs = results.proposed, results.baseline
    if ours in off and theirs in off and ours and theirs:
        against = {**off[ours], "against": {"model": theirs}}
        named.append((write_pair(ours, theirs), "self, entities off", against))
    for label, said, place in named:
        for group in results.frame.distinct("group", PROBE, measure="accuracy"):
            yield (label, said, group.replace("_", " ")), {**place, "group": group}


def _heads(results: Results, place: Place) -> Cell:
    """Layer and head of each seed, from 1, that were chosen; a dash where nothing was asked."""
    layers, heads = (results.by_seed(*side(place, measure=name)) for name in ("layer", "head"))
    both = [seed for seed in results.seeds if seed in layers and seed in heads]
    return ", ".join(f"{layers[seed]:.0f}-{heads[seed]:.0f}" for seed in both) or MISSING


def _baseline(heading: str, name: str, less: bool = False) -> Measure:
    """The share of right answers by a baseline, or that of the head less it."""

    def cell(results: Results, place: Place) -> Estimate | float | None:
        own = side(place)
        if less:
            return intervals.compare(results, own, own, "correct", name)
        found = intervals.describe(results, own, name)
        return found and found.value

    return Measure(heading, "accuracy", 1, percent=True, cell=cell)


def _say_heads(results: Results) -> str:
    choose, report = (results.split(PROBE, name) for name in ("chosen_accuracy", "accuracy"))
    shares = results.frame.runs(at(PROBE, "mentions_left_out", report)).values()
    left_out = next(iter(shares)).value or 0.0
    return (
        f"After Clark et al. (2019). Head: layer-head, counted from 1, the best on {choose}, scored"
        f" on {report}. {left_out:.1%} of the later mentions are left out: their antecedents are in"
        " other windows. By distance alone: the head's mean weight at each distance. Where entities"
        " are on the model reads gold labels, so those rows predict nothing."
    )


def _chosen(results: Results, place: Place) -> Number:
    return results.statistic(*side(place, split=results.split(PROBE, "chosen_accuracy")))


HEADS = Pivot(
    name="probe",
    title="Attention heads that point to an antecedent",
    step=PROBE,
    rows=(Axis(("Model", "Attention", "Mentions"), _head_rows),),
    columns=(
        Measure("n", "accuracy", shows="count"),
        Measure("Head", cell=_heads),
        Measure("Chosen at", "chosen_accuracy", 1, percent=True, cell=_chosen),
        Measure("Accuracy", "accuracy", 1, True, "interval", compare="units"),
        _baseline("By distance alone", "by_distance"),
        _baseline("Nearest", "nearest"),
        _baseline("Same head word", "same_head"),
        _baseline("Chance", "chance"),
        _baseline("Less nearest", "nearest", less=True),
        _baseline("Less by distance", "by_distance", less=True),
    ),
    measures="""How often, in %, the earlier mention that gets most of a head's attention is of the
        same chain, with 95% intervals over documents.""",
    note=_say_heads,
    marked=lambda results, place: place["group"] == "all",
)


PARTS = (
    Part(
        SIMILARITY,
        "Mentions and their entities",
        (TABLE4, ONES, EVERY, ACROSS),
        {name: _draw(name) for name in CLOUDS},
    ),
    Part("analogies", "Words alone", (WORDS,)),
    Part(NER, "Named entities", (TABLE5, BY_TAGS, OVERALL, LAYERS)),
    Part(PROBE, "Which heads find the antecedent", (HEADS,)),
)
