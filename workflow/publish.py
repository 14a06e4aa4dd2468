"""Records a study's results in dvc.lock, and brings its large files to the remote and back.

    python workflow/publish.py lock studies/NAME    # after Snakemake's run; runs nothing again
    python workflow/publish.py push studies/NAME    # what is not too large for the remote
    python workflow/publish.py pull studies/NAME    # in another clone, where nothing re-runs then

The remote is the one that .dvc/config names as its default. Of other studies that this one starts
from, the stages that made its weights and encoder come along.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entity_transformers.artifacts import write_text
from entity_transformers.study.params import load
from entity_transformers.study.plan import Plan, folder, outputs
from entity_transformers.study.stages import find_stale
from entity_transformers.study.values import read_values

ROOT = Path(__file__).resolve().parents[1]
LAST = "report"  # the stage that no other reads: it may be of an older version, which git's is then
AT_ONCE = 24  # stages in one call of DVC
LIMIT = "2G"  # what a release of GitHub takes as one file
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class PublishError(Exception):
    """What keeps a study from being recorded or copied, and what to do."""


@dataclass(frozen=True)
class Stage:
    """A stage of DVC: what it writes, and of that what DVC keeps and git does not."""

    name: str
    files: tuple[str, ...]
    large: tuple[str, ...]
    target: str


@dataclass(frozen=True)
class Part:
    """The stages of a study that are recorded and copied, all or those that others start from."""

    home: Path
    stages: tuple[Stage, ...]

    @property
    def name(self) -> str:
        """How commands name the study's folder."""
        return os.path.relpath(self.home)

    def locked(self) -> dict[str, dict[str, Any]]:
        """What dvc.lock says of each large file: md5 and size."""
        path, large = self.home / "dvc.lock", {f for stage in self.stages for f in stage.large}
        if not path.is_file():
            raise PublishError(
                f"{self.name} has no dvc.lock, so no run of it is recorded: `make lock` after one"
            )
        bodies: Iterable[Mapping[str, Any]] = read_values(path)["stages"].values()
        outs = (out for body in bodies for out in body.get("outs", ()))
        return {out["path"]: out for out in outs if out["path"] in large}


def find_parts(home: Path, files: Collection[str] | None = None) -> Iterator[Part]:
    """The stages of a study, or those that write ``files``, after those of the studies that it
    starts from.
    """
    if not (home / "params.yaml").is_file():
        raise PublishError(f"{home}: no study, which is a folder with a params.yaml")
    plan = Plan(load(home / "params.yaml"), home)
    others: dict[str, list[str]] = {}
    for (other, _), taken in plan.studies().items():
        others.setdefault(other, []).extend(taken)
    for other, taken in others.items():
        yield from find_parts((home / plan.params.root / "studies" / other).resolve(), taken)
    stages = list(list_stages(plan))
    if files is not None:
        # what a stage reads is not recorded by its own study unless its stage is
        wanted = {"corpus", *(stage.name for stage in stages if set(files) & set(stage.files))}
        stages = [stage for stage in stages if stage.name in wanted]
    yield Part(home, tuple(stages))


def list_stages(plan: Plan) -> Iterator[Stage]:
    """Every stage of a study by DVC's name for it."""
    for step in plan.steps:
        runs: list[tuple[Any, Any]] = [(None, None)] if step.needs is None else plan.runs(step)
        for model, seed in runs:
            home = folder(step, model, seed)
            yield Stage(
                name=step.name if model is None else f"{step.name}@{model}-{seed}",
                files=tuple(outputs(step, model, seed)),
                large=tuple(f"{home}/{file}" for file in step.large),
                target=f"{home}/{step.target}",
            )


