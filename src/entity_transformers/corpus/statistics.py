"""Counts of a corpus (section 4.2), and their comparison with the known sizes of CoNLL-2012."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

from entity_transformers.corpus.document import SPLITS, Document
from entity_transformers.corpus.mentions import Nesting, count_covered, count_overlaps, flatten

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
Counts = Counter[tuple[str, ...]]


def count_document(document: Document, policy: Nesting) -> Counts:
    """Count one document, by the keys of `describe`; the counts of several documents add up."""
    mentions, words = document.mentions, len(document.words)
    overlaps = count_overlaps(mentions)
    covered, several = count_covered(mentions)
    flat = {name: flatten(mentions, words, name) for name in POLICIES}
    kept = flat[policy][0]
    values = (
        1, len(document.sentence_starts), words, len({m.chain for m in mentions}), len(mentions),
        overlaps["nested"], overlaps["crossing"], overlaps["same_span"], covered, several,
        int(document.named_entities is None), len(kept), len({m.chain for m in kept}),
        sum(m.end - m.start for m in kept),
    )  # fmt: skip
    counts: Counts = Counter({(key,): n for key, n in zip(COUNTS, values, strict=True)})
    counts.update(("ne_spans", entity.label) for entity in document.named_entities or ())
    counts.update(("pos", find_group(tag)) for tag in document.tags or ("",) * words)
    counts.update({("lost", n, loss): flat[n][1][loss] for n in POLICIES for loss in LOSSES})
    return counts


def find_group(tag: str) -> str:
    """Return the group in `POS_GROUPS` of a Penn Treebank tag; "unknown" for no tag and for XX."""
    return _GROUPS.get(tag, "other")


def describe(documents: Iterable[Document], policy: Nesting) -> dict[str, Any]:
    """Return {"total": counts, "splits": {split: counts}, "nesting": policy} of the documents,
    which are read once and not kept.

    nested_mentions lie inside a longer one, crossing_mentions start inside an earlier one and end
    after it, merged_spans have the span of another mention; kept_* count what the nesting policy
    leaves for the entity ids. ``lost`` is what each policy would cost: mentions, chains left
    without a mention, and words left without an entity.
    """
    found: dict[str, Counts] = defaultdict(Counter)
    for document in documents:
        found[document.split].update(count_document(document, policy))
    return {
        "total": _nest(sum(found.values(), Counter())),
        "splits": {split: _nest(found[split]) for split in SPLITS if split in found},
        "nesting": policy,
    }


def _nest(counts: Counts) -> dict[str, Any]:
    labels = sorted(key[1] for key in counts if key[0] == "ne_spans")
    return {
        **{key: counts[key,] for key in COUNTS},
        "ne_spans": {label: counts["ne_spans", label] for label in labels},
        "pos": {group: counts["pos", group] for group in POS_GROUPS},
        "lost": {name: {loss: counts["lost", name, loss] for loss in LOSSES} for name in POLICIES},
    }


def compare_with_conll2012(statistics: Mapping[str, Any]) -> str:
    """Tell which sizes differ from the known ones, or that none does."""
    wrong = [
        f"{split} {size}: {found}, known {known}"
        for split, sizes in CONLL2012.items()
        for size, known in sizes.items()
        if (found := statistics["splits"].get(split, {}).get(size, 0)) != known
    ]
    if not wrong:
        return "All sizes equal those known of CoNLL-2012."
    return "Sizes that differ from those known of CoNLL-2012: " + "; ".join(wrong)


def format_table(statistics: Mapping[str, Any]) -> str:
    """Format a readable table, with a column per split and a row per count that is not zero
    throughout, followed by what was left out.
    """
    import pandas as pd

    columns = {**statistics["splits"], "total": statistics["total"]}
    table = pd.json_normalize(list(columns.values()), sep=": ").T.set_axis(list(columns), axis=1)
    table = table.fillna(0).astype(int)
    text = table[table.any(axis=1)].to_string(formatters=["{:,}".format] * len(columns))
    return "\n".join([text, *_left_out(statistics.get("left_out", {}))])


def _left_out(left_out: Mapping[str, Any]) -> Iterator[str]:
    if excluded := left_out.get("excluded"):
        yield f"excluded by pattern: {len(excluded)}"
    for name, reason in left_out.get("bad", {}).items():
        yield f"left out as bad: {'' if reason.startswith(name) else f'{name}: '}{reason}"
    for pattern in left_out.get("unmatched", []):
        yield f"exclude pattern without a matching document: {pattern}"
    for kind, number in left_out.get("counts", {}).items():
        if number:
            yield f"{kind.replace('_', ' ')}: {number:,}"
    if second := left_out.get("second_test"):
        yield from (f"second test, {line}" for line in _left_out(second))


def list_counts(split: str, counts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the numbers of `describe` for one split, a row each."""
    parts = {"ne_spans": ("named_entities", "label"), "pos": ("words", "group")}
    for name, count in counts.items():
        if name == "lost":
            for nesting, losses in count.items():
                about = {"split": split, "nesting": nesting}
                for lost, number in losses.items():
                    yield {"measure": f"lost_{lost}", "value": number, **about}
        elif name in parts:
            measure, column = parts[name]
            for part, number in count.items():
                yield {"measure": measure, "value": number, "split": split, column: part}
        else:
            yield {"measure": name, "value": count, "split": split}
