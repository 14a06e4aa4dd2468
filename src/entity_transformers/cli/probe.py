"""Opens the files of probe-attention."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from entity_transformers.artifacts import write_csv, write_json
from entity_transformers.corpus.stored import Documents
from entity_transformers.cli.trained import open_model
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.study.params import Params
from entity_transformers.tasks.probe.heads import score_heads
from entity_transformers.tasks.probe.questions import ask
from entity_transformers.tasks.probe.scoring import (
    DOCUMENT_COLUMNS,
    HEAD_COLUMNS,
    choose_heads,
    document_rows,
    head_rows,
    summarise_heads,
    summarise_questions,
)


def probe_attention(
    params: Params, corpus: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """Heads that point to antecedents: chosen on one split, scored on another; baselines."""
    entry, trained = open_model(params, lm, model, seed)
    section, window = params.probe, entry.lm.window
    how: dict[str, Any] = {"window": window, "batch": section.batch, "pooling": section.pooling}
    gold = [
        AlignedCorpus.load(corpus / f"{split}.safetensors").head(section.documents)
        for split in (section.choose, section.report)
    ]
    texts = [Documents(corpus / f"{split.split}.jsonl")[: section.documents] for split in gold]
    asked = [
        ask(text, split, section.groups, window=window, tokens=section.tokens)
        for text, split in zip(texts, gold, strict=True)
    ]
    choosing, reported = asked
    first = score_heads(trained, give(gold[0], entry.labels, seed), choosing, **how)
    profiles = {key: scores.profile for key, scores in first.items()}
    second = score_heads(
        trained, give(gold[1], entry.labels, seed), reported, **how, profiles=profiles
    )
    groups, splits = list(section.groups), (section.choose, section.report)
    chosen = choose_heads(first, choosing, groups)
    summary = {
        "choose": section.choose,
        "report": section.report,
        "splits": {
            split: summarise_questions(questions, groups)
            for split, questions in zip(splits, asked, strict=True)
        },
        "attention": summarise_heads(chosen, (first, second), (choosing, reported), groups),
    }
    rows = head_rows(section.choose, first, choosing, groups) + head_rows(
        section.report, second, reported, groups
    )
    facts = {"model": model, "seed": seed, "labels": entry.labels}
    write_json(output / "probe.json", facts | summary)
    write_csv(output / "heads.csv", rows, HEAD_COLUMNS)
    write_csv(
        output / "documents.csv",
        document_rows(chosen, second, reported, gold[1].names, groups),
        DOCUMENT_COLUMNS,
    )
