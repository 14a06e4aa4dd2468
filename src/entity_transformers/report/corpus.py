"""The text: statistics of the corpus (section 4.2), entity types, the aligned example (table 1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from entity_transformers.report import paper, passages
from entity_transformers.report.cells import MISSING, Cell, Number, Table
from entity_transformers.report.frame import Key, Row, read_condition, write_condition
from entity_transformers.report.measures import Tree
from entity_transformers.report.results import Results
from entity_transformers.report.spans import Example

UNITS = {
    "documents": "documents",
    "documents_without_named_entities": "documents",
    "documents_read": "documents",
    "documents_excluded": "documents",
    "documents_bad": "documents",
    "left_out": "occurrences",
    "sentences": "sentences",
    "words": "words",
    "words_in_mentions": "words",
    "words_in_several_mentions": "words",
    "kept_words_in_mentions": "words",
    "chains": "chains",
    "kept_chains": "chains",
    "mentions": "mentions",
    "kept_mentions": "mentions",
    "nested_mentions": "mentions",
    "crossing_mentions": "mentions",
    "merged_spans": "spans",
    "named_entities": "spans",
    "lost_mentions": "mentions",
    "lost_chains": "chains",
    "lost_words": "words",
    "tokens": "tokens",
    "tokens_in_mentions": "tokens",
    "aligned_documents": "documents",
    "aligned_words": "words",
    "aligned_mentions": "mentions",
    "aligned_entities": "entities",
    "vocabulary": "tokens",
}
STEP, TOTAL = "corpus", "total"
SPLITS = ("train", "dev", "test", "test2")
COLUMNS_PER_LINE = 12


def measure(tree: Tree) -> Iterator[Row]:
    """statistics.json and alignment.json; the numbers of alignment.json that statistics.json has
    as well begin with ``aligned_``.
    """
    statistics = tree.read("corpus/statistics.json")
    if statistics is not None:
        for split, counts in {**statistics["splits"], TOTAL: statistics["total"]}.items():
            yield from _measure_split(split, counts)
        yield from _measure_left_out(statistics.get("left_out", {}))
    alignment = tree.read("corpus/alignment.json") or {}
    for split, counts in alignment.items():
        if split == "tokenizer":
            if "tokens" in counts:
                yield Row(STEP, "vocabulary", counts["tokens"])
            continue
        for name, count in counts.items():
            yield Row(STEP, name if name.startswith("tokens") else f"aligned_{name}", count, split)


def _measure_split(split: str, counts: Mapping[str, Any]) -> Iterator[Row]:
    for name, count in counts.items():
        if name == "lost":
            for nesting, losses in count.items():
                for lost, number in losses.items():
                    yield Row(STEP, f"lost_{lost}", number, split, write_condition(nesting=nesting))
        elif name == "ne_spans":
            for label, number in count.items():
                yield Row(STEP, "named_entities", number, split, write_condition(label=label))
        elif name == "pos":
            for group, number in count.items():
                yield Row(STEP, "words", number, split, write_condition(group=group))
        else:
            yield Row(STEP, name, count, split)


def _measure_left_out(left_out: Mapping[str, Any]) -> Iterator[Row]:
    """How much the reader left out; which documents they were is in statistics.json alone."""
    for reason, count in left_out.get("counts", {}).items():
        yield Row(STEP, "left_out", count, condition=write_condition(reason=reason))
    if "documents_read" in left_out:
        yield Row(STEP, "documents_read", left_out["documents_read"])
        yield Row(STEP, "documents_excluded", len(left_out["excluded"]))
        yield Row(STEP, "documents_bad", len(left_out["bad"]))


def _value(results: Results, measure: str, split: str, condition: str = "") -> float | None:
    row = results.frame.get(Key(STEP, measure, split, condition))
    return None if row is None else row.value


def build_corpus(results: Results) -> Table:
    """Section 4.2: the size of the corpus, its mentions and parts of speech, each with what the
    paper prints.
    """
    splits = _splits(results)
    rows = [_count_row(results, splits, label, measure) for label, measure in _COUNTS]
    rows += [_lost_row(results, splits, loss) for loss in ("mentions", "chains", "words")]
    rows += [_mention_row(results, splits, label, measure) for label, measure in _IN_MENTIONS]
    rows += [_group_row(results, splits, label, groups) for label, groups in _GROUPS]
    rows += _token_rows(results, splits)
    rows += passages.list_rows(results, len(splits))
    return Table(
        name="corpus",
        title="Corpus statistics (section 4.2)",
        columns=("Quantity", *splits, "Paper, train", "Paper, test"),
        rows=tuple(rows),
        measures="How much text there is, and how much of it refers to entities.",
        paper_note=(
            "The paper calls 35,143 and 4,532 “entity mentions”; for CoNLL-2012 these are the"
            " numbers of chains, so they stand in that row. Its 90% is the share of nouns, proper"
            " nouns and pronouns among the words."
        ),
        note=(
            "Shares of parts of speech are of the words whose"
            " part of speech is known; “kept” counts what remains after nested mentions are"
            " resolved, “lost” what that costs: mentions, chains left without any, and words left"
            " without an entity. Merged spans are not lost. "
        )
        + passages.describe_tagger(results),
    )


def _splits(results: Results) -> tuple[str, ...]:
    found = results.frame.distinct("split", step=STEP, measure="words")
    return (*(split for split in SPLITS if split in found), TOTAL)


def _count_row(
    results: Results, splits: tuple[str, ...], label: str, measure: str
) -> tuple[Cell, ...]:
    printed = {"words": paper.WORDS, "chains": paper.CHAINS}.get(measure, {})
    ours = (Number(_value(results, measure, split), 0) for split in splits)
    if measure == "named_entities":
        ours = (Number(_sum_labels(results, split), 0) for split in splits)
    return (label, *ours, Number(printed.get("train"), 0), Number(printed.get("test"), 0))


def _sum_labels(results: Results, split: str) -> float | None:
    found = results.frame.find(step=STEP, measure="named_entities", split=split)
    return sum(row.value or 0 for row in found) if len(found) else None


def _lost_row(results: Results, splits: tuple[str, ...], loss: str) -> tuple[Cell, ...]:
    condition = write_condition(nesting=results.nesting)
    counts = (Number(_value(results, f"lost_{loss}", split, condition), 0) for split in splits)
    return (f"{loss.capitalize()} lost ({results.nesting})", *counts, MISSING, MISSING)


def _mention_row(
    results: Results, splits: tuple[str, ...], label: str, measure: str
) -> tuple[Cell, ...]:
    shares = (
        _ratio(_value(results, measure, split), _value(results, "words", split)) for split in splits
    )
    return (label, *(Number(share, 1, percent=True) for share in shares), MISSING, MISSING)


def _group_row(
    results: Results, splits: tuple[str, ...], label: str, groups: tuple[str, ...]
) -> tuple[Cell, ...]:
    printed = paper.NOUN_PRONOUN_SHARE if label == _TOGETHER else {}
    ours = (Number(_group_share(results, split, groups), 1, percent=True) for split in splits)
    theirs = (Number(printed.get(split), 0, percent=True) for split in ("train", "test"))
    return (label, *ours, *theirs)


def _group_share(results: Results, split: str, groups: tuple[str, ...]) -> float | None:
    """Among the words whose part of speech is known."""
    rows = results.frame.find(step=STEP, measure="words", split=split)
    tags = {read_condition(r.condition)["group"]: r.value or 0 for r in rows if r.condition}
    known = sum(count for name, count in tags.items() if name != "unknown")
    return _ratio(sum(tags.get(group, 0) for group in groups), known)


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


_TOGETHER = "Nouns, proper nouns and pronouns together"
_COUNTS = (
    ("Documents", "documents"),
    ("Documents without named entity annotation", "documents_without_named_entities"),
    ("Sentences", "sentences"),
    ("Words", "words"),
    ("Chains", "chains"),
    ("Mentions", "mentions"),
    ("Mentions inside another", "nested_mentions"),
    ("Mentions that cross another", "crossing_mentions"),
    ("Spans listed in two chains (merged)", "merged_spans"),
    ("Chains kept", "kept_chains"),
    ("Mentions kept", "kept_mentions"),
    ("Words in several mentions", "words_in_several_mentions"),
    ("Named entity spans", "named_entities"),
)
_IN_MENTIONS = (
    ("Words in mentions", "words_in_mentions"),
    ("Words in kept mentions", "kept_words_in_mentions"),
)
_GROUPS = (
    ("Common nouns", ("nouns",)),
    ("Proper nouns", ("proper_nouns",)),
    ("Pronouns", ("pronouns",)),
    (_TOGETHER, ("nouns", "proper_nouns", "pronouns")),
)


def _token_rows(results: Results, splits: tuple[str, ...]) -> list[tuple[Cell, ...]]:
    counts = {split: _count_tokens(results, split) for split in splits if split != TOTAL}
    summed = [sum(column) for column in zip(*(c for c in counts.values() if c), strict=True)]
    columns = [*counts.values(), tuple(summed)]
    cells = [column or (None, None, None) for column in columns]
    rows = (
        ("Tokens", [Number(tokens, 0) for tokens, _, _ in cells]),
        ("Tokens per word", [Number(_ratio(tokens, words), 2) for tokens, words, _ in cells]),
        (
            "Tokens in mentions",
            [Number(_ratio(inside, tokens), 1, percent=True) for tokens, _, inside in cells],
        ),
    )
    return [(label, *numbers, MISSING, MISSING) for label, numbers in rows]


def _count_tokens(results: Results, split: str) -> tuple[float, ...]:
    """Tokens, words and tokens in mentions; nothing where the split was not aligned."""
    names = ("tokens", "aligned_words", "tokens_in_mentions")
    found = [_value(results, name, split) for name in names]
    return tuple(value for value in found if value is not None)


def build_entity_types(results: Results) -> Table:
    """Named entity spans of each type, the most frequent first."""
    splits = _splits(results)
    totals = {
        read_condition(row.condition)["label"]: row.value or 0
        for row in results.frame.find(step=STEP, measure="named_entities", split=TOTAL)
    }

    def row(label: str) -> tuple[Cell, ...]:
        about = write_condition(label=label)
        counts = (_value(results, "named_entities", split, about) for split in splits)
        return (label, *(Number(count or 0, 0) for count in counts))

    return Table(
        name="entity_types",
        title="Named entity spans by type",
        columns=("Type", *splits),
        rows=tuple(map(row, sorted(totals, key=lambda label: (-totals[label], label)))),
        measures="What the named entity recogniser of table 5 has to find.",
    )


def build_example(results: Results) -> Table:
    """Table 1: the words X of a passage over their entities E (";" for none), and the tokens that
    they become.
    """
    example = results.pictures.example
    return Table(
        name="table1",
        title=f"Table 1: an aligned example{f' ({example.document})' if example else ''}",
        columns=("", *(f"{i + 1}" for i in range(COLUMNS_PER_LINE))),
        rows=_example_rows(example) if example else (),
        measures=(
            "What the models read: words (X), the entity each is part of (E, “;” for none) and the"
            " tokens of each word (T); all tokens of a word carry its entity."
        ),
        note=(
            "As in the paper's table 1, ids are local to the document and nested mentions are"
            " resolved to one id per word."
        ),
    )


def _example_rows(example: Example) -> tuple[tuple[Cell, ...], ...]:
    rows: list[tuple[Cell, ...]] = []
    for start in range(0, example.table_words, COLUMNS_PER_LINE):
        end = min(start + COLUMNS_PER_LINE, example.table_words)
        at, fill = range(start, end), ("",) * (COLUMNS_PER_LINE - (end - start))
        tokens = ("·".join(token.strip() for token in example.tokens[i]) for i in at)
        rows.append((f"X {start + 1}:{end}", *(example.words[i] for i in at), *fill))
        rows.append((f"E {start + 1}:{end}", *(str(example.entities[i] or ";") for i in at), *fill))
        rows.append((f"T {start + 1}:{end}", *tokens, *fill))
    return tuple(rows)
