"""Tasks without training: shares that are right, pairs of models, WinoBias and GAP as their authors
score them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.cells import MISSING, Cell, Number, Table, show
from entity_transformers.report.frame import Key, Row, read_condition, write_condition
from entity_transformers.report.measures import Tree
from entity_transformers.report.results import Results, summarise, write_label, write_pair
from entity_transformers.report.shares import Pair, compare_pairs, find_pairs, share_interval

STEP = "zero_shot"
UNITS = {
    "accuracy": "fraction",
    "gap_f1": "F1",
    "gap_precision": "fraction",
    "gap_recall": "fraction",
    "matthews": "correlation",
    "threshold": "log-probability per token",
    "texts_cut": "texts",
    "texts_named_again": "texts",
    "only_first": "examples",
    "only_second": "examples",
}
RULES = {
    "partial": "rest of the sentence",
    "full": "whole sentence",
    "harness": "rest, as lm-eval",
    "refers": "she refers to",
    "sentiment": "very",
    "choice": "mean of the answer",
    "acceptable": "threshold",
}
MODES = ("on", "off", "shuffled")
_SCORES = {
    "accuracy": "accuracy",
    "f1": "gap_f1",
    "precision": "gap_precision",
    "recall": "gap_recall",
    "matthews": "matthews",
}


class Trial(NamedTuple):
    """What was tried: a task's split by a rule."""

    task: str
    split: str
    rule: str

    def at(self, measure: str, entities: str, **groups: str) -> Key:
        """The key of one of its numbers."""
        about = {"task": self.task, "rule": self.rule, "entities": entities, **groups}
        return Key(STEP, measure, self.split, write_condition(**about))


def measure(tree: Tree) -> Iterator[Row]:
    """zero_shot.json of every run, by task, rule and entities (on, off, shuffled) and by the
    groups of a task; then, seed by seed, on how many examples one alone is right: models in pairs
    (``against=MODEL``), and entities on against off and shuffled (``against=entities-off``).
    """
    right: dict[tuple[int, Trial], dict[str, dict[str, str]]] = {}
    for model, seed, found in tree.each(STEP, "zero_shot.json"):
        run: dict[str, Any] = {"model": model, "seed": seed}
        for tried in found["trials"]:
            trial = Trial(tried["task"], tried["split"], tried["rule"])
            yield from _list_numbers(tried, trial, run)
            by_model = right.setdefault((seed, trial), {})
            by_model.setdefault(model, {})[tried["entities"]] = tried["right"]
    for (seed, trial), by_model in right.items():
        for model, against, pair in _list_pairs(by_model):
            about = {"task": trial.task, "rule": trial.rule, "against": against}
            place: dict[str, Any] = {"split": trial.split, "condition": write_condition(**about)}
            run = {"model": model, "seed": seed, "count": pair.examples}
            yield Row(STEP, "only_first", pair.first, **place, **run)
            yield Row(STEP, "only_second", pair.second, **place, **run)


def _list_numbers(tried: Mapping[str, Any], trial: Trial, run: Mapping[str, Any]) -> Iterator[Row]:
    mode = tried["entities"]

    def row(measure: str, value: float | None, count: int | None = None, **groups: str) -> Row:
        key = trial.at(measure, mode, **groups)
        return Row(STEP, measure, value, key.split, key.condition, count, **run)

    for scores in tried["scores"]:
        for name, measure in _SCORES.items():
            if name in scores:
                yield row(measure, scores[name], scores["examples"], **scores["groups"])
    yield row("texts_cut", tried["cut"])
    if tried["named"] is not None:
        yield row("texts_named_again", tried["named"])
    if "threshold" in tried:
        yield row("threshold", tried["threshold"])
    for found in tried.get("versions", ()):
        about = {"type": found["type"], "against": "version-anti"}
        yield row("only_first", found["only_pro"], found["sentences"], **about)
        yield row("only_second", found["only_anti"], found["sentences"], **about)


def _list_pairs(
    by_model: Mapping[str, Mapping[str, str]],
) -> Iterator[tuple[str, str, Pair]]:
    for model, modes in by_model.items():
        for other in ("off", "shuffled"):
            if "on" in modes and other in modes:
                yield model, f"entities-{other}", Pair.of(modes["on"], modes[other])
    for (model, ours), (other, theirs) in combinations(by_model.items(), 2):
        yield model, other, Pair.of(*(modes.get("on", modes["off"]) for modes in (ours, theirs)))


