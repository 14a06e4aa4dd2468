"""Downloads of pinned files from a server on the loopback, and from the hub; what is listed."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import errors
from refused import refused

from entity_transformers.corpus.download import RETRIES, fetch_source, find_dataset, locate
from entity_transformers.corpus.sources import DownloadError, RemoteFile, Source, read_checksums

BODY = bytes(range(256)) * 1000
SHA = hashlib.sha256(BODY).hexdigest()


class Server:
    """Answers with (status, bytes promised, bytes sent), in order; the last for all that follow."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes, bytes]] = [(200, BODY, BODY)]
        self.asked: list[str] = []

    def source(self, *names: str) -> Source:
        files = (RemoteFile(self.url + name, name, len(BODY), SHA) for name in names)
        return Source("here", "none", tuple(files))

    url = ""


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


def test_a_source_is_fetched_once_and_then_from_the_cache(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, folder = server.source("a/b.bin", "c.bin"), tmp_path / "deep" / "here"
    for offline in (False, True):
        assert fetch_source(source, folder, offline=offline) == folder
    assert server.asked == ["/a/b.bin", "/c.bin"]
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == {"a/b.bin", "c.bin"}
    assert (folder / "a" / "b.bin").read_bytes() == BODY
    (folder / "c.bin").write_bytes(b"\0" * len(BODY))
    with pytest.raises(DownloadError, match=r"c.bin: not in the cache, and downloads are off"):
        fetch_source(source, folder, offline=True)
    fetch_source(source, folder)  # a damaged file is fetched again
    assert server.asked[2:] == ["/c.bin"]
    assert capsys.readouterr().err == ""


def test_a_busy_server_and_a_broken_transfer_are_tried_again(
    server: Server, tmp_path: Path
) -> None:
    server.answers = [(503, b"", b""), (200, BODY, BODY[:9]), (200, BODY, BODY)]
    folder = fetch_source(server.source("c.bin"), tmp_path)
    assert (folder / "c.bin").read_bytes() == BODY
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((404, b"", b""), r"404 Client Error: Not Found"),
        ((200, BODY, BODY[:9]), r"IncompleteRead\(9 bytes read"),
        ((200, BODY[::-1], BODY[::-1]), rf"SHA256 hash .* expected {SHA} but got"),
        ((200, BODY + b"!", BODY + b"!"), r"256001 bytes instead of 256000"),
        ((200, b"<html>log in", b"<html>log in"), r"12 bytes .* '<html>log in' \(a login"),
    ],
    ids=["gone", "broken", "other bytes", "longer", "web page"],
)
def test_a_wrong_answer_is_refused_and_leaves_nothing(
    server: Server, tmp_path: Path, answer: tuple[int, bytes, bytes], message: str
) -> None:
    server.answers = [answer]
    end = rf".*, after {RETRIES + 1} tries: check the network, or give a local path"
    with pytest.raises(DownloadError, match=message + end) as caught:
        fetch_source(server.source("c.bin"), tmp_path)
    assert str(caught.value).startswith(f"{server.url}c.bin: ")
    assert len(server.asked) == RETRIES + 1
    assert list(tmp_path.iterdir()) == []


def test_no_server(server: Server, tmp_path: Path) -> None:
    file = RemoteFile("http://127.0.0.1:9/f", "f", 1, SHA)
    with pytest.raises(DownloadError, match=r"127.0.0.1:9/f: .*Connection refused.* after 4 tries"):
        fetch_source(Source("here", "none", (file,)), tmp_path)


