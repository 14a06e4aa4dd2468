"""What the set-up may install: pinned versions, and the SHA-256 of every file of them."""

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
LISTED = (ROOT / "requirements.txt").read_text()
BUILD = {"packaging", "setuptools", "setuptools-scm", "uv", "vcs-versioning"}


def pins() -> dict[str, str]:
    found = re.findall(r"^([\w.-]+)==([\w.]+) \\$", LISTED, re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


def needed(requirement: Requirement) -> set[str]:
    """What a distribution requires here, in turn; of torch not its CUDA libraries."""
    found, todo = set[str](), [requirement]
    seen = set[tuple[str, frozenset[str]]]()
    while todo:
        one = todo.pop()
        name = canonicalize_name(one.name)
        if (name, frozenset(one.extras)) in seen:
            continue
        seen.add((name, frozenset(one.extras)))
        found.add(name)
        listed = requires(name)
        if name == PROJECT["name"]:
            more = (PROJECT["optional-dependencies"][extra] for extra in one.extras)
            listed = sum(more, PROJECT["dependencies"])
        for other in map(Requirement, listed or []):
            extras = [{"extra": extra} for extra in ("", *one.extras)]
            wanted = other.marker is None or any(map(other.marker.evaluate, extras))
            if wanted and not (name == "torch" and re.match("nvidia|cuda|triton", other.name)):
                todo.append(other)
    return found - {PROJECT["name"]}


def test_every_release_is_one_version_and_has_hashes() -> None:
    """torch alone has none: what is wanted of it depends on the machine, its version apart."""
    blocks = [block for block in re.split(r"(?m)^(?=\S)", LISTED) if block]
    assert len(pins()) == len(blocks)
    assert "torch" not in pins()
    assert re.search(r"^TORCH := torch==[\d.]+$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for block in blocks:
        files = re.findall(r"--hash=sha256:([0-9a-f]{64})", block)
        assert files, f"{block.split()[0]} has no hash: make requirements"
        assert len(set(files)) == len(files)


def test_everything_that_the_set_up_needs_is_pinned() -> None:
    """By the requirements of what is installed here, those of the project's own extra included."""
    try:
        found = needed(Requirement(f"{PROJECT['name']}[dev]"))
    except PackageNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")
    assert found >= {"torch", "snakemake", "dvc", "mpmath", "setuptools", "antlr4-python3-runtime"}
    assert found - pins().keys() == {"torch"}


def set_up(folder: Path, uv: str) -> list[str]:
    """What `make .venv/ready` asks of tools that only write it down; ``uv``: what uv does then."""
    shutil.copy(ROOT / "Makefile", folder)
    for name in ("pyproject.toml", "requirements.txt"):
        shutil.copy(ROOT / name, folder)
    tools = folder / ".venv/bin"
    tools.mkdir(parents=True)
    pip = 'case "$*" in *stdin) cp /dev/stdin built.txt;; esac'
    for name, last in (("python", ":"), ("pip", pip), ("uv", uv)):
        (tools / name).write_text(f'#!/bin/sh\necho {name} "$@" >> asked\n{last}\n')
        (tools / name).chmod(0o755)
    # as if no other make had called it, which `make test` is
    alone = {**os.environ, "MAKEFLAGS": "", "MAKELEVEL": "0"}
    command = ["make", f"PYTHON={sys.executable}", ".venv/ready"]
    subprocess.run(command, cwd=folder, env=alone, check=True, capture_output=True)
    return (folder / "asked").read_text().splitlines()


def test_make_installs_nothing_else(tmp_path: Path) -> None:
    build, listed, torch, project = set_up(tmp_path, uv="exit 0")
    assert "--require-hashes" in build
    built = (tmp_path / "built.txt").read_text()
    assert {*re.findall(r"^([\w-]+)==", built, re.MULTILINE)} == BUILD
    assert all(block in LISTED for block in re.split(r"(?m)^(?=\S)", built))
    assert re.fullmatch(r"uv pip install.* --require-hashes.* .*requirements\.txt", listed)
    assert re.search(r"install .* torch==[\d.]+$", torch)
    assert {"--no-index", "--no-build-isolation"} <= {*project.split()}


def test_what_uv_cannot_get_pip_does(tmp_path: Path) -> None:
    """uv does not read pip's configuration, where a mirror or a proxy may be named."""
    _, failed, instead, *_ = set_up(tmp_path, uv="exit 1")
    assert instead.startswith("pip install")
    assert failed.split("--require-hashes")[1] == instead.split("--require-hashes")[1]
