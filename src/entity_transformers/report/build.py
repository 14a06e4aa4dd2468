"""The files of a study's results: gathered from what its runs left, and made of these."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from entity_transformers.artifacts import (
    RECORD,
    atomic,
    check,
    list_digests,
    read_arrays,
    read_json,
    read_record,
    read_text,
    read_tokenizer,
    write_json,
    write_text,
    write_with,
)
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.document import Documents
from entity_transformers.corpus.excerpts import cut
from entity_transformers.report import frame, page, readme
from entity_transformers.report.catalogue import build_sections
from entity_transformers.report.excerpts import Excerpts, gather_excerpts
from entity_transformers.report.figures import render_png
from entity_transformers.report.pictures import (
    MentionVectors,
    Pictures,
    make_cloud,
    take_mentions,
    write_pictures,
)
from entity_transformers.report.results import Results, read_results
from entity_transformers.report.similarity import CLOUDS
from entity_transformers.report.spans import Example, name_entities, take_example
from entity_transformers.report.terminal import write_summary
from entity_transformers.step import MANIFEST, ROWS, Run, Step
from entity_transformers.study.plan import Plan, folder

PACKAGE = "entity_transformers"
COMMITTED = ("measures.csv", "units.parquet", "curves.csv", "pictures.json")
"""What everything else of a study's results is made of."""
SUMMARY = "summary.txt"
"""What a run prints when it ends; like report.html, git does not keep it."""
OF_ALL = ("git_commit", "code", "versions", "machine", "device")
"""What stands once in the manifest where it is the same for all runs, else with each."""


def collect(run: Run) -> None:
    """Write `COMMITTED` and manifest.json of a study from the rows and records of its runs."""
    plan, output = Plan(run.params), run.folder
    runs = [
        (step, model, seed)
        for step in plan.steps
        if step.phase != "report"
        for model, seed in plan.runs(step)
    ]
    rows: dict[Step, list[dict[str, Any]]] = {}
    curves: list[dict[str, Any]] = []
    records: dict[str, Any] = {}
    for step, model, seed in runs:
        home = Path(folder(run.params.name, step.name, model, seed))
        rows.setdefault(step, []).extend(_read_rows(home, step, model, seed))
        curves += _read_curve(home, step, model, seed)
        record = read_record(home)
        records["/".join(filter(None, (step.name, model, str(seed or ""))))] = {
            key: value
            for key, value in record.items()
            if key != "files" or step.phase in ("corpus", "train")
        }
    gathered = [row for step, found in rows.items() for row in _gather(step, found)]
    plain = [row for row in gathered if not row.get("unit")]
    of_units = [row for row in gathered if row.get("unit")]
    write_text(output / "measures.csv", frame.render(frame.make(plain)))
    units = frame.make(of_units) if of_units else frame.make([{"unit": ""}]).iloc[:0]
    write_with(output / "units.parquet", lambda path: frame.write_units(units, path))
    first = list(frame.CURVES)
    data = pd.DataFrame(curves or [dict.fromkeys(first)]).fillna("")
    write_text(output / "curves.csv", frame.render(data if curves else data.iloc[:0]))
    text = json.dumps(
        write_pictures(_gather_pictures(run)),
        ensure_ascii=False,
        separators=(",", ":"),
        sort_keys=True,
    )
    write_text(output / "pictures.json", text + "\n")
    manifest = make_manifest(records, list_digests(output, COMMITTED))
    write_json(output / MANIFEST, {"digest": plan.digest(run.step), **manifest})


def make_manifest(
    records: Mapping[str, Mapping[str, Any]], files: Mapping[str, str]
) -> dict[str, Any]:
    """Where a study's results come from: for all runs together, and run by run, what the records
    say; and the digests of the results' own files.
    """
    common = {}
    for name in OF_ALL:
        found = [record[name] for record in records.values() if name in record]
        if found and all(one == found[0] for one in found):
            common[name] = found[0]
    runs = {
        name: {key: value for key, value in record.items() if key not in common}
        for name, record in records.items()
    }
    return {**common, "runs": runs, "files": dict(files)}


def _read_rows(home: Path, step: Step, model: str, seed: int | None) -> Iterator[dict[str, Any]]:
    """The numbers of a run, each with what it is of."""
    for row in csv.DictReader(read_text(home / ROWS).splitlines()):
        found = {key: value for key, value in row.items() if value != ""}
        yield {"step": step.name, "model": model, "seed": seed, **found}


