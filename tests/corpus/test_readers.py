"""One door to every format: layouts, detection, policies, and what can't be read."""

import json
import os
from pathlib import Path, PurePath

import pytest
from conll_files import conll, write
from refused import refused

from entity_transformers.corpus.document import LONGEST_WORD
from entity_transformers.corpus.download import locate
from entity_transformers.corpus.files import split_from_path
from entity_transformers.corpus.readers import detect_format, read_corpus

LONG = "x" * (LONGEST_WORD + 1)
HEAD = "# newdoc id = d\n# global.Entity = eid-etype-head-other\n"
OFFICIAL = "data/{split}/data/{language}/annotations/{name}.{kind}"


def write_release(root: Path, language: str = "english") -> Path:
    names = ("bn/abc/00/abc_0001", "nw/wsj/02/wsj_0201", "pt/nt/40/nt_4001")
    for split, name in zip(("train", "development", "test"), names, strict=True):
        path = OFFICIAL.format(split=split, name=name, kind="v4_gold_conll", language=language)
        write(root / path, conll(name))
    return root


def test_official_layout_gives_splits_and_passes_over_the_rest(tmp_path: Path) -> None:
    root = write_release(tmp_path / "conll-2012" / "v4")
    for kind in ("v4_auto_conll", "v4_gold_skel", "v4_gold_parse"):
        path = OFFICIAL.format(split="train", name="bn/x", kind=kind, language="english")
        write(root / path, "rubbish")
    write_release(root, language="chinese")
    corpus = read_corpus("ontonotes", tmp_path)
    expected = [("bn/abc/0", "train", "bn"), ("nw/wsj/0", "dev", "nw"), ("pt/nt/40", "test", "pt")]
    assert sorted((d.name[:8], d.split, d.genre) for d in corpus) == expected
    assert corpus.ledger.as_dict()["counts"] == {
        "files_in_other_languages": 3, "files_of_other_kinds": 1, "files_of_other_versions": 0,
    }  # fmt: skip


def test_version_4_wins_over_version_12(tmp_path: Path) -> None:
    for version in ("v4", "v12"):
        write(tmp_path / version / "data/train/data/english/a.v4_gold_conll", conll("nw/a"))
    write(tmp_path / "v9/data/test/data/english/b.v4_gold_conll", conll("nw/b"))
    corpus = read_corpus("ontonotes", tmp_path)
    assert sorted((d.name, d.split) for d in corpus) == [("nw/a", "train"), ("nw/b", "test")]
    assert corpus.ledger.counts["files_of_other_versions"] == 1


@pytest.mark.parametrize(("path", "split"), [
    ("data/development/data/english/annotations/bc/cctv/00/cctv_0000.v4_gold_conll", "dev"),
    ("conll-2012-test/test.english.v4_gold_conll", "test"), ("dev.english.v4_gold_conll", "dev"),
    ("english_v4/validation-00000-of-00001.parquet", "dev"),
    ("train-00001-of-00002.parquet", "train"), ("test/dev.jsonl", "dev"),
    ("dev_type1_pro_stereotype.v4_auto_conll", "dev"),
    ("my_novel.conll", "train"), ("latest/contest.conll", "train"),
    ("test2.jsonl", "test2"), ("test2/a.jsonl", "test2"), ("val/a 1.jsonl", "dev"),
    ("my test.jsonl", "test"), ("test1 (1).jsonl", "test"), ("testing.jsonl", "test"),
    ("eval.jsonl", "test"), ("a.1/interval.ann", "train"),
])  # fmt: skip
def test_split_is_told_by_the_path(path: str, split: str) -> None:
    assert split_from_path(PurePath(path)) == split