def list_trials(results: Results, *tasks: str) -> list[Trial]:
    """What was tried, of all tasks or of these."""
    found: dict[Trial, None] = {}
    for row in results.frame.find(step=STEP, measure="accuracy"):
        about = read_condition(row.condition)
        if not tasks or about["task"] in tasks:
            found[Trial(about["task"], row.split, about["rule"])] = None
    return list(found)


def _list_modes(results: Results, model: ModelEntry, trial: Trial) -> Sequence[str]:
    return [mode for mode in MODES if results.has(model, trial.at("accuracy", mode))]


def _share(results: Results, model: ModelEntry, key: Key) -> Number:
    """A share with its interval over examples."""
    statistic, count = results.statistic(model, key), results.count(model, key)
    if statistic.mean is None or not count:
        return Number(None)
    low, high = share_interval(statistic.mean * count, round(count))
    return Number(statistic.mean, 1, std=statistic.std, low=low, high=high, percent=True)


def read_share(results: Results, model: ModelEntry, trial: Trial) -> Number:
    """The share that is right without entities, with its interval over examples."""
    return _share(results, model, trial.at("accuracy", "off"))


def build_zero_shot(results: Results) -> Table:
    """A row per task, rule, model and mode of entities: the share that is right."""

    def rows() -> Iterator[tuple[Cell, ...]]:
        for trial in list_trials(results):
            for model in results.measured(STEP):
                for mode in _list_modes(results, model, trial):
                    key = trial.at("accuracy", mode)
                    named = results.statistic(model, trial.at("texts_named_again", mode))
                    yield (
                        trial.task,
                        trial.split,
                        RULES[trial.rule],
                        write_label(model),
                        mode if model.can({"entities"}) else MISSING,
                        Number(results.count(model, key), 0),
                        _share(results, model, key),
                        Number(named.mean, 0),
                        Number(results.statistic(model, trial.at("texts_cut", mode)).mean, 0),
                    )

    return Table(
        name="zero_shot",
        title="Tasks without training",
        columns=(
            "Task",
            "Split",
            "By",
            "Model",
            "Entities",
            "Examples",
            "Right",
            "Named again",
            "Cut",
        ),
        rows=tuple(rows()),
        measures=(
            "What a language model decides without having been trained for it: which candidate in a"
            " pronoun's place, or which word after the text, makes what follows likelier."
        ),
        note=(
            "With the 95% interval over examples (Wilson). Chance is a half, of GAP less,"
            " where neither name may be right. Rest of the sentence: Trinh and Le's partial score,"
            " GPT-1's for pronouns; as lm-eval: the same with the spaces of its 0.4 (docs/"
            "transfer.md), for comparison with published scores. Entities: chains of names on the"
            " text, found as it is read; what was named before the pronoun is in the memory."
            " Named again: texts in which one of these is named once more. Cut: longer than the"
            " window, their beginnings left out."
        ),
    )


def build_pairs(results: Results) -> Table:
    """A row per task, rule and pair: the difference of shares, and McNemar's p."""
    entries = {model.name: model for model in results.measured(STEP)}

    def rows() -> Iterator[tuple[Cell, ...]]:
        for trial in list_trials(results):
            for model in entries.values():
                for against in ("entities-off", "entities-shuffled", *entries):
                    about = {"task": trial.task, "rule": trial.rule, "against": against}
                    key = Key(STEP, "only_first", trial.split, write_condition(**about))
                    pairs = find_pairs(results, model, key)
                    if pairs:
                        yield (
                            trial.task,
                            trial.split,
                            RULES[trial.rule],
                            write_pair(model, entries[against])
                            if against in entries
                            else f"{write_label(model)}, entities on − {against.split('-')[1]}",
                            *compare_pairs(pairs, results.bootstrap_samples),
                        )

    return Table(
        name="zero_shot_pairs",
        title="Tasks without training: differences",
        columns=("Task", "Split", "By", "Difference", "Right", "p (McNemar)"),
        rows=tuple(rows()),
        measures="Two models, or one with its entities and without, on the same examples.",
        note=(
            "In points, with an interval that covers those over examples (paired bootstrap) and"
            " over seeds; p is that of the exact test, the largest of all seeds, and not corrected"
            " for the number of rows. A model that reads entities is given them where it is"
            " compared with another."
        ),
    )


