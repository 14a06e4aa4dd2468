"""Files that nobody vouches for: lines, one of which at most is in memory, and archives."""

import io
import os
import random
import stat
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from conll_files import conll, split_lines, write
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

from entity_transformers.corpus import files
from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.download import locate
from entity_transformers.corpus.files import LONGEST_LINE, extract, is_archive, open_lines, unpacked
from entity_transformers.corpus.readers import detect_format, read_corpus

both = pytest.mark.parametrize("suffix", ["zip", "tar.gz"])


@settings(max_examples=100)
@given(st.text("ab\n\r\u2028\u00e9", max_size=30), st.integers(1, 6), st.booleans())
def test_lines_are_whole_or_cut_after_the_longest(tmp_path, text, longest, packed):
    path = write(tmp_path / ("a.gz" if packed else "a"), text)
    whole = split_lines(text)
    assert list(open_lines(path)) == whole
    assert list(open_lines(path, longest)) == [line[: longest + 1] for line in whole]


@pytest.mark.parametrize("name", ["a.conll", "a.conll.gz"])
def test_a_line_without_an_end_is_not_held_in_memory(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, b"a" * 20_000_000 + b"\nb\n")
    tracemalloc.start()
    try:
        assert [len(line) for line in open_lines(path)] == [LONGEST_LINE + 1, 2]
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.conllu"])
def test_a_pipe_is_not_read(tmp_path: Path, name: str) -> None:
    """It may never end, and readers read twice."""
    os.mkfifo(tmp_path / name)
    with refused(rf"{name}: a pipe or a device, expected a file"):
        detect_format(tmp_path / name)


def pack(path: Path, *members: tuple[str, bytes], kind: str = "gz") -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as packed:
            for name, data in members:
                packed.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
        return path
    with tarfile.open(path, f"w:{kind}") as tape:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.uid = len(data), 0o4777, 12345
            tape.addfile(info, io.BytesIO(data))
    return path


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """An entry that is no file of its own."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(("suffix", "slash"), [("zip", "/"), ("zip", "\\"), ("tar.gz", "/")])
def test_an_archive_is_unpacked_once_and_read(tmp_path: Path, suffix: str, slash: str) -> None:
    """As in GitHub's archives, which hold one folder named by the commit."""
    members = [("conll-1/data/test/a.v4_gold_conll", conll("nw/a").encode())]
    members += [("conll-1/data/", b"")] * (suffix == "zip")
    named = [(name.replace("/", slash), data) for name, data in members]
    archive = pack(tmp_path / f"corpus.{suffix}", *named)
    listed = locate("ontonotes", archive, tmp_path / "cache")
    path = Path(listed["root"]) / "conll-1/data/test/a.v4_gold_conll"
    assert listed["origin"].startswith(f"local archive corpus.{suffix}, sha256 ")
    read = list(read_corpus("ontonotes", Path(listed["root"])))
    assert [(document.name, document.split) for document in read] == [("nw/a", "test")]
    assert not path.stat().st_mode & stat.S_ISUID
    written = path.stat().st_mtime_ns
    assert locate("ontonotes", archive, tmp_path / "cache") == listed
    assert path.stat().st_mtime_ns == written


@both
@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil"])
def test_no_member_leaves_the_folder(tmp_path: Path, name: str, suffix: str) -> None:
    archive = pack(tmp_path / f"a.{suffix}", (name, b"x"))
    out = tmp_path / "out" / "deep"
    try:
        extract(archive, out)
    except CorpusError as error:
        assert "can't be unpacked" in str(error)  # noqa: PT017
    outside = {path for path in tmp_path.rglob("*") if out not in path.parents}
    assert outside <= {archive, out, out.parent}


@pytest.mark.parametrize("target", ["/etc/passwd", "good", "nowhere"])
@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
def test_links_out_of_the_folder_and_devices_are_refused(tmp_path, kind, target):
    """And hard links to what is not there."""
    with tarfile.open(tmp_path / "a", "w") as tape:
        tape.addfile(special("good", kind, "/etc/passwd" if kind == tarfile.SYMTYPE else target))
    with refused("can't be unpacked"):
        extract(tmp_path / "a", tmp_path / "out")


