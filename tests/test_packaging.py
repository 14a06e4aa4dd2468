"""What the package needs: little for the model alone, and an extra for everything else."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import yaml

from entity_transformers import _HOMES, __version__
from entity_transformers.corpus.download import datasets
from entity_transformers.corpus.tasks import registry
from entity_transformers.study import values
from entity_transformers.study.libraries import EXTRAS
from entity_transformers.study.params import STEPS, load

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "entity_transformers"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CORE = {*"torch transformers tokenizers safetensors numpy huggingface_hub pydantic yaml".split()}
NAMES = {"yaml": "pyyaml", "sklearn": "scikit-learn", "lm_eval": "lm-eval"}
TOOL = "{0} is not installed: pip install '.[{1}]' in the checkout"


def requirements(extra: str) -> set[str]:
    """The distributions that an extra brings, those of extras that it names included."""
    found = set()
    for line in PROJECT["optional-dependencies"][extra]:
        name, _, inner = re.fullmatch(r"([\w-]+)(\[([\w,]+)\])?.*", line).group(1, 2, 3)  # type: ignore[union-attr]
        found |= {name}
        for one in inner.split(",") if inner else ():
            found |= requirements(one)
    return found


def imported(path: Path, inside: bool) -> Iterator[str]:
    """The modules that a file of the package imports; ``inside``: in functions too."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree) if inside else tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = path.relative_to(SOURCE.parent).parts[: -node.level] if node.level else ()
            yield ".".join((*above, *filter(None, [node.module])))


def find_outside(names: Iterable[str]) -> set[str]:
    ours = {"entity_transformers", "__future__", *sys.stdlib_module_names}
    return {name.partition(".")[0] for name in names} - ours


def test_importing_the_package_imports_nothing_else() -> None:
    code = (
        "import sys; before = set(sys.modules); import entity_transformers as e\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(new - sys.stdlib_module_names), e.__version__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["entity_transformers", __version__]


def test_every_module_that_is_imported_is_required_or_in_an_extra() -> None:
    files = SOURCE.rglob("*.py")
    found = find_outside(name for path in files for name in imported(path, inside=True))
    assert found >= {"spacy", "pyarrow", "sklearn", "matplotlib", "seqeval"}  # the walk finds them
    assert found <= CORE | EXTRAS.keys()
    required = {re.match(r"[\w-]+", line).group() for line in PROJECT["dependencies"]}  # type: ignore[union-attr]
    assert required == {NAMES.get(name, name.replace("_", "-")) for name in CORE}


def test_extras_bring_the_modules_that_they_are_named_for() -> None:
    """The pipeline brings what every step needs, static word vectors apart."""
    for module, extra in EXTRAS.items():
        assert NAMES.get(module, module) in requirements(extra), module
    for step in STEPS.values():
        for library in step.libraries:
            needed = {NAMES.get(library, library)}
            assert EXTRAS[library] == "vectors" or needed <= requirements("pipeline"), step.name
    assert {"snakemake", "dvc", "accelerate", "pooch"} <= requirements("pipeline")
    assert requirements("dev") > requirements("pipeline") | requirements("vectors")


@pytest.mark.parametrize(("command", "missing", "extra", "told"), [
    (f"run ner --study {ROOT}/params.yaml --model gpt2 --seed 1", "seqeval", "ner",
     f"step ner needs {TOOL.replace(' is', ', which is')}"),
    (f"report {ROOT}/params.yaml", "matplotlib", "report", TOOL),
    ("annotate book.txt --output x.jsonl", "spacy", "annotate", TOOL),
])  # fmt: skip
def test_a_missing_extra_is_named_in_one_line(command, missing, extra, told, tmp_path):
    (tmp_path / "book.txt").write_text("Anna met Bob.\n")
    words = command.split()
    code = (
        f"import sys; sys.path.insert(0, '{SOURCE.parent}'); sys.modules['{missing}'] = None\n"
        f"from entity_transformers.cli import main; main({words!r})"
    )
    python = [sys.executable, "-c", code]
    done = subprocess.run(python, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert done.stderr == f"entity-transformers {words[0]}: {told.format(missing, extra)}\n"


def test_the_model_alone_imports_what_is_required() -> None:
    """The wheel in an empty environment is tried before a release."""
    todo, found, others = {*_HOMES.values()}, set[str](), set[str]()
    while todo:
        found.add(name := todo.pop())
        home = SOURCE.parent / name.replace(".", "/")
        path = home / "__init__.py" if home.is_dir() else home.with_suffix(".py")
        names = {*imported(path, inside=False)}
        others |= find_outside(names)
        todo |= {one for one in names if one.startswith("entity_")} - found
    assert "entity_transformers.models.gpt2e.memory" in found
    assert others >= {"torch", "transformers"}
    assert others <= CORE


def test_without_params_yaml_the_paper_s_are_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(values, "PACKAGED", ROOT / "params.yaml")
    study = tmp_path / "studies/own.yaml"
    study.parent.mkdir()
    study.write_text("lm: {steps: 7}\n")
    assert (load(study).lm.learning_rate, load(study).lm.steps) == (2e-5, 7)
    (tmp_path / "params.yaml").write_text("lm: {}\n")  # one that is there counts
    with pytest.raises(values.ParamsError):
        load(study)


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


def test_data_sets_are_on_the_data_card_with_their_licences() -> None:
    card = (ROOT / "docs/data.md").read_text()
    rows = {row[0]: row[1:] for row in re.findall(
        r"^\| `(\S+)` \| .* \| (.*) \| (.*) \| (.*) \| (.*) \|$", card, re.MULTILINE
    )}  # fmt: skip
    for name in datasets().keys() - registry().keys():  # the tasks have a table of their own
        assert name in rows or not datasets()[name].downloads
        if (dataset := datasets()[name]).files:
            origin, licence, files, _ = rows[name]
            assert origin.partition(" ")[0] in dataset.origin
            assert (licence, int(files)) == (dataset.licence, len(dataset.files))


@pytest.mark.slow
def test_the_wheel_has_params_and_names_its_extras(tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    left = shutil.ignore_patterns("*.egg-info", "__pycache__")
    shutil.copytree(SOURCE.parent, folder / "src", ignore=left)
    for name in "pyproject.toml setup.py MANIFEST.in README.md LICENSE params.yaml".split():
        shutil.copy(ROOT / name, folder)
    flags = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, folder)
    subprocess.run([sys.executable, "-m", "pip", "wheel", *flags], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    archive = zipfile.ZipFile(wheel)
    assert archive.read("entity_transformers/params.yaml") == (ROOT / "params.yaml").read_bytes()
    (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    lines = archive.read(metadata).decode().splitlines()
    assert f"Version: {__version__}" in lines
    extras = {line.removeprefix("Provides-Extra: ") for line in lines if "Provides-Extra" in line}
    assert extras >= {"pipeline", "ner", "report", "vectors", "annotate", "docs", "dev"}
