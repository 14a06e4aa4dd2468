"""Opens the files of export-model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import BertForMaskedLM, PreTrainedTokenizerFast

from entity_transformers.artifacts import read_json, read_tokenizer, write_json, write_text
from entity_transformers.corpus.alignment import END
from entity_transformers.corpus.readers import find_reader
from entity_transformers.kinds import ModelEntry
from entity_transformers.models.model_card import describe_labels, render_card
from entity_transformers.models.registry import load_model
from entity_transformers.report.lm import OBJECTIVES
from entity_transformers.study.params import Params

MASK = "<|mask|>"


def export_model(params: Params, results: Path, model: str, seed: int, output: Path) -> None:
    """A folder to share: weights, tokenizer, the model's code for trust_remote_code where it has
    any, and a card with its scores; of static vectors also their text, which gensim reads.
    """
    entry, folder = params.model(model), results / "lm" / model / str(seed)
    if entry.can({"static"}):
        training = _save_vectors(entry, folder, output)
        scores = {}
    else:
        _save_model(entry, folder, results, output)
        training, scores = _read_training(entry, folder), _read_scores(params, results, entry, seed)
    given = ""
    if entry.can({"entities"}) or entry.can({"guided"}):
        given = f", with {describe_labels(entry.labels)}"
    words = f"{_count_words(results):,} words"
    card = render_card(
        entry.kind,
        read_json(output / "config.json"),
        name=f"{model}, seed {seed}",
        training_data=f"{params.corpus.format}: {words}{given}{_title(params)}.",
        licence=_find_licence(params),
        training=training,
        scores=scores,
        labels=entry.labels,
    )
    write_text(output / "README.md", card)
    _open_weights(output)
    print(f"{output}: {model}, seed {seed}; README.md there says how it is used")


def _save_model(entry: ModelEntry, folder: Path, results: Path, output: Path) -> None:
    """Weights and tokenizer; that of a model with hidden tokens gets the mask, with the number that
    the model knows it by (ValueError where it would have another one).
    """
    trained = load_model(folder, entry.kind)
    trained.save(output)
    encoder = read_tokenizer(results / "corpus" / "tokenizer.json")
    if entry.can({"causal"}):
        save_tokenizer(encoder, output, trained.context)
        return
    tokenizer = save_tokenizer(encoder, output, trained.context, mask_token=MASK)
    if tokenizer.mask_token_id != trained.mask:
        raise ValueError(
            f"{results / 'corpus'}: its encoder would number {MASK} {tokenizer.mask_token_id}, but"
            f" {entry.name} knows it as {trained.mask}: name the results that it was trained with"
        )
    if entry.can({"entities"}):
        # the class that load_entity_attention builds on, where the training's own was written
        config = read_json(output / "config.json") | {"architectures": [BertForMaskedLM.__name__]}
        write_json(output / "config.json", config)


def _save_vectors(entry: ModelEntry, folder: Path, output: Path) -> dict[str, Any]:
    """Vectors and their text; how they were trained."""
    vectors = entry.kind.module().load(folder)
    vectors.save(output, entry.kind.name)
    write_text(output / "vectors.txt", vectors.render())
    training: dict[str, Any] = entry.lm.model_dump(exclude={"width", "shortest", "longest"})
    return training


def _read_scores(
    params: Params, results: Path, entry: ModelEntry, seed: int
) -> dict[str, dict[str, float | None]]:
    read = _read_perplexities if entry.can({"causal"}) else _read_pseudo
    return read(params, results, entry, seed)


def _read_pseudo(
    params: Params, results: Path, entry: ModelEntry, seed: int
) -> dict[str, dict[str, float | None]]:
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


def _read_training(entry: ModelEntry, folder: Path) -> dict[str, Any]:
    """What a card tells of the training, its losses by what they are of."""
    found = read_json(folder / "metrics.json")
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
