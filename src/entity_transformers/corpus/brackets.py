"""What stands in the columns of a corpus' rows: chains ``(12|(3``, ``12)``, ``(7)`` (one stack per
chain), flat typed spans ``(ORG*``, ``*)``, and words and tags as the Penn Treebank writes them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache

from entity_transformers.corpus.document import Mention, NamedEntity, WordError, reading_order
from entity_transformers.corpus.files import shown

ONTONOTES_TYPES = [
    "PERSON", "NORP", "FAC", "ORG", "GPE", "LOC", "PRODUCT", "DATE", "TIME", "PERCENT", "MONEY",
    "QUANTITY", "ORDINAL", "CARDINAL",
    "EVENT", "WORK_OF_ART", "LAW", "LANGUAGE",
]  # fmt: skip
"""The 18 named-entity types of OntoNotes 5.0, in the order that the hub numbers them."""
UNKNOWN = frozenset(("-", "_"))
"""What stands in a column that is not annotated."""
_BRACKET = re.compile(r"(\()?([0-9]{1,18})(\))?")
_TYPE = re.compile(r"(?:\(([^()*\s]+))?(\*?\)|\*)")
_SKELETON = "[WORD]"
_ORIGINALS = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}",
    "-AMP-": "&", "/.": ".", "/?": "?",
}  # fmt: skip

Bracket = tuple[bool, int, bool]
"""Opens here, chain, closes here."""


@lru_cache(1 << 16)
def parse_chain_cell(cell: str, separator: str | None) -> tuple[Bracket, ...]:
    """The brackets of one word in the order they are written; ``separator`` None: none between them
    (OntoGUM). ValueError where anything is left over.
    """
    pieces = cell.split(separator) if separator else [m[0] for m in _BRACKET.finditer(cell)]
    found = [match for piece in pieces if (match := _BRACKET.fullmatch(piece))]
    whole = (separator or "").join(match[0] for match in found)
    if whole != cell or not all(match[1] or match[3] for match in found):
        raise ValueError(
            f"chain brackets {shown(cell)}: expected such as (3, 3) or (3), joined by"
            f" {separator or 'nothing'}"
        )
    return tuple((bool(match[1]), int(match[2]), bool(match[3])) for match in found)


def match_chains(
    cells: Iterable[tuple[int, str]], separator: str | None
) -> tuple[list[Mention], list[WordError]]:
    """Mentions of the (word, cell) pairs, in reading order, and the brackets without a partner.

    One stack per chain, so chains may cross and a chain may nest in itself (the inner span closes
    first). A cell that is no bracket expression raises WordError.
    """
    stacks: dict[int, list[int]] = defaultdict(list)
    mentions: list[Mention] = []
    unmatched: list[WordError] = []
    for word, cell in cells:
        try:
            brackets = parse_chain_cell(cell, separator)
        except ValueError as error:
            raise WordError(word, str(error)) from None
        for opens, chain, closes in brackets:
            if opens:
                stacks[chain].append(word)
            if closes and stacks[chain]:
                mentions.append(Mention(stacks[chain].pop(), word + 1, chain))
            elif closes:
                message = f"{chain}) closes a mention of chain {chain} that was never opened"
                unmatched.append(WordError(word, f"{message} in this document"))
    for chain, words in stacks.items():
        message = f"({chain} opens a mention of chain {chain} that is never closed"
        unmatched += [WordError(word, f"{message} in this document") for word in words]
    return sorted(mentions, key=reading_order), sorted(unmatched, key=lambda error: error.word)


def match_types(cells: Iterable[tuple[int, str]]) -> list[NamedEntity]:
    """Flat typed spans of the (word, cell) pairs; another shape or nesting raises WordError."""
    entities: list[NamedEntity] = []
    opened: tuple[int, str] | None = None
    for word, cell in cells:
        match = _TYPE.fullmatch(cell)
        if not match or (match[1] or "ORG") not in ONTONOTES_TYPES:
            raise WordError(
                word,
                f"named entity {shown(cell)}: expected such as (ORG*, *), (ORG) or *, of types"
                f" {', '.join(ONTONOTES_TYPES)}",
            )
        if match[1]:
            if opened:
                inside = f"({opened[1]} of word {opened[0] + 1}"
                raise WordError(word, f"({match[1]} opens inside {inside}: expected flat spans")
            opened = (word, match[1])
        if match[2].endswith(")"):
            if not opened:
                raise WordError(word, f"{shown(cell)} closes a named entity that was never opened")
            entities.append(NamedEntity(opened[0], word + 1, opened[1]))
            opened = None
    if opened:
        message = f"({opened[1]} opens a named entity that is never closed in this document"
        raise WordError(opened[0], message)
    return entities


def restore_words(words: Sequence[str]) -> tuple[str, ...]:
    """Words as in running text: brackets and ``/.``, ``/?`` for what they stand for.

    WordError for one with white space inside and for a skeleton's ``[WORD]``.
    """
    if _SKELETON in words:
        raise WordError(
            words.index(_SKELETON),
            f"the word is {_SKELETON}, a skeleton without text: run skeleton2conll with the LDC's"
            " OntoNotes release first",
        )
    _refuse_spaces(words, "word")
    return tuple(_ORIGINALS.get(word, word) for word in words)


def restore_tags(tags: Sequence[str]) -> tuple[str, ...] | None:
    """Tags as written, ``XX`` (OntoNotes' own sign) where one is missing, None where all are.

    WordError for one with white space inside.
    """
    if UNKNOWN.issuperset(tags):
        return None
    _refuse_spaces(tags, "tag")
    return tuple("XX" if tag in UNKNOWN else tag for tag in tags)


def _refuse_spaces(values: Sequence[str], what: str) -> None:
    if " ".join(values).split() != [*values]:
        word = next(i for i, value in enumerate(values) if value.split() != [value])
        message = f"the {what} is {shown(values[word])}, expected one without white space"
        raise WordError(word, message)