def lock(part: Part) -> None:
    """dvc.lock of the stages that were run, as their files, values and code are now."""
    if stale := find_stale(part.home, ROOT):
        raise PublishError(f"{part.name}: {'; '.join(stale.values())}")
    done = [s for s in part.stages if all((part.home / f).exists() for f in (*s.files, s.target))]
    if not done:
        raise PublishError(f"{part.name}: nothing was run: snakemake --directory {part.name}")
    planned = call(part, "snakemake", "--dry-run", "--", *(stage.target for stage in done))
    if "Nothing to be done" not in planned:
        rules = sorted(set(re.findall(r"^rule (\w+):$", planned, flags=re.MULTILINE)))
        raise PublishError(
            f"{part.name}: not what its values and code give now, so there is nothing to record:"
            f" {', '.join(rules)} would run again: snakemake --directory {part.name}"
        )
    changed = read_status(part).keys() & {stage.name for stage in done}
    commit(part, sorted(changed))
    print(f"{part.name}/dvc.lock: {len(done)} stages of {len(part.stages)} recorded")
    if left := [stage.name for stage in part.stages if stage not in done]:
        print(f"not run, so not recorded: {', '.join(left)}")


def commit(part: Part, names: Sequence[str]) -> None:
    """Record these stages in dvc.lock as they are.

    DVC reads and writes the whole dvc.lock for every stage that it is given, seconds for each of
    hundreds. So it is given few at a time, with a dvc.lock of their own; these are put together.
    """
    path = part.home / "dvc.lock"
    before = path.read_text(encoding="utf-8") if path.is_file() else None
    head, found = cut_lock(before or "")
    try:
        for start in range(0, len(names), AT_ONCE):
            path.unlink(missing_ok=True)
            some = names[start : start + AT_ONCE]
            # Snakemake goes by times: a link from the cache would be newer than what was made of it
            call(part, "dvc", "commit", "--force", "--no-relink", "--quiet", *some)
            head, own = cut_lock(path.read_text(encoding="utf-8"))
            found |= own
    except BaseException:
        path.unlink(missing_ok=True)
        if before is not None:
            write_text(path, before)
        raise
    if names:
        write_text(path, head + "".join(found.values()))


def cut_lock(text: str) -> tuple[str, dict[str, str]]:
    """What stands above the stages in a dvc.lock, and the lines of each stage by its name."""
    head, _, body = text.partition("\nstages:\n")
    stages = re.findall(r"^  (\S.*):\n((?:    .*\n)*)", body, flags=re.MULTILINE)
    found = {name: f"  {name}:\n{lines}" for name, lines in stages}
    if "".join(found.values()) != body:
        raise PublishError("dvc.lock is not as DVC writes it: delete it, and all is recorded anew")
    return f"{head}\nstages:\n", found


def push(part: Part, limit: str) -> None:
    """The large files that fit to the remote; the others are listed."""
    require_remote(part.home)
    found, most = part.locked(), read_size(limit)
    larger = {name: out for name, out in found.items() if out.get("size", 0) > most}
    files = [name for name in found if name not in larger]
    if files:  # by stages where that says the same: DVC looks up one target after the other
        stages = [stage.name for stage in part.stages if found.keys() & set(stage.large)]
        call(part, "dvc", "push", "--quiet", *(files if larger else stages))
    size = sum(found[name].get("size", 0) for name in files)
    print(f"{part.name}: {len(files)} files on the remote, {write_size(size)}")
    list_missing(part, larger, f"larger than {limit}, so not pushed")


def pull(part: Part) -> None:
    """The large files that the remote has, in their places; Snakemake then takes all as up to date,
    if DVC does.
    """
    require_remote(part.home)
    found = part.locked()
    call(part, "dvc", "pull", "--quiet", "--allow-missing", *(s.name for s in part.stages))
    missing = {name: out for name, out in found.items() if not (part.home / name).exists()}
    print(f"{part.name}: {len(found) - len(missing)} of {len(found)} large files are there")
    list_missing(part, missing, "not on the remote")
    changes = list_changes(part)
    if causes := [cause for stage in changes if stage != LAST for cause in changes[stage]]:
        raise PublishError(
            f"{part.name}: not what dvc.lock records ({'; '.join(causes[:3])}), so it is not marked"
            " as up to date: git checkout the study, or run it"
        )
    if LAST in changes:
        print(f"{part.name}: the report will be made again ({'; '.join(changes[LAST][:3])})")
    kept = (stage for stage in part.stages if stage.name not in changes)
    targets = [stage.target for stage in kept if (part.home / stage.target).exists()]
    call(part, "snakemake", "--touch", "--forceall", "--quiet", "rules", "--", *targets)


