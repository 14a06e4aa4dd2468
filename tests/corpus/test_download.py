"""Where a data set is looked for: a path, an archive, this machine's folder, a server, the hub."""

import gzip
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conll_files import write
from refused import refused

from entity_transformers.corpus import download
from entity_transformers.corpus.download import RETRIES, VARIABLE, datasets, fetch_files, locate
from entity_transformers.corpus.sources import Dataset, DownloadError, RemoteFile

BODY = bytes(range(256)) * 1000
SHA = hashlib.sha256(BODY).hexdigest()
FILES = {"rows/a.txt": b"first\n" * 50, "rows/b.txt": b"second\n" * 50, "LICENCE": b"free\n"}


class Server:
    """Answers with (status, bytes promised, bytes sent), in order; the last for all that follow."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes, bytes]] = [(200, BODY, BODY)]
        self.asked: list[str] = []
        self.url = ""

    def files(self, *names: str) -> list[RemoteFile]:
        return [RemoteFile(self.url + name, name, SHA) for name in names]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    found = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append(self.path)
            status, promised, sent = found.answers[min(len(found.asked), len(found.answers)) - 1]
            self.send_response(status)
            self.send_header("Content-Length", str(len(promised)))
            self.end_headers()
            self.wfile.write(sent)
            self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
    found.url = f"http://127.0.0.1:{running.server_port}/"
    yield found
    running.shutdown()
    running.server_close()


def test_files_are_fetched_once_and_then_from_the_cache(server, tmp_path, capsys):
    files, folder = server.files("a/b.bin", "c.bin"), tmp_path / "deep" / "here"
    for offline in (False, True):
        fetch_files(files, folder, offline=offline)
    assert server.asked == ["/a/b.bin", "/c.bin"]
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == {"a/b.bin", "c.bin"}
    assert (folder / "a" / "b.bin").read_bytes() == BODY
    (folder / "c.bin").write_bytes(b"\0" * len(BODY))
    with pytest.raises(DownloadError, match=r"c.bin: not in the cache, and downloads are off"):
        fetch_files(files, folder, offline=True)
    fetch_files(files, folder)  # a damaged file is fetched again
    assert server.asked[2:] == ["/c.bin"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("answer", "message"), [
    ((404, b"", b""), r"404 Client Error: Not Found"),
    ((200, BODY, BODY[:9]), r"IncompleteRead\(9 bytes read"),
    ((200, BODY[::-1], BODY[::-1]), rf"SHA256 hash .* expected {SHA} but got"),
], ids=["gone", "broken", "other bytes"])  # fmt: skip
def test_a_wrong_answer_is_refused_and_leaves_nothing(server, tmp_path, answer, message):
    server.answers = [answer]
    end = rf".*, after {RETRIES + 1} tries: check the network, or give a local path"
    with pytest.raises(DownloadError, match=message + end) as caught:
        fetch_files(server.files("c.bin"), tmp_path)
    assert str(caught.value).startswith(f"{server.url}c.bin: ")
    assert len(server.asked) == RETRIES + 1
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_hub_becomes_one_line_that_says_what_to_do(tmp_path, monkeypatch):
    def fail(*args: Any, **settings: Any) -> str:
        raise OSError("no space\nleft")

    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    message = r"The corpus of this study, CoNLL-2012 .*\(OSError: 'no space\\nleft'\).*LDC2013T19"
    with pytest.raises(DownloadError, match=message) as caught:
        locate("ontonotes", None, tmp_path)
    assert "\n" not in str(caught.value)


def test_the_hubs_copy_is_listed_with_its_commit_and_can_be_pinned(tmp_path, monkeypatch, caplog):
    with pytest.raises(DownloadError, match=r"is missing: corpus.path is not set"):
        locate("ontonotes", None, tmp_path)  # the real library, offline as the whole suite is
    snapshot = tmp_path / "snapshots" / "0123abc"
    asked: dict[str, Any] = {}
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    hub = "huggingface_hub.snapshot_download"
    monkeypatch.setattr(hub, lambda _, **given: asked.update(given) or str(snapshot))
    with pytest.raises(DownloadError, match=r"no english_v4/\*.parquet in it"):
        locate("ontonotes", None, tmp_path)
    write(snapshot / "english_v4" / "test.parquet", BODY)
    listed = locate("ontonotes", None, tmp_path)
    assert "set corpus.revision to 0123abc to pin it" in caplog.text
    assert locate("ontonotes", None, tmp_path, revision="0123abc") == listed
    assert (asked["revision"], asked["allow_patterns"]) == ("0123abc", ["english_v4/*"])
    assert listed["origin"] == "hub coref-data/conll2012_raw, commit 0123abc"
    assert [file["path"] for file in listed["files"]] == ["english_v4/test.parquet"]


def test_local_files_and_wrong_paths(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", BODY)
    files = [{"path": ".", "bytes": len(BODY), "sha256": SHA}]  # a file is its own root
    assert locate("jsonl", path, tmp_path) == {"root": str(path), "origin": "local", "files": files}
    with refused(r"none: no such file or folder: correct the study.s path, or put it there"):
        locate("jsonl", tmp_path / "none", tmp_path)
    (tmp_path / "empty").mkdir()
    with refused(r"empty: no file matches .*is this the folder of lit"):
        locate("litbank", tmp_path / "empty", tmp_path)
    with refused(r"unknown corpus kind 'conll', expected one of .*jsonl, lam"):
        locate("conll", path, tmp_path)
    with refused(r"jsonl: nothing to download, expected one of .*: give"):
        locate("jsonl", None, tmp_path)


def pin(name: str, folder: str, patterns: tuple[str, ...], files: dict[str, bytes]) -> Dataset:
    found = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    remote = (RemoteFile(f"http://127.0.0.1:9/{name}", name, sha) for name, sha in found.items())
    return Dataset(name, folder, patterns, files=tuple(remote), origin="TOY 1.0, here")


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of data sets: two of one file each in the folder one, and one in the folder toy."""
    found = [
        pin("toy", "toy", ("rows/*.txt", "rows/*.txt.gz"), FILES),
        pin("one", "one", ("a",), {"a": b"alone"}),
        pin("other", "one", ("b",), {"b": b"too"}),
    ]
    monkeypatch.setattr(download, "datasets", lambda: {dataset.name: dataset for dataset in found})
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path


