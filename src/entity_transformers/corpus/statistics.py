"""Counts of a corpus (section 4.2), and their comparison with CoNLL-2012's known sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

from entity_transformers.corpus.document import SPLITS, Document
from entity_transformers.corpus.mentions import Nesting, count_covered, count_overlaps, flatten
from entity_transformers.corpus.overlap import format_overlap

_GROUPS = {
    **dict.fromkeys(("NN", "NNS"), "nouns"),
    **dict.fromkeys(("NNP", "NNPS"), "proper_nouns"),
    **dict.fromkeys(("PRP", "PRP$"), "pronouns"),
    **dict.fromkeys(("", "XX"), "unknown"),
}
POS_GROUPS = ("nouns", "proper_nouns", "pronouns", "other", "unknown")
COUNTS = (
    "documents", "sentences", "words", "chains", "mentions", "nested_mentions",
    "crossing_mentions", "merged_spans", "words_in_mentions",
    "words_in_several_mentions", "documents_without_named_entities", "kept_mentions",
    "kept_chains", "kept_words_in_mentions",
)  # fmt: skip
CONLL2012 = {
    "train": {"documents": 2802, "chains": 35143, "mentions": 155560},
    "dev": {"documents": 343, "chains": 4545, "mentions": 19156},
    "test": {"documents": 348, "chains": 4532, "mentions": 19764},
}
"""Known sizes of CoNLL-2012 English; a document is a part. The paper's "mentions" are these chains.
"""
POLICIES: tuple[Nesting, ...] = get_args(Nesting)
LOSSES = ("mentions", "chains", "words")


def count_document(document: Document, policy: Nesting) -> Counter[tuple[str, ...]]:
    """Counts of one document by their keys in `describe`; those of several add up."""
    overlaps = count_overlaps(document.mentions)
    covered, several = count_covered(document.mentions)
    flat = {name: flatten(document.mentions, len(document.words), name) for name in POLICIES}
    kept = flatten(document.mentions, len(document.words), policy)[0]
    values = {
        "documents": 1,
        "sentences": len(document.sentence_starts),
        "words": len(document.words),
        "chains": len({m.chain for m in document.mentions}),
        "mentions": len(document.mentions),
        "nested_mentions": overlaps["nested"],
        "crossing_mentions": overlaps["crossing"],
        "merged_spans": overlaps["same_span"],
        "words_in_mentions": covered,
        "words_in_several_mentions": several,
        "documents_without_named_entities": int(document.named_entities is None),
        "kept_mentions": len(kept),
        "kept_chains": len({m.chain for m in kept}),
        "kept_words_in_mentions": sum(m.end - m.start for m in kept),
    }
    counts: Counter[tuple[str, ...]] = Counter({(key,): number for key, number in values.items()})
    counts.update(("ne_spans", entity.label) for entity in document.named_entities or ())
    for tag, number in Counter(document.tags or ("",) * len(document.words)).items():
        counts["pos", find_group(tag)] += number
    losses = {("lost", name, loss): flat[name][1][loss] for name in POLICIES for loss in LOSSES}
    counts.update(losses)
    return counts


def _nest(counts: Counter[tuple[str, ...]]) -> dict[str, Any]:
    """The counts as `describe` gives them: `COUNTS`, ``ne_spans``, ``pos`` and ``lost``."""
    labels = sorted(key[1] for key in counts if key[0] == "ne_spans")
    return {
        **{key: counts[key,] for key in COUNTS},
        "ne_spans": {label: counts["ne_spans", label] for label in labels},
        "pos": {group: counts["pos", group] for group in POS_GROUPS},
        "lost": {
            policy: {loss: counts["lost", policy, loss] for loss in LOSSES} for policy in POLICIES
        },
    }


def find_group(tag: str) -> str:
    """The group of `POS_GROUPS` that a Penn Treebank tag is in; "unknown" for none and for XX."""
    return _GROUPS.get(tag, "other")


def describe(documents: Iterable[Document], policy: Nesting) -> dict[str, Any]:
    """{"total": counts, "splits": {split: counts}, "nesting": policy} of the documents, read once
    and not kept.

    nested_mentions lie inside a longer one, crossing_mentions start inside an earlier one and end
    after it, merged_spans have the span of another mention; kept_* are what the nesting policy
    leaves for the entity ids. ``lost`` is, for each policy, what it would cost: mentions, chains
    left without any, and words left without an entity.
    """
    found: dict[str, Counter[tuple[str, ...]]] = {}
    for document in documents:
        found.setdefault(document.split, Counter()).update(count_document(document, policy))
    splits = [*(split for split in SPLITS if split in found), *sorted({*found} - {*SPLITS})]
    return {
        "total": _nest(sum(found.values(), Counter())),
        "splits": {split: _nest(found[split]) for split in splits},
        "nesting": policy,
    }


def compare_with_conll2012(statistics: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row per split and size; ``found`` is None where the split is absent."""
    return [
        {"split": split, "size": size, "known": known, "found": found, "same": found == known}
        for split, sizes in CONLL2012.items()
        for size, known in sizes.items()
        for found in [statistics["splits"].get(split, {}).get(size)]
    ]


