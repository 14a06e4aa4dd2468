"""One command of a GPU session, on a machine with Python, torch and transformers alone.

    python3 benchmarks/gpu_session/session.py 1    # the models' tests on CUDA, then gpu.py
    python3 benchmarks/gpu_session/session.py 2    # the commands of the first study of pack.py
    python3 benchmarks/gpu_session/session.py 3    # those of the second

Each ends itself in time (``--minutes``): a training is asked to save and stop, and goes on in the
next call of the same command; so do commands that are not done. What it measured lies in $OUT (or
work/gpu_session/out): an archive of numbers, curves and logs, a few hundred KB.

Loads only the standard library until the wheels that came along are installed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import lzma
import os
import re
import shlex
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKED = ROOT / "work" / "gpu_session"
STOPPED = 75  # `runtime.STOPPED`: a training that goes on when it is called again
SPARE = 25.0  # seconds that saving, and what comes after the last command, may take
SMALL = {".json", ".csv", ".log", ".md", ".txt"}
LARGEST = 16 * 2**20
WITH_MASK = " --lm.attention sdpa"


@dataclass
class Clock:
    """The time that is left, in seconds."""

    end: float

    def left(self) -> float:
        """Seconds until the end; negative after it."""
        return self.end - time.monotonic()


def install(packed: Path) -> Path:
    """A folder with those of the wheels whose packages are missing."""
    site = packed / "site"
    missing = []
    for wheel in sorted((packed / "wheels").glob("*.whl")):
        name = wheel.name.split("-")[0].replace("_", "-")
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(str(wheel))
    if missing and not site.is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
        subprocess.run([*command, "--target", str(site), *missing], check=True)
    return site


def unpack(packed: Path, root: Path) -> None:
    """Put the files of the archive where they belong, once."""
    done = packed / "unpacked"
    if done.exists():
        return
    from bundle import SUFFIX, grow

    with lzma.open(packed / "files.tar.xz") as stream, tarfile.open(fileobj=stream) as archive:
        archive.extractall(root, filter="data")
        names = archive.getnames()
    for name in names:
        if name.endswith(SUFFIX):
            grow(root / name, root / name.removesuffix(SUFFIX))
            (root / name).unlink()
    done.touch()


def run_commands(
    commands: Sequence[tuple[str, str]], packed: Path, root: Path, clock: Clock
) -> bool:
    """Run the commands that are not done, in order, until the time is up; were all of them run?

    A command that fails ends the session's part with its message, a training once it has failed
    with the mask too (`WITH_MASK`: FlexAttention is compiled for the device at hand); one that is
    cut is run again.
    """
    record = packed / "done.txt"
    done = set(record.read_text(encoding="utf-8").splitlines()) if record.exists() else set()
    for home, command in commands:
        if f"{home} {command}" in done:
            continue
        if clock.left() < SPARE:
            return False
        code = run_one(home, command, root, clock)
        if code not in (0, STOPPED) and " train-lm " in command:
            print(f"exit code {code}: once more with{WITH_MASK}", flush=True)
            code = run_one(home, command, root, clock, WITH_MASK)
        if code == STOPPED:
            return False
        if code:
            raise SystemExit(f"exit code {code}: {command}")
        with record.open("a", encoding="utf-8") as file:
            file.write(f"{home} {command}\n")
    return True


def run_one(home: str, command: str, root: Path, clock: Clock, more: str = "") -> int:
    """The exit code of a command of the package with ``more`` arguments; `STOPPED` where the time
    ran out.
    """
    words = shlex.split(re.sub(r" 2>&1 \| tee (\S+)$", "", command))
    log = re.search(r" 2>&1 \| tee (\S+)$", command)
    assert words[0] == "entity-transformers", command
    arguments = [sys.executable, "-m", "entity_transformers", *words[1:], *more.split()]
    if words[1] == "train-lm":
        arguments += ["--run.max_minutes", f"{max(0.05, (clock.left() - SPARE) / 60):.3f}"]
    print(f"== {clock.left():.0f} s left: {' '.join(words[1:])}", flush=True)
    path = root / home / (log[1] if log else "logs/session.log")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        process = subprocess.Popen(
            arguments, cwd=root / home, stdout=file, stderr=subprocess.STDOUT, env=os.environ
        )
        try:
            code = process.wait(timeout=max(1.0, clock.left() - SPARE / 4))
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()
            code = STOPPED
    print(path.read_text(encoding="utf-8").rstrip().splitlines()[-1:], flush=True)
    return code


def find_results(root: Path, studies: Sequence[str]) -> Iterator[Path]:
    """The small files of these studies' results and logs."""
    for study in studies:
        for part in ("results", "logs"):
            for path in sorted((root / "studies" / study / part).rglob("*")):
                if path.suffix in SMALL and path.stat().st_size < LARGEST:
                    yield path


