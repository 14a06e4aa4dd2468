"""Which runs and files each step of a study has, and what each run depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache, reduce
from operator import getitem
from pathlib import Path
from typing import Any

from entity_transformers.artifacts import read_json, read_record
from entity_transformers.kinds import KINDS
from entity_transformers.provenance import file_digest, list_files
from entity_transformers.step import MANIFEST, MODEL, RECORD, Step
from entity_transformers.study.code import digest_modules
from entity_transformers.study.origin import HUB, PIP, STUDY, read_origin
from entity_transformers.study.params import STEPS, load
from entity_transformers.study.values import find_study

OWN_PATHS = (".path", ".initial_weights")
"""How the keys end whose value may name a file or folder of the user's own."""


def folder(study: str, name: str, model: object = "", seed: object = None) -> str:
    """Return the folder of a step's files; for a step that runs per model, that of one run."""
    step = STEPS[name]
    if step.phase == "report":
        return f"results/{study}"
    if step.phase == "train":
        return f"data/{study}/models/{model}/{seed}"
    home = f"data/{study}/{'text' if step.phase == 'corpus' else 'scores'}/{name}"
    return f"{home}/{model}/{seed}" if runs_per_model(step) else home


def runs_per_model(step: Step) -> bool:
    """Tell whether a step runs per model and seed, not once per study."""
    return step.needs is not None or step.own is not None


def outputs(study: str, step: Step, model: object = "", seed: object = None) -> list[str]:
    """List the files that a run writes."""
    return [f"{folder(study, step.name, model, seed)}/{name}" for name in step.outputs]


