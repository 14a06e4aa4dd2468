"""Step setlm (beyond the paper): entity decisions by SetLM beside a trained model."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from entity_transformers.step import MODEL, TOKENS, Rows, Run, step
from entity_transformers.steps.mentions import MentionLayer
from entity_transformers.study.sections import ChoosingSection, Number, PositiveInt


class SetlmParams(ChoosingSection):
    """SetLM (Kunz and Hardmeier, 2019), learnt from the states of a trained model."""

    labels: MentionLayer
    """whose mentions the decisions are: gold, or resolver:NAME"""
    tokens: PositiveInt
    """of each document, from its start"""
    steps: PositiveInt
    """of 4 times 256 tokens"""
    learning_rates: Annotated[tuple[Annotated[Number, Field(gt=0)], ...], Field(min_length=1)]
    """one is chosen for each of what is trained"""

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if "train" in (self.choose, self.report):
            yield (
                f"choose {self.choose}, report {self.report}: decisions must be scored on text that"
                " nothing was trained on"
            )


@step(
    "setlm",
    "entity decisions token by token, without latent variables",
    params=SetlmParams,
    reads={"corpus": TOKENS, "lm": MODEL},
    needs={"causal", "encode"},
    title="Entity decisions, token by token",
)
def setlm(run: Run) -> Rows:
    """Nats of each document of ``report`` by the model alone (``part`` plain), with a learnt vector
    (shift), by SetLM when nobody tells it anything (alone), told each token's decision (words), and
    of the decisions; and the share of tokens that were decided rightly.
    """
    from entity_transformers.logs import log_progress
    from entity_transformers.tasks.decisions.learning import read_splits
    from entity_transformers.tasks.decisions.set_lm import SetLM, score_alone, score_told, tell_sets

    splits, model = read_splits(run, tell_sets), run.trained
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
        about = {"count": whole, "split": run.section.report}
        yield {"measure": name, "value": part / whole if whole else None, **about}
    yield from splits.describe_rates()
