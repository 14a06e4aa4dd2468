"""Opens the files of export-model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from entity_transformers.artifacts import read_json, read_tokenizer, write_text
from entity_transformers.corpus.encoding import END
from entity_transformers.kinds import ModelEntry
from entity_transformers.models.model_card import render_model_card, render_vectors_card
from entity_transformers.models.registry import load_model
from entity_transformers.study.params import Params


def export_model(params: Params, results: Path, model: str, seed: int, output: Path) -> None:
    """A folder to share: weights, tokenizer, the model's code for trust_remote_code, and a card
    with its scores; of static vectors also their text, which gensim reads.
    """
    entry, folder = params.model(model), results / "lm" / model / str(seed)
    if entry.can({"static"}):
        _export_vectors(params, entry, results, seed, output)
        return
    if not entry.can({"entities"}):
        raise ValueError(
            f"{model} reads no entities: {folder} can be shared as it is, a folder of transformers"
        )
    corpus, trained = results / "corpus", load_model(folder, entry.kind)
    trained.save(output)
    save_tokenizer(read_tokenizer(corpus / "tokenizer.json"), output, trained.context)
    write_text(
        output / "README.md",
        render_model_card(
            read_json(output / "config.json"), _card_facts(params, results, model, seed)
        ),
    )


def save_tokenizer(tokenizer: Tokenizer, folder: Path, longest: int | None) -> None:
    """Write the files of a transformers tokenizer; ``longest``: tokens that the model can read at
    once, None: any number.
    """
    limit = {} if longest is None else {"model_max_length": longest}
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=END, eos_token=END, **limit
    ).save_pretrained(folder)


def _export_vectors(
    params: Params, entry: ModelEntry, results: Path, seed: int, output: Path
) -> None:
    folder = results / "lm" / entry.name / str(seed)
    vectors = entry.kind.module().load(folder)
    vectors.save(output, entry.kind.name)
    write_text(output / "vectors.txt", vectors.render())
    facts = {
        "name": f"{entry.name}, seed {seed}",
        "about": f"Static vectors of words, by {entry.kind.label}: one per word in any context.",
        "training_data": (
            f"{params.corpus.format}: {_count_words(results):,} words{_title(params)}."
        ),
        "training": entry.lm.model_dump(exclude={"width", "shortest", "longest"}),
    }
    config = read_json(output / "config.json")
    write_text(output / "README.md", render_vectors_card(config, facts))


def _count_words(results: Path) -> int:
    """Words of train."""
    return int(read_json(results / "corpus" / "statistics.json")["splits"]["train"]["words"])


def _title(params: Params) -> str:
    return f" ({params.report.title})" if params.has("report") else ""


def _card_facts(params: Params, results: Path, model: str, seed: int) -> dict[str, Any]:
    scores = read_json(results / "perplexity" / model / str(seed) / "perplexity.json")["splits"]
    training = read_json(results / "lm" / model / str(seed) / "metrics.json")
    perplexities = {
        f"perplexity per token, {s}": {m: score[m]["perplexity"] for m in ("on", "off")}
        for s, score in scores.items()
    }
    if "lambada" in params.study.steps:
        passages = read_json(results / "lambada" / model / str(seed) / "lambada.json")
        last = {"on": None, "off": passages["last_word"]["perplexity"]}
        perplexities["LAMBADA, last word, perplexity"] = last
    return {
        "name": f"{model}, seed {seed}",
        "training_data": (
            f"{params.corpus.format}: {_count_words(results):,} words with gold coreference"
            f" chains{_title(params)}."
        ),
        "training": {
            key: training[key] for key in ("parameters", "steps", "tokens_seen", "dev_loss_on")
        },
        "metrics": perplexities,
    }
