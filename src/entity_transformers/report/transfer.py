"""Fine-tuning, as in GPT-1: scores by task and variant, differences between models and variants,
and the learning rates that were tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations, product

import pandas as pd

from entity_transformers.report import pivot
from entity_transformers.report.intervals import find_pairs, make_pair, share_interval
from entity_transformers.report.perplexity import PAIRED, PAIRED_NOTE
from entity_transformers.report.pivot import Line, Measure, Part, Pivot, Place
from entity_transformers.report.results import Results
from entity_transformers.report.table import Number
from entity_transformers.step import Row

KEY = ["seed", "task", "split", "model", "variant", "value"]
STEP, FULL, ENTITIES = "transfer", "full", "entities"


def pair_up(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows of all runs of the step, but in place of those that say whether an example was
    right, yield, seed by seed, how many examples only one of two trials has right. Raise ValueError
    if two trials were judged on different examples.
    """
    judged = list[Row]()
    for row in rows:
        if row["measure"] == "right":
            judged.append(row)
        else:
            yield row
    frame = pd.DataFrame(judged, columns=[*judged[0]] if judged else KEY)
    for key, some in frame.astype({"value": float}).groupby(KEY[:3], sort=False):
        right = some.pivot(index=KEY[3:5], columns="unit", values="value")
        if right.isna().any(axis=None):
            model, variant = right.index[right.isna().any(axis=1)][0]
            raise ValueError(
                f"transfer: {model}, {variant}, and others were judged on different examples of"
                f" {key[1]}, {key[2]}: run them again"
            )
        trials = dict.fromkeys(zip(some["model"], some["variant"], strict=True))
        for pair in combinations(trials, 2):
            for ours, theirs in (pair, pair[::-1]):
                if about := _name_pair(*ours, *theirs):
                    counts = make_pair(right.loc[ours].to_numpy(), right.loc[theirs].to_numpy())
                    named = {"step": STEP, "model": ours[0], **dict(zip(KEY, key, strict=False))}
                    named |= {"count": counts.examples, **about}
                    yield {**named, "measure": "only_first", "value": counts.first}
                    yield {**named, "measure": "only_second", "value": counts.second}
                    break


def _name_pair(model: str, variant: str, against: str, other: str) -> dict[str, str] | None:
    """Return the columns that name a comparison of two trials: of two models, in one variant or
    with entities against full; of one model, full against any other variant, or a variant against
    those named after it, such as few against few-no-auxiliary. None: they are not compared.
    """
    if model != against:
        if variant == other:
            return {"variant": variant, "against": against}
        about = {"variant": variant, "other": other, "against": against}
        return about if (variant, other) == (ENTITIES, FULL) else None
    compared = variant == FULL or other.startswith(f"{variant}-")
    return {"variant": variant, "other": other} if compared else None


def _accuracy(results: Results, place: Place) -> Number:
    """Return the mean over fine-tuning seeds, with Wilson's interval over the examples."""
    scored = {**place, "step": STEP, "measure": "accuracy"}
    share, count = results.statistic(scored), results.count(scored)
    if share.value is None or not count:
        return Number(None)
    interval = share_interval(share.value * count, round(count))
    return replace(share, digits=1, interval=interval, percent=True)


SCORES = Pivot(
    name="transfer",
    title="Fine-tuning",
    step=STEP,
    where={"measure": "accuracy"},
    rows=(
        pivot.found("task", "Task", measure="accuracy"),
        pivot.found("split", "Split", measure="accuracy"),
        pivot.found("variant", "Variant", measure="accuracy"),
        pivot.models,
    ),
    keep=pivot.is_scored,
    columns=(
        Measure("Training examples", "train_examples", 0, shows="plain", place={"split": "train"}),
        Measure("Examples", shows="count"),
        Measure("Majority label", "majority", 1, percent=True, shows="plain"),
        Measure("Score", digits=1, percent=True, cell=_accuracy),
        Measure("Recalled", "recalls", 0, shows="plain"),
        Measure("Moved", "moved", 0, shows="plain"),
    ),
    sparse=True,
    measures="Pretrained models fine-tuned on a task, with a linear layer on their last state.",
    note="""Accuracy with its 95% interval over examples (Wilson); ± is the standard deviation over
        seeds. The variant “full” is given no entities. A task “after” another is scored on a model
        that was trained on the other. “Recalled” counts examples in which an entity of the first
        text is mentioned again after it, “moved” those in which shuffled entities differ from the
        resolver's.""",
)


