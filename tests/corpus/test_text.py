"""Running text: every character of a plain book is accounted for, and what is no text refused."""

import re
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from conll_files import write
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused
from written import document_of

from entity_transformers.corpus.alignment import spaced_words
from entity_transformers.corpus.books import find_heading, read_book, split_blocks
from entity_transformers.corpus.document import Document, join_parts
from entity_transformers.corpus.ledger import Policy
from entity_transformers.corpus.readers import detect_format, read_corpus
from entity_transformers.corpus.readers.text import choose_splits
from entity_transformers.corpus.splitting import split_text

PROSE = "It was a bright day, and the clock struck thirteen.\nNobody had expected that of it.\n"
LONG = (
    "It was a bright cold day in the spring, and all the clocks of the town were\n"
    "striking at once, as they had done for years, so that nobody looked up from the\n"
    'work at hand. "What does it mean?" said Ada.\n\n'
) * 6
START, END = (f"*** {one} OF THE PROJECT GUTENBERG EBOOK A ***" for one in ("START", "END"))


def read(path: Path, policy: Policy = "strict") -> tuple[list[Document], dict[str, Any]]:
    corpus = read_corpus("text", path, bad_documents=policy)
    return list(corpus), corpus.ledger.as_dict()


def texts(book: str) -> list[str]:
    return [" ".join(chapter) for chapter in read_book(book)]


def test_a_gutenberg_book_becomes_its_chapters() -> None:
    book = (
        "The Project Gutenberg eBook of Clocks\n\nTitle: Clocks\n\n"
        "*** START OF THIS PROJECT GUTENBERG EBOOK CLOCKS ***\n\n"
        f"CHAPTER I\n\nThe First\n\n{LONG}\n\nCHAPTER II. The Second\n\n[Illustration: a clock]\n\n"
        f"{LONG}THE END\n\n* * * * *\n\n"
        "*** END OF THIS PROJECT GUTENBERG EBOOK CLOCKS ***\n\nLicence.\n"
    )
    one, two = read_book(book)
    assert one[:2] == ("CHAPTER I", "The First")
    assert one[2].startswith("It was a bright cold day in the spring, and all the clocks of the")
    assert (two[0], two[1][:6], two[-1]) == ("CHAPTER II. The Second", "It was", "THE END")


@pytest.mark.parametrize(("form", "level", "number"), [
    ("CHAPTER I", "chapter", 1), ("Chapter 12. Death on the Moor", "chapter", 12),
    ("CHAPTER FORTY-SEVEN", "chapter", 47), ("CHAPTER THE LAST", "chapter", None),
    ("LETTER III [Written some months after the last]", "chapter", 3),
    ("BOOK THE FIRST", "division", 1), ("Phase the Second: Maiden No More", "division", 2),
    ("PART ONE--The Old Buccaneer", "division", 1), ("[ 16 ]", "number", 16),
    ("_Two_", "number", 2), ("   II The Little Shop-Window", "titled", 2),
    ("EPILOGUE", "special", None),
    ("Part of her was gone.", None, None), ("Book I read yesterday, and never again.", None, None),
    ("Act fourth displayed the despairing Roderigo on the point of stabbing", None, None),
    ("I had this story from one who had no business to tell it to me, or to", None, None),
])  # fmt: skip
def test_forms_of_headings_and_of_prose(form: str, level: str | None, number: int | None) -> None:
    heading = find_heading(split_blocks([form])[0], 0)
    assert (heading and (heading.level, heading.number)) == (level and (level, number))


def test_stanzas_with_numbers_are_no_chapters() -> None:
    stanzas = "".join(f"{n}.\n\n  In the greenest\n  of valleys\n\n" for n in ("I", "II", "III"))
    assert len(texts(f"{LONG}{stanzas}{LONG}")) == 1


def test_sections_within_chapters_do_not_cut_them() -> None:
    sections = f"I\n\n{LONG}II\n\n{LONG}"
    assert len(texts(f"CHAPTER I\n\n{sections}\n\nCHAPTER II\n\n{sections}")) == 2
    assert len(texts(f"BOOK I\n\n{sections}\n\nBOOK II\n\n{sections}")) == 4


def test_an_empty_chapter_begins_the_next_one() -> None:
    _, second = texts(f"CHAPTER I\n\n{LONG}CHAPTER II\n\nCHAPTER III\n\n{LONG}")
    assert second.startswith("CHAPTER II CHAPTER III It was")


