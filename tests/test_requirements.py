"""What the set-up may install: pinned versions, and the SHA-256 of every file of them."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONSTRAINTS = (ROOT / "constraints.txt").read_text()
HASHED = ("requirements.txt", "requirements-build.txt")
SHA256 = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def pins(text: str) -> dict[str, str]:
    """Versions by canonical name."""
    found = re.findall(r"^([\w.-]+)==([\w.]+)(?: \\)?$", text, re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


def hashes(name: str) -> dict[str, list[str]]:
    """The SHA-256 of each release's files, by NAME==VERSION."""
    blocks = re.split(r"(?m)^(?=\S)", (ROOT / name).read_text())
    return {block.split()[0]: SHA256.findall(block) for block in blocks if block}


def needed(requirement: Requirement) -> set[str]:
    """What an installed distribution requires here, and what that requires, in turn; of torch not
    its CUDA libraries, which differ by build.
    """
    found, todo = set[str](), [requirement]
    seen = set[tuple[str, frozenset[str]]]()
    while todo:
        one = todo.pop()
        name = canonicalize_name(one.name)
        if (name, frozenset(one.extras)) in seen:
            continue
        seen.add((name, frozenset(one.extras)))
        found.add(name)
        listed = (
            [*PROJECT["dependencies"], *own_extras(one.extras)]
            if name == PROJECT["name"]
            else requires(name) or []
        )
        for line in listed:
            other = Requirement(line)
            wanted = other.marker is None or any(
                other.marker.evaluate({"extra": extra}) for extra in ("", *one.extras)
            )
            if wanted and not (name == "torch" and re.match("nvidia|cuda|triton", other.name)):
                todo.append(other)
    return found - {PROJECT["name"]}


def own_extras(names: set[str]) -> list[str]:
    return [line for name in names for line in PROJECT["optional-dependencies"][name]]


def test_every_constraint_is_one_version() -> None:
    lines = [line for line in CONSTRAINTS.splitlines() if not line.startswith("#")]
    assert len(pins(CONSTRAINTS)) == len(lines)


def test_constraints_and_hashes_agree() -> None:
    """torch alone has none: what is wanted of it depends on the machine."""
    wanted = pins(CONSTRAINTS)
    assert wanted.pop("torch")
    assert pins((ROOT / "requirements.txt").read_text()) == wanted
    for name in HASHED:
        found = hashes(name)
        assert len(found) == len(pins((ROOT / name).read_text()))
        for release, files in found.items():
            assert files, f"{name}: {release} has no hash: make requirements"
            assert len(set(files)) == len(files)
    every, build = (hashes(name) for name in HASHED)
    assert build.items() <= every.items()
    assert {release.partition("==")[0] for release in build} >= {"setuptools"}


def test_everything_that_the_set_up_needs_is_pinned() -> None:
    """By the requirements of what is installed here, those of the project's own extra included."""
    try:
        found = needed(Requirement(f"{PROJECT['name']}[dev]"))
    except PackageNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")
    assert found >= {"torch", "snakemake", "dvc", "mpmath", "setuptools", "antlr4-python3-runtime"}
    assert not found - pins(CONSTRAINTS).keys()


def test_make_installs_nothing_else() -> None:
    recipe = re.search(
        r"^\.venv/ready:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    assert recipe
    lines = [line for line in recipe[1].splitlines() if "install" in line.lower()]
    hashed = [line for line in lines if "--require-hashes" in line]
    assert [name for line in hashed for name in HASHED if line.endswith(name)] == [*HASHED[::-1]]
    *_, torch, project = lines
    assert torch.split("INSTALL) ")[1] == "--constraint constraints.txt torch"
    assert "--no-index" in project
    assert "--no-build-isolation" in project
    assert len(lines) == len(hashed) + 2
