"""The few numbers of each model that DVC shows as its metrics, of the thousands of measures.csv."""

from __future__ import annotations

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import lambada, lm, ner, perplexity, similarity
from entity_transformers.report.frame import Key
from entity_transformers.report.results import Results, has_entities


def summarise_models(results: Results) -> dict[str, dict[str, float]]:
    """By model, means over its seeds of what was measured: nats per token on dev of the weights
    kept; perplexity per token on test (else the first split scored), with the labels that the
    model is given; last-word perplexity on LAMBADA; similarity of an entity's mentions of the
    first group, words alone; strict span F1 on test.
    """
    return {model.name: _summarise(results, model) for model in results.trained}


def _summarise(results: Results, model: ModelEntry) -> dict[str, float]:
    given = "on" if has_entities(model) else "off"
    keys = {
        "dev_loss": Key(lm.STEP, "best_loss", "dev"),
        "perplexity": perplexity.at(perplexity.class_split(results) or "", given, "perplexity"),
        "lambada_perplexity": lambada.at("last_word_perplexity"),
        "mention_similarity": similarity.at(
            next(iter(results.groups), ""), "words", given, "mention_similarity"
        ),
    }
    means = {name: results.statistic(model, key).mean for name, key in keys.items()}
    means["ner_f1"] = ner.average(results, model, ner.F1).mean
    return {name: mean for name, mean in means.items() if mean is not None}
