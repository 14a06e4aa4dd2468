"""The GPU session: what is packed comes out equal, commands end in time and go on; with an
interpreter of such a machine at hand, all its commands on its CPU.
"""

from __future__ import annotations

import argparse
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
from typing import Any

import numpy as np
import pytest
import yaml
from tiny import tiny_corpus
from tiny_study import ROOT, TINY, copy_checkout

from entity_transformers.artifacts import write_arrays
from entity_transformers.cli.study import write_study
from entity_transformers.study.params import load as load_params
from entity_transformers.study.params import parse
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
    packed, checkout = tmp_path / "packed", tmp_path / "checkout"
    packed.mkdir()
    checkout.mkdir()
    (packed / "files.tar.xz").write_bytes(bytes(2**20))
    subprocess.run(["git", "init", "--quiet", str(checkout)], check=True)
    (checkout / ".gitignore").write_text("ignored\n", encoding="utf-8")
    (checkout / "ignored").write_bytes(bytes(2**22))
    (checkout / "new").write_bytes(bytes(2**19))
    assert "1.50 MiB  in all, of 64 MiB" in pack.weigh(packed, checkout)
    monkeypatch.setattr(pack, "LIMIT", 2**20)
    with pytest.raises(ValueError, match=r"too large to travel: .*\n +1.00 MiB  files.tar.xz"):
        pack.weigh(packed, checkout)


def test_what_only_this_machine_can_do_does_not_travel() -> None:
    def job(name: str) -> object:
        return pack.Job(f"entity-transformers {name} --params params.yaml", (), (), ())

    pack.check_prepared([(Path("studies/a"), job("train-lm")), (Path("studies/a"), job("tag-x"))])
    for name in ("download-corpus", "align-corpus", "tag-lambada"):
        with pytest.raises(ValueError, match=rf"studies/a: still to be run here: .* {name}: "):
            pack.check_prepared(
                [(Path("studies/a"), job("train-lm")), (Path("studies/a"), job(name))]
            )


Ends = list[int | str]


def fake_jobs(monkeypatch: pytest.MonkeyPatch, ends: dict[str, Ends]) -> list[str]:
    """Jobs whose processes end with these codes by command, or are these programs; the list of
    those that were run.
    """
    ran: list[str] = []

    def start(job: session.Job, root: Path, clock: object) -> session.Running:
        ran.append(job.command)
        end = ends[job.command].pop(0)
        program = end if isinstance(end, str) else f"raise SystemExit({end})"
        process = subprocess.Popen([sys.executable, "-c", program], cwd=root)
        log = root / "log"
        log.write_text("what it printed", encoding="utf-8")
        return session.Running(process, log)

    monkeypatch.setattr(session, "start", start)
    return ran


def run(
    folder: Path, jobs: list[session.Job], seconds: float = 1000, **how: Any
) -> tuple[list[str], list[str]]:
    """The commands that failed and those that are left."""
    clock = session.Clock(time.monotonic() + seconds)
    failed, left = session.run_jobs(jobs, folder, folder, clock, how.pop("workers", 4), **how)
    return [job.command for job in failed], [job.command for job in left]


def chain(*commands: str) -> list[session.Job]:
    """Jobs each of which needs the one before."""
    return [
        session.Job("s", "studies/s", command, [i - 1] if i else [])
        for i, command in enumerate(commands)
    ]


def test_a_call_goes_on_where_the_last_one_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = chain("a", "b", "c")
    ran = fake_jobs(monkeypatch, {"a": [0], "b": [session.STOPPED, 0], "c": [0]})
    assert run(tmp_path, jobs) == ([], ["b", "c"])
    assert run(tmp_path, jobs) == ([], [])
    assert run(tmp_path, jobs) == ([], [])
    assert ran == ["a", "b", "b", "c"]


def test_nothing_is_begun_when_the_time_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = fake_jobs(monkeypatch, {})
    assert run(tmp_path, chain("a"), session.SPARE - 1) == ([], ["a"])
    assert ran == []


SAVES = """
import pathlib, signal, sys, time
def save(*_):
    pathlib.Path("saved").touch()
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
pathlib.Path("began").touch()
time.sleep(60)
"""


def test_what_runs_when_the_time_is_up_is_asked_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_jobs(monkeypatch, {"a": [SAVES]})
    assert run(tmp_path, chain("a"), session.SPARE + 5) == ([], ["a"])
    assert (tmp_path / "began").exists()
    assert (tmp_path / "saved").exists()


@pytest.mark.parametrize("more", [[], [session.Job("s", "studies/s", "d")]])
def test_what_needs_a_job_that_failed_is_left_out_and_the_rest_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[session.Job]
) -> None:
    jobs = [*chain("a", "b", "c"), *more]
    ran = fake_jobs(monkeypatch, {"a": [2], "d": [0]})
    assert run(tmp_path, jobs, workers=1) == (["a", "b", "c"], [])
    assert ran == ["a", *(job.command for job in more)]


