"""Opens the files of score-lambada."""

from __future__ import annotations

from pathlib import Path

from entity_transformers.artifacts import read_json_lines, read_tokenizer, write_csv, write_json
from entity_transformers.cli.trained import open_model
from entity_transformers.study.params import Params
from entity_transformers.tasks.lambada import (
    PASSAGE_COLUMNS,
    encode_passages,
    passage_rows,
    score_passages,
    summarise_passages,
)


def score_lambada(
    params: Params, corpus: Path, passages: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """Perplexity and accuracy on the passages, and the nats of each."""
    entry, trained = open_model(params, lm, model, seed)
    tokenizer = read_tokenizer(corpus / "tokenizer.json")
    encoded = encode_passages(list(read_json_lines(passages / "lambada.jsonl")), tokenizer)
    scores = score_passages(trained, encoded, window=entry.lm.window, batch=params.perplexity.batch)
    facts = {"model": model, "seed": seed, "labels": "none"}
    write_json(output / "lambada.json", facts | summarise_passages(scores, params.lambada.text))
    write_csv(output / "passages.csv", passage_rows(scores), PASSAGE_COLUMNS)
