"""Pack what a short lease of a GPU needs: one folder that travels with the checkout.

The machine there has Python, torch, transformers and accelerate, and neither Snakemake nor a
network. So the steps that need no GPU run here; the remaining commands of the studies travel as a
list in the order in which they run (first seed first), with the files that they read, aligned
arrays made small, and the wheels that are missing there.

    python benchmarks/gpu_session/pack.py                  # work/gpu_session, and what it weighs
    python3 benchmarks/gpu_session/session.py 1            # there: tests, utilisation
    python3 benchmarks/gpu_session/session.py 2            # the first study, with checkpoints
    python3 benchmarks/gpu_session/session.py 3            # the second, as far as time allows
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from bundle import SUFFIX, shrink

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "workflow"))
from commands import Job, list_jobs  # noqa: E402

from entity_transformers.study.params import load  # noqa: E402
from entity_transformers.study.plan import Plan  # noqa: E402
from entity_transformers.study.steps import STEPS  # noqa: E402

STUDIES = ("books-gpu", "ontogum-gpu")
LIMIT = 64 * 2**20
WHEELS = (
    *("pydantic", "pydantic-core", "annotated-types", "typing-inspection", "typing-extensions"),
    *("seqeval", "threadpoolctl", "pytest", "pluggy", "iniconfig", "pytest-timeout"),
    *("pygments", "hypothesis", "sortedcontainers"),
)
"""What the commands and tests import and such a machine was seen to lack, or may lack."""
SOURCES = ("seqeval",)


def list_targets(study: Path) -> list[list[str]]:
    """The files to make, seed by seed: those of every step that runs per model."""
    plan = Plan(load(study / "params.yaml"), study)
    steps = [step for step in plan.steps if step.needs is not None]
    return [
        [
            f"results/{step.name}/{model}/{own}/{step.target}"
            for step in steps
            for model, own in plan.runs(step)
            if own == seed
        ]
        for seed in plan.params.study.seeds
    ]


def plan_study(study: str, root: Path) -> list[tuple[Path, Job]]:
    """The jobs of a study that are left, in order: a seed's after those of the seeds before it."""
    found: dict[str, tuple[Path, Job]] = {}
    folder = Path("studies", study)
    for targets in list_targets(root / folder):
        for home, job in list_jobs(folder, targets, root):
            found.setdefault(f"{home} {job.command}", (home, job))
    return list(found.values())


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


def list_files(jobs: Iterable[tuple[Path, Job]], root: Path) -> list[Path]:
    """The files that the jobs read and that are there, relative to the checkout."""
    made = {home / file for home, job in jobs for file in job.outputs}
    read = {home / file for home, job in jobs for file in job.inputs}
    inside = {Path(*_normal(path)) for path in read - made}
    return sorted(path for path in inside if (root / path).is_file())


def _normal(path: Path) -> list[str]:
    """The parts of a path without ``..``."""
    parts: list[str] = []
    for part in path.parts:
        parts = parts[:-1] if part == ".." else [*parts, part]
    return parts


def pack_files(files: Sequence[Path], root: Path, target: Path) -> None:
    """One archive of the files, arrays of tokens made small."""
    with tarfile.open(target, "w:xz", preset=1) as archive, tempfile.TemporaryDirectory() as folder:
        for path in files:
            if path.suffix == ".safetensors" and path.parent.name == "corpus":
                small = Path(folder, "small")
                shrink(root / path, small)
                archive.add(small, f"{path}{SUFFIX}")
            else:
                archive.add(root / path, str(path))


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


def weigh(folder: Path) -> str:
    """A line per part with its size; ValueError where all of it is too large to travel."""
    sizes = {path: path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file()}
    lines = [f"{size / 2**20:8.2f} MiB  {path.relative_to(folder)}" for path, size in sizes.items()]
    total = sum(sizes.values())
    lines.append(f"{total / 2**20:8.2f} MiB  in all, of {LIMIT / 2**20:.0f} MiB")
    if total > LIMIT:
        raise ValueError("\n".join(["too large to travel: leave a study or wheels out", *lines]))
    return "\n".join(lines)


def pack(
    studies: Sequence[str], folder: Path, root: Path = ROOT, wheels: Sequence[str] = WHEELS
) -> str:
    """Write the folder; what it weighs, in words."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    parts, jobs = [], []
    for study in studies:
        prepare(study, root)
        found = [one for one in plan_study(study, root) if one not in jobs]
        check_prepared(found)
        jobs += found
        parts.append(
            {"study": study, "commands": [[str(home), job.command] for home, job in found]}
        )
    (folder / "plan.json").write_text(json.dumps(parts, indent=1), encoding="utf-8")
    pack_files(list_files(jobs, root), root, folder / "files.tar.xz")
    if wheels:
        fetch_wheels(wheels, folder / "wheels")
    return weigh(folder)


def main() -> None:
    """Pack, and print what it weighs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", nargs="+", default=STUDIES, help="default %(default)s")
    parser.add_argument("--wheels", nargs="*", default=WHEELS, help="packages that are missing")
    parser.add_argument("--output", type=Path, default=ROOT / "work" / "gpu_session")
    options = parser.parse_args()
    print(pack(options.studies, options.output, wheels=options.wheels))


if __name__ == "__main__":
    main()
