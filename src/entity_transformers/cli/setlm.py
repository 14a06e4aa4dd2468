"""Opens the files of score-setlm."""

from __future__ import annotations

from pathlib import Path

from entity_transformers.artifacts import write_json
from entity_transformers.cli.trained import open_model, open_split
from entity_transformers.logs import log_progress
from entity_transformers.study.params import Params
from entity_transformers.tasks.decisions.set_lm import (
    SetLM,
    SetStory,
    lay_out_sets,
    score_alone,
    score_told,
    set_loss,
)
from entity_transformers.tasks.decisions.training import (
    MOST,
    Setting,
    Shift,
    learn,
    name_labels,
    read_stories,
    score_shift,
    shift_loss,
)
from entity_transformers.tasks.groups import cut_documents

WHOLE = 10**6
"""Longer than any mention: SetLM knows no lengths."""


def score_setlm(
    params: Params, corpus: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """SetLM beside a trained model, learnt on train and chosen on setlm.choose: nats of each
    document of setlm.report by the model alone, with a learnt vector, told the decisions, and when
    nobody tells them.
    """
    section = params.setlm
    entry, trained = open_model(params, lm, model, seed)
    trained.module.requires_grad_(False)

    def read(split: str) -> list[SetStory]:
        gold = cut_documents(open_split(corpus, split, "section setlm"), section.tokens, MOST)
        stories = read_stories(
            trained,
            gold,
            section.labels,
            given=name_labels(entry),
            window=entry.lm.window,
            longest=WHOLE,
        )
        return list(map(lay_out_sets, stories))

    texts = read(section.report)
    setting = Setting(trained.width, WHOLE, section.steps, section.learning_rates, seed)
    known = (read("train"), read(section.choose), setting)
    decider, rate = learn(lambda: SetLM(trained.width), set_loss(trained), *known, "SetLM")
    shift, shift_rate = learn(lambda: Shift(trained.width), shift_loss(trained), *known, "shift")
    told = [score_told(trained, decider, text) for text in texts]
    alone = [score_alone(trained, decider, text) for text in log_progress(texts, "documents")]
    facts = {
        "model": model,
        "seed": seed,
        "labels": section.labels,
        "split": section.report,
        "learning_rates": {"setlm": rate, "shift": shift_rate},
        "documents": [
            {
                "document": text.name,
                "tokens": len(text.tokens),
                "words": text.words,
                "nats": {
                    "plain": float(text.plain.sum()),
                    "shift": score_shift(trained, shift, text),
                    "alone": float(nats.sum()),
                    "words": one.words,
                    "decisions": one.decisions,
                },
                "decided": {
                    name: getattr(one, name) for name in ("named", "found", "right", "chosen")
                },
            }
            for text, one, nats in zip(texts, told, alone, strict=True)
        ],
    }
    write_json(output / "setlm.json", facts)
