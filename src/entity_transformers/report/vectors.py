"""What vectors say about entities: the similarity of mentions (table 4) and of words alone, named
entities that a tagger finds in them (table 5), and which attention heads point to an antecedent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from entity_transformers.report import paper, pivot
from entity_transformers.report.figures import draw_cloud
from entity_transformers.report.frame import at
from entity_transformers.report.pivot import Line, Measure, Part, Pivot, Place
from entity_transformers.report.results import Results
from entity_transformers.report.table import MISSING, Cell

SIMILARITY = "similarity"
CONTEXTS = {"words": "none", "context": "document"}
MEASURES = {
    "mention_similarity": "Average mention similarity",
    "entity_similarity": "Average entity similarity",
    "between_entities": "Between mentions of different entities",
    "mention_similarity_centred": "Average mention similarity, mean removed",
    "between_entities_centred": "Between different entities, mean removed",
    "entity_similarity_to_ones": "Average similarity to the vector of ones",
}


def place_similarity(group: str, context: str, entities: str, measure: str) -> Place:
    """Return the place of a number of table 4; ``context`` is "words" (none) or "context"."""
    return at(SIMILARITY, measure, context=context, entities=entities, group=group)


def _tags(results: Results) -> dict[str, str]:
    """Return the groups of parts of speech with their tags, the paper's first."""
    there = results.frame.distinct("group", SIMILARITY)
    order = sorted(there, key=lambda group: (group not in paper.TABLE4_TAGS, group))
    return {group: ",".join(results.groups.get(group, (group,))) for group in order}


def _printed4(results: Results, place: Place, number: int = 0) -> float | None:
    """Return one of the paper's numbers for this row, if it is one of the paper's."""
    group = place["group"]
    same = {*results.groups.get(group, ())} == {*paper.TABLE4_TAGS.get(group, "?")}
    printed = paper.TABLE4.get((group, place["measure"]))
    return printed[number] if printed and same and place["context"] == "words" else None


def _first(results: Results, where: Place) -> Iterator[Line]:
    """Yield the model from which the step's counts are taken, as they are the same for all."""
    yield from (({}, {"model": model}) for model in pivot.list_pair(results, where)[:1])


TABLE4 = Pivot(
    name="table4",
    title="Table 4: cosine similarity of mentions and their entities",
    step=SIMILARITY,
    where={"entities": "off"},
    rows=(
        _first,
        pivot.values("context", CONTEXTS, "Context"),
        pivot.values("group", _tags, "Part of speech"),
        pivot.values("measure", MEASURES, "Measure"),
    ),
    order=("Measure", "Part of speech", "Context"),
    columns=(
        pivot.cross(partial(pivot.runs, pair=True), (Measure("", digits=4),)),
        *(
            Measure(f"Paper {name}", digits=4, cell=partial(_printed4, number=number))
            for number, name in enumerate(("GPT2E off", "GPT2E on", "GPT2"))
        ),
        Measure("Entities", shows="count"),
        Measure("Mentions", "mentions", 0),
    ),
    measures="""How similar the vectors of an entity's mentions are to each other and to the
        entity's memory vector, averaged over entities. On and off: with and without entities.""",
    note="""GPT2 has no memory, so the state of an entity's latest mention serves as its vector.
        Compare each similarity with the one between different entities. If the values of entity
        attention are hidden states, a word alone has only one key, so that its vector cannot depend
        on its entity.""",
    paper_note="""The paper takes each word without context. Its entity rows are near zero, as is
        the similarity to the vector of ones, with which the memory starts.""",
    marked=lambda results, place: _printed4(results, place) is not None,
)