def fill(folder: Path, *, packed: bool = False, **changed: bytes | None) -> Path:
    """The data set's files without its licence, some of them changed or left out."""
    for name, data in FILES.items():
        new = changed.get(Path(name).stem, data)
        if new is not None and name != "LICENCE":
            write(folder / (f"{name}.gz" if packed else name), new)
    return folder


@pytest.mark.parametrize("packed", [False, True])
def test_a_folder_of_data_sets_is_used_before_a_download(toys: Path, packed: bool) -> None:
    fill(toys / "toy", packed=packed)
    listed = locate("toy", None, toys / "cache")
    end = ".gz" if packed else ""
    assert (listed["root"], listed["origin"]) == (str(toys / "toy"), "TOY 1.0, here")
    assert [file["path"] for file in listed["files"]] == [f"rows/a.txt{end}", f"rows/b.txt{end}"]
    mine = fill(toys / "mine", a=b"another version\n")  # a path wins and is read as it is
    listed = locate("toy", mine, toys / "cache")
    assert (listed["root"], listed["origin"]) == (str(mine), "local")


def test_a_data_set_of_one_file_is_that_file(toys: Path) -> None:
    """Two texts may share a folder that holds only one of them: the other is downloaded."""
    path = write(toys / "one" / "a", b"alone")
    assert locate("one", None, toys / "cache")["root"] == str(path)
    with pytest.raises(DownloadError, match="b: not in the cache, and downloads are off"):
        locate("other", None, toys / "cache")


@pytest.mark.parametrize(("changed", "first"), [
    ({"a": b"another version\n"}, "rows/a.txt"), ({"b": None}, "rows/b.txt"),
], ids=["other bytes", "missing"])  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_other_bytes_than_a_download_gives_are_refused(toys, changed, first, packed):
    fill(toys / "toy", packed=packed, **changed)
    wrong = r"toy: 1 of 2 files are missing or differ from the pinned ones of TOY 1.0, here, the"
    with refused(rf"{wrong} first is {first}: repair or remove the folder"):
        locate("toy", None, toys / "cache")


def test_of_a_file_that_lies_there_twice_both_are_checked(toys: Path) -> None:
    fill(toys / "toy")
    for packed in (gzip.compress(b"another version\n"), b"no gzip"):
        (toys / "toy" / "rows" / "a.txt.gz").write_bytes(packed)
        with refused(r"1 of 2 files .*, the first is rows/a.txt"):
            locate("toy", None, toys / "cache")


def test_a_variable_that_names_no_folder_is_an_error(toys, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(toys / "none"))
    with refused(r"ENTITY_TRANSFORMERS_DATA: '.*/none' is not a folder, .*: correct it, or unset"):
        locate("toy", None, toys)


@pytest.mark.parametrize(("kind", "root", "files"), [
    ("ontogum", "gum", 545),
    ("litbank", "litbank", 103),
    ("lambada-original", "lambada/lambada_test_plain_text.txt", 1),
    ("lambada-openai", "lambada/lambada_test.jsonl", 1),
    ("gpt2-bpe", "gpt2-bpe", 2),
])  # fmt: skip
def test_real_data_sets_are_the_pinned_ones(shared_data, tmp_path, monkeypatch, kind, root, files):
    """What lies there packed is compared unpacked: the pinned checksums are of upstream files."""
    monkeypatch.setenv(VARIABLE, str(shared_data))
    listed = locate(kind, None, tmp_path)
    assert (listed["root"], len(listed["files"])) == (str(shared_data / root), files)
    assert listed["origin"] == datasets()[kind].origin
    assert locate(kind, shared_data / root, tmp_path)["files"] == listed["files"]
