"""The text: statistics of the corpus (section 4.2), entity types, the aligned example (table 1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import fsum

from entity_transformers.report import paper
from entity_transformers.report.frame import at
from entity_transformers.report.pivot import Part
from entity_transformers.report.results import GENERATED, Results
from entity_transformers.report.table import MISSING, Cell, Number, Table

STEP, TOTAL, PASSAGES = "corpus", "total", "passages"
SPLITS = ("train", "dev", "test", "test2")
COLUMNS_PER_LINE = 12
COUNTS = {
    "documents": "Documents",
    "documents_without_named_entities": "Documents without named entity annotation",
    "sentences": "Sentences",
    "words": "Words",
    "chains": "Chains",
    "mentions": "Mentions",
    "nested_mentions": "Mentions inside another",
    "crossing_mentions": "Mentions that cross another",
    "merged_spans": "Spans listed in two chains (merged)",
    "kept_chains": "Chains kept",
    "kept_mentions": "Mentions kept",
    "words_in_several_mentions": "Words in several mentions",
}
NOUNS = ("nouns", "proper_nouns")
GROUPS = {
    "Common nouns": ("nouns",),
    "Proper nouns": ("proper_nouns",),
    "Pronouns": ("pronouns",),
    "Nouns, proper nouns and pronouns together": (*NOUNS, "pronouns"),
}
TARGETS = {
    "common nouns": ("nouns",),
    "proper nouns": ("proper_nouns",),
    "common and proper nouns together": NOUNS,
    "pronouns": ("pronouns",),
}
PRINTED: dict[str, tuple[Mapping[str, float], bool]] = {
    COUNTS["words"]: (paper.WORDS, False),
    COUNTS["chains"]: (paper.CHAINS, False),
    list(GROUPS)[-1]: (paper.NOUN_PRONOUN_SHARE, True),
}
"""What the paper prints of train and test, and whether it is a share."""
NOTES: Mapping[Cell, str] = {
    COUNTS["kept_mentions"]: (
        "“Kept” counts what remains after nested mentions are resolved, “lost” what that costs."
    ),
    list(GROUPS)[-1]: "Parts of speech: of the words with a known one.",
}
"""What is said of rows where they are shown."""
Values = Mapping[str, float | None]
"""A quantity by split."""


def list_splits(results: Results) -> tuple[str, ...]:
    """The splits of the corpus, and `TOTAL`."""
    there = results.frame.distinct("split", STEP, measure="words")
    return (*(split for split in SPLITS if split in there), TOTAL)


def _by(results: Results, column: str, step: str, **where: str) -> dict[str, float]:
    """Values by what a column has."""
    rows = results.frame.find(step, **where)
    rows = rows[rows[column] != ""] if column in rows else rows.iloc[:0]
    return dict(zip(rows.get(column, ()), rows["value"], strict=True))


def _list_rows(results: Results) -> Iterator[tuple[str, Values, int, bool]]:
    """Quantity, its values, decimals shown, and whether it is a share."""
    splits, nesting = list_splits(results), results.nesting

    def count(measure: str, **about: str) -> Values:
        return {split: results.value(at(STEP, measure, split, **about)) for split in splits}

    def add_up(measure: str) -> Values:
        own = {split: value for split, value in count(measure).items() if value is not None}
        return {**own, TOTAL: fsum(own.values()) if own else None}

    def divide(parts: Values, whole: Values) -> Values:
        pairs = {split: (parts.get(split), whole.get(split)) for split in splits}
        return {s: a / b if a is not None and b else None for s, (a, b) in pairs.items()}

    for name, label in COUNTS.items():
        yield label, count(name), 0, False
    named = {s: _by(results, "label", STEP, measure="named_entities", split=s) for s in splits}
    yield "Named entity spans", {s: sum(n.values()) or None for s, n in named.items()}, 0, False
    for name in ("mentions", "chains", "words"):
        lost = count(f"lost_{name}", nesting=nesting)
        yield f"{name.capitalize()} lost ({nesting})", lost, 0, False
    words = count("words")
    yield "Words in mentions", divide(count("words_in_mentions"), words), 1, True
    yield "Words in kept mentions", divide(count("kept_words_in_mentions"), words), 1, True
    tags = {s: _by(results, "group", STEP, measure="words", split=s) for s in splits}
    known = {s: fsum(n for tag, n in of.items() if tag != "unknown") for s, of in tags.items()}
    for label, groups in GROUPS.items():
        parts = {s: fsum(of.get(group, 0) for group in groups) for s, of in tags.items()}
        yield label, divide(parts, known), 1, True
    tokens = add_up("tokens")
    yield "Tokens", tokens, 0, False
    yield "Tokens per word", divide(tokens, add_up("aligned_words")), 2, False
    yield "Tokens in mentions", divide(add_up("tokens_in_mentions"), tokens), 1, True


def _list_passages(results: Results, splits: int) -> Iterator[tuple[Cell, ...]]:
    """LAMBADA's passages, their number in the last of ``splits`` columns; none where the step did
    not run.
    """
    passages = results.value(at(PASSAGES, "passages", "lambada"))
    if passages is None:
        return
    blank, of = [""] * (splits - 1), "Generated" if results.passages == GENERATED else "LAMBADA"
    yield (f"{of} passages", *blank, Number(passages, 0), MISSING, MISSING)
    shares = _by(results, "group", PASSAGES, measure="target_share")
    for label, groups in TARGETS.items() if shares else ():
        noun = Number(paper.LAMBADA_NOUN_SHARE, 0, percent=True) if groups == NOUNS else MISSING
        ours = Number(fsum(shares[group] for group in groups), 1, percent=True)
        yield (f"{of} targets: {label}", *blank, ours, MISSING, noun)


def _describe_tagger(results: Results) -> str:
    """How the target words' parts of speech were found, and how far they can be trusted."""
    about = {"words": "last", "measure": "tagger_accuracy"}
    overall = results.frame.find(PASSAGES, split="dev", **about)
    if not len(overall):
        return ""
    right, asked = Number(overall["value"].iloc[0], 1, percent=True), overall["count"].iloc[0]
    return (
        "Those of the passages' targets are from a tagger trained on the training split, which"
        f" gets {right} of the last words of dev's sentences ({asked:,}) right."
    )


