"""Digests of code: what changes them, what does not, and what counts as a step's code."""

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
    root = tmp_path / "entity_transformers"

    def forget() -> None:
        for cached in (code._modules, code._imports, code._tree, code._dump):
            cached.cache_clear()

    def write(name: str, text: str) -> None:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        forget()

    monkeypatch.setattr(code, "PACKAGE", root)
    for name in ("__init__.py", "steps/__init__.py", "study/__init__.py", "train/__init__.py"):
        write(name, "")
    yield write
    forget()


PLAIN = """\
import math

def area(r: float) -> float:
    if r < 0:
        raise ValueError(f"{r}: a circle has no such radius")
    return math.pi * r**2
"""
SAME = '''\
"""What a circle covers."""
import math  # for pi

def area(
    r: "float | int",
) -> "float | int":
    """Square metres."""
    if r < 0:
        raise ArithmeticError(f"{r}, expected at least 0") from None
    return (math.pi * r ** 2)
'''
COMPUTED = {
    "r**2": "r**3", "math.pi": "math.tau", "area": "areas", "r < 0": "r < 1", "raise ": "",
}  # fmt: skip


def test_what_is_computed_changes_the_digest(package: Write) -> None:
    """Comments, docstrings, layout, types and the wording of errors do not."""
    digests = []
    for text in (PLAIN, SAME, *(PLAIN.replace(*change) for change in COMPUTED.items())):
        package("train/loop.py", text)
        digests.append(code.digest_modules(["train.loop"]))
    assert digests[1] == digests[0]
    assert digests[0] not in digests[2:]


def test_what_a_step_says_of_itself_changes_no_digest(package: Write) -> None:
    step = "@step('a', 'an area')\ndef a(run):\n    yield 1\ndef tables():\n    return 2\n"
    package("steps/a.py", step)
    before = code.digest_modules(["steps.a"])
    package("steps/a.py", step.replace("an area", "areas").replace("return 2", "return 3"))
    assert code.digest_modules(["steps.a"]) == before
    package("steps/a.py", step.replace("yield 1", "yield 2"))
    assert code.digest_modules(["steps.a"]) != before


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


@pytest.mark.parametrize(("old", "new", "same"), [
    ("'blocks'", "'transformer blocks'", True),
    ("heads", "rows", True),  # another kind's
    ("= 2", "= 3", False),
    ("= 3", "= 4", False),  # inherited
])  # fmt: skip
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


def test_a_step_reaches_what_its_modules_import(package: Write) -> None:
    """But not what only selects, shows or checks types."""
    package("steps/lm.py", "from entity_transformers.train.loop import area\n")
    package(
        "train/loop.py",
        "from . import streams\nfrom .loss import nats\n"
        "from entity_transformers.study import code\n"
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .kept import Kept\n"
        "def f():\n    import entity_transformers.runtime\n",
    )
    for name in ("train/streams", "train/loss", "train/kept", "study/code", "runtime"):
        package(f"{name}.py", "")
    within = {"train", "train.loop", "train.streams", "train.loss", "runtime"}
    assert code.reach(["steps.lm"]) == {"steps.lm"} | within
    before = code.digest_modules(["steps.lm"])
    package("train/kept.py", "x = 1\n")
    package("study/code.py", "x = 1\n")
    assert code.digest_modules(["steps.lm"]) == before
    package("train/loss.py", "x = 1\n")
    assert code.digest_modules(["steps.lm"]) != before
    with pytest.raises(ValueError, match=r"entity_transformers\.steps\.nix: no such module"):
        code.reach(["steps.nix"])


def test_a_package_that_looks_for_its_modules_imports_them_all(package: Write) -> None:
    package("steps/corpus.py", "from entity_transformers.corpus.readers import READERS\n")
    package("corpus/__init__.py", "")
    package("corpus/readers/__init__.py", "import pkgutil\nREADERS = pkgutil.iter_modules(())\n")
    package("corpus/readers/litbank.py", "from entity_transformers.corpus import brackets\n")
    package("corpus/brackets.py", "")
    assert code.reach(["steps.corpus"]) >= {"corpus.readers.litbank", "corpus.brackets"}


def test_data_files_count_by_their_bytes(package: Write) -> None:
    package("corpus.py", "")
    package("corpus/words.txt", "a")
    before = code.digest_modules(["corpus"], ["corpus/*.txt"])
    package("corpus/words.txt", "b")
    assert code.digest_modules(["corpus"], ["corpus/*.txt"]) != before
