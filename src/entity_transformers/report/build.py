"""The files of a study's results: gathered from what its runs left, and made of these."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from entity_transformers import artifacts
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.document import Documents
from entity_transformers.corpus.tokens import cut
from entity_transformers.report import frame, page, pictures
from entity_transformers.report.figures import render_png
from entity_transformers.report.results import read_results
from entity_transformers.report.vectors import CLOUDS
from entity_transformers.step import MANIFEST, ROWS, Run
from entity_transformers.study.params import STEPS
from entity_transformers.study.plan import Plan, folder, list_changed
from entity_transformers.tasks.similarity import across_rows

COMMITTED = ("measures.csv", "units.parquet", "curves.csv", "pictures.json")
"""What everything else of a study's results is made of."""
OF_ALL = ("git_commit", "code", "versions", "machine", "device")
"""What stands once in the manifest where it is the same for all runs, else with each."""


def collect(run: Run) -> None:
    """Write `COMMITTED` and manifest.json of a study from the rows and records of its runs."""
    plan, output = Plan(run.params), run.folder
    rows: list[Mapping[str, Any]] = []
    curves: list[dict[str, Any]] = []
    records: dict[str, dict[str, Any]] = {}
    for step in (one for one in plan.steps if one.phase != "report"):
        found: list[dict[str, Any]] = []
        for model, seed in plan.runs(step):
            home = Path(folder(run.params.name, step.name, model, seed))
            about = {"model": model, "seed": seed}
            found += ({"step": step.name, **about, **row} for row in _read_rows(home / ROWS))
            if "curve.csv" in step.writes:
                read = _read_rows(home / "curve.csv")
                curves += ({"curve": step.name, **about, **row} for row in read)
            record = artifacts.read_record(home)
            for known in ("place", "values"):  # those of its name, and of the whole study
                record.pop(known, None)
            if step.phase not in ("corpus", "train"):
                record.pop("files", None)
            records["/".join(filter(None, (step.name, model, str(seed or ""))))] = record
        if step.gather:  # a function of the rows of all runs, by its name
            module, _, name = step.gather.partition(":")
            found = getattr(import_module(f"entity_transformers.{module}"), name)(found)
        if step.name == "similarity" and run.params.similarity.across:
            found += _compare_models(run.params)
        rows += found
    artifacts.write_text(
        output / "measures.csv", frame.render(frame.make(r for r in rows if "unit" not in r))
    )
    units = frame.make_units(row for row in rows if "unit" in row)
    artifacts.write_with(output / "units.parquet", lambda path: frame.write_units(units, path))
    table = pd.DataFrame(curves, columns=None if curves else ["curve", "model", "seed"])
    artifacts.write_text(output / "curves.csv", table.to_csv(index=False, lineterminator="\n"))
    shown = pictures.write_pictures(_gather_pictures(run))
    how: Any = {"ensure_ascii": False, "separators": (",", ":"), "sort_keys": True}
    artifacts.write_text(output / "pictures.json", json.dumps(shown, **how) + "\n")
    manifest = make_manifest(records, artifacts.list_digests(output, COMMITTED))
    own = {"study": run.params.name, "digest": plan.digest(run.step)}
    values = plan.values_of(run.step)
    artifacts.write_json(output / MANIFEST, {**own, "values": values, **manifest})


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
        run: {name: value for name, value in record.items() if name not in common}
        for run, record in records.items()
    }
    return {**common, "runs": runs, "files": dict(files)}


