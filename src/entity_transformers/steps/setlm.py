"""Step setlm (beyond the paper): entity decisions by SetLM (Kunz and Hardmeier, 2019) beside a
trained model: is the next token in a mention, and of which entity?
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from entity_transformers.corpus.document import Split
from entity_transformers.corpus.layers import RESOLVER, is_resolver
from entity_transformers.step import MODEL, TOKENS, Rows, Run, step
from entity_transformers.study.sections import Number, PositiveInt, Section


class SetlmParams(Section):
    """SetLM (Kunz and Hardmeier, 2019), learnt from the states of a trained model."""

    labels: str
    """whose mentions the decisions are: gold, or resolver:NAME"""
    tokens: PositiveInt
    """of each document, from its start"""
    steps: PositiveInt
    """of 4 times 256 tokens"""
    learning_rates: Annotated[tuple[Annotated[Number, Field(gt=0)], ...], Field(min_length=1)]
    """one is chosen for each of what is trained"""
    choose: Split
    """split on which learning rates are chosen"""
    report: Split
    """another split, which is scored"""

    @model_validator(mode="after")
    def _fair(self) -> Self:
        if self.labels != "gold" and not is_resolver(self.labels):
            raise ValueError(f"labels {self.labels!r}, expected gold or {RESOLVER}NAME")
        if self.choose == self.report or "train" in (self.choose, self.report):
            raise ValueError(
                f"choose {self.choose}, report {self.report}: decisions must be scored on text that"
                " nothing was trained or chosen on"
            )
        return self


@step(
    "setlm",
    "entity decisions token by token, without latent variables",
    params=SetlmParams,
    reads={"corpus": TOKENS, "lm": MODEL},
    needs={"causal", "encode"},
    title="Entity decisions, token by token",
    units={
        "loss": "nats per token",
        "nll": "nats",
        "perplexity_word": "perplexity per word",
        "learning_rate": "per step",
        **dict.fromkeys(("accuracy", "precision", "recall", "f1"), "fraction"),
    },
)
def setlm(run: Run) -> Rows:
    """Nats of each document of ``report`` by the model alone (``part`` plain), with a learnt vector
    (shift), by SetLM when nobody tells it anything (alone), told each token's decision (words), and
    of the decisions; and the share of tokens that were decided rightly.
    """
    from entity_transformers.logs import log_progress
    from entity_transformers.tasks.decisions.learning import Splits
    from entity_transformers.tasks.decisions.set_lm import SetLM, score_alone, score_told, tell_sets

    splits, model = Splits(run, tell_sets), run.trained
    nats = splits.score_baselines()
    decider = splits.learn("setlm", lambda: SetLM(model.width), SetLM.nats)
    told = [score_told(model, decider, text) for text in splits.texts]
    alone = [score_alone(model, decider, text) for text in log_progress(splits.texts, "documents")]
    nats["alone"] = [float(one.sum()) for one in alone]
    nats |= {name: [one[name] for one in told] for name in ("words", "decisions")}
    for name, values in nats.items():
        yield from splits.describe(values, {"part": name}, is_cost=name == "decisions")
    named, right, chosen, said = (
        sum(one[name] for one in told) for name in ("named", "right", "chosen", "found")
    )
    shares = {
        "precision": (right, said),
        "recall": (right, named),
        "f1": (2 * right, said + named),
        "accuracy": (chosen, named),
    }
    for name, (part, whole) in shares.items():
        value = part / whole if whole else None
        yield {"measure": name, "value": value, "count": whole, "split": run.section.report}
    yield from splits.describe_rates()