class Plan:
    """The runs of a study and what each of them depends on."""

    def __init__(self, params: Any, file: Path = Path("params.yaml")) -> None:
        """``file`` is the study's file, beside which other studies are looked for."""
        self.params, self.file = params, file
        self.steps = [STEPS[name] for name in params.study.steps]
        self._known = params.model_dump(mode="json")
        self._digests: dict[tuple[str, str], str] = {}

    def runs(self, step: Step) -> list[tuple[str, int | None]]:
        """List the model and seed of each run of a step: of models whose kind has the capabilities
        needed and whose entry does not leave the step out; ("", None) if it runs once.
        """
        if step.own is not None:
            section = getattr(self.params, step.name)
            return [(model, seed) for model in section.models for seed in section.seeds]
        if step.needs is None:
            return [("", None)]
        models = [entry.name for entry in self.params.entries(*step.needs)]
        taking = [name for name in models if self.params.takes_part(name, step.name)]
        return [(name, seed) for name in taking for seed in self.params.seeds_of(name)]

    def records(self, *phases: str) -> list[str]:
        """List the records of all runs of the study, or of those in the given phases."""
        return [
            f"{folder(self.params.name, step.name, *run)}/{RECORD}"
            for step in self.steps
            if step.phase != "report" and (not phases or step.phase in phases)
            for run in self.runs(step)
        ]

    def inputs(self, step: Step, model: str = "", seed: object = None) -> list[str]:
        """List the files that a run reads, of other steps, other studies, and its kind of model."""
        files = []
        for plan, read, *run in self.above(step, model, seed):
            encoder = ("tokenizer.json",)
            names = step.reads.get(read.name, MODEL if run[0] else encoder)
            home = folder(plan.params.name, read.name, *run)
            files += [f"{home}/{file}" for file in (*names, RECORD)]
        if step.phase == "train":
            corpus = folder(self.params.name, "corpus")
            files += [f"{corpus}/{file}" for file in self.params.model(model).kind.reads]
        return list(dict.fromkeys(files))

    def values(self, step: Step, model: str = "") -> dict[str, Any]:
        """Return the study's values that a run itself depends on, and its model's entry."""
        known = self._known
        found = {key: reduce(getitem, key.split("."), known) for key in step.keys}
        if step.phase == "train":
            entry = self.params.model(model)
            kind = [entry.kind.name, entry.labels, entry.extra]
            found["models"] = {model: {**entry.lm.model_dump(mode="json"), "kind": kind}}
        if step.own is not None:
            section = found[step.name]
            own = section["models"][model]
            rest = {k: v for k, v in section.items() if k not in ("models", "seeds")}
            found[step.name] = {**rest, "models": {model: own}}
            found["kinds"] = {own["kind"]: known["kinds"].get(own["kind"])}
        return found

    def values_of(self, step: Step, model: str = "") -> dict[str, Any]:
        """Return all values that a run depends on, including those of the runs that it reads, by
        SECTION.KEY. A trained model has those of its entry; another study's name precedes its keys.
        For the report these are the values of all runs, without its own.
        """
        found: dict[str, Any] = {}
        for plan, read, of, _ in self.above(step, model):
            # by name: the study may have been opened twice, once to start from one of its own runs
            about = "" if plan.params.name == self.params.name else f"{plan.params.name}: "
            found |= {about + key: value for key, value in plan.values_of(read, of).items()}
        return found if step.phase == "report" else found | dict(_flatten(self.values(step, model)))

    def require_run(self, step: Step, model: str = "", seed: object = None) -> None:
        """Raise ValueError if a run has no record, or one with other values than the study's."""
        record = Path(folder(self.params.name, step.name, model, seed), RECORD)
        make = f"run step {step.name} (`make study STUDY={self.params.name}` does)"
        if not record.is_file():
            raise ValueError(f"{record} is missing: {make}")
        made = read_record(record.parent).get("values", {})
        if other := next(list_changed(made, self.values_of(step, model), record), ""):
            raise ValueError(f"{other}: change it back, or {make}")

    def above(
        self, step: Step, model: str = "", seed: object = None
    ) -> Iterator[tuple[Plan, Step, str, object]]:
        """Yield the runs that a run reads: for the report all those of the study, for others those
        of the same model and seed, and the run in another study that it starts from.
        """
        if step.phase == "report":
            for one in (one for one in self.steps if one != step):
                yield from ((self, one, *run) for run in self.runs(one))
        for name in step.reads:
            own = (model, seed) if runs_per_model(STEPS[name]) else ("", None)
            yield self, STEPS[name], *own
        value = self.params.tokenizer.path if step.name == "corpus" else None
        if step.phase == "train":
            value = self.params.model(model).initial_weights
        if origin := read_origin(value):
            other = _open(find_study(origin.study, self.file))
            yield other, STEPS["lm" if origin.model else "corpus"], origin.model, origin.seed

    def code(self, step: Step, model: str = "") -> str:
        """Return the digest of a run's code: its step and the kinds of model that it needs."""
        names = []
        if step.own is not None:
            names = [getattr(self.params, step.name).models[model]["kind"]]
        elif model:
            entry = self.params.models[model]
            names = [entry["kind"]]
            if step.phase == "train" and (matched := entry.get("matched_to")):
                names.append(self.params.models[matched]["kind"])
        kinds = [KINDS[name] for name in names]
        homes = [kind.home.partition(".")[2] for kind in kinds]
        return digest_modules(
            [f"steps.{step.name}", *homes], step.data, [kind.params for kind in kinds]
        )

    def digest(self, step: Step, model: str | None = None) -> str:
        """Return one digest of all that a run depends on: its values and code, the user's files
        and their names, and the digests of what it reads. Equal digests mean equal results.
        """
        model = (model or "") if runs_per_model(step) else ""
        if (step.name, model) not in self._digests:
            values = self.values(step, model)
            above = {}
            for plan, read, of, seed in self.above(step, model):
                name = f"{read.name}/{of}/{seed}" if step.phase == "report" else read.name
                starts_here = step.phase == "report" or read.name in step.reads
                above[name if starts_here else "origin"] = plan.digest(read, of)
            named = [(path, file) for path in _list_paths(values) for file in list_files(path)]
            parts = {
                "code": self.code(step, model),
                "files": [(str(file.relative_to(path)), file_digest(file)) for path, file in named],
                "values": values,
                "above": above,
            }
            text = json.dumps(parts, sort_keys=True).encode()
            self._digests[step.name, model] = hashlib.sha256(text).hexdigest()[:16]
        return self._digests[step.name, model]

    def stale(self, *phases: str) -> Iterator[str]:
        """Yield the records of runs that were made with other values, code or inputs than they
        would be now: of the study, or of these phases of it, and of the studies that it starts
        from. Runs without a record are not named, since they will be made anyway.
        """
        found = False
        for step in self.steps:  # the report comes last
            if phases and step.phase not in phases:
                continue
            name = MANIFEST if step.phase == "report" else RECORD
            for model, seed in self.runs(step):
                record = Path(folder(self.params.name, step.name, model, seed), name)
                if not record.is_file():
                    continue
                if _recorded(record) != self.digest(step, model) or (found and name == MANIFEST):
                    found = True
                    yield str(record)
        runs = [(step, model) for step in self.steps for model, _ in self.runs(step)]
        read = {plan for run in runs for plan, *_ in self.above(*run)}
        for plan in sorted(read - {self}, key=lambda plan: str(plan.params.name)):
            yield from plan.stale("corpus", "train")

    def missing_library(self) -> str:
        """Return a line on what to install for the runs still to be made; "" for nothing."""
        for step in self.steps:
            for model, seed in self.runs(step):
                if Path(folder(self.params.name, step.name, model, seed), RECORD).exists():
                    continue
                if step.missing:
                    return f"study.steps: {step.missing}"
                kind = self.params.model(model).kind if step.needs is not None else None
                if kind is not None and step.phase == "train" and kind.missing:
                    return f"models.{model}: {kind.missing}"
        return ""


def _flatten(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested values by their keys, joined by dots."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def list_changed(made: Mapping[str, Any], now: Mapping[str, Any], record: Path) -> Iterator[str]:
    """Yield a line for each value that ``record`` was ``made`` with and that has changed since."""
    for key, value in made.items():
        if now.get(key) != value:
            yield f"{key}: {now.get(key)!r} in the study, but {value!r} in {record}"


@cache
def _open(path: Path) -> Plan:
    return Plan(load(path), path)


def _recorded(record: Path) -> str:
    try:
        return str(read_json(record)["digest"])
    except (ValueError, KeyError):
        return ""  # damaged: as if made with other values


def _list_paths(values: Mapping[str, Any]) -> list[str]:
    """List the user's own files and folders that these values name."""
    own = (value for key, value in _flatten(values) if key.endswith(OWN_PATHS))
    return [p for p in own if isinstance(p, str) and not p.startswith((STUDY, HUB, PIP))]
