"""Downloads against a server on the loopback that breaks, resumes, fails and lies; archives that
try to escape; the hub's errors.
"""

from __future__ import annotations

import errno
import hashlib
import http.server
import importlib
import io
import json
import os
import random
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from entity_transformers.corpus import download
from entity_transformers.corpus.archives import extract, is_archive
from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.download import fetch_source, find_dataset, list_files, locate
from entity_transformers.corpus.hub import fetch_conll2012
from entity_transformers.corpus.readers import read_corpus
from entity_transformers.corpus.sources import Dataset, RemoteFile, Source, read_checksums
from entity_transformers.corpus.transfer import DownloadError, fetch

BODY = bytes(range(256)) * 1000
SHA = hashlib.sha256(BODY).hexdigest()
Reply = Callable[[http.server.BaseHTTPRequestHandler], None]


@dataclass
class Script:
    """What the server does at each request, in order; the last entry is for all that follow."""

    answers: list[Reply] = field(default_factory=list)
    ranges: list[str | None] = field(default_factory=list)
    url: str = ""


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that pooch would have waited between tries; nobody waits here."""
    asked: list[float] = []
    monkeypatch.setattr("pooch.core.time.sleep", asked.append)
    return asked


@pytest.fixture
def server() -> Iterator[Script]:
    script = Script()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            script.ranges.append(self.headers.get("Range"))
            script.answers[min(len(script.ranges), len(script.answers)) - 1](self)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(
        target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    ).start()
    script.url = f"http://127.0.0.1:{running.server_port}/file.bin"
    yield script
    running.shutdown()
    running.server_close()


def answer(
    status: int = 200, body: bytes = BODY, sent: int | None = None, **headers: str
) -> Callable[[http.server.BaseHTTPRequestHandler], None]:
    """A reply that promises all of ``body`` and sends the first ``sent`` bytes of it."""

    def reply(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for key, value in {
            "Content-Length": str(len(body)),
            "Content-Type": "application/octet-stream",
            **headers,
        }.items():
            handler.send_header(key.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body[:sent])
        handler.close_connection = True

    return reply


def resume(body: bytes = BODY) -> Reply:
    """A reply with the range that was asked for."""

    def reply(handler: http.server.BaseHTTPRequestHandler) -> None:
        start = int(handler.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        answer(206, body[start:], Content_Range=f"bytes {start}-{len(body) - 1}/{len(body)}")(
            handler
        )

    return reply


def get(server: Script, target: Path, **settings: Any) -> Path:
    return fetch(
        server.url,
        target,
        **{
            "size": len(BODY),
            "sha256": SHA,
            "retries": 3,
            "timeout": 5.0,
            **settings,
        },
    )


def test_fetches_once_and_then_from_the_cache(server: Script, tmp_path: Path) -> None:
    server.answers = [answer()]
    target = tmp_path / "deep" / "file.bin"
    counted: list[int] = []
    assert get(server, target, advance=counted.append).read_bytes() == BODY
    assert get(server, target, offline=True, advance=counted.append) == target
    assert (len(server.ranges), sum(counted)) == (1, 2 * len(BODY))
    assert [path.name for path in target.parent.iterdir()] == ["file.bin"]


def test_a_broken_transfer_is_resumed_where_it_broke(server: Script, tmp_path: Path) -> None:
    server.answers = [answer(sent=100_000), resume()]
    assert get(server, tmp_path / "f").read_bytes() == BODY
    assert server.ranges == [None, "bytes=100000-"]


def test_what_an_earlier_process_fetched_is_completed(server: Script, tmp_path: Path) -> None:
    (tmp_path / "f.part").write_bytes(BODY[:7])
    server.answers = [resume()]
    assert get(server, tmp_path / "f").read_bytes() == BODY
    assert server.ranges == ["bytes=7-"]


def test_a_server_that_ignores_ranges_sends_it_all_again(server: Script, tmp_path: Path) -> None:
    server.answers = [answer(sent=100_000), answer()]
    assert get(server, tmp_path / "f").read_bytes() == BODY


def test_a_part_that_belongs_to_another_file_is_fetched_again(
    server: Script, tmp_path: Path
) -> None:
    (tmp_path / "f.part").write_bytes(b"old")
    server.answers = [resume(), answer()]
    assert get(server, tmp_path / "f").read_bytes() == BODY
    assert server.ranges == ["bytes=3-", None]


def test_a_range_that_can_not_be_had_starts_over(server: Script, tmp_path: Path) -> None:
    (tmp_path / "f.part").write_bytes(BODY[:9])
    server.answers = [answer(416, b""), answer()]
    assert get(server, tmp_path / "f").read_bytes() == BODY


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_busy_server_is_asked_again(server: Script, tmp_path: Path, status: int) -> None:
    server.answers = [answer(status, b""), answer(status, b""), answer()]
    assert get(server, tmp_path / "f").read_bytes() == BODY
    assert len(server.ranges) == 3


def test_waiting_grows(server: Script, tmp_path: Path, waits: list[float]) -> None:
    server.answers = [answer(500, b"")]
    with pytest.raises(
        DownloadError,
        match=r"the server answered 500 .*after 4 tries: check the network, or give a local path",
    ):
        get(server, tmp_path / "f")
    assert waits == [1, 2, 3]


REFUSED = [
    ("404", answer(404, b""), r"the server answered 404 .*not there any more: give a local path"),
    ("403", answer(403, b""), r"the server answered 403"),
    (
        "checksum",
        answer(body=BODY[::-1]),
        rf"sha256 {hashlib.sha256(BODY[::-1]).hexdigest()}, expected {SHA}: the file was changed",
    ),
    (
        "web page",
        answer(body=b"<!DOCTYPE html><p>log in", Content_Type="text/html"),
        r"a web page \('<!DOC.*log in'\) came instead",
    ),
    (
        "hidden web page",
        answer(body=b"\n <html>" + BODY),
        r"a web page .*came instead of the file: open the address in a browser",
    ),
    (
        "longer",
        answer(body=BODY + b"!"),
        r"more than the 256000 bytes expected: the file was changed",
    ),
]


@pytest.mark.parametrize(("name", "reply", "message"), REFUSED, ids=[row[0] for row in REFUSED])
def test_a_wrong_answer_is_refused_at_once_and_leaves_nothing_to_resume(
    server: Script, tmp_path: Path, name: str, reply: Any, message: str
) -> None:
    server.answers = [reply]
    with pytest.raises(DownloadError, match=message) as caught:
        get(server, tmp_path / "f")
    assert server.url in str(caught.value)
    assert len(server.ranges) == 1
    assert not (tmp_path / "f").exists()
    assert not any(path.stat().st_size for path in tmp_path.iterdir())


def test_a_login_page_instead_of_the_rest_leaves_what_an_earlier_transfer_brought(
    server: Script, tmp_path: Path
) -> None:
    (tmp_path / "f.part").write_bytes(BODY[:100_000])
    server.answers = [
        answer(body=b"<!DOCTYPE html><p>log in", Content_Type="text/html"),
        answer(body=b"<html>" + BODY),
        resume(),
    ]
    for _ in range(2):
        with pytest.raises(DownloadError, match="a web page"):
            get(server, tmp_path / "f")
        assert (tmp_path / "f.part").read_bytes() == BODY[:100_000]
    assert get(server, tmp_path / "f").read_bytes() == BODY
    assert server.ranges == ["bytes=100000-"] * 3


def test_a_transfer_that_always_breaks_gives_up_but_keeps_its_part(
    server: Script, tmp_path: Path
) -> None:
    server.answers = [
        answer(sent=5),
        *[answer(206, BODY[5:], sent=0, Content_Range="bytes 5-255999/256000")] * 9,
    ]
    with pytest.raises(DownloadError, match=r"broke off.*after 4 tries"):
        get(server, tmp_path / "f")
    assert (tmp_path / "f.part").read_bytes() == BODY[:5]


def test_no_server_offline_and_odd_addresses(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"the transfer broke off .*after 1 tries"):
        fetch("http://127.0.0.1:9/f", tmp_path / "f", size=1, sha256=SHA, retries=0)
    with pytest.raises(DownloadError, match=r"f: not in the cache, and downloads are off"):
        fetch("http://127.0.0.1:9/f", tmp_path / "f", size=1, sha256=SHA, offline=True)
    with pytest.raises(DownloadError, match=r"'file:///etc/passwd': expected an http\(s\) address"):
        fetch("file:///etc/passwd", tmp_path / "f", size=1, sha256=SHA)


def test_a_damaged_file_in_the_cache_is_fetched_again(server: Script, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\0" * len(BODY))
    server.answers = [answer()]
    assert get(server, tmp_path / "f").read_bytes() == BODY


def test_a_source_is_fetched_file_by_file(
    server: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers = [answer()]
    files = tuple(RemoteFile(server.url, name, len(BODY), SHA) for name in ("a/b.bin", "c.bin"))
    folder = fetch_source(Source("here", "none", files), tmp_path / "test")
    listed = list_files(folder)
    assert [file["path"] for file in listed["files"]] == ["a/b.bin", "c.bin"]
    assert {file["sha256"] for file in listed["files"]} == {SHA}
    assert capsys.readouterr().err == ""
    assert len(server.ranges) == 2
    (folder / "c.bin").write_bytes(b"damaged")
    fetch_source(Source("here", "none", files), folder)
    assert len(server.ranges) == 3
    fetch_source(Source("here", "none", files), folder, offline=True)


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files whose bytes were hashed, in order."""
    names: list[str] = []

    def count(path: Path) -> str:
        names.append(path.name.removesuffix(".part"))
        return hashlib.sha256(path.read_bytes()).hexdigest()

    for module in ("digests", "corpus.transfer"):
        monkeypatch.setattr(f"entity_transformers.{module}.file_digest", count)
    monkeypatch.setattr("pooch.core.hash_matches", lambda name, known, **more: known is None)
    return names


