"""The text: statistics of the corpus (section 4.2) and the aligned example (table 1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pandas as pd

from entity_transformers.report import paper
from entity_transformers.report.pivot import Part
from entity_transformers.report.results import GENERATED, Results
from entity_transformers.report.table import MISSING, Cell, Number, Table

STEP, TOTAL, PASSAGES = "corpus", "total", "passages"
SPLITS = ("train", "dev", "test", "test2")
WIDE = 12
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
    "named_entities": "Named entity spans",
    "lost_mentions": "Mentions lost ({nesting})",
    "lost_chains": "Chains lost ({nesting})",
    "lost_words": "Words lost ({nesting})",
}
WITHIN = ("words_in_mentions", "kept_words_in_mentions", "tokens_in_mentions")
NOUNS = ["nouns", "proper_nouns"]
GROUPS = {
    "Common nouns": ["nouns"],
    "Proper nouns": ["proper_nouns"],
    "Pronouns": ["pronouns"],
    "Nouns, proper nouns and pronouns together": [*NOUNS, "pronouns"],
}
TARGETS = {
    "common nouns": ["nouns"],
    "proper nouns": ["proper_nouns"],
    "common and proper nouns together": NOUNS,
    "pronouns": ["pronouns"],
}
PRINTED: dict[str, Mapping[str, float]] = {
    COUNTS["words"]: paper.WORDS,
    COUNTS["chains"]: paper.CHAINS,
    list(GROUPS)[-1]: paper.NOUN_PRONOUN_SHARE,
}
"""The paper's numbers for train and test, by quantity."""
NOTES = {
    COUNTS["kept_mentions"]: (
        "“Kept” counts what remains after nested mentions have been resolved; “lost” counts the"
        " mentions that were dropped, the chains left without a mention, and the words left without"
        " an entity."
    ),
    list(GROUPS)[-1]: (
        "Shares of parts of speech are relative to the words whose part of speech is known."
    ),
}
"""Notes on rows, added to the table if it shows the row."""


def read_counts(results: Results) -> pd.DataFrame:
    """Return counts by measure and group of parts of speech ("": all words), with a column for each
    split of the corpus and for `TOTAL`; a missing count is NaN.
    """
    found = results.frame.find(STEP)
    names = found.reindex(columns=["measure", "group", "nesting", "split"])
    rows = names.astype(object).fillna("").assign(value=found["value"])
    rows = rows[rows["nesting"].isin(["", results.nesting])]
    counts = rows.pivot_table("value", ["measure", "group"], "split", "sum")
    there = counts.loc["words", ""].dropna()
    counts = counts.reindex(columns=[*(split for split in SPLITS if split in there), TOTAL])
    parts = counts.drop(columns=TOTAL).sum(axis=1, min_count=1)
    return counts.fillna({TOTAL: parts})


def list_rows(results: Results) -> Iterator[tuple[str, pd.Series, int, bool]]:
    """Yield each quantity, its values by split, the decimals shown and whether it is a share."""
    counts = read_counts(results)
    words, whole = counts.loc["words"], counts.xs("", level="group").T
    whole = whole.reindex(columns=[*COUNTS, *WITHIN, "aligned_words", "tokens"])
    for name, label in COUNTS.items():
        yield label.format(nesting=results.nesting), whole[name], 0, False
    yield "Words in mentions", whole.words_in_mentions / whole.words, 1, True
    yield "Words in kept mentions", whole.kept_words_in_mentions / whole.words, 1, True
    known = words.drop(["", "unknown"], errors="ignore").sum()
    for label, groups in GROUPS.items():
        yield label, words.reindex(groups).sum() / known, 1, True
    yield "Tokens", whole.tokens, 0, False
    yield "Tokens per word", whole.tokens / whole.aligned_words, 2, False
    yield "Tokens in mentions", whole.tokens_in_mentions / whole.tokens, 1, True


