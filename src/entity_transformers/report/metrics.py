"""metrics.json: of each model of a study the few numbers that DVC shows and compares."""

from __future__ import annotations

import math
from collections.abc import Iterator

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import lambada, memories, ner, perplexity, remembering, similarity
from entity_transformers.report.frame import at
from entity_transformers.report.results import Results, has_entities


def summarise_models(results: Results) -> dict[str, dict[str, float]]:
    """By model, means over its seeds to six digits; models of which there are none are left out.

    dev_loss              nats per token on dev of the weights that were kept
    perplexity            per token on test (else the first split scored), labels as the model's
    pseudo_perplexity     the same of a model that predicts hidden tokens
    lambada_nats          of the last words of LAMBADA; lambada_accuracy: the share that is right
    mention_similarity    of an entity's mentions of the first group, words alone
    ner_f1                strict spans on test
    loss_of_N             nats per token with room for N entities and recent tokens together
    loss_alone_W          nats per token in windows of W tokens; loss_with_N: in the shortest of
                          these, beside N kept tokens, of the policy that keeps the best ones
    TASK_accuracy         on test, fine-tuned on the task
    """
    found = {}
    for model in results.trained:
        known = {name: mean for name, mean in _measure(results, model) if mean is not None}
        if known:
            found[model.name] = {name: float(f"{mean:.6g}") for name, mean in known.items()}
    return found


def _measure(results: Results, model: ModelEntry) -> Iterator[tuple[str, float | None]]:
    split, group = perplexity.class_split(results) or "", next(iter(results.groups), "")
    given = "on" if has_entities(model) else "off"
    hidden = at(perplexity.PSEUDO, perplexity.PSEUDO, "test", entities=given)
    alike = similarity.at(group, "words", given, "mention_similarity")
    for name, key in {
        "dev_loss": at("lm", "best_loss", "dev"),
        "perplexity": perplexity.at(split, given, "perplexity"),
        "pseudo_perplexity": hidden,
        "lambada_accuracy": lambada.at("last_word_accuracy"),
        "mention_similarity": alike,
    }.items():
        yield name, results.statistic(model, key).mean
    yield "lambada_nats", results.statistic(model, lambada.LAST_WORD, math.log).mean
    yield "ner_f1", ner.average(results, model, ner.F1).mean
    for side in memories.list_sides(results, "capacity", model) if results.ran("capacity") else ():
        yield f"loss_of_{side['rows'] + side['size']}", memories.read_loss(results, side)
    if model in results.measured("kept_cache"):
        yield from _find_best(results)
    for task in results.frame.distinct("task", "transfer", measure="accuracy"):
        key = at("transfer", "accuracy", "test", task=task, variant="full")
        yield f"{task.replace(' ', '_')}_accuracy", results.statistic(model, key).mean


def _find_best(results: Results) -> Iterator[tuple[str, float]]:
    step = "kept_cache"
    alone, beside = remembering.list_original(results, step)
    for window, one in alone.items():
        yield f"loss_alone_{window}", remembering.read_mean(results, step, one)
    for size in sorted({one.budget for one in beside}):
        own = (one for one in beside if one.budget == size)
        yield f"loss_with_{size}", min(remembering.read_mean(results, step, one) for one in own)
