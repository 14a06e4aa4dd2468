"""The architecture holds: what is generated is as it would be written, cores open no files, a
study's values load nothing heavy.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from entity_transformers.cli.index import list_public, list_studies
from entity_transformers.study.resolve import resolve_study
from entity_transformers.study.stages import (
    CODE,
    find_stale,
    render_code,
    render_stages,
    stands_alone,
)
from entity_transformers.study.steps import STEPS

from entity_transformers.cli import COMMANDS
from entity_transformers.provenance import list_tracked
from entity_transformers.report.readme import write_index
from entity_transformers.study.params import load
from entity_transformers.study.plan import Plan

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "entity_transformers"
MODULES = sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py"))
FILES = {ROOT / "studies" / file for file in list_public(ROOT / "studies")}
STUDIES = [ROOT, *sorted(file.parent for file in FILES if file.name == "params.yaml")]
"""The paper's, and those that git tracks: one's own need not be as these are."""
studies = pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.name)


@pytest.mark.parametrize("study", STUDIES[1:], ids=lambda path: path.name)
def test_params_yaml_is_what_study_yaml_comes_to(study: Path) -> None:
    """Else: make generate."""
    assert (study / "params.yaml").read_text() == resolve_study(study)


@studies
def test_dvc_yaml_is_what_the_steps_come_to(study: Path) -> None:
    """Else: make generate. A real file: with a link DVC finds no earlier version."""
    params, alone = load(study / "params.yaml"), stands_alone(study)
    assert (study / "dvc.yaml").read_text() == render_stages(params, alone=alone)
    assert not (study / "dvc.yaml").is_symlink()


@pytest.mark.parametrize("study", STUDIES[1:], ids=lambda path: path.name)
def test_results_are_of_what_the_study_has(study: Path) -> None:
    """No files, and no stages of dvc.lock, of a step or a model that it no longer has."""
    plan = Plan(load(study / "params.yaml"), study)
    places = {
        f"results/{step.name}/{model}/{seed}/"
        for step in plan.steps
        if step.needs is not None
        for model, seed in plan.runs(step)
    } | {f"results/{step.name}/" for step in plan.steps if step.needs is None}
    files = [file for file in list_tracked(study) if file.startswith("results/")]
    assert [file for file in files if not file.startswith(tuple(places))] == []
    if (study / "dvc.lock").is_file():
        stages = yaml.safe_load((study / "dvc.yaml").read_text())["stages"]
        locked = yaml.safe_load((study / "dvc.lock").read_text())["stages"]
        runs = {place.removeprefix("results/").strip("/") for place in places}
        names = {"@".join(run.replace("/", "-").split("-", 1)) for run in runs}
        assert set(locked) <= names | set(stages)


@pytest.mark.parametrize("home", [study for study in STUDIES if stands_alone(study)], ids=str)
def test_code_json_is_the_digest_of_the_code(home: Path) -> None:
    """Else: make generate. The same in every supported version of Python. A study that is a DVC
    repository of its own has one too.
    """
    assert (home / CODE).read_text() == render_code()


def test_the_index_lists_every_tracked_study_and_its_results() -> None:
    """Else: make generate."""
    text = (ROOT / "studies/README.md").read_text()
    assert text == write_index(list_studies(ROOT / "studies"))
    for link in re.findall(r"\]\((.*?)\)", text):
        assert (ROOT / "studies" / link).is_file()


@pytest.mark.parametrize("name", ["ci", "pages"])
def test_workflows_may_only_read_and_run_pinned_actions(name: str) -> None:
    text = (ROOT / f".github/workflows/{name}.yml").read_text()
    used = re.findall(r"uses: (.*)", text)
    assert used
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}  # v[\d.]+", action), action
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    granted = {
        job: one["permissions"] for job, one in workflow["jobs"].items() if "permissions" in one
    }
    pages = {"deploy": {"pages": "write", "id-token": "write"}}
    assert granted == (pages if name == "pages" else {})


def test_a_stale_file_is_told_in_a_line(tmp_path: Path) -> None:
    assert find_stale(STUDIES[1], ROOT) == {}
    (tmp_path / "code.json").write_text("lm: 1\n")
    base = ROOT / "studies" / "sample" / "study.yaml"
    (tmp_path / "study.yaml").write_text(f"base: {base}\nlm: {{layers: 1}}\n")
    (tmp_path / "params.yaml").write_text((ROOT / "studies/sample/params.yaml").read_text())
    told = find_stale(tmp_path, tmp_path)
    assert list(told) == ["params.yaml", "code.json"]
    assert all(line.startswith(name) and "make generate" in line for name, line in told.items())


def test_every_rule_is_one_command_with_log_and_benchmark() -> None:
    text = "".join(path.read_text() for path in sorted((ROOT / "workflow/rules").glob("*.smk")))
    rules = re.split(r"^ *rule \w*:$", text, flags=re.MULTILINE)[1:]
    named = {rule.replace("_", "-") for step in STEPS.values() for rule in step.rules}
    assert named <= set(COMMANDS)
    for rule in rules:
        assert all(part in rule for part in ("log:", "benchmark:", "shell:", "digest="))
    assert not re.search(r"^\s*(run|script):", text, flags=re.MULTILINE)
    assert not re.search(r"^[^#\n]*workflow\.cores", text, flags=re.MULTILINE)  # none on a cluster


def test_reading_a_study_s_values_and_plan_loads_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "import entity_transformers.study.stages, entity_transformers.study.plan\n"
        "heavy = {'torch', 'transformers', 'numpy', 'scipy', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


CORE = [
    module for module in MODULES if module.split("/")[0] in {"models", "train", "encode", "tasks"}
]


@pytest.mark.parametrize("module", CORE)
def test_core_modules_open_no_files(module: str) -> None:
    calls = [
        node.func
        for node in ast.walk(ast.parse((PACKAGE / module).read_text()))
        if isinstance(node, ast.Call)
    ]
    names = {func.id for func in calls if isinstance(func, ast.Name)} | {
        func.attr for func in calls if isinstance(func, ast.Attribute)
    }
    assert not names & {"open", "read_text", "write_text", "read_bytes", "write_bytes"}
