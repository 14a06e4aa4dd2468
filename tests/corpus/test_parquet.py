"""CoNLL-2012 in the hub's parquet form: equal to the rows, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from conll_files import SENTENCE, conll
from refused import refused

from entity_transformers.corpus import conll2012
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.readers import detect_format, read_corpus
from entity_transformers.corpus.readers.ontonotes import LABELS, TAGS


def sentences(document: Document, tags: list[str], labels: list[str]) -> list[dict[str, Any]]:
    """A document in the hub's form, with inclusive spans inside the sentence."""
    assert document.tags is not None
    bio = ["O"] * len(document.words)
    for e in document.named_entities or ():
        bio[e.start : e.end] = [f"B-{e.label}"] + [f"I-{e.label}"] * (e.end - e.start - 1)
    return [
        {
            "part_id": document.part,
            "words": [document.words[i] for i in s],
            "pos_tags": [tags.index(document.tags[i]) for i in s],
            "named_entities": [labels.index(bio[i]) for i in s],
            "coref_spans": [[m.chain, m.start - s.start, m.end - s.start - 1]
                            for m in document.mentions if m.start in s],
        }
        for s in document.sentences()
    ]  # fmt: skip


def write(path: Path, rows: list[dict[str, Any]], names: tuple[list[str], ...] = ()) -> Path:
    """Rows under the types that pyarrow finds for them, with names of numbers where there are."""
    table = pyarrow.Table.from_pylist(rows)
    if names:
        kinds = [{"feature": {"names": part, "_type": "ClassLabel"}} for part in names]
        features = {"sentences": [{"pos_tags": kinds[0], "named_entities": kinds[1]}]}
        metadata = {"huggingface": json.dumps({"info": {"features": features}})}
        table = table.replace_schema_metadata(metadata)
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(table, path)
    return path


@pytest.mark.parametrize("own_names", [True, False])
def test_parquet_form_gives_the_same_documents_as_the_rows(tmp_path: Path, own_names: bool) -> None:
    """With its own label names in another order, or none and then the order of the card."""
    files = {"train": "bn/abc/00/abc_0001", "dev": "pt/nt/40/nt_4001", "test": "nw/wsj/02/wsj_0201"}
    assert (LABELS[7], LABELS[36]) == ("B-ORG", "I-LANGUAGE")
    assert (TAGS[25], len(TAGS)) == ("NNP", 49)
    names = (TAGS[::-1], LABELS[::-1]) if own_names else (TAGS, LABELS)
    expected = []
    for split, name in files.items():
        lines = conll(name, parts=2).splitlines(keepends=True)
        documents = list(conll2012.read_rows(lines, "f", split))
        expected += documents
        row = {"document_id": name}
        row["sentences"] = [s for d in documents for s in sentences(d, *names)]
        file = f"{split.replace('dev', 'validation')}-00000-of-00001.parquet"
        write(tmp_path / "english_v4" / file, [row], names if own_names else ())
    found = list(read_corpus("ontonotes", tmp_path))
    assert sorted(found, key=lambda d: d.id) == sorted(expected, key=lambda d: d.id)
    assert {d.genre for d in found if d.named_entities is None} == {"pt"}
    assert detect_format(tmp_path)[0] == "ontonotes"


@pytest.mark.parametrize(("change", "message"), [
    ({"coref_spans": [[1, 0, 2]]}, r": not in the format .*coref_spans: \[1, 0, 2\] in 2 words"),
    ({"named_entities": [0, 37]}, ": not in the format .*index out of range"),
    ({"named_entities": [0, 2]}, r": not in the format .*I-PERSON after O: is the label order"),
    ({"words": ["a", "b c"]}, ", line 3, column 4: the word is 'b c', expected a string without"),
    ({"words": ["a", None]}, ": not in the format .*expected str instance"),
    ({"words": ["a", "b\0"]}, ", line 3, character 11: a NUL byte"),
    ({key: [] for key in SENTENCE if key != "part_id"}, ", line 1: .*no words"),
    ({"part_id": None}, ", line 1: .*expected #begin document"),
])  # fmt: skip
def test_a_bad_document_is_named_or_left_out(tmp_path, change, message):
    row = {"document_id": "nw/b", "sentences": [{**SENTENCE, **change}]}
    with refused(rf"bad.parquet, document 'nw/b'({message})"):
        list(read_corpus("ontonotes", write(tmp_path / "bad.parquet", [row])))
    write(tmp_path / "good.parquet", [{"document_id": "nw/a", "sentences": [SENTENCE]}])
    assert [d.name for d in read_corpus("ontonotes", tmp_path, bad_documents="skip")] == ["nw/a"]


def test_another_parquet_file_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [{"document_id": "nw/a", "sentences": []}])
    with refused(r"a.parquet, document 'nw/a': no document in this file"):
        list(read_corpus("ontonotes", tmp_path))
    path = write(tmp_path / "a.parquet", [{"document": "a"}])
    for data in (path.read_bytes(), b"<html>"):
        path.write_bytes(data)
        with refused(r"a.parquet: not a parquet file of conll2012_raw"):
            list(read_corpus("ontonotes", tmp_path))