def format_comparison(rows: Sequence[Mapping[str, Any]]) -> str:
    """The comparison as text: the sizes that differ, or that none does."""
    wrong = [row for row in rows if not row["same"]]
    if not wrong:
        return f"All {len(rows)} sizes equal those known of CoNLL-2012."
    lines = [f"{len(wrong)} of {len(rows)} sizes differ from those known of CoNLL-2012:"]
    for row in wrong:
        found = "absent" if row["found"] is None else f"{row['found']:,}"
        lines.append(f"  {row['split']} {row['size']}: {found}, known {row['known']:,}")
    return "\n".join(lines)


def format_table(statistics: Mapping[str, Any]) -> str:
    """A readable table: a column per split, shares of the words in percent, what was left out."""
    columns: dict[str, Any] = dict(statistics["splits"])
    if len(columns) != 1:
        columns["total"] = statistics["total"]
    every = list(columns.values())
    types = sorted({label for one in every for label in one["ne_spans"]})
    rows = [["", *columns]]
    rows += [[key.replace("_", " "), *(f"{one[key]:,}" for one in every)] for key in COUNTS]
    rows += [
        [f"{group.replace('_', ' ')} (% of words)", *(_share(one, group) for one in every)]
        for group in POS_GROUPS
    ]
    rows += [
        [f"lost by {policy}: {loss}", *(f"{one['lost'][policy][loss]:,}" for one in every)]
        for policy in POLICIES
        for loss in LOSSES
    ]
    rows += [
        [f"named entities {label}", *(f"{one['ne_spans'].get(label, 0):,}" for one in every)]
        for label in types
    ]
    left_out = statistics.get("left_out", {})
    books, overlap = left_out.get("books", {}), statistics.get("overlap", {})
    parts = (_align(rows), _left_out(left_out), format_books(books), format_overlap(overlap))
    return "\n".join(line for part in parts for line in part)


def _share(stats: Mapping[str, Any], group: str) -> str:
    number, words = stats["pos"][group], stats["words"]
    tagged = words - stats["pos"]["unknown"]
    return f"{number:,} ({number / words:.1%})" if tagged or (words and group == "unknown") else "-"


def _align(rows: list[list[str]]) -> list[str]:
    """The first cell of each row to the left, the others to the right."""
    first, *others = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([row[0].ljust(first), *map(str.rjust, row[1:], others)]) for row in rows]


def format_books(books: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What became of each book's characters, a line a book, and of all of them."""
    if not books:
        return []
    keys = list(dict.fromkeys(key for row in books.values() for key in row if key != "split"))
    cells = [[f"{row.get(key, 0):,}" for key in keys] for row in books.values()]
    total = [f"{sum(row.get(key, 0) for row in books.values()):,}" for key in keys]
    named = [[name, str(row["split"])] for name, row in books.items()]
    return _align(
        [
            ["characters of books", "split", *(key.replace("_", " ") for key in keys)],
            *([*first, *rest] for first, rest in zip(named, cells, strict=True)),
            ["all", "", *total],
        ]
    )


def _left_out(left_out: Mapping[str, Any]) -> Iterator[str]:
    if left_out.get("excluded"):
        yield f"excluded by pattern: {len(left_out['excluded'])}"
    for name, reason in left_out.get("bad", {}).items():
        yield f"left out, bad: {name}: {reason}"
    for pattern in left_out.get("unmatched", []):
        yield f"exclude pattern that matches no document: {pattern}"
    for remark in left_out.get("remarks", []):
        yield f"look at {remark}"
    for kind, number in left_out.get("counts", {}).items():
        if number:
            yield f"{kind.replace('_', ' ')}: {number:,}"
