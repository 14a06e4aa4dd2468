"""Studies that run in seconds, in a folder laid out as a checkout, and the tools that run them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
LIMIT = 1800  # seconds: only guards against hanging, on a busy or slow machine too
ALONE = {"ENTITY_TRANSFORMERS_FORKS": ""}
"""The environment of commands that are processes of their own."""
TINY = """\
base: sample
corpus: {sample_words: 6000}
tokenizer: {vocabulary: 400}
lm: {layers: 1, heads: 2, width: 16, window: 32, steps: 6, validate_every: 3, warmup_steps: 1}
models: {gpt2-pointer: {steps: 6, validate_every: 3}}
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


def snakemake(folder: Path, *arguments: str, study: str = "tiny", check: bool = True) -> str:
    """Run Snakemake on a study."""
    file = "params.yaml" if study == "paper" else f"studies/{study}.yaml"
    command = ["snakemake", "--cores", "2", "--configfile", file, *arguments]
    return run(*command, folder=folder, check=check)


def planned(folder: Path, study: str = "tiny") -> set[str]:
    """What Snakemake would run: RULE, of a run RULE MODEL-SEED."""
    printed = snakemake(folder, "--dry-run", study=study)
    jobs = set()
    for block in re.split(r"^(?:local)?rule (?=\w+:$)", printed, flags=re.MULTILINE)[1:]:
        found = re.search(r"model=([^,\n]+), seed=(\d+)", block)
        jobs.add(block.split(":")[0] + (f" {found[1]}-{found[2]}" if found else ""))
    return jobs - {"all"}


def set_value(file: Path, old: str, new: str) -> None:
    """Change a text that stands in a study's file once."""
    text = file.read_text()
    assert text.count(old) == 1, (old, text)
    file.write_text(text.replace(old, new))
