"""Bracketed annotations: chains ``(12|(3``, ``12)``, ``(7)`` (one stack per chain) and flat typed
spans ``(ORG*``, ``*)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from entity_transformers.corpus.document import Mention, NamedEntity, WordError
from entity_transformers.corpus.lines import shown

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
    return sorted(mentions, key=_reading_order), sorted(unmatched, key=lambda error: error.word)


def _reading_order(mention: Mention) -> tuple[int, int, int]:
    return (mention.start, -mention.end, mention.chain)


@lru_cache(1 << 10)
def _parse_type_cell(cell: str) -> tuple[str, bool]:
    """The type that opens at a word ("" for none), and whether a span closes there. ValueError for
    any other shape or type.
    """
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
    """Flat typed spans of the (word, cell) pairs, cells ``*`` left out. WordError for any other
    shape, type or nesting.
    """
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
