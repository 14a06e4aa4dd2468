"""A book as plain text: what is the author's and what is not, and its paragraphs and chapters.

Kept are the headings, the text, THE END and the author's notes. Dropped, and counted in characters,
are Project Gutenberg's header and licence, title page and contents, captions of illustrations, the
transcriber's notes, and all white space but one space between words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from entity_transformers.corpus.chapters import (
    Block,
    Heading,
    find_heading,
    find_headings,
    is_end,
    split_blocks,
    split_sections,
)

DROPPED = ("gutenberg", "front_matter", "illustrations", "end_matter", "spacing")
"""What may be left out of a book, as the table of characters names it."""

_NEWLINE = re.compile("\r\n|\r|\n")
_START = re.compile(r"\s*\*{3} ?START OF (THE|THIS) PROJECT GUTENBERG", re.IGNORECASE)
_SMALL_PRINT = re.compile(r"\s*\*END[* ]+THE SMALL PRINT", re.IGNORECASE)
_STOP = re.compile(
    r"\s*(\*{3} ?END OF (THE|THIS) PROJECT GUTENBERG|End of (the )?Project Gutenberg)",
    re.IGNORECASE,
)
_CREDITS = re.compile(r"\s*(Produced|Transcribed|Prepared|E-text prepared|Scanned) by\b")
_CONTENTS = re.compile(r"\W*(table of )?contents\W*", re.IGNORECASE)
_TITLE_PAGE = re.compile(
    r"_*(by [A-Z\W]|illustrated\b|with illustrations|copyright\b|all rights reserved|author of\b"
    r"|dedicat|(first )?published\b|title:|(new york|london|boston)\W|1[5-9]\d\d\W*$"
    r"|(produced|transcribed|prepared|translated|edited) by)",
    re.IGNORECASE,
)
_END_MATTER = re.compile(
    r"\W*(the )?(transcriber(['’]?s|s['’])? *note|production notes|appendix: production notes"
    r"|a note on the text|etext editor)",
    re.IGNORECASE,
)
_PROSE_END = (".", "!", "?", '"', "”", "'", "’", "-", "—", ":", ";", ",")
_LATE = 0.9
"""Notes on the edition end a book when they stand in its last tenth."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """A chapter: its lines (a paragraph, or a line of verse) without a break inside."""

    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """The lines with a space between them."""
        return " ".join(self.lines)


@dataclass(frozen=True, slots=True)
class Book:
    """A book's chapters, the characters of its file by what became of them (``file``, ``kept`` and
    those of `DROPPED`; all but ``file`` add up to it), and what a reader should look at.
    """

    chapters: tuple[Chapter, ...]
    characters: dict[str, int]
    remarks: tuple[str, ...]


def read_book(text: str) -> Book:
    """The book of a file's whole text, whatever its newlines."""
    lines = _NEWLINE.split(text.removeprefix("\ufeff"))
    first, last = _strip_gutenberg(lines)
    inside = lines[first:last]
    blocks = split_blocks(inside)
    start, end = _front(blocks), _back(blocks)
    captions = [block for block in blocks[start:end] if _is_caption(block)]
    body = [block for block in blocks[start:end] if not _is_caption(block)]
    headings = find_headings(body)
    sections = split_sections(body, headings)
    indented = _is_indented(body)
    chapters = tuple(
        Chapter(tuple(line for block in body[s.start : s.end] for line in _join(block, indented)))
        for s in sections
    )
    remarks = tuple(
        f"line {first + body[i].first + 1}: a chapter without text: {body[i].text.strip()[:60]!r}"
        for section in sections
        for i in section.empty
    )
    kept = sum(len(chapter.text) for chapter in chapters)
    dropped = {
        "gutenberg": _solid(lines[:first]) + _solid(lines[last:]),
        "front_matter": _solid_blocks(blocks[:start]),
        "illustrations": _solid_blocks(captions),
        "end_matter": _solid_blocks(blocks[end:]),
    }
    spaces = sum(chapter.text.count(" ") for chapter in chapters)
    mark = text.startswith("\ufeff")  # of the byte order, which is no character of the book
    dropped["spacing"] = len(text) - (_solid([text]) - mark) - spaces
    if kept + sum(dropped.values()) != len(text):
        raise AssertionError(f"{kept} + {dropped} characters of {len(text)}: some are lost")
    return Book(chapters, {"file": len(text), "kept": kept, **dropped}, remarks)


def _solid(lines: Sequence[str]) -> int:
    """Characters that are no white space."""
    return sum(len(word) for line in lines for word in line.split())


def _solid_blocks(blocks: Sequence[Block]) -> int:
    return sum(_solid(block.lines) for block in blocks)


