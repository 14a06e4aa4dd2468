"""Step decisions (beyond the paper): entity decisions by EntityNLM (Ji et al., 2017) beside a
trained model: is the next token in a mention, of which entity, for how long?
"""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Self

from pydantic import Field, model_validator

from entity_transformers.step import MODEL, TOKENS, Rows, Run, step
from entity_transformers.steps.setlm import SetlmParams
from entity_transformers.study.sections import PositiveInt

COSTS = ("begins", "entities", "lengths")
GIVEN = ("words", *COSTS)
"""The parts of the joint probability."""


class DecisionsParams(SetlmParams):
    """EntityNLM (Ji et al., 2017), learnt from the states of a trained model."""

    width: PositiveInt
    """of an entity's embedding"""
    longest: PositiveInt
    """tokens of a mention; a longer one is several, one after the other"""
    samples: PositiveInt
    """of a document's decisions, to sum over them"""
    groups: Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
    """samples that are drawn again together by their weights; 1: importance sampling"""

    @model_validator(mode="after")
    def _whole_groups(self) -> Self:
        if list(self.groups) != sorted(set(self.groups)):
            raise ValueError(f"groups {list(self.groups)}: expected different ones, smallest first")
        for group in self.groups:
            if self.samples % group or self.samples < 2 * group:
                raise ValueError(
                    f"samples {self.samples} do not make two or more whole groups of {group}"
                )
        return self


@step(
    "decisions",
    "entity decisions: is the next token in a mention, of which entity, for how long",
    params=DecisionsParams,
    reads={"corpus": TOKENS, "lm": MODEL},
    needs={"causal", "encode"},
    libraries=("scipy",),
    title="Entity decisions",
    units={
        "loss": "nats per token",
        "nll": "nats",
        "perplexity_word": "perplexity per word",
        "perplexity_word_error": "perplexity per word",
        "effective_groups": "groups",
        "groups": "groups",
        "learning_rate": "per step",
        "cross_entropy": "nats per mention",
        "accuracy": "fraction",
    },
)
def decisions(run: Run) -> Rows:
    """Nats of each document of ``report``. ``part`` says of what: the words by the model alone
    (plain) or with a learnt vector (shift), words given gold decisions (words), the decisions
    (begins, entities, lengths), both together (joint), the words without any decision (marginal, by
    ``group``). And which entity is mentioned next, by the decisions and by baselines.
    """
    import numpy as np

    from entity_transformers.logs import log_progress
    from entity_transformers.tasks.decisions.entity_nlm import Decider, score_parts
    from entity_transformers.tasks.decisions.marginal import estimate_marginal
    from entity_transformers.tasks.decisions.prediction import (
        BASELINES,
        judge_baseline,
        judge_decider,
    )
    from entity_transformers.tasks.decisions.reading import read_splits
    from entity_transformers.tasks.decisions.story import tell_story

    section = run.section
    read = read_splits(run, partial(tell_story, longest=section.longest))

    def make() -> Decider:
        return Decider(run.trained.width, section.width, section.longest)

    decider, rate = read.learn(make, Decider.joint, "decisions")
    proposal, proposal_rate = read.learn(make, Decider.propose, "proposal")
    scored = [score_parts(run.trained, decider, text) for text in read.texts]
    nats = {"plain": read.plain, "shift": read.shift}
    nats |= {name: [one[name] for one in scored] for name in GIVEN}
    nats["joint"] = [math.fsum(parts) for parts in zip(*map(nats.get, GIVEN), strict=True)]
    for name, values in nats.items():
        yield from read.describe(values, {"part": name}, is_cost=name in COSTS)
    for group in section.groups:
        how = {"samples": section.samples, "group": group, "seed": run.seed}
        estimates = [
            estimate_marginal(run.trained, decider, proposal, text, **how)
            for text in log_progress(read.texts, f"documents, samples in groups of {group}")
        ]
        about = {"part": "marginal", "group": group}
        yield from read.describe([one["nats"] for one in estimates], about)
        error = math.sqrt(math.fsum(one["error"] ** 2 for one in estimates))
        perplexity = math.exp(math.fsum(one["nats"] for one in estimates) / read.words)
        sure = {  # how sure the estimate is
            "perplexity_word_error": perplexity * error / read.words,
            "effective_groups": float(np.mean([one["effective"] for one in estimates])),
            "groups": section.samples // group,
        }
        for name, value in sure.items():
            yield {"measure": name, "value": value, "split": read.split, **about}
    rates = {"shift": read.rate, "decisions": rate, "proposal": proposal_rate}
    for name, value in rates.items():
        about = {"split": read.split, "trained": name}
        yield {"measure": "learning_rate", "value": value, **about}
    judged = {"decisions": judge_decider(decider, read.texts)} | {
        name: judge_baseline(name, read.choose, read.texts) for name in BASELINES
    }
    for by, found in judged.items():
        for among in ("any", "known"):
            one = found[among]
            about = {"split": read.split, "by": by, "among": among, "count": one["mentions"]}
            for name in ("cross_entropy", "accuracy"):
                yield {"measure": name, "value": one[name] if one["mentions"] else None, **about}
