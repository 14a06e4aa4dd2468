"""The files of a study's results: those gathered from its runs, and those made from them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
"""The files from which all other results of a study are made."""
# stated once in the manifest if it is the same for all runs, otherwise with each run
OF_ALL = ("git_commit", "code", "versions", "machine", "device")


def collect(run: Run) -> None:
    """Write the `COMMITTED` files and manifest.json from the rows and records of a study's runs."""
    plan, output = Plan(run.params), run.folder
    rows, curves, records = list[Any](), list[Any](), dict[str, dict[str, Any]]()
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
            known = ["place", "values"]  # given by the run's name and the study
            known += ["files"] * (step.phase not in ("corpus", "train"))
            name = "/".join([step.name] if seed is None else [step.name, model, str(seed)])
            records[name] = {key: value for key, value in record.items() if key not in known}
        if step.gather:  # "module:name" of a function of the rows of all runs
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
    shown = pictures.write_pictures(_gather_pictures(run.params))
    how: Any = {"ensure_ascii": False, "separators": (",", ":"), "sort_keys": True}
    artifacts.write_text(output / "pictures.json", json.dumps(shown, **how) + "\n")
    manifest: dict[str, Any] = {"study": run.params.name, "digest": plan.digest(run.step)}
    manifest["values"] = plan.values_of(run.step)
    for name in OF_ALL:
        values = [record[name] for record in records.values() if name in record]
        if values and all(one == values[0] for one in values):
            manifest[name] = values[0]
            for record in records.values():
                record.pop(name, None)
    manifest |= {"runs": records, "files": artifacts.list_digests(output, COMMITTED)}
    artifacts.write_json(output / MANIFEST, manifest)


def _read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a CSV file without their empty cells."""
    for row in artifacts.read_csv(path):
        yield {key: value for key, value in row.items() if value != ""}


def build(params: Any, results: Path) -> None:
    """Write README.md with every table and figure that a study's results allow, figures/,
    metrics.json with the few numbers of each model that DVC shows, and report.html; delete figures
    that are no longer drawn. Raise ValueError if the study's values are not those that the results
    were made with, since the report would attribute the results to them.
    """
    require_same_values(params, results)
    with damage_named(results):
        gathered = read_results(params, results)
        sections = page.build_sections(gathered)
        drawn = [figure for one in sections for figure in one.figures.items()]
        images = {name: render_png(figure) for name, (figure, _) in drawn}
        whole = page.render(gathered, sections, images)
    for name, image in images.items():
        with artifacts.atomic(results / f"figures/{name}.png") as temporary:
            temporary.write_bytes(image)
    for file in (results / "figures").glob("*.png"):
        if file.stem not in images:
            file.unlink()
    artifacts.write_json(results / "metrics.json", page.summarise_models(gathered))
    artifacts.write_text(results / "README.md", page.write_readme(gathered, sections))
    artifacts.write_text(results / "report.html", whole)


def find_wrong(params: Any, results: Path) -> Iterator[str]:
    """Yield a line for each file or value that contradicts the manifest or the other files."""
    for find in (_find_changed, find_other_values, _find_unmade, _find_damaged):
        try:
            with damage_named(results):
                yield from map(_in_one_line, find(params, results))
        except ValueError as error:
            yield _in_one_line(str(error))


def _in_one_line(text: str) -> str:
    """Escape unprintable characters, which names in a damaged file may have, as Python does."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


@contextmanager
def damage_named(results: Path) -> Iterator[None]:
    """Turn errors due to edited numbers or manifests into a ValueError that names the results."""
    try:
        yield
    except (ValueError, OSError) as error:
        about = "" if str(results) in str(error) else f"{results}: "
        raise ValueError(f"{about}{error}") from error
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"{results}: damaged ({type(error).__name__}: {error})") from error


def _read_manifest(results: Path) -> dict[str, Any]:
    manifest = {"values": {}, **artifacts.read_json(path := results / MANIFEST)}
    runs = manifest.get("runs")
    parts = [manifest.get("files"), manifest["values"], runs]
    parts += runs.values() if isinstance(runs, dict) else []
    if not all(isinstance(part, dict) for part in parts):
        raise ValueError(f"{path}: truncated or damaged: restore it, or run step report again")
    return manifest


def _find_changed(_: Any, results: Path) -> Iterator[str]:
    """Yield a line for each file that is missing, too large or not as the manifest has it."""
    files = _read_manifest(results)["files"]
    yield from (f"{name}: not in {MANIFEST}" for name in COMMITTED if name not in files)
    for name, expected in files.items():
        if not (results / name).is_file():
            yield f"{name}: missing"
        elif (results / name).stat().st_size > artifacts.LARGEST:
            yield f"{name}: more than {artifacts.LARGEST:,} bytes"
        elif artifacts.list_digests(results, [name])[name] != expected:
            yield f"{name}: changed after {MANIFEST} was written"


def require_same_values(params: Any, results: Path) -> None:
    """Raise ValueError for the first difference that `find_other_values` finds."""
    if other := next(find_other_values(params, results), ""):
        raise ValueError(f"{other}: change it back, or run the study again")


