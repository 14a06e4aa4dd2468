"""What finds the chains of a text that nobody has annotated: the protocol, and the check of what
one returns. `registry` has them by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import pairwise
from typing import Any, Literal, Protocol, cast, get_args

from entity_transformers.corpus.document import Document, Mention, reading_order
from entity_transformers.corpus.mentions import Nesting, flatten

Overlaps = Literal["outermost", "innermost", "drop", "keep", "refuse"]
"""What is done about spans that share words: the project's nesting policies, or ``keep`` all of
them (a document may hold them), or ``refuse`` the answer.
"""


class ResolverError(ValueError):
    """The message names resolver, document, place and value, and what to do."""


class Resolver(Protocol):
    """Finds the entities of one document.

    name    how layers (``resolver:NAME``) and tables write it
    causal  does a mention depend on nothing after the word that follows it? Then changing the words
            after word t changes no mention whose ``end`` is at most t, nor its entity

    ``resolve`` is given words, sentence starts, and tags and spaces where they are known, never
    gold chains or named entities, and returns spans with any integer for the entity.
    """

    @property
    def name(self) -> str: ...

    @property
    def causal(self) -> bool: ...

    def resolve(self, document: Document) -> Sequence[Mention]: ...


@dataclass(frozen=True)
class Resolved:
    """The checked answer of a resolver for one document.

    document  the document with the resolver's mentions in place of any that it had
    overlaps  the spans that shared a word with an earlier or longer one, as found: each with the
              one that it overlaps
    lost      what resolving them cost, as of `corpus.mentions.flatten`, without zeros; empty where
              all were kept
    """

    document: Document
    overlaps: tuple[tuple[Mention, Mention], ...] = ()
    lost: Counter[str] = field(default_factory=Counter)

    def report(self, most: int = 3) -> list[str]:
        """A line per overlap, ``most`` of them at most, and one for the rest."""
        lines = [_describe(self.document, *pair) for pair in self.overlaps[:most]]
        rest = len(self.overlaps) - most
        return [*lines, f"{self.document.id}: and {rest} more overlaps"] if rest > 0 else lines


def resolve(resolver: Resolver, document: Document, overlaps: Overlaps = "outermost") -> Resolved:
    """The resolver's mentions of a document, checked, those that share words treated as
    ``overlaps`` says.

    The resolver is not shown gold chains or named entities. ResolverError, with resolver, document
    and place, for a span that is no span of the document, one that is returned twice, or overlaps
    that are to be refused.
    """
    if overlaps not in get_args(Overlaps):
        raise ResolverError(
            f"overlaps is {overlaps!r}, expected one of {', '.join(get_args(Overlaps))}"
        )
    bare = replace(document, mentions=(), named_entities=None)
    mentions = _check_spans(resolver.resolve(bare), document, f"resolver {resolver.name}")
    pairs = find_overlaps(mentions)
    if pairs and overlaps == "refuse":
        raise ResolverError(
            f"resolver {resolver.name}: {_describe(document, *pairs[0])} ({len(pairs)} such): set"
            " overlaps to outermost, innermost or drop, or to keep"
        )
    lost: Counter[str] = Counter()
    if pairs and overlaps != "keep":
        kept, cost = flatten(mentions, len(document.words), cast(Nesting, overlaps))
        mentions, lost = list(kept), +cost
    return Resolved(replace(document, mentions=tuple(mentions)), tuple(pairs), lost)


def _check_spans(answer: Iterable[Any], document: Document, who: str) -> list[Mention]:
    """The answer in reading order."""
    where = f"{who}, document {document.id}"
    mentions = []
    for given in answer:
        try:
            mention = Mention(*map(_integer, (given.start, given.end, given.chain)))
        except (AttributeError, TypeError):
            raise ResolverError(
                f"{where}: {given!r}, expected a Mention of three integers"
            ) from None
        if not 0 <= mention.start < mention.end <= len(document.words):
            raise ResolverError(
                f"{where}: {mention}, expected 0 <= start < end <= {len(document.words)}, the"
                " number of words"
            )
        mentions.append(mention)
    mentions.sort(key=reading_order)
    for first, second in pairwise(mentions):
        if first == second:
            raise ResolverError(
                f"{where}, words {_place(document, first)}: the span is returned twice for entity"
                f" {first.chain}, expected once"
            )
    return mentions


def _integer(value: Any) -> int:
    """A plain int of an int or a NumPy integer."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(value)
    return int(value)


def find_overlaps(mentions: Iterable[Mention]) -> list[tuple[Mention, Mention]]:
    """Each mention that shares a word with an earlier one, after the one that reaches furthest."""
    pairs = []
    furthest: Mention | None = None
    for mention in sorted(mentions, key=reading_order):
        if furthest and mention.start < furthest.end:
            pairs.append((furthest, mention))
        if furthest is None or mention.end > furthest.end:
            furthest = mention
    return pairs


def _describe(document: Document, first: Mention, second: Mention) -> str:
    if (first.start, first.end) == (second.start, second.end):
        how = f"is also a mention of entity {second.chain}"
        return f"{document.id}, words {_place(document, first)} of entity {first.chain} {how}"
    how = "lies inside" if second.end <= first.end else "crosses"
    return (
        f"{document.id}, words {_place(document, second)} of entity {second.chain} {how} words"
        f" {_place(document, first)} of entity {first.chain}"
    )


def _place(document: Document, mention: Mention) -> str:
    """``7-9 'Mr. Darcy'``: counted from 0, the end not included, as in a `Mention`."""
    words = " ".join(document.words[mention.start : min(mention.end, mention.start + 8)])
    more = " ..." if mention.end - mention.start > 8 else ""
    return f"{mention.start}-{mention.end} {words + more!r}"


def require(module: str, extra: str) -> Any:
    """The imported library; where it is not installed, ResolverError names the extra to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ResolverError(
            f"resolver {extra} needs {error.name}, which is not installed: install the"
            f" extra {extra!r}: pip install '.[{extra}]' in the checkout"
        ) from error