def one_file(url: str) -> Dataset:
    """A data set of one pinned file."""
    file = RemoteFile(url, "file.bin", len(BODY), SHA)
    source = Source("here", "none", (file,))
    return Dataset(name="one", folder="one", patterns=("*.bin",), source=lambda: source)


def test_a_file_is_hashed_once_in_the_call_that_fetches_it(
    server: Script, tmp_path: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers = [answer()]
    monkeypatch.setattr(download, "find_dataset", lambda kind: one_file(server.url))
    monkeypatch.setattr(download, "data_folder", lambda: None)
    listed = locate("one", None, tmp_path, offline=False)
    assert [row["sha256"] for row in listed["files"]] == [SHA]
    assert hashed == ["file.bin"]


def test_a_file_of_this_machine_is_hashed_once_and_then_known(
    tmp_path: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "find_dataset", lambda kind: one_file("http://none/file.bin"))
    monkeypatch.setattr(download, "data_folder", lambda: tmp_path)
    place = tmp_path / "one" / "file.bin"
    place.parent.mkdir()
    place.write_bytes(BODY)
    first = locate("one", None, tmp_path / "cache")
    assert hashed == ["file.bin"]
    place.write_bytes(BODY[:-1] + b"x")
    with pytest.raises(CorpusError, match="missing or others than the pinned ones"):
        locate("one", None, tmp_path / "cache")
    assert [row["sha256"] for row in first["files"]] == [SHA]


def test_sources_are_pinned_and_their_checksums_are_those_of_the_real_files(
    shared_data: Path,
) -> None:
    import gzip

    kinds = {
        "ontogum": "gum",
        "litbank": "litbank",
        "lambada-original": "lambada",
        "lambada-openai": "lambada",
        "gpt2-bpe": "gpt2-bpe",
    }
    counts = {}
    for kind, folder in kinds.items():
        source = find_dataset(kind).source()
        counts[kind] = len(source.files)
        for file in source.files:
            assert re.match(
                r"https://raw.githubusercontent.com/[\w-]+/[\w-]+/[0-9a-f]{40}/", file.url
            ), file.url
            assert file.url.endswith(file.path.removeprefix("splits/"))
            local = shared_data / folder / file.path
            data = (
                local.read_bytes()
                if local.exists()
                else gzip.decompress(local.with_name(f"{local.name}.gz").read_bytes())
            )
            assert (len(data), hashlib.sha256(data).hexdigest()) == (
                file.bytes,
                file.sha256,
            ), file.path
    assert counts == {
        "ontogum": 528,
        "litbank": 103,
        "lambada-original": 1,
        "lambada-openai": 1,
        "gpt2-bpe": 2,
    }
    assert not any("reddit" in file.path for file in find_dataset("ontogum").source().files)


def test_a_source_without_a_download_says_so(tmp_path: Path) -> None:
    with pytest.raises(
        CorpusError,
        match=r"jsonl: nothing to download, expected one of .*ontogum, .*: give a local path",
    ):
        locate("jsonl", None, tmp_path)


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x"])
def test_a_checksum_list_can_not_leave_its_folder(path: str) -> None:
    with pytest.raises(ValueError, match="leaves its folder"):
        read_checksums(f"{SHA} 3 {path}\n")


LOCAL = [
    ("ontogum", "gum", 281 + 263 + 1),
    ("litbank", "litbank", 100 + 3),
    ("ontonotes", "winobias", 8),
    ("gpt2-bpe", "gpt2-bpe", 2),
]
LOCAL += [("lambada-openai", "lambada", 1), ("lambada-original", "lambada", 1)]


@pytest.mark.parametrize(("kind", "folder", "count"), LOCAL, ids=[row[0] for row in LOCAL])
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


def test_a_local_file_is_its_own_root(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(BODY)
    assert locate("jsonl", path, tmp_path) == {
        "root": str(path),
        "origin": "local",
        "files": [{"path": ".", "bytes": len(BODY), "sha256": SHA}],
    }
    assert path / "." == path


def test_wrong_local_paths_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for kind in ("ontogum", "litbank", "ontonotes", "lambada-original", "gpt2-bpe", "jsonl"):
        with pytest.raises(
            CorpusError,
            match=r"none: no such file or folder: correct the path in params.yaml, or set it to n",
        ):
            locate(kind, tmp_path / "none", tmp_path)
        with pytest.raises(CorpusError, match=r"empty: no file matches"):
            locate(kind, tmp_path / "empty", tmp_path)
    with pytest.raises(
        CorpusError, match=r"kind of corpus is 'conll', expected one of jsonl, lambada-original, "
    ):
        locate("conll", tmp_path / "empty", tmp_path)


ROWS = (
    b"#begin document (nw/a); part 000\n" + b"nw/a 0 0 word NN * - - - - * -\n" + b"#end document\n"
)


def pack_tar(path: Path, members: list[tuple[tarfile.TarInfo, bytes]], kind: Any = "gz") -> Path:
    with tarfile.open(path, f"w:{kind}") as file:
        for info, data in members:
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return path


def pack_zip(
    path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED
) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


def test_an_archive_with_one_top_folder_is_read_from_inside(tmp_path: Path) -> None:
    archive = pack_zip(
        tmp_path / "gum.zip",
        {f"gum-11/{name}": b"x" for name in ("splits.md", "dep/a.conllu", "README")},
    )
    listed = locate("ontogum", archive, tmp_path / "cache")
    assert (Path(listed["root"]).name, [file["path"] for file in listed["files"]]) == (
        "gum-11",
        ["dep/a.conllu", "splits.md"],
    )
    assert locate("ontogum", Path(listed["root"]).parent, tmp_path)["files"] == listed["files"]


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_an_archive_is_unpacked_once_and_read(tmp_path: Path, kind: str) -> None:
    name = "conll/data/test/a.v4_gold_conll"
    archive = tmp_path / f"corpus.{kind}"
    if kind == "zip":
        pack_zip(archive, {"conll/": b"", name: ROWS})
    else:
        pack_tar(archive, [(tarfile.TarInfo(name), ROWS)])
    listed = locate("ontonotes", archive, tmp_path / "cache")
    assert [file["path"] for file in listed["files"]] == [name]
    assert re.fullmatch(rf"local archive corpus.{kind}, sha256 [0-9a-f]{{64}}", listed["origin"])
    assert [(d.name, d.split) for d in read_corpus("ontonotes", Path(listed["root"]))] == [
        ("nw/a", "test")
    ]
    written = (Path(listed["root"]) / name).stat().st_mtime_ns
    assert locate("ontonotes", archive, tmp_path / "cache") == listed
    assert (Path(listed["root"]) / name).stat().st_mtime_ns == written


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("kind", "names"),
    [("litbank", ("coref/conll/a.conll", "splits/0/dev.ids")), ("gpt2-bpe", ("vocab.bpe",))],
)
def test_a_folder_around_the_corpus_is_passed(
    tmp_path: Path, kind: str, names: tuple[str, ...], packed: bool
) -> None:
    """As in GitHub's archives, which hold one folder named by the commit."""
    path = tmp_path / "a.zip"
    pack_zip(path, {f"litbank-3e50db0/{name}": BODY for name in names})
    if not packed:
        path = extract(path, tmp_path / "folder")
    listed = locate(kind, path, tmp_path / "cache")
    assert tuple(file["path"] for file in listed["files"]) == names
    assert Path(listed["root"]).name == "litbank-3e50db0"
    assert locate(kind, path, tmp_path / "cache") == listed


def link(name: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, "/etc/passwd"
    return info


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "..\\evil", "C:\\evil"])
def test_members_that_leave_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    archives = [
        pack_zip(tmp_path / "a.zip", {name: b"x"}),
        pack_tar(tmp_path / "a.tar.gz", [(tarfile.TarInfo(name), b"x")]),
    ]
    for archive in archives:
        with pytest.raises(CorpusError, match=rf"{archive.name}: member .* would leave the folder"):
            extract(archive, tmp_path / "out" / "deep")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.tar.gz", "a.zip"]


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]
)
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    archive = pack_tar(tmp_path / "a.tar.gz", [(link("good", kind), b"")])
    with pytest.raises(CorpusError, match=r"member 'good' is a link or device"):
        extract(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_a_link_that_stays_in_the_folder_is_refused_too(tmp_path: Path, kind: bytes) -> None:
    """By several of them an older tarfile can be led out of the folder."""
    info = link("b", kind)
    info.linkname = "a"
    archive = pack_tar(tmp_path / "a.tar", [(tarfile.TarInfo("a"), b"x"), (info, b"")], "")
    with pytest.raises(CorpusError, match=r"member 'b' is a link or device"):
        extract(archive, tmp_path / "out")


def test_what_a_tar_says_of_owners_and_rights_is_not_taken_over(tmp_path: Path) -> None:
    info = tarfile.TarInfo("a")
    info.mode, info.uid = 0o4777, 12345
    extract(pack_tar(tmp_path / "a.tar", [(info, b"x")], ""), tmp_path / "out")
    found = (tmp_path / "out" / "a").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o755, os.getuid())


