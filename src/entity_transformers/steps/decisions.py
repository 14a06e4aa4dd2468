"""Step decisions (beyond the paper): entity decisions by EntityNLM beside a trained model."""

import math
from collections.abc import Iterator
from functools import partial
from typing import Annotated

from pydantic import Field

from entity_transformers.step import MODEL, TOKENS, Rows, Run, step
from entity_transformers.steps.setlm import SetlmParams
from entity_transformers.study.sections import Ascending, PositiveInt, Size, Width


class DecisionsParams(SetlmParams):
    """EntityNLM (Ji et al., 2017), learnt from the states of a trained model."""

    width: Width
    """of an entity's embedding"""
    longest: PositiveInt
    """tokens of a mention; a longer one is several, one after the other"""
    samples: Size
    """of a document's decisions, to sum over them"""
    groups: Annotated[tuple[PositiveInt, ...], Ascending, Field(min_length=1)]
    """samples that are drawn again together by their weights; 1: importance sampling"""

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        for group in self.groups:
            if self.samples % group or self.samples < 2 * group:
                yield (f"samples {self.samples} do not make two or more whole groups of {group}")


@step(
    "decisions",
    "entity decisions: is the next token in a mention, of which entity, for how long",
    params=DecisionsParams,
    reads={"corpus": TOKENS, "lm": MODEL},
    needs={"causal", "encode"},
    libraries=("scipy", "pandas"),
    title="Entity decisions",
)
def decisions(run: Run) -> Rows:
    """Nats of each document of ``report``. ``part`` says of what: the words by the model alone
    (plain) or with a learnt vector (shift), words given gold decisions (words), the decisions
    (begins, entities, lengths), both together (joint), the words without any decision (marginal, by
    ``group``). And which entity is mentioned next, by the decisions and by baselines.
    """
    import numpy as np

    from entity_transformers.logs import log_progress
    from entity_transformers.tasks.decisions import entity_nlm as nlm
    from entity_transformers.tasks.decisions.learning import read_splits
    from entity_transformers.tasks.decisions.marginal import estimate_marginal

    section = run.section
    splits = read_splits(run, partial(nlm.tell_story, longest=section.longest))
    nats = splits.score_baselines()
    make = partial(nlm.Decider, run.trained.width, section.width, section.longest)
    decider = splits.learn("decisions", make, nlm.Decider.joint)
    proposal = splits.learn("proposal", make, nlm.Decider.propose)
    scored = [nlm.score_parts(run.trained, decider, text) for text in splits.texts]
    nats |= {name: [one[name] for one in scored] for name in ("words", *nlm.KINDS)}
    nats["joint"] = [math.fsum(one.values()) for one in scored]
    for name, values in nats.items():
        yield from splits.describe(values, {"part": name}, is_cost=name in nlm.KINDS)
    for group in section.groups:
        how = {"samples": section.samples, "group": group, "seed": run.seed}
        estimates = [
            estimate_marginal(run.trained, decider, proposal, text, **how)
            for text in log_progress(splits.texts, f"documents, samples in groups of {group}")
        ]
        about = {"part": "marginal", "group": group}
        yield from splits.describe([one["nats"] for one in estimates], about)
        error = math.sqrt(math.fsum(one["error"] ** 2 for one in estimates))
        perplexity = math.exp(math.fsum(one["nats"] for one in estimates) / splits.words)
        sure = {  # how sure the estimate is
            "perplexity_word_error": perplexity * error / splits.words,
            "effective_groups": float(np.mean([one["effective"] for one in estimates])),
            "groups": section.samples // group,
        }
        for name, value in sure.items():
            yield {"measure": name, "value": value, "split": section.report, **about}
    yield from splits.describe_rates()
    judged = {"decisions": nlm.judge_decider(decider, splits.texts)} | {
        name: nlm.judge_baseline(name, splits.choose, splits.texts) for name in nlm.BASELINES
    }
    for by, found in judged.items():
        for among, one in found.items():
            about = {"split": section.report, "by": by, "among": among, "count": one["mentions"]}
            for name in ("cross_entropy", "accuracy"):
                yield {"measure": name, "value": one[name] if one["mentions"] else None, **about}
