"""What each way of reading and learning the memory carries beyond the window: GPT2 and GPT2E
trained on synthetic recall.

Two switches of GPT2E are tried: whether the values of entity attention come from the hidden states
alone or from the entities as well, and whether the memory is detached after each window, as in the
paper (section 3.2), or the gradient flows through it.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.facts import END, Answers, FactTask, find_answers, make_facts
from entity_transformers.encode.reader import read_documents
from entity_transformers.models.registry import build_model, label_corpus
from entity_transformers.study.sections import LmParams, RecallParams
from entity_transformers.train.checkpoint import CheckpointStore
from entity_transformers.train.loop import Training

TEST_SEED = 1_000_000  # above every training seed, which a study counts from 1
BATCH = 256


@dataclass(frozen=True)
class Variant:
    """A row of the table: the model, where the values of its entity attention come from, what the
    gradient and a window reach.
    """

    model: str
    values: str = "hidden"
    gradient: bool = False
    whole_document: bool = False


VARIANTS: dict[str, Variant] = {
    "gpt2": Variant("gpt2"),
    "gpt2-document": Variant("gpt2", whole_document=True),
    "keys-detached": Variant("gpt2e"),
    "keys-values-detached": Variant("gpt2e", values="both"),
    "keys-gradient": Variant("gpt2e", gradient=True),
    "keys-values-gradient": Variant("gpt2e", values="both", gradient=True),
}


def make_task(params: RecallParams) -> FactTask:
    """The task of a study."""
    return FactTask(params.kinds, params.entities, params.windows, params.values, params.names)


def make_lm_params(params: RecallParams, variant: Variant) -> LmParams:
    """The training of one row; every row reads ``params.documents`` documents, whatever the windows
    of a step.

    What is not in ``params`` is the paper's (PAPER.md), or off.
    """
    task = make_task(params)
    windows = task.windows if variant.gradient else 1
    window = task.length if variant.whole_document else task.window
    steps = math.ceil(
        params.documents * task.length / (window * windows * params.documents_per_step)
    )
    shape = {
        "layers": params.layers,
        "heads": params.heads,
        "width": params.width,
        "window": window,
        "dropout": 0.0,
    }
    entity = {
        "entity_residual": True,
        "entity_layer_norm": False,
        "entity_gate": "none",
        "entity_values": variant.values,
    }
    memory = {
        "memory_write": "last",
        "memory_gradient_windows": windows - 1,
        "memory_life": "document",
    }
    rate = {
        "learning_rate": params.learning_rate,
        "schedule": "cosine",
        "warmup_steps": int(steps * params.warmup),
    }
    step = {
        "steps": steps,
        "documents_per_step": params.documents_per_step,
        "accumulation": 1,
        "weight_decay": 0.0,
        "clip_norm": 1.0,
    }
    rhythm = {
        "validate_every": steps,
        "validation_documents": None,
        "checkpoint_every": steps,
        "keep_checkpoints": 1,
    }
    machine = {
        "precision": "float32",
        "compile": "off",
        "gradient_checkpointing": False,
        "max_minutes": None,
    }
    return LmParams(
        initial_weights=None,
        final_weights="last",
        **(shape | entity | memory | rate | step | rhythm | machine),
    )  # type: ignore[arg-type]


def start_training(
    params: RecallParams,
    name: str,
    seed: int,
    store: CheckpointStore,
    device: str | torch.device = "cpu",
) -> Training:
    """Variant ``name`` before its first step, on documents that depend on ``seed`` alone."""
    variant, task = VARIANTS[name], make_task(params)
    lm = make_lm_params(params, variant)
    model = build_model(variant.model, lm, task.vocabulary, END, seed=seed).to(device)
    corpus = label_corpus(
        make_facts(task, min(params.documents, params.distinct_documents), seed),
        variant.model,
        seed,
    )
    return Training(
        model, corpus, lambda model, entities: 0.0, lm, seed, store, lambda index, row: None
    )


def score_training(training: Training, params: RecallParams) -> dict[str, Any]:
    """`measure_accuracy` of a trained model on ``params.test_documents`` documents that are the
    same for every seed and variant.
    """
    task = make_task(params)
    test = make_facts(task, params.test_documents, TEST_SEED, "test")
    answers = find_answers(task, test)
    guesses = guess_tokens(training.model.eval(), test, window=training.params.window)
    return measure_accuracy(task, answers, guesses[answers.places] == test.tokens[answers.places])


@torch.inference_mode()
def guess_tokens(model: Any, corpus: AlignedCorpus, *, window: int) -> np.ndarray:
    """The model's likeliest token at every place of the split, int64 [tokens], entities given; -1
    where nothing is predicted.
    """
    guesses = np.full(len(corpus.tokens) + 1, -1, np.int64)
    for reading in read_documents(
        model, corpus, window=window, stride=window, batch=BATCH, entities=True
    ):
        hidden = reading.hidden[torch.from_numpy(reading.valid).to(model.device)]
        guesses[reading.where[reading.valid] + 1] = (
            model.get_output_embeddings()(hidden).argmax(-1).cpu().numpy()
        )
    guesses[corpus.offsets] = -1
    return guesses[:-1]


def measure_accuracy(task: FactTask, answers: Answers, right: np.ndarray) -> dict[str, Any]:
    """Share of right answers and their number, beyond the fact's own window and by distance in
    windows, then by kind beyond it.

    ``right`` is bool [N]. Without any question of a sort its accuracy is None and its number 0.
    """
    later = answers.distances > 0
    return {
        "chance": 1 / task.values,
        "later": _share(right, later),
        "by_distance": {str(d): _share(right, answers.distances == d) for d in range(task.windows)},
        "by_kind": {
            name: _share(right, later & (answers.kinds == k)) for k, name in enumerate(task.kinds)
        },
    }


def _share(right: np.ndarray, among: np.ndarray) -> dict[str, float | int | None]:
    count = int(among.sum())
    return {"accuracy": float(right[among].mean()) if count else None, "questions": count}


def describe_task(task: FactTask) -> dict[str, Any]:
    """The task as it stands in accuracy.json: its numbers, and the tokens of a window and of the
    vocabulary.
    """
    return asdict(task) | {"window": task.window, "vocabulary": task.vocabulary}
