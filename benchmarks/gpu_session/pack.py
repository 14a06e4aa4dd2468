"""Pack what a short lease of a GPU needs: one folder that travels with the checkout.

The machine there has Python, torch, transformers and accelerate, and neither Snakemake nor a
network. So the steps that need no GPU run here; the remaining commands of the studies travel as a
list in the order in which they run (first seed first), with the files that they read, aligned
arrays made small, and the wheels that are missing there.

    python benchmarks/gpu_session/pack.py                  # work/gpu_session, and what it weighs
    python3 benchmarks/gpu_session/session.py run          # there: as far as time allows
"""

from __future__ import annotations

import argparse
import functools
import json
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bundle import SUFFIX, shrink

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "workflow"))
from commands import Job, list_jobs  # noqa: E402

from entity_transformers.digests import file_digest  # noqa: E402
from entity_transformers.study.params import Params, load  # noqa: E402
from entity_transformers.study.plan import Plan  # noqa: E402
from entity_transformers.study.steps import STEPS  # noqa: E402

STUDIES = ("books-gpu", "memory-gpu", "ontogum-gpu", "memory-chains-gpu")
LIMIT = 64 * 2**20
WHEELS = (
    *("pydantic", "pydantic-core", "annotated-types", "typing-inspection", "typing-extensions"),
    *("seqeval", "threadpoolctl", "pytest", "pluggy", "iniconfig", "pytest-timeout"),
    *("pygments", "hypothesis", "sortedcontainers"),
)
"""What the commands and tests import and such a machine was seen to lack, or may lack."""
SOURCES = ("seqeval",)
LATE = ("-ner ", "score-capacity ")
"""Commands that take the longest for what they tell: taggers, of many small kernels, and a model
read once for each size of its memory.
"""


def list_targets(study: Path) -> list[list[str]]:
    """The files to make, seed by seed: those of every step that runs per model, but of step search
    those that a training takes its rate from (`find_search`).
    """
    plan = Plan(load(study / "params.yaml"), study)
    return [
        [
            f"results/{step.name}/{model}/{own}/{step.target}"
            for step in plan.steps
            if step.needs is not None
            for model, own in plan.runs(step)
            if own == seed
            and (
                step.name != "search"
                or find_search(plan.params, model) == f"results/search/{model}/{seed}/search.json"
            )
        ]
        for seed in plan.params.study.seeds
    ]


def find_search(params: Params, model: str) -> str | None:
    """Where the search lies that tells a model's rate: that of the first seed. None in a study
    without such, and for a model that is trained for fewer steps than a trial: it stays as it is.
    """
    if "search" not in params.study.steps or params.model(model).lm.steps < params.search.steps:
        return None
    return f"results/search/{model}/{params.study.seeds[0]}/search.json"


def plan_study(study: str, root: Path) -> list[list[tuple[Path, Job]]]:
    """The jobs of a study that are left, seed by seed, in an order in which they can run."""
    folder, seen, found = Path("studies", study), set[str](), []
    for targets in list_targets(root / folder):
        own = []
        for home, job in list_jobs(folder, targets, root):
            if (key := f"{home} {job.command}") not in seen:
                seen.add(key)
                own.append((home, job))
        found.append(own)
    return found


def order_jobs(
    studies: Mapping[str, list[list[tuple[Path, Job]]]], root: Path = ROOT
) -> list[dict[str, Any]]:
    """The jobs of plan.json: the first seed's of every study, then the second's; of a seed the
    trainings first, and what is in `LATE` after all else. Each is there once, and with the places
    of those that it waits for.
    """
    order: dict[str, tuple[str, Path, Job]] = {}
    for round_ in range(max(map(len, studies.values()))):
        for study, seeds in studies.items():
            jobs = seeds[round_] if round_ < len(seeds) else []
            for home, job in sorted(jobs, key=lambda pair: " train-lm " not in pair[1].command):
                order.setdefault(f"{home} {job.command}", (study, home, job))
    jobs = sorted(order.values(), key=lambda job: any(late in job[2].command for late in LATE))
    writer = {
        "/".join(_normal(home / file)): i
        for i, (_, home, job) in enumerate(jobs)
        for file in job.outputs
    }
    found = []
    for study, home, job in jobs:
        read = {"/".join(_normal(home / file)) for file in job.inputs}
        rate = find_rate_file(home, job.command, root)
        if rate is not None and rate not in writer and not (root / rate).is_file():
            raise ValueError(f"{job.command}: its rate is told by {rate}: pack {home.name} too")
        needs = {writer[file] for file in (read | {rate}) & writer.keys()}
        found.append(
            {"study": study, "home": str(home), "command": job.command, "needs": sorted(needs)}
            | {"rate": rate}
        )
    return found


def find_rate_file(home: Path, command: str, root: Path) -> str | None:
    """The search.json that tells a training's rate, relative to the checkout."""
    words = shlex.split(command)
    if words[1] != "train-lm":
        return None
    params = _load(root / home / "params.yaml")
    found = find_search(params, words[words.index("--model") + 1])
    return None if found is None else f"{home}/{found}"


def prepare(study: str, root: Path) -> None:
    """Run what needs no model: the corpus and LAMBADA's passages."""
    steps = load(root / "studies" / study / "params.yaml").study.steps
    targets = ["results/corpus/alignment.json"]
    targets += ["results/passages/lambada_tags.json"] if "passages" in steps else []
    command = [str(Path(sys.executable).parent / "snakemake"), "--cores", "2", "--quiet", "rules"]
    subprocess.run(
        [*command, "--directory", f"studies/{study}", "--", *targets], cwd=root, check=True
    )