def _read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a CSV file, without empty cells."""
    for row in csv.DictReader(artifacts.read_text(path).splitlines()):
        yield {key: value for key, value in row.items() if value != ""}


def build(params: Any, results: Path) -> None:
    """README.md with every table and figure that a study's results allow, figures/, metrics.json
    with the few numbers of each model that DVC shows, and report.html. Figures that are no longer
    there go. ValueError where the study has other values than the results were made with, which
    would be stated as theirs.
    """
    require_same_values(params, results)
    with damage_named(results):
        gathered = read_results(params, results)
        sections = page.build_sections(gathered)
    home = results / "figures"
    home.mkdir(parents=True, exist_ok=True)
    images = {
        name: render_png(figure) for one in sections for name, (figure, _) in one.figures.items()
    }
    for name, image in images.items():
        with artifacts.atomic(home / f"{name}.png") as temporary:
            temporary.write_bytes(image)
    for file in home.glob("*.png"):
        if file.stem not in images:
            file.unlink()
    artifacts.write_json(results / "metrics.json", page.summarise_models(gathered))
    artifacts.write_text(results / "README.md", page.write_readme(gathered, sections))
    artifacts.write_text(results / "report.html", page.render(gathered, sections, images))


def find_wrong(params: Any, results: Path) -> Iterator[str]:
    """A line for each file of a study's results that is not what its manifest says, or not what is
    made of the others, whatever is damaged.
    """
    for find in (_find_changed, find_other_values, _find_unmade, _find_damaged):
        try:
            with damage_named(results):
                yield from find(params, results)
        except ValueError as error:
            yield str(error)


@contextmanager
def damage_named(results: Path) -> Iterator[None]:
    """Whatever numbers or a manifest that were edited lead to inside is a ValueError that names the
    results.
    """
    try:
        yield
    except (ValueError, OSError) as error:
        about = "" if str(results) in str(error) else f"{results}: "
        raise ValueError(f"{about}{error}") from error
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"{results}: damaged ({type(error).__name__}: {error})") from error


def _read_manifest(results: Path) -> dict[str, Any]:
    manifest = artifacts.read_json(results / MANIFEST)
    known = {"values": {}, **manifest}
    if not all(isinstance(known.get(key), dict) for key in ("files", "runs", "values")):
        raise ValueError(
            f"{results / MANIFEST}: cut or damaged: bring it back, or run report again"
        )
    return manifest


def _find_changed(params: Any, results: Path) -> Iterator[str]:
    """Files that are not as the manifest has them."""
    manifest = _read_manifest(results)
    for name in COMMITTED:
        if name not in manifest["files"]:
            yield f"{name}: not in {MANIFEST}"
    for name, expected in manifest["files"].items():
        if not (results / name).is_file():
            yield f"{name}: missing"
        elif artifacts.list_digests(results, [name])[name] != expected:
            yield f"{name}: changed after {MANIFEST} was written"


def require_same_values(params: Any, results: Path) -> None:
    """ValueError for what `find_other_values` finds first."""
    if other := next(find_other_values(params, results), ""):
        raise ValueError(f"{other}: put that back, or run the study again")


def find_other_values(params: Any, results: Path) -> Iterator[str]:
    """A manifest of another study, and values of the study that are not those that the results were
    made with, as far as their manifest has them: older ones have none.
    """
    if not (results / MANIFEST).is_file():
        return
    manifest = _read_manifest(results)
    if (study := manifest.get("study", params.name)) != params.name:
        yield f"{results / MANIFEST}: of study {study}, not of {params.name}"
    made = manifest.get("values", {})
    yield from list_changed(made, Plan(params).values_of(STEPS["report"]), results / MANIFEST)


def _find_unmade(params: Any, results: Path) -> Iterator[str]:
    """Files that are not what is made of the others."""
    gathered = read_results(params, results)
    text = page.write_readme(gathered, page.build_sections(gathered))
    made: dict[str, tuple[Any, Any]] = {
        "README.md": (artifacts.read_text, text),
        "metrics.json": (artifacts.read_json, page.summarise_models(gathered)),
    }
    for name, (read, expected) in made.items():
        try:
            same = read(results / name) == expected
        except (ValueError, OSError):
            same = False
        if not same:
            yield f"{name}: not what is made of measures.csv and units.parquet"


def _find_damaged(params: Any, results: Path) -> Iterator[str]:
    """Files of runs that are not what their records say."""
    for run, record in _read_manifest(results)["runs"].items():
        home = Path(folder(params.name, *run.split("/")))
        for name in record.get("files", {}) if (home / artifacts.RECORD).is_file() else ():
            try:
                artifacts.check(home / name)
            except ValueError as error:
                yield str(error)


def _gather_pictures(run: Run) -> pictures.Pictures:
    """The example, the excerpts, and the clouds whose vectors are there: of the paper's two models,
    of their first seed that has any, head words in their document with entities given.
    """
    params, vectors, clouds = run.params, dict[str, tuple[str, Any]](), dict[str, Any]()
    corpus = Path(folder(params.name, "corpus"))
    decode = artifacts.read_tokenizer(corpus / "tokenizer.json").decode
    for role in ("proposed", "baseline"):
        name, read = _find_mentions(params, role)
        if read:
            vectors[role] = name, (read[0][0]["context_on"], read[0][0]["entity"])
    if vectors:
        splits = [_read_split(corpus, split) for split in params.embeddings.splits]
        names = [name for split in splits for name in pictures.name_entities(*split)]
        for figure, roles in CLOUDS.items():
            if set(roles) <= vectors.keys():
                chosen = dict(vectors[role] for role in roles)
                cloud = pictures.make_cloud(chosen, names, params.report.pictured_entities)
                clouds |= {} if cloud is None else {figure: cloud}
    example = pictures.take_example(*_read_split(corpus, "dev"), decode)
    return pictures.Pictures(example, clouds, _read_excerpts(params, corpus, decode))


def _read_excerpts(params: Any, corpus: Path, decode: Any) -> dict[str, Any] | None:
    """What step excerpts left of every model; None where it left nothing."""
    runs, split = {}, ""
    for entry in params.entries("causal"):
        read = _find_arrays(params, "excerpts", entry.name, "excerpts.safetensors")
        if read:
            runs[entry.name], split = [arrays for arrays, _ in read], read[0][1]["split"]
    if not runs:
        return None
    documents, aligned = _read_split(corpus, split)
    kept = cut(aligned)
    named = {document.id: document for document in documents if document.id in kept.names}
    return pictures.gather_excerpts(kept, [named[name] for name in kept.names], decode, runs)


def _find_mentions(params: Any, role: str) -> tuple[str, list[tuple[Any, Any]]]:
    """The first model of a role that has any vectors of mentions, and these of its seeds."""
    name = next((e.name for e in params.entries("encode") if e.role == role), "")
    return name, _find_arrays(params, "embeddings", name, "mentions.safetensors")


def _compare_models(params: Any) -> Iterator[dict[str, Any]]:
    """Rows of step similarity: the same mentions in the paper's two models, seed by seed."""
    (name, ours), (_, theirs) = (_find_mentions(params, one) for one in ("proposed", "baseline"))
    for seed, (first, _), (second, _) in zip(params.seeds_of(name), ours, theirs, strict=True):
        for row in across_rows(first, second, params.similarity.groups):
            yield {"step": "similarity", "model": name, "seed": seed, **row}


def _find_arrays(params: Any, step: str, model: str, name: str) -> list[tuple[Any, Any]]:
    """The arrays and facts of a model's seeds that have such a file; none of no model."""
    if not model:
        return []
    files = [Path(folder(params.name, step, model, seed), name) for seed in params.seeds_of(model)]
    return [artifacts.read_arrays(file) for file in files if file.is_file()]


def _read_split(corpus: Path, split: str) -> tuple[Documents, AlignedCorpus]:
    documents = Documents(corpus / f"{split}.jsonl")
    return documents, AlignedCorpus.load(corpus / f"{split}.safetensors")
