"""Opens the files of score-perplexity and score-lambada."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from entity_transformers import runtime
from entity_transformers.artifacts import read_json_lines, read_tokenizer, write_csv, write_json
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.models.registry import label_corpus, load_model
from entity_transformers.study.params import Params
from entity_transformers.tasks.lambada import (
    encode_passages,
    passage_rows,
    score_passages,
    summarise_passages,
)
from entity_transformers.tasks.perplexity import document_rows, score_modes, summarise_split

DOCUMENT_COLUMNS = ("split", "document", "tokens", "nll_on", "nll_off", "nll_shuffled")


def score_perplexity(
    params: Params, corpus: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """Each split's perplexity, its parts, and the nats of each document."""
    trained = load_model(lm, runtime.start(params.run.device, params.run.threads, seed))
    how = {
        "window": trained.config.n_positions,
        "stride": params.perplexity.stride,
        "batch": params.perplexity.batch,
    }
    splits: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    for split in params.perplexity.splits:
        gold = AlignedCorpus.load(corpus / f"{split}.safetensors")
        if not len(gold):
            raise ValueError(
                f"perplexity.splits names {split!r}, of which the corpus has no document: leave"
                " it out"
            )
        scores = score_modes(trained, label_corpus(gold, model, seed), **how, seed=seed)
        splits[split] = summarise_split(gold, scores, params.similarity.groups)
        rows += document_rows(gold, scores)
    write_json(output / "perplexity.json", {"model": model, "seed": seed, "splits": splits})
    write_csv(output / "documents.csv", rows, DOCUMENT_COLUMNS)


def score_lambada(
    params: Params, corpus: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """Perplexity and accuracy on the passages, and the nats of each."""
    trained = load_model(lm, runtime.start(params.run.device, params.run.threads, seed))
    tokenizer = read_tokenizer(corpus / "tokenizer.json")
    passages = encode_passages(list(read_json_lines(corpus / "lambada.jsonl")), tokenizer)
    scores = score_passages(
        trained, passages, window=trained.config.n_positions, batch=params.perplexity.batch
    )
    write_json(
        output / "lambada.json",
        {"model": model, "seed": seed} | summarise_passages(scores, params.lambada.text),
    )
    write_csv(output / "passages.csv", passage_rows(scores), DOCUMENT_COLUMNS)
