"""SetLM: the words alone, when nobody tells the decisions, against the model and a learnt vector;
what they are when told; and how well it is decided whether a token is in a mention.
"""

from __future__ import annotations

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.frame import Key
from entity_transformers.report.frame import at as key
from entity_transformers.report.intervals import subtract as compare
from entity_transformers.report.results import Results, write_label
from entity_transformers.report.table import Cell, Number, Table, show

TITLE, STEP = "Entity decisions, token by token", "setlm"
PLAIN, SHIFT, ALONE, TOLD, DECISIONS = "plain", "shift", "alone", "words", "decisions"


def at(results: Results, name: str, **about: str) -> Key:
    split = results.split(STEP)
    return key(STEP, name, split, **about)


def build_setlm(results: Results) -> Table:
    """A row per model: nats per token of words and decisions, and perplexities per word."""

    def gap(model: ModelEntry, other: str) -> Cell:
        return compare(results, model, STEP, {"part": ALONE}, {"part": other})

    def loss(model: ModelEntry, part: str, name: str = "loss", digits: int = 4) -> Cell:
        return show(results.statistic(model, at(results, name, part=part)), digits)

    return Table(
        name="setlm",
        title="Entity decisions, token by token",
        columns=(
            "Model",
            "Words, no decisions",
            "A learnt vector added",
            "Words, nobody tells",
            "Against the model alone",
            "Against a learnt vector",
            "Words, told the decisions",
            "Decisions",
            "PPL per word, no decisions",
            "PPL per word, nobody tells",
            "PPL per word, told",
        ),
        rows=tuple(
            (
                write_label(model),
                *(loss(model, part) for part in (PLAIN, SHIFT, ALONE)),
                *(gap(model, other) for other in (PLAIN, SHIFT)),
                *(loss(model, part) for part in (TOLD, DECISIONS)),
                *(loss(model, part, "perplexity_word", 2) for part in (PLAIN, ALONE, TOLD)),
            )
            for model in results.measured(STEP)
        ),
        measures=(
            "Does it make words likelier to decide of each whether it is in a mention, and of which"
            " entity, where the decisions are learnt from the states of a model that is left as it"
            " is (SetLM)?"
        ),
        note=(
            "Nats per token. Nobody tells: each word's probability is the sum over its two ways,"
            " and the entities so far are what the model itself has taken for mentions; it is"
            " exact, and of the words alone, as are the model's own and that with a learnt vector,"
            " which is trained as long with as many trials. Told the decisions: whether the word"
            " itself is in a mention is given, by people who have read it, as the code that SetLM's"
            " first author has published scores words; it is no language model's probability."
            " Intervals are over documents and seeds."
        ),
    )


def build_decided(results: Results) -> Table:
    """A row per model: is the next token in a mention, and of which entity?"""
    names = {"precision": "Precision", "recall": "Recall", "f1": "F1", "accuracy": "Right entity"}
    key = {name: at(results, name) for name in names}
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
            for model in results.measured(STEP)
        ),
        measures="The likeliest candidate of each token, where the chains so far are known.",
        note=(
            "In percent of tokens. Candidates: none, a new entity, and every one so far. Right"
            " entity: of the tokens in mentions, those whose own is the likeliest of all."
        ),
    )


def say(results: Results) -> tuple[str, ...]:
    """What the decisions are worth to each model's words when nobody tells them."""
    said = [
        f"{write_label(model)} {compare(results, model, STEP, {'part': ALONE}, {'part': SHIFT})}"
        for model in results.measured(STEP)
    ]
    what = "SetLM's decisions, which nobody tells, against a learnt vector, in nats per token: "
    return (f"{what}{', '.join(said)}.",) if said else ()


TABLES = (build_setlm, build_decided)
