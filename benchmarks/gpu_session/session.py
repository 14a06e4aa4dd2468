"""A session on a lent GPU: a machine with Python, torch and transformers alone, for some minutes.

    python3 benchmarks/gpu_session/session.py tests              # the models' tests on CUDA
    python3 benchmarks/gpu_session/session.py utilisation        # gpu.py
    python3 benchmarks/gpu_session/session.py run                # the commands that pack.py packed
    python3 benchmarks/gpu_session/session.py run books-gpu      # those of a study alone

Each ends itself in time (``--minutes``): a training is asked to save and stop, and goes on in the
next call of the same command; so do commands that are not done. What it measured lies in $OUT (or
work/gpu_session/out): an archive of numbers, curves and logs, a few hundred KB.

Commands run side by side (``--workers``), each as soon as what it reads is there. In a study with
step search a model is trained at the rate that its search, of the first seed, found best; the rates
are printed, for study.yaml. What failed is said at the end, with what needs it, and the rest runs.

Loads only the standard library until the wheels that came along are installed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import importlib.util
import json
import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKED = ROOT / "work" / "gpu_session"
STOPPED = 75  # `runtime.STOPPED`: a training that goes on when it is called again
SPARE = 25.0  # seconds that saving, and what comes after the last command, may take
SMALL = {".json", ".csv", ".log", ".md", ".txt"}
LARGEST = 16 * 2**20


@dataclass
class Clock:
    """The time that is left, in seconds."""

    end: float

    def left(self) -> float:
        """Seconds until the end; negative after it."""
        return self.end - time.monotonic()


@dataclass
class Job:
    """A command of the package in the folder ``home`` of a study; ``needs`` are the indices of the
    jobs that it waits for, ``rate`` a search.json whose best rate a training takes.
    """

    study: str
    home: str
    command: str
    needs: Sequence[int] = ()
    rate: str | None = None

    @property
    def key(self) -> str:
        """How the record of what is done names it."""
        return f"{self.home} {self.command}"

    @property
    def trains(self) -> bool:
        """Does it train a model that can be asked to stop?"""
        return " train-lm " in self.command or " search-rates " in self.command


@dataclass
class Running:
    """A job's process, its log, and when it began."""

    process: subprocess.Popen[bytes]
    log: Path
    began: float = field(default_factory=time.monotonic)


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
        # Python 3.11.2 has no filters yet
        checked: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(root, **checked)
        names = archive.getnames()
    for name in names:
        if name.endswith(SUFFIX):
            grow(root / name, root / name.removesuffix(SUFFIX))
            (root / name).unlink()
    copies: Mapping[str, str] = json.loads((packed / "copies.json").read_text(encoding="utf-8"))
    for name, source in copies.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).unlink(missing_ok=True)
        os.link(root / source, root / name)
    done.touch()


def run_jobs(
    jobs: Sequence[Job],
    packed: Path,
    root: Path,
    clock: Clock,
    workers: int,
    others: Collection[int] = (),
) -> tuple[list[Job], list[Job]]:
    """Run the jobs that are not done, at most so many at once, each when those that it needs are,
    but not ``others``, by index; which failed, or need one that did, and which are left. A training
    that is cut goes on in the next call.
    """
    record = packed / "done.txt"
    done = set(record.read_text(encoding="utf-8").splitlines()) if record.exists() else set()
    waiting = [job for i, job in enumerate(jobs) if job.key not in done and i not in others]
    running: dict[str, tuple[Job, Running]] = {}
    failed: list[Job] = []
    while waiting or running:
        if clock.left() < SPARE:
            stop_all(running)
            break
        ready = [job for job in waiting if all(jobs[i].key in done for i in job.needs)]
        if not ready and not running:
            break  # what is waited for is of another study
        for job in ready[: max(0, workers - len(running))]:
            waiting.remove(job)
            if job.rate is not None and find_rate(root / job.rate) is None:
                failed.append(job)  # every trial diverged
            else:
                running[job.key] = job, start(job, root, clock)
        for key, (job, one) in list(running.items()):
            code = one.process.poll()
            if code is None:
                continue
            del running[key]
            seconds = time.monotonic() - one.began
            print(
                f"{clock.left():4.0f} s left: {seconds:.0f} s, {code}: {name_job(job)}", flush=True
            )
            if code == 0:
                drop_checkpoints(root / job.home / "work")
                done.add(key)
                with record.open("a", encoding="utf-8") as file:
                    file.write(f"{key}\n")
            elif code != STOPPED:
                print(tail(one.log), flush=True)
                failed.append(job)
        while blocked := find_blocked(waiting, jobs, failed):
            failed += blocked
            waiting = [job for job in waiting if job not in blocked]
        time.sleep(0.1)
    left = [job for i, job in enumerate(jobs) if job.key not in done and i not in others]
    return failed, [job for job in left if job not in failed]


