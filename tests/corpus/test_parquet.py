"""CoNLL-2012 in the hub's parquet form: equal to the rows, and every value that can be wrong."""

from __future__ import annotations

import json
from pathlib import Path, PurePath
from typing import Any

import pytest
from conll_files import conll
from refused import refused

from entity_transformers.corpus import conll2012, parquet
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.files import split_from_path
from entity_transformers.corpus.readers import detect_format, read_corpus


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
            "coref_spans": [
                [m.chain, m.start - s.start, m.end - s.start - 1]
                for m in document.mentions
                if m.start in s
            ],
        }
        for s in document.sentences()
    ]


def write_parquet(
    path: Path, rows: list[dict[str, Any]], names: tuple[list[str], list[str]] | None
) -> Path:
    import pyarrow
    import pyarrow.parquet

    record = pyarrow.struct(
        {
            "part_id": pyarrow.int32(),
            "words": pyarrow.list_(pyarrow.string()),
            "pos_tags": pyarrow.list_(pyarrow.int64()),
            "named_entities": pyarrow.list_(pyarrow.int64()),
            "coref_spans": pyarrow.list_(pyarrow.list_(pyarrow.int32(), 3)),
        }
    )
    schema = pyarrow.schema({"document_id": pyarrow.string(), "sentences": pyarrow.list_(record)})
    if names:
        kinds = [
            {"feature": {"names": part, "_type": "ClassLabel"}, "_type": "Sequence"}
            for part in names
        ]
        features = {
            "sentences": [
                {
                    "pos_tags": kinds[0],
                    "named_entities": kinds[1],
                    "words": {"feature": {"dtype": "string"}},
                }
            ]
        }
        schema = schema.with_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), path)
    return path


@pytest.mark.parametrize("own_names", [True, False])
def test_parquet_form_gives_the_same_documents_as_the_rows(tmp_path: Path, own_names: bool) -> None:
    """With its own label names in another order, or with none and then the order of the data set's
    card.
    """
    files = {
        "train": "bn/abc/00/abc_0001",
        "validation": "pt/nt/40/nt_4001",
        "test": "nw/wsj/02/wsj_0201",
    }
    expected = []
    labels = ["O", *(f"{prefix}-{label}" for label in parquet.ONTONOTES_TYPES for prefix in "BI")]
    assert (
        labels[7],
        labels[36],
        parquet.TAGS_V4[25],
        len(parquet.TAGS_V4),
        len(parquet.TAGS_V12),
    ) == ("B-ORG", "I-LANGUAGE", "NNP", 49, 51)
    names = (parquet.TAGS_V4[::-1], labels[::-1]) if own_names else (parquet.TAGS_V4, labels)
    for split, name in files.items():
        documents = list(
            conll2012.read_rows(
                conll(name, parts=2).splitlines(keepends=True),
                "f",
                split_from_path(PurePath(f"{split}.x")),
            )
        )
        expected += documents
        rows = [
            {"document_id": name, "sentences": [s for d in documents for s in sentences(d, *names)]}
        ]
        write_parquet(
            tmp_path / "english_v4" / f"{split}-00000-of-00001.parquet",
            rows,
            names if own_names else None,
        )
    found = list(read_corpus("ontonotes", tmp_path))
    assert sorted(found, key=lambda d: d.id) == sorted(expected, key=lambda d: d.id)
    assert {d.genre for d in found if d.named_entities is None} == {"pt"}
    assert detect_format(tmp_path)[0] == "ontonotes"


FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("span outside", {"coref_spans": [[1, 0, 2]]},
     (r"sentence 0, coref_spans: '\[1, 0, 2\]', expected \[chain, first, last\] inside the 2"
     r" words")),
    ("label number", {"named_entities": [0, 37]},
     r"sentence 0, named_entities: label '37', expected 0 to 36"),
    ("label order", {"named_entities": [0, 2]},
     (r"word 2, named_entities: label 'I-PERSON' after 'O', expected .*is the order of the"
     r" labels")),
    ("tag number", {"pos_tags": [0, 49]}, r"sentence 0, pos_tags: label '49', expected 0 to 48"),
    ("lengths", {"pos_tags": [0]},
     r"sentence 0: \{'words': 2, 'pos_tags': 1, 'named_entities': 2\} values, expected as many"),
    ("word", {"words": ["a", "b c"]},
     r"word 2: the word is 'b c', expected one without white space"),
    ("no word", {"words": ["a", None]}, r"sentence 0, words: .*expected texts"),
    ("nul", {"words": ["a", "b\0"]}, r"sentence 0, words, character 4: a NUL byte"),
    ("long word", {"words": ["a", "b" * 2_000_000]},
     r"sentence 0, words, character 1000001: a line of more than 1000000 characters"),
    ("span of nothing", {"words": [], "pos_tags": [], "named_entities": [], "coref_spans": [[1, 0,
     0]]}, r"inside the 0 words"),
    ("no words", {"words": [], "pos_tags": [], "named_entities": []}, r"no words"),
    ("part", {"part_id": None}, r"part 'None': expected a document_id and a part_id"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "message"), FAULTS, ids=[row[0] for row in FAULTS])