def list_passages(results: Results, splits: int) -> Iterator[tuple[Cell, ...]]:
    """Yield rows on LAMBADA's passages and the parts of speech of their target words, with values
    in the last of ``splits`` columns; yield nothing if the step did not run.
    """
    found = results.frame.find(PASSAGES, measure="passages")["value"]
    if found.empty:
        return
    blank, of = [""] * (splits - 1), "Generated" if results.passages == GENERATED else "LAMBADA"
    yield (f"{of} passages", *blank, Number(found.iloc[0], 0), MISSING, MISSING)
    rows = results.frame.find(PASSAGES, measure="target_share")
    shares = dict(zip(rows.get("group", ()), rows["value"], strict=True))
    for label, groups in TARGETS.items() if shares else ():
        noun = Number(paper.LAMBADA_NOUN_SHARE, 0, percent=True) if groups == NOUNS else MISSING
        ours = Number(sum(shares[group] for group in groups), 1, percent=True)
        yield (f"{of} targets: {label}", *blank, ours, MISSING, noun)


def describe_tagger(results: Results) -> str:
    """Say how the target words' parts of speech were found, and how far they can be trusted."""
    rows = results.frame.find(PASSAGES, split="dev", words="last", measure="tagger_accuracy")
    return "".join(
        "The parts of speech of the passages' targets come from a tagger trained on the training"
        f" split, which is right for {value:.1%} of the last words of dev's sentences ({count:,})."
        for value, count in zip(rows["value"], rows["count"], strict=True)
    )


def build_corpus(results: Results) -> Table:
    """Build the table of section 4.2: the size of the corpus, its mentions and parts of speech
    beside the paper's numbers. Quantities that no split has are left out.
    """
    rows, splits = list[tuple[Cell, ...]](), list[str]()
    for label, values, digits, percent in list_rows(results):
        splits = [*values.index]
        if values.fillna(0).any():
            known = values.astype(object).where(values.notna(), None)
            printed = PRINTED.get(label, {})
            of_paper = (Number(printed.get(s), 0, percent=percent) for s in ("train", "test"))
            ours = (Number(value, digits, percent=percent) for value in known)
            rows.append((label, *ours, *of_paper))
    notes = [NOTES[label] for label in NOTES if label in [row[0] for row in rows]]
    if results.second_test:
        notes.append(f"Split test2 is another data set, {results.second_test}.")
    return Table(
        name="corpus",
        title="Corpus statistics (section 4.2)",
        columns=("Quantity", *splits, "Paper, train", "Paper, test"),
        rows=(*rows, *list_passages(results, len(splits))),
        measures="How much text there is, and how much of it refers to entities.",
        paper_note="""The paper's numbers of “entity mentions” are the numbers of chains in
            CoNLL-2012.""",
        note=" ".join((*notes, describe_tagger(results))),
    )


def build_example(results: Results) -> Table:
    """Build table 1: the words X of a passage above their entities E (";" for none) and the tokens
    T that they become.
    """
    example, rows = results.pictures.example, list[tuple[str, ...]]()
    shown = example.table_words if example else 0
    for start in range(0, shown, WIDE):
        assert example is not None
        end = min(start + WIDE, shown)
        lines = {
            "X": example.words[start:end],
            "E": [str(entity or ";") for entity in example.entities[start:end]],
            "T": ["·".join(map(str.strip, one)) for one in example.tokens[start:end]],
        }
        fill = ("",) * (start + WIDE - end)
        rows += ((f"{name} {start + 1}:{end}", *cells, *fill) for name, cells in lines.items())
    return Table(
        name="table1",
        title=f"Table 1: an aligned example{f' ({example.document})' if example else ''}",
        columns=("", *(f"{i + 1}" for i in range(WIDE))),
        rows=tuple(rows),
        measures="""What the models read: the words (X), the entity that each word refers to (E,
            with “;” for none) and the tokens of each word (T). Entities are numbered within each
            document.""",
    )


PARTS = (Part(STEP, (build_corpus, build_example)),)
