"""Opens the files of export-model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from entity_transformers.artifacts import read_json, read_tokenizer, write_text
from entity_transformers.corpus.encoding import END
from entity_transformers.corpus.readers import find_reader
from entity_transformers.kinds import ModelEntry
from entity_transformers.models.model_card import (
    render_encoder_card,
    render_model_card,
    render_plain_card,
    render_vectors_card,
)
from entity_transformers.models.registry import load_model
from entity_transformers.study.params import Params

MASK = "<|mask|>"


def export_model(params: Params, results: Path, model: str, seed: int, output: Path) -> None:
    """A folder to share: weights, tokenizer, the model's code for trust_remote_code where it has
    any, and a card with its scores; of static vectors also their text, which gensim reads.
    """
    _export(params, results, model, seed, output)
    _open_weights(output)
    print(f"{output}: {model}, seed {seed}; README.md there says how it is used")


def _export(params: Params, results: Path, model: str, seed: int, output: Path) -> None:
    entry, folder = params.model(model), results / "lm" / model / str(seed)
    if entry.can({"static"}):
        _export_vectors(params, entry, results, seed, output)
        return
    if (entry.can({"masked"}) or entry.can({"replaced"})) and not entry.can({"entities"}):
        _export_encoder(params, entry, results, seed, output)
        return
    if entry.can({"masked"}):
        raise ValueError(
            f"{model} has no card yet: {folder} can be shared as it is, for a BertForMaskedLM that"
            " has been through add_entity_attention"
        )
    corpus, trained = results / "corpus", load_model(folder, entry.kind)
    trained.save(output)
    save_tokenizer(read_tokenizer(corpus / "tokenizer.json"), output, trained.context)
    config, facts = read_json(output / "config.json"), _card_facts(params, results, entry, seed)
    card = (
        render_model_card(config, facts)
        if entry.can({"entities"})
        else render_plain_card(entry.kind, config, facts)
    )
    write_text(output / "README.md", card)


def _export_encoder(
    params: Params, entry: ModelEntry, results: Path, seed: int, output: Path
) -> None:
    """A model that sees later tokens; its encoder gets the mask, with the number that the model
    knows it by.
    """
    trained = load_model(results / "lm" / entry.name / str(seed), entry.kind)
    trained.save(output)
    encoder = read_tokenizer(results / "corpus" / "tokenizer.json")
    tokenizer = save_tokenizer(encoder, output, trained.context, mask_token=MASK)
    if tokenizer.mask_token_id != trained.mask:
        raise ValueError(
            f"{results / 'corpus'}: its encoder would number {MASK} {tokenizer.mask_token_id}, but"
            f" {entry.name} knows it as {trained.mask}: name the results that it was trained with"
        )
    folder = Path(entry.name) / str(seed)
    training = read_json(results / "lm" / folder / "metrics.json")
    shown = ("objective", "parameters", "steps", "tokens_seen", "train_loss", "dev_loss_on")
    scores = {}
    if "pseudo_perplexity" in params.study.steps and entry.can({"masked"}):
        found = read_json(results / "pseudo_perplexity" / folder / "pseudo_perplexity.json")
        scores = {
            f"pseudo-perplexity, {s}": v["off"]["pseudo_perplexity"]
            for s, v in found["splits"].items()
        }
    facts = {
        "name": f"{entry.name}, seed {seed}",
        "training_data": (
            f"{params.corpus.format}: {_count_words(results):,} words{_title(params)}."
        ),
        "licence": _find_licence(params),
        "training": {key: training[key] for key in shown},
        "scores": scores,
    }
    config = read_json(output / "config.json")
    write_text(output / "README.md", render_encoder_card(config, facts))


def save_tokenizer(
    tokenizer: Tokenizer, folder: Path, longest: int | None, **more: str
) -> PreTrainedTokenizerFast:
    """Write the files of a transformers tokenizer, with ``more`` special tokens; ``longest``:
    tokens that the model can read at once, None: any number.
    """
    limit = {} if longest is None else {"model_max_length": longest}
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=END, eos_token=END, **limit, **more
    )
    made.save_pretrained(folder)
    return made


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
        "licence": _find_licence(params),
        "training": entry.lm.model_dump(exclude={"width", "shortest", "longest"}),
    }
    config = read_json(output / "config.json")
    write_text(output / "README.md", render_vectors_card(config, facts))


def _open_weights(folder: Path) -> None:
    """Give safetensors, which it writes for the owner alone, the rights of any new file."""
    os.umask(mask := os.umask(0))
    for file in folder.glob("*.safetensors"):
        file.chmod(0o666 & ~mask)


def _find_licence(params: Params) -> str:
    """That of the corpus, where it is one that the project downloads or generates."""
    reader = find_reader(params.corpus.format)
    if reader.generate is not None:
        return "generated from a grammar, they hold nothing of anybody's"
    if params.corpus.path is None:
        for dataset in reader.data:
            if dataset.source is not None:
                return dataset.source().licence
    return "their licence is not known here, name it before you share them"


def _count_words(results: Path) -> int:
    """Words of train."""
    return int(read_json(results / "corpus" / "statistics.json")["splits"]["train"]["words"])


def _title(params: Params) -> str:
    return f" ({params.report.title})" if params.has("report") else ""


def _card_facts(params: Params, results: Path, entry: ModelEntry, seed: int) -> dict[str, Any]:
    model = entry.name
    scores = read_json(results / "perplexity" / model / str(seed) / "perplexity.json")["splits"]
    training = read_json(results / "lm" / model / str(seed) / "metrics.json")
    perplexities = {
        f"perplexity per token, {s}": {
            m: score[m]["perplexity"] for m in ("on", "off") if m in score
        }
        for s, score in scores.items()
    }
    if "lambada" in params.study.steps:
        passages = read_json(results / "lambada" / model / str(seed) / "lambada.json")
        last = {"on": None, "off": passages["last_word"]["perplexity"]}
        text = "generated passages" if params.lambada.text == "sample" else "LAMBADA"
        perplexities[f"{text}, last word, perplexity"] = last
    return {
        "name": f"{model}, seed {seed}",
        "training_data": (
            f"{params.corpus.format}: {_count_words(results):,} words"
            f"{' with gold coreference chains' if entry.can({'entities'}) else ''}{_title(params)}."
        ),
        "licence": _find_licence(params),
        "training": {
            key: training[key] for key in ("parameters", "steps", "tokens_seen", "dev_loss_on")
        },
        "metrics": perplexities,
    }
