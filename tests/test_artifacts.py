"""Files are whole or not there, equal content gives equal bytes, no NaN reaches a metrics file;
arrays written part by part are the file that is written at once, and memory holds a part.
"""

import json
import os
import shutil
import tracemalloc
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from entity_transformers import artifacts
from entity_transformers.artifacts import read_arrays, read_json, read_tokenizer, write_arrays
from entity_transformers.corpus.alignment import END, WordEncoder, encode_text


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), artifacts.atomic(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_equal_arrays_and_metadata_give_equal_bytes(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.safetensors" for i in range(20)]
    arrays = {"b": np.arange(3), "a": np.ones(2, np.uint8)}
    for path in paths:
        write_arrays(path, arrays, {"split": "dev", "names": ["x"], "tags": ["NN"]})
    assert len({path.read_bytes() for path in paths}) == 1


def test_a_folder_takes_the_old_ones_place(tmp_path: Path) -> None:
    for text in ("one", "two"):
        with artifacts.atomic_folder(tmp_path / "f") as temporary:
            (temporary / "x").write_text(text)
    assert (tmp_path / "f" / "x").read_text() == "two"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_json_is_sorted_plain_and_finite(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    artifacts.write_json(path, {"b": np.float32(1.5), "a": [np.int64(2), None]})
    assert path.read_text() == '{\n  "a": [\n    2,\n    null\n  ],\n  "b": 1.5\n}\n'
    for bad in (float("nan"), float("inf"), np.float64("nan")):
        with pytest.raises(ValueError, match=r"m\.json: Out of range float .*finite numbers only"):
            artifacts.write_json(tmp_path / "m.json", {"x": {"y": [0.0, bad]}})
    assert not (tmp_path / "m.json").exists()


def test_json_that_is_none_is_named(tmp_path: Path) -> None:
    for text, told in {"{\n nope": r"a\.json: not JSON .*line 2", "[1]": "holds a list"}.items():
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(ValueError, match=told):
            read_json(tmp_path / "a.json")


def test_a_file_that_its_record_does_not_fit_is_refused(tmp_path: Path) -> None:
    """But where this command has just written it, and the record is to follow."""
    path = tmp_path / "a.json"
    artifacts.write_json(path, {"a": 1})
    artifacts.write_record(tmp_path, [path.name])
    assert read_json(path) == {"a": 1}
    with artifacts.recorded() as written:
        artifacts.write_json(path, {"a": 2})
        assert (read_json(path), written) == ({"a": 2}, {path})
    with pytest.raises(ValueError, match=r"a\.json: sha256 .* it was changed or damaged after"):
        read_json(path)
    (tmp_path / "run.json").write_text('{"files": 1}')
    with pytest.raises(ValueError, match=r"run\.json: damaged: delete it and run the step"):
        read_json(path)


def test_a_run_is_read_from_any_folder_but_is_no_other_run(tmp_path, monkeypatch):
    (home := tmp_path / "data/s/1").mkdir(parents=True)
    artifacts.write_json(home / "a.json", {"a": 1})
    artifacts.write_record(home, ["a.json"], {"place": "data/s/1"})
    shutil.copytree(home, home.with_name("2"))
    for folder, path in ((tmp_path, "data/s"), (tmp_path / "data", "s"), (home, "..")):
        monkeypatch.chdir(folder)
        assert read_json(Path(path, "1/a.json")) == {"a": 1}
        with pytest.raises(ValueError, match="it belongs to the files of data/s/1: move them"):
            read_json(Path(path, "2/a.json"))


def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "device.json").symlink_to("/dev/zero")
    (tmp_path / "folder.json").mkdir()
    for path in tmp_path.glob("*.json"):
        for read in (read_json, read_arrays, read_tokenizer):
            with pytest.raises(ValueError, match=rf"{path.name}: not a regular file"):
                read(path)


def test_json_lines_come_back(tmp_path: Path) -> None:
    rows = [{"a": "ä\u2028"}, {"a": 2}]
    assert artifacts.write_json_lines(tmp_path / "a.jsonl", rows) == 2
    assert list(artifacts.read_json_lines(tmp_path / "a.jsonl")) == rows
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write("{half")
    with pytest.raises(ValueError, match=r"line 3: not JSON"):
        list(artifacts.read_json_lines(tmp_path / "a.jsonl"))


@pytest.mark.parametrize("dtype", "f8 f4 f2 i8 i4 i2 i1 u2 u1 ?".split())
def test_arrays_are_safetensors_and_come_back_mapped(tmp_path: Path, dtype: str) -> None:
    arrays = {"x": np.arange(6).reshape(2, 3).astype(dtype), "empty": np.zeros((0, 4), dtype)}
    write_arrays(tmp_path / "a.safetensors", arrays, {"names": ["a", "ö"]})
    mapped, metadata = read_arrays(tmp_path / "a.safetensors")
    for loaded in (mapped, load_file(tmp_path / "a.safetensors")):
        for name, array in arrays.items():
            np.testing.assert_array_equal(loaded[name], array, strict=True)
    assert isinstance(mapped["x"].base, np.memmap | np.ndarray)
    assert not mapped["x"].flags.writeable
    assert metadata == {"names": ["a", "ö"]}


@pytest.mark.parametrize("text", ["=1+1", "-LRB-", "'@A1", "\t=1", "a\u2028b", "a\r\nb", '"', "-1"])
def test_csv_reads_back_and_has_no_formula(tmp_path: Path, text: str) -> None:
    """Names of documents and tags are the corpus's own."""
    rows = [{"unit": text, "value": -0.5}, {"unit": 1, "value": None}]
    artifacts.write_csv(tmp_path / "a.csv", rows, ("unit", "value"))
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]
    first, second = artifacts.read_csv(tmp_path / "a.csv")
    assert (first, second["value"]) == ({"unit": text, "value": "-0.5"}, "")
    head, cell, *_, last = (tmp_path / "a.csv").read_text().splitlines()
    assert (head, last) == ("unit,value", "1,")
    assert cell[0] not in ("=+@\t\r\n" if text == "-1" else "=+-@\t\r\n")


@pytest.mark.parametrize("keep", [0, 5, 40, 130, -1])
def test_damaged_arrays_are_named(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "train.safetensors"
    write_arrays(path, {"x": np.arange(8), "y": np.arange(8)}, {"names": ["a"]})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"train\.safetensors: empty, truncated or not a"):
        read_arrays(path)


@pytest.mark.parametrize("text", ["", '{"version"', "[]", "nope"])
def test_a_damaged_tokenizer_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(ValueError, match=r"tokenizer\.json: not a tokenizer .*: run step corpus"):
        read_tokenizer(tmp_path / "tokenizer.json")
    with pytest.raises(FileNotFoundError):
        read_tokenizer(tmp_path / "none.json")


_BYTES = {
    "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False
}  # fmt: skip


def _replace(part: str, patterns: list[Any], content: str) -> dict[str, Any]:
    steps = [{"type": "Replace", "pattern": one, "content": content} for one in patterns]
    return {part: {"type": "Sequence", f"{part}s": steps}}


def save_tokenizer(folder: Path, change: Any) -> Path:
    """A tokenizer of two tokens, with these of its parts."""
    values = json.loads(Tokenizer(models.BPE({"a": 0, END: 1}, [])).to_str())
    (folder / "tokenizer.json").write_text(json.dumps(values | change))
    return folder / "tokenizer.json"


@pytest.mark.parametrize(("change", "message"), [
    (_replace("normalizer", [{"String": "a"}] * 25, "aa"), r"up to 3\.36e\+07 times"),
    (_replace("decoder", [{"Regex": "a?"}], "b" * 99), "up to 100 times"),
    ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [_BYTES] * 7}}, "up to 128"),
    ({"normalizer": {"type": "Prepend", "prepend": "x" * 64}}, "up to 65 times"),
], ids=["doubles", "long", "bytes", "prefix"])  # fmt: skip
def test_a_tokenizer_that_makes_a_text_many_times_longer_is_refused(change, message, tmp_path):
    """Before it has read any: with 25 doublings a word of 1,000 letters takes 30 GB."""
    told = rf"tokenizer\.json: .*{message}.* longer, expected at most"
    with pytest.raises(ValueError, match=told):
        read_tokenizer(save_tokenizer(tmp_path, change))
    most = _replace("normalizer", [{"String": "ab"}] * 6, "abab")
    assert read_tokenizer(save_tokenizer(tmp_path, most)).get_vocab_size() == 2


