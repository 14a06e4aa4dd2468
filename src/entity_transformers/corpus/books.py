"""A book as plain text: its chapters, and the paragraphs and lines of each.

Headings, the text, THE END and the author's notes are kept. Project Gutenberg's header and licence,
captions of illustrations, the transcriber's notes, and all white space but one space between words
are left out. Whatever is not certainly one of these is kept. Chapters begin at headings, which are
told by their form, their order and what lies between them.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise, zip_longest
from statistics import median
from typing import Literal, NamedTuple

Level = Literal["division", "chapter", "titled", "number", "special", "capitals"]
Chapter = tuple[str, ...]
"""The lines of a chapter, each a paragraph or a line of verse, without a break inside."""

_NEWLINE = re.compile("\r*\n|[\r\x85\u2028]")  # lines that end in CR CR LF are not double-spaced
_MARK = re.compile(
    r"\s*((?P<start>\*+ *START OF (THE |THIS )?(COPYRIGHTED )?PROJECT GUTENBERG"
    r"|\*END[ *]+THE SMALL PRINT)"
    r"|\*+ *END OF (THE |THIS )?(COPYRIGHTED )?PROJECT GUTENBERG"
    r"|((The )?End of|Ende) (the |this |dieses? )?(copyrighted )?Proje[ck]t Gutenberg"
    r"(['’]s| e-?(book|text))"
    r"|Fin de Project Gutenberg)",
    re.IGNORECASE,
)
_CAPTION = re.compile(r"(\[(Illustration|Transcriber)[^\[\]]*\] ?)+")
"""Nothing but captions of illustrations and the transcriber's remarks, in brackets."""
_END_MATTER = re.compile(
    r"\W*(the )?(transcriber(['’]?s|s['’])? *note|production notes|appendix: production notes"
    r"|a note on the text|etext editor)",
    re.IGNORECASE,
)
_LATE = 0.9
"""Matter that follows a book stands in the last tenth of the file's words."""
_LICENCE = 50
"""Words assumed for each "Gutenberg" in the header and licence, which have one in 35 words."""
_WRAPPED, _UNWRAPPED = 50, 120
"""Shortest line that may have been wrapped, and longest that anybody wraps, in characters."""

_SMALL = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth"
    " fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth"
).split()
_WORDS = {word: i for names in (_SMALL, _ORDINALS) for i, word in enumerate(names, 1)}
_WORDS |= {word: 10 * i for i, word in enumerate(_TENS, 2)}
_ROMAN = re.compile("M{0,3}(CM|CD|D?C{0,4})(XC|XL|L?X{0,4})(IX|IV|V?I{0,4})")
_DIGITS = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}

_DIVISIONS = frozenset("book part volume vol phase act".split())
_KEYWORD = re.compile(
    r"(?P<word>(?i:chapter|chap|letter|adventure|stave|canto|episode|book|part|volume|vol|phase"
    r"|act))\.? +(?P<the>(?i:the +))?(?P<number>[A-Za-z0-9]+(?:-[a-z]+)?(?:-[A-Z]+)?)(?P<rest>.*)"
)
_NUMBERED = re.compile(r"(?P<number>[A-Za-z0-9]+(?:-[A-Za-z]+)?)(?P<rest>.*)")
_SPECIAL = re.compile(
    r"(?i:(the )?(prologue|epilogue|conclusion|introduction|introductory|preface|finale|prelude"
    r"|postscript|afterword|foreword|interlude))[.:]?"
)
_ORNAMENTS = " \t_*#=[]()—–-"
_LINES, _CHARACTERS = 4, 300
"""A heading with its title is a block of at most so many lines and characters."""
_FEWEST_WORDS = 150
"""Median words needed between numbers that count as chapters; stanzas and lists have fewer."""
_FEWEST_OF_TITLE = 400
"""The same between titles in capitals that have no number."""


@dataclass(frozen=True, slots=True)
class Block:
    """The lines between blank lines, and how many blank lines come before them."""

    lines: tuple[str, ...]
    gap: int

    @property
    def text(self) -> str:
        """The lines joined into one."""
        return " ".join(self.lines)

    @property
    def words(self) -> int:
        """The number of words."""
        return len(self.text.split())