@pytest.mark.parametrize(("format", "file", "message"), [
    ("ontonotes", "x.txt", r"no file matches \*_gold_conll, \*_conll, \*.conll, \*.parquet"),
    ("ontonotes", "a.v4_gold_skel", r"no file matches .*run skeleton2conll first"),
    ("ontonotes", "arabic/a.v4_gold_conll", r"no file matches .*in English"),
    ("ontogum", "x.txt", r"dep: no file matches \*.conllu"),
    ("litbank", "x.txt", r"coref/conll: no file matches \*.conll"),
    ("jsonl", "x.txt", r"no file matches \*.jsonl"),
    ("lambada", "x.txt", r"a folder, expected one file of LAMBADA"),
])  # fmt: skip
@pytest.mark.parametrize("policy", ["strict", "skip"])
def test_no_matching_file_is_an_error_under_every_policy(tmp_path, format, file, message, policy):
    write(tmp_path / file, "x")
    with refused(f"{tmp_path}.*{message}"):
        read_corpus(format, tmp_path, bad_documents=policy)


def test_a_file_whose_name_is_not_utf8_is_refused(tmp_path: Path) -> None:
    """In latin-1, as in old archives; its documents may be named after it."""
    write(tmp_path / os.fsdecode(b"caf\xe9.jsonl"), '{"words": ["b"], "clusters": []}\n')
    with refused(r"/caf\\udce9.jsonl': its name can't be printed: rename the file"):
        list(read_corpus("clusters", tmp_path))
    with refused(r"/caf\\udce9.jsonl': its name is not UTF-8: rename the file"):
        locate("clusters", tmp_path, tmp_path / "cache")


def test_a_corpus_of_which_nothing_is_left_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "a.v4_gold_conll", conll("nw/a"))
    write(tmp_path / "b.v4_gold_conll", "nonsense\n")
    with refused(r"\(1 excluded, 1 bad\): .*b.v4_gold_conll, line 1: 'nonsense\\n' is out"):
        list(read_corpus("ontonotes", tmp_path, exclude=["nw/*"], bad_documents="skip"))


def test_an_exclude_pattern_that_matches_nothing_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.v4_gold_conll", conll("nw/a") + conll("nw/b"))
    with refused(r"corpus.exclude: 'nx/\*' matches no document"):
        list(read_corpus("ontonotes", path, exclude=["nw/a", "nx/*"]))
    corpus = read_corpus("ontonotes", path, exclude=["nw/a", "nx/*"], bad_documents="skip")
    assert [d.name for d in corpus] == ["nw/b"]
    told = corpus.ledger.as_dict()
    assert (told["excluded"], told["unmatched"]) == (["nw/a#0"], ["nx/*"])
    assert len(list(read_corpus("ontonotes", path, exclude=["nw/a", "nw/[a]"]))) == 1


def test_skip_leaves_out_bad_documents_of_any_file_and_names_them(tmp_path: Path) -> None:
    good, bad = conll("nw/good"), conll("nw/bad").replace("(0|(1", "(0|(1|(9")
    write(tmp_path / "a.v4_gold_conll", good + bad)
    write(tmp_path / "b.v4_gold_conll", good)
    (tmp_path / "c.v4_gold_conll.gz").write_bytes(b"\x1f\x8b no gzip")
    corpus = read_corpus("ontonotes", tmp_path, bad_documents="skip")
    assert [d.name for d in corpus] == ["nw/good"]
    reasons = corpus.ledger.bad
    assert set(reasons) == {"nw/bad#0", "nw/good#0", str(tmp_path / "c.v4_gold_conll.gz")}
    assert "line 14, column coreference" in reasons["nw/bad#0"]
    assert f"also in {tmp_path / 'a.v4_gold_conll'}" in reasons["nw/good#0"]
    with refused(r"\(9 opens"):
        list(read_corpus("ontonotes", tmp_path))


@pytest.mark.parametrize(("name", "text", "format"), [
    *((name, conll("nw/a"), "ontonotes")
      for name in ("a.v4_gold_conll", "a.conll.gz", "lambada.txt", "a.data")),
    ("a.jsonl", '{"name": "a", "words": ["b"]}\n', "jsonl"),
    ("a.jsonl", '{"text": "a b"}\n', "lambada"),
    ("a.json", '{"text": "a \\"words\\" b"}\n', "lambada"),
    ("lambada_mine.txt", "a b\n", "lambada"),
    ("Lambada.TXT.gz", "a b\n", "lambada"),
])  # fmt: skip
def test_format_of_a_single_file_is_detected_and_read(tmp_path, name, text, format):
    path = write(tmp_path / name, text)
    found, why = detect_format(path)
    assert found == format
    assert why
    assert len(list(read_corpus(format, path))) == 1
    if path.suffix not in (".data", ".txt") and format != "lambada":
        assert detect_format(tmp_path)[0] == format


