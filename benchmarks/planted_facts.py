"""What each way of reading and learning the memory carries beyond the window: the table of PAPER.md, about ten minutes on two cores.

Prints, for every row, accuracy in the facts' own window and beyond it (chance 0.10), and seconds a training step.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.planted import VOCABULARY, WINDOW, WINDOWS, plant_facts
from entity_transformers.lm.checkpoint import CheckpointStore
from entity_transformers.lm.models import build_model, label_corpus
from entity_transformers.lm.training import Training
from entity_transformers.params import LmParams, load
from entity_transformers.perplexity.planted import score_facts

ROOT = Path(__file__).resolve().parents[1]
ROWS: list[tuple[str, str, dict[str, Any]]] = [
    ("GPT2", "gpt2", {}),
    ("GPT2 that sees the whole document", "gpt2", {"window": WINDOW * WINDOWS}),
    ("keys from E, memory detached (the paper)", "gpt2e", {}),
    ("keys and values from E, memory detached", "gpt2e", {"entity_values": "both"}),
    ("keys from E, gradient through the memory", "gpt2e", {"memory_gradient_windows": WINDOWS - 1}),
    ("keys and values from E, gradient through the memory", "gpt2e", {"memory_gradient_windows": WINDOWS - 1, "entity_values": "both"}),
]


def make_params(documents: int, **changes: Any) -> LmParams:
    """The study's lm section for this task: ``documents`` read in all, 64 a step, whatever the windows of a step."""
    values = load(ROOT / "studies/sample/params.yaml").lm.model_dump() | changes
    pieces = values["window"] * (values["memory_gradient_windows"] + 1) * 64
    steps = documents * WINDOW * WINDOWS // pieces
    task = {"width": 64, "layers": 2, "heads": 4, "dropout": 0.0, "documents_per_step": 64, "learning_rate": 1e-3, "steps": steps}
    task |= {"warmup_steps": steps // 20, "validate_every": steps, "checkpoint_every": steps, "weight_decay": 0.0}
    return LmParams(**(values | task))


def train_row(name: str, documents: int, train: AlignedCorpus, test: AlignedCorpus, **changes: Any) -> dict[str, float]:
    """Accuracies on ``test`` and seconds a step of one row."""
    params = make_params(documents, **{"window": WINDOW, **changes})
    model = build_model(name, params, VOCABULARY, 0, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        store = CheckpointStore(Path(folder), 1)
        training = Training(model, label_corpus(train, name, 1), lambda model, entities: 0.0, params, 1, store, lambda index, row: None)
        training.run()
    scores = score_facts(model.eval(), test, window=params.window, batch=256, entities=True)
    return scores | {"seconds": statistics.median(training.step_seconds)}


def main() -> None:
    """Train and print every row."""
    documents = int(sys.argv[1]) if len(sys.argv) > 1 else 1500 * 64
    torch.set_num_threads(2)
    train, test = plant_facts(min(documents, 20_000), 1), plant_facts(1000, 2, "test")
    print(f"{'reading / learning':54s}{'same window':>12s}{'later windows':>15s}{'s a step':>10s}")
    for title, name, changes in ROWS:
        row = train_row(name, documents, train, test, **changes)
        print(f"{title:54s}{row['same']:12.2f}{row['later']:15.2f}{row['seconds']:10.3f}", flush=True)


if __name__ == "__main__":
    main()
