"""Opens the files of export-model."""

import os
from pathlib import Path
from typing import Annotated, Any

from transformers import BertForMaskedLM

from entity_transformers.artifacts import read_csv, read_json, write_json, write_text
from entity_transformers.cli.flags import STUDY, Flag
from entity_transformers.corpus.readers import find_reader
from entity_transformers.encode.document import ENCODES
from entity_transformers.kinds import ModelEntry
from entity_transformers.models.base import load_model
from entity_transformers.models.folders import save_tokenizer
from entity_transformers.models.model_card import describe_labels, render_card
from entity_transformers.report.lm import OBJECTIVES
from entity_transformers.step import RECORD, ROWS, Run
from entity_transformers.study.params import STEPS, Params, load
from entity_transformers.study.plan import Plan

MASK = "<|mask|>"
PARTS = ("unit", "class", "pos", "distance", "group")
"""Columns of rows that are of a part of a split."""
SCORES = (
    ("perplexity", "perplexity", "perplexity per token, {}"),
    ("pseudo_perplexity", "pseudo_perplexity", "pseudo-perplexity, {}"),
    ("lambada", "last_word_perplexity", "last word of passages, perplexity"),
)
"""What a card tells of how it was scored: step, measure, and its name there."""
Scores = dict[str, dict[str, float | None]]


def export_model(
    study: STUDY,
    model: Annotated[str, Flag("one of the study's models", "MODEL", positional=True)],
    output: Annotated[Path | None, Flag("folder (default: exported/STUDY/MODEL)", "PATH")] = None,
    seed: Annotated[int | None, Flag("seed of its training (default: the model's first)")] = None,
) -> None:
    """Write a folder to share: weights, tokenizer, a card with scores and, if the model has its own
    code, that code for trust_remote_code. Static vectors are also written as text for gensim.
    """
    params = load(study)
    entry = params.model(model)
    seed = params.seeds_of(model)[0] if seed is None else seed
    run = Run(params, STEPS["lm"], model, seed)
    output = Path("exported", params.name, model) if output is None else output
    if not (run.folder / RECORD).is_file():
        raise ValueError(f"{run.folder}: not trained yet: `make study STUDY={params.name}` does it")
    Plan(params).require_run(run.step, model, seed)
    if entry.can({"static"}):
        training = _save_vectors(entry, run.folder, output)
        scores: Scores = {}
    else:
        _save_model(run, output)
        training, scores = _read_training(run), _read_scores(run)
    words = _read_rows(run, "corpus", "words", split="train")[0]["value"]
    data = f"{params.corpus.format}: {int(words):,} words"
    if entry.can({"entities"}) or entry.can({"guided"}):
        data += f", with {describe_labels(entry.labels)}"
    card = render_card(
        entry.kind,
        read_json(output / "config.json"),
        name=f"{model}, seed {seed}",
        training_data=f"{data} ({params.report.title}).",
        licence=_find_licence(params),
        training=training,
        scores=scores,
        labels=entry.labels,
    )
    write_text(output / "README.md", card)
    os.umask(mask := os.umask(0))
    for file in output.glob("*.safetensors"):  # which safetensors writes for the owner alone
        file.chmod(0o666 & ~mask)
    print(f"{output}: {model}, seed {seed}; README.md there says how it is used")


def _save_model(run: Run, output: Path) -> None:
    """Weights and tokenizer, to which the mask of a masked model is added."""
    entry, trained = run.entry, load_model(run.folder, run.entry.kind)
    trained.save(output)
    more = {} if run.params.tokenizer.kind == "pretrained" else {ENCODES: "words"}
    if entry.can({"causal"}):
        save_tokenizer(run.tokenizer, output, trained.context, **more)
        return
    tokenizer = save_tokenizer(run.tokenizer, output, trained.context, mask_token=MASK, **more)
    if tokenizer.mask_token_id != trained.mask:
        raise ValueError(
            f"{run.home('corpus')}: its encoder would number {MASK} {tokenizer.mask_token_id}, but"
            f" {entry.name} knows it as {trained.mask}: name the study that it was trained in"
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
    return dict(entry.lm.model_dump(exclude={"width", "shortest", "longest"}))


def _read_scores(run: Run) -> Scores:
    """Perplexities by what they are of, entities on and off, of the steps that were run."""
    found: Scores = {}
    for step, measure, about in SCORES:
        for row in _read_rows(run, step, measure):
            mode = row["entities"] or "off"
            if mode in ("on", "off") and not any(map(row.get, PARTS)):
                found.setdefault(about.format(row["split"]), {})[mode] = float(row["value"])
    return found


def _read_training(run: Run) -> dict[str, Any]:
    """What a card tells of the training, its losses by what they are of."""
    counts = {
        name: int(float(_read_rows(run, "lm", name, split="", entities="")[0]["value"]))
        for name in ("parameters", "steps", "tokens_seen")
    }
    losses = _read_rows(run, "lm", "loss") or _read_rows(run, "lm", "objective_loss")
    unit = OBJECTIVES[losses[0].get("objective") or "causal"]
    found = {(row["split"], row["entities"]): float(row["value"]) for row in losses}
    dev = next(found[key] for mode in ("on", "off", "") if (key := ("dev", mode)) in found)
    named = " with entities" if run.entry.can({"entities"}) else ""
    return {
        **counts,
        f"train loss{named}, {unit}": found["train", ""],
        f"dev loss{named}, {unit}": dev,
    }


def _read_rows(run: Run, step: str, measure: str, **where: str) -> list[dict[str, str]]:
    """A measure's numbers of a step's run for this model; none where there was no such run."""
    file = run.home(step) / ROWS
    if file.is_file():
        Plan(run.params).require_run(STEPS[step], run.model, run.seed)
    rows = read_csv(file) if file.is_file() else []
    wanted = {"measure": measure, **where}.items()
    return [row for row in ({"entities": "", **one} for one in rows) if wanted <= row.items()]


def _find_licence(params: Params) -> str:
    """That of the corpus, where it is one that the project downloads or holds."""
    reader = find_reader(params.corpus.format)
    if reader.provide is not None:
        return "made by a grammar, they hold nothing of anybody's"
    for dataset in reader.data if params.corpus.path is None else ():
        if dataset.files:
            return dataset.licence
    return "their licence is not known here, name it before you share them"
