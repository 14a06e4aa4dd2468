"""How well text is predicted: table 2, the controls and other models, perplexity by class of token;
pseudo-perplexity of models that predict hidden tokens; and LAMBADA's passages (table 3).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import permutations

from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import intervals, lm, paper, pivot
from entity_transformers.report.figures import Bar, choose_colours, draw_intervals
from entity_transformers.report.frame import at
from entity_transformers.report.intervals import INERT, INTERVAL, MARGIN, OPEN, UNUSED, loss
from entity_transformers.report.pivot import Line, Measure, Part, Pivot, Place
from entity_transformers.report.results import GENERATED, Results, write_pair, write_scored
from entity_transformers.report.table import MISSING, Cell, Number

STEP, PSEUDO = "perplexity", "pseudo_perplexity"
PROCESSES = {"train": "Training", "dev": "Validation", "test": "Test", "test2": "Test 2"}
CLASSES = {"outside": "outside mentions", "first": "first mention", "later": "later mention"}
CONDITIONS = ("on", "off", "shuffled")
TIMES = {"train": "seconds_per_step", "dev": "seconds_validation_step"}


def scored_splits(results: Results) -> list[str]:
    """Return the splits on which some model was scored: dev, test, test2, then others by name."""
    there, known = sorted(results.frame.distinct("split", STEP)), list(PROCESSES)
    return sorted(there, key=lambda split: known.index(split) if split in known else len(known))


def class_split(results: Results) -> str:
    """Return the split broken down by class: test, else the first scored; "" if there is none."""
    splits = scored_splits(results)
    return "test" if "test" in splits else next(iter(splits), "")


def _rows(results: Results, place: Place) -> Iterator[Line]:
    """Yield training, then for each split every model in each condition and the difference."""
    process = {"Process": PROCESSES["train"]}
    for model in results.measured(lm.STEP):
        given = "on" if model.has_entities else MISSING
        where = {"step": lm.STEP, "split": "train", "model": model, "entities": ""}
        if results.by_seed(at(lm.STEP, "loss", "train", model=model)):  # n-gram counts have none
            yield {**process, "Model": write_scored(model), "Entities": given}, where
    conditions = (
        partial(pivot.models, scored=True),
        partial(pivot.entities, conditions=CONDITIONS),
    )
    ours, theirs = results.proposed, results.baseline
    for split in scored_splits(results):
        process = {"Process": PROCESSES.get(split, split)}
        about = {**place, "split": split, "measure": "loss"}
        for texts, one in pivot.nest(results, about, *conditions):
            yield {**process, **texts}, one
        sides = loss(split, "on", model=ours), loss(split, "off", model=theirs)
        if ours and theirs and all(map(results.by_seed, sides)):
            minus = {"model": theirs, "entities": "off"}
            one = {**about, "model": ours, "entities": "on", "minus": minus}
            yield {**process, "Model": write_pair(ours, theirs), "Entities": "on"}, one


def _is_main(place: Place) -> bool:
    """Is this the row with entities, or of a model that reads none?"""
    return place["entities"] in ("", "on") or not place["model"].has_entities


def _printed2(results: Results, place: Place, name: str) -> float | None:
    """Return one of the paper's numbers in the rows that the paper prints."""
    printed = paper.TABLE2.get((results.printed(place["model"]), place["split"]))
    return getattr(printed, name) if printed is not None and _is_main(place) else None


def _time(results: Results, place: Place) -> Number:
    timed = TIMES.get(place["split"], "") if _is_main(place) else ""
    return lm.read_timing(results, place["model"], timed)


TABLE2 = Pivot(
    name="table2",
    title="Table 2: loss and perplexity on the corpus",
    step=STEP,
    rows=(_rows,),
    columns=(
        Measure("PPL", "loss", scale=math.exp),
        Measure("Paper PPL", cell=partial(_printed2, name="perplexity")),
        Measure("Loss", "loss", 4, compare="units"),
        Measure("Paper loss", digits=3, cell=partial(_printed2, name="loss")),
        Measure("Time per step", digits=3, cell=_time),
        Measure("Paper time", digits=3, cell=partial(_printed2, name="seconds")),
        Measure("PPL per word", "perplexity_word"),
        Measure("Bits per byte", "bits_per_byte", 4),
    ),
    measures="""How well each model predicts text. Perplexity (PPL) and loss (in nats) are per
        token.""",
    note=lambda results: (
        f"""Training rows show the mean since the validation before the one whose
        weights are scored, with dropout. Times are the median of a training step in seconds and,
        for validation, the time to score as many tokens. {INTERVAL}{lm.explain_missing(results)}"""
    ),
    paper_note="""The paper's two times look swapped, since its text calls GPT2E the slower model.
        Its validation loss of 0.187, beside a training loss of 1.71, cannot be that of unseen
        text.""",
)


