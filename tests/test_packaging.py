"""What the package needs: little for the model alone, and an extra for everything else."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from entity_transformers.study.steps import STEPS

from entity_transformers import _HOMES, __version__, cli
from entity_transformers.corpus.download import datasets
from entity_transformers.kinds import Library
from entity_transformers.study.libraries import EXTRAS, explain

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "entity_transformers"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CORE = {
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "numpy",
    "huggingface_hub",
    "pydantic",
    "yaml",
}
NAMES = {"yaml": "pyyaml", "sklearn": "scikit-learn", "lm_eval": "lm-eval"}
HEAVY = ("spacy", "pyarrow", "sklearn", "matplotlib", "seqeval", "snakemake", "dvc")


def requirements(extra: str) -> set[str]:
    """The distributions that an extra brings, those of extras that it names included."""
    found = set()
    for line in PROJECT["optional-dependencies"][extra]:
        name, _, inner = re.fullmatch(r"([\w-]+)(\[([\w,]+)\])?.*", line).group(1, 2, 3)  # type: ignore[union-attr]
        found |= {name}
        for one in inner.split(",") if inner else ():
            found |= requirements(one)
    return found


def imported(tree: ast.Module, inside: bool) -> Iterator[str]:
    """The modules that a file imports; ``inside``: in functions too."""
    nodes = ast.walk(tree) if inside else iter(tree.body)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module)


def outside(name: str) -> bool:
    top = name.partition(".")[0]
    return top not in sys.stdlib_module_names and top not in ("entity_transformers", "__future__")


def test_importing_the_package_imports_nothing_else() -> None:
    code = (
        "import sys; before = set(sys.modules); import entity_transformers as e\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(new - set(sys.stdlib_module_names)), e.__version__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["entity_transformers", __version__]


def test_every_module_that_is_imported_is_required_or_in_an_extra() -> None:
    found = {
        name.partition(".")[0]
        for path in SOURCE.rglob("*.py")
        for name in imported(ast.parse(path.read_text()), inside=True)
        if outside(name)
    }
    assert found >= {*HEAVY} - {"snakemake", "dvc"}  # the walk finds them
    assert found <= CORE | EXTRAS.keys()
    required = {re.match(r"[\w-]+", line).group() for line in PROJECT["dependencies"]}  # type: ignore[union-attr]
    assert required == {NAMES.get(name, name.replace("_", "-")) for name in CORE}


@pytest.mark.parametrize("module", EXTRAS)
def test_an_extra_brings_the_module_that_it_is_named_for(module: str) -> None:
    assert NAMES.get(module, module) in requirements(EXTRAS[module])


@pytest.mark.parametrize("step", [step for step in STEPS.values() if step.libraries])
def test_an_extra_brings_all_that_a_step_needs(step: object) -> None:
    for library in STEPS[step.name].libraries:  # type: ignore[attr-defined]
        assert NAMES.get(library.name, library.name) in requirements(library.extra)


def test_the_pipeline_brings_what_every_step_needs() -> None:
    """Static word vectors apart, which are an extra of their own."""
    needed = {
        NAMES.get(library.name, library.name)
        for step in STEPS.values()
        for library in step.libraries
        if library.extra != "vectors"
    }
    assert needed | {"snakemake", "dvc", "accelerate", "pooch"} <= requirements("pipeline")
    assert requirements("dev") > requirements("pipeline") | requirements("vectors")


BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Block())
"""