def _pairs(results: Results, _: Place) -> Iterator[Line]:
    """Yield a row per task, split and pair of models, variants of one, or versions of WinoBias."""
    labels = {model.name: model.label for model in results.measured(STEP)}
    rows = results.frame.find(STEP, measure="only_first")
    rows = rows.drop(columns=["model", "seed", "value", "count"]).drop_duplicates()
    places = [{name: row[name] for name in row if row[name]} for row in rows.to_dict("records")]
    places.sort(key=lambda place: "type" in place)
    for place, model in product(places, results.measured(STEP)):
        if pairs := find_pairs(results, {**place, "model": model}):
            variant = place["variant"]
            theirs = place.get("other", variant)
            if "type" in place:
                variant, theirs = f"{variant}, type {place['type']}: pro", "anti"
            elif "against" in place:
                theirs = f"{labels[place['against']]}, {theirs}"
            text = f"{labels[model.name]}, {variant} − {theirs}"
            texts = {"Task": place["task"], "Split": place["split"], "Difference": text}
            yield texts, {"pairs": pairs}


PAIRS = Pivot(
    name="transfer_pairs",
    title="Fine-tuning: differences",
    step=STEP,
    rows=(_pairs,),
    columns=PAIRED,
    measures="Two models, or two variants of one model, on the same examples.",
    note=f"""{PAIRED_NOTE} For WinoBias (Zhao et al., 2018) there is also the difference between
        pro, where a pronoun has the stereotypical gender of the right occupation, and anti, where
        it has the other. The candidate takes the pronoun's place, so that such a gap can only come
        from a second pronoun.""",
)


def list_rates(results: Results) -> dict[str, str]:
    """Return the learning rates that were tried, lowest first, and how they are written."""
    rates = results.frame.distinct("rate", STEP, measure="rate_loss")
    return {rate: f"{float(rate):g}" for rate in sorted(rates, key=float)}


RATES = Pivot(
    name="transfer_rates",
    title="Fine-tuning: learning rates tried",
    step=STEP,
    where={"measure": "rate_loss", "split": "dev"},
    rows=(
        pivot.models,
        pivot.values("pretrained", {"True": "pretrained", "False": "random"}, "Weights"),
        pivot.found("task", "Task", measure="rate_loss"),
    ),
    sparse=True,
    columns=(
        pivot.cross(
            pivot.values("rate", list_rates, "Rate"), [Measure("", digits=4, shows="plain")]
        ),
    ),
    measures="""Loss on dev after fine-tuning at each rate, with one seed; the rate with the lowest
        loss is used.""",
    note="Losses are in nats per example. Only the chosen rate is scored on test.",
)


def say(results: Results) -> Iterator[str]:
    """Yield a sentence for each task: its best and worst model, and the commonest label's score."""
    for task in results.frame.distinct("task", STEP, measure="train_examples"):
        place: Place = {"step": STEP, "split": "test", "task": task, "variant": FULL}
        scores = {
            model: replace(_accuracy(results, {**place, "model": model}), std=None)
            for model in results.measured(STEP)
            if results.has({**place, "model": model, "measure": "accuracy"})
        }
        order = sorted(scores, key=lambda model: scores[model].value or 0.0, reverse=True)
        ends = dict.fromkeys(order[:: max(1, len(order) - 1)])
        named = " to ".join(f"{model.label} {scores[model]}" for model in ends)
        majority = results.mean({**place, "model": order[0], "measure": "majority"})
        label = Number(majority, 1, percent=True)
        yield f"Fine-tuned on {task}, accuracy on test: {named}; the majority label scores {label}."


PARTS = (Part(STEP, (SCORES, PAIRS, RATES), say=say),)
