"""Faults that are really caused. After each: the right result, or an error that names a cure, and
after that cure the right result: the bytes of a study that nothing disturbed (docs/faults.md).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tiny_study import (
    ALONE,
    BIN,
    LIMIT,
    ROOT,
    committed,
    make_study,
    planned,
    python_path,
    run,
    snakemake,
)

from entity_transformers.artifacts import DIGESTS
from entity_transformers.cli import main

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.usefixtures("forked_commands"),
]
SMALL = """
study: {steps: [corpus, lm, perplexity, report]}
models: {gpt2: null, lstm: null}
run: {checkpoint_every: 2}
"""
WEIGHTS = "results/lm/gpt2e/1/model.safetensors"
ALIGNED = "results/corpus/test.safetensors"
SCORES = "results/perplexity/gpt2e/1/perplexity.json"
Commands = dict[str, list[str]]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that nothing has disturbed, recorded by DVC."""
    folder = tmp_path_factory.mktemp("finished") / "study"  # as deep as its copies
    folder.mkdir()
    make_study(folder, SMALL)
    (folder / "log").write_text(snakemake(folder))
    run("dvc", "commit", "--force", "--quiet", folder=folder)
    return folder


@pytest.fixture(scope="module")
def commands(finished: Path) -> Commands:
    """The arguments of each command of the study by its name, in the order of its run."""
    lines = re.findall(
        r"^Shell command: entity-transformers (.*?) 2>&1", (finished / "log").read_text(), re.M
    )
    return {words[0]: words for words in map(shlex.split, lines)}


@pytest.fixture
def study(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, to be damaged, which is the current folder."""
    folder = tmp_path / "study"
    shutil.copytree(finished, folder, symlinks=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def fail(capfd: pytest.CaptureFixture[str]) -> Callable[[list[str]], str]:
    """What a command that must fail says last, in one line."""

    def fail(words: list[str]) -> str:
        capfd.readouterr()
        with pytest.raises(SystemExit) as stop:
            main(words)
        assert stop.value.code == 2
        *_, told = capfd.readouterr().err.strip().splitlines()
        assert told.startswith(f"entity-transformers {words[0]}: ")
        return told

    return fail


def outputs(folder: Path) -> dict[str, bytes]:
    """What a finished study holds but times and provenance, weights included."""
    return dict(committed(folder)) | {WEIGHTS: (folder / WEIGHTS).read_bytes()}


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    write(path, bytes(data))


def write(path: Path, data: bytes) -> None:
    path.unlink()  # it may be a link into DVC's cache
    path.write_bytes(data)


# Disks


@pytest.fixture
def small_disk(study: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The study on a file system of its own, in memory."""
    if os.geteuid() or not shutil.which("mount"):
        pytest.skip("only root may mount")
    disk = study.parent / "disk"
    disk.mkdir()
    try:
        run("mount", "-t", "tmpfs", "-o", "size=64m", "faults", str(disk), folder=disk.parent)
    except AssertionError:
        pytest.skip("this machine lets nothing be mounted")
    try:
        shutil.copytree(study, disk, dirs_exist_ok=True, symlinks=True)
        monkeypatch.chdir(disk)
        yield disk
    finally:
        os.chdir("/")
        # lazily: a log of the command line may still be open there
        run("umount", "--lazy", str(disk), folder=Path("/"))


def remount(disk: Path, options: str) -> None:
    run("mount", "-o", f"remount,{options}", str(disk), folder=Path("/"))


def count_used(disk: Path) -> tuple[int, int]:
    """Bytes and inodes that are taken."""
    found = os.statvfs(disk)
    return (found.f_blocks - found.f_bfree) * found.f_frsize, found.f_files - found.f_ffree


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("full", "No space left on device"),
        ("inodes", "No space left on device"),
        ("read-only", "Read-only file system"),
    ],
)
def test_a_disk_that_takes_nothing_is_one_line(
    small_disk: Path,
    finished: Path,
    commands: Commands,
    fail: Callable[[list[str]], str],
    fault: str,
    said: str,
) -> None:
    """Every command, one after the other; with room it writes what it would have written."""
    expected = outputs(finished)
    written = {
        "prepare-corpus": ["results/corpus/train.jsonl"],
        "train-tokenizer": ["results/corpus/tokenizer.json"],
        "align-corpus": [ALIGNED],
        "train-lm": ["work", "results/lm"],
        "score-perplexity": ["results/perplexity"],
        "collect-measures": ["results/report/measures.csv"],
        "build-report": ["results/report/tables", "results/report/figures"],
    }
    assert set(commands) - {"download-corpus"} == set(written)
    for name, gone in written.items():
        for path in (small_disk / each for each in gone):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        size, inodes = count_used(small_disk)
        page = os.sysconf("SC_PAGE_SIZE")
        room = {"full": f"size={size + page}", "inodes": f"nr_inodes={inodes}", "read-only": "ro"}
        remount(small_disk, room[fault])
        told = fail(commands[name])
        remount(small_disk, "rw,size=64m,nr_inodes=100000")
        assert said in told
        assert re.search(r"\b(results|work)\b", told)
        main(commands[name])
    assert outputs(small_disk) == expected
    assert not [path for path in small_disk.rglob("*") if re.fullmatch(r"\..*\.\w{8}", path.name)]


