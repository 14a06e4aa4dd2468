"""Opens the files of export-model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import BertForMaskedLM, PreTrainedTokenizerFast

from entity_transformers.artifacts import read_json, read_tokenizer, write_json, write_text
from entity_transformers.corpus.encoding import END
from entity_transformers.corpus.readers import find_reader
from entity_transformers.kinds import ModelEntry
from entity_transformers.models.model_card import (
    describe_labels,
    render_encoder_card,
    render_model_card,
    render_plain_card,
    render_vectors_card,
)
from entity_transformers.models.registry import load_model
from entity_transformers.report.lm import OBJECTIVES
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
    trained = load_model(folder, entry.kind)
    trained.save(output)
    if entry.can({"masked"}):
        _save_masked_tokenizer(entry, trained, results, output)
        # the class that load_entity_attention builds on, where the training's own was written
        config = read_json(output / "config.json") | {"architectures": [BertForMaskedLM.__name__]}
        write_json(output / "config.json", config)
    else:
        tokenizer = read_tokenizer(results / "corpus" / "tokenizer.json")
        save_tokenizer(tokenizer, output, trained.context)
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
    _save_masked_tokenizer(entry, trained, results, output)
    found = _read_pseudo(params, results, entry, seed)
    facts = {
        "name": f"{entry.name}, seed {seed}",
        "training_data": (
            f"{params.corpus.format}: {_count_words(results):,} words{_title(params)}."
        ),
        "licence": _find_licence(params),
        "training": _read_training(results, entry, seed),
        "scores": {label: score["off"] for label, score in found.items()},
    }
    config = read_json(output / "config.json")
    write_text(output / "README.md", render_encoder_card(config, facts))


def _save_masked_tokenizer(entry: ModelEntry, trained: Any, results: Path, output: Path) -> None:
    """The encoder with the mask; ValueError where it would number it otherwise than the model."""
    encoder = read_tokenizer(results / "corpus" / "tokenizer.json")
    tokenizer = save_tokenizer(encoder, output, trained.context, mask_token=MASK)
    if tokenizer.mask_token_id != trained.mask:
        raise ValueError(
            f"{results / 'corpus'}: its encoder would number {MASK} {tokenizer.mask_token_id}, but"
            f" {entry.name} knows it as {trained.mask}: name the results that it was trained with"
        )


def _read_pseudo(
    params: Params, results: Path, entry: ModelEntry, seed: int
) -> dict[str, dict[str, float]]:
    """Pseudo-perplexities by label, entities on and off; none where the step was not run."""
    if "pseudo_perplexity" not in params.study.steps or not entry.can({"masked"}):
        return {}
    folder = results / "pseudo_perplexity" / entry.name / str(seed)
    splits = read_json(folder / "pseudo_perplexity.json")["splits"]
    return {
        f"pseudo-perplexity, {split}": {
            mode: score[mode]["pseudo_perplexity"] for mode in ("on", "off") if mode in score
        }
        for split, score in splits.items()
    }


def _read_training(results: Path, entry: ModelEntry, seed: int) -> dict[str, Any]:
    """What a card tells of the training, its losses by what they are of."""
    found = read_json(results / "lm" / entry.name / str(seed) / "metrics.json")
    unit = OBJECTIVES[found.get("objective", "causal")]
    given = " with entities" if entry.can({"entities"}) else ""
    return {key: found[key] for key in ("parameters", "steps", "tokens_seen")} | {
        f"train loss{given}, {unit}": found["train_loss"],
        f"dev loss{given}, {unit}": found["dev_loss_on"],
    }


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
    """That of the corpus, where it is one that the project downloads or holds."""
    reader = find_reader(params.corpus.format)
    if reader.provide is not None:
        return "made by a grammar, they hold nothing of anybody's"
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
    read = _read_perplexities if entry.can({"causal"}) else _read_pseudo
    labels = entry.can({"entities"}) or entry.can({"guided"})
    given = f", with {describe_labels(entry.labels)}" if labels else ""
    words = f"{_count_words(results):,} words"
    return {
        "name": f"{entry.name}, seed {seed}",
        "training_data": f"{params.corpus.format}: {words}{given}{_title(params)}.",
        "licence": _find_licence(params),
        "labels": entry.labels,
        "training": _read_training(results, entry, seed),
        "metrics": read(params, results, entry, seed),
    }


def _read_perplexities(
    params: Params, results: Path, entry: ModelEntry, seed: int
) -> dict[str, dict[str, float | None]]:
    """Perplexities by label, entities on and off."""
    run = Path(entry.name) / str(seed)
    scores = read_json(results / "perplexity" / run / "perplexity.json")["splits"]
    perplexities = {
        f"perplexity per token, {s}": {
            m: score[m]["perplexity"] for m in ("on", "off") if m in score
        }
        for s, score in scores.items()
    }
    if "lambada" in params.study.steps:
        passages = read_json(results / "lambada" / run / "lambada.json")
        last = {"on": None, "off": passages["last_word"]["perplexity"]}
        text = "generated passages" if params.lambada.text == "sample" else "LAMBADA"
        perplexities[f"{text}, last word, perplexity"] = last
    return perplexities
