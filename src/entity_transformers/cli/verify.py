"""Opens the files of verify: every checksum of a study's results is computed again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from entity_transformers.artifacts import DIGESTS, read_json
from entity_transformers.cli.study import load_study
from entity_transformers.digests import file_digest
from entity_transformers.study.origin import place
from entity_transformers.study.params import Params
from entity_transformers.study.plan import Plan, folder
from entity_transformers.study.steps import STEPS
from entity_transformers.study.values import read_values

NO_LOCK = (
    "no dvc.lock: it holds md5s, also of tensors, of which manifests and sha256.json have none, so"
    " only a run of the study can make it: make lock after one"
)


@dataclass
class Findings:
    """What was compared so far, below the study's folder ``home``.

    right   how many checksums and texts are what they should be
    wrong   a line for each that is not
    absent  what is named but not there, so not checked
    loose   files that no sha256.json names
    notes   what else a reader should know, a line each
    """

    home: Path
    right: int = 0
    wrong: list[str] = field(default_factory=list)
    absent: set[str] = field(default_factory=set)
    loose: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    def compare(self, what: str, found: str, expected: str, source: str) -> None:
        """One digest or text against what it should be by ``source``."""
        if found == expected:
            self.right += 1
        else:
            self.wrong.append(f"{what}: {found}, expected {expected} ({source})")

    def compare_file(
        self, name: str, expected: str, source: str, algorithm: str = "sha256"
    ) -> None:
        """A file of the study against its digest."""
        path = self.home / name
        if not path.exists():
            self.absent.add(name)
        elif algorithm == "sha256":
            self.compare(name, f"sha256 {file_digest(path)}", f"sha256 {expected}", source)
        else:
            # without the hidden files, or with them, as .dvcignore has it
            found = dvc_md5(path)
            found = expected if dvc_md5(path, hidden=True) == expected else found
            self.compare(name, f"md5 {found}", f"md5 {expected}", source)


def verify(study: Path) -> None:
    """Compare a study's results with all that says what they should be: the digests beside them,
    the inputs in manifests, and dvc.lock. Exit code 1 where something differs; missing files are
    listed. A study without results
    raises FileNotFoundError.
    """
    params, found = load_study(study), Findings(study)
    if not any(path.is_file() for path in study.glob("results/**/*")):
        raise FileNotFoundError(
            f"{study}: nothing to verify: it has no results yet: make study STUDY={study.name}"
        )
    check_digests(found)
    check_manifests(params, found)
    check_lock(found)
    print("\n".join(tell(found)))
    if found.wrong:
        raise SystemExit(1)


def tell(found: Findings) -> list[str]:
    """The findings, a line for each that is wrong and one for each kind of what was not checked."""
    lines = [f"wrong: {line}" for line in found.wrong]
    lines.append(f"{found.home}: {found.right} checked and right, {len(found.wrong)} wrong")
    if found.absent:
        lines.append(f"not there, so not checked: {_some(found.absent)}")
    if found.loose:
        lines.append(f"in no {DIGESTS}, so not checked by one: {_some(found.loose)}")
    return lines + found.notes


def _some(names: Iterable[str], most: int = 3) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def check_digests(found: Findings) -> None:
    """Every file of the results against the sha256.json of its folder."""
    named = set()
    for path in sorted(found.home.glob(f"results/**/{DIGESTS}")):
        place = path.relative_to(found.home)
        try:
            digests = read_json(path)
        except ValueError as error:
            found.wrong.append(str(error))
            continue
        for name, expected in sorted(digests.items()):
            named.add(str(place.with_name(name)))
            found.compare_file(str(place.with_name(name)), str(expected), str(place))
    files = (path for path in found.home.glob("results/**/*") if path.is_file())
    kept = {str(path.relative_to(found.home)) for path in files if path.name != DIGESTS}
    found.loose = {name for name in kept - named if not Path(name).name.startswith(".")}


def check_manifests(params: Params, found: Findings) -> None:
    """The inputs in each training's manifest: the files, or where they are not there the digests
    beside them.
    """
    plan = Plan(params, found.home)
    for model, seed in plan.runs(STEPS["lm"]) if "lm" in params.study.steps else ():
        manifest = f"{folder(STEPS['lm'], model, seed)}/manifest.json"
        if not (found.home / manifest).is_file():
            found.absent.add(manifest)
            continue
        for name, expected in sorted(json.loads(_text(found.home / manifest))["inputs"].items()):
            home = _home_of(name, params, model)
            beside = found.home / home / DIGESTS
            known = json.loads(_text(beside)) if beside.is_file() else {}
            if not (found.home / home / name).exists() and name in known:
                what = f"{home}/{DIGESTS}: {name}"
                found.compare(what, f"sha256 {known[name]}", f"sha256 {expected}", manifest)
            else:
                found.compare_file(f"{home}/{name}", expected, manifest)


def _home_of(name: str, params: Params, model: str) -> str:
    """The folder of a training's input, relative to the study: the corpus, or its first weights."""
    entry = params.model(model)
    weights = entry.initial_weights
    if weights is None or name in (*STEPS["lm"].reads["corpus"], *entry.kind.reads):
        return folder(STEPS["corpus"])
    return place("initial_weights", weights, Path(), params.root)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def check_lock(found: Findings) -> None:
    """The files and folders that dvc.lock names, as what its stages wrote and read."""
    path = found.home / "dvc.lock"
    if not path.is_file():
        found.notes.append(NO_LOCK)
        return
    listed: dict[tuple[str, str], str] = {}
    for stage, body in read_values(path)["stages"].items():
        for entry in (*body.get("outs", ()), *body.get("deps", ())):
            if "md5" in entry:
                listed.setdefault((entry["path"], entry["md5"]), stage)
    for (name, md5), stage in listed.items():
        found.compare_file(name, md5, f"dvc.lock, stage {stage}", "md5")


def dvc_md5(path: Path, hidden: bool = False) -> str:
    """What DVC calls the md5 of a file, or of a folder: that of its files' names and md5s, without
    the hidden ones or with them.
    """
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "md5").hexdigest()
    files = (file for file in path.rglob("*" if hidden else "[!.]*") if file.is_file())
    names = {file.relative_to(path).as_posix(): dvc_md5(file) for file in files}
    entries = [{"md5": names[name], "relpath": name} for name in sorted(names)]
    return hashlib.md5(json.dumps(entries, sort_keys=True).encode()).hexdigest() + ".dir"
