"""Digests of code: what changes them, what does not, and what counts as a step's code."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from entity_transformers.study import code

Write = Callable[[str, str], None]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """A package of the same name in a folder of its own; the fixture writes its modules."""
    root = tmp_path / "src" / "entity_transformers"
    root.mkdir(parents=True)

    def forget() -> None:
        for cached in (code._modules, code._summary, code._known, code._save):
            cached.cache_clear()

    def write(name: str, text: str) -> None:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        forget()

    monkeypatch.setattr(code, "PACKAGE", root)
    for name in ("__init__.py", "cli/__init__.py", "study/__init__.py", "train/__init__.py"):
        write(name, "")
    yield write
    forget()


PLAIN = "import math\n\n\ndef area(r: float) -> float:\n    return math.pi * r**2\n"
SAME = '''"""What a circle covers."""
import math  # for pi


def area(
    r: float,
) -> float:
    """Square metres."""
    # as ever
    return (math.pi * r ** 2)
'''


def test_comments_docstrings_and_layout_change_no_digest(package: Write) -> None:
    package("train/loop.py", PLAIN)
    before = code.digest_modules(["train.loop"])
    package("train/loop.py", SAME)
    assert code.digest_modules(["train.loop"]) == before


@pytest.mark.parametrize(
    ("old", "new"), [("r**2", "r**3"), ("math.pi", "math.tau"), ("area", "areas")]
)
def test_what_is_computed_changes_the_digest(package: Write, old: str, new: str) -> None:
    package("train/loop.py", PLAIN)
    before = code.digest_modules(["train.loop"])
    package("train/loop.py", PLAIN.replace(old, new))
    assert code.digest_modules(["train.loop"]) != before


def test_the_description_of_a_parameter_is_a_docstring(package: Write) -> None:
    package("train/loop.py", "layers = Field(gt=0, description='blocks')\n")
    before = code.digest_modules(["train.loop"])
    package("train/loop.py", "layers = Field(gt=0, description='transformer blocks')\n")
    assert code.digest_modules(["train.loop"]) == before
    package("train/loop.py", "layers = Field(gt=1, description='blocks')\n")
    assert code.digest_modules(["train.loop"]) != before


CLASS = """\
from entity_transformers.study.sections import PositiveInt, Section
class Base(Section):
    width: PositiveInt = 3
class Params(Base):
    layers: PositiveInt = 2
    'blocks'
class Other(Section):
    heads: PositiveInt = 1
"""


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("'blocks'", "'transformer blocks'", True),
        ("heads", "rows", True),  # another kind's
        ("= 2", "= 3", False),
        ("= 3", "= 4", False),  # inherited
    ],
)
def test_the_digest_of_parameters_is_of_a_class_and_of_those_that_it_extends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, same: bool
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    digests = []
    for text in (CLASS, CLASS.replace(old, new)):
        name = f"params_{hashlib.sha256(text.encode()).hexdigest()}"
        (tmp_path / f"{name}.py").write_text(text)
        digests.append(code.digest_modules((), params=[import_module(name).Params]))
    assert (digests[0] == digests[1]) is same


RAISING = """\
def area(r: float) -> float:
    if r < 0:
        raise ValueError(f"{r}: a circle has no such radius")
    return 3 * r**2
"""
REWORDED = """\
def area(r: "float | int") -> "float | int":
    if r < 0:
        raise ArithmeticError(f"{r}, expected at least 0") from None
    return 3 * r**2
