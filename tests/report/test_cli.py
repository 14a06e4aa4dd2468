"""The report's commands: from a study's files to the page, and again from what is committed."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entity_transformers.artifacts import write_arrays
from entity_transformers.cli import report
from entity_transformers.report.clouds import CLOUDS
from entity_transformers.report.frame import FrameError
from entity_transformers.study.params import Params, load

STUDIES = ("ontogum", "controls")


@pytest.fixture
def committed(root: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """What git has of a study, somewhere else."""
    source, target = root / "studies" / request.param, tmp_path / "studies" / request.param
    shutil.copytree(source / "results", target / "results")
    shutil.copy(source / "params.yaml", target)
    base = tmp_path / "studies/books"  # that ontogum starts from
    base.mkdir()
    shutil.copy(root / "studies/books/params.yaml", base)
    return target


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("committed", STUDIES, indirect=True)
def test_the_committed_tables_are_made_again_byte_for_byte(committed: Path) -> None:
    results = committed / "results"
    for file in (*results.rglob("*.safetensors"), *results.rglob("*.jsonl")):
        file.unlink()  # a study that was run here has more than git
    tables = results / "report/tables"
    before = files(tables)
    (tables / "planted.csv").write_text("of an earlier version")
    report.build_report(load(committed / "params.yaml"), results, results / "report")
    made = {name: text for name, text in before.items() if not name.endswith(".txt")}
    assert made.items() <= files(tables).items()
    assert not (tables / "planted.csv").exists()


NOT_RUN = "Not part of this study: What the memory can carry (step recall)."


@pytest.mark.parametrize(
    ("committed", "left_out"),
    [("ontogum", ()), ("controls", (NOT_RUN,))],
    indirect=["committed"],
)
def test_a_page_is_made_of_what_is_committed(committed: Path, left_out: tuple[str, ...]) -> None:
    params, results = load(committed / "params.yaml"), committed / "results"
    params = params.model_copy(
        update={"report": params.report.model_copy(update={"bootstrap_samples": 50})}
    )
    figures = results / "report/figures"
    kept = {name: (figures / f"{name}.png").read_bytes() for name in CLOUDS}
    (figures / "planted.png").write_text("of an earlier version")
    report.build_report(params, results, results / "report")
    assert {name: (figures / f"{name}.png").read_bytes() for name in CLOUDS} == kept
    assert not (figures / "planted.png").exists()
    page = (results / "report/report.html").read_text(encoding="utf-8")
    assert page.count("<figure") == 9
    assert page.count('<img src="data:image/png;base64,') == 9
    assert [text for text in (NOT_RUN,) if text in page] == list(left_out)


def test_a_study_without_results_is_told_how_it_is_run(root: Path, tmp_path: Path) -> None:
    params, results = load(root / "studies/transfer/params.yaml"), tmp_path / "transfer/results"
    told = "transfer has no results yet: run `make study STUDY=transfer` first"
    with pytest.raises(ValueError, match=told):
        report.collect_measures(params, results, results / "report", partial=True)
    assert not results.exists()


@pytest.mark.parametrize("committed", ["controls"], indirect=True)
def test_a_clone_cannot_overwrite_its_measures(committed: Path) -> None:
    params, results = load(committed / "params.yaml"), committed / "results"
    before = (results / "report/measures.csv").read_bytes()
    with pytest.raises(FileNotFoundError, match="of a fresh clone only the report can be built"):
        report.collect_measures(params, results, results / "report")
    assert (results / "report/measures.csv").read_bytes() == before


def test_without_measures_the_file_is_named(root: Path, tmp_path: Path) -> None:
    params = load(root / "studies/controls/params.yaml")
    with pytest.raises(ValueError, match=r"measures\.csv is not there: collect-measures"):
        report.build_report(params, tmp_path, tmp_path)
    (tmp_path / "report").mkdir()
    (tmp_path / "report/measures.csv").write_text("a,b\n")
    with pytest.raises(ValueError, match=r"pictures\.json is not there: collect-measures"):
        report.build_report(params, tmp_path, tmp_path)
    (tmp_path / "report/pictures.json").write_text("{}")
    with pytest.raises(FrameError, match=r"measures\.csv: the columns are a,b"):
        report.build_report(params, tmp_path, tmp_path)


def prepare(small: Any, root: Path, results: Path) -> Params:
    """A study's folder: the fixture's numbers, a generated corpus and vectors of its mentions."""
    from entity_transformers.cli import corpus

    params = load(root / "studies/controls/params.yaml")
    models = {name: params.models[name] for name in ("gpt2", "gpt2e")}
    sizes = {"sample_words": 6000}
    params = params.model_copy(
        update={
            "models": models,
            "study": params.study.model_copy(update={"seeds": (1,)}),
            "corpus": params.corpus.model_copy(update=sizes),
            "tokenizer": params.tokenizer.model_copy(update={"vocabulary": 400}),
            "report": params.report.model_copy(update={"bootstrap_samples": 50}),
        }
    )
    folder = results / "corpus"
    corpus.download_corpus(params, results.parent / "cache", folder / "source.json")
    corpus.prepare_corpus(params, folder / "source.json", folder)
    corpus.train_tokenizer(params, folder, results.parent / "cache", folder / "tokenizer.json")
    corpus.align_corpus(params, folder, folder / "tokenizer.json", folder)
    for path, content in small.files.items():
        if not path.startswith("corpus/"):
            (results / path).parent.mkdir(parents=True, exist_ok=True)
            (results / path).write_text(json.dumps(content))
    generator = np.random.default_rng(0)
    entities = np.repeat(np.arange(6), 8)
    for model in models:
        vectors = generator.standard_normal((len(entities), 8)).astype(np.float32)
        write_arrays(
            results / "embeddings" / model / "1" / "mentions.safetensors",
            {"context_on": vectors, "entity": entities},
            {},
        )
    return params


def test_from_the_steps_files_to_the_page(small: Any, root: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    params = prepare(small, root, results)
    made = results / "report"
    report.collect_measures(params, results, made)
    first = files(made)
    report.collect_measures(params, results, made)
    assert files(made) == first
    shutil.rmtree(results / "embeddings")
    shutil.rmtree(results / "corpus")
    report.build_report(params, results, made)
    assert {f"{name}.png" for name in CLOUDS} <= set(files(made / "figures"))
    assert (made / "tables/table1.csv").read_text().startswith(",1,2,3")
    text = (made / "report.html").read_text()
    drawn = len(re.findall(r"<figure", text))
    assert drawn == len([name for name in files(made / "figures") if name.endswith(".png")])
    names = json.loads((made / "pictures.json").read_text())["clouds"]["embeddings_both"]["names"]
    assert len(names) == 6
    assert all(names)