def _gather(step: Step, rows: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """The rows of all runs of a step as the results have them."""
    if not step.gather:
        return rows
    module, _, name = step.gather.partition(":")
    found: Iterable[dict[str, Any]] = getattr(import_module(f"{PACKAGE}.{module}"), name)(rows)
    return found


def _read_curve(home: Path, step: Step, model: str, seed: int | None) -> Iterator[dict[str, Any]]:
    """The learning curve of a run, if its step keeps one."""
    if "curve.csv" in step.writes:
        for row in csv.DictReader(read_text(home / "curve.csv").splitlines()):
            yield {"curve": step.name, "model": model, "seed": seed, **row}


def build(params: Any, results: Path) -> None:
    """README.md with every table and figure that a study's results allow, figures/, metrics.json
    with the few numbers of each model that DVC shows, and report.html. Figures that are no longer
    there go.
    """
    gathered = read_results(params, results)
    sections = build_sections(gathered)
    home = results / "figures"
    home.mkdir(parents=True, exist_ok=True)
    drawn = {
        name: render_png(figure) for one in sections for name, (figure, _) in one.figures.items()
    }
    images = dict(drawn)
    for file in home.glob("*.png"):
        if file.stem in gathered.pictures.kept:
            images[file.stem] = file.read_bytes()
        elif file.stem not in drawn:
            file.unlink()
    for name, image in drawn.items():
        with atomic(home / f"{name}.png") as temporary:
            temporary.write_bytes(image)
    write_json(results / "metrics.json", readme.summarise_models(gathered))
    write_text(results / "README.md", readme.write_readme(gathered, sections))
    write_text(results / "report.html", page.render(gathered, sections, images))
    tables = {name: table for one in sections for name, table in one.tables.items()}
    write_text(results / SUMMARY, write_summary(tables, params.name))


def find_wrong(params: Any, results: Path) -> Iterator[str]:
    """A line for each file of a study's results that is not what its manifest says, or not what is
    made of the others.
    """
    manifest = read_json(results / MANIFEST)
    for name, expected in manifest["files"].items():
        if not (results / name).is_file():
            yield f"{name}: missing"
        elif list_digests(results, [name])[name] != expected:
            yield f"{name}: changed after {MANIFEST} was written"
    gathered: Results = read_results(params, results)
    sections = build_sections(gathered)
    made = {
        "README.md": readme.write_readme(gathered, sections),
        "metrics.json": readme.summarise_models(gathered),
    }
    for name, expected in made.items():
        path = results / name
        found: Any = "" if not path.is_file() else read_text(path)
        if name.endswith(".json") and found:
            found = json.loads(found)
        if found != expected:
            yield f"{name}: not what is made of measures.csv and units.parquet"
    for run, record in manifest["runs"].items():
        step, *of = run.split("/")
        home = Path(folder(params.name, step, *of))
        for name in record.get("files", {}):
            if (home / name).is_file() and (home / RECORD).is_file():
                try:
                    check(home / name)
                except ValueError as error:
                    yield str(error)


def _gather_pictures(run: Run) -> Pictures:
    """The example, and the pictures' coordinates; one whose vectors are gone is kept where its PNG
    lies in the results.
    """
    params, vectors, clouds = run.params, _read_vectors(run.params), {}
    corpus = Path(folder(params.name, "corpus"))
    if vectors:
        splits = [_read_split(corpus, split) for split in params.embeddings.splits]
        names = [name for split in splits for name in name_entities(*split)]
        for name, roles in CLOUDS.items():
            if set(roles) <= vectors.keys():
                chosen = dict(vectors[role] for role in roles)
                clouds[name] = make_cloud(chosen, names, params.report.pictured_entities)
    figures = run.folder / "figures"
    kept = () if vectors else (name for name in CLOUDS if (figures / f"{name}.png").is_file())
    return Pictures(
        example=_take_example(params, corpus),
        clouds={name: cloud for name, cloud in clouds.items() if cloud is not None},
        kept=tuple(kept),
        excerpts=_read_excerpts(params, corpus),
    )


def _read_excerpts(params: Any, corpus: Path) -> Excerpts | None:
    """What step excerpts left of every model; None where it left nothing."""
    runs, facts = {}, {}
    for entry in params.entries("causal"):
        homes = [folder(params.name, "excerpts", entry.name, s) for s in params.study.seeds]
        files = [Path(home, "excerpts.safetensors") for home in homes]
        read = [read_arrays(file) for file in files if file.is_file()]
        if read:
            runs[entry.name], facts = [arrays for arrays, _ in read], read[0][1]
    if not runs:
        return None
    documents, aligned = _read_split(corpus, facts["split"])
    tokenizer = read_tokenizer(corpus / "tokenizer.json")
    kept = cut(aligned)
    named = {document.id: document for document in documents if document.id in kept.names}
    return gather_excerpts(kept, [named[name] for name in kept.names], tokenizer.decode, runs)


def _read_vectors(params: Any) -> dict[str, tuple[str, MentionVectors]]:
    """The mentions of the paper's two models by role, each of its first seed that has any."""
    found = {}
    for role in ("proposed", "baseline"):
        entry = next((e for e in params.entries("encode") if e.role == role), None)
        homes = [
            folder(params.name, "embeddings", entry.name, seed)
            for seed in params.study.seeds
            if entry is not None
        ]
        files = [Path(home, "mentions.safetensors") for home in homes]
        file = next((file for file in files if file.is_file()), None)
        if entry and file:
            found[role] = (entry.name, take_mentions(read_arrays(file)[0]))
    return found


def _read_split(corpus: Path, split: str) -> tuple[Documents, AlignedCorpus]:
    documents = Documents(corpus / f"{split}.jsonl")
    return documents, AlignedCorpus.load(corpus / f"{split}.safetensors")


def _take_example(params: Any, corpus: Path) -> Example | None:
    tokenizer = read_tokenizer(corpus / "tokenizer.json")
    documents, aligned = _read_split(corpus, "dev")
    return take_example(
        documents, aligned, lambda token: tokenizer.decode([token]), params.report.example_words
    )
