"""A study that runs in a minute, and the two tools that run it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from entity_transformers.artifacts import DIGESTS
from entity_transformers.cli.study import write_study
from entity_transformers.study.params import Params
from entity_transformers.study.stages import render_stages
from entity_transformers.study.steps import STEPS

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
LIMIT = 1800  # seconds: only guards against hanging, on a busy or slow machine too
ALONE = {"ENTITY_TRANSFORMERS_FORKS": ""}
"""The environment of commands that are processes of their own."""
TINY = """\
base: {sample}
corpus: {{sample_words: 6000}}
tokenizer: {{vocabulary: 400}}
lm:
  layers: 1
  heads: 2
  width: 16
  window: 32
  steps: 6
  documents_per_step: 2
  validate_every: 3
  warmup_steps: 1
perplexity: {{stride: 32}}
ner: {{hidden: 8, epochs: 1}}
recall: {{documents: 128, distinct_documents: 128, test_documents: 20, width: 16}}
report: {{bootstrap_samples: 100}}
"""


def run(*command: str, folder: Path, check: bool = True, **environment: str) -> str:
    """What a command in ``folder`` printed; AssertionError with it where it fails and ``check``."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PATH": path, "HF_HUB_OFFLINE": "1"} | environment,
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
    """Run Snakemake on a study, with the rules and the package of the checkout ``root``."""
    command = ["snakemake", "--snakefile", str(root / "Snakefile"), "--cores", "2", *arguments]
    return run(*command, folder=folder, check=check, PYTHONPATH=python_path(root / "src"))


def make_study(folder: Path, more: str = "") -> Path:
    """A study in ``folder`` as `entity-transformers write-study` leaves it, versioned by DVC."""
    sample = os.path.relpath(ROOT / "studies" / "sample" / "study.yaml", folder)
    (folder / "study.yaml").write_text(TINY.format(sample=sample) + more)
    run("dvc", "init", "--no-scm", "--quiet", folder=folder)
    write_study(folder)
    (folder / "study.yaml").unlink()  # the tests change params.yaml itself
    return folder


def planned(folder: Path, root: Path = ROOT) -> set[str]:
    """What Snakemake would run: a job as RULE, and one of a run as RULE MODEL-SEED."""
    printed = snakemake(folder, "--dry-run", root=root)
    jobs = set()
    for block in re.split(r"^rule (?=\w+:$)", printed, flags=re.MULTILINE)[1:]:
        found = re.search(r"^    wildcards: model=([^,]+), seed=(\d+)$", block, flags=re.MULTILINE)
        jobs.add(block.split(":")[0] + (f" {found[1]}-{found[2]}" if found else ""))
    return jobs - {"all"}


def rules_of(*steps: str) -> set[str]:
    """The rules of some steps."""
    return {rule for step in steps for rule in STEPS[step].rules}


def rules(jobs: set[str]) -> set[str]:
    """The rules of some jobs."""
    return {job.partition(" ")[0] for job in jobs}


def stages_of_jobs(jobs: set[str]) -> set[str]:
    """The stages of DVC that the jobs are part of."""
    homes = {rule: step for step in STEPS.values() for rule in step.rules}
    found = set()
    for job in jobs:
        rule, _, which = job.partition(" ")
        step = homes[rule]
        found.add(step.name if step.needs is None else f"{step.name}@{which}")
    return found


def expand_stages(params: Params) -> dict[str, dict[str, Any]]:
    """Each stage of a study's dvc.yaml by DVC's name for it, its templates filled in."""
    found = {}
    written = yaml.safe_load(render_stages(params))
    shared = next((one["runs"] for one in written.get("vars", [])), {})
    for name, stage in written["stages"].items():
        items = stage.get("foreach", {None: {}})
        for key, item in (shared if items == "${runs}" else items).items():
            text = yaml.safe_dump(stage.get("do", stage)).replace("${root}", params.root)
            for _ in range(2):  # an item's key may have a template itself
                text = re.sub(
                    r"\$\{item\.(\w+)(?:\[(\d)\])?\}", lambda m, item=item: _fill(item, m), text
                )
            found[name if key is None else f"{name}@{key}"] = yaml.safe_load(text)
    return found


def _fill(item: dict[str, Any], match: re.Match[str]) -> str:
    value = item[match[1]]
    return str(value if match[2] is None else value[int(match[2])])


def outs_of(stage: dict[str, Any]) -> set[str]:
    """The paths that a stage writes."""
    outs = [*stage.get("outs", []), *stage.get("metrics", []), *stage.get("plots", [])]
    return {out if isinstance(out, str) else next(iter(out)) for out in outs}


def follow(stages: dict[str, dict[str, Any]], changed: set[str]) -> set[str]:
    """The stages and all that depend on them by files."""
    homes = {out: name for name, stage in stages.items() for out in outs_of(stage)}
    for _ in STEPS:
        changed = changed | {
            name
            for name, stage in stages.items()
            if changed
            & {homes.get(dep, homes.get(str(Path(dep).parent))) for dep in stage.get("deps", [])}
        }
    return changed


def stale(folder: Path) -> set[str]:
    """The stages whose values or code DVC sees changed."""
    status = json.loads(run("dvc", "status", "--json", folder=folder))
    return {
        stage
        for stage, causes in status.items()
        if "params.yaml" in json.dumps(causes) or "code.json" in json.dumps(causes)
    }


def committed(folder: Path) -> Iterator[tuple[str, bytes]]:
    """What git would hold of a study's results but times and provenance."""
    kinds = {".json", ".csv", ".md", ".png", ".txt"}
    timed = {"timing.json", "manifest.json", "source.json", "lambada_source.json", "measures.csv"}
    # and the tables that show times
    tables = ("table2", "claims", "models", "overview")
    timed |= {f"{name}.{kind}" for name in tables for kind in ("md", "csv")}
    timed |= {"overview.png", "README.md", DIGESTS}  # which hold these tables
    for path in sorted((folder / "results").rglob("*")):
        if path.suffix in kinds and path.name not in timed:
            yield str(path.relative_to(folder)), path.read_bytes()


def copy_checkout(folder: Path) -> Path:
    """A copy of what Snakemake reads of the checkout, to be edited."""
    for name in ("src", "workflow", "profiles"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Snakefile", "code.json"):
        shutil.copy(ROOT / name, folder / name)
    return folder
