"""Entity decisions of EntityNLM and SetLM: what they cost and save by part, per-word perplexities,
the entity that is mentioned next, and whether a token is in a mention.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import paper
from entity_transformers.report.cells import MISSING, Cell, Number, Table, show
from entity_transformers.report.frame import Key, Row, read_condition, write_condition
from entity_transformers.report.measures import Tree
from entity_transformers.report.paired import compare
from entity_transformers.report.results import Results, write_label

UNITS = {
    "loss": "nats per token",
    "nll": "nats",
    "perplexity_word": "perplexity per word",
    "perplexity_word_error": "perplexity per word",
    "effective_groups": "groups",
    "groups": "groups",
    "learning_rate": "per step",
    "cross_entropy": "nats per mention",
    **dict.fromkeys(("accuracy", "precision", "recall", "f1"), "fraction"),
}
DECISIONS, SETLM = "decisions", "setlm"
PLAIN, SHIFT, JOINT, ALONE = "plain", "shift", "joint", "alone"
COSTS = ("begins", "entities", "lengths")
GIVEN = ("words", *COSTS)
"""The parts of the joint probability."""
PREDICTORS = ("decisions", "recency", "frequency")
Part = tuple[dict[str, Any], Sequence[float]]
"""What something is about, and the nats of each document."""


def measure(tree: Tree) -> Iterator[Row]:
    """decisions.json of every run. ``part`` says of what: the words by the model alone (plain) or
    with a learnt vector (shift), words given gold decisions (words), the decisions (begins,
    entities, lengths), both together (joint), the words without any (marginal, by ``group``).
    """
    for model, seed, found in tree.each(DECISIONS, "decisions.json"):
        row = partial(Row, DECISIONS, split=found["split"], model=model, seed=seed)
        nats, words = found["nats"], sum(one["words"] for one in found["documents"])
        joint = [math.fsum(parts) for parts in zip(*map(nats.get, GIVEN), strict=True)]
        parts = [({"part": name}, nats[name]) for name in (PLAIN, SHIFT, *GIVEN)]
        parts.append(({"part": JOINT}, joint))
        marginal = [({"part": "marginal", "group": one["group"]}, one) for one in found["marginal"]]
        parts += [(about, one["nats"]) for about, one in marginal]
        yield from _measure_parts(row, found, parts, COSTS)
        for about, one in marginal:  # how sure the estimate is
            error = math.sqrt(math.fsum(value**2 for value in one["error"]))
            perplexity = math.exp(math.fsum(one["nats"]) / words)
            values = {
                "perplexity_word_error": perplexity * error / words,
                "effective_groups": float(np.mean(one["effective"])),
                "groups": one["samples"] // one["group"],
            }
            for name, value in values.items():
                yield row(name, value, condition=write_condition(**about))
        yield from _measure_rates(row, found)
        for by in PREDICTORS:
            for among in ("any", "known"):
                judged = found["prediction"][by][among]
                for name in ("cross_entropy", "accuracy"):
                    value = judged[name] if judged["mentions"] else None
                    condition = write_condition(by=by, among=among)
                    yield row(name, value, condition=condition, count=judged["mentions"])


def measure_setlm(tree: Tree) -> Iterator[Row]:
    """setlm.json of every run. ``part`` says of what: the words by the model alone (plain), with a
    learnt vector (shift), by SetLM when nobody tells it anything (alone), told each token's
    decision (words); and the decisions.
    """
    for model, seed, found in tree.each(SETLM, "setlm.json"):
        row = partial(Row, SETLM, split=found["split"], model=model, seed=seed)
        names = (PLAIN, SHIFT, ALONE, "words", "decisions")
        parts = [({"part": name}, found["nats"][name]) for name in names]
        yield from _measure_parts(row, found, parts, ("decisions",))
        named, right, chosen, said = (
            found["decided"][name] for name in ("named", "right", "chosen", "found")
        )
        shares = {
            "precision": (right, said),
            "recall": (right, named),
            "f1": (2 * right, said + named),
            "accuracy": (chosen, named),
        }
        for name, (part, whole) in shares.items():
            yield row(name, part / whole if whole else None, count=whole)
        yield from _measure_rates(row, found)


def _measure_parts(
    row: partial[Row], found: Mapping[str, Any], parts: Iterable[Part], costs: Sequence[str]
) -> Iterator[Row]:
    """Of each part the loss, but for decisions (``costs``) the perplexity per word, and the nats
    of each document.
    """
    documents = found["documents"]
    tokens, words = (sum(one[unit] for one in documents) for unit in ("tokens", "words"))
    for about, nats in parts:
        condition, total = write_condition(**about), math.fsum(nats)
        yield row("loss", total / tokens, condition=condition, count=tokens)
        if about["part"] not in costs:
            yield row("perplexity_word", math.exp(total / words), condition=condition, count=words)
        for one, value in zip(documents, nats, strict=True):
            own = write_condition(document=one["document"], **about)
            yield row("nll", value, condition=own, count=one["tokens"])


def _measure_rates(row: partial[Row], found: Mapping[str, Any]) -> Iterator[Row]:
    for name, rate in found["learning_rates"].items():
        yield row("learning_rate", rate, condition=write_condition(trained=name))


def at(results: Results, step: str, name: str, **about: Any) -> Key:
    split = next(iter(results.frame.distinct("split", step=step)), "")
    return Key(step, name, split, write_condition(**about))


def _cell(
    results: Results, model: ModelEntry, step: str, name: str, digits: int = 4, **about: Any
) -> Number:
    return show(results.statistic(model, at(results, step, name, **about)), digits)


def list_groups(results: Results) -> dict[int, str]:
    """The sizes of groups in which samples were drawn again, and what is said of them."""
    conditions = results.frame.distinct("condition", step=DECISIONS, measure="groups")
    sizes = sorted(int(read_condition(one)["group"]) for one in conditions)
    return {one: "importance sampling" if one == 1 else f"groups of {one}" for one in sizes}


def build_decisions(results: Results) -> Table:
    """A row per model: nats per token of words and decisions, by part."""
    columns: dict[str, dict[str, Any]] = {
        "Words, no decisions": {"part": PLAIN},
        **{
            f"Words, decisions summed out ({name})": {"part": "marginal", "group": group}
            for group, name in list_groups(results).items()
        },
        "Words, told the decisions": {"part": "words"},
        "A mention begins": {"part": "begins"},
        "Of which entity": {"part": "entities"},
        "How long": {"part": "lengths"},
        "Words and decisions": {"part": JOINT},
    }
    return Table(
        name="decisions",
        title="Entity decisions, by part",
        columns=("Model", *columns),
        rows=tuple(
            (
                write_label(model),
                *(_cell(results, model, DECISIONS, "loss", **one) for one in columns.values()),
            )
            for model in results.measured(DECISIONS)
        ),
        measures=(
            "What words and entity decisions cost, in nats per token, where EntityNLM's decisions"
            " are learnt from the states of a model that is left as it is."
        ),
        note=(
            "Only the columns before the words that are told the decisions are of the words alone."
            " Told: the chains of the annotation, by people who had read on, the word's own mention"
            " among them. All per token, whether a decision is taken there or not. The model reads"
            " no labels, but for its own where these follow from the text: a causal resolver's,"
            " lagged."
        ),
    )


def build_words(results: Results) -> Table:
    """Perplexities per word of what is a probability of the words alone."""
    parts: dict[str, dict[str, Any]] = {
        "the model alone": {"part": PLAIN},
        "a learnt vector added, no entities": {"part": SHIFT},
    }
    parts |= {
        f"decisions summed out, {name}": {"part": "marginal", "group": group}
        for group, name in list_groups(results).items()
    }
    rows: list[tuple[Cell, ...]] = []
    for model, (what, about) in product(results.measured(DECISIONS), parts.items()):
        others = {PLAIN: (), SHIFT: (PLAIN,)}.get(about["part"], (PLAIN, SHIFT))
        gaps = [compare(results, model, DECISIONS, about, {"part": other}) for other in others]
        means = [
            Number(results.statistic(model, at(results, DECISIONS, name, **about)).mean, digits)
            for name, digits in (
                ("perplexity_word_error", 2),
                ("groups", 0),
                ("effective_groups", 1),
            )
        ]
        perplexity = _cell(results, model, DECISIONS, "perplexity_word", 2, **about)
        empty = (MISSING,) * (3 - len(gaps))
        rows.append((write_label(model), what, perplexity, *means, *gaps, *empty))
    for name, value in paper.WORD_PERPLEXITIES.items() if results.paper else ():
        rows.append((name, "as the paper prints it", *(MISSING,) * 6, Number(value, 2)))
    return Table(
        name="decisions_words",
        title="Perplexity per word with entity decisions",
        columns=(
            "Model",
            "What",
            "PPL per word",
            "Standard error",
            "Groups",
            "Groups that count",
            "Against the model alone",
            "Against a learnt vector",
            "Paper PPL per word",
        ),
        rows=tuple(rows),
        measures=(
            "Do entity decisions make words likelier, when nobody tells them? Only the words are"
            " predicted; the sum over all decisions is estimated from samples."
        ),
        note=(
            "Against: nats per token, with the interval over documents and over seeds together. A"
            " learnt vector is trained as long, on the same text: its gain needs no entities. The"
            " logarithm of an estimate is too small on average, so that a perplexity is too high;"
            " where few of the groups count (of each document, on average), it is no more than an"
            " upper bound. Words are those of the corpus, no word unknown."
        ),
        paper_note=(
            "The printed ones are over 10,000-word vocabularies with an unknown word, on another"
            " corpus unless this is CoNLL-2012, and are not comparable."
        ),
    )


def build_entities(results: Results) -> Table:
    """Which entity is mentioned next: decisions against recency and frequency."""

    def cells(model: ModelEntry, by: str) -> Iterator[Cell]:
        for among in ("any", "known"):
            about: dict[str, Any] = {"by": by, "among": among}
            right = at(results, DECISIONS, "accuracy", **about)
            yield _cell(results, model, DECISIONS, "cross_entropy", **about)
            yield show(results.statistic(model, right), percent=True)
            yield Number(results.count(model, right), 0)

    heads = ("Nats", "Right", "Mentions")
    return Table(
        name="decisions_entities",
        title="Which entity is mentioned next?",
        columns=(
            "Model",
            "By",
            *(f"{head}, {among}" for among in ("any or new", "known") for head in heads),
        ),
        rows=tuple(
            (write_label(model), by, *cells(model, by))
            for model in results.measured(DECISIONS)
            for by in PREDICTORS
        ),
        measures=(
            "Asked where a mention begins, from the text before it and its mentions so far: which"
            " entity is it of, or is it a new one?"
        ),
        note=(
            "Nats per mention; right: the likeliest one is it. Known: told that it was mentioned"
            " before. Recency and frequency give entities a power of how recently or how often they"
            " were mentioned, and new ones a weight, both chosen on the split to choose on."
        ),
    )


def build_setlm(results: Results) -> Table:
    """A row per model: nats per token of words and decisions, and perplexities per word."""
    columns = {
        "Words, no decisions": ("loss", PLAIN),
        "A learnt vector added": ("loss", SHIFT),
        "Words, nobody tells": ("loss", ALONE),
        "Against the model alone": ("gap", PLAIN),
        "Against a learnt vector": ("gap", SHIFT),
        "Words, told the decisions": ("loss", "words"),
        "Decisions": ("loss", "decisions"),
        "PPL per word, no decisions": ("perplexity_word", PLAIN),
        "PPL per word, nobody tells": ("perplexity_word", ALONE),
        "PPL per word, told": ("perplexity_word", "words"),
    }

    def cell(model: ModelEntry, name: str, part: str) -> Cell:
        if name == "gap":
            return compare(results, model, SETLM, {"part": ALONE}, {"part": part})
        return _cell(results, model, SETLM, name, 4 if name == "loss" else 2, part=part)

    return Table(
        name="setlm",
        title="Entity decisions, token by token",
        columns=("Model", *columns),
        rows=tuple(
            (write_label(model), *(cell(model, *what) for what in columns.values()))
            for model in results.measured(SETLM)
        ),
        measures=(
            "Does it make words likelier to decide of each whether it is in a mention, and of which"
            " entity, where the decisions are learnt from the states of a model that is left as it"
            " is (SetLM)?"
        ),
        note=(
            "Nats per token. Nobody tells: each word's probability is the sum over its two ways,"
            " and the entities so far are what the model itself has taken for mentions; exact, and"
            " of the words alone. Told the decisions: whether the word itself is in a mention is"
            " given, by people who have read it; it is no language model's probability. Intervals"
            " cover those over documents and over seeds."
        ),
    )


def build_decided(results: Results) -> Table:
    """A row per model: is the next token in a mention, and of which entity?"""
    names = {"precision": "Precision", "recall": "Recall", "f1": "F1", "accuracy": "Right entity"}
    key = {name: at(results, SETLM, name) for name in names}
    return Table(
        name="setlm_decided",
        title="Is the next token in a mention, and of which entity?",
        columns=("Model", *names.values(), "Tokens in mentions"),
        rows=tuple(
            (
                write_label(model),
                *(show(results.statistic(model, key[name]), percent=True) for name in names),
                Number(results.count(model, key["recall"]), 0),
            )
            for model in results.measured(SETLM)
        ),
        measures="The likeliest candidate of each token, where the chains so far are known.",
        note=(
            "In percent of tokens. Candidates: none, a new entity, and every one so far. Right"
            " entity: of the tokens in mentions, those whose own is the likeliest of all."
        ),
    )


def say_decisions(results: Results) -> tuple[str, ...]:
    """What EntityNLM's decisions cost and save each model, and which entity is mentioned next, by
    them and by recency; and what SetLM's are worth to its words when nobody tells them.
    """

    def mean(model: ModelEntry, name: str, **about: str) -> float | None:
        return results.statistic(model, at(results, DECISIONS, name, **about)).mean

    sentences = []
    for model in results.measured(DECISIONS):
        means = [mean(model, "loss", part=part) for part in (PLAIN, *GIVEN)]
        means += [mean(model, "cross_entropy", by=by, among="any") for by in PREDICTORS[:2]]
        summed = None if None in means[2:5] else math.fsum(filter(None, means[2:5]))
        plain, told, cost, nats, recency = (
            Number(one, 3) for one in (*means[:2], summed, *means[5:])
        )
        sentences.append(
            f"{write_label(model)}: told EntityNLM's decisions, its words cost {told} instead of"
            f" {plain} nats per token, and the decisions {cost}; which entity is mentioned next"
            f" costs {nats} nats, by recency {recency}."
        )
    gaps = [
        f"{write_label(model)} {compare(results, model, SETLM, {'part': ALONE}, {'part': SHIFT})}"
        for model in results.measured(SETLM)
    ]
    what = "SetLM's decisions, which nobody tells, against a learnt vector, in nats per token: "
    return (*sentences, *([f"{what}{', '.join(gaps)}."] if gaps else []))
