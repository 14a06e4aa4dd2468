"""The text: statistics of the corpus (section 4.2), entity types, the aligned example (table 1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import fsum

from entity_transformers.report import paper
from entity_transformers.report.frame import at
from entity_transformers.report.pivot import Axis, Line, Measure, Pivot, Place
from entity_transformers.report.results import GENERATED, Results
from entity_transformers.report.table import MISSING, Cell, Number, Table

TITLE, STEP, TOTAL, PASSAGES = "The text", "corpus", "total", "passages"
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
    "named_entities": "Named entity spans",
}
SHARES = {
    "words_in_mentions": "Words in mentions",
    "kept_words_in_mentions": "Words in kept mentions",
}
NOUNS = ("nouns", "proper_nouns")
TOGETHER = "Nouns, proper nouns and pronouns together"
GROUPS = {
    "Common nouns": ("nouns",),
    "Proper nouns": ("proper_nouns",),
    "Pronouns": ("pronouns",),
    TOGETHER: (*NOUNS, "pronouns"),
}
TARGETS = {
    "common nouns": ("nouns",),
    "proper nouns": ("proper_nouns",),
    "common and proper nouns together": NOUNS,
    "pronouns": ("pronouns",),
}
TAGGED = {
    "nouns": "common nouns",
    "proper_nouns": "proper nouns",
    "pronouns": "pronouns",
    "other": "others",
}


def _value(results: Results, measure: str, split: str, **about: str) -> float | None:
    return results.value(at(STEP, measure, split, **about))


def _by(results: Results, column: str, step: str, **where: str) -> dict[str, float]:
    """Values by what a column has."""
    rows = results.frame.find(step, **where)
    if column not in rows:
        return {}
    rows = rows[rows[column] != ""]
    return dict(zip(rows[column], rows["value"], strict=True))


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _splits(results: Results) -> tuple[str, ...]:
    there = results.frame.distinct("split", STEP, measure="words")
    return (*(split for split in SPLITS if split in there), TOTAL)


def build_corpus(results: Results) -> Table:
    """Section 4.2: the size of the corpus, its mentions and parts of speech, each with what the
    paper prints.
    """
    splits = _splits(results)
    return Table(
        name="corpus",
        title="Corpus statistics (section 4.2)",
        columns=("Quantity", *splits, "Paper, train", "Paper, test"),
        rows=(*_list_rows(results, splits), *_list_passages(results, len(splits))),
        measures="How much text there is, and how much of it refers to entities.",
        paper_note=(
            "The paper calls 35,143 and 4,532 “entity mentions”; for CoNLL-2012 these are the"
            " numbers of chains, so they stand in that row. Its 90% is the share of nouns, proper"
            " nouns and pronouns among the words."
        ),
        note=(
            "Shares of parts of speech are of the words whose part of speech is known; “kept”"
            " counts what remains after nested mentions are resolved, “lost” what that costs:"
            " mentions, chains left without any, and words left without an entity. Merged spans are"
            f" not lost. {_describe_tagger(results)}"
        ),
    )


def _list_rows(results: Results, splits: tuple[str, ...]) -> Iterator[tuple[Cell, ...]]:
    def row(
        label: str, numbers: Mapping[str, float | None], digits: int = 0, percent: bool = False
    ) -> tuple[Cell, ...]:
        cells = (Number(numbers.get(split), digits, percent=percent) for split in splits)
        return (label, *cells, *printed.get(label, (MISSING, MISSING)))

    printed = {
        COUNTS[name]: tuple(Number(numbers[split], 0) for split in ("train", "test"))
        for name, numbers in (("words", paper.WORDS), ("chains", paper.CHAINS))
    }
    shares = paper.NOUN_PRONOUN_SHARE
    printed[TOGETHER] = tuple(Number(shares[s], 0, percent=True) for s in ("train", "test"))
    words = {split: _value(results, "words", split) for split in splits}
    labels = {s: _by(results, "label", STEP, measure="named_entities", split=s) for s in splits}
    for name, label in COUNTS.items():
        counts = {split: _value(results, name, split) for split in splits}
        if name == "named_entities":
            counts = {split: sum(of.values()) if of else None for split, of in labels.items()}
        yield row(label, counts)
    for name in ("mentions", "chains", "words"):
        nesting = results.nesting
        lost = {s: _value(results, f"lost_{name}", s, nesting=nesting) for s in splits}
        yield row(f"{name.capitalize()} lost ({nesting})", lost)
    for name, label in SHARES.items():
        parts = {s: _ratio(_value(results, name, s), words[s]) for s in splits}
        yield row(label, parts, 1, percent=True)
    tags = {s: _by(results, "group", STEP, measure="words", split=s) for s in splits}
    known = {s: sum(n for tag, n in tags[s].items() if tag != "unknown") for s in splits}
    for label, groups in GROUPS.items():
        parts = {s: _ratio(sum(tags[s].get(g, 0) for g in groups), known[s]) for s in splits}
        yield row(label, parts, 1, percent=True)
    names = ("tokens", "aligned_words", "tokens_in_mentions")
    aligned = {s: [_value(results, name, s) for name in names] for s in splits if s != TOTAL}
    whole = [[n or 0 for n in of] for of in aligned.values() if of[0] is not None]
    aligned[TOTAL] = [sum(column) for column in zip(*whole, strict=True)] or [None] * 3
    yield row("Tokens", {s: of[0] for s, of in aligned.items()})
    yield row("Tokens per word", {s: _ratio(*of[:2]) for s, of in aligned.items()}, 2)
    inside = {s: _ratio(of[2], of[0]) for s, of in aligned.items()}
    yield row("Tokens in mentions", inside, 1, percent=True)


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
    if not results.ran(PASSAGES):
        return ""
    last = results.frame.find(PASSAGES, split="dev", words="last")
    overall = last[last["measure"] == "tagger_accuracy"]
    if not len(overall) or not _by(results, "group", PASSAGES, measure="target_share"):
        return (
            "The parts of speech of the passages' targets are left out: the training split has none"
            " to learn them from."
        )
    recalls = last[last["measure"] == "tagger_recall"].set_index("group")
    right = ", ".join(
        f"{label} {Number(recalls.value[group], 1, percent=True)} of {recalls['count'][group]:,}"
        for group, label in TAGGED.items()
        if recalls["count"][group]
    )
    whole = overall.iloc[0]
    checked = (
        f"it gets {Number(whole.value, 1, percent=True)} of {whole['count']:,} right: {right}"
        if right
        else "none has a tag"
    )
    lower = whole["case"] == "lower"
    return (
        "The parts of speech of the passages' targets are those of a tagger trained on the training"
        f" split{', without capitals as LAMBADA has none' if lower else ''}; they are not corrected"
        f" for its errors. Of the last words of dev's sentences {checked}."
    )


def _types(results: Results, _: Place) -> Iterator[Line]:
    totals = _by(results, "label", STEP, measure="named_entities", split=TOTAL)
    for label in sorted(totals, key=lambda label: (-totals[label], label)):
        yield (label,), {"label": label}


def _type_columns(results: Results) -> Iterator[Measure]:
    for split in _splits(results):

        def cell(results: Results, place: Place, split: str = split) -> Cell:
            found = _value(results, "named_entities", split, label=place["label"])
            return Number(found or 0, 0)

        yield Measure(split, cell=cell)


TYPES = Pivot(
    name="entity_types",
    title="Named entity spans by type",
    step=STEP,
    rows=(Axis(("Type",), _types),),
    columns=(_type_columns,),
    measures="What the named entity recogniser of table 5 has to find.",
)


def build_example(results: Results) -> Table:
    """Table 1: the words X of a passage over their entities E (";" for none), and the tokens that
    they become.
    """
    example, rows = results.pictures.example, []
    for start in range(0, example.table_words if example else 0, COLUMNS_PER_LINE):
        assert example is not None
        end = min(start + COLUMNS_PER_LINE, example.table_words)
        fill, where = ("",) * (COLUMNS_PER_LINE - (end - start)), f"{start + 1}:{end}"
        tokens = ("·".join(t.strip() for t in one) for one in example.tokens[start:end])
        named = (str(entity or ";") for entity in example.entities[start:end])
        rows.append((f"X {where}", *example.words[start:end], *fill))
        rows.append((f"E {where}", *named, *fill))
        rows.append((f"T {where}", *tokens, *fill))
    return Table(
        name="table1",
        title=f"Table 1: an aligned example{f' ({example.document})' if example else ''}",
        columns=("", *(f"{i + 1}" for i in range(COLUMNS_PER_LINE))),
        rows=tuple(rows),
        measures=(
            "What the models read: words (X), the entity each is part of (E, “;” for none) and the"
            " tokens of each word (T); all tokens of a word carry its entity."
        ),
        note=(
            "As in the paper's table 1, ids are local to the document and nested mentions are"
            " resolved to one id per word."
        ),
    )


TABLES = (build_corpus, TYPES, build_example)
