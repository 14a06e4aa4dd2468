"""What the documents name is there: modules, functions, keys of params.yaml, links."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from entity_transformers.cli.study import write_study
from entity_transformers.study.params import load

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [
    "README.md",
    "PAPER.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").glob("*.md"))),
]
MODULES = [str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob("*.py")]
CODE = "\n".join((ROOT / module).read_text() for module in MODULES)
VALUES = yaml.safe_load((ROOT / "params.yaml").read_text())
FORMER = {"CHANGELOG.md"}  # names what there was, too


def quoted(document: str) -> list[str]:
    return sorted(set(re.findall(r"`([^`\n]+)`", (ROOT / document).read_text())))


def is_key(words: list[str]) -> bool:
    held: Any = VALUES
    for word in words:
        if not isinstance(held, dict) or word not in held:
            return False
        held = held[word]
    return True


def is_module(words: list[str]) -> bool:
    return any(f"entity_transformers/{'/'.join(words[:n])}.py" in " ".join(MODULES) for n in (2, 3))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_that_is_named_is_there(document: str) -> None:
    named = [name for name in quoted(document) if re.fullmatch(r"[a-z_]+/[a-z_0-9/]+\.py", name)]
    places = [*MODULES, *(str(p.relative_to(ROOT)) for p in (ROOT / "tests").rglob("*.py"))]
    missing = [
        name
        for name in named
        if not (ROOT / name).exists() and not any(place.endswith(name) for place in places)
    ]
    assert missing == []


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if name not in FORMER])
def test_every_function_and_class_that_is_named_is_there(document: str) -> None:
    text = CODE + "".join(path.read_text() for path in (ROOT / "studies").glob("*/study.yaml"))
    text += (ROOT / "params.yaml").read_text()
    text += "".join(path.stem + "\n" for path in (ROOT / "src").rglob("*.yaml"))
    named = [name for name in quoted(document) if re.fullmatch(r"[A-Za-z]\w*_\w+", name)]
    corpora = r"GUM_\w+|[A-Z_]+"  # documents of a corpus, variables of the environment
    missing = [name for name in named if not re.search(rf"\b{name}\b", text)]
    assert [name for name in missing if not re.fullmatch(corpora, name)] == []


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if name not in FORMER])
def test_every_key_that_is_named_is_one_of_params_yaml(document: str) -> None:
    named = [name.split(":")[0].split(".") for name in quoted(document)]
    keys = [words for words in named if len(words) > 1 and words[0] in VALUES]
    keys = [words for words in keys if not is_module(words)]
    keys = [words for words in keys if re.fullmatch(r"[\w.]+", ".".join(words))]
    assert [".".join(words) for words in keys if words[1] != "yaml" and not is_key(words)] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_to_a_file(document: str) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#\s]+)", (ROOT / document).read_text())
    assert [link for link in links if not (ROOT / document).parent.joinpath(link).exists()] == []


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


def test_a_wrong_key_and_a_wrong_name_would_be_seen() -> None:
    assert is_key(["kinds", "gpt2e", "entity_gate"])
    assert not is_key(["lm", "entity_gate"])
    assert not re.search(r"\blabel_corpus\b", CODE)