class Heading(NamedTuple):
    """A block that may begin a chapter: its index, its level, its number if it has one, and how the
    number is written (digits, roman or words).
    """

    block: int
    level: Level
    number: int | None = None
    style: str = ""


def read_book(text: str) -> list[Chapter]:
    """Return the chapters of a file's whole text, whatever its newlines; of each book in turn if
    Project Gutenberg's marks say that there are several.
    """
    lines = _NEWLINE.split(text.removeprefix("\ufeff").replace("\u2029", "\n\n"))
    return [chapter for part in cut_books(lines) for chapter in _read_part(part)]


def count_lost(text: str, chapters: Iterable[Chapter]) -> int:
    """Count the words of a file's text that are in no chapter, except Project Gutenberg's own."""
    kept = sum(len(line.split()) for chapter in chapters for line in chapter)
    licence = _LICENCE * text.lower().count("gutenberg")
    return max(0, len(text.split()) - kept - licence)


def cut_books(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the lines of each book, up to a mark of Project Gutenberg or the file's end, without
    those before a START that is the first mark, or from an END to the next START.
    """
    marks = [(i, "start" if found["start"] else "end")
             for i, line in enumerate(lines) if (found := _MARK.match(line))]  # fmt: skip
    outside = "end" if marks and marks[0][1] == "start" else "start"
    for (i, before), (end, _) in pairwise([(-1, outside), *marks, (len(lines), "")]):
        if before == "start":
            yield lines[i + 1 : end]


def _read_part(lines: Sequence[str]) -> Iterator[Chapter]:
    blocks = split_blocks(lines)
    body = [
        block
        for block in blocks[: _find_end(blocks)]
        if not _CAPTION.fullmatch(" ".join(block.text.split()))
    ]
    # if most lines are indented, an indent says nothing
    indents = Counter(line[0] in " \t" for block in body for line in block.lines)
    indented = indents[True] > indents[False]
    for start, end in split_sections(body, find_headings(body)):
        yield tuple(line for block in body[start:end] for line in _join(block, indented))


def split_blocks(lines: Sequence[str]) -> list[Block]:
    """Return the blocks of a text, in order; if most of the text is in lines too long to have been
    wrapped, each line is a block.
    """
    long = sum(len(line) for line in lines if len(line) > _UNWRAPPED)
    unwrapped = 2 * long > sum(map(len, lines))
    blocks: list[Block] = []
    gap = 0
    for filled, group in groupby(lines, key=lambda line: bool(line.strip())):
        together = tuple(group)
        if not filled:
            gap = len(together)
            continue
        for one in [(line,) for line in together] if unwrapped else [together]:
            blocks.append(Block(one, gap))
            gap = 0
    return blocks


def _find_end(blocks: Sequence[Block]) -> int:
    """Find where the text ends: before transcriber's notes, and before ornaments below THE END."""
    before = list(accumulate((block.words for block in blocks), initial=0))
    late = range(bisect_left(before, _LATE * before[-1]), len(blocks))
    end = next((i for i in late if _END_MATTER.match(blocks[i].lines[0])), len(blocks))
    words = next((i for i in range(end, 0, -1) if blocks[i - 1].text.strip(_ORNAMENTS)), 0)
    return words if words and _is_end(blocks[words - 1]) else end


def _is_end(block: Block) -> bool:
    """Whether a block is nothing but THE END or FINIS."""
    text = block.text.strip(_ORNAMENTS + ".!")
    return text.lower() in ("the end", "finis", "end")


def _join(block: Block, indented: bool) -> list[str]:
    """Return a block as one line if it is prose, or line by line if it is verse or the head of a
    letter, with white space reduced to one space.
    """
    lines = [" ".join(line.split()) for line in block.lines]
    if len(lines) > 1 and _is_set_by_line(block, indented):
        return lines
    joined = lines[0]
    for line in lines[1:]:
        # no space after a word's own hyphen, or after a dash set without spaces
        closed = re.search(r"(\w-|\S--|\S—)$", joined) and line[0].isalnum()
        joined += line if closed else f" {line}"
    return [joined]


def _is_set_by_line(block: Block, indented: bool) -> bool:
    """Whether all lines are short, or all are indented and some before the last are short."""
    lengths = [len(line.strip()) for line in block.lines]
    if max(lengths) < _WRAPPED:
        return True
    inside = not indented and all(line[0] in " \t" for line in block.lines)
    return inside and min(lengths[:-1]) < _WRAPPED


def numeral(text: str) -> int | None:
    """Return the number that a text spells in digits, as a roman numeral (in one case) or in
    English words (one, forty-seven, first); None if it spells none.
    """
    if text.isascii() and text.isdigit() and len(text) <= 3:
        return int(text)
    roman = text.upper()
    if text in (roman, text.lower()) and roman and _ROMAN.fullmatch(roman):
        values = [_DIGITS[letter] for letter in roman]
        pairs = zip(values, [*values[1:], 0], strict=True)
        return sum(-value if value < after else value for value, after in pairs)
    tens, _, unit = text.lower().partition("-")
    if unit:
        known = tens in _TENS and 1 <= _WORDS.get(unit, 0) <= 9
        return _WORDS[tens] + _WORDS[unit] if known else None
    return _WORDS.get(tens)


def find_heading(block: Block, index: int) -> Heading | None:
    """Return the heading that a block looks like by its form alone, or None."""
    line = " ".join(block.lines[0].split()).strip(_ORNAMENTS)
    short = len(block.lines) <= _LINES and sum(map(len, block.lines)) <= _CHARACTERS
    if _SPECIAL.fullmatch(line) and short:
        return Heading(index, "special")
    if keyword := _KEYWORD.fullmatch(line):
        return _with_keyword(keyword, index, short)
    match = _NUMBERED.fullmatch(line) if short else None
    number = numeral(match["number"]) if match else None
    if not match or not number:
        return None
    rest, spelled = match["rest"].strip(_ORNAMENTS + ".:"), match["number"]
    roman = spelled.isupper() and _ROMAN.fullmatch(spelled)
    style = "digits" if spelled.isdigit() else "roman" if roman else "words"
    if not rest:
        return Heading(index, "number", number, style)
    separated = re.match(r"[.:]|\s|--|—", match["rest"])
    if style != "words" and separated and len(block.lines) <= 2 and is_title(rest):
        return Heading(index, "titled", number)
    return None


def _with_keyword(match: re.Match[str], index: int, short: bool) -> Heading | None:
    word, number, rest = match["word"], numeral(match["number"]), match["rest"]
    last = bool(match["the"]) and match["number"].lower() == "last"
    if not word[0].isupper() or not (number or last):
        return None
    level: Level = "division" if word.lower() in _DIVISIONS else "chapter"
    title = rest.strip(_ORNAMENTS + ".:,")
    parted = re.match(r"\s*(\.|:|--|—|–|\[|\()", rest)
    if not title or (short and (parted or (rest[0] == " " and is_title(title)))):
        return Heading(index, level, number)
    return None


def is_title(text: str) -> bool:
    """Whether a text is in capitals, or has a title's capitals and no final comma or semicolon."""
    if text.isupper():
        return True
    long = [word for word in re.findall(r"[^\W\d_]+", text) if len(word) >= 4]
    capital = sum(word[0].isupper() for word in long)
    first = re.search(r"[^\W_]", text)
    begins = bool(first and not first[0].islower())
    return begins and 2 * capital >= len(long) and text[-1] not in ",;"


def find_headings(blocks: Sequence[Block]) -> list[Heading]:
    """Return the blocks that begin a chapter or a division of a book, in order.

    Words such as CHAPTER and BOOK are trusted. Bare numbers and numbered titles must count up from
    one and have a chapter's worth of words between them, and bare numbers are chapters only if
    fewer than two other chapters are found. Titles in capitals after three blank lines are chapters
    if fewer than two headings of those kinds are found.
    """
    found = [heading for i, block in enumerate(blocks) if (heading := find_heading(block, i))]
    named = [heading for heading in found if heading.level in ("division", "chapter")]
    chapters = sum(heading.level == "chapter" for heading in named)
    special = [heading for heading in found if heading.level == "special"]
    titled = [heading for heading in found if heading.level in ("chapter", "titled")]
    titled = [h for h in _count_up(titled, restarts=not chapters) if h.level == "titled"]
    titled = _worthy(titled, named, blocks)
    kept = [*named, *titled]
    if chapters + len(titled) < 2:
        for style in ("digits", "roman", "words"):
            mine = [h for h in found if h.level == "number" and h.style == style]
            kept += _worthy(_count_up(mine, restarts=True), [*kept, *special], blocks)
    if len(kept) < 2:
        known = {heading.block for heading in (*kept, *special)}
        kept += (heading for heading in _capitals(blocks) if heading.block not in known)
    return sorted({*kept, *special}) if kept else []


def _count_up(headings: Sequence[Heading], *, restarts: bool) -> list[Heading]:
    """Keep the headings whose numbers go on from the one before, forgiving a misprint or a lost
    one. The count begins anew only at a one that two follows.
    """
    kept: list[Heading] = []
    last = 0
    for heading, after in zip_longest(headings, headings[1:]):
        number = heading.number or last + 1
        first = number == 1 and after and after.number == 2 and (restarts or not kept)
        if heading.level == "chapter" or first or last < number <= last + 3:
            kept.append(heading)
            last = number
    return kept


def _worthy(
    headings: list[Heading], others: Sequence[Heading], blocks: Sequence[Block]
) -> list[Heading]:
    """Return all the headings if the text between them has a chapter's length, else none."""
    mine = {heading.block for heading in headings}
    sizes = _sizes([h.block for h in (*headings, *others)], blocks)
    own = [size for start, size in sizes.items() if start in mine]
    counted = max((heading.number or 0 for heading in headings), default=0) >= 2
    return headings if counted and median(own) >= _FEWEST_WORDS else []


def _sizes(starts: Iterable[int], blocks: Sequence[Block]) -> dict[int, int]:
    """Count the words from each start to the next one."""
    order = sorted({*starts, len(blocks)})
    return {
        start: sum(block.words for block in blocks[start:end]) for start, end in pairwise(order)
    }


def _capitals(blocks: Sequence[Block]) -> list[Heading]:
    found = [
        i
        for i, block in enumerate(blocks)
        if len(block.lines) == 1
        and (block.gap >= 3 or i == 0)
        and block.text.isupper()
        and len(block.text.strip()) <= 60
        and block.text.strip()[-1] not in ",;"
        and not _is_end(block)
    ]
    sizes = _sizes(found, blocks).values()
    repeated = len({blocks[i].text for i in found}) < len(found)
    if len(sizes) < 2 or repeated or median(sizes) < _FEWEST_OF_TITLE:
        return []
    return [Heading(i, "capitals") for i in found]


def split_sections(
    blocks: Sequence[Block], headings: Sequence[Heading]
) -> Iterator[tuple[int, int]]:
    """Yield the chapters in order, as blocks ``[start, end)`` that together cover every block. A
    heading with next to nothing below it (a title, a motto) begins with the chapter after it.
    """
    if not blocks:
        return
    begins = [(heading.block, heading.level) for heading in headings]
    if not begins or begins[0][0] > 0:
        begins = [(0, "division"), *begins]
    sizes = _sizes([begin for begin, _ in begins], blocks)
    left, start = sum(sizes.values()), 0
    for (begin, level), following in zip_longest(begins, begins[1:]):
        end = following[0] if following else len(blocks)
        left -= sizes[begin]
        least = 60 if level in ("division", "special") else 15
        if sizes[begin] <= least and end < len(blocks) and left > least:
            continue
        if left <= 15:  # THE END below a heading of its own, or the like
            end = len(blocks)
        yield start, end
        start = end
        if start == len(blocks):
            return
