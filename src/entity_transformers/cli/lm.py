"""Opens the files of train-lm and export-model."""

from __future__ import annotations

import csv
import json
import logging
import statistics
import time
from pathlib import Path
from typing import Any, cast

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from .. import runtime
from ..artifacts import copy_file, read_json, write_json, write_text
from ..corpus.alignment import END, AlignedCorpus
from ..lm.checkpoint import CheckpointStore
from ..lm.model_card import render_model_card
from ..lm.models import VARIANTS, build_model, count_parameters, label_corpus, load_model
from ..lm.training import CURVE_COLUMNS, CurveRow, Training, TrainingError, TrainingStopped
from ..params import Params
from ..perplexity.corpus import mean_loss

log = logging.getLogger(__name__)
CODE = ("lm", "perplexity/corpus.py", "perplexity/reading.py", *(f"corpus/{name}.py" for name in ("alignment", "labels", "windows")))
OUTPUTS = ("config.json", "model.safetensors", "curve.csv", "metrics.json", "timing.json", "manifest.json")


def train_lm(params: Params, corpus: Path, model: str, seed: int, work: Path, output: Path) -> None:
    """Train one model, or finish, or restore it: its state lies in ``work`` under the digest of all that it depends on."""
    inputs = [corpus / "train.safetensors", corpus / "dev.safetensors", corpus / "tokenizer.json"]
    key = runtime.digest(json.dumps(_reading(params)), runtime.code_digest(*CODE), model, str(seed), *map(runtime.file_digest, inputs))
    state = work / key
    if all((state / name).exists() for name in OUTPUTS):
        log.info("finished before: restored from %s", state)
    else:
        _train(params, corpus, model, seed, state, inputs)
    for name in OUTPUTS:
        copy_file(state / name, output / name)


def _reading(params: Params) -> dict[str, Any]:
    """What of the params changes the weights."""
    ignored = {"checkpoint_every", "keep_checkpoints", "max_minutes"}
    return {"threads": params.run.threads, "lm": params.lm.model_dump(exclude=ignored)}


def _train(params: Params, corpus: Path, name: str, seed: int, state: Path, inputs: list[Path]) -> None:
    started = time.time()
    device = runtime.start(params.run.device, params.run.threads, seed)
    tokenizer = Tokenizer.from_file(str(inputs[2]))
    train, dev = (label_corpus(AlignedCorpus.load(path), name, seed) for path in inputs[:2])
    model = build_model(name, params.lm, tokenizer.get_vocab_size(), cast(int, tokenizer.token_to_id(END)), seed=seed).to(device)
    store = CheckpointStore(state / "checkpoints", params.lm.keep_checkpoints)
    curve = CurveFile(state / "curve.csv")
    log.info("%s, seed %d: %s parameters on %s", name, seed, f"{count_parameters(model):,}", device)
    held_out = dev.head(params.lm.validation_documents)

    def validate(model: Any, entities: bool) -> float:
        return mean_loss(model, held_out, window=params.lm.window, entities=entities)

    training = Training(model, train, validate, params.lm, seed, store, curve.write_row, log.info)
    try:
        training.run()
    except (TrainingStopped, TrainingError) as stop:
        raise SystemExit(f"entity-transformers train-lm: {stop}") from None
    training.load_final_weights()
    model.save_pretrained(state)
    write_json(state / "metrics.json", _metrics(training, name, seed))
    write_json(state / "timing.json", _timing(training, params, len(held_out.pieces) - len(held_out), time.time() - started))
    facts = runtime.manifest(params=params.lm.model_dump(mode="json"), inputs=inputs, started=started, device=str(device))
    write_json(state / "manifest.json", facts)


def _metrics(training: Training, name: str, seed: int) -> dict[str, Any]:
    kept = ("train_loss", "dev_loss_on", "dev_loss_off", "best_dev_loss", "best_step", "skipped_steps")
    progress = training.progress
    return {
        "model": name, "seed": seed, "parameters": count_parameters(training.model), "steps": progress.step,
        "pieces_seen": progress.pieces, **{key: getattr(progress, key) for key in kept},
    }  # fmt: skip


def _timing(training: Training, params: Params, held_out: int, total: float) -> dict[str, Any]:
    """Seconds, medians over the steps of this process; a validation step scores as many pieces as a training step has."""
    median = statistics.median(training.step_seconds) if training.step_seconds else None
    pieces = training.progress.pieces / max(1, training.progress.step)
    validation = training.validation_seconds
    return {
        "seconds_per_step": median, "pieces_per_second": pieces / median if median else None,
        "seconds_validation_step": None if validation is None else validation / held_out * pieces, "device": str(training.device),
        "threads": params.run.threads, "seconds_total": total,
    }  # fmt: skip


def export_model(params: Params, results: Path, model: str, seed: int, output: Path) -> None:
    """A folder to share: weights, tokenizer, the model's code for trust_remote_code, and a card with its scores."""
    if not VARIANTS[model].entity_attention:
        raise ValueError(f"{model} has no entity attention: {results / 'lm' / model / str(seed)} is a plain GPT-2 folder already")
    corpus, trained = results / "corpus", load_model(results / "lm" / model / str(seed))
    trained.save_pretrained(output)
    tokenizer = Tokenizer.from_file(str(corpus / "tokenizer.json"))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=END, eos_token=END).save_pretrained(output)
    write_text(output / "README.md", render_model_card(trained.config.to_dict(), _card_facts(params, results, model, seed)))


def _card_facts(params: Params, results: Path, model: str, seed: int) -> dict[str, Any]:
    scores = read_json(results / "perplexity" / model / str(seed) / "perplexity.json")["splits"]
    passages = read_json(results / "perplexity" / model / str(seed) / "lambada.json")
    words = read_json(results / "corpus" / "statistics.json")["splits"]["train"]["words"]
    training = read_json(results / "lm" / model / str(seed) / "metrics.json")
    perplexities = {f"perplexity a piece, {s}": {m: score[m]["perplexity"] for m in ("on", "off")} for s, score in scores.items()}
    return {
        "name": f"{model}, seed {seed}",
        "training_data": f"{params.corpus.format}: {words:,} words with gold coreference chains ({params.report.title}).",
        "training": {key: training[key] for key in ("parameters", "steps", "pieces_seen", "dev_loss_on")},
        "metrics": perplexities | {"LAMBADA, last word, perplexity": {"on": None, "off": passages["last_word"]["perplexity"]}},
    }


class CurveFile:
    """The learning curve as CSV, one line at a time; writing row i again drops what came after it (a resumed run)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(",".join(CURVE_COLUMNS) + "\n", encoding="utf-8")

    def write_row(self, index: int, row: CurveRow) -> None:
        """Append ``row`` as row ``index`` (0-based, the header not counted)."""
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
        if len(lines) != index + 1:
            write_text(self.path, "".join(lines[: index + 1]))
        with self.path.open("a", encoding="utf-8", newline="") as file:
            csv.DictWriter(file, CURVE_COLUMNS, lineterminator="\n").writerow(row)
