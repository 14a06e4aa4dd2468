"""Where a data set is looked for: a path, this machine's folder of data sets, a download; and that
the folder never changes which bytes are read.
"""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import Any

import pytest
from refused import refused

from entity_transformers.corpus import download
from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.download import VARIABLE, data_folder, locate
from entity_transformers.corpus.sources import Dataset, DownloadError, RemoteFile, Source

FILES = {"rows/a.txt": b"first\n" * 50, "rows/b.txt": b"second\n" * 50, "LICENCE": b"free\n"}


def pinned(files: dict[str, bytes]) -> Source:
    return Source(
        "TOY 1.0, here",
        "none",
        tuple(
            RemoteFile(
                f"http://127.0.0.1:9/{name}", name, len(data), hashlib.sha256(data).hexdigest()
            )
            for name, data in files.items()
        ),
    )


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pinned data sets in the folders toy and one, and one without a download."""
    patterns = ("rows/*.txt", "rows/*.txt.gz")
    found = [
        Dataset("toy", folder="toy", patterns=patterns, source=lambda: pinned(FILES)),
        Dataset("one", folder="one", patterns=("a",), source=lambda: pinned({"a": b"alone"})),
        Dataset("other", folder="one", patterns=("b",), source=lambda: pinned({"b": b"too"})),
        Dataset("mine", patterns=("*",)),
    ]
    monkeypatch.setattr(download, "datasets", lambda: {dataset.name: dataset for dataset in found})


def fill(folder: Path, *, packed: bool = False, **changed: bytes | None) -> Path:
    """The data set's files without its licence, some of them changed or left out."""
    for name, data in FILES.items():
        new = changed.get(Path(name).stem, data)
        if new is not None and name != "LICENCE":
            path = folder / (f"{name}.gz" if packed else name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(new) if packed else new)
    return folder


@pytest.mark.parametrize("packed", [False, True])
def test_a_folder_of_data_sets_is_used_before_a_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    fill(tmp_path / "toy", packed=packed)
    listed = locate("toy", None, tmp_path / "cache")
    end = ".gz" if packed else ""
    assert (listed["root"], listed["origin"]) == (str(tmp_path / "toy"), "TOY 1.0, here")
    assert [file["path"] for file in listed["files"]] == [f"rows/a.txt{end}", f"rows/b.txt{end}"]


def test_a_path_wins_and_is_read_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    fill(tmp_path / "toy")
    mine = fill(tmp_path / "mine", a=b"another version\n")
    listed = locate("toy", mine, tmp_path / "cache")
    assert (listed["root"], listed["origin"]) == (str(mine), "local")


def test_a_data_set_of_one_file_is_that_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two texts may share a folder that holds only one of them: the other is downloaded."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a").write_bytes(b"alone")
    assert locate("one", None, tmp_path / "cache")["root"] == str(tmp_path / "one" / "a")
    with pytest.raises(DownloadError, match="b: not in the cache, and downloads are off"):
        locate("other", None, tmp_path / "cache")


@pytest.mark.parametrize("named", [False, True])
def test_without_the_data_set_it_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    if named:
        monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(DownloadError, match=r"cache/toy/rows/a.txt: not in the cache, and downlo"):
        locate("toy", None, tmp_path / "cache")
    with refused(r"mine: nothing to download, expected one of toy, one"):
        locate("mine", None, tmp_path / "cache")


@pytest.mark.parametrize(
    ("changed", "first"),
    [
        ({"a": b"another version\n"}, "rows/a.txt"),
        ({"a": FILES["rows/a.txt"] + b"\n"}, "rows/a.txt"),
        ({"b": None}, "rows/b.txt"),
    ],
    ids=["other bytes", "longer", "missing"],
)
@pytest.mark.parametrize("packed", [False, True])
def test_other_bytes_than_a_download_gives_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changed: dict[str, Any],
    first: str,
    packed: bool,
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    folder = fill(tmp_path / "toy", packed=packed, **changed)
    with pytest.raises(CorpusError) as caught:
        locate("toy", None, tmp_path / "cache")
    assert str(caught.value) == (
        f"{folder}: 1 of 2 files are missing or others than the pinned ones of TOY 1.0, here, the"
        f" first is {first}: mend or remove the folder to have those, or name it by a path in"
        " params.yaml to read it as it is"
    )


def test_of_a_file_that_lies_there_twice_both_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    fill(tmp_path / "toy")
    fill(tmp_path / "toy", packed=True, a=b"another version\n")
    with refused(r"1 of 2 files .*, the first is rows/a.txt"):
        locate("toy", None, tmp_path / "cache")
    (tmp_path / "toy" / "rows" / "a.txt.gz").write_bytes(b"no gzip")
    with refused(r"1 of 2 files .*, the first is rows/a.txt"):
        locate("toy", None, tmp_path / "cache")


def test_local_yaml_names_the_folder_and_the_variable_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, local_file: Path
) -> None:
    assert data_folder() is None
    (local_file.parent / "data").mkdir()
    local_file.write_text("data: data\n")
    assert data_folder() == local_file.parent / "data"
    local_file.write_text(f"data: {tmp_path}\n")
    assert data_folder() == tmp_path
    monkeypatch.setenv(VARIABLE, str(tmp_path.parent))
    assert data_folder() == tmp_path.parent
    monkeypatch.setenv(VARIABLE, "")
    assert data_folder() == tmp_path


WRONG = [
    (
        "data: nowhere\n",
        r"local.yaml, data: '.*nowhere' is no folder, expected one that holds gum/",
    ),
    ("folder: x\n", r"local.yaml: \{'folder': 'x'\}, expected one key, data, with this machine's"),
    ("data: 3\n", r"local.yaml: \{'data': 3\}, expected one key, data"),
    ("data: x\nother: y\n", r"local.yaml: .* expected one key, data"),
    ("", r"local.yaml: None, expected one key, data"),
    ("a: b: c\n", r"local.yaml: not YAML"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_wrong_local_yaml_is_named(local_file: Path, text: str, message: str) -> None:
    local_file.write_text(text)
    with refused(message):
        data_folder()


def test_a_variable_that_names_no_folder_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none"))
    with refused(r"ENTITY_TRANSFORMERS_DATA: '.*/none' is no folder, .*: correct it, or take"):
        locate("toy", None, tmp_path)


KINDS = {
    "ontogum": ("gum", 545),
    "litbank": ("litbank", 103),
    "lambada-original": ("lambada/lambada_test_plain_text.txt", 1),
    "lambada-openai": ("lambada/lambada_test.jsonl", 1),
    "gpt2-bpe": ("gpt2-bpe", 2),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_real_data_sets_are_found_and_are_the_pinned_ones(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """What lies there packed is compared unpacked: the pinned checksums are of upstream files."""
    monkeypatch.undo()  # the data sets as they are
    monkeypatch.setenv(VARIABLE, str(shared_data))
    root, files = KINDS[kind]
    listed = locate(kind, None, tmp_path)
    assert (listed["root"], len(listed["files"])) == (str(shared_data / root), files)
    source = download.find_dataset(kind).source
    assert source
    assert listed["origin"] == source().origin
    assert locate(kind, shared_data / root, tmp_path)["files"] == listed["files"]