def test_jobs_of_other_studies_are_waited_for_but_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = fake_jobs(monkeypatch, {"a": [0], "b": [0]})
    assert run(tmp_path, chain("a", "b"), others={0}) == ([], ["b"])
    assert run(tmp_path, chain("a", "b"), others={1}) == ([], [])
    assert run(tmp_path, chain("a", "b"), others={0}) == ([], [])
    assert ran == ["a", "b"]


def test_a_study_that_is_not_packed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "unpacked").touch()
    plan = [vars(job) for job in chain("a")]
    (tmp_path / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    options = argparse.Namespace(scratch=None, studies=["t"], workers=1)
    with pytest.raises(SystemExit, match="not packed: t; packed: s"):
        session.run(tmp_path, tmp_path, tmp_path, session.Clock(time.monotonic() + 99), options)


TRAIN = (
    "entity-transformers train-lm --params params.yaml --model {} --seed 2 2>&1 | tee logs/a.log"
)


def make_plan(study: str, model: str, searched: bool) -> list[dict[str, Any]]:
    """A training of the second seed, and the search of the first if it is still to be run."""
    home, search = Path("studies", study), f"results/search/{model}/1/search.json"
    trained = pack.Job(TRAIN.format(model), ("c",), ("results/lm/m/2/model.safetensors",), ())
    jobs = [(home, pack.Job("entity-transformers search-rates", ("c",), (search,), ()))]
    return pack.order_jobs({study: [jobs if searched else [], [(home, trained)]]})


def test_what_takes_long_is_packed_behind_all_else() -> None:
    home = Path("studies", "memory-gpu")
    steps = ("score-capacity", "score-mentions")
    seeds = [
        [
            (
                home,
                pack.Job(f"entity-transformers {step} --seed {seed}", (), (f"{step}{seed}",), ()),
            )
            for step in steps
        ]
        for seed in (1, 2)
    ]
    found = [job["command"].split()[1:] for job in pack.order_jobs({"memory-gpu": seeds})]
    late, early = ([[step, "--seed", seed] for seed in "12"] for step in steps)
    assert found == early + late


def test_a_training_takes_the_rate_that_its_search_finds() -> None:
    search, train = make_plan("memory-chains-gpu", "gpt2-pointer", True)
    assert search["rate"] is None
    assert train["rate"] == "studies/memory-chains-gpu/results/search/gpt2-pointer/1/search.json"
    assert train["needs"] == [0]


def test_a_rate_that_nobody_will_find_is_an_error() -> None:
    with pytest.raises(
        ValueError, match=r"its rate is told by studies/memory-chains-gpu/results/.*"
    ):
        make_plan("memory-chains-gpu", "gpt2-pointer", False)


def test_a_model_that_is_not_searched_keeps_its_rate() -> None:
    assert make_plan("sample", "gpt2", False)[-1]["rate"] is None
    home = ROOT / "studies" / "memory-chains-gpu"
    values = yaml.safe_load((home / "params.yaml").read_text(encoding="utf-8"))
    values["models"]["gpt2"] |= {"steps": 1, "warmup_steps": 0}  # fewer than a trial: as it is
    params = parse(values, "params.yaml")
    assert pack.find_search(params, "gpt2") is None
    assert pack.find_search(params, "gpt2-pointer") == "results/search/gpt2-pointer/1/search.json"


@pytest.mark.parametrize("model", ["gpt2", "gpt2-pointer"])
def test_the_rate_reaches_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    """Also where the model has a rate of its own, which is stronger than section lm's."""
    for study in ("memory-chains-gpu", "memory-gpu", "books-gpu"):
        home = tmp_path / "studies" / study
        home.mkdir(parents=True)
        shutil.copy(ROOT / "studies" / study / "params.yaml", home)
    home = tmp_path / "studies" / "memory-chains-gpu"
    (tmp_path / "search.json").write_text('{"best": 1.2e-05}', encoding="utf-8")
    given: list[list[str]] = []
    monkeypatch.setattr(session.subprocess, "Popen", lambda words, **how: given.append(words))
    job = session.Job("s", str(home.relative_to(tmp_path)), TRAIN.format(model), [], "search.json")
    session.start(job, tmp_path, session.Clock(time.monotonic() + 99))
    (words,) = given
    params = load_params(home / words[words.index("--params") + 1])
    assert params.model(model).lm.learning_rate == 1.2e-05
    assert float(words[words.index("--run.max_minutes") + 1]) == pytest.approx(74 / 60, abs=0.05)
    other = next(name for name in params.models if name != model)
    before = load_params(home / "params.yaml")
    assert params.model(other) == before.model(other)


@pytest.mark.parametrize("part", ["work", "results", "logs"])
def test_what_studies_write_lies_in_the_scratch(tmp_path: Path, part: str) -> None:
    home, scratch = tmp_path / "studies" / "a", tmp_path / "scratch"
    (home / part / "lm").mkdir(parents=True)
    (home / part / "lm" / "state").write_text("begun", encoding="utf-8")
    for _ in range(2):
        session.put_away([home], scratch)
        assert (home / part / "lm" / "state").read_text(encoding="utf-8") == "begun"
        assert (scratch / "a" / part / "lm" / "state").exists()
    with pytest.raises(SystemExit, match="--scratch as before"):
        session.put_away([home], tmp_path / "other")


def test_what_was_swept_away_is_found_again(tmp_path: Path) -> None:
    home, scratch = tmp_path / "studies" / "a", tmp_path / "scratch"
    home.mkdir(parents=True)
    session.put_away([home], scratch)
    (home / "results" / "found.json").write_text("2", encoding="utf-8")
    (home / "results").unlink()  # another copy of the checkout, with what git has
    (home / "results").mkdir()
    (home / "results" / "found.json").write_text("1", encoding="utf-8")
    (home / "results" / "also.json").write_text("0", encoding="utf-8")
    session.put_away([home], scratch)
    found = {path.name: path.read_text(encoding="utf-8") for path in (home / "results").iterdir()}
    assert found == {"found.json": "2", "also.json": "0"}


def test_equal_files_travel_once(tmp_path: Path) -> None:
    corpus = tmp_path / "studies" / "a" / "results" / "corpus"
    write_arrays(corpus / "train.safetensors", *tiny_corpus(9).arrays())
    other = tmp_path / "studies" / "b" / "results" / "corpus" / "train.safetensors"
    other.parent.mkdir(parents=True)
    shutil.copy(corpus / "train.safetensors", other)
    files = [path.relative_to(tmp_path) for path in (corpus / "train.safetensors", other)]
    packed, there = tmp_path / "packed", tmp_path / "there"
    packed.mkdir()
    there.mkdir()
    copies = pack.pack_files(files, tmp_path, packed / "files.tar.xz")
    assert copies == {str(files[1]): str(files[0])}
    (packed / "copies.json").write_text(json.dumps(copies))
    session.unpack(packed, there)
    for file in files:
        assert (there / file).read_bytes() == other.read_bytes()


def make_studies(root: Path) -> None:
    """Two tiny studies, the second of which goes on from the first, whose training takes long."""
    sample = ROOT / "studies" / "sample" / "study.yaml"
    for name, more in (("first", {}), ("next", {"lm": {"initial_weights": "study:first/gpt2/1"}})):
        folder = root / "studies" / name
        folder.mkdir(parents=True)
        search = "search, " if more else ""
        steps = f"corpus, passages, {search}lm, perplexity, lambada, report"
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
            values["search"] = {"factors": [0.5, 1.0, 2.0], "steps": 3}
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

    def call(*arguments: str, minutes: float) -> str:
        script = there / "benchmarks" / "gpu_session" / "session.py"
        options = ["--device", "cpu", "--minutes", str(minutes), "--root", str(there)]
        done = subprocess.run(
            [PYTHON, str(script), *arguments, *options, "--workers", "2"],
            env={"PATH": os.environ["PATH"], "OUT": str(tmp_path / "out"), "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=1800,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    assert "tests: 0" in call("tests", minutes=6)
    assert "gpt2e / gpt2" in call("utilisation", minutes=6)
    assert "left: {'first': " in call("run", "first", minutes=0.8)
    assert "all done" in call("run", "first", minutes=15)
    third = call("run", minutes=15)
    assert "all done" in third
    assert third.count("LAMBADA") == 3
    with tarfile.open(tmp_path / "out" / "results.tar.xz") as archive:
        names = archive.getnames()
        member = archive.extractfile("studies/next/results/lm/gpt2e/1/manifest.json")
        assert member is not None
        manifest = json.load(member)
    assert "studies/next/results/perplexity/gpt2e/1/perplexity.json" in names
    assert "model.safetensors" in manifest["inputs"]
    assert manifest["params"]["learning_rate"] == find_best(archive_search(tmp_path / "out"))
    assert not any(name.endswith(".safetensors") for name in names)


def archive_search(out: Path) -> dict[str, Any]:
    """What the search of the second study's GPT2E found."""
    with tarfile.open(out / "results.tar.xz") as archive:
        member = archive.extractfile("studies/next/results/search/gpt2e/1/search.json")
        assert member is not None
        return json.load(member)


def find_best(search: dict[str, Any]) -> float:
    """The rate of the lowest loss."""
    return min(search["trials"], key=lambda trial: trial["loss"])["learning_rate"]