"""


def test_what_an_error_says_changes_no_digest_but_when_it_is_raised_does(package: Write) -> None:
    package("train/loop.py", RAISING)
    before = code.digest_modules(["train.loop"])
    package("train/loop.py", REWORDED)
    assert code.digest_modules(["train.loop"]) == before
    package("train/loop.py", REWORDED.replace("r < 0", "r < 1"))
    assert code.digest_modules(["train.loop"]) != before
    package("train/loop.py", RAISING.replace("raise ", ""))
    assert code.digest_modules(["train.loop"]) != before


def test_a_step_reaches_what_its_modules_import(package: Write) -> None:
    package("cli/lm.py", "from entity_transformers.train.loop import area\n")
    package("train/loop.py", "def f():\n    from entity_transformers import runtime\n")
    package("runtime.py", "import entity_transformers.artifacts\n")
    package("artifacts.py", "import json\n")
    package("train/other.py", "")
    package("study/params.py", "from entity_transformers.train import other\n")
    assert code.reach(["cli.lm"]) == {"cli.lm", "train", "train.loop", "runtime", "artifacts"}
    before = code.digest_modules(["cli.lm"])
    package("train/other.py", "x = 1\n")
    package("cli/__init__.py", "x = 1\n")
    assert code.digest_modules(["cli.lm"]) == before
    package("artifacts.py", "import json\nx = 1\n")
    assert code.digest_modules(["cli.lm"]) != before


def test_relative_imports_and_those_of_the_type_checker(package: Write) -> None:
    package("cli/lm.py", "from entity_transformers.train import loop\n")
    package(
        "train/loop.py",
        "from . import streams\nfrom .loss import nats\n"
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .kept import Kept\n",
    )
    for name in ("streams", "loss", "kept"):
        package(f"train/{name}.py", "")
    assert code.reach(["cli.lm"]) == {
        "cli.lm", "train", "train.loop", "train.streams", "train.loss",
    }  # fmt: skip


def test_a_package_that_looks_for_its_modules_imports_them_all(package: Write) -> None:
    package("cli/corpus.py", "from entity_transformers.corpus.readers import READERS\n")
    package("corpus/__init__.py", "")
    package("corpus/readers/__init__.py", "import pkgutil\nREADERS = pkgutil.iter_modules(())\n")
    package("corpus/readers/litbank.py", "from entity_transformers.corpus import brackets\n")
    package("corpus/brackets.py", "")
    assert code.reach(["cli.corpus"]) >= {"corpus.readers.litbank", "corpus.brackets"}


def test_data_files_count_by_their_bytes(package: Write) -> None:
    package("report.py", "")
    package("report/page.html", "<p>")
    before = code.digest_modules(["report"], ["report/*.html"])
    package("report/page.html", "<b>")
    assert code.digest_modules(["report"], ["report/*.html"]) != before


def test_what_is_known_of_a_module_is_kept_until_its_bytes_differ(
    package: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Snakefile").touch()
    package("train/loop.py", PLAIN)
    before = code.digest_modules(["train.loop"])
    code._save()
    kept = tmp_path / "work" / "code.json"
    assert "train.loop" in kept.read_text()
    package("train/loop.py", PLAIN)
    with monkeypatch.context() as patched:
        patched.setattr(code, "_read", None)  # it is not asked
        assert code.digest_modules(["train.loop"]) == before


@pytest.mark.parametrize("text", ["", "[]", "{", '{"train": 1}', '{"train": {}}'])
def test_a_damaged_file_of_digests_is_as_good_as_none(
    package: Write, tmp_path: Path, text: str
) -> None:
    (tmp_path / "Snakefile").touch()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "code.json").write_text(text)
    package("train/loop.py", PLAIN)
    assert code.digest_modules(["train.loop"])


def test_a_module_that_is_not_there_is_named(package: Write) -> None:
    with pytest.raises(ValueError, match=r"entity_transformers\.cli\.nix: no such module"):
        code.reach(["cli.nix"])


def test_the_text_of_an_f_string_is_joined_however_it_is_cut() -> None:
    """Python 3.12 cuts the texts of f-strings otherwise than 3.11."""
    whole = ast.parse("f'ab{x:>{w}.2f}'", mode="eval").body
    cut = ast.parse("f'ab{x:>{w}.2f}'", mode="eval").body
    assert isinstance(cut, ast.JoinedStr)
    cut.values[:1] = [ast.Constant("a"), ast.Constant(""), ast.Constant("b")]
    assert code.dump(whole) == code.dump(cut)


def test_a_field_that_one_version_lacks_is_left_out() -> None:
    """Python 3.12 added type_params to functions and classes, mostly an empty list."""
    node = ast.parse("def f(): pass").body[0]
    before = code.dump(node)
    node.type_params = []  # type: ignore[attr-defined]
    assert code.dump(node) == before
    assert "type_params" not in str(before)


def test_an_unprintable_character_is_written_alike_everywhere() -> None:
    """Which characters are printable depends on the version of Unicode."""
    assert code.dump(ast.Constant("\U0001fae8")) == ["Constant", ["value", "'\\U0001fae8'"]]