def test_a_proxy_of_the_environment_is_asked(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.setenv("http_proxy", server.url)
    file = RemoteFile("http://nowhere.invalid/f", "f", len(BODY), SHA)
    fetch_source(Source("here", "none", (file,)), tmp_path)
    assert server.asked == ["http://nowhere.invalid/f"]


@pytest.mark.parametrize("value", ["1", "on", "yes", "True", "TRUE"])
def test_the_hubs_switch_forbids_every_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    with pytest.raises(DownloadError, match="not in the cache, and downloads are off"):
        locate("gpt2-bpe", None, tmp_path)


PINNED = {"ontogum": ("gum", 528), "litbank": ("litbank", 103), "gpt2-bpe": ("gpt2-bpe", 2),
          "lambada-original": ("lambada", 1), "lambada-openai": ("lambada", 1)}  # fmt: skip


@pytest.mark.parametrize("kind", PINNED)
def test_checksums_are_those_of_the_real_files(shared_data: Path, kind: str) -> None:
    folder, count = PINNED[kind]
    source = find_dataset(kind).source
    assert source
    assert len(source().files) == count
    for file in source().files:
        assert re.match(r"https://raw.githubusercontent.com/[\w-]+/[\w-]+/[0-9a-f]{40}/", file.url)
        assert file.url.endswith(file.path.removeprefix("splits/"))
        assert "reddit" not in file.path
        local = shared_data / folder / file.path
        packed = local.with_name(f"{local.name}.gz")
        data = local.read_bytes() if local.exists() else gzip.decompress(packed.read_bytes())
        assert (len(data), hashlib.sha256(data).hexdigest()) == (file.bytes, file.sha256), file.path


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x"])
def test_a_checksum_list_can_not_leave_its_folder(path: str) -> None:
    with pytest.raises(ValueError, match="leaves its folder"):
        read_checksums(f"{SHA} 3 {path}\n")


def of_the_hub(kind: type[Exception]) -> Exception:
    error = kind.__new__(kind)
    Exception.__init__(error, "a long message\nof the library")
    return error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (of_the_hub(errors.GatedRepoError), r"only to those who agreed to its terms"),
        (of_the_hub(errors.RepositoryNotFoundError), r"hides it from you until you log in"),
        (of_the_hub(errors.RevisionNotFoundError), r"does not have the revision"),
        (of_the_hub(errors.LocalEntryNotFoundError), r"no copy .* the hub can't be reached"),
        (of_the_hub(errors.OfflineModeIsEnabled), r"HF_HUB_OFFLINE forbids the hub"),
        (OSError("no space\nleft"), r"transfer broke off \(OSError: 'no space\\nleft'\)"),
        (RuntimeError("x"), r"the hub can't be used, .* \(RuntimeError: 'x'\)"),
    ],
)
def test_every_error_of_the_hub_becomes_one_line_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    def fail(*args: Any, **settings: Any) -> str:
        raise error

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    with pytest.raises(DownloadError, match=message) as caught:
        locate("ontonotes", None, tmp_path, offline=False)
    assert re.match(r"The corpus of this study, CoNLL-2012 .*LDC2013T19", str(caught.value))
    assert "\n" not in str(caught.value)


def test_the_hubs_copy_is_listed_with_its_commit_and_can_be_pinned_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(DownloadError, match=r"is missing: corpus.path is not set"):
        locate("ontonotes", None, tmp_path)  # the real library, offline as the whole suite is
    snapshot = tmp_path / "snapshots" / "0123abc"
    asked: dict[str, Any] = {}
    monkeypatch.setattr(
        "huggingface_hub.snapshot_download",
        lambda repository, **settings: asked.update(settings) or str(snapshot),
    )
    with pytest.raises(DownloadError, match=r"has no english_v4/\*.parquet any more"):
        locate("ontonotes", None, tmp_path, offline=False)
    (snapshot / "english_v4").mkdir(parents=True)
    (snapshot / "english_v4" / "test.parquet").write_bytes(BODY)
    listed = locate("ontonotes", None, tmp_path, offline=False)
    assert "set corpus.revision to 0123abc to read these bytes again" in caplog.text
    assert locate("ontonotes", None, tmp_path, revision="0123abc", offline=False) == listed
    assert (asked["revision"], asked["allow_patterns"]) == ("0123abc", ["english_v4/*"])
    assert listed["origin"] == "hub coref-data/conll2012_raw, commit 0123abc"
    assert [file["path"] for file in listed["files"]] == ["english_v4/test.parquet"]


LOCAL = [("ontogum", "gum", 545), ("litbank", "litbank", 103), ("ontonotes", "winobias", 8),
         ("gpt2-bpe", "gpt2-bpe", 2), ("lambada-openai", "lambada", 1)]  # fmt: skip


@pytest.mark.parametrize(("kind", "folder", "count"), LOCAL)
def test_a_local_folder_is_listed_with_checksums(
    shared_data: Path, tmp_path: Path, kind: str, folder: str, count: int
) -> None:
    root = shared_data / folder
    listed = locate(kind, root, tmp_path)
    assert (listed["root"], listed["origin"], len(listed["files"])) == (str(root), "local", count)
    published = dict(line.split()[::-1] for line in (root / "SHA256SUMS").read_text().splitlines())
    for file in listed["files"]:
        assert file["sha256"] == published[file["path"]]
        assert file["bytes"] == (root / file["path"]).stat().st_size


def test_local_files_and_wrong_paths(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(BODY)
    files = [{"path": ".", "bytes": len(BODY), "sha256": SHA}]  # a file is its own root
    assert locate("jsonl", path, tmp_path) == {"root": str(path), "origin": "local", "files": files}
    with refused(r"none: no such file or folder: correct the path in par"):
        locate("jsonl", tmp_path / "none", tmp_path)
    (tmp_path / "empty").mkdir()
    with refused(r"empty: no file matches .*is this the folder of lit"):
        locate("litbank", tmp_path / "empty", tmp_path)
    with refused(r"kind of corpus is 'conll', expected one of jsonl, lam"):
        locate("conll", path, tmp_path)
    with refused(r"jsonl: nothing to download, expected one of .*: give"):
        locate("jsonl", None, tmp_path)
