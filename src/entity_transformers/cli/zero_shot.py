"""Opens the files of score-zero-shot."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from entity_transformers.artifacts import read_tokenizer, write_csv, write_json
from entity_transformers.cli.task_examples import load_examples
from entity_transformers.cli.trained import open_model
from entity_transformers.corpus.tasks import find_task
from entity_transformers.resolve.registry import make_resolver
from entity_transformers.study.params import Params
from entity_transformers.tasks.zero_shot.trial import EXAMPLE_COLUMNS, try_task

log = logging.getLogger(__name__)


def score_zero_shot(
    params: Params, corpus: Path, examples: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """What the model decides on each task of zero_shot.tasks without training, and of each example
    its nats.
    """
    section = params.zero_shot
    _, trained = open_model(params, lm, model, seed)
    tokenizer = read_tokenizer(corpus / "tokenizer.json")
    resolver = make_resolver(section.resolver)
    facts: list[dict[str, Any]] = []
    rows: list[Any] = []
    for name, own in load_examples(examples, section.tasks).items():
        how: dict[str, Any] = {"splits": section.splits, "batch": section.batch, "seed": seed}
        for outcome in try_task(trained, find_task(name), own, tokenizer, resolver, **how):
            facts.append(dict(outcome.facts))
            rows += outcome.rows
            told = outcome.facts
            accuracy = told["scores"][0]["accuracy"]
            log.info(
                "%s %s, %s, entities %s: accuracy %.4f",
                *(told[key] for key in ("task", "split", "rule", "entities")),
                accuracy,
            )
    about = {"model": model, "seed": seed, "resolver": section.resolver}
    write_json(output / "zero_shot.json", about | {"trials": facts})
    write_csv(output / "examples.csv", rows, EXAMPLE_COLUMNS)