def write_results(root: Path, studies: Sequence[str], target: Path) -> None:
    """One archive of them."""
    with tarfile.open(target, "w:xz") as archive:
        for path in find_results(root, studies):
            archive.add(path, str(path.relative_to(root)))
    print(f"{target}: {target.stat().st_size / 2**20:.2f} MiB")


def show_numbers(root: Path, studies: Sequence[str]) -> None:
    """The numbers to see first."""
    for study in studies:
        home = root / "studies" / study / "results"
        for path in sorted(home.glob("perplexity/*/*/perplexity.json")):
            test = json.loads(path.read_text(encoding="utf-8"))["splits"]["test"]["on"]
            run = path.relative_to(home / "perplexity").parent
            print(f"{study} {run}: test {test['loss']:.4f} nats, {test['bits_per_byte']:.4f} bits")
        for path in sorted(home.glob("lambada/*/*/lambada.json")):
            found = json.loads(path.read_text(encoding="utf-8"))["last_word"]["accuracy"]
            run = path.relative_to(home / "lambada").parent
            print(f"{study} {run}: LAMBADA {100 * found:.2f} %")


def check(root: Path, out: Path, clock: Clock, device: str) -> None:
    """The tests of the models on the device, then utilisation, in what time is left."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/cuda"]
    with (out / "tests.log").open("w", encoding="utf-8") as file:
        limit = max(1.0, 0.5 * clock.left())
        code: object = "the time was up"
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = subprocess.run(
                pytest, cwd=root, stdout=file, stderr=subprocess.STDOUT, check=False, timeout=limit
            ).returncode
    print(f"tests: {code}; {(out / 'tests.log').read_text().rstrip().splitlines()[-1:]}")
    tiny = [] if device == "cuda" else ["--device", "cpu", "--tiny"]
    sizes = ["1", "8", "16", "32", "64"] if device == "cuda" else ["1"]
    for batch in sizes:  # each writes its rows, so what was cut costs one B
        if clock.left() < 2 * SPARE:
            break
        command = [sys.executable, "benchmarks/gpu.py", "--batches", batch, *tiny]
        with (out / f"gpu-{batch}.log").open("w", encoding="utf-8") as file:
            try:
                subprocess.run(
                    command,
                    cwd=root,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    check=False,
                    timeout=max(1.0, clock.left() - SPARE),
                )
            except subprocess.TimeoutExpired:
                print(f"B = {batch}: the time was up")
        print((out / f"gpu-{batch}.log").read_text(encoding="utf-8")[-1500:], flush=True)
    measured = root / "benchmarks" / "results" / "gpu.json"
    if device == "cuda" and measured.exists():
        (out / "gpu.json").write_bytes(measured.read_bytes())


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", type=int, choices=(1, 2, 3))
    parser.add_argument("--minutes", type=float, default=9.0, help="default %(default)s")
    parser.add_argument("--device", default="cuda", help="default %(default)s")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout")
    options = parser.parse_args()
    clock = Clock(time.monotonic() + 60 * options.minutes)
    root, packed = options.root.resolve(), options.root.resolve() / "work" / "gpu_session"
    out = Path(os.environ.get("OUT", packed / "out"))
    out.mkdir(parents=True, exist_ok=True)
    paths = [install(packed), root / "src", root / "tests" / "helpers"]
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, paths))
    os.environ |= {"PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "1"}
    os.environ["ENTITY_TRANSFORMERS_TEST_DEVICE"] = options.device
    sys.path[:0] = map(str, paths)
    if options.part == 1:
        check(root, out, clock, options.device)
        return
    unpack(packed, root)
    part = json.loads((packed / "plan.json").read_text(encoding="utf-8"))[options.part - 2]
    try:
        whole = run_commands(part["commands"], packed, root, clock)
        print("all done" if whole else "the time was up: call it again to go on")
    finally:
        write_results(root, [part["study"]], out / f"results-{options.part}.tar.xz")
        show_numbers(root, [part["study"]])


if __name__ == "__main__":
    main()