def test_bad_parquet_values_are_named(
    tmp_path: Path, name: str, change: dict[str, Any], message: str
) -> None:
    sentence = {
        "part_id": 0,
        "words": ["a", "b"],
        "pos_tags": [25, 25],
        "named_entities": [0, 0],
        "coref_spans": [],
    }
    rows = [
        {"document_id": "nw/a", "sentences": [sentence]},
        {"document_id": "nw/b", "sentences": [{**sentence, **change}]},
    ]
    path = write_parquet(tmp_path / "a.parquet", rows, None)
    with refused(message):
        list(read_corpus("ontonotes", path))
    assert [d.name for d in read_corpus("ontonotes", path, bad_documents="skip")] == ["nw/a"]


TYPES: list[tuple[str, Any, str]] = [
    ("words", "ab", "string', expected list of string"),
    ("words", 5, "int64', expected list of string"),
    ("words", {"a": "b", "c": "d"}, "struct<a: string, c: string>', expected list of string"),
    ("words", [1, 2], "list<.*: int64>', expected list of string"),
    ("pos_tags", [True, False], "list<.*: bool>', expected list of int or string"),
    ("named_entities", [0.0, 1.0], "list<.*: double>', expected list of int or string"),
    ("coref_spans", [1, 2, 3], "list<.*: int64>', expected list of list of int"),
    ("coref_spans", 7, "int64', expected list of list of int"),
    ("part_id", True, "bool', expected int"),
]
SENTENCE = {
    "part_id": 0,
    "words": ["a", "b"],
    "pos_tags": [25, 25],
    "named_entities": [0, 0],
    "coref_spans": [[0, 0, 1]],
}


@pytest.mark.parametrize(
    ("field", "value", "message"), TYPES, ids=[f"{row[0]} {row[1]}" for row in TYPES]
)
@pytest.mark.parametrize("policy", ["strict", "skip"])
def test_wrong_types_are_named(
    tmp_path: Path, field: str, value: Any, message: str, policy: Any
) -> None:
    path = write_untyped(
        tmp_path / "a.parquet", [{"document_id": "nw/a", "sentences": [{**SENTENCE, field: value}]}]
    )
    with refused(rf"a.parquet, column sentences, field {field}: '{message} as in"):
        list(read_corpus("ontonotes", path, bad_documents=policy))


@pytest.mark.parametrize("tag", ["N N", "", "N\0"])
def test_a_tag_that_is_a_text_is_checked(tmp_path: Path, tag: str) -> None:
    path = write_untyped(
        tmp_path / "a.parquet",
        [{"document_id": "nw/a", "sentences": [{**SENTENCE, "pos_tags": ["NN", tag]}]}],
    )
    with refused(r"part '0', (word 2: the tag is '(N N)?', expected one without|pos_tags, .*NUL)"):
        list(read_corpus("ontonotes", path))


def test_a_document_or_file_without_sentences_is_bad(tmp_path: Path) -> None:
    path = write_parquet(
        tmp_path / "a.parquet",
        [{"document_id": "nw/a", "sentences": []}, {"document_id": "nw/b", "sentences": None}],
        None,
    )
    with refused(r"document 'nw/a', part '0': no words: leave it out with corpus.exclude"):
        list(read_corpus("ontonotes", path))
    with refused(r"\(0 excluded, 2 bad\)"):
        list(read_corpus("ontonotes", path, bad_documents="skip"))
    with refused(r"a.parquet: no document in this file"):
        list(read_corpus("ontonotes", write_parquet(path, [], None)))


def write_untyped(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Rows under whatever types pyarrow finds for them."""
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def test_another_parquet_file_is_refused(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(
        pyarrow.table({"document_id": ["a"], "sentences": [["text"]]}), tmp_path / "a.parquet"
    )
    with refused(r"column sentences: no field part_id, words"):
        list(read_corpus("ontonotes", tmp_path))
    pyarrow.parquet.write_table(pyarrow.table({"document": ["a"]}), tmp_path / "a.parquet")
    with refused(r"a.parquet: no column document_id, sentences, expected the form of"):
        list(read_corpus("ontonotes", tmp_path))
    (tmp_path / "a.parquet").write_text("<html>")
    with refused(r"a.parquet: not a parquet file of conll2012_raw"):
        list(read_corpus("ontonotes", tmp_path))
