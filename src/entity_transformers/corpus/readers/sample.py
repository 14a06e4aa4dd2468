"""The sample corpus, which is part of the package: invented stories with gold annotations in the
official layout of CoNLL-2012, and passages in the style of LAMBADA.
"""

import re
import tarfile
from importlib.resources import as_file, files
from pathlib import PurePosixPath
from typing import Any

from entity_transformers.corpus.files import split_from_path
from entity_transformers.corpus.readers import Reader, ontonotes

PASSAGES = "passages.txt"
SHARES = {"train": 0.8, "dev": 0.1, "test": 0.1}


def read_archive() -> dict[str, str]:
    """Return the text of every file of the archive, by its name."""
    with (
        as_file(files("entity_transformers") / "data" / "sample.tar.xz") as path,
        tarfile.open(path) as archive,
    ):
        read: Any = archive.extractfile  # it returns None only for a folder
        return {one.name: read(one).read().decode() for one in archive}


def read_passages() -> list[str]:
    """Return the 400 passages in lower case; the last word of each is its target."""
    return read_archive()[PASSAGES].splitlines()


def provide(words: int) -> dict[str, str]:
    """Return texts of about ``words`` words by relative file name, 80 % of the words in train: the
    first parts of each split, at least one, up to its share. 60,000 words are the whole corpus.
    """
    left = {split: words * share for split, share in SHARES.items()}
    kept: dict[str, str] = {}
    for name, text in read_archive().items():
        if name == PASSAGES:
            continue
        split = split_from_path(PurePosixPath(name))
        for part in re.findall(r".*?^#end document\n", text, re.DOTALL | re.MULTILINE):
            if left[split] > 0:
                kept[name] = kept.get(name, "") + part
                left[split] -= len(re.findall(r"^[^#\n]", part, re.MULTILINE))
    return kept


READER = Reader(
    name="sample",
    read=ontonotes.read,
    recognise=lambda path: None,  # once written, it is a corpus of format ontonotes
    provide=provide,
)
