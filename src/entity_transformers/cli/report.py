"""Opens the files of collect-pictures and build-report: a study's results, which are committed, and
what is made of them.
"""

from __future__ import annotations

import json
from pathlib import Path

from entity_transformers.artifacts import (
    atomic,
    read_arrays,
    read_tokenizer,
    write_json,
    write_text,
)
from entity_transformers.cli.documents import Documents
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.excerpts import cut
from entity_transformers.report import page, readme
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
from entity_transformers.report.results import read_results
from entity_transformers.report.similarity import CLOUDS
from entity_transformers.report.spans import Example, name_entities, take_example
from entity_transformers.study.params import Params


def collect_pictures(params: Params, artifacts: Path, output: Path) -> None:
    """pictures.json below ``output``, a study's results: the aligned example, the coordinates of
    the pictures of mention vectors, and a few documents token by token.
    """
    pictures = write_pictures(_gather_pictures(params, artifacts, output))
    text = json.dumps(pictures, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    write_text(output / "pictures.json", text + "\n")


def build_report(params: Params, results: Path) -> None:
    """README.md with every table and figure that a study's results allow, figures/, metrics.json
    with the few numbers of each model that DVC shows, and report.html. Figures that are no longer
    there go.
    """
    gathered = read_results(params, results)
    sections, kept = build_sections(gathered), {}
    drawn = {name: figure for one in sections for name, (figure, _) in one.figures.items()}
    folder = results / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("*.png"):
        if file.stem in gathered.pictures.kept:
            kept[file.stem] = file.read_bytes()
        elif file.stem not in drawn:
            file.unlink()
    for name, figure in drawn.items():
        with atomic(folder / f"{name}.png") as temporary:
            temporary.write_bytes(render_png(figure))
    write_json(results / "metrics.json", readme.summarise_models(gathered))
    write_text(results / "README.md", readme.write_readme(gathered, sections))
    write_text(results / "report.html", page.render(gathered, sections, kept))


def _gather_pictures(params: Params, results: Path, output: Path) -> Pictures:
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
        raise FileNotFoundError(f"{corpus / 'tokenizer.json'} is missing: run step corpus")
    tokenizer = read_tokenizer(corpus / "tokenizer.json")
    documents, aligned = _read_split(corpus, "dev")
    return take_example(
        documents, aligned, lambda token: tokenizer.decode([token]), params.report.example_words
    )
