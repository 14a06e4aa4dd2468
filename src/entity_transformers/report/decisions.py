"""Entity decisions: what they cost and save (step decisions, after EntityNLM; step setlm), and
which entity is mentioned next.
"""

from __future__ import annotations

from collections.abc import Iterator

from entity_transformers.report import pivot
from entity_transformers.report.pivot import Line, Measure, Part, Pivot, Place
from entity_transformers.report.results import Results

DECISIONS, SETLM = "decisions", "setlm"
PLAIN, SHIFT, MARGINAL, ALONE, TOLD = "plain", "shift", "marginal", "alone", "words"
GIVEN = {"begins": "A mention begins", "entities": "Which entity", "lengths": "Mention length"}
"""The parts of the joint probability that are decisions, with headings."""


def _part(part: str, heading: str, measure: str = "loss", digits: int = 4) -> Measure:
    return Measure(heading, measure, digits, place={"part": part})


def _against(heading: str, less: str, **ours: str) -> Measure:
    """Return a column of the nats per token of the row's part (or of ``ours``) minus those of part
    ``less``; the row of the model alone has a dash.
    """

    def other(_: Results, place: Place) -> Place | None:
        return None if place["part"] == PLAIN else {"part": less, "group": ""}

    return Measure(heading, "loss", 4, place=ours, against=other)


COSTS = Pivot(
    name="decisions",
    title="Entity decisions, by part",
    step=DECISIONS,
    rows=(pivot.first_split, pivot.models),
    columns=(
        _part(PLAIN, "Words, no decisions"),
        _part(TOLD, "Words, told the decisions"),
        *(_part(part, heading) for part, heading in GIVEN.items()),
        _part("joint", "Words and decisions"),
    ),
    measures="""What words and entity decisions cost, in nats per token, if EntityNLM's decisions
        are learnt from the states of a model whose weights are frozen.""",
    note="""“Told” means that the annotated chains are known, up to and including the word's own
        mention. Only the first column is a loss of the words alone.""",
)


def _estimates(results: Results, _: Place) -> Iterator[Line]:
    """Yield a row for each estimate of the probability of the words alone."""
    yield {"Estimate": "the model alone"}, {"part": PLAIN}
    yield {"Estimate": "a learnt vector added, no entities"}, {"part": SHIFT}
    sizes = results.frame.distinct("group", DECISIONS, measure="groups")
    for size in sorted(sizes, key=int):
        name = "importance sampling" if size == "1" else f"groups of {size}"
        text = f"decisions summed out, {name}"
        yield {"Estimate": text}, {"part": MARGINAL, "group": size}


WORDS = Pivot(
    name="decisions_words",
    title="Perplexity per word with entity decisions",
    step=DECISIONS,
    rows=(pivot.first_split, pivot.models, _estimates),
    columns=(
        Measure("PPL per word", "perplexity_word"),
        Measure("Standard error", "perplexity_word_error", shows="plain"),
        Measure("Groups", "groups", 0, shows="plain"),
        Measure("Effective groups", "effective_groups", 1, shows="plain"),
        _against("Against the model alone", PLAIN),
        _against("Against a learnt vector", SHIFT),
    ),
    measures="""Do entity decisions make words more likely if they are not given? Only the words are
        predicted; the sum over all decisions is estimated from samples.""",
    note="""Differences are in nats per token. The learnt vector, which is trained as long, shows
        what can be gained without entities. If few groups count, the perplexity is only an upper
        bound, and its standard error says little.""",
)
NEXT = Pivot(
    name="decisions_entities",
    title="Which entity is mentioned next?",
    step=DECISIONS,
    rows=(
        pivot.first_split,
        pivot.models,
        pivot.found("by", "Ranked by", measure="cross_entropy"),
    ),
    columns=(
        pivot.cross(
            pivot.values("among", {"any": "any or new", "known": "known"}, "Among"),
            (
                Measure("Nats", "cross_entropy", 4),
                Measure("Right", "accuracy", percent=True),
                Measure("Mentions", "accuracy", shows="count"),
            ),
            "{1}, {0}",
        ),
    ),
    measures="""At the beginning of a mention: does it refer to a new entity or, if not, to which
        earlier one, given the text and the mentions before it?""",
    note="""Nats are per mention. “Known” means given that the entity was mentioned before. Recency
        and frequency weigh entities by a power of how recently or how often they were mentioned,
        which is chosen on the other split.""",
)


TOKENS = Pivot(
    name="setlm",
    title="Entity decisions, token by token",
    step=SETLM,
    rows=(pivot.first_split, pivot.models),
    columns=(
        _part(PLAIN, "Words, no decisions"),
        _part(SHIFT, "A learnt vector added"),
        _part(ALONE, "Words, decisions summed out"),
        _against("Against the model alone", PLAIN, part=ALONE),
        _against("Against a learnt vector", SHIFT, part=ALONE),
        _part(TOLD, "Words, told the decisions"),
        _part("decisions", "Decisions"),
        _part(PLAIN, "PPL per word, no decisions", "perplexity_word", 2),
        _part(ALONE, "PPL per word, summed out", "perplexity_word", 2),
        _part(TOLD, "PPL per word, told", "perplexity_word", 2),
    ),
    measures="""Do words become more likely if the model decides for each whether it is in a
        mention, and of which entity (SetLM)?""",
    note="""Losses are in nats per token. “Summed out” is the exact sum over both cases, with the
        entities that the model itself has found. “Told” means that it knows whether the word is
        in a mention, which is how SetLM's published code scores words; this is not the probability
        of a language model.""",
)
DECIDED = Pivot(
    name="setlm_decided",
    title="Is the next token in a mention, and of which entity?",
    step=SETLM,
    rows=(pivot.first_split, pivot.models),
    columns=(
        Measure("Precision", "precision", percent=True),
        Measure("Recall", "recall", percent=True),
        Measure("F1", "f1", percent=True),
        Measure("Right entity", "accuracy", percent=True),
        Measure("Tokens in mentions", "recall", shows="count"),
    ),
    measures="The likeliest candidate for each token, given the chains so far.",
    note="""Values are percentages of tokens. The candidates are none, a new entity, and every
        entity so far. “Right entity” is the share of the tokens in mentions for which the right
        entity is the likeliest candidate.""",
)


def say_setlm(results: Results) -> Iterator[str]:
    """State for each model what the summed-out decisions gain over a learnt vector."""
    place, gaps = {"step": SETLM, "split": results.split(SETLM), "measure": "loss"}, []
    for model in results.measured(SETLM):
        alone, shift = ({**place, "model": model, "part": part} for part in (ALONE, SHIFT))
        gaps.append(f"{model.label} {pivot.subtract(results, alone, shift)}")
    if gaps:
        what = "SetLM's decisions summed out minus a learnt vector, in nats per token"
        yield f"{what}: {', '.join(gaps)}."


PARTS = (Part(DECISIONS, (COSTS, WORDS, NEXT)), Part(SETLM, (TOKENS, DECIDED), say=say_setlm))
