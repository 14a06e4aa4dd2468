"""The documents: links lead somewhere, commands and files that are named exist, examples run."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from entity_transformers.cli import COMMANDS
from entity_transformers.cli.study import write_study
from entity_transformers.study.params import load

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("results/*/README.md")]
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.md"))
TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
current = pytest.mark.parametrize(  # these two name what there was, too
    "page",
    [page for page in PAGES if page.name != "CHANGELOG.md" and "log" not in page.parts],
    ids=lambda page: str(page.relative_to(ROOT)),
)


@pages
def test_every_link_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#\s]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@current
def test_every_command_and_every_file_that_is_named_is_there(page: Path) -> None:
    text = page.read_text()
    fenced = "".join(re.findall(r"```(?:bash|)\n(.*?)```", text, re.DOTALL))
    commands = re.findall(r"^(?:\$ )?entity-transformers ([a-z-]+)", fenced, re.MULTILINE)
    assert {*commands} <= COMMANDS.keys()
    made = re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE)
    assert {*made} <= {*TARGETS}
    scripts = re.findall(r"((?:tests|workflow|benchmarks|docs|profiles)/[\w/.-]+\.\w+)`", text)
    assert [name for name in scripts if "NAME" not in name and not (ROOT / name).exists()] == []


def test_the_tutorial_s_study_is_one(tmp_path: Path) -> None:
    """Before and after the model that is added to it."""
    tutorial = (ROOT / "docs/tutorial.md").read_text()
    (text,) = re.findall(r"```yaml\n(.*?)```", tutorial, re.DOTALL)
    more = yaml.safe_load(re.search(r"`(gpt2e-bptt: .*?)`", tutorial, re.DOTALL)[1])
    for name in ("params.yaml", "studies/sample/study.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    study = tmp_path / "studies/mine"
    study.mkdir()
    values = yaml.safe_load(text)
    for models in (values["models"], values["models"] | more):
        (study / "study.yaml").write_text(yaml.safe_dump(values | {"models": models}))
        write_study(study)
        wanted = {"gpt2", "gpt2e", *models} - {"lstm"}
        assert set(load(study / "params.yaml").models) == wanted


@pytest.fixture(scope="module")
def notebooks() -> Any:
    """workflow/notebooks.py."""
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "workflow/notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_block_s_output_stands_below_it(notebooks: Any) -> None:
    page = "A.\n\n```python\na = 2\n```\n\nB.\n\n```python\nprint(a, '\\n', a * 3)\n```\n\n{}C.\n"
    found = notebooks.execute(page.format(""))
    assert found == page.format("```text\n2\n 6\n```\n\n")
    assert notebooks.execute(found) == found  # and is not appended


@pytest.mark.slow
@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_a_notebook_prints_what_it_shows(notebooks: Any, page: Path) -> None:
    assert notebooks.execute(page.read_text()) == page.read_text()
