"""Opens the files of collect-measures and build-report.

The first makes measures.csv, pictures.json and values.json from what the steps left; the second
reads only the first two, manifest.json and the CSV files, all of which are committed with a study.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from entity_transformers.artifacts import (
    DIGESTS,
    atomic,
    check,
    read_arrays,
    read_json,
    read_text,
    read_tokenizer,
    write_json,
    write_text,
)
from entity_transformers.corpus.stored import Documents
from entity_transformers.cli.flags import Flag
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.excerpts import cut
from entity_transformers.report import figures, page, readme, tables
from entity_transformers.report.catalogue import CATALOGUE, list_figures
from entity_transformers.report.clouds import CLOUDS
from entity_transformers.report.excerpts import Excerpts, gather_excerpts
from entity_transformers.report.frame import read_frame
from entity_transformers.report.measures import Tree, collect, missing
from entity_transformers.report.pictures import (
    MentionVectors,
    Pictures,
    make_cloud,
    parse_pictures,
    take_mentions,
    write_pictures,
)
from entity_transformers.report.records import (
    parse_curve,
    parse_documents,
    parse_probe,
    parse_spans,
)
from entity_transformers.report.results import Results, Run
from entity_transformers.report.spans import Example, name_entities, take_example
from entity_transformers.report.summary import summarise_models
from entity_transformers.study.params import Params
from entity_transformers.study.plan import RECORDED, Plan

Parsed = TypeVar("Parsed")


def collect_measures(
    params: Params,
    results: Path,
    output: Path,
    partial: Annotated[
        bool, Flag("of a study that is not done: leave out what is missing")
    ] = False,
) -> None:
    """Every number of the study in one table, the coordinates of its pictures, and digests of the
    values that all of it was made with.
    """
    if partial and not (results / "corpus/tokenizer.json").is_file():
        name = results.absolute().parent.name
        raise ValueError(f"{name} has no results yet: run `make study STUDY={name}` first")
    runs = tuple((model, seed) for model in params.models for seed in params.study.seeds)
    frame = collect(Tree(results, runs, partial), list_steps(params))
    pictures = write_pictures(_collect_pictures(params, results, output))
    write_text(output / "measures.csv", frame.render())
    text = json.dumps(pictures, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    write_text(output / "pictures.json", text + "\n")
    write_json(output / RECORDED.name, Plan(params).recorded())


def build_report(params: Params, results: Path, output: Path) -> None:
    """Every table and figure that the results allow, and both on one HTML page: ``output``/tables,
    figures and report.html; and the few numbers of each model that DVC shows: metrics. Files of
    tables, figures and models that are no longer there go.
    """
    gathered = gather(params, results)
    built = tables.build_all(gathered)
    _write_texts(render_tables(built), output / "tables")
    _write_texts(render_metrics(gathered), output / "metrics")
    images = _write_figures(gathered, output / "figures")
    write_text(output / "report.html", page.render(gathered, built, images))
    write_text(output / "README.md", readme.write_readme(gathered, built, images))


def render_tables(built: Mapping[str, tables.Table]) -> dict[str, str]:
    """The files of every table, Markdown and CSV, and what a run prints when it ends."""
    files = {f"{name}.md": tables.render_markdown(table) for name, table in built.items()}
    files |= {f"{name}.csv": tables.render_csv(table) for name, table in built.items()}
    return files | {"summary.txt": tables.write_summary(built)}


def render_metrics(results: Results) -> dict[str, str]:
    """The file of each model's few numbers, to six digits."""
    found = summarise_models(results).items()
    rounded = {model: {k: float(f"{v:.6g}") for k, v in few.items()} for model, few in found}
    return {f"{model}.json": json.dumps(few, indent=2) + "\n" for model, few in rounded.items()}


def _write_texts(files: Mapping[str, str], output: Path) -> None:
    for name, text in files.items():
        write_text(output / name, text)
    _remove_others(output, files)


def _write_figures(gathered: Results, output: Path) -> dict[str, bytes]:
    """Every figure as PNG; those that are there then, the ones that pictures.json keeps too."""
    built = figures.build_all(gathered)
    output.mkdir(parents=True, exist_ok=True)
    drawn = {name: figures.render_png(figure) for name, figure in built.items()}
    for name, image in drawn.items():
        with atomic(output / f"{name}.png") as temporary:
            temporary.write_bytes(image)
    _remove_others(output, [f"{name}.png" for name in (*built, *gathered.pictures.kept)])
    files = {name: output / f"{name}.png" for name in list_figures(gathered.shown)}
    return {
        name: drawn[name] if name in drawn else check(file).read_bytes()
        for name, file in files.items()
        if file.is_file()
    }


def _remove_others(folder: Path, names: Iterable[str]) -> None:
    kept = {*names, DIGESTS}
    for file in folder.iterdir():
        if file.suffix in (".md", ".csv", ".txt", ".png", ".json") and file.name not in kept:
            file.unlink()


def list_steps(params: Params) -> tuple[str, ...]:
    """The steps that the study names, in the order of the report."""
    return tuple(step for step in CATALOGUE if step in params.study.steps)


def gather(params: Params, results: Path) -> Results:
    """All that the report reads: measures.csv, pictures.json, manifest.json and the CSV files."""
    report, steps = results / "report", list_steps(params)
    entries = tuple(params.model(name) for name in params.models)
    runs = (_read_run(results, entry.name, s) for entry in entries for s in params.study.seeds)
    pictures = report / "pictures.json"
    for file in (report / "measures.csv", pictures):
        if not file.is_file():
            raise ValueError(f"{file} is not there: collect-measures --output {report} makes it")
    return Results(
        title=params.report.title,
        entries=entries,
        seeds=params.study.seeds,
        frame=read_frame(report / "measures.csv"),
        steps=steps,
        runs=tuple(run for run in runs if run is not None),
        recall=_complete_recall(params) if "recall" in steps else {},
        groups=params.similarity.groups if "similarity" in steps else {},
        nesting=params.corpus.nested_mentions,
        passages=params.lambada.text if "passages" in params.study.steps else "original",
        pictures=parse_pictures(read_json(pictures), str(pictures)),
        manifest=_manifest(params, results),
        bootstrap_samples=params.report.bootstrap_samples,
        paper=params.report.paper,
    )


