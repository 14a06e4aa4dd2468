"""A format is one module, which is discovered, named, recognised and read."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from refused import refused

from entity_transformers.corpus import readers
from entity_transformers.corpus.download import locate

TOY = """
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.files import split_from_path
from entity_transformers.corpus.files import first_line, open_lines
from entity_transformers.corpus.readers import Evidence, Match, Reader
from entity_transformers.corpus.sources import Dataset


def read(path, ledger):
    for number, line in enumerate(open_lines(path)):
        yield Document("toy", number, split_from_path(path), "", tuple(line.split()), (0,))


def recognise(path):
    if path.is_file() and first_line(path).startswith("toy"):
        return Match(Evidence.CONTENT, "it begins with toy")
    return None


READER = Reader(
    name="toy",
    read=read,
    recognise=recognise,
    splits=("train", "dev", "test"),
    data=(Dataset("toy", patterns=("*.toy",)),),
)
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package folder beside the real one, with the one module that the format costs."""
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "toy.py").write_text(TOY)
    monkeypatch.setattr(readers, "__path__", [*readers.__path__, str(folder)])
    readers.registry.cache_clear()
    yield folder
    sys.modules.pop("entity_transformers.corpus.readers.toy", None)
    readers.registry.cache_clear()


def test_a_format_costs_one_module(toy: Path, tmp_path: Path) -> None:
    assert [path.name for path in toy.iterdir() if path.suffix == ".py"] == ["toy.py"]
    path = tmp_path / "dev.toy"
    path.write_text("toy one\ntwo\n")
    assert "toy" in readers.names()
    assert readers.find_reader("toy").splits == ("train", "dev", "test")
    assert readers.find_reader("toy").needs_path
    assert readers.detect_format(path) == ("toy", "it begins with toy")
    documents = list(readers.read_corpus("toy", path))
    assert [(d.id, d.split, d.words) for d in documents] == [
        ("toy#0", "dev", ("toy", "one")),
        ("toy#1", "dev", ("two",)),
    ]
    assert [file["path"] for file in locate("toy", tmp_path, tmp_path / "cache")["files"]] == [
        "dev.toy"
    ]
    with refused(r"'x', expected one of .*, sample, text, toy"):
        readers.find_reader("x")
    with refused(r"toy: nothing to download, .*: give a local path"):
        locate("toy", None, tmp_path)


def test_a_name_is_given_once(toy: Path) -> None:
    (toy / "another.py").write_text(TOY)
    with pytest.raises(ValueError, match=r"readers.toy: a second reader named 'toy'"):
        readers.registry()
    sys.modules.pop("entity_transformers.corpus.readers.another", None)
