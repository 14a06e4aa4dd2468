"""Opens the files of score-decisions."""

from __future__ import annotations

from pathlib import Path

from entity_transformers.artifacts import write_json
from entity_transformers.cli.trained import open_model, open_split
from entity_transformers.study.params import Params
from entity_transformers.tasks.decisions.comparison import compare_decisions
from entity_transformers.tasks.decisions.training import (
    MOST,
    ReadStory,
    Setting,
    name_labels,
    read_stories,
)
from entity_transformers.tasks.groups import cut_documents


def score_decisions(
    params: Params, corpus: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """Words and decisions of the split decisions.report by what is trained on train and chosen on
    decisions.choose, the words' own probability, and which entity is mentioned next.
    """
    section = params.decisions
    entry, trained = open_model(params, lm, model, seed)
    trained.module.requires_grad_(False)

    def read(split: str) -> list[ReadStory]:
        gold = cut_documents(open_split(corpus, split, "section decisions"), section.tokens, MOST)
        return read_stories(
            trained,
            gold,
            section.labels,
            given=name_labels(entry),
            window=entry.lm.window,
            longest=section.longest,
        )

    report = read(section.report)
    setting = Setting(section.width, section.longest, section.steps, section.learning_rates, seed)
    found = compare_decisions(
        trained,
        read("train"),
        read(section.choose),
        report,
        setting,
        samples=section.samples,
        groups=section.groups,
    )
    facts = {
        "model": model,
        "seed": seed,
        "labels": section.labels,
        "split": section.report,
        "documents": [
            {"document": text.name, "tokens": len(text.tokens), "words": text.words}
            for text in report
        ],
    }
    write_json(output / "decisions.json", facts | found)