def _complete_recall(params: Params) -> dict[str, dict[str, Any]]:
    """The entries of recall.models with the values that their kinds have otherwise."""
    models = params.recall.models.items()
    return {name: {**params.kinds.get(entry["kind"], {}), **entry} for name, entry in models}


def _read_run(results: Path, model: str, seed: int) -> Run | None:
    """None for a run that has left no file."""

    def read(parse: Callable[[str, str], Parsed], step: str, name: str) -> Parsed | None:
        path = results / step / model / str(seed) / name
        if not path.is_file():
            return None
        text = read_text(path)
        try:
            return parse(text, str(path))
        except ValueError as error:
            told = "" if str(path) in str(error) else f"{path}: "
            raise ValueError(f"{told}{error}") from None

    found: dict[str, Any] = {
        "curve": read(parse_curve, "lm", "curve.csv"),
        "documents": read(parse_documents, "perplexity", "documents.csv"),
        "passages": read(parse_documents, "lambada", "passages.csv"),
        "probe_heads": read(parse_probe, "probe", "heads.csv"),
        "probe_documents": read(parse_probe, "probe", "documents.csv"),
        "ner_spans": read(parse_spans, "ner", "documents.csv"),
    }
    left = {name: value for name, value in found.items() if value is not None}
    return Run(model, seed, **left) if left else None


def _manifest(params: Params, results: Path) -> dict[str, Any]:
    """Of the first run; what the study's params are stands in params.yaml, as it was read."""
    runs = ((model, seed) for model in params.models for seed in params.study.seeds)
    files = (results / "lm" / model / str(seed) / "manifest.json" for model, seed in runs)
    first = next((file for file in files if file.is_file()), None)
    made: dict[str, Any] = {}
    if first is not None:
        run = read_json(first)
        made = {"git commit": run["git_commit"], "code": run["code"], "device": run["device"]}
        made |= {"versions": run["versions"], "inputs (sha256)": run["inputs"]}
    return made | params.model_dump(mode="json", exclude={"report", "root"})


def _collect_pictures(params: Params, results: Path, output: Path) -> Pictures:
    """The example, and the pictures' coordinates; one whose vectors are gone is kept where its PNG
    lies in ``output``.
    """
    vectors = _read_vectors(params, results)
    clouds = {}
    if vectors:
        corpus = results / "corpus"
        splits = [_read_split(corpus, split) for split in params.embeddings.splits]
        names = [name for split in splits for name in name_entities(*split)]
        for name, roles in CLOUDS.items():
            if set(roles) <= vectors.keys():
                chosen = dict(vectors[role] for role in roles)
                clouds[name] = make_cloud(chosen, names, params.report.pictured_entities)
    kept = () if vectors else (n for n in CLOUDS if (output / "figures" / f"{n}.png").is_file())
    return Pictures(
        example=_take_example(params, results / "corpus"),
        clouds={name: cloud for name, cloud in clouds.items() if cloud is not None},
        kept=tuple(kept),
        excerpts=_read_excerpts(params, results),
    )


def _read_excerpts(params: Params, results: Path) -> Excerpts | None:
    """What step excerpts left of every model; None where it left nothing."""
    folder, runs, facts = results / "excerpts", {}, {}
    for entry in params.entries("causal"):
        files = [folder / entry.name / str(s) / "excerpts.safetensors" for s in params.study.seeds]
        read = [read_arrays(file) for file in files if file.is_file()]
        if read:
            runs[entry.name], facts = [arrays for arrays, _ in read], read[0][1]
    if not runs:
        return None
    documents, corpus = _read_split(results / "corpus", facts["split"])
    tokenizer = read_tokenizer(results / "corpus/tokenizer.json")
    kept = cut(corpus)
    named = {document.id: document for document in documents if document.id in kept.names}
    return gather_excerpts(kept, [named[name] for name in kept.names], tokenizer.decode, runs)


def _read_vectors(params: Params, results: Path) -> dict[str, tuple[str, MentionVectors]]:
    """The mentions of the paper's two models by role, each of its first seed that has any."""
    found = {}
    for role in ("proposed", "baseline"):
        entry = next((e for e in params.entries("encode") if e.role == role), None)
        folder = results / "embeddings" / (entry.name if entry else "")
        files = [folder / str(seed) / "mentions.safetensors" for seed in params.study.seeds]
        file = next((file for file in files if entry and file.is_file()), None)
        if entry and file:
            found[role] = (entry.name, take_mentions(read_arrays(file)[0]))
    return found


def _read_split(corpus: Path, split: str) -> tuple[Documents, AlignedCorpus]:
    documents = Documents(corpus / f"{split}.jsonl")
    return documents, AlignedCorpus.load(corpus / f"{split}.safetensors")


def _take_example(params: Params, corpus: Path) -> Example | None:
    if not (corpus / "tokenizer.json").is_file():
        raise missing(corpus / "tokenizer.json")
    tokenizer = read_tokenizer(corpus / "tokenizer.json")
    documents, aligned = _read_split(corpus, "dev")
    return take_example(
        documents, aligned, lambda token: tokenizer.decode([token]), params.report.example_words
    )
