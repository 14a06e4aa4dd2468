"""Cores open no files, a plan loads nothing heavy, workflows only read."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "entity_transformers"
MODULES = sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py"))
KEPT = {"train/entry.py", "train/checkpoint.py"}
"""What a training keeps while it runs."""
CORES = ("models/", "train/", "encode/", "tasks/")
CORE = [module for module in MODULES if module.startswith(CORES) and module not in KEPT]


@pytest.mark.parametrize("name", ["ci", "pages"])
def test_workflows_may_only_read_and_run_pinned_actions(name: str) -> None:
    text = (ROOT / f".github/workflows/{name}.yml").read_text()
    used = re.findall(r"uses: (.*)", text)
    assert used
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}  # v[\d.]+", action), action
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    for job, one in workflow["jobs"].items():
        more = {"pages": "write", "id-token": "write"} if job == "deploy" else None
        assert one.get("permissions") == more


def test_reading_a_study_loads_nothing_heavy() -> None:
    """With its formats, kinds and plan: the Snakefile reads it too."""
    heavy = "torch transformers numpy scipy matplotlib pyarrow tokenizers huggingface_hub pooch"
    code = (
        "import pathlib, sys, entity_transformers.study.plan as plan\n"
        f"path = pathlib.Path({str(ROOT / 'studies/sample.yaml')!r})\n"
        "assert plan.Plan(plan.load(path), path).params.model('gpt2e').lm.layers\n"
        "print(*sys.modules)"
    )
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert not {*heavy.split(), "tqdm", "entity_transformers.models"} & {*loaded}


@pytest.mark.parametrize("module", CORE)
def test_core_modules_open_no_files(module: str) -> None:
    nodes = ast.walk(ast.parse((PACKAGE / module).read_text()))
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    names = {getattr(func, "id", getattr(func, "attr", None)) for func in calls}
    assert not names & {"open", "read_text", "write_text", "read_bytes", "write_bytes"}