GROUPS = pivot.values("group", lambda results: {group: group for group in _tags(results)}, "Group")
EVERY = Pivot(
    name="similarity_models",
    title="Table 4, every model: similarity of mentions",
    step=SIMILARITY,
    rows=(pivot.runs, pivot.values("context", CONTEXTS, "Context")),
    columns=(
        pivot.cross(
            GROUPS,
            (
                Measure("mentions", "mention_similarity", 4),
                Measure("entity", "entity_similarity", 4),
                Measure("between", "between_entities", 4),
            ),
            "{0}: {1}",
        ),
    ),
    measures="""The similarity of one entity's mentions to each other and to the entity's vector,
        and of mentions of different entities.""",
    note="With entities on, every model reads gold labels, including the controls.",
)
ACROSS = Pivot(
    name="similarity_across",
    title="Table 4, across models: the same words in both",
    step=SIMILARITY,
    where={"measure": "cka"},
    rows=(pivot.runs, pivot.values("context", CONTEXTS, "Context")),
    columns=(pivot.cross(GROUPS, [Measure("", digits=4)]),),
    sparse=True,
    measures="""Linear CKA of a model's vectors and the baseline's vectors of the same words; 1
        means that one is a rotation of the other. On: with their entities, as mentions; off: as
        words outside mentions.""",
    note="""The cosine of vectors of two models says nothing, because each model has its own axes
        and remains the same model if they are rotated.""",
)
WORDS = Pivot(
    name="analogies",
    title="Words alone: analogies and similarity",
    step="analogies",
    rows=(pivot.models,),
    columns=(
        pivot.cross(
            pivot.found("group", "Group", measure="analogies"),
            (
                Measure("", "analogies", 1, percent=True),
                Measure(": known", "analogies_known", 1, percent=True),
            ),
            "Analogies, {0}{1}",
        ),
        pivot.cross(
            pivot.found("list", "List", measure="word_similarity"),
            (
                Measure(", Spearman", "word_similarity", 3),
                Measure(": pairs known", "word_similarity_known", 1, percent=True),
            ),
            "{0}{1}",
        ),
    ),
    measures="""Right answers to “a is to b as c is to what?”, and the rank correlation of cosines
        with human ratings of the similarity of two words.""",
    note="""Questions are those of Mikolov et al. (2013), pairs those of WordSim-353 and SimLex-999.
        Only questions and pairs whose words are all known count, so compare rows with equal
        shares of known ones.""",
)
CLOUDS = {
    "embeddings_proposed": ("proposed",),
    "embeddings_baseline": ("baseline",),
    "embeddings_both": ("proposed", "baseline"),
}
"""The roles of the models whose vectors each picture shows."""


def _draw(name: str) -> Callable[[Results], Figure | None]:
    def draw(results: Results) -> Figure | None:
        """Appendix: mentions of the entities mentioned most often, by the vectors of their head
        words in context, with entities. Two models share one projection, after the mean of each is
        removed.
        """
        cloud = results.pictures.clouds.get(name)
        labels = {entry.name: entry.label for entry in results.entries}
        return draw_cloud(cloud, [labels[model] for model in cloud.models]) if cloud else None

    return draw


NER = "ner"
SCORES = {"f1": "F1", "precision": "P", "recall": "R"}
F1 = at(NER, "span_f1", "test", average="micro")


def _score(heading: str, measure: str, average: str = "", **more: Any) -> Measure:
    place = {"average": average} if average else {}
    return Measure(heading, measure, 1, percent=True, place=place, **more)


def _printed5(results: Results, place: Place, score: str) -> float | None:
    """Return the paper's score for a label, whatever its case, or overall."""
    label = place["label"].upper() if "label" in place else paper.OVERALL
    return getattr(paper.TABLE5.get((results.printed(place["model"]), label)), score, None)


def make_table5(level: str, **texts: Any) -> Pivot:
    """Return a table of scores by label, of spans or of tags: the paper's five labels first, then
    the others in the text or a tagger's output, in alphabetical order, then all labels together.
    """

    def rank(label: str) -> tuple[int, str]:
        five, name = paper.TABLE5_LABELS, label.upper()
        return five.index(name) if name in five else len(five), label

    def labels(results: Results, where: Place) -> Iterator[Line]:
        rows = results.frame.find(NER, split="test", measure=f"{level}_predicted")
        known = rows[(rows["count"] > 0) | (rows["value"] > 0)]
        names = {model.name for model in pivot.list_pair(results, where)}
        for label in sorted({*known["label"][known["model"].isin(names)]} - {""}, key=rank):
            yield {"Label": label}, {"label": label}
        yield {"Label": paper.OVERALL}, {"average": "micro"}

    def both(results: Results, where: Place) -> Iterator[Line]:
        for model in reversed(pivot.list_pair(results, where)):  # the paper prints GPT2 first here
            yield {"Model": model.label}, {"model": model}

    scores = [_score(name, f"{level}_{score}") for score, name in SCORES.items()]
    printed = [
        _score(name, "", cell=partial(_printed5, score=score)) for score, name in SCORES.items()
    ]
    return Pivot(
        step=NER,
        where={"split": "test"},
        rows=(_first, labels),
        columns=(
            Measure("Support", f"{level}_f1", shows="count"),
            pivot.cross(both, scores, "{0} {1}"),
            pivot.cross(both, printed, "Paper {0} {1}"),
        ),
        marked=lambda _, row: row.get("label", "person").upper() in paper.TABLE5_LABELS,
        **texts,
    )