def build_corpus(results: Results) -> Table:
    """Section 4.2: the size of the corpus, its mentions and parts of speech, each with what the
    paper prints; what no split has is left out.
    """
    splits, rows = list_splits(results), list[tuple[Cell, ...]]()
    for label, values, digits, percent in _list_rows(results):
        if not any(values.values()):
            continue
        printed, share = PRINTED.get(label, ({}, False))
        rows.append(
            (
                label,
                *(Number(values.get(split), digits, percent=percent) for split in splits),
                *(Number(printed.get(split), 0, percent=share) for split in ("train", "test")),
            )
        )
    tagger = _describe_tagger(results)
    return Table(
        name="corpus",
        title="Corpus statistics (section 4.2)",
        columns=("Quantity", *splits, "Paper, train", "Paper, test"),
        rows=(*rows, *_list_passages(results, len(splits))),
        measures="How much text there is, and how much of it refers to entities.",
        paper_note="""What the paper calls “entity mentions” are the numbers of chains in
            CoNLL-2012.""",
        note=" ".join((*(NOTES[row[0]] for row in rows if row[0] in NOTES), tagger)),
    )


def build_example(results: Results) -> Table:
    """Table 1: the words X of a passage over their entities E (";" for none), and the tokens T that
    they become.
    """
    example, rows = results.pictures.example, list[tuple[str, ...]]()
    for start in range(0, example.table_words if example else 0, COLUMNS_PER_LINE):
        assert example is not None
        part = slice(start, min(start + COLUMNS_PER_LINE, example.table_words))
        lines = {
            "X": example.words[part],
            "E": [str(entity or ";") for entity in example.entities[part]],
            "T": ["·".join(token.strip() for token in one) for one in example.tokens[part]],
        }
        for name, cells in lines.items():
            fill = ("",) * (COLUMNS_PER_LINE - len(cells))
            rows.append((f"{name} {start + 1}:{part.stop}", *cells, *fill))
    return Table(
        name="table1",
        title=f"Table 1: an aligned example{f' ({example.document})' if example else ''}",
        columns=("", *(f"{i + 1}" for i in range(COLUMNS_PER_LINE))),
        rows=tuple(rows),
        measures="""What the models read: words (X), the entity each is part of (E, “;” for none)
            and the tokens of each word (T). Entities are numbered by document.""",
    )


PARTS = (Part(STEP, "The text", (build_corpus, build_example)),)
