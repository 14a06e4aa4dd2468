"""The sentences that open the report."""

from __future__ import annotations

from collections.abc import Sequence

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import lambada, ner, perplexity
from entity_transformers.report.capacity import say_capacity
from entity_transformers.report.cells import Number
from entity_transformers.report.decisions import say_decisions
from entity_transformers.report.differences import compare, judged_split
from entity_transformers.report.mentions import say_mentions
from entity_transformers.report.results import Results, has_entities, summarise, write_label
from entity_transformers.report.short_windows import say_short_windows
from entity_transformers.report.transfer_scores import say_tasks
from entity_transformers.report.verdict import judge_entities, weigh


def write_headline(results: Results) -> tuple[str, ...]:
    """The sentences that open the report, each made from the numbers: perplexity, the verdict on
    entities, LAMBADA, NER; of a study without a model under test, its lowest and highest ones.
    """
    if not results.tests_a_model:
        said = (
            *_say_range(results),
            *say_tasks(results),
            *say_decisions(results),
        )
        return said or ("Nothing has been measured yet.",)
    mentions = say_mentions(results)
    words = [(model, results.statistic(model, lambada.LAST_WORD).mean) for model in results.pair]
    scores = [(model, ner.read_scores(results, model, ner.F1)) for model in results.pair]
    points = [(m, summarise(100 * f1 for f1 in found.values()).mean) for m, found in scores]
    sentences = (
        _say_perplexity(results),
        judge_entities(results).short if judged_split(results) or not mentions else "",
        _say_pair(f"Last-word perplexity on {lambada.name_passages(results)}", words)
        + _say_guess(results),
        _say_pair("Strict span F1 of the named entity recogniser (in points)", points),
        *mentions,
        *say_short_windows(results),
        *say_capacity(results),
    )
    return tuple(sentence for sentence in sentences if sentence)


def _say_range(results: Results) -> tuple[str, ...]:
    split = judged_split(results) or ""
    right = f"Last words of {lambada.name_passages(results)} that are right, in percent"
    asked = (
        (f"Perplexity per token on {split}", perplexity.at(split, "off", "perplexity"), 1),
        (right, lambada.at("last_word_accuracy"), 100),
    )
    sentences = []
    for what, key, factor in asked:
        means = {model: results.statistic(model, key).mean for model in results.trained}
        found = {model: factor * mean for model, mean in means.items() if mean is not None}
        ends = sorted(found, key=found.__getitem__)[:: max(1, len(found) - 1)]
        said = " to ".join(f"{write_label(model)} {found[model]:.2f}" for model in ends)
        sentences += [f"{what}: {said}."] if said else []
    return tuple(sentences)


def _say_perplexity(results: Results) -> str:
    split = judged_split(results)
    if split is None:
        return ""
    said = []
    for model in results.pair:
        given = "on" if has_entities(model) else "off"
        own, off = (
            results.statistic(model, perplexity.at(split, entities, "perplexity")).mean
            for entities in (given, "off")
        )
        text = "" if own is None else f"{write_label(model)} {own:.2f}"
        if text and off is not None and has_entities(model):
            text += f" with entities and {off:.2f} without"
        said += [text] if text else []
    difference = compare(results, split, results.proposed, "on", results.baseline, "off")
    tail = "" if difference is None else f" The difference is {weigh(difference)}."
    return f"Perplexity per token on {split}: {'; '.join(said)}.{tail}" if said else ""


def _say_guess(results: Results) -> str:
    """Where one of the two is no better than a uniform guess at the last word, what that has."""
    if not any(lambada.is_guessing(results, model, lambada.LAST_WORD) for model in results.pair):
        return ""
    return f" A uniform guess has {Number(lambada.guess(results, lambada.LAST_WORD))}."


def _say_pair(what: str, means: Sequence[tuple[ModelEntry, float | None]]) -> str:
    said = [f"{write_label(model)} {Number(mean)}" for model, mean in means if mean is not None]
    return f"{what}: {'; '.join(said)}." if said else ""
