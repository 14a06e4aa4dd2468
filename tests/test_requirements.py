"""What the set-up may install: pinned versions, and the SHA-256 of every file of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
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


def set_up(folder: Path, uv: str) -> list[str]:
    """What `make .venv/ready` asks of a folder's tools, which only write that down; ``uv`` is what
    its uv does after that.
    """
    shutil.copy(ROOT / "Makefile", folder)
    for name in ("pyproject.toml", "constraints.txt", *HASHED):
        (folder / name).touch()
    tools = folder / ".venv/bin"
    tools.mkdir(parents=True)
    for name, last in (("python", ":"), ("pip", ":"), ("uv", uv)):
        (tools / name).write_text(f'#!/bin/sh\necho {name} "$@" >> asked\n{last}\n')
        (tools / name).chmod(0o755)
    # as if no other make had called it, which `make test` is
    alone = {**os.environ, "MAKEFLAGS": "", "MAKELEVEL": "0"}
    command = ["make", f"PYTHON={sys.executable}", ".venv/ready"]
    subprocess.run(command, cwd=folder, env=alone, check=True, capture_output=True)
    return (folder / "asked").read_text().splitlines()


def test_make_installs_nothing_else(tmp_path: Path) -> None:
    build, listed, torch, project = set_up(tmp_path, uv="exit 0")
    for line, name in zip((build, listed), HASHED[::-1], strict=True):
        assert "--require-hashes" in line
        assert line.endswith(name)
    assert listed.startswith("uv pip install")
    assert torch.endswith("--constraint constraints.txt torch")
    assert "--no-index" in project
    assert "--no-build-isolation" in project


def test_what_uv_cannot_get_pip_does(tmp_path: Path) -> None:
    """uv does not read pip's configuration, where a mirror or a proxy may be named."""
    _, failed, instead, *rest = set_up(tmp_path, uv="exit 1")
    assert failed.startswith("uv pip install")
    assert instead.startswith("pip install")
    assert failed.split("--require-hashes")[1] == instead.split("--require-hashes")[1]
    assert len(rest) == 2