def list_changes(part: Part) -> dict[str, list[str]]:
    """By stage, for what DVC would run it again, but for files that are not there."""
    found = read_status(part)
    changes = {
        stage.name: [
            f"{stage.name}: {file} {state}"
            for change in status
            for files in (change.values() if isinstance(change, Mapping) else ())
            for file, state in (files.items() if isinstance(files, Mapping) else ())
            if state not in ("deleted", "not in cache")
        ]
        for stage in part.stages
        if (status := found.get(stage.name))
    }
    return {stage: causes for stage, causes in changes.items() if causes}


def read_status(part: Part) -> dict[str, list[Any]]:
    """What DVC says of each stage that is not as dvc.lock has it. The whole dvc.yaml at once: DVC
    reads dvc.lock anew for each target.
    """
    found: dict[str, list[Any]] = json.loads(call(part, "dvc", "status", "--json", "dvc.yaml"))
    return found


def require_remote(home: Path) -> None:
    """PublishError, in one line, where no remote is named."""
    done = subprocess.run(
        ["dvc", "config", "core.remote"], cwd=home, capture_output=True, text=True, check=False
    )
    if not done.stdout.strip():
        raise PublishError(
            "no remote is named in .dvc/config, so tensors are not published; without them: make"
            " report STUDY=NAME, studies/NAME/results/report/tables, entity-transformers verify"
            " studies/NAME"
        )


def list_missing(part: Part, files: Mapping[str, Mapping[str, Any]], why: str) -> None:
    """A line for each, with the command that makes it again."""
    for name, out in files.items():
        print(
            f"{why}: {part.name}/{name} ({write_size(out.get('size', 0))}): snakemake --directory"
            f" {shlex.quote(part.name)} --cores 2 -- {shlex.quote(name)}"
        )


def call(part: Part, *command: str) -> str:
    """What a command in the study's folder printed; PublishError with it where it fails."""
    first, *others = command
    if first == "snakemake":
        others = ["--snakefile", str(ROOT / "Snakefile"), "--cores", "1", *others]
    done = subprocess.run(
        [first, *others], cwd=part.home, capture_output=True, text=True, check=False
    )
    if done.returncode:
        told = (done.stderr or done.stdout).strip()[-2000:]
        raise PublishError(f"{part.name}: {first} {others[0]} failed: {told}")
    return done.stdout + (done.stderr if first == "snakemake" else "")


def read_size(text: str) -> int:
    """Bytes of 500M, 2G."""
    found = re.fullmatch(r"(\d+)([KMGT]?)", text)
    if found is None:
        raise PublishError(f"--limit {text}: expected a size as 500M or 2G")
    return int(found[1]) * UNITS[found[2]]


def write_size(size: int) -> str:
    """As people read it."""
    unit = next((unit for unit in "TGMK" if size >= UNITS[unit]), "")
    return f"{size / UNITS[unit]:.1f} {unit}iB" if unit else f"{size} bytes"


def main(arguments: list[str] | None = None) -> int:
    """The command line; 1 with one message where it can't be done."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("lock", "push", "pull"))
    parser.add_argument("study", type=Path, metavar="STUDY", help="its folder")
    parser.add_argument(
        "--limit", default=LIMIT, metavar="SIZE", help="of a file to push (default: %(default)s)"
    )
    given = parser.parse_args(arguments)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    try:
        for part in find_parts(given.study.resolve()):
            if given.what == "push":
                push(part, given.limit)
            else:
                (lock if given.what == "lock" else pull)(part)
    except (PublishError, ValueError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
