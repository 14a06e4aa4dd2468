"""A study that runs in a minute, and the two ways to run it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from entity_transformers.cli import main

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
LIMIT = 1800  # seconds: only guards against hanging, on a busy or slow machine too
ALONE = {"ENTITY_TRANSFORMERS_FORKS": ""}
"""The environment of commands that are processes of their own."""
TINY = """\
base: sample
tokenizer: {vocabulary: 400}
corpus: {sample_words: 6000}
lm:
  layers: 1
  heads: 2
  width: 16
  window: 32
  steps: 6
  documents_per_step: 2
  validate_every: 3
  warmup_steps: 1
perplexity: {stride: 32}
ner: {hidden: 8, epochs: 1}
recall: {documents: 128, distinct_documents: 128, test_documents: 20, width: 16}
report: {bootstrap_samples: 100}
"""
SECOND = """\
# goes on from what study tiny has learnt
base: tiny
study: {steps: [corpus, lm, perplexity, report]}
tokenizer: {kind: study, path: "study:tiny"}
models:
  gpt2: {initial_weights: "study:tiny/gpt2/1"}
  gpt2e: null
  lstm: null
  gpt2-pointer: null
  ngram: null
"""


def make_top(folder: Path, tiny: str = TINY) -> Path:
    """A folder like the top of a checkout: its rules and package, and the studies tiny, which is
    the sample made small, and second, which starts from it.
    """
    skip = shutil.ignore_patterns("__pycache__")
    for name in ("src", "workflow", "profiles"):
        shutil.copytree(ROOT / name, folder / name, ignore=skip, dirs_exist_ok=True)
    for name in ("Snakefile", "params.yaml", ".gitignore", ".gitattributes", ".dvcignore"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "studies").mkdir(exist_ok=True)
    shutil.copy(ROOT / "studies" / "sample.yaml", folder / "studies" / "sample.yaml")
    (folder / "studies" / "tiny.yaml").write_text(tiny)
    (folder / "studies" / "second.yaml").write_text(SECOND)
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())
    tool = {"base": "params.yaml", "text": "workflow/rules", "models": "workflow/rules"}
    second = {"base": "studies/tiny.yaml", "text": "data/tiny/text", "models": "data/tiny/models"}
    stages["vars"] = [
        {
            "studies": {
                "tiny": {"file": "studies/tiny.yaml", **tool, "base": "studies/sample.yaml"},
                "second": {"file": "studies/second.yaml", **second},
            }
        }
    ]
    (folder / "dvc.yaml").write_text(yaml.safe_dump(stages, sort_keys=False, width=1000))
    return folder


def run(*command: str, folder: Path, check: bool = True, **environment: str) -> str:
    """What a command in ``folder`` printed; AssertionError with it where it fails and ``check``."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    known = os.environ | {"PATH": path, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=known | {"PYTHONPATH": python_path(folder / "src")} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert not check or done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def python_path(*places: Path) -> str:
    """PYTHONPATH with some places before what it has."""
    return os.pathsep.join(filter(None, [*map(str, places), os.environ.get("PYTHONPATH")]))


def snakemake(folder: Path, *arguments: str, root: Path = ROOT, check: bool = True) -> str:
    """Run Snakemake on the study, with the rules and the package of the checkout ``root``."""
    config = ["--configfile", "studies/tiny.yaml"]
    command = ["snakemake", "--snakefile", str(root / "Snakefile"), *config, "--cores", "2"]
    return run(
        *command, *arguments, folder=folder, check=check, PYTHONPATH=python_path(root / "src")
    )


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
