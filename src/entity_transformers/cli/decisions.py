"""Opens the files of score-decisions and score-setlm."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from entity_transformers.artifacts import write_json
from entity_transformers.cli.trained import open_model, open_split
from entity_transformers.logs import log_progress
from entity_transformers.models.base import LanguageModel
from entity_transformers.study.params import Params
from entity_transformers.tasks.decisions.entity_nlm import Decider, score_parts
from entity_transformers.tasks.decisions.learning import (
    ReadText,
    Shift,
    learn,
    name_labels,
    read_texts,
    sum_words,
)
from entity_transformers.tasks.decisions.marginal import estimate_marginal
from entity_transformers.tasks.decisions.prediction import (
    BASELINES,
    judge_baseline,
    judge_decider,
)
from entity_transformers.tasks.decisions.set_lm import SetLM, score_alone, score_told, tell_sets
from entity_transformers.tasks.decisions.story import tell_story
from entity_transformers.tasks.memory.training import cut_documents

MOST = 500_000
"""Tokens of a split, whose stories are held whole: of more every k-th document is read."""
Learn = Callable[..., tuple[Any, float]]


def _read_splits(
    name: str,
    params: Params,
    corpus: Path,
    lm: Path,
    model: str,
    seed: int,
    tell: Callable[..., Any],
) -> tuple[LanguageModel, list[list[ReadText]], Learn, dict[str, Any]]:
    """For section ``name``: a trained model, the texts to choose on and to report, `learn` from
    them, and what the step's file says first: of the run, and the ``nats`` of each document by the
    model alone (plain) and with a learnt vector (shift).
    """
    section: Any = getattr(params, name)
    entry, trained = open_model(params, lm, model, seed)
    trained.module.requires_grad_(False)
    how: dict[str, Any] = {"given": name_labels(entry), "window": entry.lm.window}

    def read(split: str) -> list[ReadText]:
        gold = cut_documents(open_split(corpus, split, f"section {name}"), section.tokens, MOST)
        return read_texts(trained, gold, section.labels, tell, **how)

    train, choose, texts = map(read, ("train", section.choose, section.report))
    setting = section.steps, section.learning_rates, seed
    learn_one = partial(learn, trained, train, choose, *setting)
    shift, rate = learn_one(lambda: Shift(trained.width), Shift.nats, "shift")
    facts = {
        "model": model,
        "seed": seed,
        "labels": section.labels,
        "split": section.report,
        "learning_rates": {"shift": rate},
        "documents": [
            {"document": text.name, "tokens": len(text.tokens), "words": text.words}
            for text in texts
        ],
        "nats": {
            "plain": [float(text.plain.sum()) for text in texts],
            "shift": [sum_words(trained, text.states + shift.vector, text) for text in texts],
        },
    }
    return trained, [choose, texts], learn_one, facts


def score_decisions(
    params: Params, corpus: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """Words and decisions of the split decisions.report by what is trained on train and chosen on
    decisions.choose, by part; the words' own probability, for each size of groups; and which entity
    is mentioned next, by the decisions and by baselines.
    """
    section = params.decisions
    tell = partial(tell_story, longest=section.longest)
    trained, (choose, texts), learn_one, found = _read_splits(
        "decisions", params, corpus, lm, model, seed, tell
    )

    def make() -> Decider:
        return Decider(trained.width, section.width, section.longest)

    decider, rate = learn_one(make, Decider.joint, "decisions")
    proposal, proposal_rate = learn_one(make, Decider.propose, "proposal")
    found["learning_rates"] |= {"decisions": rate, "proposal": proposal_rate}
    parts = [score_parts(trained, decider, text) for text in texts]
    found["nats"] |= {name: [part[name] for part in parts] for name in parts[0]}
    found["marginal"] = []
    for group in section.groups:
        how = {"samples": section.samples, "group": group, "seed": seed}
        estimates = [
            estimate_marginal(trained, decider, proposal, text, **how)
            for text in log_progress(texts, f"documents, samples in groups of {group}")
        ]
        lists = {name: [one[name] for one in estimates] for name in estimates[0]}
        found["marginal"].append({"group": group, "samples": section.samples} | lists)
    found["prediction"] = {"decisions": judge_decider(decider, texts)} | {
        name: judge_baseline(name, choose, texts) for name in BASELINES
    }
    write_json(output / "decisions.json", found)


def score_setlm(
    params: Params, corpus: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """SetLM beside a trained model, learnt on train and chosen on setlm.choose: nats of each
    document of setlm.report by the model alone, with a learnt vector, told the decisions (words and
    decisions), and when nobody tells them (alone); and how many tokens were decided how.
    """
    trained, (_, texts), learn_one, found = _read_splits(
        "setlm", params, corpus, lm, model, seed, tell_sets
    )
    decider, found["learning_rates"]["setlm"] = learn_one(
        lambda: SetLM(trained.width), SetLM.nats, "SetLM"
    )
    told = [score_told(trained, decider, text) for text in texts]
    alone = [score_alone(trained, decider, text) for text in log_progress(texts, "documents")]
    nats = {name: [one[name] for one in told] for name in ("words", "decisions")}
    found["nats"] |= {"alone": [float(one.sum()) for one in alone], **nats}
    names = ("named", "found", "right", "chosen")
    found["decided"] = {name: sum(one[name] for one in told) for name in names}
    write_json(output / "setlm.json", found)