# Files


@pytest.mark.parametrize("damage", ["cut", "flipped", "foreign"])
@pytest.mark.parametrize(
    ("file", "reader", "writer"),
    [
        ("results/corpus/test.jsonl", "align-corpus", "prepare-corpus"),
        ("results/corpus/tokenizer.json", "align-corpus", "train-tokenizer"),
        (ALIGNED, "score-perplexity", "align-corpus"),
        (WEIGHTS, "score-perplexity", "train-lm"),
        (SCORES, "collect-measures", "score-perplexity"),
    ],
)
def test_a_damaged_file_is_named_and_made_again(
    study: Path,
    finished: Path,
    commands: Commands,
    fail: Callable[[list[str]], str],
    file: str,
    reader: str,
    writer: str,
    damage: str,
) -> None:
    path = study / file
    whole = path.read_bytes()
    if damage == "cut":
        write(path, whole[: len(whole) // 2])
    elif damage == "flipped":
        flip(path)
    else:  # a file of this kind from elsewhere, whole in itself
        other = {".jsonl": "dev", ".safetensors": "dev"}.get(path.suffix, "")
        write(
            path,
            whole.replace(b"1", b"2")
            if not other or file == WEIGHTS
            else path.with_name(f"{other}{path.suffix}").read_bytes(),
        )
    told = fail(commands[reader])
    assert f"{file}: sha256 " in told
    assert "delete it and run the step that writes it again" in told
    path.unlink()
    main(commands[writer])
    assert path.read_bytes() == whole
    main(commands[reader])
    assert outputs(study) == outputs(finished)


def test_damaged_checkpoints_are_passed_over(
    study: Path,
    finished: Path,
    commands: Commands,
    fail: Callable[[list[str]], str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The newest is cut, the one before has a flipped bit: the training goes on from neither."""
    [state] = (study / "work/lm").iterdir()
    newest, *earlier = sorted((state / "checkpoints").glob("step-*"), reverse=True)
    data = (newest / "tensors.safetensors").read_bytes()
    (newest / "tensors.safetensors").write_bytes(data[: len(data) // 2])
    (state / DIGESTS).unlink()
    shutil.rmtree(study / "results/lm")
    main(commands["train-lm"])
    assert f"{newest.name} can't be used" in caplog.text
    assert outputs(study) == outputs(finished)
    for folder in (newest, *earlier):
        flip(folder / "tensors.safetensors")
    (state / DIGESTS).unlink()
    assert "delete that folder to train again from the start" in fail(commands["train-lm"])
    shutil.rmtree(state / "checkpoints")
    main(commands["train-lm"])
    assert outputs(study) == outputs(finished)


def test_the_state_of_another_training_is_not_used(
    study: Path,
    finished: Path,
    commands: Commands,
    fail: Callable[[list[str]], str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """All of a training of the same shape (another seed), with its digests, in this one's place:
    neither taken for finished nor gone on from.
    """
    [own] = (study / "work/lm").iterdir()
    words = commands["train-lm"]
    main([*words, "--seed", "2", "--output", "results/lm/gpt2e/2"])
    [other] = {*(study / "work/lm").iterdir()} - {own}
    shutil.rmtree(study / "results/lm/gpt2e/2")
    shutil.rmtree(own)
    other.rename(own)
    (study / WEIGHTS).unlink()
    assert "delete that folder to train again from the start" in fail(words)
    assert "its files are of another training" in caplog.text
    assert "it is of another training" in caplog.text
    assert not (study / WEIGHTS).exists()
    shutil.rmtree(own / "checkpoints")
    main(words)
    assert outputs(study) == outputs(finished)


def test_a_damaged_object_of_dvc_s_cache_reaches_no_number(
    study: Path, finished: Path, commands: Commands, fail: Callable[[list[str]], str]
) -> None:
    """DVC trusts its cache and places the file; the command that reads it does not. Without the
    object and the file Snakemake makes both again.
    """
    md5 = run("md5sum", WEIGHTS, folder=study).split()[0]
    cached = study / ".dvc/cache/files/md5" / md5[:2] / md5[2:]
    data, mode = bytearray(cached.read_bytes()), cached.stat().st_mode
    data[-30] ^= 1
    write(cached, bytes(data))
    cached.chmod(mode)
    (study / WEIGHTS).unlink()
    run("dvc", "checkout", WEIGHTS, folder=study, check=False)
    if (study / WEIGHTS).exists():
        assert "delete it and run the step" in fail(commands["score-perplexity"])
        (study / WEIGHTS).unlink()
    cached.unlink(missing_ok=True)
    snakemake(study, WEIGHTS, "--quiet", "rules")
    assert outputs(study) == outputs(finished)
    run("dvc", "commit", "--force", "--quiet", folder=study)
    assert run("md5sum", str(cached), folder=study).split()[0] == md5


def test_what_is_not_installed_is_one_line(
    study: Path,
    commands: Commands,
    fail: Callable[[list[str]], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "jinja2"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    for name in [name for name in sys.modules if name.startswith("entity_transformers.report")]:
        monkeypatch.delitem(sys.modules, name)
    assert re.search(  # the study's check says it, or else the command
        r"jinja2.* not installed: .*pip install '(\.|entity-transformers)\[report\]'",
        fail(commands["build-report"]),
    )


# Processes


class Run:
    """A tool that runs in a folder, in a process group of its own."""

    def __init__(self, folder: Path, *command: str) -> None:
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        self.output = folder / "printed"
        self.process = psutil.Popen(
            command,
            cwd=folder,
            env=os.environ | {"PATH": path, "PYTHONPATH": python_path(ROOT / "src")} | ALONE,
            stdout=self.output.open("w"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def wait_for_training(self) -> psutil.Process:
        """The process of its train-lm, which has begun."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end and self.process.poll() is None:
            for child in self.process.children(recursive=True):
                try:
                    if "train-lm" in child.cmdline() and child.name() != "bash":
                        return child
                except psutil.Error:
                    continue
            time.sleep(0.05)
        raise AssertionError(self.output.read_text()[-3000:])

    def kill(self) -> list[psutil.Process]:
        """SIGKILL it alone; the processes that it leaves."""
        left = self.process.children(recursive=True)
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(LIMIT)
        return left


def start_training(study: Path) -> Run:
    """Snakemake on a study whose training, and what comes after it, is still to do."""
    for folder in ("work/lm", "results/lm", "results/perplexity", "results/report"):
        shutil.rmtree(study / folder, ignore_errors=True)
    return Run(study, "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--cores", "2")


def test_killed_processes_of_snakemake(study: Path, finished: Path) -> None:
    """A killed job fails its rule. A killed Snakemake leaves its lock and its job: the next one
    says so, and which process to end; without both it goes on to the right result. Of two at once
    the second is refused.
    """
    first = start_training(study)
    first.wait_for_training().kill()
    assert first.process.wait(LIMIT) == 1
    assert "Error in rule train_lm" in first.output.read_text()

    second = start_training(study)
    training = second.wait_for_training()
    training.suspend()  # it lives until it is ended
    try:
        printed = snakemake(study, check=False)
        assert "Error: Directory cannot be locked" in printed
        assert f"process {training.pid}" not in printed
        left = second.kill()
        assert training in left
        printed = snakemake(study, check=False)
        assert "snakemake --unlock" in printed or "--unlock" in printed
        assert f"process {training.pid} of an earlier run still works here" in printed
    finally:
        for process in left if second.process.poll() else [training]:
            process.kill()
    psutil.wait_procs(left)
    assert "process " not in snakemake(study, "--unlock")
    assert "of an earlier run" not in snakemake(study, "--quiet", "rules")
    assert outputs(study) == outputs(finished)


def test_a_killed_dvc_leaves_nothing_that_stops_the_next(study: Path, finished: Path) -> None:
    shutil.rmtree(study / "results/lm")
    shutil.rmtree(study / "work/lm")
    paths = python_path(ROOT / "src")
    repro = ("dvc", "repro", "--force", "--single-item", "lm@gpt2e-1")  # not from its cache
    tool = Run(study, *repro)
    tool.wait_for_training()
    psutil.wait_procs(tool.kill())  # they end by themselves, and Snakemake removes its lock
    run(*repro, folder=study, PYTHONPATH=paths)
    assert outputs(study) == outputs(finished)
    assert "up to date" in run("dvc", "status", repro[-1], folder=study, PYTHONPATH=paths)


def test_a_clock_that_was_set_back(study: Path, finished: Path) -> None:
    """Of what was made tomorrow nothing can be made now; Snakemake says so, and keeps nothing. With
    other times it goes on.
    """
    shutil.rmtree(study / "results/report")
    shutil.rmtree(study / "results/perplexity")
    tomorrow = time.time() + 86400
    for path in (study / "results").rglob("*"):
        os.utime(path, (tomorrow, tomorrow))
    assert "clock skew" in snakemake(study, check=False)
    assert not (study / SCORES).exists()
    run(
        "find", "results", "-newermt", "now", "-exec", "touch", "-d", "now", "{}", "+", folder=study
    )
    snakemake(study, "--quiet", "rules")
    assert outputs(study) == outputs(finished)
    assert planned(study) == set()
