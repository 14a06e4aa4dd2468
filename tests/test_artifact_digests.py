"""What a command writes has its digest beside it, and nothing else is read in its place."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from safetensors import SafetensorError
from tokenizers import Tokenizer, models

from entity_transformers.artifacts import (
    DIGESTS,
    atomic,
    check,
    read_arrays,
    read_json,
    read_json_lines,
    read_text,
    read_tokenizer,
    recorded,
    seal,
    write_arrays,
    write_json,
    write_json_lines,
    write_text,
    write_with,
)
from entity_transformers.corpus.stored import Documents


def write_tokenizer(path: Path) -> None:
    vocabulary = {f"p{i}": i for i in range(40)}
    Tokenizer(models.WordLevel(vocabulary, unk_token="p1")).save(str(path))


def write_numbers(path: Path) -> None:
    write_arrays(path, {"a": np.arange(9), "b": np.ones(3, np.float32)}, {"names": ["x"]})


DAMAGED = r"file: sha256 \w{12}\.\.\., expected \w{12}\.\.\. \(sha256\.json beside it\): .* run the"
Reader = Callable[[Path], Any]
KINDS: dict[str, tuple[Callable[[Path], Any], Reader]] = {
    "arrays": (write_numbers, read_arrays),
    "tokenizer": (write_tokenizer, read_tokenizer),
    "json": (lambda path: write_json(path, {"loss": 5.25}), read_json),
    "lines": (
        lambda path: write_json_lines(path, [{"a": 1}]),
        lambda path: list(read_json_lines(path)),
    ),
    "documents": (
        lambda path: write_json_lines(path, [{"a": 1}]),
        lambda path: list(Documents(path)),
    ),
    "text": (lambda path: write_text(path, "step,loss\n1,5.25\n"), read_text),
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_flipped_bit_and_no_further_byte_is_read(tmp_path: Path, kind: str) -> None:
    write, read = KINDS[kind]
    path = tmp_path / "file"
    write(path)
    seal([path])
    whole, generator = path.read_bytes(), random.Random(1)
    damaged = [whole + b"\n", whole[:-1]]
    for _ in range(300):
        place, bit = generator.randrange(len(whole)), 1 << generator.randrange(8)
        damaged.append(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
    for data in damaged:
        path.write_bytes(data)
        with pytest.raises(
            ValueError,
            match=r"file: sha256 \w{12}\.\.\., expected \w{12}\.\.\. \(sha256\.json.*run",
        ):
            read(path)
    path.write_bytes(whole)
    assert check(path) == path


def test_what_comes_from_elsewhere_is_read_as_it_is(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"loss": 1})
    write_json(tmp_path / "b.json", {"loss": 2})
    seal([tmp_path / "a.json"])
    (tmp_path / "b.json").write_text('{"loss": 3}')
    assert read_json(tmp_path / "b.json") == {"loss": 3}


def test_a_command_reads_what_it_has_just_written(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"loss": 1})
    seal([tmp_path / "a.json"])
    with recorded() as written:
        write_json(tmp_path / "a.json", {"loss": 2})
        assert read_json(tmp_path / "a.json") == {"loss": 2}
    assert written == {tmp_path / "a.json"}
    with pytest.raises(ValueError, match="changed or damaged"):
        read_json(tmp_path / "a.json")
    seal(written)
    assert read_json(tmp_path / "a.json") == {"loss": 2}


def test_commands_that_write_into_one_folder_at_once_lose_no_digest(tmp_path: Path) -> None:
    files = [tmp_path / f"{i}.json" for i in range(40)]
    for file in files:
        write_json(file, {"name": file.name})
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda file: seal([file]), files))
    assert read_json(tmp_path / DIGESTS).keys() == {file.name for file in files}
    files[0].unlink()
    seal(files[1:2])
    assert read_json(tmp_path / DIGESTS).keys() == {file.name for file in files[1:]}


@pytest.mark.parametrize(
    ("text", "message"), [('{"a.json": 1}', "damaged: delete it"), ("{", "line 1: not JSON")]
)
def test_damaged_digests_are_named(tmp_path: Path, text: str, message: str) -> None:
    write_json(tmp_path / "a.json", {})
    (tmp_path / DIGESTS).write_text(text)
    with pytest.raises(ValueError, match=rf"sha256\.json.*{message}"):
        read_json(tmp_path / "a.json")


def test_a_full_disk_is_an_error_that_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """safetensors and tokenizers raise errors of their own, Python one without a name."""

    def full(*_: Any, **__: Any) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.numpy, "save_file", full)
    with pytest.raises(OSError, match=r"train\.safetensors: .*No space left on device"):
        write_arrays(tmp_path / "train.safetensors", {"a": np.arange(3)})

    def refuse(path: Path) -> None:
        raise Exception("No space left on device (os error 28)")

    with pytest.raises(OSError, match=r"tokenizer\.json: .*No space left on device"):
        write_with(tmp_path / "tokenizer.json", refuse)
    with pytest.raises(OSError, match=r"No space left.*m\.csv"), atomic(tmp_path / "m.csv"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert list(tmp_path.iterdir()) == []
