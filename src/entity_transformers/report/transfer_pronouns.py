"""Fine-tuned models on pronouns: GAP by gender, WinoBias by version."""

from __future__ import annotations

from collections.abc import Iterator

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.cells import Cell, Table, show
from entity_transformers.report.frame import Key, write_condition
from entity_transformers.report.results import Results, summarise, write_label
from entity_transformers.report.shares import compare_pairs, find_pairs
from entity_transformers.report.transfer import STEP, list_trials, with_own_seeds

GENDERS, VERSIONS, TYPES = ("masculine", "feminine"), ("pro", "anti"), ("1", "2")


def _list_rows(
    results: Results, task: str
) -> Iterator[tuple[str, str, str, tuple[str, str, ModelEntry]]]:
    """Task, split and variant of what was scored on one task, whatever it was trained on; then what
    it was trained on and the labels of the row.
    """
    for name, split, variant in list_trials(results):
        own, _, other = name.partition(" after ")
        if own == task:
            for model in results.measured(STEP):
                key = Key(STEP, "accuracy", split, write_condition(task=name, variant=variant))
                if results.has(model, key):
                    yield name, split, variant, (other or own, write_label(model), model)


def build_gap(results: Results) -> Table:
    """GAP's official scores by the pronoun's gender, of models trained on it or on another task."""
    results = with_own_seeds(results)

    def cells(model: ModelEntry, name: str, split: str, variant: str) -> Iterator[Cell]:
        def at(**more: str) -> Key:
            return Key(STEP, "gap_f1", split, write_condition(task=name, variant=variant, **more))

        yield show(results.statistic(model, at()), 1, percent=True)
        masculine, feminine = (results.by_seed(model, at(gender=one)) for one in GENDERS)
        for values in (masculine, feminine):
            yield show(summarise(values.values()), 1, percent=True)
        yield show(summarise(feminine[s] / value for s, value in masculine.items() if value), 2)

    return Table(
        name="transfer_gap",
        title="Fine-tuning: GAP",
        columns=(
            *("Trained on", "Variant", "Model", "Split"),
            *("F1", "F1, masculine", "F1, feminine", "Feminine / masculine"),
        ),
        rows=tuple(
            (trained, variant, label, split, *cells(model, name, split, variant))
            for name, split, variant, (trained, label, model) in _list_rows(results, "gap")
        ),
        measures="Which of two names does a pronoun stand for, after fine-tuning?",
        note=(
            "Webster et al. (2018), by their scorer's definitions; trained on the snippets in which"
            " one of the two names is right. One is always chosen, though in one snippet of nine"
            " neither is."
        ),
    )


def build_winobias(results: Results) -> Table:
    """WinoBias by type and version, of models trained on another task."""
    results = with_own_seeds(results)

    def cells(model: ModelEntry, name: str, split: str, variant: str) -> Iterator[Cell]:
        about = {"task": name, "variant": variant}
        for kind in TYPES:
            for version in VERSIONS:
                condition = write_condition(**about, type_=kind, version=version)
                key = Key(STEP, "accuracy", split, condition)
                yield show(results.statistic(model, key), 1, percent=True)
            condition = write_condition(**about, type_=kind, against="version-anti")
            pairs = find_pairs(results, model, Key(STEP, "only_first", split, condition))
            yield compare_pairs(pairs, results.bootstrap_samples)[0]

    return Table(
        name="transfer_winobias",
        title="Fine-tuning: WinoBias",
        columns=(
            *("Trained on", "Variant", "Model", "Split"),
            *(f"{what}, type {kind}" for kind in TYPES for what in ("Pro", "Anti", "Gap")),
        ),
        rows=tuple(
            (trained, variant, label, split, *cells(model, name, split, variant))
            for name, split, variant, (trained, label, model) in _list_rows(results, "winobias")
        ),
        measures=(
            "Is a pronoun resolved more often where its gender is the stereotypical one of the"
            " right occupation (pro) than where it is not (anti)? The gap is pro minus anti."
        ),
        note=(
            "Zhao et al. (2018). The candidate takes the pronoun's place, so that a gap can only"
            " come from sentences with a second pronoun. Gap: of sentences in both versions, with"
            " an interval that covers those over sentences (paired bootstrap) and over seeds."
        ),
    )
