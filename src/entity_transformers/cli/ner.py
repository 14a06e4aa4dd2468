"""Opens the files of train-ner and score-ner."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from entity_transformers import runtime
from entity_transformers.artifacts import read_arrays, write_arrays, write_csv, write_json
from entity_transformers.corpus.stored import Documents
from entity_transformers.cli.flags import Flag
from entity_transformers.study.params import Params
from entity_transformers.tasks.ner.dataset import TaggedSentences, build_sentences, list_labels
from entity_transformers.tasks.ner.scoring import count_spans, score
from entity_transformers.tasks.ner.tagger import Tagger, load_tagger, state_arrays
from entity_transformers.tasks.ner.training import Epoch, predict, train_tagger

log = logging.getLogger(__name__)
DOCUMENT_COLUMNS = ("split", "document", "correct", "predicted", "gold")


def train_ner(
    params: Params, corpus: Path, embeddings: Path, model: str, seed: int, output: Path
) -> None:
    """The best tagger and its history."""
    device = runtime.start(params.run.device, params.run.threads, seed)
    (vectors, later), (train, dev) = _read_sentences(corpus, embeddings, ("train", "dev"))
    if not len(train):
        log.warning(
            "no sentence of train has named entities: nothing to learn, every score will be of 0"
            " spans"
        )
        facts = {
            "labels": [],
            "best_epoch": 0,
            "epochs": 0,
            "train_sentences": 0,
            "left_out": train.left_out,
        }
        write_arrays(output / "tagger.safetensors", {}, facts)
        write_csv(output / "history.csv", [], tuple(Epoch.__annotations__))
        return
    trained = train_tagger(
        train,
        dev,
        vectors,
        params.ner,
        seed=seed,
        later=later,
        device=device,
        progress=_log_epoch,
    )
    facts = {
        "labels": list(train.labels),
        "best_epoch": trained.best_epoch,
        "epochs": len(trained.history),
        "train_sentences": len(train),
        "left_out": train.left_out,
    }
    write_arrays(output / "tagger.safetensors", state_arrays(trained.tagger), facts)
    write_csv(output / "history.csv", trained.history, tuple(Epoch.__annotations__))


def _log_epoch(row: Epoch) -> None:
    log.info("epoch %d  loss %.3f  dev F1 %.4f", row["epoch"], row["train_loss"], row["dev_f1"])


def score_ner(
    params: Params,
    corpus: Path,
    embeddings: Path,
    tagger: Annotated[Path, Flag("tagger.safetensors", "FILE")],
    model: str,
    seed: int,
    output: Path,
) -> None:
    """Scores of the tagger on dev and test."""
    runtime.start("cpu", params.run.threads, seed)
    arrays, facts = read_arrays(tagger)
    (vectors, later), sentences = _read_sentences(
        corpus, embeddings, ("dev", "test"), facts["labels"]
    )
    mixed: dict[str, Any] = {}
    if facts["epochs"]:
        loaded = load_tagger(arrays, facts["labels"], vectors, params.ner, later)
        mixed = _show_mix(loaded)
        guesses = [predict(loaded, gold, batch=params.ner.batch) for gold in sentences]
    else:
        guesses = [np.zeros_like(gold.tags) for gold in sentences]
    scores = {
        split: score(gold, guess)
        for split, gold, guess in zip(("dev", "test"), sentences, guesses, strict=True)
    }
    counts = {
        f"{split}_sentences": len(gold)
        for split, gold in zip(("dev", "test"), sentences, strict=True)
    }
    left_out = {"train": facts["left_out"]} | {
        split: gold.left_out for split, gold in zip(("dev", "test"), sentences, strict=True)
    }
    rows = [
        _document_rows(split, gold, guess)
        for split, gold, guess in zip(("dev", "test"), sentences, guesses, strict=True)
    ]
    write_csv(
        output / "documents.csv",
        [row for split_rows in rows for row in split_rows],
        DOCUMENT_COLUMNS,
    )
    write_json(
        output / "metrics.json",
        {"model": model, "seed": seed, "epochs": facts["epochs"], "best_epoch": facts["best_epoch"]}
        | {"train_sentences": facts["train_sentences"], **counts, "sentences_left_out": left_out}
        | {
            "vectors": {
                "context": params.embeddings.ner_context,
                "pooling": params.embeddings.pooling,
            },
            **scores,
            **mixed,
        },
    )


def _show_mix(tagger: Tagger) -> dict[str, Any]:
    """What a tagger that mixes layers learnt of them: the weight of each, and the scale."""
    if tagger.mix is None:
        return {}
    weights = tagger.mix.weights.detach().tolist()
    return {"layers": {"weights": weights, "gamma": tagger.mix.gamma.item()}}


def _document_rows(split: str, gold: TaggedSentences, guess: np.ndarray) -> list[dict[str, Any]]:
    counts = zip(gold.documents, count_spans(gold, guess).tolist(), strict=True)
    return [
        {"split": split, "document": name, **dict(zip(DOCUMENT_COLUMNS[2:], row, strict=True))}
        for name, row in counts
    ]


def _read_sentences(
    corpus: Path, embeddings: Path, splits: tuple[str, str], labels: list[str] | None = None
) -> tuple[tuple[np.ndarray, np.ndarray | None], list[TaggedSentences]]:
    """The words' vectors, those that a tagger reads later if there are any, and the sentences."""
    arrays, _ = read_arrays(embeddings / "words.safetensors")
    documents = {split: Documents(corpus / f"{split}.jsonl") for split in splits}
    known = list_labels(documents[splits[0]]) if labels is None else tuple(labels)
    return (arrays["vectors"], arrays.get("later")), [
        build_sentences(documents[split], arrays[split], known) for split in splits
    ]
