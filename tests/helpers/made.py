"""A study made up of rows: numbers differ by model, seed, split and document."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from tiny import tiny_entry

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.frame import Frame, Units, make, make_units
from entity_transformers.report.pictures import Example, Pictures, make_cloud
from entity_transformers.report.results import Results

Row = dict[str, Any]
LOSS = {"gpt2": 5.70, "gpt2e": 5.67, "gpt2e-unlabelled": 5.69}
LOSS |= {"gpt2e-shuffled": 5.69, "gpt2-matched": 5.69}
"""Nats per token of each model: what its documents have on average."""


def make_entries() -> dict[str, ModelEntry]:
    """The paper's two models and the three controls that a verdict needs."""
    gpt2 = replace(tiny_entry("gpt2"), name="gpt2", role="baseline")
    gpt2e = replace(tiny_entry("gpt2e"), name="gpt2e", role="proposed")
    control = replace(gpt2e, role="control")
    matched = gpt2.lm.model_copy(update={"matched_to": "gpt2e"})
    found = [
        gpt2, gpt2e, replace(control, name="gpt2e-unlabelled", labels="none"),
        replace(control, name="gpt2e-shuffled", labels="shuffled"),
        replace(gpt2, name="gpt2-matched", role="control", lm=matched),
    ]  # fmt: skip
    return {entry.name: entry for entry in found}


def make_results(
    rows: list[Row],
    units: list[Row] | None = None,
    entries: tuple[ModelEntry, ...] = (),
    **more: Any,
) -> Results:
    """Results of these rows; the steps are those of the rows."""
    steps = tuple(dict.fromkeys(row["step"] for row in rows))
    known: dict[str, Any] = {"seeds": (1, 2), "steps": steps, "bootstrap_samples": 500}
    found = Units(make_units(units)) if units else Units()
    return Results("A study", entries, frame=Frame(make(rows)), units=found, **{**known, **more})


def make_rows(about: Row, **values: object) -> list[Row]:
    """A row of each measure."""
    return [{**about, "measure": name, "value": value} for name, value in values.items()]


def list_units(loss: Mapping[str, float], seeds: tuple[int, ...]) -> Iterator[Row]:
    """Nats of 40 documents: their difficulty is shared by all models, so that pairing matters."""
    shared = np.random.default_rng(0)
    tokens = shared.integers(200, 900, 40)
    base = 0.3 * shared.standard_normal(40)
    for model, mean in loss.items():
        for seed in seeds:
            noise = 0.004 * np.random.default_rng([seed, len(model)]).standard_normal(40)
            for given, gap in (("on", 0.0), ("off", 0.003), ("shuffled", 0.002)):
                gap *= model not in ("gpt2", "gpt2-matched")
                if given != "off" and model in ("gpt2", "gpt2-matched"):
                    continue
                about = {"step": "perplexity", "model": model, "seed": seed, "split": "test"}
                about |= {"measure": "nll", "entities": given}
                for i, nats in enumerate((mean + gap + base + noise) * tokens):
                    yield about | {"value": nats, "count": int(tokens[i]), "unit": f"doc{i:03}"}


def list_rows(units: list[Row]) -> Iterator[Row]:
    """Losses that agree with the units, and numbers of the other steps."""
    data = pd.DataFrame(units)
    places = ["step", "model", "seed", "split", "entities"]
    yield {"step": "corpus", "measure": "words", "value": 9000, "split": "train"}
    yield {"step": "corpus", "measure": "vocabulary", "value": 300}
    for place, part in data.groupby(places):
        about = dict(zip(places, place, strict=True))
        tokens = int(part["count"].sum())
        loss = part["value"].sum() / tokens
        scores = {"loss": loss, "perplexity": np.exp(loss), "perplexity_word": np.exp(1.2 * loss)}
        yield from make_rows({**about, "count": tokens}, **scores, bits_per_byte=loss / 2.9)
        for name, gap in (("outside", -0.1), ("first", 0.4), ("later", 0.9)):
            row = {**about, "class": name, "count": tokens // 3}
            yield from make_rows(row, loss=loss + gap, perplexity=np.exp(loss + gap))
    for (model, seed), part in data.groupby(["model", "seed"]):
        run = {"model": model, "seed": seed}
        loss = part["value"].sum() / part["count"].sum()
        trained = {"parameters": 5000, "steps": 40, "tokens_seen": 9000, "best_step": 30}
        yield from make_rows({"step": "lm", **run}, **trained, skipped_steps=0)
        yield {"step": "lm", "measure": "loss", "split": "train", "value": loss - 0.3, **run}
        yield {"step": "lm", "measure": "best_loss", "split": "dev", "value": loss, **run}
        timed = {"step": "lm", "device": "cuda", "threads": 2, **run}
        yield {**timed, "measure": "seconds_per_step", "value": 0.10 + 0.02 * len(str(model))}
        word = {"step": "lambada", "split": "lambada", "entities": "off", "count": 50, **run}
        for given in ("on", "off") if model.startswith("gpt2e") else ("off",):
            about = {"step": "similarity", "group": "nouns", "context": "words", **run}
            about |= {"entities": given, "count": 7}
            yield from make_rows(about, mention_similarity=0.5, entity_similarity=0.1 * seed)
            if model == "gpt2e":
                yield from make_rows(about | {"count": 9}, cka=0.6 if given == "on" else 0.8)
        yield from make_rows(word, last_word_perplexity=np.exp(loss), last_word_accuracy=0.2)


def make_study(
    models: tuple[str, ...] = tuple(LOSS),
    seeds: tuple[int, ...] = (1, 2),
    loss: Mapping[str, float] | None = None,
    **more: Any,
) -> Results:
    """A study of these models; ``loss`` changes what they score."""
    chosen = {model: {**LOSS, **(loss or {})}[model] for model in models}
    units = list(list_units(chosen, seeds))
    known = make_entries()
    curves = pd.DataFrame(
        {"curve": "lm", "model": model, "seed": seed, "step": step,
         "train_loss": mean + 1 / step + 0.01 * seed, "dev_loss_on": mean + 2 / step,
         "dev_loss_off": mean + 3 / step}
        for model, mean in chosen.items() for seed in seeds for step in range(5, 45, 5)
    )  # fmt: skip
    more = {"seeds": seeds, "curves": curves, "pictures": make_pictures(), **more}
    entries = tuple(known[model] for model in models)
    return make_results(list(list_rows(units)), units, entries, **more)


def make_pictures() -> Pictures:
    """The example, and one picture of mention vectors."""
    generator = np.random.default_rng(1)
    entities = np.repeat(np.arange(4), 5)
    vectors = generator.standard_normal((4, 8))[entities] + 0.3 * generator.standard_normal((20, 8))
    cloud = make_cloud({"gpt2": (vectors, entities)}, ["Ada", "Bo", "Ada"], 4)
    # of the sentence, HTML must escape some characters; every long word has two tokens
    words = tuple("Ada Lovelace met the mayor of Aldbury < in Aldbury & gave her a swan .".split())
    entities = (7, 7, 0, 9, 9, 9, 9, 0, 0, 4, 0, 0, 9, 2, 2, 0)
    tokens = tuple((f" {w[:4]}", w[4:]) if len(w) > 5 else (f" {w}",) for w in words)
    example = Example("story#0", words, entities, tokens, len(words))
    return Pictures(example=example, clouds={"embeddings_baseline": cloud})
