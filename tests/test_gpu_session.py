"""The GPU session: what is packed comes out equal, commands end in time and go on; with an
interpreter of such a machine at hand, all three commands on its CPU.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import yaml
from tiny import tiny_corpus
from tiny_study import ROOT, TINY, copy_checkout

from entity_transformers.artifacts import write_arrays
from entity_transformers.cli.study import write_study
from entity_transformers.study.resolve import resolve_study

FOLDER = ROOT / "benchmarks" / "gpu_session"
PYTHON = os.environ.get("ENTITY_TRANSFORMERS_GPU_PYTHON")


def load(name: str) -> ModuleType:
    """A script of the session as a module."""
    sys.path.insert(0, str(FOLDER))
    spec = importlib.util.spec_from_file_location(f"gpu_session_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


bundle, pack, session = (load(name) for name in ("bundle", "pack", "session"))


@pytest.mark.parametrize("seed", range(3))
def test_a_corpus_comes_out_of_the_bundle_to_the_byte(tmp_path: Path, seed: int) -> None:
    before, small, after = (tmp_path / name for name in ("a", "b", "c"))
    write_arrays(before, *tiny_corpus(9, seed=seed).arrays())
    bundle.shrink(before, small)
    bundle.grow(small, after)
    assert after.read_bytes() == before.read_bytes()


@pytest.mark.parametrize("high", [0, 1, 127, 128, 255, 256, 32768, 65535, 65536, 2**31 - 1])
def test_numbers_of_every_size_do(tmp_path: Path, high: int) -> None:
    values = np.array([high, 0, high // 2], np.int64)
    arrays = {"plain": values, "words": values - 1, "negative": -values, "none": values[:0]}
    before, small, after = (tmp_path / name for name in ("a", "b", "c"))
    write_arrays(before, arrays, {"x": "ü"})
    bundle.shrink(before, small)
    bundle.grow(small, after)
    assert after.read_bytes() == before.read_bytes()


def test_what_is_too_large_is_said_part_by_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "files.tar.xz").write_bytes(bytes(2**20))
    assert "1.00 MiB  in all, of 64 MiB" in pack.weigh(tmp_path)
    monkeypatch.setattr(pack, "LIMIT", 2**19)
    with pytest.raises(ValueError, match=r"too large to travel: .*\n +1.00 MiB  files.tar.xz"):
        pack.weigh(tmp_path)


def test_what_only_this_machine_can_do_does_not_travel() -> None:
    def job(name: str) -> object:
        return pack.Job(f"entity-transformers {name} --params params.yaml", (), (), ())

    pack.check_prepared([(Path("studies/a"), job("train-lm")), (Path("studies/a"), job("tag-x"))])
    for name in ("download-corpus", "align-corpus", "tag-lambada"):
        with pytest.raises(ValueError, match=rf"studies/a: still to be run here: .* {name}: "):
            pack.check_prepared(
                [(Path("studies/a"), job("train-lm")), (Path("studies/a"), job(name))]
            )


def fake_commands(folder: Path, monkeypatch: pytest.MonkeyPatch, codes: list[int]) -> list[str]:
    """Commands that end with these codes, and the list of those that were run."""
    ran: list[str] = []

    def run_one(home: str, command: str, root: Path, clock: object, more: str = "") -> int:
        ran.append(command + more)
        return codes.pop(0)

    monkeypatch.setattr(session, "run_one", run_one)
    return ran


def test_a_call_goes_on_where_the_last_one_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = [("s", name) for name in "abc"]
    ran = fake_commands(tmp_path, monkeypatch, [0, session.STOPPED, 0, 0])
    clock = session.Clock(time.monotonic() + 1000)
    assert not session.run_commands(commands, tmp_path, tmp_path, clock)
    assert session.run_commands(commands, tmp_path, tmp_path, clock)
    assert session.run_commands(commands, tmp_path, tmp_path, clock)
    assert ran == ["a", "b", "b", "c"]


def test_nothing_is_begun_when_the_time_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = fake_commands(tmp_path, monkeypatch, [])
    clock = session.Clock(time.monotonic() + session.SPARE - 1)
    assert not session.run_commands([("s", "a")], tmp_path, tmp_path, clock)
    assert ran == []


def test_a_command_that_fails_ends_the_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_commands(tmp_path, monkeypatch, [2])
    with pytest.raises(SystemExit, match="exit code 2: a"):
        session.run_commands([("s", "a")], tmp_path, tmp_path, session.Clock(time.monotonic() + 99))


@pytest.mark.parametrize("after", [0, 2])
def test_a_training_that_fails_is_tried_with_the_mask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    command = "entity-transformers train-lm --model gpt2"
    ran = fake_commands(tmp_path, monkeypatch, [1, after])
    clock = session.Clock(time.monotonic() + 1000)
    if after:
        with pytest.raises(SystemExit, match="exit code 2"):
            session.run_commands([("s", command)], tmp_path, tmp_path, clock)
    else:
        assert session.run_commands([("s", command)], tmp_path, tmp_path, clock)
    assert ran == [command, f"{command} --lm.attention sdpa"]


def make_studies(root: Path) -> None:
    """Two tiny studies, the second of which goes on from the first, whose training takes long."""
    sample = ROOT / "studies" / "sample" / "study.yaml"
    for name, more in (("first", {}), ("next", {"lm": {"initial_weights": "study:first/gpt2/1"}})):
        folder = root / "studies" / name
        folder.mkdir(parents=True)
        steps = "corpus, passages, lm, perplexity, lambada, report"
        (folder / "study.yaml").write_text(
            TINY.format(sample=sample) + f"\nstudy: {{steps: [{steps}]}}\n"
        )
        values = yaml.safe_load(resolve_study(folder)) | {"root": "../.."}
        (folder / "study.yaml").unlink()
        values["models"] = {"gpt2": {"kind": "gpt2", "role": "baseline"}}
        values["lm"] |= {"steps": 6 if more else 6000} | more.get("lm", {})
        if more:
            values["models"]["gpt2e"] = {"kind": "gpt2e", "role": "proposed", "labels": "gold"}
            values["tokenizer"] |= {"kind": "study", "path": "study:first"}
        (folder / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    for name in ("first", "next"):
        write_study(root / "studies" / name)


@pytest.mark.skipif(PYTHON is None, reason="ENTITY_TRANSFORMERS_GPU_PYTHON names no interpreter")
@pytest.mark.slow
def test_the_whole_session_on_the_cpu_of_such_a_machine(tmp_path: Path) -> None:
    """Packed here, unpacked in another folder, run by an interpreter with the lent machine's
    versions: tests, a training that is cut and goes on, and a study that starts from it.
    """
    assert PYTHON is not None
    here, there = tmp_path / "here", tmp_path / "there"
    copy_checkout(here)
    for name in ("tests", "benchmarks", "studies/sample"):
        shutil.copytree(ROOT / name, here / name, ignore=shutil.ignore_patterns("results", "work"))
    for name in ("pyproject.toml", "params.yaml"):
        shutil.copy(ROOT / name, here / name)
    make_studies(here)
    print(pack.pack(("first", "next"), here / "work" / "gpu_session", here))
    kept = shutil.ignore_patterns("results", "logs", ".snakemake", "downloads", "__pycache__")
    shutil.copytree(here, there, ignore=kept)

    def call(part: int, minutes: float) -> str:
        script = there / "benchmarks" / "gpu_session" / "session.py"
        options = ["--device", "cpu", "--minutes", str(minutes), "--root", str(there)]
        done = subprocess.run(
            [PYTHON, str(script), str(part), *options],
            env={"PATH": os.environ["PATH"], "OUT": str(tmp_path / "out"), "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=1800,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    first = call(1, 6)
    assert "tests: 0" in first
    assert "gpt2e / gpt2" in first
    assert "the time was up: call it again" in call(2, 0.8)
    assert "all done" in call(2, 15)
    third = call(3, 15)
    assert "all done" in third
    assert third.count("LAMBADA") == 2
    with tarfile.open(tmp_path / "out" / "results-3.tar.xz") as archive:
        names = archive.getnames()
        member = archive.extractfile("studies/next/results/lm/gpt2e/1/manifest.json")
        assert member is not None
        manifest = json.load(member)
    assert "studies/next/results/perplexity/gpt2e/1/perplexity.json" in names
    assert "model.safetensors" in manifest["inputs"]
    assert not any(name.endswith(".safetensors") for name in names)
