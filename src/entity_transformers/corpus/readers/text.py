"""Running text: plain UTF-8 files, one book each, without chains. A document is one chapter.

A document's words are split as by spaCy; joined with the spaces of ``space_after``, which are the
book's own, they are its text. Line breaks become spaces: ``sentence_starts`` are the first words of
paragraphs (and of lines of verse), where the book has a break.

A book belongs to the split that its name or a folder's contains (`choose_splits`).
"""

import logging
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from entity_transformers.corpus.books import count_lost, read_book
from entity_transformers.corpus.document import (
    CorpusError,
    Document,
    Split,
    check_words,
    make_document,
)
from entity_transformers.corpus.files import (
    check_text,
    extract,
    find_split,
    is_archive,
    is_html,
    shown,
    unpacked,
)
from entity_transformers.corpus.held_out import draw_splits
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.readers import Evidence, Match, Reader
from entity_transformers.corpus.sources import RAW, pinned
from entity_transformers.corpus.splitting import split_text

log = logging.getLogger(__name__)
LARGEST = 200_000_000
"""Most bytes of a file; a book of a million words has 6 million."""
MOST_LOST = 0.1
"""Share of a file's words that may be left out without a warning."""
_ENDING = re.compile(r"\.txt(\.gz)?\Z", re.IGNORECASE)


def read(path: Path, ledger: Ledger) -> Iterator[Document]:
    """Yield the chapters of a file, or of a folder's or archive's files in order of their names."""
    if path.is_file() and is_archive(path):
        with tempfile.TemporaryDirectory() as folder:
            extract(path, Path(folder))
            if not find_texts(Path(folder)):
                raise CorpusError(
                    f"{path}: an archive without a *.txt file, such as a Word file or an e-book:"
                    " save it as text in UTF-8"
                )
            yield from _read_files(Path(folder), ledger)
    else:
        yield from _read_files(path, ledger)


def _read_files(root: Path, ledger: Ledger) -> Iterator[Document]:
    files = [root] if root.is_file() else find_texts(root)
    if not files:
        raise CorpusError(
            f"{root}: no file matches *.txt or *.txt.gz: give a text, or a folder or archive of"
            " texts (corpus.path)"
        )
    if root.is_dir():
        others = sum(path.is_file() for path in root.rglob("*")) - len(files)
        ledger.counts["files_that_are_no_text"] += others
    names = name_books(files, root)
    splits = choose_splits({name: path.relative_to(root) for path, name in names.items()})
    for file, name in names.items():
        if ledger.admits_file(file, name) and ledger.admits(name):
            documents = _read_book(file, name, splits[name], ledger)
            yield from ledger.accept(documents, str(file))


def find_texts(root: Path) -> list[Path]:
    """Return a folder's texts, sorted by path; in a LitBank folder only the novels."""
    if (root / "coref").is_dir() or (root / "original").is_dir():
        root = root / "original"
    return sorted(path for path in root.rglob("*") if _is_text(path) and path.is_file())


def _is_text(path: Path) -> bool:
    return bool(_ENDING.search(path.name)) and not path.name.startswith((".", "__MACOSX"))


def name_books(files: Sequence[Path], root: Path) -> dict[Path, str]:
    """Return each file's name without the ending, with its folders where two names are equal."""
    stems = {path: _stem(path.name) for path in files}
    often = Counter(stems.values())
    return {
        path: stem if often[stem] == 1 else _stem(path.relative_to(root).as_posix())
        for path, stem in stems.items()
    }


def _stem(name: str) -> str:
    return _ENDING.sub("", name) or name


def choose_splits(books: Mapping[str, Path]) -> dict[str, Split]:
    """Choose each book's split by its file's name, then by its folders; if no book's is named, by a
    digest of its name, where fewer than three books are all train.

    The word train in the title of a novel is no split: a name that has other words counts only if
    most books have such names, of at least two splits.
    """
    named: dict[str, Split | None] = dict.fromkeys(books)
    files = {name: [_stem(path.name)] for name, path in books.items()}
    folders = {name: path.parent.parts[::-1] for name, path in books.items()}
    for names in (files, folders):
        found = [split for one in names.values() if (split := find_split(one))]
        whole = len({*found}) < 2 or 2 * len(found) <= len(books)
        named = {name: named[name] or find_split(one, whole) for name, one in names.items()}
    if any(named.values()):
        return {name: split or "train" for name, split in named.items()}
    return draw_splits(books, ("dev", "test") if len(books) >= 3 else ())


def _read_book(file: Path, name: str, split: Split, ledger: Ledger) -> Iterator[Document]:
    text = read_text(file)
    check_words(words := text.split(), str(file))
    chapters = read_book(text)
    if not chapters:
        raise CorpusError(f"{file}: no text in this file, expected a book: remove it")
    lost = count_lost(text, chapters)
    if lost > MOST_LOST * len(words):
        ledger.counts["books_of_which_much_is_left_out"] += 1
        log.warning(
            "%s: %d of its %d words are left out as captions, notes on the edition or text after an"
            " END line of Project Gutenberg: delete that line if they belong to the book",
            file, lost, len(words),
        )  # fmt: skip
    for part, lines in enumerate(chapters):
        found, spaces, starts = split_text(lines)
        yield make_document(name, split, found, starts, part=part, spaces=spaces)


def read_text(file: Path) -> str:
    """Return a file's whole text; CorpusError names the place of anything that is not text."""
    with unpacked(file) as opened:
        data = opened.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise CorpusError(f"{file}: more than {LARGEST} bytes, expected a book: split the file")
    text = data.decode("utf-8", errors="surrogateescape")
    if is_html(text[:1000]):
        raise CorpusError(
            f"{file}, line 1: a web page ({shown(text[:60])}), expected plain text: fetch the"
            " book's .txt file"
        )
    # lines are checked one by one only if the file is not plain ASCII text
    if not data.isascii() or b"\0" in data:
        for number, line in enumerate(text.splitlines(), 1):
            check_text(line, f"{file}, line {number}", LARGEST)
    return text


def recognise(path: Path) -> Match | None:
    """Recognise text files by name, except LAMBADA's, and archives, which no other format reads."""
    if path.is_dir():
        found = find_texts(path)
        return Match(Evidence.NAME, f"it holds {found[0].name}") if found else None
    if _is_text(path) and not path.name.lower().startswith("lambada"):
        return Match(Evidence.NAME, "it is a *.txt file")
    return Match(Evidence.NAME, "it is an archive") if is_archive(path) else None


READER = Reader(
    name="text",
    read=read,
    recognise=recognise,
    data=(
        pinned(
            "text",
            "the novels of LitBank (Project Gutenberg)",
            "public domain in the United States",
            f"{RAW}/dbamman/litbank/3e50db0ffc033d7ccbb94f4d88f6b99210328ed8",
            "litbank",
            ("**/*.txt", "**/*.txt.gz"),
            listed="litbank-books",
            find=find_texts,
            archive="original.tar.bz2",
        ),
    ),
)
