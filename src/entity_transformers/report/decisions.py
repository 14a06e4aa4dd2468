"""Entity decisions: what they cost and save by part, per-word perplexities, the entity that is
mentioned next.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import paper
from entity_transformers.report.frame import Key
from entity_transformers.report.frame import at as key
from entity_transformers.report.intervals import subtract as compare
from entity_transformers.report.results import Results, write_label
from entity_transformers.report.table import MISSING, Cell, Number, Table, show

TITLE, STEP = "Entity decisions", "decisions"
GIVEN = ("words", "begins", "entities", "lengths")
"""The parts of the joint probability."""
PLAIN, SHIFT, JOINT = "plain", "shift", "joint"
PREDICTORS = {"decisions": "decisions", "recency": "recency", "frequency": "frequency"}


def at(results: Results, name: str, **about: Any) -> Key:
    split = results.split(STEP)
    return key(STEP, name, split, **about)


def list_groups(results: Results) -> list[int]:
    """The sizes of groups in which samples were drawn again."""
    return sorted(map(int, results.frame.distinct("group", STEP, measure="groups")))


def build_decisions(results: Results) -> Table:
    """A row per model: nats per token of words and decisions, by part."""
    models, groups = results.measured(STEP), list_groups(results)

    def row(model: ModelEntry) -> tuple[Cell, ...]:
        about: list[dict[str, Any]] = [{"part": PLAIN}]
        about += [{"part": "marginal", "group": one} for one in groups]
        about += [{"part": name} for name in (*GIVEN, JOINT)]
        keys = (at(results, "loss", **one) for one in about)
        cells = (show(results.statistic(model, key), 4) for key in keys)
        return (write_label(model), *cells)

    return Table(
        name="decisions",
        title="Entity decisions, by part",
        columns=(
            "Model",
            "Words, no decisions",
            *(f"Words, decisions summed out ({_name_group(one)})" for one in groups),
            "Words, told the decisions",
            "A mention begins",
            "Of which entity",
            "How long",
            "Words and decisions",
        ),
        rows=tuple(map(row, models)),
        measures=(
            "What words and entity decisions cost, in nats per token, where EntityNLM's decisions"
            " are learnt from the states of a model that is left as it is."
        ),
        note=(
            "Only the columns before the words that are told the decisions are of the words alone"
            " and may be compared with one another. Told the decisions: the chains of"
            " the annotation, by people who had read on, up to and including the word's own"
            " mention. Words and decisions: more happens, so it costs more by construction. All per"
            " token, whether a decision is taken there or not. The model reads no labels, but for"
            " its own where these follow from the text: a causal resolver's, lagged."
        ),
    )


def _name_group(group: int) -> str:
    return "importance sampling" if group == 1 else f"groups of {group}"


def build_words(results: Results) -> Table:
    """Perplexities per word of what is a probability of the words alone."""
    rows: list[tuple[Cell, ...]] = []
    for model in results.measured(STEP):
        rows += [
            _word_row(results, model, "the model alone", part=PLAIN),
            _word_row(results, model, "a learnt vector added, no entities", part=SHIFT),
        ]
        for group in list_groups(results):
            name = f"decisions summed out, {_name_group(group)}"
            rows.append(_word_row(results, model, name, part="marginal", group=group))
    empty = (MISSING,) * 6
    for name, value in paper.WORD_PERPLEXITIES.items() if results.paper else ():
        rows.append((name, "as the paper prints it", *empty, Number(value, 2)))
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
            " learnt vector is trained as long, on the same text, with as many trials: its gain"
            " needs no entities. The logarithm of an estimate is too small on average, so that a"
            " perplexity is too high rather than too low; where few of the groups count (of each"
            " document, on average) or there are few, it is no more than an upper bound, and its"
            " standard error says little. Words are those of the corpus, of BPE tokens, no word"
            " unknown."
        ),
        paper_note=(
            "The printed ones are over 10,000-word vocabularies with an unknown word, on another"
            " corpus unless this is CoNLL-2012, and are not comparable."
        ),
    )


def _word_row(results: Results, model: ModelEntry, name: str, **about: Any) -> tuple[Cell, ...]:
    error, groups, effective = (
        results.statistic(model, at(results, measured, **about))
        for measured in ("perplexity_word_error", "groups", "effective_groups")
    )
    others = [name for name in (PLAIN, SHIFT) if name == PLAIN or about["part"] == "marginal"]
    gaps = [
        MISSING if name == about["part"] else compare(results, model, STEP, about, {"part": name})
        for name in others
    ]
    return (
        write_label(model),
        name,
        show(results.statistic(model, at(results, "perplexity_word", **about))),
        Number(error.mean),
        Number(groups.mean, 0),
        Number(effective.mean, 1),
        *(*gaps, MISSING)[:2],
        MISSING,
    )


def build_entities(results: Results) -> Table:
    """Which entity is mentioned next: decisions against recency and frequency."""

    def cells(model: ModelEntry, by: str) -> Iterator[Cell]:
        for among in ("any", "known"):
            key = at(results, "cross_entropy", by=by, among=among)
            yield show(results.statistic(model, key), 4)
            key = at(results, "accuracy", by=by, among=among)
            yield show(results.statistic(model, key), percent=True)
            yield Number(results.count(model, key), 0)

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
            (write_label(model), name, *cells(model, by))
            for model in results.measured(STEP)
            for by, name in PREDICTORS.items()
        ),
        measures=(
            "Asked where a mention begins, from the text before it and its mentions so far: which"
            " entity is it of, or is it a new one?"
        ),
        note=(
            "Nats per mention, the lower the better; right: the likeliest one is it. Known: told"
            " that it was mentioned before. Recency and frequency give entities a power of how"
            " recently or how often they were mentioned, and new ones a weight; both numbers are"
            " chosen on the split to choose on. They know no words and are the same for every"
            " model."
        ),
    )


def say(results: Results) -> tuple[str, ...]:
    """What the decisions cost and save each model; and which entity is mentioned next, by them and
    by recency.
    """
    sentences = []
    for model in results.measured(STEP):
        plain, told = (
            Number(results.statistic(model, at(results, "loss", part=part)).mean, 3)
            for part in (PLAIN, GIVEN[0])
        )
        costs = [
            results.statistic(model, at(results, "loss", part=part)).mean for part in GIVEN[1:]
        ]
        nats, recency = (
            Number(
                results.statistic(model, at(results, "cross_entropy", by=by, among="any")).mean, 3
            )
            for by in ("decisions", "recency")
        )
        cost = Number(None if None in costs else math.fsum(filter(None, costs)), 3)
        sentences.append(
            f"{write_label(model)}: told EntityNLM's decisions, its words cost {told} instead of"
            f" {plain} nats per token, and the decisions {cost}; which entity is mentioned next"
            f" costs {nats} nats, by recency {recency}."
        )
    return tuple(sentences)


TABLES = (build_decisions, build_words, build_entities)
