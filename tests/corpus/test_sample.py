"""The sample corpus that the package holds."""

import hashlib
from collections import Counter
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

from conll_files import write

from entity_transformers.artifacts import RECORD, read_record
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.readers import read_corpus
from entity_transformers.corpus.readers.sample import provide, read_passages
from entity_transformers.step import Run, execute
from entity_transformers.study.params import STEPS, load

SHA256 = "8dcaca9835d8763b5530a91cc94364395db2441d7fd208ec13ab0c6e78faf9be"


def read(folder: Path, words: int) -> list[Document]:
    for name, text in provide(words).items():
        write(folder / name, text)
    return list(read_corpus("sample", folder))


def test_the_archive_is_the_one_that_the_studies_read(tmp_path: Path) -> None:
    archive = files("entity_transformers") / "data" / "sample.tar.xz"
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256
    documents = read(tmp_path, 60_000)
    assert Counter(one.split for one in documents) == {"train": 108, "dev": 16, "test": 12}
    assert sum(len(document.words) for document in documents) == 60_033
    assert len({document.id for document in documents}) == len(documents)
    assert len(set(read_passages())) == 400


def test_the_step_counts_what_was_approved(root, tmp_path, monkeypatch):
    """Counts of what the reader finds and of its tokens: integers, the same on every machine. A
    file of a run that was stopped is not taken for one of this run's.
    """
    monkeypatch.chdir(tmp_path)
    run = Run(load(root / "studies" / "sample.yaml"), STEPS["corpus"])
    run.folder.mkdir(parents=True)
    (run.folder / "dev.old.safetensors").touch()
    execute(run)
    approved = root / "tests" / "golden" / "corpus.csv"
    assert (run.folder / "rows.csv").read_text() == approved.read_text()
    found = {path.name for path in run.folder.iterdir()}
    assert found == {*read_record(run.folder)["files"], RECORD}


def test_fewer_words_are_some_documents_of_each_split(tmp_path: Path) -> None:
    whole = {document.id: document for document in read(tmp_path / "whole", 60_000)}
    sizes = []
    for words in (1, 6_000, 12_000):
        some = read(tmp_path / str(words), words)
        assert {document.split for document in some} == {"train", "dev", "test"}
        assert some == [whole[document.id] for document in some]
        sizes.append(sum(len(document.words) for document in some))
        assert words <= sizes[-1] < words + 3 * 950  # a part has at most 950 words
    assert all(a < b for a, b in pairwise(sizes))