def test_lines_are_joined_and_verse_is_not() -> None:
    verse = "    Tyger tyger, burning bright,\n    In the forests of the night;\n"
    wrapped = """He came to the house on the hill late in the day, as he had promised them to-
day, and so he had to wait for an hour or more in the cold and empty hall, so--\nhe said.\n"""
    lines = read_book(f"{PROSE}\n{verse}\n{wrapped}")[0]
    prose, joined = PROSE.replace("\n", " ").strip(), wrapped.replace("-\n", "-").strip()
    assert lines == (prose, *(line.strip() for line in verse.splitlines()), joined)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r", "\r\r\n", "\x85", "\u2028"])
def test_newlines_and_a_byte_order_mark_make_no_difference(newline: str) -> None:
    plain = f"CHAPTER I\n\n{LONG}CHAPTER II\n\n{LONG}"
    assert read_book("\ufeff" + plain.replace("\n", newline)) == read_book(plain)
    assert read_book(plain.replace("\n\n", "\u2029")) == read_book(plain)


@pytest.mark.parametrize(("form", "chapters"), [
    ("By morning there will be another.\n\n{0}London was far.", 1),
    ("{0}Copyright 2019 by N. Example", 1),
    ("{0}A note on the text: this is the second edition.\n\n{0}", 1),
    ("Preface\n\n{0}\n\nContents\n\nChapter 1\n\nChapter 2\n\nChapter 1\n\n{0}Chapter 2\n\n{0}", 3),
    ("# Chapter 1\n\n{0}# Chapter 2\n\n{0}", 2),
    ("{0}THE END\n\nA postscript: Ada wrote again.", 1),
    ("{0}End of the Project Gutenberg rumours, said Ada.\n\n{0}", 1),
    ("The end\n\n{0}[Illustration: a clock] was there, [of gold]", 1),
])  # fmt: skip
@pytest.mark.parametrize("style", ["wrapped", "unwrapped", "no-blank-line", "double-spaced"])
def test_what_may_be_the_book_s_is_kept(form: str, chapters: int, style: str) -> None:
    """A short text has no front or end matter because it is short, or is set in another style."""
    text = form.format(LONG)
    styled = {
        "wrapped": text,
        "unwrapped": (unwrapped := re.sub(r"(?<!\n)\n(?!\n)", " ", text)),
        "no-blank-line": re.sub(r"\n+", "\n", unwrapped),
        "double-spaced": text.replace("\n", "\n\n"),
    }[style]
    found = texts(styled)
    assert " ".join(" ".join(found).split()) == " ".join(text.split())
    assert len(found) == chapters


def test_each_book_of_a_file_with_several_is_read() -> None:
    book = "Header.\n*** START OF THE PROJECT GUTENBERG EBOOK {0} ***\n\n{0}: {1}\n*** END OF THE PROJECT GUTENBERG EBOOK {0} ***\n\nLicence.\n"  # noqa: E501
    several = "".join(book.format(name, LONG) for name in "ABC")
    assert texts(several) == [" ".join(f"{name}: {LONG}".split()) for name in "ABC"]
    headless = several.partition("A ***\n\n")[2]  # its first mark is an END
    assert texts(headless) == texts(several)


@pytest.mark.parametrize(("start", "end"), [
    ("*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*", END),
    ("** START OF THIS COPYRIGHTED PROJECT GUTENBERG EBOOK A **", END),
    ("*** START OF PROJECT GUTENBERG EBOOK A ***", "*** END OF PROJECT GUTENBERG EBOOK A ***"),
    (START, "The End of the Project Gutenberg Etext of A"),
    (START, "End of this Project Gutenberg e-text of A"),
    (START, "Ende dieses Projekt Gutenberg Etextes A"),
    (START, "Fin de Project Gutenberg's A"),
])  # fmt: skip
def test_marks_of_every_age_and_language(start: str, end: str) -> None:
    book = f"Header.\n{start}\n\n{LONG}\n{end}\n\nLicence.\n"
    assert texts(book * 2) == [" ".join(LONG.split())] * 2


