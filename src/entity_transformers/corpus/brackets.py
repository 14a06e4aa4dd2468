"""What stands in the columns of a corpus' rows: chains ``(12|(3``, ``12)``, ``(7)`` (one stack per
chain), flat typed spans ``(ORG*``, ``*)``, and words and tags as the Penn Treebank writes them.
"""

from __future__ import annotations

import re
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

_BRACKET = re.compile(r"(\()?([0-9]{1,18})(\))?")
_TYPE = re.compile(r"(\(([^()*\s]+))?(\*)?(\))?")

Bracket = tuple[bool, int, bool]
"""Opens here, chain, closes here."""


@lru_cache(1 << 16)
def parse_chain_cell(cell: str, separator: str | None) -> tuple[Bracket, ...]:
    """The brackets of one word in the order they are written; ``separator`` None: none between them
    (OntoGUM).

    ValueError where anything is left over.
    """
    brackets, at = [], 0
    while at < len(cell):
        match = _BRACKET.match(cell, at)
        if not match or not (match[1] or match[3]):
            raise _cell_fault(cell, separator)
        brackets.append((bool(match[1]), int(match[2]), bool(match[3])))
        at = match.end()
        if separator and at < len(cell):
            if cell[at] != separator or at + 1 == len(cell):
                raise _cell_fault(cell, separator)
            at += 1
    return tuple(brackets)


def _cell_fault(cell: str, separator: str | None) -> ValueError:
    return ValueError(
        f"chain brackets {shown(cell)}: expected such as (3, 3) or (3), joined by"
        f" {separator or 'nothing'}"
    )


def match_chains(
    cells: Iterable[tuple[int, str]], separator: str | None
) -> tuple[list[Mention], list[WordError]]:
    """Mentions of the (word, cell) pairs, in reading order, and the brackets without a partner.

    One stack per chain, so chains may cross and a chain may nest in itself (the inner span closes
    first). A cell that is no bracket expression raises WordError.
    """
    stacks: dict[int, list[int]] = {}
    mentions: list[Mention] = []
    unmatched: list[WordError] = []
    for word, cell in cells:
        try:
            brackets = parse_chain_cell(cell, separator)
        except ValueError as error:
            raise WordError(word, str(error)) from None
        for opens, chain, closes in brackets:
            if opens and closes:
                mentions.append(Mention(word, word + 1, chain))
            elif opens:
                stacks.setdefault(chain, []).append(word)
            elif stacks.get(chain):
                mentions.append(Mention(stacks[chain].pop(), word + 1, chain))
            else:
                unmatched.append(
                    WordError(
                        word,
                        f"{chain}) closes a mention of chain {chain} that was never opened in this"
                        " document",
                    )
                )
    unmatched += [
        WordError(
            word,
            f"({chain} opens a mention of chain {chain} that is never closed in this document (none"
            " crosses documents)",
        )
        for chain, words in stacks.items()
        for word in words
    ]
    return sorted(mentions, key=reading_order), sorted(unmatched, key=lambda error: error.word)


@lru_cache(1 << 10)
def _parse_type_cell(cell: str) -> tuple[str, bool]:
    """The type that opens at a word, or "", and whether a span closes there; else ValueError."""
    match = _TYPE.fullmatch(cell)
    if not match or not (match[2] or match[4]) or not (match[3] or match[4]):
        raise ValueError(
            f"named-entity brackets {shown(cell)}: expected such as (ORG*, *), (ORG) or *"
        )
    if match[2] and match[2] not in ONTONOTES_TYPES:
        raise ValueError(
            f"named-entity type {shown(match[2])}: expected one of"
            f" {', '.join(sorted(ONTONOTES_TYPES))}"
        )
    return match[2] or "", bool(match[4])


def match_types(cells: Iterable[tuple[int, str]]) -> list[NamedEntity]:
    """Flat typed spans of the (word, cell) pairs; another shape or nesting raises WordError."""
    entities: list[NamedEntity] = []
    opened: tuple[int, str] | None = None
    for word, cell in cells:
        try:
            label, closes = _parse_type_cell(cell)
        except ValueError as error:
            raise WordError(word, str(error)) from None
        if label and opened:
            raise WordError(
                word,
                f"({label} opens inside ({opened[1]} of word {opened[0] + 1}: expected flat spans",
            )
        if label:
            opened = (word, label)
        if closes:
            if not opened:
                raise WordError(word, f"{shown(cell)} closes a named entity that was never opened")
            entities.append(NamedEntity(opened[0], word + 1, opened[1]))
            opened = None
    if opened:
        raise WordError(
            opened[0], f"({opened[1]} opens a named entity that is never closed in this document"
        )
    return entities


UNKNOWN = frozenset(("-", "_"))
"""What stands in a column that is not annotated."""
_SKELETON = "[WORD]"
_ORIGINALS = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}",
    "-AMP-": "&", "/.": ".", "/?": "?",
}  # fmt: skip


def restore_words(words: Sequence[str]) -> tuple[str, ...]:
    """Words as in running text: brackets and ``/.``, ``/?`` for what they stand for.

    WordError for one with white space inside and for a skeleton's ``[WORD]``.
    """
    kinds = list(dict.fromkeys(words))
    if _SKELETON in kinds:
        raise WordError(
            words.index(_SKELETON),
            f"the word is {_SKELETON}, a skeleton without text: run skeleton2conll with the LDC's"
            " OntoNotes release first",
        )
    _refuse_spaces(words, kinds, "word", "")
    if _ORIGINALS.keys().isdisjoint(kinds):
        return tuple(words)
    return tuple(_ORIGINALS.get(word, word) for word in words)


def restore_tags(tags: Sequence[str]) -> tuple[str, ...] | None:
    """Tags as written, ``XX`` (OntoNotes' own sign) where one is missing, None where all are.

    WordError for one with white space inside.
    """
    kinds = list(dict.fromkeys(tags))
    if UNKNOWN.issuperset(kinds):
        return None
    _refuse_spaces(tags, kinds, "tag", ", or -")
    return tuple("XX" if tag in UNKNOWN else tag for tag in tags)


def _refuse_spaces(values: Sequence[str], kinds: list[str], what: str, other: str) -> None:
    if " ".join(kinds).split() != kinds:
        word = next(i for i, value in enumerate(values) if value.split() != [value])
        message = f"the {what} is {shown(values[word])}, expected one without white space{other}"
        raise WordError(word, message)
