"""The architecture holds: a step's declared code is what it imports, cores open no files, nothing
describes the DAG twice.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

from entity_transformers.cli import COMMANDS, WITHOUT_PARAMS
from entity_transformers.cli.lm import CODE
from entity_transformers.report.figures import CAPTIONS
from entity_transformers.report.results import Results
from entity_transformers.report.tables import build_all
from entity_transformers.study.params import Params

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "entity_transformers"
STAGES = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
SHARED = {
    "__init__.py",
    "cli/documents.py",
    "params.py",
    "sections.py",
    "artifacts.py",
    "runtime.py",
    "cli/__init__.py",
}
MODULES = sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py"))


def find_module(parts: list[str]) -> str | None:
    for name in ("/".join(parts) + ".py", "/".join([*parts, "__init__.py"])):
        if name in MODULES:
            return name
    return None


def imports(module: str) -> set[str]:
    """Modules of the package that ``module`` imports, anywhere in the file."""
    here = module.removesuffix(".py").split("/")[:-1]
    found = set()
    for node in ast.walk(ast.parse((PACKAGE / module).read_text())):
        if isinstance(node, ast.ImportFrom):
            full = node.module.split(".") if node.module else []
            if node.level:
                base = here[: len(here) - node.level + 1] + full
            elif full[:1] == ["entity_transformers"]:
                base = full[1:]
            else:
                continue
            for alias in node.names:
                found.add(find_module([*base, alias.name]) or find_module(base))
    return {name for name in found if name is not None} - SHARED


def reach(module: str) -> set[str]:
    todo, seen = [module], {module}
    while todo:
        for name in imports(todo.pop()) - seen:
            seen.add(name)
            todo.append(name)
    return seen


@pytest.mark.parametrize("step", STAGES)
def test_dvc_names_all_code_of_a_step(step: str) -> None:
    named = [
        dep.removeprefix("${root}/src/entity_transformers/")
        for dep in STAGES[step]["deps"]
        if dep.startswith("${root}")
    ]
    covered = {m for m in MODULES for name in named if m == name or m.startswith(f"{name}/")}
    reading = {
        m for m in reach(f"cli/{step}.py") if not m.startswith("cli/") or m == f"cli/{step}.py"
    }
    assert reading - covered == set()


@pytest.mark.parametrize("step", STAGES)
def test_dvc_names_all_sections_that_a_step_reads(step: str) -> None:
    text = (PACKAGE / "cli" / f"{step}.py").read_text()
    reading = set(re.findall(r"params\.(\w+)\.", text)) | set(
        re.findall(r"section.* = params\.(\w+)\b", text)
    )
    # only whether their splits exist
    checked = {"perplexity", "embeddings"} if step == "corpus" else set()
    assert reading & set(Params.model_fields) - {"run"} - checked <= set(STAGES[step]["params"])


def test_a_training_is_kept_under_all_code_of_its_step() -> None:
    named = {
        dep.removeprefix("${root}/src/entity_transformers/")
        for dep in STAGES["lm"]["deps"]
        if dep.startswith("${root}")
    }
    assert set(CODE) == named


@pytest.mark.parametrize("step", STAGES)
def test_a_step_is_a_word_everywhere(step: str) -> None:
    assert (ROOT / "workflow/rules" / f"{step}.smk").is_file()
    assert (PACKAGE / step).is_dir() or (PACKAGE / f"{step}.py").is_file()
    assert (PACKAGE / "cli" / f"{step}.py").is_file()
    assert set(STAGES[step]["params"]) <= set(Params.model_fields)
    assert f'include: "workflow/rules/{step}.smk"' in (ROOT / "Snakefile").read_text()


def test_every_rule_is_one_command_with_log_and_benchmark() -> None:
    text = "".join(path.read_text() for path in sorted((ROOT / "workflow/rules").glob("*.smk")))
    rules = re.split(r"^rule ", text, flags=re.MULTILINE)[1:]
    called = {
        match[1] for rule in rules if (match := re.search(r"entity-transformers ([\w-]+)", rule))
    }
    assert called == set(COMMANDS) - set(WITHOUT_PARAMS) - {"check-params", "export-model"}
    for rule in rules:
        assert all(part in rule for part in ("log:", "benchmark:", "shell:", "digest=digest("))
    assert not re.search(r"^\s*(run|script):", text, flags=re.MULTILINE)


def test_the_allowed_rules_of_a_stage_are_its_file_s_rules() -> None:
    for step, stage in STAGES.items():
        allowed = re.search(r"--allowed-rules ([\w ]+) --", stage["cmd"])
        rules = re.findall(
            r"^rule (\w+):", (ROOT / f"workflow/rules/{step}.smk").read_text(), flags=re.MULTILINE
        )
        assert allowed is not None
        assert allowed[1].split() == rules


def test_the_report_rule_names_all_tables_and_figures() -> None:
    text = (ROOT / "workflow/rules/report.smk").read_text()
    named = {
        name: re.search(rf"{name} = \(?\s*\"([^\"]+)\"", text) for name in ("TABLES", "FIGURES")
    }
    assert named["TABLES"] is not None
    assert named["FIGURES"] is not None
    assert set(named["TABLES"][1].split()) == set(
        build_all(Results("nothing", ("gpt2",), (1,), ()))
    )
    assert set(named["FIGURES"][1].split()) == set(CAPTIONS)


def test_the_snakefile_is_short_and_every_study_links_dvc_yaml() -> None:
    assert len((ROOT / "Snakefile").read_text().splitlines()) <= 40
    for folder in (ROOT / "studies").iterdir():
        assert (folder / "dvc.yaml").resolve() == ROOT / "dvc.yaml"


CORE = [
    m
    for m in MODULES
    if m.split("/")[0]
    in {
        "lm",
        "perplexity",
        "embeddings",
        "probe",
        "ner",
        "similarity.py",
        "bootstrap.py",
        "anomalies",
        "recall.py",
    }
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


@pytest.mark.parametrize("module", MODULES)
def test_modules_stay_under_300_lines(module: str) -> None:
    assert len((PACKAGE / module).read_text().splitlines()) <= 300
