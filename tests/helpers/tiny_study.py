"""A study that runs in a minute, and its steps in this process."""

import shutil
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from entity_transformers.artifacts import write_record
from entity_transformers.cli import main
from entity_transformers.step import Run

ROOT = Path(__file__).resolve().parents[2]
TINY = """\
base: sample
tokenizer: {vocabulary: 400}
corpus: {sample_words: 6000}
lm: {layers: 1, heads: 2, width: 16, window: 32, steps: 6, documents_per_step: 2,
  validate_every: 3, warmup_steps: 1}
perplexity: {stride: 32}
ner: {hidden: 8, epochs: 1}
recall: {documents: 128, distinct_documents: 128, test_documents: 20, width: 16}
report: {bootstrap_samples: 100}
"""


def make_study(folder: Path, more: str = "") -> Path:
    """A checkout's params.yaml and studies in ``folder``, with studies/tiny.yaml; the latter."""
    (folder / "studies").mkdir(parents=True)
    shutil.copy(ROOT / "params.yaml", folder)
    shutil.copy(ROOT / "studies/sample.yaml", folder / "studies")
    path = folder / "studies/tiny.yaml"
    path.write_text(TINY + more)
    return path


def run_steps(*steps: str, model: str = "") -> None:
    """Run steps of studies/tiny.yaml, below the current folder, in this process."""
    of = ["--model", model, "--seed", "1"]
    for step in steps:
        per_model = step not in ("corpus", "passages", "report")
        main(["run", step, "--study", "studies/tiny.yaml", *(of if per_model else [])])


def lay_inputs(run: Run, tokenizer: Tokenizer, model: Any) -> None:
    """What a run reads of steps corpus and lm, as if they had run; the model: a LanguageModel."""
    run.home("corpus").mkdir(parents=True)
    tokenizer.save(str(run.home("corpus") / "tokenizer.json"))
    model.save(run.home("lm"))
    for name in ("corpus", "lm"):
        write_record(run.home(name), [])
