"""Word analogies and word similarity of static vectors."""

from __future__ import annotations

from collections.abc import Iterator

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.cells import Cell, Number, Table, show
from entity_transformers.report.frame import Key, Row, read_condition, write_condition
from entity_transformers.report.measures import Tree
from entity_transformers.report.results import Results, write_label

UNITS = {
    "analogies": "fraction of the questions that are known",
    "analogies_known": "fraction of the questions",
    "word_similarity": "Spearman correlation",
    "word_similarity_known": "fraction of the pairs",
}
STEP = "analogies"
GROUPS = ("meaning", "grammar")


def measure(tree: Tree) -> Iterator[Row]:
    """analogies.json of every run: right answers by section and group, correlations by list, and
    how much of each the vectors have words for.
    """
    for model, seed, found in tree.each(STEP, "analogies.json"):
        scores = [("section", found["sections"]), ("group", found["groups"])]
        for kind, parts in scores:
            for name, score in parts.items():
                where = write_condition(**{kind: name})
                known, asked = score["known"], score["asked"]
                right = score["right"] / known if known else None
                yield Row(STEP, "analogies", right, "", where, known, model, seed)
                yield Row(STEP, "analogies_known", known / asked, "", where, asked, model, seed)
        for name, score in found["pairs"].items():
            where = write_condition(list=name)
            known, asked = score["known"], score["asked"]
            yield Row(STEP, "word_similarity", score["spearman"], "", where, known, model, seed)
            yield Row(STEP, "word_similarity_known", known / asked, "", where, asked, model, seed)


def build_analogies(results: Results) -> Table:
    """A row per model: right answers on meaning and on grammar, and the correlations."""
    found = results.frame.distinct("condition", step=STEP, measure="word_similarity")
    lists = [read_condition(condition)["list"] for condition in found]
    return Table(
        name="analogies",
        title="Words alone: analogies and similarity",
        columns=(
            "Model",
            *(text for group in GROUPS for text in (f"Analogies, {group}", "of them known")),
            *(text for name in lists for text in (f"{name}, Spearman", "of the pairs known")),
        ),
        rows=tuple(_row(results, model, lists) for model in results.measured(STEP)),
        measures=(
            "Right answers to a is to b as c is to what, and the rank correlation of cosines with"
            " what people said of the similarity of two words."
        ),
        note=(
            "Questions of Mikolov et al. (2013), pairs of WordSim-353 and SimLex-999; only those"
            " whose words are all known count, so that rows with other shares of known ones do not"
            " compare. Capitals are ignored."
        ),
    )


def _row(results: Results, model: ModelEntry, lists: list[str]) -> tuple[Cell, ...]:
    def cell(name: str, digits: int, percent: bool, **where: str) -> Number:
        key = Key(STEP, name, "", write_condition(**where))
        return show(results.statistic(model, key), digits, percent)

    cells: list[Cell] = [write_label(model)]
    for group in GROUPS:
        cells.append(cell("analogies", 1, True, group=group))
        cells.append(cell("analogies_known", 1, True, group=group))
    for name in lists:
        cells.append(cell("word_similarity", 3, False, list=name))
        cells.append(cell("word_similarity_known", 1, True, list=name))
    return tuple(cells)
