"""Opens the files of export-model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerFast

from entity_transformers.artifacts import read_json, read_tokenizer, write_text
from entity_transformers.corpus.alignment import END
from entity_transformers.models.model_card import render_model_card
from entity_transformers.models.registry import VARIANTS, load_model
from entity_transformers.study.params import Params


def export_model(params: Params, results: Path, model: str, seed: int, output: Path) -> None:
    """A folder to share: weights, tokenizer, the model's code for trust_remote_code, and a card
    with its scores.
    """
    if not VARIANTS[model].entity_attention:
        raise ValueError(
            f"{model} has no entity attention: {results / 'lm' / model / str(seed)} is a plain"
            " GPT-2 folder already"
        )
    corpus, trained = results / "corpus", load_model(results / "lm" / model / str(seed))
    trained.save_pretrained(output)
    tokenizer = read_tokenizer(corpus / "tokenizer.json")
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=END, eos_token=END
    ).save_pretrained(output)
    write_text(
        output / "README.md",
        render_model_card(trained.config.to_dict(), _card_facts(params, results, model, seed)),
    )


def _card_facts(params: Params, results: Path, model: str, seed: int) -> dict[str, Any]:
    scores = read_json(results / "perplexity" / model / str(seed) / "perplexity.json")["splits"]
    passages = read_json(results / "perplexity" / model / str(seed) / "lambada.json")
    words = read_json(results / "corpus" / "statistics.json")["splits"]["train"]["words"]
    training = read_json(results / "lm" / model / str(seed) / "metrics.json")
    perplexities = {
        f"perplexity a token, {s}": {m: score[m]["perplexity"] for m in ("on", "off")}
        for s, score in scores.items()
    }
    return {
        "name": f"{model}, seed {seed}",
        "training_data": (
            f"{params.corpus.format}: {words:,} words with gold coreference chains"
            f" ({params.report.title})."
        ),
        "training": {
            key: training[key] for key in ("parameters", "steps", "tokens_seen", "dev_loss_on")
        },
        "metrics": (
            perplexities
            | {
                "LAMBADA, last word, perplexity": {
                    "on": None,
                    "off": passages["last_word"]["perplexity"],
                }
            }
        ),
    }
