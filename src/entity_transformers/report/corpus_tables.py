"""Tables about the text and the models: section 4.2's statistics, entity types, table 1,
parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from entity_transformers.report import paper
from entity_transformers.report.cells import MISSING, Cell, Number, Table, show
from entity_transformers.report.results import Results, name_model
from entity_transformers.report.spans import Example

Stats = Mapping[str, Any]
COLUMNS_PER_LINE = 12


def build_corpus(results: Results) -> Table:
    """Section 4.2: the size of the corpus, its mentions and parts of speech, each with what the
    paper prints.
    """
    splits = _splits(results)
    rows = [_count_row(results, splits, label, keys) for label, keys in _COUNTS]
    rows += [_lost_row(results, splits, loss) for loss in ("mentions", "chains", "words")]
    rows += [_share_row(results, splits, label, share) for label, share in _SHARES]
    rows += [_token_row(results, splits, label, value) for label, value in _TOKENS]
    rows.append(
        (
            "LAMBADA passages",
            *("" for _ in splits[:-1]),
            Number(results.lambada_passages, 0),
            MISSING,
            MISSING,
        )
    )
    rows += [_target_row(results, splits, label, groups) for label, groups in _TARGETS]
    return Table(
        name="corpus",
        title="Corpus statistics (section 4.2)",
        columns=("Quantity", *splits, "Paper, train", "Paper, test"),
        rows=tuple(rows),
        measures="How much text there is, and how much of it refers to entities.",
        note=(
            "The paper calls 35,143 and 4,532 “entity mentions”; for CoNLL-2012 these are the"
            " numbers of chains, so they stand in that row. Its 90% is the share of nouns, proper"
            " nouns and pronouns among the words. Shares of parts of speech are of the words whose"
            " part of speech is known; “kept” counts what remains after nested mentions are"
            " resolved, “lost” what that costs: mentions, chains left without any, and words left"
            " without an entity. Merged spans are not lost. "
        )
        + _describe_tagger(results),
    )


def _splits(results: Results) -> tuple[str, ...]:
    order = ("train", "dev", "test", "test2")
    found = (results.statistics or {}).get("splits", {})
    return (*(split for split in order if split in found), "total")


def _stats(results: Results, split: str) -> Stats:
    statistics = results.statistics or {}
    return (
        statistics.get("total", {})
        if split == "total"
        else statistics.get("splits", {}).get(split, {})
    )


def _count_row(results: Results, splits: tuple[str, ...], label: str, key: str) -> tuple[Cell, ...]:
    printed = {"words": paper.WORDS, "chains": paper.CHAINS}.get(key, {})
    ours = (Number(_count(_stats(results, split), key), 0) for split in splits)
    return (label, *ours, Number(printed.get("train"), 0), Number(printed.get("test"), 0))


def _count(stats: Stats, key: str) -> int | None:
    value = stats.get(key)
    return sum(value.values()) if isinstance(value, Mapping) else value


def _lost_row(results: Results, splits: tuple[str, ...], loss: str) -> tuple[Cell, ...]:
    policy = (results.statistics or {}).get("nesting", "nesting")
    counts = (_stats(results, split).get("lost", {}).get(policy, {}) for split in splits)
    return (
        f"{loss.capitalize()} lost ({policy})",
        *(Number(count.get(loss), 0) for count in counts),
        MISSING,
        MISSING,
    )


def _share_row(
    results: Results, splits: tuple[str, ...], label: str, share: Callable[[Stats], float | None]
) -> tuple[Cell, ...]:
    printed = paper.NOUN_PRONOUN_SHARE if label == _TOGETHER else {}
    ours = (Number(share(_stats(results, split)), 1, percent=True) for split in splits)
    return (
        label,
        *ours,
        *(Number(printed.get(split), 0, percent=True) for split in ("train", "test")),
    )


def _of_words(key: str) -> Callable[[Stats], float | None]:
    return lambda stats: _ratio(stats.get(key), stats.get("words"))


def _of_tags(*names: str) -> Callable[[Stats], float | None]:
    def share(stats: Stats) -> float | None:
        pos = stats.get("pos") or {}
        return _ratio(
            sum(pos.get(name, 0) for name in names),
            sum(n for name, n in pos.items() if name != "unknown"),
        )

    return share


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
    ("Named entity spans", "ne_spans"),
)
_SHARES = (
    ("Words in mentions", _of_words("words_in_mentions")),
    ("Words in kept mentions", _of_words("kept_words_in_mentions")),
    ("Common nouns", _of_tags("nouns")),
    ("Proper nouns", _of_tags("proper_nouns")),
    ("Pronouns", _of_tags("pronouns")),
    (_TOGETHER, _of_tags("nouns", "proper_nouns", "pronouns")),
)
_TOKENS: tuple[tuple[str, Callable[[Stats], Number]], ...] = (
    ("Tokens", lambda a: Number(a.get("tokens"), 0)),
    ("Tokens per word", lambda a: Number(_ratio(a.get("tokens"), a.get("words")), 2)),
    (
        "Tokens in mentions",
        lambda a: Number(_ratio(a.get("tokens_in_mentions"), a.get("tokens")), 1, percent=True),
    ),
)


def _token_row(
    results: Results, splits: tuple[str, ...], label: str, value: Callable[[Stats], Number]
) -> tuple[Cell, ...]:
    alignment = results.alignment or {}
    present = [alignment[split] for split in splits if split in alignment]
    total = (
        {
            key: sum(part[key] for part in present)
            for key in ("tokens", "words", "tokens_in_mentions")
        }
        if present
        else {}
    )
    return (
        label,
        *(value(total if split == "total" else alignment.get(split, {})) for split in splits),
        MISSING,
        MISSING,
    )


def _target_row(
    results: Results, splits: tuple[str, ...], label: str, groups: tuple[str, ...]
) -> tuple[Cell, ...]:
    shares = (results.lambada_tags or {}).get("shares")
    printed = Number(paper.LAMBADA_NOUN_SHARE, 0, percent=True) if groups == _NOUNS else MISSING
    ours = Number(sum(shares[group] for group in groups) if shares else None, 1, percent=True)
    return (f"LAMBADA targets: {label}", *("" for _ in splits[:-1]), ours, MISSING, printed)


def _describe_tagger(results: Results) -> str:
    tags = results.lambada_tags or {}
    if not tags.get("shares"):
        return (
            "The parts of speech of LAMBADA's targets are left out: the training split has none to"
            " learn them from."
        )
    scores, blind = (
        tags["dev"]["last_words"],
        (", without capitals as LAMBADA has none" if tags["lower_case"] else ""),
    )
    found = [(label, scores["groups"][group]) for label, group in _GROUPS]
    right = ", ".join(
        f"{label} {Number(score['recall'], 1, percent=True)} of {score['n']:,}"
        for label, score in found
        if score["n"]
    )
    checked = (
        f"it gets {Number(scores['accuracy'], 1, percent=True)} of {scores['n']:,} right: {right}"
        if right
        else "none has a tag"
    )
    return (
        "The parts of speech of LAMBADA's targets are those of a tagger trained on the training"
        f" split{blind}; they are not corrected for its errors. Of the last words of dev's"
        f" sentences {checked}."
    )


_GROUPS = (
    ("common nouns", "nouns"),
    ("proper nouns", "proper_nouns"),
    ("pronouns", "pronouns"),
    ("others", "other"),
)
_NOUNS = ("nouns", "proper_nouns")
_TARGETS = (
    ("common nouns", ("nouns",)),
    ("proper nouns", ("proper_nouns",)),
    ("common and proper nouns together", _NOUNS),
    ("pronouns", ("pronouns",)),
)


def build_entity_types(results: Results) -> Table:
    """Named entity spans of each type, the most frequent first."""
    splits = _splits(results)
    types = (_stats(results, "total").get("ne_spans") or {}).items()
    order = [label for label, _ in sorted(types, key=lambda item: (-item[1], item[0]))]
    rows = tuple(
        (
            label,
            *(
                Number((_stats(results, split).get("ne_spans") or {}).get(label, 0), 0)
                for split in splits
            ),
        )
        for label in order
    )
    return Table(
        name="entity_types",
        title="Named entity spans by type",
        columns=("Type", *splits),
        rows=rows,
        measures="What the named entity recogniser of table 5 has to find.",
    )


def build_example(results: Results) -> Table:
    """Table 1: the words X of a passage over their entities E (";" for none), and the tokens that
    they become.
    """
    rows = _example_rows(results.example) if results.example else ()
    return Table(
        name="table1",
        title=(
            "Table 1: an aligned"
            f" example{f' ({results.example.document})' if results.example else ''}"
        ),
        columns=("", *(f"{i + 1}" for i in range(COLUMNS_PER_LINE))),
        rows=rows,
        measures=(
            "What the models read: words (X), the entity each is part of (E, “;” for none) and the"
            " tokens of each word (P); all tokens of a word carry its entity."
        ),
        note=(
            "As in the paper's table 1, ids are local to the document and nested mentions are"
            " resolved to one id a word."
        ),
    )


def _example_rows(example: Example) -> tuple[tuple[Cell, ...], ...]:
    rows: list[tuple[Cell, ...]] = []
    for start in range(0, example.table_words, COLUMNS_PER_LINE):
        end = min(start + COLUMNS_PER_LINE, example.table_words)
        at, fill = range(start, end), ("",) * (COLUMNS_PER_LINE - (end - start))
        rows.append((f"X {start + 1}:{end}", *(example.words[i] for i in at), *fill))
        rows.append((f"E {start + 1}:{end}", *(str(example.entities[i] or ";") for i in at), *fill))
        rows.append(
            (
                f"P {start + 1}:{end}",
                *("·".join(token.strip() for token in example.tokens[i]) for i in at),
                *fill,
            )
        )
    return tuple(rows)


def build_models(results: Results) -> Table:
    """Size and training of every model."""

    def row(model: str) -> tuple[Cell, ...]:
        trained = (
            show(results.statistic(model, _read("training", key)), digits)
            for key, digits in _TRAINED
        )
        timed = (
            show(results.statistic(model, _read("timing", key)), digits) for key, digits in _TIMED
        )
        return (name_model(model), Number(len(results.of(model)), 0), *trained, *timed)

    return Table(
        name="models",
        title="The models and their training",
        columns=(
            "Model",
            "Seeds",
            "Parameters",
            "Steps",
            "Tokens seen",
            "Best dev loss",
            "at step",
            "Skipped steps",
            "s / step",
            "Tokens / s",
        ),
        rows=tuple(row(model) for model in results.trained),
        measures=(
            "Controls are GPT2E trained without labels (null), with labels permuted among a"
            " document's mentions (shuffled) or without a label on first mentions (first-only), and"
            " GPT2 with as many parameters as GPT2E (wide)."
        ),
        note=(
            f"The paper trains GPT2-small ({paper.PARAMETERS / 1e6:.0f} M parameters) for"
            f" {paper.TRAINING_STEPS:,} steps. Losses are in nats per token."
        ),
    )


_TRAINED = (
    ("parameters", 0),
    ("steps", 0),
    ("tokens_seen", 0),
    ("best_dev_loss", 4),
    ("best_step", 0),
    ("skipped_steps", 0),
)
_TIMED = (("seconds_per_step", 3), ("tokens_per_second", 0))


def _read(section: str, key: str) -> Callable[[Any], float | None]:
    return lambda run: getattr(run, section)[key]