def test_names_of_a_zip_from_windows_become_folders(tmp_path: Path) -> None:
    extract(pack_zip(tmp_path / "a.zip", {"dep\\a.conllu": b"x"}), tmp_path / "out")
    assert (tmp_path / "out" / "dep" / "a.conllu").read_bytes() == b"x"


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr(info, "/etc/passwd")
    with pytest.raises(CorpusError, match=r"member 'link' is a link or device"):
        extract(tmp_path / "a.zip", tmp_path / "out")


def test_an_archive_that_grows_too_large_is_refused(tmp_path: Path) -> None:
    members = {"a": b"\0" * 1000, "b": b"\0" * 1000}
    archives = [
        pack_zip(tmp_path / "a.zip", members),
        pack_tar(tmp_path / "a.tgz", [(tarfile.TarInfo(name), members[name]) for name in members]),
    ]
    for archive in archives:
        with pytest.raises(CorpusError, match=r"more than 1500 bytes or 500000 files once unpa"):
            extract(archive, tmp_path / "out", most_bytes=1500)
        with pytest.raises(CorpusError, match=r"more than 8000000000 bytes or 1 files once unp"):
            extract(archive, tmp_path / "out", most_files=1)
        assert not (tmp_path / "out" / "b").exists()


@pytest.mark.parametrize("suffix", ["zip", "tar"])
def test_a_full_disk_is_not_the_archive_s_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    archive = (
        pack_zip(tmp_path / "a.zip", {"a": BODY})
        if suffix == "zip"
        else pack_tar(tmp_path / "a.tar", [(tarfile.TarInfo("a"), BODY)])
    )

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)  # zipfile's too
    with pytest.raises(OSError, match=r"No space left on device: .*out'"):
        extract(archive, tmp_path / "out")