def test_running_text_is_not_taken_for_lambada(tmp_path: Path) -> None:
    """A newcomer's novel is not a passage a line; under another name what to do is said."""
    assert detect_format(write(tmp_path / "novel.txt", "Call me Ishmael.\n"))[0] == "text"
    path = write(tmp_path / "novel.md", "Call me Ishmael.\nSome years ago\n")
    with refused(rf"^{path}, line 1: 'Call me Ishmael.\\n', expected a text.*, lambada, "):
        detect_format(path)


def test_two_formats_that_fit_as_well_are_both_named(tmp_path: Path) -> None:
    write(tmp_path / "a.conll", conll("nw/a"))
    write(tmp_path / "b.jsonl", '{"name": "a", "words": ["b"]}\n')
    with refused(r"may be jsonl \(it holds b.jsonl\) or ontonotes \(it holds a.conll\): name"):
        detect_format(tmp_path)


def test_a_release_is_found_also_inside_the_only_folder(tmp_path: Path, shared_data: Path) -> None:
    for format, source, layers in (
        ("ontogum", "gum", ("dep", "coref", "splits.md")),
        ("litbank", "litbank", ("coref", "splits")),
    ):
        assert detect_format(shared_data / source)[0] == format
        folder = tmp_path / format / "release-11"
        folder.mkdir(parents=True)
        for layer in layers:
            (folder / layer).symlink_to(shared_data / source / layer)
        assert detect_format(tmp_path / format)[0] == format
        assert next(iter(read_corpus(format, tmp_path / format)))
    assert detect_format(shared_data / "winobias")[0] == "ontonotes"


def test_format_that_fits_nothing_is_an_error(tmp_path: Path) -> None:
    with refused(", expected a text whose"):
        detect_format(tmp_path)
    with refused(r"a.csv, line 1: 'x,y', expected a text .*, JSON lines with name"):
        detect_format(write(tmp_path / "a.csv", "x,y"))
    with refused("no such file or folder"):
        detect_format(tmp_path / "none")
    with refused("missing: no such file or folder"):
        read_corpus("ontonotes", tmp_path / "missing")


@pytest.mark.parametrize(("format", "name", "text", "message"), [
    ("text", "a.txt", f"Ada met {LONG}.\n", r"a\.txt, word 3: 100,002"),
    ("jsonl", "a.jsonl", json.dumps({"name": "n", "words": ["a", LONG]}),
     r"a\.jsonl, line 1: n#0, word 2: 100,001"),
    ("clusters", "a.jsonl", json.dumps({"tokens": ["a", LONG], "clusters": []}),
     r"a\.jsonl, line 1: a#0, word 2: 100,001"),
    ("ontonotes", "a.v4_gold_conll", conll("nw/a").replace("Byron", LONG),
     r"nw/a#0, word \d: 100,001"),
    ("conllu", "a.conllu", f"{HEAD}1\t{LONG}" + "\t_" * 8 + "\n\n",
     r"a\.conllu.*: d#0, word 1: 100,001"),
], ids=lambda value: str(value)[:30])  # fmt: skip
def test_a_word_without_an_end_is_refused_with_its_place(tmp_path, format, name, text, message):
    """A blob of data: tokenizers and spaCy take minutes for one of ten million characters."""
    with refused(message):
        list(read_corpus(format, write(tmp_path / name, text)))
    good = "a.v4_gold_conll" if format == "ontonotes" else name
    shorter = write(tmp_path / "good" / good, text.replace(LONG, LONG[:-1].replace("x", "y")))
    if format != "text":  # whose full stop is part of it
        [document] = read_corpus(format, shorter)
        assert max(map(len, document.words)) == LONGEST_WORD