LABELS_NOTE = (
    "The rows in bold are those that the paper prints; corpora other than OntoNotes define the"
    " types differently."
)
TABLE5 = make_table5(
    "span",
    name="table5",
    title="Table 5: named entity recognition, strict spans",
    measures="""A BiLSTM-CRF tagger that reads only the language model's word vectors; in %, on the
        test split.""",
    paper_note=LABELS_NOTE,
)
BY_TAGS = make_table5(
    "tag",
    name="table5_tags",
    title="Table 5, by tags: means of the B- and I- rows",
    measures="The same taggers, scored word by word; in %, on the test split.",
    paper_note=f"""The paper's P, R and F1 do not agree with each other, as is the case for means of
        two rows. {LABELS_NOTE}""",
)
OVERALL = Pivot(
    name="ner_overall",
    title="Table 5, every model: overall scores",
    step=NER,
    where={"split": "test"},
    rows=(partial(pivot.models, difference=True),),
    columns=(
        _score("Paper F1", "", cell=partial(_printed5, score="f1")),
        _score("Span micro F1", "span_f1", "micro", compare="units"),
        *(
            _score(f"{level.capitalize()} {mean} {name}", f"{level}_{score}", mean)
            for level, mean in (("span", "micro"), ("span", "macro"), ("tag", "micro"))
            for score, name in SCORES.items()
            if (level, mean, score) != ("span", "micro", "f1")
        ),
    ),
    measures="""Overall scores in %, on the test split: micro averages over all spans or tags, macro
        averages over types.""",
    note="""The difference is that of the spans' micro F1, with its 95% interval over documents and
        seeds.""",
)


LAYERS = Pivot(
    name="ner_layers",
    title="Table 5, taggers that mix layers: the weight of each layer",
    step=NER,
    where={"measure": "layers_gamma"},
    rows=(pivot.models, pivot.values("reading", {"": "", "mixed": ""})),
    keep=pivot.is_scored,
    columns=(
        Measure("Scale", digits=3),
        pivot.cross(
            pivot.found("layer", "Layer", measure="layer_weight"),
            [Measure("", "layer_weight", 3)],
            "Layer {0}",
        ),
    ),
    measures="The weights of a model's layers in its tagger, which add up to 1, and their scale.",
    note="""A word's vector is the scale times the weighted sum of the layers (Peters et al. 2018,
        equation 1). Layer 0 is that of the token embeddings. The layers of a pretrained model are
        evenly spaced among its own, including the last.""",
)


PROBE = "probe"


def _heads(results: Results, place: Place) -> Cell:
    """Return the layer and head chosen for each seed, counted from 1; a dash if there are none."""
    layers, heads = (results.by_seed({**place, "measure": name}) for name in ("layer", "head"))
    both = (seed for seed in layers if seed in heads)
    return ", ".join(f"{layers[seed]:.0f}-{heads[seed]:.0f}" for seed in both) or MISSING


def _baseline(heading: str, name: str, **place: str) -> Measure:
    return Measure(heading, f"accuracy_{name}", 1, percent=True, shows="plain", place=place)


def _say_heads(results: Results) -> str:
    names = "chosen_accuracy", "accuracy"
    choose, report = (results.split(PROBE, measure=name) for name in names)
    left_out = results.frame.find(PROBE, split=report, measure="mentions_left_out")["value"].iloc[0]
    return (
        "After Clark et al. (2019). Heads are given as layer-head, counted from 1; each is the"
        f" best on {choose} and is scored on {report}. {left_out:.1%} of the later mentions are"
        " left out, because their antecedents are in other windows. “By distance alone” uses the"
        " head's mean weight at each distance. With entities on the model reads gold labels, so"
        " those rows predict nothing."
    )


ALONE = {"attention": "", "entities": ""}
HEADS = Pivot(
    name="probe",
    title="Attention heads that point to an antecedent",
    step=PROBE,
    where={"measure": "accuracy"},
    rows=(
        pivot.values("split", lambda results: {results.split(PROBE, measure="accuracy"): ""}),
        partial(pivot.models, difference=True),
        pivot.found("attention", "Attention", measure="accuracy"),
        pivot.values("entities", {"off": "off", "on": "on"}, "Entities"),
        pivot.found("group", "Mentions", measure="accuracy"),
    ),
    keep=pivot.is_scored,
    columns=(
        Measure("n", shows="count"),
        Measure("Head", cell=_heads),
        pivot.cross(
            pivot.found("split", measure="chosen_accuracy"),
            [Measure("", "chosen_accuracy", 1, percent=True)],
            "Chosen at",
        ),
        Measure("Accuracy", "accuracy", 1, True, "interval", compare="units"),
        _baseline("By distance alone", "by_distance"),
        _baseline("Nearest", "nearest", **ALONE),
        _baseline("Same head word", "same_head", **ALONE),
        _baseline("Chance", "chance", **ALONE),
        *(
            Measure(f"Minus {name}", "accuracy", 1, percent=True, against={"measure": measure})
            for name, measure in (("nearest", "nearest"), ("by distance", "by_distance"))
        ),
    ),
    measures="""How often, in %, the earlier mention that receives most of a head's attention
        belongs to the same chain, with 95% intervals over documents.""",
    note=_say_heads,
    marked=lambda results, place: place["group"] == "all",
)


PARTS = (
    Part(SIMILARITY, (TABLE4, EVERY, ACROSS), {name: _draw(name) for name in CLOUDS}),
    Part("analogies", (WORDS,)),
    Part(NER, (TABLE5, BY_TAGS, OVERALL, LAYERS)),
    Part(PROBE, (HEADS,)),
)