def find_blocked(waiting: Sequence[Job], jobs: Sequence[Job], failed: Sequence[Job]) -> list[Job]:
    """Those that need one that failed."""
    return [job for job in waiting if any(jobs[i] in failed for i in job.needs)]


def name_job(job: Job) -> str:
    """Study, command, model and seed."""
    words = shlex.split(job.command)
    named = [words[words.index(f) + 1] for f in ("--model", "--seed") if f in words]
    return " ".join([Path(job.home).name, *words[1:2], *named])


def tail(log: Path, lines: int = 12) -> str:
    """The end of a log."""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def stop_all(running: Mapping[str, tuple[Job, Running]]) -> None:
    """Ask all processes to save and stop, and end those that do not in time."""
    end = time.monotonic() + 0.6 * SPARE
    for _, one in running.values():
        one.process.terminate()
    for _, one in running.values():
        try:
            one.process.wait(timeout=max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.process.kill()
            one.process.wait()


def start(job: Job, root: Path, clock: Clock) -> Running:
    """Begin a job; its output goes to the log that its command names."""
    words = shlex.split(re.sub(r" 2>&1 \| tee (\S+)$", "", job.command))
    log = re.search(r" 2>&1 \| tee (\S+)$", job.command)
    assert words[0] == "entity-transformers", job.command
    arguments = [sys.executable, "-m", "entity_transformers", *words[1:]]
    if job.rate is not None and (rate := find_rate(root / job.rate)) is not None:
        named = words[words.index("--model") + 1]
        arguments[arguments.index("params.yaml")] = give_rate(root / job.home, named, rate)
    if job.trains:
        arguments += ["--run.max_minutes", f"{max(0.05, (clock.left() - SPARE) / 60):.3f}"]
    path = root / job.home / (log[1] if log else "logs/session.log")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        process = subprocess.Popen(
            arguments, cwd=root / job.home, stdout=file, stderr=subprocess.STDOUT, env=os.environ
        )
    return Running(process, path)


def find_rate(search: Path) -> float | None:
    """The best rate of a search; None where every trial diverged."""
    found: float | None = json.loads(search.read_text(encoding="utf-8"))["best"]
    return found


def give_rate(home: Path, model: str, rate: float) -> str:
    """The name of a copy of params.yaml in which the model has that learning rate of its own, which
    is stronger than what section lm or its kind says.
    """
    import yaml

    values = yaml.safe_load((home / "params.yaml").read_text(encoding="utf-8"))
    # as study.yaml would give it: 3.0e-7, not 1.0e-6 * 0.3
    values["models"][model]["learning_rate"] = float(f"{rate:.6e}")
    name = f"params-{model}.yaml"
    # at once: a training of another seed may be reading it
    (home / f".{name}").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    (home / f".{name}").replace(home / name)
    return name


def drop_checkpoints(work: Path) -> None:
    """Remove the checkpoints of finished trainings below ``work``: dozens do not fit the disk."""
    for mark in work.rglob("run.json"):
        if (mark.parent / "sha256.json").exists():
            shutil.rmtree(mark.parent / "checkpoints", ignore_errors=True)


def put_away(homes: Sequence[Path], scratch: Path) -> None:
    """Have what studies write lie in ``scratch``, a file system in memory, also where a later copy
    of the checkout has swept away what is not git's.
    """
    for home in homes:
        for part in ("work", "results", "logs"):
            folder, there = home / part, scratch / home.name / part
            if folder.is_symlink():
                if folder.resolve() != there.resolve():
                    raise SystemExit(
                        f"{folder} lies in {folder.resolve()}: --scratch as before, or none"
                    )
                continue
            there.mkdir(parents=True, exist_ok=True)
            if folder.is_dir():
                for path in folder.rglob("*"):
                    kept = there / path.relative_to(folder)
                    if path.is_file() and not kept.exists():
                        kept.parent.mkdir(parents=True, exist_ok=True)
                        shutil.move(path, kept)
                shutil.rmtree(folder)
            folder.symlink_to(there, target_is_directory=True)


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
        for path in sorted(home.glob("search/*/*/search.json")):
            found = json.loads(path.read_text(encoding="utf-8"))
            trials = ", ".join(f"{t['learning_rate']:g}: {t['loss']}" for t in found["trials"])
            print(f"{study} {found['model']}: best rate {found['best']} of {trials}")
        for path in sorted(home.glob("lm/*/*/metrics.json")):
            found = json.loads(path.read_text(encoding="utf-8"))
            speed = json.loads(path.with_name("timing.json").read_text(encoding="utf-8"))
            print(
                f"{study} {found['model']} {found['seed']}: dev {found['dev_loss_on']:.4f} on,"
                f" {found['dev_loss_off']:.4f} off; {speed['tokens_per_second'] or 0:,.0f} tokens/s"
            )
        for path in sorted(home.glob("mentions/*/*/mentions.json")):
            found = json.loads(path.read_text(encoding="utf-8"))
            run = path.relative_to(home / "mentions").parent
            losses = ", ".join(
                f"{s['labels']} {s['size']}: {s['loss']:.4f}" for s in found["scored"]
            )
            print(f"{study} {run}: {losses}")
        for path in sorted(home.glob("lambada/*/*/lambada.json")):
            found = json.loads(path.read_text(encoding="utf-8"))["last_word"]["accuracy"]
            run = path.relative_to(home / "lambada").parent
            print(f"{study} {run}: LAMBADA {100 * found:.2f} %")


def run_tests(root: Path, out: Path, clock: Clock) -> None:
    """The tests of the models on the device, side by side where pytest can."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/cuda"]
    if importlib.util.find_spec("xdist") is not None:
        pytest += ["-n", "4"]
    with (out / "tests.log").open("w", encoding="utf-8") as file:
        code: object = "the time was up"
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = subprocess.run(
                pytest,
                cwd=root,
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=max(1.0, clock.left()),
            ).returncode
    print(f"tests: {code}")
    print(tail(out / "tests.log", 20))


def measure(root: Path, out: Path, clock: Clock, device: str) -> None:
    """Utilisation by gpu.py, in what time is left."""
    tiny = [] if device == "cuda" else ["--device", "cpu", "--tiny"]
    sizes = ["16", "1", "64", "8", "32"] if device == "cuda" else ["1"]
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


def read_plan(packed: Path) -> list[Job]:
    """The jobs of pack.py."""
    found: list[Mapping[str, Any]] = json.loads((packed / "plan.json").read_text(encoding="utf-8"))
    return [Job(**job) for job in found]


def run(root: Path, packed: Path, out: Path, clock: Clock, options: argparse.Namespace) -> None:
    """The jobs of the studies asked for, and what they gave."""
    unpack(packed, root)
    jobs = read_plan(packed)
    known = list(dict.fromkeys(job.study for job in jobs))
    if unknown := [study for study in options.studies if study not in known]:
        raise SystemExit(f"not packed: {', '.join(unknown)}; packed: {', '.join(known)}")
    studies = options.studies or known
    if options.scratch is not None:
        put_away([root / home for home in {job.home for job in jobs}], options.scratch)
    # a job waits for those of other studies too, which run only when asked for
    others = {i for i, job in enumerate(jobs) if job.study not in studies}
    try:
        failed, left = run_jobs(jobs, packed, root, clock, options.workers, others)
        print(f"failed, or need what failed: {[name_job(job) for job in failed]}")
        counts = Counter(Path(job.home).name for job in left)
        print(f"left: {dict(counts)}, first {name_job(left[0])}" if left else "all done")
    finally:
        homes = list(dict.fromkeys(Path(job.home).name for job in jobs))
        write_results(root, homes, out / "results.tar.xz")
        show_numbers(root, homes)
    if failed:
        raise SystemExit(1)


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=("tests", "utilisation", "run"))
    parser.add_argument("studies", nargs="*", help="default: all that are packed")
    parser.add_argument("--minutes", type=float, default=9.0, help="default %(default)s")
    parser.add_argument("--workers", type=int, default=8, help="default %(default)s")
    parser.add_argument("--scratch", type=Path, help="what studies write goes there: /dev/shm, say")
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
    os.environ |= {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}  # many share the device
    os.environ["ENTITY_TRANSFORMERS_TEST_DEVICE"] = options.device
    sys.path[:0] = map(str, paths)
    if options.part == "tests":
        run_tests(root, out, clock)
    elif options.part == "utilisation":
        measure(root, out, clock, options.device)
    else:
        run(root, packed, out, clock, options)


if __name__ == "__main__":
    main()