def check_prepared(jobs: Iterable[tuple[Path, Job]]) -> None:
    """Refuse jobs that a machine without network and corpora can't do: ValueError."""
    rules = [rule for step in ("corpus", "passages") for rule in STEPS[step].rules]
    early = {f"entity-transformers {rule.replace('_', '-')}" for rule in rules}
    for home, job in jobs:
        if " ".join(job.command.split()[:2]) in early:
            raise ValueError(
                f"{home}: still to be run here: {job.command.split(' --')[0]}: values or code have"
                " changed since it was prepared; pack again"
            )


_load = functools.cache(load)


def list_files(jobs: Iterable[tuple[Path, Job]], root: Path) -> list[Path]:
    """The files that the jobs read and that are there, relative to the checkout."""
    made = {home / file for home, job in jobs for file in job.outputs}
    read = {home / file for home, job in jobs for file in job.inputs}
    rates = {find_rate_file(home, job.command, root) for home, job in jobs}
    read |= {Path(rate) for rate in rates if rate is not None}
    inside = {Path(*_normal(path)) for path in read - made}
    return sorted(path for path in inside if (root / path).is_file())


def _normal(path: Path) -> list[str]:
    """The parts of a path without ``..``."""
    parts: list[str] = []
    for part in path.parts:
        parts = parts[:-1] if part == ".." else [*parts, part]
    return parts


def pack_files(files: Sequence[Path], root: Path, target: Path) -> dict[str, str]:
    """One archive of the files, arrays of tokens made small; files that are equal to another, which
    alone is in it, by the other's name.
    """
    first: dict[str, Path] = {}
    copies: dict[str, str] = {}
    with tarfile.open(target, "w:xz", preset=1) as archive, tempfile.TemporaryDirectory() as folder:
        for path in files:
            digest = file_digest(root / path)
            if digest in first:
                copies[str(path)] = str(first[digest])
                continue
            first[digest] = path
            if path.suffix == ".safetensors" and path.parent.name == "corpus":
                small = Path(folder, "small")
                shrink(root / path, small)
                archive.add(small, f"{path}{SUFFIX}")
            else:
                archive.add(root / path, str(path))
    return copies


def fetch_wheels(names: Sequence[str], target: Path) -> None:
    """The wheels for Python 3.12 on Linux, in the versions of this environment; one that is only
    published as source, and is pure Python, is built.
    """
    from importlib.metadata import version

    pip = [sys.executable, "-m", "pip"]
    fetch = [*pip, "download", "--quiet", "--no-deps", "--dest", str(target)]
    fetch += ["--only-binary", ":all:", "--python-version", "3.12"]
    for platform in ("manylinux_2_28_x86_64", "manylinux2014_x86_64", "any"):
        fetch += ["--platform", platform]
    build = [*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(target)]
    published = [f"{name}=={version(name)}" for name in names if name not in SOURCES]
    subprocess.run([*fetch, *published], check=True)
    for name in names:
        if name in SOURCES:
            subprocess.run([*build, f"{name}=={version(name)}"], check=True)


def weigh_checkout(root: Path) -> int:
    """Bytes of the files of a checkout that travel with it: all that git does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,  # elsewhere than in git there is nothing to count
    ).stdout
    files = (root / name for name in listed.split("\0") if name)
    return sum(path.stat().st_size for path in files if path.is_file())


def weigh(folder: Path, root: Path) -> str:
    """A line per part with its size, the checkout the last; ValueError where all of it is too large
    to travel.
    """
    sizes = {
        str(path.relative_to(folder)): path.stat().st_size
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    sizes["the checkout"] = weigh_checkout(root)
    lines = [f"{size / 2**20:8.2f} MiB  {name}" for name, size in sizes.items()]
    total = sum(sizes.values())
    lines.append(f"{total / 2**20:8.2f} MiB  in all, of {LIMIT / 2**20:.0f} MiB")
    if total > LIMIT:
        told = "too large to travel: move results of other studies out of the checkout meanwhile"
        raise ValueError("\n".join([told, *lines]))
    return "\n".join(lines)


def pack(
    studies: Sequence[str], folder: Path, root: Path = ROOT, wheels: Sequence[str] = WHEELS
) -> str:
    """Write the folder; what it weighs, in words."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    planned: dict[str, list[list[tuple[Path, Job]]]] = {}
    for study in studies:
        prepare(study, root)
        planned[study] = plan_study(study, root)
    jobs = [one for seeds in planned.values() for own in seeds for one in own]
    check_prepared(jobs)
    (folder / "plan.json").write_text(
        json.dumps(order_jobs(planned, root), indent=1), encoding="utf-8"
    )
    copies = pack_files(list_files(jobs, root), root, folder / "files.tar.xz")
    (folder / "copies.json").write_text(json.dumps(copies, indent=1), encoding="utf-8")
    if wheels:
        fetch_wheels(wheels, folder / "wheels")
    return weigh(folder, root)


def main() -> None:
    """Pack, and print what it weighs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", nargs="+", default=STUDIES, help="default %(default)s")
    parser.add_argument("--wheels", nargs="*", default=WHEELS, help="packages that are missing")
    parser.add_argument("--output", type=Path, default=ROOT / "work" / "gpu_session")
    options = parser.parse_args()
    try:
        print(pack(options.studies, options.output, wheels=options.wheels))
    except ValueError as error:
        raise SystemExit(f"pack.py: {error}") from None


if __name__ == "__main__":
    main()
