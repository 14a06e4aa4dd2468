"""Archives that nobody vouches for: what is unpacked, and what is refused."""

from __future__ import annotations

import errno
import io
import random
import re
import shutil
import stat
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from refused import refused

from entity_transformers.corpus.archives import extract, is_archive
from entity_transformers.corpus.document import CorpusError
from entity_transformers.corpus.download import locate
from entity_transformers.corpus.readers import read_corpus

BODY = bytes(range(256)) * 1000
ROWS = b"#begin document (nw/a); part 000\nnw/a 0 0 word NN * - - - - * -\n#end document\n"


def pack(path: Path, members: dict[str, bytes], kind: Any = None) -> Path:
    """A zip archive with a compression that is a number, else a tar archive."""
    if isinstance(kind, int) or (kind is None and path.suffix == ".zip"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if kind is None else kind) as packed:
            for name, data in members.items():
                packed.writestr(name, data)
        return path
    with tarfile.open(path, f"w:{kind or 'gz'}") as tape:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.uid = len(data), 0o4777, 12345
            tape.addfile(info, io.BytesIO(data))
    return path


both = pytest.mark.parametrize("suffix", ["zip", "tar.gz"])


@both
def test_an_archive_is_unpacked_once_and_read(tmp_path: Path, suffix: str) -> None:
    name = "data/test/a.v4_gold_conll"
    archive = pack(tmp_path / f"corpus.{suffix}", {f"conll-1/{name}": ROWS})
    listed = locate("ontonotes", archive, tmp_path / "cache")
    path = Path(listed["root"]) / listed["files"][0]["path"]
    assert re.fullmatch(rf"local archive corpus.{suffix}, sha256 [0-9a-f]{{64}}", listed["origin"])
    read = list(read_corpus("ontonotes", Path(listed["root"])))
    assert [(document.name, document.split) for document in read] == [("nw/a", "test")]
    assert not path.stat().st_mode & (stat.S_ISUID | stat.S_IXUSR)  # nor owners nor rights
    written = path.stat().st_mtime_ns
    assert locate("ontonotes", archive, tmp_path / "cache") == listed
    assert path.stat().st_mtime_ns == written


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("litbank", ["coref/conll/a.conll", "splits/0/dev.ids"]),
        ("gpt2-bpe", ["vocab.bpe"]),
        ("ontogum", ["dep/a.conllu", "splits.md"]),
    ],
)
def test_a_folder_around_the_corpus_is_passed(
    tmp_path: Path, kind: str, names: list[str], packed: bool
) -> None:
    """As in GitHub's archives, which hold one folder named by the commit."""
    path = pack(tmp_path / "a.zip", {f"litbank-3e50db0/{name}": BODY for name in (*names, "x.md")})
    if not packed:
        path = extract(path, tmp_path / "folder")
    listed = locate(kind, path, tmp_path / "cache")
    assert [file["path"] for file in listed["files"]] == names
    assert Path(listed["root"]).name == "litbank-3e50db0"


@both
@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "..\\evil", "C:\\evil"])
def test_members_that_leave_the_folder_are_refused(tmp_path: Path, name: str, suffix: str) -> None:
    archive = pack(tmp_path / f"a.{suffix}", {name: b"x"})
    with refused(rf"{archive.name}: member .* would leave the folder"):
        extract(archive, tmp_path / "out" / "deep")
    assert list(tmp_path.rglob("*")) == [archive]


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, "zip"]
)
@pytest.mark.parametrize("target", ["/etc/passwd", "a"])
def test_links_and_devices_are_refused(tmp_path: Path, kind: Any, target: str) -> None:
    """Also those that stay within the folder."""
    archive = tmp_path / "a"
    if kind == "zip":
        member = zipfile.ZipInfo("good")
        member.external_attr = 0o120777 << 16
        with zipfile.ZipFile(archive, "w") as packed:
            packed.writestr(member, target)
    else:
        info = tarfile.TarInfo("good")
        info.type, info.linkname = kind, target
        with tarfile.open(archive, "w") as tape:
            tape.addfile(info)
    with refused(r"member 'good' is a link or device"):
        extract(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_names_of_a_zip_from_windows_become_folders(tmp_path: Path) -> None:
    extract(pack(tmp_path / "a.zip", {"dep\\a.conllu": b"x"}), tmp_path / "out")
    assert (tmp_path / "out" / "dep" / "a.conllu").read_bytes() == b"x"


@both
def test_an_archive_that_grows_too_large_is_refused(tmp_path: Path, suffix: str) -> None:
    archive = pack(tmp_path / f"a.{suffix}", {"a": b"\0" * 1000, "b": b"\0" * 1000})
    with refused(r"more than 1500 bytes or 500000 files once unpa"):
        extract(archive, tmp_path / "out", most_bytes=1500)
    with refused(r"more than 8000000000 bytes or 1 files once unp"):
        extract(archive, tmp_path / "out", most_files=1)
    assert not (tmp_path / "out" / "b").exists()


@both
def test_a_full_disk_is_not_the_archive_s_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    archive = pack(tmp_path / f"a.{suffix}", {"a": BODY})

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(OSError, match=r"No space left on device: .*out'"):
        extract(archive, tmp_path / "out")


@pytest.mark.parametrize(
    "kind", ["gz", "bz2", "xz", zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_a_damaged_archive_raises_nothing_but_the_projects_error(tmp_path: Path, kind: Any) -> None:
    """200 copies with up to four changed bytes, every fifth one cut as well."""
    archive, choose = tmp_path / "a", random.Random(1)
    whole = pack(archive, {"a": ROWS, "b": choose.randbytes(30_000)}, kind).read_bytes()
    unpacked = 0
    for i in range(200):
        damaged = bytearray(whole)
        for _ in range(choose.randint(1, 4)):
            damaged[choose.randrange(len(damaged))] = choose.randrange(256)
        archive.write_bytes(damaged if i % 5 else damaged[: choose.randrange(len(damaged))])
        try:
            unpacked += is_archive(archive) and extract(archive, tmp_path / "out").is_dir()
        except CorpusError as error:
            assert "fetch it again" in str(error) or "unpack it yourself" in str(error)  # noqa: PT017
    assert unpacked < 50