def run_without(names: set[str], code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Python code on a machine that lacks these modules."""
    return subprocess.run(
        [sys.executable, "-c", BLOCKED.format(names=names) + code],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "missing", "extra"),
    [
        ("train-ner", "seqeval", "ner"),
        ("build-report", "matplotlib", "report"),
        ("annotate book.txt --output x.jsonl", "spacy", "annotate"),
    ],
)
def test_a_missing_extra_is_named_in_one_line(
    command: str, missing: str, extra: str, tmp_path: Path
) -> None:
    (tmp_path / "book.txt").write_text("Anna met Bob.\\n")
    code = f"from entity_transformers.cli import main; main({command.split()!r})"
    done = run_without({missing}, code, tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        f"entity-transformers {command.split()[0]}: {missing} is not installed: install the extra"
        f" '{extra}': pip install '.[{extra}]' in the checkout\n"
    )


def test_git_ignores_what_an_installation_leaves() -> None:
    assert {"build/", "*.egg-info/"} <= {*(ROOT / ".gitignore").read_text().splitlines()}


def test_all_extras_that_a_command_lacks_are_named_at_once() -> None:
    error = ModuleNotFoundError("absent", name="jinja2.ext")
    absent = (Library("absent-one", "ner"), Library("absent-two", "vectors"))
    assert explain(error, (*absent, Library("numpy", "annotate"))) == (
        "jinja2 is not installed: install the extras 'ner' and 'report' and 'vectors':"
        " pip install '.[ner,report,vectors]' in the checkout"
    )
    assert explain(ModuleNotFoundError("absent", name="nothing"), absent) == ""


def test_the_model_alone_imports_what_is_required() -> None:
    """What its modules import when they are loaded; the wheel in an empty environment is tried
    before a release.
    """
    todo, found = [home.replace(".", "/") for home in set(_HOMES.values())], set[str]()
    others = set[str]()
    while todo:
        name = todo.pop()
        files = [SOURCE.parent / f"{name}.py", SOURCE.parent / name / "__init__.py"]
        path = next((file for file in files if file.is_file()), None)
        if name in found or path is None:
            continue
        found.add(name)
        tree = ast.parse(path.read_text())
        others |= {one.partition(".")[0] for one in imported(tree, inside=False) if outside(one)}
        ours = [one for one in imported(tree, inside=False) if one.startswith("entity_")]
        todo += [one.replace(".", "/") for one in ours]
        near = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.level]
        todo += [f"{name.rpartition('/')[0]}/{node.module}" for node in near]
    assert "entity_transformers/models/gpt2e/memory" in found
    assert others >= {"torch", "transformers"}
    assert others <= CORE


def test_without_params_yaml_the_paper_s_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "PAPER", ROOT / "params.yaml")
    cli.main(["check-params"])
    values = json.loads(capsys.readouterr().out)
    assert values["lm"]["learning_rate"] == 2e-5
    (tmp_path / "params.yaml").write_text("lm: {}\n")  # one that is there counts
    with pytest.raises(SystemExit):
        cli.main(["check-params"])


def test_one_version_everywhere() -> None:
    """The package's is the newest of the changelog and that which is cited; versions go down."""
    changes = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## (\d+\.\d+\.\d+), ", changes, re.MULTILINE)
    assert versions[0] == __version__
    numbers = [tuple(map(int, version.split("."))) for version in versions]
    assert numbers == sorted(set(numbers), reverse=True)
    assert len(re.findall(r"^## ", changes, re.MULTILINE)) == len(versions) >= 2
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == __version__
    assert cited["references"][0]["year"] == 2020


def test_every_data_set_is_on_the_data_card_with_its_licence_and_size() -> None:
    card = (ROOT / "docs/data.md").read_text()
    rows = {row[0]: row[1:] for row in re.findall(
        r"^\| `(\S+)` \| .* \| (.*) \| (.*) \| (.*) \| (.*) \|$", card, re.MULTILINE
    )}  # fmt: skip
    for name, dataset in datasets().items():
        if dataset.downloads:
            assert name in rows
        if dataset.source:
            source, (origin, licence, files, size) = dataset.source(), rows[name]
            assert source.licence == licence
            assert origin.partition(" ")[0] in source.origin
            assert int(files) == len(source.files)
            assert int(size.replace(",", "")) == sum(file.bytes for file in source.files)


@pytest.mark.slow
def test_the_wheel_has_params_and_names_its_extras(tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "src", "*.toml", "setup.py", "MANIFEST.in",
         "README.md", "LICENSE", "params.yaml"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
         "--wheel-dir", tmp_path, folder],
        check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    archive = zipfile.ZipFile(wheel)
    assert archive.read("entity_transformers/params.yaml") == (ROOT / "params.yaml").read_bytes()
    (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    lines = archive.read(metadata).decode().splitlines()
    assert f"Version: {__version__}" in lines
    extras = {line.removeprefix("Provides-Extra: ") for line in lines if "Provides-Extra" in line}
    assert extras >= {"pipeline", "ner", "report", "vectors", "annotate", "docs", "dev"}
