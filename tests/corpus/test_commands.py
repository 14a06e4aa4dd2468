"""The corpus steps: what they hash, what they refuse, and that their files come back as written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from refused import refused
from written import write_documents as make_documents

from entity_transformers import digests
from entity_transformers.artifacts import read_json, write_json, write_json_lines
from entity_transformers.corpus.document import to_row
from entity_transformers.corpus.prepare import list_corpus, write_documents
from entity_transformers.corpus.readers import read_corpus
from entity_transformers.corpus.stored import Documents
from entity_transformers.study.params import load


def make_params(root: Path, **corpus: Any) -> Any:
    overrides = {f"corpus.{name}": value for name, value in corpus.items()}
    return load(root / "studies" / "sample.yaml", overrides)


def list_files(params: Any, cache: Path, source: Path) -> None:
    write_json(source, list_corpus(params.corpus, cache))


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files whose bytes are hashed; one of any age is remembered."""
    paths: list[str] = []
    digest = digests.file_digest
    monkeypatch.setattr(
        digests, "file_digest", lambda path: paths.append(str(path)) or digest(path)
    )
    monkeypatch.setattr(digests, "_FRESH", 0)
    return paths


def test_each_file_is_hashed_once_in_all_calls(
    tmp_path: Path, root: Path, hashed: list[str]
) -> None:
    params, cache, source = make_params(root), tmp_path / "cache", tmp_path / "source.json"
    list_files(params, cache, source)
    files = read_json(source)["files"]
    assert len(hashed) == len(set(hashed)) == len(files) > 20
    list_files(params, cache, source)  # the sample is written anew, so it is hashed anew
    hashed.clear()
    write_documents(params, source, cache, tmp_path / "results")
    assert hashed == []


@pytest.mark.parametrize("gone", [False, True])
def test_a_file_that_has_gone_or_changed_since_it_was_listed_is_named(
    tmp_path: Path, root: Path, gone: bool
) -> None:
    path, source = tmp_path / "a.jsonl", tmp_path / "source.json"
    write_json_lines(
        path, [{"name": s, "split": s, "words": ["a"]} for s in ("train", "dev", "test")]
    )
    params = make_params(root, format="jsonl", path=str(path))
    list_files(params, tmp_path / "cache", source)
    if gone:
        path.unlink()
    else:
        path.write_text(path.read_text().replace("a", "b", 1))
    with refused(r"a.jsonl: gone or changed since .*source.json was written: delete"):
        write_documents(params, source, tmp_path / "cache", tmp_path / "results")


def test_the_pipelines_own_files_come_back_as_the_reader_gave_them(
    tmp_path: Path, shared_data: Path
) -> None:
    corpora = [
        ("ontogum", shared_data / "gum", ["GUM_reddit_*"]),
        ("litbank", shared_data / "litbank", []),
        ("ontonotes", shared_data / "winobias", []),
    ]
    for format, path, exclude in corpora:
        documents = list(read_corpus(format, path, exclude=exclude, bad_documents="skip"))
        write_json_lines(tmp_path / "train.jsonl", map(to_row, documents))
        assert list(Documents(tmp_path / "train.jsonl")) == documents
        assert list(read_corpus("jsonl", tmp_path / "train.jsonl")) == documents


@pytest.mark.parametrize(
    "line", ['{"name": "a", "words": ["b"', '{"name": "a"}', "[]", "3", '{"name": "a", "tags": 3}']
)
def test_a_damaged_file_of_the_pipeline_is_named(tmp_path: Path, line: str) -> None:
    row = {"name": "a", "part": 0, "split": "train", "genre": "", "words": ["b"]}
    row |= {"sentence_starts": [0], "mentions": [], "tags": None, "space_after": None}
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps(row | {"named_entities": None}) + "\n" + line + "\n")
    with refused(r"train.jsonl, line 2: no document as step corpus writes them .*: run"):
        list(Documents(path))
    with refused(r"train.jsonl, line 2: no document"):
        list(Documents(path)[1:])


def test_documents_are_read_one_by_one_and_out_of_order(tmp_path: Path) -> None:
    whole = [replace(d, name=f"{d.name} \u2028é") for d in make_documents(4, 30, 5)]
    write_json_lines(tmp_path / "train.jsonl", map(to_row, whole))
    documents = Documents(tmp_path / "train.jsonl")
    assert list(documents) == whole
    assert [documents[i] for i in (3, 0, -1, -1, 2)] == [whole[i] for i in (3, 0, 3, 3, 2)]
    some = documents[1:3]
    assert (list(some), len(some), some[1], some[-2]) == (whole[1:3], 2, whole[2], whole[1])
    assert list(documents[1:][1:]) == whole[2:]
    assert not documents[:0]
    assert len(documents) == 4
    with pytest.raises(IndexError):
        documents[4]