def test_links_are_copies_and_count(tmp_path, monkeypatch):
    """Of files in the archive; a link to a folder is refused."""
    archive = pack(tmp_path / "a.tar", ("data/a.txt", b"x" * 6_000), kind="")
    with tarfile.open(archive, "a") as tape:
        tape.addfile(special("b.txt", tarfile.LNKTYPE, "data/a.txt"))
        tape.addfile(special("data/c.txt", tarfile.SYMTYPE, "a.txt"))
    extract(archive, tmp_path / "out")
    for name in ("data/a.txt", "b.txt", "data/c.txt"):
        assert (tmp_path / "out" / name).read_bytes() == b"x" * 6_000
        assert not (tmp_path / "out" / name).is_symlink()
    monkeypatch.setattr(files, "UNPACKED", 15_000)
    monkeypatch.setattr(files, "MOST_PACKED", 1)
    with refused("more than 1 times its size"):
        extract(archive, tmp_path / "again")
    with tarfile.open(tmp_path / "b.tar", "w") as tape:
        tape.addfile(special("data", tarfile.DIRTYPE))
        tape.addfile(special("d", tarfile.SYMTYPE, "data"))
    with refused("'d' is neither a file nor a link to one"):
        extract(tmp_path / "b.tar", tmp_path / "third")


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zip"])
def test_a_damaged_archive_raises_nothing_but_the_projects_error(tmp_path: Path, kind: str) -> None:
    """100 copies with up to four changed bytes, every fifth one cut as well."""
    archive, choose = tmp_path / ("a.zip" if kind == "zip" else "a"), random.Random(1)
    members = ("a", b"rows\n" * 99), ("b", choose.randbytes(30_000))
    whole = pack(archive, *members, kind=kind).read_bytes()
    unpacked = 0
    for i in range(100):
        damaged = bytearray(whole)
        for _ in range(choose.randint(1, 4)):
            damaged[choose.randrange(len(damaged))] = choose.randrange(256)
        archive.write_bytes(damaged if i % 5 else damaged[: choose.randrange(len(damaged))])
        try:
            if is_archive(archive):
                extract(archive, tmp_path / "out")
                unpacked += 1
        except CorpusError as error:
            assert "fetch it again" in str(error)  # noqa: PT017
    assert unpacked < 50


@both
@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(("fault", "members", "message"), [
    ("twice", [("a/b.txt", 1), ("./a/b.txt", 1)], "'./a/b.txt' occurs twice"),
    ("in one place", [("b.txt", 1), ("/b.txt", 1)], "'/b.txt' occurs twice"),
    ("nameless", [("", 1)], "a nameless entry"),
    ("large", [("a", 6_000), ("b", 6_000)], "more than 2 times its size"),
    ("many", [(f"{n}", 0) for n in range(20)], "more than 2 times its size"),
])  # fmt: skip
def test_odd_members_are_refused(tmp_path, suffix, fault, members, message, monkeypatch):
    """Which no packer writes."""
    monkeypatch.setattr(files, "UNPACKED", 10_000)
    monkeypatch.setattr(files, "MOST_PACKED", 2)
    archive = pack(tmp_path / f"a.{suffix}", *((name, b" " * size) for name, size in members))
    with refused(rf"a\.{suffix}: can't be unpacked .*{message}"):
        extract(archive, tmp_path / "out")


@pytest.mark.parametrize("kind", ["gz", "zip"])
def test_a_packed_file_of_blank_lines_ends(tmp_path, kind, monkeypatch):
    """Of 5 GB, 5 MB packed, all lines were read for minutes."""
    monkeypatch.setattr(files, "UNPACKED", 2_000_000)
    path, text = tmp_path / f"a.conll.{kind}", b"\n" * files.UNPACKED
    pack(path, ("a", text + b"\n")) if kind == "zip" else write(path, text + b"\n")
    with (
        refused(rf"\.{kind}: unpacks to more than 100 times its size"),
        unpacked(path, "a" if kind == "zip" else "") as file,
    ):
        while file.read(1 << 20):
            pass
    if kind == "gz":
        with unpacked(write(path, text)) as file:
            assert file.read() == text
        write(path, conll("nw/a") + "\n" * (files.UNPACKED // 50))  # and of fewer it is a corpus
        assert [document.name for document in read_corpus("ontonotes", path)] == ["nw/a"]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = pack(tmp_path / "a.zip", ("a", b"1\n"), ("b", b"1\n"), ("b", b"2\n"))
    assert list(open_lines(path, member="a")) == ["1\n"]
    for member, message in (("b", "'b' occurs twice"), ("c", "can't read c in it")):
        with refused(message):
            list(open_lines(path, member=member))