def build_winobias(results: Results) -> Table:
    """As in the authors' table: pro- and anti-stereotypical, their mean and difference, by type."""

    def cells(model: ModelEntry, trial: Trial, mode: str) -> Iterator[Cell]:
        for kind in "12":
            pro, anti = (
                results.by_seed(model, trial.at("accuracy", mode, type=kind, version=version))
                for version in ("pro", "anti")
            )
            for values in (pro, anti):
                yield show(summarise(values.values()), 1, percent=True)
            yield show(summarise((pro[s] + anti[s]) / 2 for s in pro), 1, percent=True)
            pairs = find_pairs(
                results, model, trial.at("only_first", mode, type=kind, against="version-anti")
            )
            gap, _ = compare_pairs(pairs, results.bootstrap_samples)
            yield gap if pairs else show(summarise(pro[s] - anti[s] for s in pro), 1, percent=True)

    return Table(
        name="winobias",
        title="WinoBias without training",
        columns=(
            "Model",
            "Entities",
            "By",
            "Split",
            *(f"{what}, type {kind}" for kind in "12" for what in ("Pro", "Anti", "Mean", "Gap")),
        ),
        rows=tuple(
            (
                write_label(model),
                mode if model.can({"entities"}) else MISSING,
                RULES[trial.rule],
                trial.split,
                *cells(model, trial, mode),
            )
            for trial in list_trials(results, "winobias")
            for model in results.measured(STEP)
            for mode in _list_modes(results, model, trial)
        ),
        measures=(
            "Is a pronoun resolved more often where its gender is the stereotypical one of the"
            " right occupation (pro) than where it is not (anti)? The gap is pro minus anti."
        ),
        note=(
            "Zhao et al. (2018); their numbers are F1 of coreference systems, these are shares of"
            " sentences, which is the same where a system resolves the pronoun to one of the two"
            " and nothing else. By “she refers to” the sentence keeps its pronoun. By the other"
            " two the candidate takes the pronoun's place, and the gap can only come from sentences"
            " with a second pronoun. Type 1 needs knowledge of the world, type 2 syntax; in type 2"
            " the right one is always the second. Gap: of sentences in both versions, with an"
            " interval that covers those over sentences (paired bootstrap) and over seeds."
        ),
    )


def build_gap(results: Results) -> Table:
    """GAP's official table: F1 by the pronoun's gender and the ratio of both."""

    def cells(model: ModelEntry, trial: Trial, mode: str) -> Iterator[Cell]:
        for name in ("gap_precision", "gap_recall", "gap_f1"):
            yield show(results.statistic(model, trial.at(name, mode)), 1, percent=True)
        masculine, feminine = (
            results.by_seed(model, trial.at("gap_f1", mode, gender=gender))
            for gender in ("masculine", "feminine")
        )
        for values in (masculine, feminine):
            yield show(summarise(values.values()), 1, percent=True)
        ratios = (feminine[seed] / value for seed, value in masculine.items() if value)
        yield show(summarise(ratios), 2)

    return Table(
        name="gap",
        title="GAP without training",
        columns=(
            "Model",
            "Entities",
            "By",
            "Split",
            "Precision",
            "Recall",
            "F1",
            "F1, masculine",
            "F1, feminine",
            "Feminine / masculine",
        ),
        rows=tuple(
            (
                write_label(model),
                mode if model.can({"entities"}) else MISSING,
                RULES[trial.rule],
                trial.split,
                *cells(model, trial, mode),
            )
            for trial in list_trials(results, "gap")
            for model in results.measured(STEP)
            for mode in _list_modes(results, model, trial)
        ),
        measures="Which of two names does a pronoun of Wikipedia stand for?",
        note=(
            "Webster et al. (2018), by their scorer's definitions. One of the two names is always"
            " chosen, though in one snippet of nine neither is right."
        ),
    )
