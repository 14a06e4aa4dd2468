"""One entity a word: which of nested, crossing or doubly annotated mentions a word belongs to."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal, get_args

from entity_transformers.corpus.document import CorpusError, Document, Mention

Nesting = Literal["outermost", "innermost", "drop"]


def flatten(
    mentions: Sequence[Mention], n_words: int, policy: Nesting
) -> tuple[tuple[Mention, ...], Counter[str]]:
    """Mentions of which no two share a word, in reading order, and what that cost.

    Chains that hold the same span are one entity: they are merged under the smallest of their ids.
    Then, by policy, ``outermost``: a mention that overlaps an earlier, or longer, kept one is lost;
    ``innermost``: one that overlaps a mention that ends earlier, or is shorter; ``drop``: every
    mention that overlaps another one. Cost: a sort.

    The counter has ``mentions``, ``chains`` (those left without a mention), ``words`` (left without
    an entity), ``merged_spans`` and ``merged_chains``. CorpusError for a span outside the
    ``n_words`` words or another policy.
    """
    if policy not in get_args(Nesting):
        raise CorpusError(
            f"nested_mentions is {policy!r}, expected one of {', '.join(get_args(Nesting))}"
        )
    for mention in mentions:
        if not 0 <= mention.start < mention.end <= n_words:
            raise CorpusError(
                f"{mention} does not lie inside a document of {n_words} words: check the corpus"
                " file"
            )
    merged, merged_chains = merge_chains(mentions)
    kept = _KEEP[policy](merged)
    lost = Counter(
        mentions=len(merged) - len(kept),
        chains=len({m.chain for m in merged}) - len({m.chain for m in kept}),
        words=count_covered(merged)[0] - count_covered(kept)[0],
        merged_spans=len(mentions) - len(merged),
        merged_chains=merged_chains,
    )
    return tuple(kept), lost


def merge_chains(mentions: Iterable[Mention]) -> tuple[list[Mention], int]:
    """One mention per span, in reading order; and how many chains were merged into another."""
    parents: dict[int, int] = {}
    spans: dict[tuple[int, int], int] = {}
    for start, end, chain in ((m.start, m.end, m.chain) for m in mentions):
        _join(parents, chain, spans.setdefault((start, end), chain))
    merged = [Mention(start, end, _root(parents, chain)) for (start, end), chain in spans.items()]
    merged.sort(key=_outer_first)
    return merged, sum(chain != parent for chain, parent in parents.items())


def _root(parents: dict[int, int], chain: int) -> int:
    while parents[chain] != chain:
        parents[chain] = chain = parents[parents[chain]]
    return chain


def _join(parents: dict[int, int], first: int, second: int) -> None:
    parents.setdefault(first, first)
    one, other = _root(parents, first), _root(parents, second)
    parents[max(one, other)] = min(one, other)


def _outer_first(mention: Mention) -> tuple[int, int]:
    return (mention.start, -mention.end)


def _outermost(mentions: Iterable[Mention]) -> list[Mention]:
    kept: list[Mention] = []
    for mention in mentions:
        if not kept or mention.start >= kept[-1].end:
            kept.append(mention)
    return kept


def _innermost(mentions: Iterable[Mention]) -> list[Mention]:
    return _outermost(sorted(mentions, key=lambda m: (m.end, -m.start)))


def _disjoint(mentions: Sequence[Mention]) -> list[Mention]:
    """Mentions that share no word with any other."""
    kept, furthest = [], 0
    for mention, following in zip(mentions, [*(m.start for m in mentions[1:]), None], strict=False):
        if mention.start >= furthest and (following is None or mention.end <= following):
            kept.append(mention)
        furthest = max(furthest, mention.end)
    return kept


_KEEP = {"outermost": _outermost, "innermost": _innermost, "drop": _disjoint}


def count_covered(mentions: Iterable[Mention]) -> tuple[int, int]:
    """Words in at least one mention, and words in at least two."""
    edges = sorted(edge for m in mentions for edge in ((m.start, 1), (m.end, -1)))
    once = twice = depth = 0
    for (at, step), (following, _) in pairwise(edges):
        depth += step
        once += (following - at) * (depth >= 1)
        twice += (following - at) * (depth >= 2)
    return once, twice


def count_overlaps(mentions: Iterable[Mention]) -> Counter[str]:
    """How the annotated mentions lie in one another: ``nested``, ``crossing`` and ``same_span``.

    nested     mentions inside a longer one
    crossing   mentions that start inside an earlier one and end after it (the later of each
               crossing pair)
    same_span  mentions whose span another mention, of whatever chain, has already
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
    """The document without chains of a single mention, which OntoNotes does not annotate."""
    sizes = Counter(mention.chain for mention in document.mentions)
    return replace(
        document,
        mentions=tuple(mention for mention in document.mentions if sizes[mention.chain] > 1),
    )
