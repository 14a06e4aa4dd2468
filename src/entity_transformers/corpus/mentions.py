"""One entity per word: which of nested, crossing or doubly annotated mentions a word belongs to."""

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Literal

from entity_transformers.corpus.document import (
    CorpusError,
    Document,
    Mention,
    NamedEntity,
    Span,
    reading_order,
)

Nesting = Literal["outermost", "innermost", "drop"]


def flatten(
    mentions: Sequence[Mention], n_words: int, policy: Nesting
) -> tuple[tuple[Mention, ...], Counter[str]]:
    """Select mentions no two of which share a word, in reading order, and count the losses.

    Chains that hold the same span are one entity: they are merged under the smallest of their ids.
    Then ``outermost`` drops a mention that overlaps an earlier or longer kept one, ``innermost``
    one that overlaps a kept mention that ends earlier or is shorter, and ``drop`` every mention
    that overlaps another one.

    The counter has ``mentions``, ``chains`` (those left without a mention) and ``words`` (left
    without an entity). CorpusError for a span outside the ``n_words`` words.
    """
    for mention in mentions:
        if not 0 <= mention.start < mention.end <= n_words:
            raise CorpusError(
                f"{mention} is not inside the document's {n_words} words: check the corpus file"
            )
    merged = merge_chains(mentions)
    if policy == "drop":
        depth = _count_words(merged)
        kept = [m for m in merged if max(depth[m.start : m.end]) == 1]
    elif policy == "innermost":
        kept = _first_of_overlapping(sorted(merged, key=lambda m: (m.end, -m.start)))
    else:
        kept = _first_of_overlapping(merged)
    lost = Counter(
        mentions=len(merged) - len(kept),
        chains=len({m.chain for m in merged}) - len({m.chain for m in kept}),
        words=count_covered(merged)[0] - count_covered(kept)[0],
    )
    return tuple(kept), lost


def merge_chains(mentions: Iterable[Mention]) -> list[Mention]:
    """Keep one mention per span, in reading order."""
    parents: dict[int, int] = {}
    spans: dict[tuple[int, int], int] = {}
    for start, end, chain in ((m.start, m.end, m.chain) for m in mentions):
        join(parents, chain, spans.setdefault((start, end), chain))
    merged = [
        Mention(start, end, find_chain(parents, chain)) for (start, end), chain in spans.items()
    ]
    return sorted(merged, key=reading_order)


def find_chain(parents: dict[int, int], chain: int) -> int:
    """Return the smallest of the chains that were joined with a chain."""
    while parents[chain] != chain:
        parents[chain] = chain = parents[parents[chain]]
    return chain


def join(parents: dict[int, int], first: int, second: int) -> None:
    """Join two chains, so that `find_chain` returns the same one for both."""
    parents.setdefault(first, first)
    one, other = find_chain(parents, first), find_chain(parents, second)
    parents[max(one, other)] = min(one, other)


def flatten_entities(entities: Iterable[NamedEntity]) -> tuple[NamedEntity, ...]:
    """Keep the outermost of nested named entities, and the first of those that cross or have equal
    spans.
    """
    found = sorted(entities, key=lambda entity: (entity.start, -entity.end))
    return tuple(_first_of_overlapping(found))


def _first_of_overlapping(mentions: Iterable[Span]) -> list[Span]:
    kept: list[Span] = []
    for mention in mentions:
        if not kept or mention.start >= kept[-1].end:
            kept.append(mention)
    return kept


def _count_words(mentions: Iterable[Mention]) -> list[int]:
    """Count the mentions that each word is in, up to the last word that is in any."""
    changes = Counter[int]()
    for mention in mentions:
        changes[mention.start] += 1
        changes[mention.end] -= 1
    return list(accumulate(changes[word] for word in range(max(changes, default=0))))


def count_covered(mentions: Iterable[Mention]) -> tuple[int, int]:
    """Count the words in at least one mention, and those in at least two."""
    depth = _count_words(mentions)
    return sum(number > 0 for number in depth), sum(number > 1 for number in depth)


def count_overlaps(mentions: Iterable[Mention]) -> Counter[str]:
    """Count the overlaps of annotated mentions: ``nested``, ``crossing`` and ``same_span``.

    nested     mentions inside a longer one
    crossing   mentions that start inside an earlier one and end after it (the later of each
               crossing pair)
    same_span  mentions whose span another mention, of whatever chain, already has
    """
    counts: Counter[str] = Counter(nested=0, crossing=0, same_span=0)
    active: list[int] = []
    previous: tuple[int, int] | None = None
    for start, end in sorted(
        ((m.start, m.end) for m in mentions), key=lambda span: (span[0], -span[1])
    ):
        if (start, end) == previous:
            counts["same_span"] += 1
            continue
        previous = (start, end)
        del active[: bisect_right(active, start)]
        counts["nested"] += bool(active) and active[-1] >= end
        counts["crossing"] += bool(active) and active[0] < end
        insort(active, end)
    return counts


def drop_singletons(document: Document) -> Document:
    """Remove the document's chains of a single mention, which OntoNotes does not annotate."""
    sizes = Counter(mention.chain for mention in document.mentions)
    return replace(
        document,
        mentions=tuple(mention for mention in document.mentions if sizes[mention.chain] > 1),
    )
