"""Opens the files of build-tables, build-figures, build-report and show-tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tokenizers import Tokenizer

from entity_transformers.artifacts import (
    atomic,
    read_arrays,
    read_json,
    read_json_lines,
    read_tokenizer,
    write_text,
)
from entity_transformers.cli.documents import load_documents
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.document import Document
from entity_transformers.report import figures, page, tables
from entity_transformers.report.results import (
    Results,
    Run,
    parse_curve,
    parse_documents,
    parse_probe,
    parse_spans,
    take_mentions,
)
from entity_transformers.report.spans import name_entities, take_example
from entity_transformers.study.params import Params

Parsed = TypeVar("Parsed")


def build_tables(params: Params, results: Path, output: Path) -> None:
    """Every table as Markdown, CSV and plain text."""
    built = tables.build_all(gather(params, results))
    for name, table in built.items():
        write_text(output / f"{name}.md", tables.render_markdown(table))
        write_text(output / f"{name}.csv", tables.render_csv(table))
    write_text(
        output / "tables.txt",
        "\n\n".join(tables.render_text(built[name]) for name in tables.TERMINAL) + "\n",
    )


def build_figures(params: Params, results: Path, output: Path) -> None:
    """Every figure as PNG; those that the results do not allow say so."""
    built = figures.build_all(gather(params, results))
    for name in figures.CAPTIONS:
        with atomic(output / f"{name}.png") as temporary:
            temporary.write_bytes(figures.render_png(built.get(name) or figures.draw_nothing(name)))


def build_report(params: Params, results: Path, output: Path) -> None:
    """One HTML page; the figures are those of build-figures."""
    gathered = gather(params, results)
    folder = results / "report" / "figures"
    pictures = {name: (folder / f"{name}.png").read_bytes() for name in figures.build_all(gathered)}
    write_text(output, page.render(gathered, tables.build_all(gathered), pictures))


def show_tables(tables: Path) -> None:
    """Print tables 2 to 5."""
    print((tables / "tables.txt").read_text(encoding="utf-8"), end="")


def gather(params: Params, results: Path) -> Results:
    """All that the steps left behind under ``results``."""
    corpus = results / "corpus"
    documents = [
        d for split in params.embeddings.splits for d in load_documents(corpus / f"{split}.jsonl")
    ]
    aligned = [
        AlignedCorpus.load(corpus / f"{split}.safetensors") for split in params.embeddings.splits
    ]
    tokenizer = read_tokenizer(corpus / "tokenizer.json")
    runs = tuple(
        _read_run(results, model, seed)
        for model in tuple(params.models)
        for seed in params.study.seeds
    )
    return Results(
        title=params.report.title,
        models=tuple(params.models),
        seeds=params.study.seeds,
        runs=runs,
        statistics=read_json(corpus / "statistics.json"),
        alignment=read_json(corpus / "alignment.json"),
        lambada_passages=sum(1 for _ in read_json_lines(corpus / "lambada.jsonl")),
        lambada_tags=read_json(corpus / "lambada_tags.json"),
        recall=read_json(results / "recall" / "accuracy.json")["runs"],
        entity_names=name_all_entities(documents, aligned),
        example=_take_example(params, corpus, tokenizer),
        anomalies=read_json(results / "anomalies" / "anomalies.json")["candidates"],
        manifest=_manifest(params, results),
        pictured_entities=params.report.pictured_entities,
        bootstrap_samples=params.report.bootstrap_samples,
    )


def name_all_entities(documents: list[Document], aligned: list[AlignedCorpus]) -> list[str]:
    """A name for each entity, in the numbering of mentions.safetensors: split after split."""
    names: list[str] = []
    for corpus in aligned:
        own, documents = documents[: len(corpus)], documents[len(corpus) :]
        names += name_entities(own, corpus)
    return names


def _take_example(params: Params, corpus: Path, tokenizer: Tokenizer) -> Any:
    aligned, documents = (
        AlignedCorpus.load(corpus / "dev.safetensors"),
        load_documents(corpus / "dev.jsonl"),
    )
    return take_example(
        documents, aligned, lambda token: tokenizer.decode([token]), params.report.example_words
    )


def _read_run(results: Path, model: str, seed: int) -> Run:
    def folder(step: str) -> Path:
        return results / step / model / str(seed)

    arrays, _ = read_arrays(folder("embeddings") / "mentions.safetensors")
    return Run(
        model=model,
        seed=seed,
        training=read_json(folder("lm") / "metrics.json"),
        timing=read_json(folder("lm") / "timing.json"),
        curve=_parse(parse_curve, folder("lm") / "curve.csv"),
        perplexity=read_json(folder("perplexity") / "perplexity.json"),
        documents=_parse(parse_documents, folder("perplexity") / "documents.csv"),
        passages=_parse(parse_documents, folder("perplexity") / "passages.csv"),
        lambada=read_json(folder("perplexity") / "lambada.json"),
        similarity=read_json(folder("similarity") / "similarity.json"),
        probe=read_json(folder("probe") / "probe.json"),
        probe_heads=_parse(parse_probe, folder("probe") / "heads.csv"),
        probe_documents=_parse(parse_probe, folder("probe") / "documents.csv"),
        ner=read_json(folder("ner") / "metrics.json"),
        ner_spans=_parse(parse_spans, folder("ner") / "documents.csv"),
        mentions=take_mentions(arrays),
    )


def _parse(parser: Callable[[str, str], Parsed], path: Path) -> Parsed:
    return parser(path.read_text(encoding="utf-8"), str(path))


def _manifest(params: Params, results: Path) -> dict[str, Any]:
    run = read_json(
        results / "lm" / list(params.models)[0] / str(params.study.seeds[0]) / "manifest.json"
    )
    made = {"git commit": run["git_commit"], "code": run["code"], "device": run["device"]}
    return (
        made
        | {"versions": run["versions"], "inputs (sha256)": run["inputs"]}
        | params.model_dump(mode="json", exclude={"report", "root"})
    )