@pytest.mark.parametrize("space", ["\f", "\xa0", "\t\u3000"])
def test_white_space_before_a_heading_makes_no_difference(space: str) -> None:
    assert len(texts(f"{space}CHAPTER I\n\n{LONG}{space}CHAPTER\xa0II\n\n{LONG}")) == 2


@pytest.mark.parametrize(("text", "lost"), [
    (f"{LONG}\n*** END OF THE PROJECT GUTENBERG EBOOK ***\n\n{LONG * 3}", True),
    (f"Other\n{LONG}\n*** START OF THE PROJECT GUTENBERG EBOOK ***\n\n{LONG}", True),
    (f"{LONG * 9}\n*** END OF THE PROJECT GUTENBERG EBOOK ***\n\n{LONG}", False),
    (LONG + "\nEnd of Project Gutenberg's Clocks\n\n" + "The Gutenberg licence says so. " * 600,
     False),
], ids=["after-end", "before-start", "tenth", "licence"])  # fmt: skip
def test_a_reader_that_leaves_much_out_says_so(text, lost, tmp_path, caplog):
    _, ledger = read(write(tmp_path / "a.txt", text))
    assert ledger["counts"].get("books_of_which_much_is_left_out", 0) == lost
    assert ("words are left out" in caplog.text) == lost