def needed_controls(results: Results) -> dict[str, set[str]]:
    """Return the controls that a verdict on entities needs, the names of their entries by label:
    the proposed kind without labels and with shuffled ones, and another kind with as many
    parameters. If the proposed kind learns from labels but reads none, and so adds nothing to the
    baseline, the baseline is the control without labels and with as many parameters.
    """
    roles = {entry.role: entry for entry in reversed(results.entries)}
    ours, plain = roles["proposed"], roles.get("baseline")
    own, other = ours.kind.label, plain.kind.label if plain else "GPT2"
    controls = [one for one in results.entries if one.role == "control" and one.kind == ours.kind]
    needed = {
        f"{own} unlabelled": [one for one in controls if one.labels == "none"],
        f"{own} shuffled": [one for one in controls if one.labels == "shuffled"],
        f"{other} parameter-matched": [
            one for one in results.entries if getattr(one.lm, "matched_to", "") == ours.name
        ],
    }
    if plain and not ours.has_entities:
        needed = {"": [plain], f"{own} shuffled": needed[f"{own} shuffled"]}
    return {
        found[0].label if found else name: {one.name for one in found}
        for name, found in needed.items()
    }


def list_missing_controls(results: Results, met: Iterable[ModelEntry]) -> list[str]:
    """Return the labels of the `needed_controls` that are not among the models ``met``."""
    known = {model.name for model in met}
    return [name for name, needed in needed_controls(results).items() if not needed & known]


def _list_differences(results: Results, _: Place) -> Iterator[Line]:
    for against, given, gap in intervals.compare_all(results):
        own = against == results.proposed and abs(gap.value) < INERT
        verdict = UNUSED if own else intervals.name_difference(gap.interval)
        condition = given if against.has_entities else MISSING
        texts = {"Against": against.label, "Entities": condition}
        yield texts, {"found": gap, "verdict": verdict}


def _tested(results: Results) -> str:
    """Name the model under test beside others: "with entities" if it reads any."""
    ours = results.proposed
    return "GPT2E" if ours is None else ours.label + " with entities" * ours.has_entities


def _explain_controls(results: Results) -> str:
    missing = list_missing_controls(results, results.trained)
    not_run = f" Controls that were not run: {', '.join(missing)}." if missing else ""
    return f"""“{OPEN.capitalize()}” means that the interval includes zero, “equivalent”
        that all of it lies within ±{MARGIN}, and “{UNUSED}” that the contents of the memory change
        the loss by less than {INERT}. {INTERVAL} A control is read with or without entities,
        whichever gives it the lower loss.{not_run}"""


CONTROLS = Pivot(
    name="controls",
    title=lambda results: (
        f"{_tested(results)} against the controls ({intervals.judged_split(results)})"
    ),
    step=STEP,
    rows=(_list_differences,),
    columns=(
        Measure("Difference", digits=4, cell="found"),
        Measure("p", digits=4, cell=lambda _, row: row["found"].p),
        Measure("Documents", digits=0, cell=lambda _, row: row["found"].units),
        Measure("Error over documents", digits=4, cell=lambda _, row: row["found"].errors[0]),
        Measure("Error over seeds", digits=4, cell=lambda _, row: row["found"].errors[1]),
        Measure("Verdict", cell="verdict"),
    ),
    measures=lambda results: (
        f"""The loss of {_tested(results)} minus that of the other model, in
        nats per token. Below zero the former is better."""
    ),
    note=_explain_controls,
)


