"""The documentation's site: its reference is all of what the code has, its pages all of docs, and
nothing on it comes from another host.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import entity_transformers
from entity_transformers.cli import COMMANDS
from entity_transformers.kinds import KINDS
from entity_transformers.study.resolve import NAMED

ROOT = Path(__file__).resolve().parents[1]
VALUES = yaml.safe_load((ROOT / "params.yaml").read_text())
NEEDED = ("mkdocs", "material", "mkdocstrings")


@pytest.fixture(scope="module")
def site() -> Any:
    """workflow/site.py, whose name is that of a module of Python's own."""
    spec = importlib.util.spec_from_file_location("make_site", ROOT / "workflow/site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def keys_of(values: Any, prefix: str) -> Iterator[str]:
    """The keys of params.yaml; below mappings whose names a study chooses, none."""
    for key, value in values.items():
        name = f"{prefix}.{key}".lstrip(".")
        if isinstance(value, dict) and name not in NAMED and value:
            yield from keys_of(value, name)
        elif name not in ("models", "root"):
            yield name


def test_every_key_of_params_yaml_is_there_with_its_value(site: Any) -> None:
    text = site.write_params()
    keys = list(keys_of({**VALUES, "kinds": {}}, ""))
    keys += [f"kinds.{kind}.{key}" for kind, held in VALUES["kinds"].items() for key in held]
    assert len(keys) > 150
    rows = dict(re.findall(r"^\| `([\w.-]+)` \| (.*) \|$", text, re.MULTILINE))
    assert [key for key in keys if key not in rows and key != "kinds"] == []
    assert rows["lm.learning_rate"].split(" | ")[:2] == ["number, above 0", "`2.0e-05`"]
    assert rows["corpus.nested_mentions"].startswith(
        "outermost \\| innermost \\| drop | `outermost`"
    )
    for row in rows.values():  # each says what it is
        assert row.rpartition("| ")[2].strip()


def test_every_kind_is_there_with_what_only_it_has(site: Any) -> None:
    text = site.write_params()
    shared = set(KINDS["gpt2"].params.model_fields)
    for kind in KINDS.values():
        assert f"### `kinds.{kind.name}`" in text
        for key in set(kind.params.model_fields) - shared:
            assert f"`kinds.{kind.name}.{key}`" in text, key


def test_every_command_and_every_flag_of_it_is_there(site: Any) -> None:
    text = site.write_commands()
    for name in COMMANDS:
        assert f"### `{name}`" in text
    assert "--lm.learning_rate VALUE" in text
    assert "--corpus FILE" in text.partition("### `init`")[2].partition("###")[0]


def test_every_public_name_is_there(site: Any) -> None:
    text = site.write_interface()
    for name in entity_transformers.__all__:
        assert re.search(rf"^::: entity_transformers\.\S+\.{name}$", text, re.MULTILINE)
    for module in re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE):
        path = ROOT / "src" / Path(*module.split("."))
        found = [path.with_suffix(".py"), path / "__init__.py", path.parent.with_suffix(".py")]
        assert any(one.is_file() for one in found), module


def test_every_document_has_a_place() -> None:
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    missing = [path.name for path in (ROOT / "docs").glob("*.md") if f"docs/{path.name}" not in nav]
    assert missing == ["README.md"]  # the list of documents, which the navigation is itself


def test_a_broken_link_is_an_error(
    site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "README.md").write_text("[a](b.md)\n")
    (tmp_path / "b.md").write_text("[c](https://example.org/c.md) [d](#d) [e](data/)\n")
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(site, "ROOT", tmp_path)
    assert site.find_pages(("README.md",)) == [Path("README.md"), Path("b.md")]
    (tmp_path / "b.md").write_text("[c](c.md)\n")
    with pytest.raises(FileNotFoundError, match=r"b\.md: link to c\.md, which is not there"):
        site.find_pages(("README.md",))


@pytest.mark.slow
@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in NEEDED), reason="needs the extra docs"
)
def test_the_site_is_built_without_a_warning_and_from_one_host(site: Any, tmp_path: Path) -> None:
    site.build(tmp_path)
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        text = page.read_text()
        fetched = re.findall(r"<(?:script|img|iframe|source)[^>]*\ssrc=\"?(\S+)", text)
        fetched += re.findall(r"<link[^>]*rel=\"?(?:stylesheet|preconnect|icon)[^>]*", text)
        assert fetched
        assert [one for one in fetched if re.search(r"(https?:)?//", one)] == [], page
    styles = "".join(path.read_text() for path in tmp_path.rglob("*.css"))
    assert not re.search(r"(@import|url\()[\"' ]*(https?:)?//", styles)
    reference = (tmp_path / "reference/python.html").read_text()
    assert "EntityMemory" in reference
    assert "section 3.2" in reference
    assert sys.modules.get("mkdocs") is None  # it ran by itself