@settings(max_examples=60)
@given(st.lists(st.text(st.characters(exclude_categories=("Cs", "Cc"))), max_size=30))
def test_every_character_but_spaces_is_kept(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert "".join("".join(texts(text)).split()) == "".join(text.removeprefix("\ufeff").split())
    for chapter in read_book(text):
        words, spaces, starts = split_text(chapter)
        document = document_of(words, sentence_starts=tuple(starts), space_after=tuple(spaces))
        assert "".join(spaced_words(document, "natural")) == " ".join(chapter)
        assert len(starts) == len(chapter)
        assert all(word.split() == [word] for word in words)


def test_words_are_spacys() -> None:
    import spacy

    line = "He didn't--\"no,\" said Mr. O'Brien (at 5 p.m.)--go to the U.S.A., e.g. by the_sea_."
    tokens = spacy.blank("en")(line)
    words, spaces, _ = split_text([line])
    assert words == [token.text for token in tokens]
    assert spaces[:-1] == [bool(token.whitespace_) for token in tokens][:-1]


@pytest.mark.parametrize("mark", ["!", "'", "_", "😀"])
def test_many_marks_in_a_row_are_words_like_few(mark: str) -> None:
    """In a time that does not grow with their square."""
    words, spaces, _ = split_text([f"Ada{mark * 3000} met"])
    assert "".join(words) == f"Ada{mark * 3000}met"
    assert (words[0], words[-1], sum(spaces)) == ("Ada", "met", 2)
    assert len(words) > 1500


@pytest.mark.parametrize(("data", "message"), [
    (b"Caf\xe9 and more\n", "line 1, character 4: byte 0xe9 is not UTF-8"),
    (b"text\nmore \x00 text", "line 2, character 6: a NUL byte"),
    ("Ein Text".encode("utf-16"), ": UTF-16, expected text: save it as text in UTF-8$"),
    (b"%PDF-1.4\n%\xe2\xe3\xcf", ": a PDF, expected text"),
    (b"\x89PNG\r\n\x1a\n", ": an image, expected text"),
    (b"{\\rtf1 Ada}", ": RTF, expected text"),
    (b"<!DOCTYPE html><html>", "a web page"),
    (b" \n\n", "no text in this file"),
])  # fmt: skip
def test_what_is_no_text_is_refused_with_its_place(tmp_path, data, message):
    write(tmp_path / "good.txt", LONG)
    bad = write(tmp_path / "bad.txt", data)
    with refused(f"^{bad}.*{message}"):
        read(tmp_path)
    documents, ledger = read(tmp_path, "skip")
    assert [document.name for document in documents] == ["good"]
    assert list(ledger["bad"]) == [str(bad)]


@pytest.mark.parametrize("ending", ["docx", "pdf", "pdf.gz", "png", "rtf", "dat", "doc"])
def test_what_is_no_text_is_refused_in_a_line(tmp_path: Path, ending: str) -> None:
    """Whatever its name; not with a list of what all formats look like."""
    starts = {"pdf": b"%PDF", "rtf": b"{\\rtf1", "png": b"\x89PNG", "doc": b"\xd0\xcf\x11\xe0"}
    path = tmp_path / f"a.{ending}"
    write(path, starts.get(ending.split(".")[0], b"Ada met Bob.") + b"\n" * 600)
    if path.suffix == ".docx":
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr("word/document.xml", "<w:document/>")
    with refused(f"^{path}.{{,259}}$") as caught:
        list(read_corpus(detect_format(path)[0], path))
    assert ("save it as text in UTF-8" in str(caught.value)) == (path.suffix != ".dat")


def test_folders_and_archives(tmp_path: Path) -> None:
    for name in ("train/a.txt", "dev/b.TXT", "test/c.txt", "test/d.txt.gz", "dev/notes.pdf"):
        write(tmp_path / "books" / name, "%PDF" if ".pdf" in name else LONG)
    wanted, ledger = read(tmp_path / "books")
    splits = {"a": "train", "b": "dev", "c": "test", "d": "test"}
    assert {(d.name, d.split) for d in wanted} == set(splits.items())
    assert ledger["counts"]["files_that_are_no_text"] == 1
    with tarfile.open(tmp_path / "books.tar.bz2", "w:bz2") as archive:
        archive.add(tmp_path / "books", "books")
    with zipfile.ZipFile(tmp_path / "books.zip", "w") as packed:
        for path in sorted((tmp_path / "books").rglob("*.*")):
            packed.write(path, path.relative_to(tmp_path))
    for name in ("books.tar.bz2", "books.zip"):
        assert read(tmp_path / name)[0] == wanted
    assert detect_format(tmp_path / "books")[0] == "text"


def test_strange_names(tmp_path: Path) -> None:
    write(tmp_path / "a\nb.txt", LONG)
    write(tmp_path / "fine name.txt", LONG)
    documents, ledger = read(tmp_path, "skip")
    assert {document.name for document in documents} == {"fine name"}
    assert "rename the file" in next(iter(ledger["bad"].values()))


def test_each_book_is_in_one_split_by_its_name() -> None:
    names = {f"book-{i}": Path(f"book-{i}.txt") for i in range(40)}
    splits = choose_splits(names)
    assert [list(splits.values()).count(s) for s in ("train", "dev", "test")] == [36, 2, 2]
    assert choose_splits(dict(reversed(names.items()))) == splits


@pytest.mark.parametrize(("paths", "splits"), [
    ("train.txt dev.txt test.txt", "train dev test"), ("train.txt test.txt", "train test"),
    ("wiki.train.txt wiki.valid.txt wiki.test.txt", "train dev test"),
    ("letters-test.txt letters-dev.txt letters-train.txt readme.txt", "test dev train train"),
    ("a.txt TEST-1.TXT b.txt dev.txt", "train test train dev"),
    ("my-train/a.txt my-test/b.txt my-dev/c.txt", "train test dev"),
    ("test/a_train.txt train/the_test.txt dev/a.txt b.txt c.txt", "test train dev train train"),
    ("strangers_on_a_train.txt the_test.txt emma.txt ulysses.txt", "dev train train test"),  # drawn
    ("test-of-a.txt test-of-b.txt test-of-c.txt", "dev test train"),
])  # fmt: skip
def test_names_tell_the_splits_but_titles_of_novels_do_not(paths: str, splits: str) -> None:
    books = {path.removesuffix(".txt"): Path(path) for path in paths.split()}
    assert [choose_splits(books)[name] for name in books] == splits.split()


def test_a_book_is_its_chapters(tmp_path: Path) -> None:
    chapters, _ = read(write(tmp_path / "a.txt", f"CHAPTER I\n\n{LONG}CHAPTER II\n\n{LONG}"))
    [book] = join_parts(chapters)
    assert book.words == chapters[0].words + chapters[1].words
    text = " ".join("".join(spaced_words(chapter, "natural")) for chapter in chapters)
    assert "".join(spaced_words(book, "natural")) == text


def test_a_novel_of_litbank(unpack_novels) -> None:
    names = "11_alices_adventures_in_wonderland", "1064_the_masque_of_the_red_death"
    documents, _ = read(unpack_novels(*names))
    alice = [document for document in documents if document.name.startswith("11_")]
    assert len(alice) == 12
    assert alice[1].words[:7] == ("CHAPTER", "II", ".", "The", "Pool", "of", "Tears")
