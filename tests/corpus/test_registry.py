"""A format is one module, which is discovered, named, recognised and read."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conll_files import write
from refused import refused

from entity_transformers.corpus import readers
from entity_transformers.corpus.download import locate

TOY = """
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.files import first_line, open_lines
from entity_transformers.corpus.readers import Evidence, Match, Reader
def read(path, ledger):
    for number, line in enumerate(open_lines(path)):
        yield Document("toy", number, "dev", "", tuple(line.split()), (0,))
def recognise(path):
    toy = path.is_file() and first_line(path).startswith("toy")
    return Match(Evidence.CONTENT, "it begins with toy") if toy else None
READER = Reader("toy", read, recognise, patterns=("*.toy",))
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package folder beside the real one, with the one module that the format costs."""
    write(tmp_path / "more/toy.py", TOY)
    monkeypatch.setattr(readers, "__path__", [*readers.__path__, str(tmp_path / "more")])
    readers.registry.cache_clear()
    yield tmp_path / "more"
    for name in ("toy", "another"):
        sys.modules.pop(f"entity_transformers.corpus.readers.{name}", None)
    readers.registry.cache_clear()


def test_a_format_costs_one_module_whose_name_is_given_once(toy: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "dev.toy", "toy one\ntwo\n")
    assert "toy" in readers.names()
    assert readers.find_reader("toy").needs_path
    assert readers.detect_format(path) == ("toy", "it begins with toy")
    documents = list(readers.read_corpus("toy", path))
    assert [(d.id, d.words) for d in documents] == [("toy#0", ("toy", "one")), ("toy#1", ("two",))]
    listed = locate("toy", tmp_path, tmp_path / "cache")["files"]
    assert [file["path"] for file in listed] == ["dev.toy"]
    with refused(r"'x', expected one of .*, sample, text, toy"):
        readers.find_reader("x")
    with refused(r"toy: nothing to download, .*: give a local path"):
        locate("toy", None, tmp_path)
    write(toy / "another.py", TOY)
    readers.registry.cache_clear()
    with pytest.raises(ValueError, match=r"readers.toy: a second reader named 'toy'"):
        readers.registry()