def _strip_gutenberg(lines: Sequence[str]) -> tuple[int, int]:
    """The lines ``[first, last)`` between Project Gutenberg's header and licence, if any."""
    first, last = 0, len(lines)
    for i, line in enumerate(lines):
        if "*" in line and (_START.match(line) or _SMALL_PRINT.match(line)):
            while i + 1 < len(lines) and "***" not in lines[i].lstrip(" *") and lines[i].strip():
                i += 1  # the marker may go on in the next line
            first = i + 1
        elif first <= i and _STOP.match(line) and i > len(lines) // 20:
            last = i
            break
    if first:
        following = next((i for i in range(first, last) if lines[i].strip()), last)
        if following < last and _CREDITS.match(lines[following]):
            blank = (i for i in range(following, last) if not lines[i].strip())
            first = next(blank, last)
    return first, last


def _front(blocks: Sequence[Block]) -> int:
    """Where the text begins: after a list of contents, or a title page."""
    first_prose = next((i for i, block in enumerate(blocks) if _is_prose(block)), len(blocks))
    early = blocks[: max(20, len(blocks) // 10)]
    listed = next((i for i, block in enumerate(early) if _CONTENTS.fullmatch(block.lines[0])), None)
    if listed is not None:
        return _after_contents(blocks, listed)
    titles = [i for i, block in enumerate(blocks[: min(first_prose, 30)]) if _is_title_page(block)]
    if not titles:
        return 0
    headings = (i for i in range(first_prose) if find_heading(blocks[i], i))
    return max(titles[-1] + 1, next((i for i in headings if i > titles[-1]), 0))


def _after_contents(blocks: Sequence[Block], listed: int) -> int:
    prose = next((i for i in range(listed + 1, len(blocks)) if _is_prose(blocks[i])), len(blocks))
    found = [h for i in range(listed + 1, prose) if (h := find_heading(blocks[i], i))]
    if not found:
        return prose if prose < len(blocks) else listed + 1
    opening = next((h for h in reversed(found) if h.number == 1 or h.level == "special"), found[-1])
    if opening.level != "division":
        opening = _with_division(opening, found)
    return opening.block


def _with_division(opening: Heading, found: Sequence[Heading]) -> Heading:
    """The heading of the division that begins with a chapter, with at most a title between."""
    above = [h for h in found if h.block < opening.block and opening.block - h.block <= 2]
    return next((h for h in above if h.level == "division"), opening)


def _is_title_page(block: Block) -> bool:
    return len(block.lines) <= 12 and any(
        _TITLE_PAGE.match(line.strip()) and len(line.split()) <= 12 for line in block.lines
    )


def _is_prose(block: Block) -> bool:
    """Lines that run on, and no list, no title."""
    if len(block.lines) < 2 or block.words < 25 or _is_title_page(block):
        return False
    entries = sum(bool(re.search(r"[\d.]$|^\W*(chapter|[ivxlc]+\.)", line.strip(), re.IGNORECASE))
                  for line in block.lines)  # fmt: skip
    return 2 * entries < len(block.lines) + 1 and block.text.rstrip(" _)*").endswith(_PROSE_END)


def _back(blocks: Sequence[Block]) -> int:
    """Where the text ends: before the transcriber's notes, and after THE END."""
    late = range(int(len(blocks) * _LATE), len(blocks))
    for i in late:
        if _END_MATTER.match(blocks[i].lines[0]):
            return i
    ends = [i for i in late if is_end(blocks[i])]
    # in its last few blocks; THE END of a part is none
    return ends[-1] + 1 if ends and len(blocks) - ends[-1] <= 30 else len(blocks)


def _is_caption(block: Block) -> bool:
    text = block.text.strip()
    return text.startswith("[Illustration") and text.endswith("]")


def _is_indented(blocks: Sequence[Block]) -> bool:
    """Whether most lines are, so that an indent tells nothing."""
    counts = Counter(line[0] in " \t" for block in blocks for line in block.lines)
    return counts[True] > counts[False]


def _join(block: Block, indented: bool) -> Iterator[str]:
    """The lines of a block: one, where it is prose, or as they stand, where it is verse or the head
    of a letter; white space is one space.
    """
    lines = [" ".join(line.split()) for line in block.lines]
    if len(lines) > 1 and _is_set_by_line(block, indented):
        yield from lines
        return
    joined = lines[0]
    for line in lines[1:]:
        # a word that is broken at a hyphen of its own, and dashes that stand closed
        closed = re.search(r"(\w-|\S--|\S—)$", joined) and line[0].isalnum()
        joined += line if closed else f" {line}"
    yield joined


_WRAPPED = 50
"""Characters from which on a line may have been wrapped."""


def _is_set_by_line(block: Block, indented: bool) -> bool:
    """All lines but the last are short, or all are indented and some short ones among them."""
    body = [len(line.strip()) for line in block.lines[:-1]]
    if max(body) < _WRAPPED and max(len(line.strip()) for line in block.lines) < _WRAPPED:
        return True
    inside = not indented and all(line[0] in " \t" for line in block.lines)
    return inside and min(body) < _WRAPPED
