"""What a model and entity decisions beside it make of a split: the numbers of decisions.json."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from entity_transformers.logs import log_progress
from entity_transformers.models.base import LanguageModel
from entity_transformers.tasks.decisions.decider import Decider
from entity_transformers.tasks.decisions.marginal import estimate_marginal
from entity_transformers.tasks.decisions.prediction import (
    FACTS,
    choose_baseline,
    judge,
    score_candidates,
)
from entity_transformers.tasks.decisions.training import (
    ReadStory,
    Setting,
    Shift,
    joint_loss,
    learn,
    proposal_loss,
    score_shift,
    score_story,
    shift_loss,
)


def compare_decisions(
    model: LanguageModel,
    train: Sequence[ReadStory],
    choose: Sequence[ReadStory],
    report: Sequence[ReadStory],
    setting: Setting,
    *,
    samples: int,
    groups: Sequence[int],
) -> dict[str, Any]:
    """Entries of decisions.json about the split to report.

    nats        of each document: the model alone (plain), with a learnt vector added to its states
                (shift), its words given the decisions (words), and the decisions by part
    marginal    for each size of groups, of each document: nats without decisions, their standard
                error, and groups that count
    prediction  which entity is mentioned next, by the decisions and by baselines
    """

    def make() -> Decider:
        return Decider(model.width, setting.width, setting.longest)

    texts = (train, choose, setting)
    decider, rate = learn(make, joint_loss(model), *texts, "decisions")
    proposal, proposal_rate = learn(make, proposal_loss, *texts, "proposal")
    shift, shift_rate = learn(lambda: Shift(model.width), shift_loss(model), *texts, "shift")
    parts = [score_story(model, decider, text) for text in report]
    nats = {name: [part[name] for part in parts] for name in parts[0]}
    nats["plain"] = [float(text.plain.sum()) for text in report]
    nats["shift"] = [score_shift(model, shift, text) for text in report]
    marginal = []
    for group in groups:
        found = [
            estimate_marginal(
                model, decider, proposal, text, samples=samples, group=group, seed=setting.seed
            )
            for text in log_progress(report, f"documents, samples in groups of {group}")
        ]
        lists = {name: [getattr(one, name) for one in found] for name in found[0]._fields}
        marginal.append({"group": group, "samples": samples} | lists)
    rates = {"decisions": rate, "proposal": proposal_rate, "shift": shift_rate}
    return {
        "nats": nats,
        "marginal": marginal,
        "learning_rates": rates,
        "prediction": _predict(decider, choose, report),
    }


def _predict(
    decider: Decider, choose: Sequence[ReadStory], report: Sequence[ReadStory]
) -> dict[str, Any]:
    layouts = [text.layout for text in report]
    found: dict[str, Any] = {"decisions": judge(score_candidates(decider, report), layouts)}
    for name in FACTS:
        chosen = choose_baseline(name, choose)
        found[name] = judge([chosen.score(layout) for layout in layouts], layouts)
        found[name] |= {"power": chosen.power, "new": chosen.new}
    return found