def _list_others(results: Results, _: Place) -> Iterator[Line]:
    """Yield the differences of each further model, in a study of the paper's two, from the baseline
    and from each further model before it that was trained in the same way.
    """
    split = intervals.judged_split(results)
    others = [entry for entry in results.trained if entry.role == "other" and results.paper]
    for place, ours in enumerate(others):
        alike = [one for one in others[:place] if _trained_alike(one, ours)]
        for theirs in filter(None, (results.baseline, *alike)):
            first, second = (
                loss(split, "on" if one.has_entities else "off", model=one)
                for one in (ours, theirs)
            )
            gap = intervals.compare(results, first, second)
            if gap is not None:
                about = {"found": gap, "verdict": intervals.name_difference(gap.interval)}
                yield {"Model": ours.label, "Minus": theirs.label}, about


def _trained_alike(one: ModelEntry, other: ModelEntry) -> bool:
    """Do the entries agree in all parameters that both have, except the life of a memory?"""
    first, second = (entry.lm.model_dump(exclude={"memory_life"}) for entry in (one, other))
    return all(first[name] == second[name] for name in first.keys() & second.keys())


OTHERS = Pivot(
    name="others",
    title=lambda results: (
        f"Further models against the baseline ({intervals.judged_split(results)})"
    ),
    step=STEP,
    rows=(_list_others,),
    columns=CONTROLS.columns,
    measures="""The loss of the first model minus that of the second, in nats per token, each with
        the entities that it is given. Comparisons with models that were trained in the same way
        follow that with the baseline.""",
    note=INTERVAL,
)


def has_mentions(results: Results, split: str) -> bool:
    """Does the split have gold mentions? If not, all of its tokens would count as outside them."""
    parts = (results.frame.find(STEP, split=split, class_=name) for name in ("first", "later"))
    return any((rows["count"] > 0).any() for rows in parts)


def _classes(results: Results) -> dict[str, str]:
    return CLASSES if has_mentions(results, class_split(results)) else {}


BY_CLASS = Pivot(
    name="perplexity_by_class",
    title=lambda results: f"Perplexity by class of the predicted token ({class_split(results)})",
    step=STEP,
    rows=(
        pivot.values("split", lambda results: {class_split(results): ""}),
        pivot.values("class", _classes, "Predicted token"),
        partial(pivot.models, scored=True),
    ),
    columns=(
        Measure("Tokens", "loss", shows="count", place={"entities": "off"}),
        *(Measure(f"PPL {one}", "perplexity", place={"entities": one}) for one in CONDITIONS),
    ),
    measures="""The perplexity of tokens outside mentions, in first mentions and in later ones,
        where knowing entities could help.""",
    note="""Gold labels reveal that an entity will be mentioned again, and to which entity a mention
        refers, which a reader would have to infer. Before crediting the memory, compare with
        entities off and with the controls.""",
)
HIDDEN = Pivot(
    name=PSEUDO,
    title="Pseudo-perplexity of the models that predict hidden tokens",
    step=PSEUDO,
    where={"measure": "pseudo_perplexity"},
    rows=(pivot.found("split", "Split"), pivot.models, pivot.entities),
    columns=(
        Measure("Pseudo-PPL"),
        Measure("Nats per hidden token", "pseudo_loss", 4),
        *(Measure(f"Pseudo-PPL, {CLASSES[one]}", place={"class": one}) for one in CLASSES),
        Measure("Tokens", shows="count"),
        Measure("Documents", "documents", 0, place={"entities": ""}),
    ),
    measures="""How well each token is predicted from all other tokens of its window, when each is
        masked in turn (Salazar et al., 2020).""",
    note="""This is not a probability of the text, so compare it only between masked models with the
        same tokenizer and windows. With entities on, the label of the masked token is given,
        too.""",
)


def draw_differences(results: Results) -> Figure | None:
    """Loss of the model under test minus that of each other model, with 95 % intervals over
    documents and seeds. Grey: within ±0.02, which counts as no difference.
    """
    colours, bars = choose_colours(results), list[Bar]()
    for model, given, gap in intervals.compare_all(results):
        label = write_scored(model) + f", entities {given}" * model.has_entities
        bars.append(Bar(label, gap, colours[model.name]))
    split = intervals.judged_split(results)
    label = f"Nats per token ({split}), {_tested(results)} minus each of these"
    return draw_intervals({"": bars}, label, MARGIN)


LAMBADA = "lambada"
"""The name of the step and of its split."""