def test_a_cut_archive_is_refused(tmp_path: Path) -> None:
    archive = pack_tar(tmp_path / "a.tar.gz", [(tarfile.TarInfo("a"), BODY)])
    archive.write_bytes(archive.read_bytes()[:-200])
    with pytest.raises(CorpusError, match=r"a.tar.gz: not a whole archive"):
        extract(archive, tmp_path / "out")


@pytest.mark.parametrize(
    "kind", ["gz", "bz2", "xz", zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_a_damaged_archive_raises_nothing_but_the_projects_error(tmp_path: Path, kind: Any) -> None:
    """200 copies with up to four changed bytes, every fifth one cut as well."""
    archive, choose = tmp_path / "a", random.Random(1)
    data = choose.randbytes(30_000)
    if isinstance(kind, int):
        pack_zip(archive, {"a": ROWS, "b": data}, kind)
    else:
        pack_tar(archive, [(tarfile.TarInfo("a"), ROWS), (tarfile.TarInfo("b"), data)], kind)
    whole, unpacked = archive.read_bytes(), 0
    for i in range(200):
        damaged = bytearray(whole)
        for _ in range(choose.randint(1, 4)):
            damaged[choose.randrange(len(damaged))] = choose.randrange(256)
        archive.write_bytes(damaged if i % 5 else damaged[: choose.randrange(len(damaged))])
        unpacked += unpack(archive, tmp_path / "out")
    assert unpacked < 50


def unpack(archive: Path, target: Path) -> bool:
    try:
        return is_archive(archive) and extract(archive, target).is_dir()
    except CorpusError:
        return False


def hub_errors() -> list[tuple[str, Callable[[], Exception], str]]:
    from huggingface_hub import errors

    transport = importlib.import_module(
        next(
            kind.__module__
            for kind in errors.HfHubHTTPError.__mro__
            if kind.__name__ == "HTTPError"
        )
    )

    def of(kind: type[Exception]) -> Exception:
        error = kind.__new__(kind)
        Exception.__init__(error, "a long message\nof the library")
        return error

    return [
        ("gated", lambda: of(errors.GatedRepoError), r"only to those who agreed to its terms"),
        (
            "hidden",
            lambda: of(errors.RepositoryNotFoundError),
            r"hides it from you until you log in",
        ),
        ("revision", lambda: of(errors.RevisionNotFoundError), r"does not have the revision"),
        (
            "not cached",
            lambda: of(errors.LocalEntryNotFoundError),
            r"corpus.path is not set, no copy .* the hub can't be reached",
        ),
        ("offline", lambda: of(errors.OfflineModeIsEnabled), r"HF_HUB_OFFLINE forbids the hub"),
        ("server", lambda: of(errors.HfHubHTTPError), r"the hub answered with an error"),
        ("network", lambda: ConnectionError("x"), r"the hub can't be reached"),
        (
            "disk",
            lambda: OSError("no space\nleft"),
            r"the hub can't be used, or the transfer broke off \(OSError: 'no space\\nleft'\)",
        ),
        ("value", lambda: ValueError("x"), r"the hub can't be used, .* \(ValueError: 'x'\)"),
        (
            "transport",
            lambda: RuntimeError("x"),
            r"the hub can't be used, or the transfer broke off \(RuntimeError: 'x'\)",
        ),
        ("httpx", lambda: of(transport.ReadTimeout), r"or the transfer broke off \(ReadTimeout: "),
    ]


@pytest.mark.parametrize(
    ("name", "make", "message"), hub_errors(), ids=[row[0] for row in hub_errors()]
)
def test_every_error_of_the_hub_becomes_one_line_that_says_what_to_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    make: Callable[[], Exception],
    message: str,
) -> None:
    def fail(*args: Any, **settings: Any) -> str:
        raise make()

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    with pytest.raises(DownloadError, match=message) as caught:
        fetch_conll2012(tmp_path)
    text = str(caught.value)
    assert "\n" not in text
    wanted = [
        "CoNLL-2012",
        "LDC2013T19",
        "corpus.path",
        "coref-data/conll2012_raw",
        "--directory studies/ontogum",
        "--directory studies/sample",
    ]
    assert [part for part in wanted if part not in text] == []


def test_a_hub_that_closes_in_the_middle_of_a_file_is_one_line(
    server: Script, tmp_path: Path, root: Path
) -> None:
    """The real library and its own transport, in a process that is not offline."""
    sha, name = "a" * 40, "english_v4/test.parquet"
    info = {
        "_id": "1",
        "id": "coref-data/conll2012_raw",
        "sha": sha,
        "siblings": [{"rfilename": name}],
        "tags": [],
    }
    tree = [{"type": "file", "path": name, "size": len(BODY), "oid": "b" * 40}]

    def reply(handler: http.server.BaseHTTPRequestHandler) -> None:
        if "/api/" in handler.path:
            body = json.dumps(tree if "/tree/" in handler.path else info).encode()
            return answer(body=body, Content_Type="application/json")(handler)
        return answer(
            sent=0 if handler.command == "HEAD" else 1000, ETag='"abc"', X_Repo_Commit=sha
        )(handler)

    server.answers = [reply]
    arguments = [
        "download-corpus",
        "--params",
        str(root / "params.yaml"),
        "--cache",
        str(tmp_path),
        "--output",
        str(tmp_path / "list"),
    ]
    script = (
        "import time; time.sleep = lambda seconds: None; from entity_transformers.cli import main;"
        f" main({arguments})"
    )
    settings = {
        "HF_ENDPOINT": server.url.removesuffix("/file.bin"),
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_XET": "1",
        "NO_PROXY": "127.0.0.1",
    }
    process = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 2
    assert "Traceback" not in process.stderr
    assert re.search(
        r"^entity-transformers download-corpus: .*broke off \(\w+: '.*LDC2013T19.*$",
        process.stderr,
        re.MULTILINE,
    )


@pytest.mark.parametrize("value", ["1", "on", "yes", "True", "TRUE"])
def test_the_hubs_switch_forbids_every_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setattr("urllib.request.urlopen", None)
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    with pytest.raises(DownloadError, match="not in the cache, and downloads are off"):
        locate("gpt2-bpe", None, tmp_path)


def test_without_the_corpus_the_first_step_stops_with_that_message(tmp_path: Path) -> None:
    """The real library, offline as the whole suite is (conftest.py)."""
    with pytest.raises(
        DownloadError,
        match=(
            r"^The corpus of this study, CoNLL-2012 \(OntoNotes 5.0\), is missing: corpus.path is"
            r" not set"
        ),
    ):
        locate("ontonotes", None, tmp_path)


def test_the_hubs_copy_is_listed_with_its_commit_and_can_be_pinned_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    snapshot = tmp_path / "snapshots" / "0123abc"
    asked: dict[str, Any] = {}

    def give(repository: str, **settings: Any) -> str:
        asked.update(settings, repository=repository)
        return str(snapshot)

    monkeypatch.setattr("huggingface_hub.snapshot_download", give)
    snapshot.mkdir(parents=True)
    with pytest.raises(DownloadError, match=r"has no english_v4/\*.parquet any more"):
        locate("ontonotes", None, tmp_path, offline=False)
    (snapshot / "english_v4").mkdir()
    (snapshot / "english_v4" / "test-00000-of-00001.parquet").write_bytes(BODY)
    caplog.clear()
    listed = locate("ontonotes", None, tmp_path, offline=False)
    assert "set corpus.revision to 0123abc to read these bytes again" in caplog.text
    caplog.clear()
    assert locate("ontonotes", None, tmp_path, revision="0123abc", offline=False) == listed
    assert (asked["revision"], caplog.text) == ("0123abc", "")
    assert listed["origin"] == "hub coref-data/conll2012_raw, commit 0123abc"
    assert listed["files"] == [
        {"path": "english_v4/test-00000-of-00001.parquet", "bytes": len(BODY), "sha256": SHA}
    ]
    assert (asked["repository"], asked["repo_type"], asked["allow_patterns"]) == (
        "coref-data/conll2012_raw",
        "dataset",
        ["english_v4/*"],
    )