def test_an_error_of_tokenizers_is_a_line(tmp_path: Path) -> None:
    """Of class Exception itself, or none: a panic of its Rust, of one that was given, not read."""
    with pytest.raises(ValueError, match=r"text: can't be encoded .*unknown token"):
        WordEncoder(Tokenizer(models.Unigram([("a", 0.0)]))).encode(["b"])
    found = read_tokenizer(save_tokenizer(tmp_path, {}))
    found.pre_tokenizer = pre_tokenizers.Split(Regex("(a+)+$"), "isolated")
    with pytest.raises(ValueError, match=r"text: can't be encoded .*retry-limit"):
        encode_text(found, ["a" * 40 + "!"])
    assert encode_text(found, ["a"])[0].tolist() == [1, 0]


@pytest.mark.parametrize("pattern", [
    "(a|a|ab?)*c", "(a+)+$", "a*a*c", r"\s*\s*\s*z", "(.*)*c", "(abc|abc|abcd?)*e", r"^(\d+)+$",
    "(é|é)+!", r"(a*)*\1z",
])  # fmt: skip
@pytest.mark.parametrize("part", ["normalizer", "decoder"])
def test_a_pattern_that_may_never_end_is_refused(pattern: str, part: str, tmp_path: Path) -> None:
    """Exponential ones, and those whose time grows with the cube of a text's length."""
    path = save_tokenizer(tmp_path, _replace(part, [{"String": "a"}, {"Regex": pattern}], ""))
    with pytest.raises(ValueError, match=r"tokenizer\.json: its pattern .* backtracks") as told:
        read_tokenizer(path)
    assert repr(pattern) in str(told.value)