def place_passages(measure: str) -> Place:
    """Return the place of a score of the passages without entities."""
    return at(LAMBADA, measure, LAMBADA, entities="off")


LAST_WORD = place_passages("last_word_perplexity")


def _printed3(results: Results, place: Place) -> Cell | float | None:
    printed = {} if results.passages == GENERATED else paper.TABLE3
    nats = {model: math.log(perplexity) for model, perplexity in printed.items()}
    if "minus" in place:
        return Number(nats["gpt2e"] - nats["gpt2"] if nats else None, signed=True)
    return nats.get(results.printed(place["model"]))


TABLE3 = Pivot(
    name="table3",
    title=lambda results: (
        f"Table 3: {'generated passages' if results.passages == GENERATED else 'LAMBADA'}"
    ),
    step=LAMBADA,
    where={"split": LAMBADA, "entities": "off"},
    rows=(partial(pivot.models, scored=True, difference=True),),
    columns=(
        Measure("Paper nats", digits=4, compare="cell", cell=_printed3),
        Measure("Last word nats", "last_word_perplexity", 4, compare="units", scale=math.log),
        Measure("Last word accuracy", "last_word_accuracy", percent=True, compare="seeds"),
        Measure("Last token nats", "last_token_perplexity", 4, compare="seeds", scale=math.log),
        Measure("Last token accuracy", "last_token_accuracy", percent=True, compare="seeds"),
        Measure("Passage nats per token", "perplexity", 4, compare="seeds", scale=math.log),
        Measure("Passage nats per word", "perplexity_word", 4, compare="seeds", scale=math.log),
        Measure("Passages", "passages", 0, place={"entities": ""}),
        Measure("Truncated", "truncated", 0, place={"entities": ""}),
    ),
    measures="""How well each passage, and the word that ends it, is predicted. No entities are
        given.""",
    note="""Last words are scored as in lm-evaluation-harness. Nats are the logarithm of a
        perplexity. The interval of a difference in the last word's nats is over passages and seeds,
        that of the others over seeds alone.""",
    paper_note=lambda results: (
        "The paper's numbers are for LAMBADA, whereas these passages are generated."
        if results.passages == GENERATED
        else "The paper prints the perplexities 196.81 and 219.97 without saying what they measure."
    ),
)


def _guided(results: Results, _: Place) -> Iterator[Line]:
    """Yield a row for each model with a head guided by gold chains and each other of its kind."""
    for ours, theirs in permutations(results.measured(LAMBADA), 2):
        guided = ours.labels == "gold" and getattr(ours.lm, "antecedent_weight", 0.0) > 0
        if guided and ours.kind == theirs.kind:
            first, second = (
                results.units.at({**place_passages("right"), "model": one})
                for one in (ours, theirs)
            )
            pairs = [
                intervals.make_pair(first[seed].values, second[seed].values)
                for seed in sorted(first.keys() & second.keys())
            ]
            if pairs:
                nats = intervals.compare(
                    results, {**LAST_WORD, "model": ours}, {**LAST_WORD, "model": theirs}
                )
                yield {"Difference": write_pair(ours, theirs)}, {"pairs": pairs, "nats": nats}


PAIRED = (
    Measure(
        "Right", digits=1, percent=True, cell=lambda _, row: intervals.average_pairs(row["pairs"])
    ),
    Measure("p (McNemar)", digits=3, cell=lambda _, row: max(map(intervals.mcnemar, row["pairs"]))),
)
"""The columns of a row that holds the ``pairs`` of its seeds."""
PAIRED_NOTE = """Differences are in points, with an interval over examples and seeds. The p value is
    that of McNemar's exact test, the largest over the seeds, and is not corrected for the number of
    rows."""
GUIDED = Pivot(
    name="guided",
    title="A guided head: last words",
    step=LAMBADA,
    rows=(_guided,),
    columns=(*PAIRED, Measure("Last word nats", digits=4, cell="nats")),
    measures="A model with a head guided by gold chains, minus each other model of its kind.",
    note=f"{PAIRED_NOTE} Nats are per last word.",
)


PARTS = (
    Part(STEP, (TABLE2, CONTROLS, OTHERS, BY_CLASS), {"differences": draw_differences}),
    Part(PSEUDO, (HIDDEN,)),
    Part(LAMBADA, (TABLE3, GUIDED)),
)