def find_other_values(params: Any, results: Path) -> Iterator[str]:
    """Yield a line if the manifest is of another study, and one for each value that it records and
    that differs from the study's now; older manifests record no values.
    """
    if (path := results / MANIFEST).is_file():
        manifest = _read_manifest(results)
        if (study := manifest.get("study", params.name)) != params.name:
            yield f"{path}: belongs to study {study}, not {params.name}"
        yield from list_changed(manifest["values"], Plan(params).values_of(STEPS["report"]), path)


def _find_unmade(params: Any, results: Path) -> Iterator[str]:
    """Yield a line for each of README.md and metrics.json that differs from a newly made one."""
    gathered = read_results(params, results)
    text = page.write_readme(gathered, page.build_sections(gathered))
    made: dict[str, tuple[Any, Any]] = {
        "README.md": (artifacts.read_bounded, text),
        "metrics.json": (artifacts.read_json, page.summarise_models(gathered)),
    }
    for name, (read, expected) in made.items():
        same = False
        with suppress(ValueError, OSError):
            same = read(results / name) == expected
        if not same:
            yield f"{name}: differs from what measures.csv and units.parquet produce"


def _find_damaged(params: Any, results: Path) -> Iterator[str]:
    """Yield a line for each file of a run that differs from what the run's record says."""
    for run, record in _read_manifest(results)["runs"].items():
        home = Path(folder(params.name, *run.split("/")))
        for name in record.get("files", {}) if (home / artifacts.RECORD).is_file() else ():
            try:
                artifacts.check(home / name)
            except ValueError as error:
                yield str(error)


def _gather_pictures(params: Any) -> pictures.Pictures:
    """Return the example, the excerpts and the clouds that have vectors. These are of head words in
    context, with entities given, from the first seed with vectors of the paper's two models.
    """
    corpus, clouds = Path(folder(params.name, "corpus")), dict[str, Any]()
    decode = artifacts.read_tokenizer(corpus / "tokenizer.json").decode
    mentions = {role: _find_mentions(params, role) for role in ("proposed", "baseline")}
    vectors = {
        role: (name, (arrays["context_on"], arrays["entity"]))
        for role, (name, found) in mentions.items()
        for arrays, _ in [*found.values()][:1]
    }
    splits = [_read_split(corpus, one) for one in (params.embeddings.splits if vectors else ())]
    names = [name for split in splits for name in pictures.name_entities(*split)]
    for figure, roles in CLOUDS.items():
        if {*roles} <= vectors.keys():
            chosen = dict(vectors[role] for role in roles)
            if cloud := pictures.make_cloud(chosen, names, params.report.pictured_entities):
                clouds[figure] = cloud
    example = pictures.take_example(*_read_split(corpus, "dev"), decode)
    return pictures.Pictures(example, clouds, _read_excerpts(params, corpus, decode))


def _read_excerpts(params: Any, corpus: Path, decode: Any) -> dict[str, Any] | None:
    """Return what step excerpts wrote for all models; None if it wrote nothing."""
    entries = (entry.name for entry in params.entries("causal"))
    read = {
        name: _find_arrays(params, "excerpts", name, "excerpts.safetensors") for name in entries
    }
    runs = {name: [one for one, _ in found.values()] for name, found in read.items() if found}
    if not runs:
        return None
    _, facts = next(iter(read[[*runs][-1]].values()))
    documents, aligned = _read_split(corpus, facts["split"])
    kept = cut(aligned)
    named = {document.id: document for document in documents if document.id in kept.names}
    return pictures.gather_excerpts(kept, [named[name] for name in kept.names], decode, runs)


def _find_mentions(params: Any, role: str) -> tuple[str, dict[int, tuple[Any, Any]]]:
    """Return the first encoding model of a role and the mention vectors of its seeds, if any."""
    name = next((e.name for e in params.entries("encode") if e.role == role), "")
    return name, _find_arrays(params, "embeddings", name, "mentions.safetensors") if name else {}


def _compare_models(params: Any) -> Iterator[dict[str, Any]]:
    """Yield rows of step similarity for each seed of both: the same mentions in the baseline and in
    each model that reads entities, or, as its control, has as many parameters as one that does.
    """
    _, theirs = _find_mentions(params, "baseline")
    for entry in params.entries("encode"):
        compared = entry.can({"entities"}) or params.models[entry.name].get("matched_to")
        if compared:
            ours = _find_arrays(params, "embeddings", entry.name, "mentions.safetensors")
            for seed in (seed for seed in ours if seed in theirs):
                first, second = ours[seed][0], theirs[seed][0]
                for row in across_rows(first, second, params.similarity.groups):
                    yield {"step": "similarity", "model": entry.name, "seed": seed, **row}


def _find_arrays(params: Any, step: str, model: str, name: str) -> dict[int, tuple[Any, Any]]:
    """Return the arrays and facts of file ``name`` by seed, for each of a model's that has it; none
    if the study has no such step, or the model takes no part in it.
    """
    taking = params.runs_step(step) and params.takes_part(model, step)
    seeds = params.seeds_of(model) if taking else ()
    files = {seed: Path(folder(params.name, step, model, seed), name) for seed in seeds}
    return {seed: artifacts.read_arrays(file) for seed, file in files.items() if file.is_file()}


def _read_split(corpus: Path, split: str) -> tuple[Documents, AlignedCorpus]:
    documents = Documents(corpus / f"{split}.jsonl")
    return documents, AlignedCorpus.load(corpus / f"{split}.safetensors")
