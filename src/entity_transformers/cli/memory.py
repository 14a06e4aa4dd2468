"""Opens the files of score-memory."""

from __future__ import annotations

from pathlib import Path

from entity_transformers.artifacts import write_json
from entity_transformers.cli.trained import open_model, open_split
from entity_transformers.study.params import Params
from entity_transformers.tasks.memory.comparison import (
    Setting,
    Texts,
    compare_memories,
    measure_ceilings,
    summarise,
)
from entity_transformers.tasks.memory.training import cut_documents, read_texts


def score_memory(
    params: Params, corpus: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """The loss of the split memory.report with a memory of each policy and size, whose pointer is
    trained on train and chosen on memory.choose.
    """
    section = params.memory
    entry, trained = open_model(params, lm, model, seed)
    splits = [
        open_split(corpus, split, "section memory")
        for split in ("train", section.choose, section.report)
    ]
    splits[0] = cut_documents(splits[0], section.tokens)
    texts = Texts(
        *(read_texts(trained, gold, section.labels, window=entry.lm.window) for gold in splits)
    )
    setting = Setting(section.width, section.forms, section.steps, section.learning_rates, seed)
    outcomes = list(compare_memories(texts, section.policies, section.sizes, setting))
    facts = {
        "model": model,
        "seed": seed,
        "labels": section.labels,
        "split": section.report,
        "window": entry.lm.window,
        "documents": [{"document": text.name, "tokens": len(text.tokens)} for text in texts.report],
    }
    memories = summarise(outcomes, texts.report, setting, entry.lm.window)
    ceilings = measure_ceilings(texts, max(section.sizes), setting)
    write_json(output / "memory.json", facts | {"memories": memories, "ceilings": ceilings})