@pytest.mark.parametrize("pattern", [
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t)?",
    r" ?[^(\s|[.,!?…。，、।۔،])]+",
    r"\d{1,3}(?=(?:\d{3})*\b)",
], ids=["Llama 3", "GPT-4o", "BLOOM", "digits from the right"])  # fmt: skip
def test_patterns_of_known_tokenizers_are_read(pattern: str, tmp_path: Path) -> None:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}
    path = save_tokenizer(tmp_path, {"pre_tokenizer": split | {"invert": False}})
    assert read_tokenizer(path).get_vocab_size() == 2


def test_a_tokenizer_that_asks_for_much_memory_is_refused(tmp_path: Path) -> None:
    parts = {"model": {"type": "WordLevel", "vocab": {"a": 10**7}, "unk_token": "a"}}
    with pytest.raises(ValueError, match=r"tokenizer\.json: .*number 10000000"):
        read_tokenizer(save_tokenizer(tmp_path, parts))


@pytest.mark.parametrize("read", [read_json, read_tokenizer])
def test_a_file_of_more_bytes_is_not_read(read, tmp_path, monkeypatch):
    path = save_tokenizer(tmp_path, {})
    monkeypatch.setattr(artifacts, "LARGEST", path.stat().st_size)
    assert read(path)
    monkeypatch.setattr(artifacts, "LARGEST", path.stat().st_size - 1)
    with pytest.raises(ValueError, match=r"tokenizer\.json: .*more than [\d,]+ bytes"):
        read(path)


def test_memory_does_not_grow_with_the_arrays(tmp_path: Path) -> None:
    def peak(parts: int) -> int:
        tracemalloc.start()
        arrays = ({"tokens": np.full(50_000, number, np.int32)} for number in range(parts))
        artifacts.write_array_parts(tmp_path / "long.safetensors", arrays, {})
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    assert peak(160) < 1.2 * peak(40)
    arrays, _ = read_arrays(tmp_path / "long.safetensors")
    assert np.array_equal(arrays["tokens"], np.repeat(np.arange(40), 50_000))


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_rows_of_every_type_give_the_bytes_of_arrays_written_at_once(tmp_path, rows):
    generator = np.random.default_rng(rows)
    shapes = {"b": (3,), "a": (2, 3), "c": (), "none": (0,)}
    arrays = {}
    for (name, shape), kind in product(shapes.items(), artifacts.TYPES.values()):
        arrays[f"{name}_{kind}"] = generator.integers(0, 99, (rows, *shape)).astype(kind)
    metadata = {"json": '{"who": "é"}'}
    save_file(arrays, tmp_path / "once.safetensors", metadata=metadata)
    pieces = (slice(0, 2), slice(2, 2), slice(2, None))
    rows_of = ({name: array[piece] for name, array in arrays.items()} for piece in pieces)
    artifacts.write_array_parts(tmp_path / "parts.safetensors", rows_of, {"who": "é"})
    once, parts = (tmp_path / f"{name}.safetensors" for name in ("once", "parts"))
    assert parts.read_bytes() == once.read_bytes()


@pytest.mark.parametrize(("first", "then", "message"), [
    (np.zeros((1, 3), np.int32), np.zeros((1, 2), np.int32), r"x: rows int32 \(1, 2\) after"),
    (np.zeros(3, np.int32), np.zeros(3, np.int64), r"x: rows int64 \(3,\) after array.*int32"),
    (np.zeros(3, np.complex64), np.zeros(3, np.complex64), r"x: rows complex64"),
])  # fmt: skip
def test_another_shape_or_type_is_refused_and_leaves_nothing(tmp_path, first, then, message):
    with pytest.raises(ValueError, match=message):
        artifacts.write_array_parts(tmp_path / "a.safetensors", [{"x": first}, {"x": then}], {})
    assert not list(tmp_path.iterdir())
