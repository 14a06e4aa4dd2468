"""What would make a step's numbers unfair or impossible is refused before a rule runs."""

from typing import Any

import pytest

from entity_transformers.study.params import ParamsError, parse
from entity_transformers.study.values import read_values

DECIDED = [
    ({"report": "train"}, "choose dev, report train: decisions must be scored on text"),
    ({"choose": "test"}, "choose and report are both test"),
    ({"labels": "resolver:names-causal"}, "corpus.resolvers does not name names-causal"),
    ({"labels": "shuffled"}, "'shuffled', expected gold or resolver:NAME"),
    ({"report": "test3"}, "test3"),
]
WRONG: dict[str, list[tuple[dict[str, Any], str]]] = {
    "setlm": DECIDED,
    "decisions": [
        *DECIDED,
        ({"groups": [20, 1]}, r"\[20, 1\]: expected distinct values, smallest first"),
        ({"groups": [30]}, "samples 100 do not make two or more whole groups of 30"),
    ],
    "mentions": [
        ({"choose": "test"}, "choose and report are both test"),
        ({"caches": [64, 16]}, "caches: .* expected distinct values, smallest first"),
        ({"labels": "shuffled"}, "'shuffled', expected gold or resolver:NAME"),
        ({"labels": "lagged-resolver:names"}, "expected gold or resolver:NAME"),
        ({"labels": "resolver:names-causal"}, "corpus.resolvers does not name names-causal"),
    ],
    # what no machine computes or holds
    "ner": [({"hidden": 10**6}, "ner.hidden.* less than or equal to 32768")],
    "lm": [({"width": 10**6}, "width.* less than or equal to 32768")],
    "run": [({"threads": 10**6}, "run.threads.* less than or equal to 1024")],
    "recall": [({"documents": 10**10}, "recall.documents.* less than or equal to 1000000")],
    "corpus": [({"sample_words": 10**10}, "sample_words.* less than or equal to 60000")],
    "report": [({"bootstrap_samples": 10**10}, "samples.* less than or equal to 100000")],
    "mentions capacity": [
        ({"memories": [[8, 0], [8, 0]]}, "expected distinct values"),
        ({"memories": [[8]]}, "Field required"),
        ({"memories": [[8, True]]}, "true is not a number"),
    ],
    "transfer examples": [({"tasks": ["snli"]}, "transfer.tasks: gap is not among .*: add it")],
    "choices examples": [({"tasks": ["gap"]}, "choices.tasks: winobias is not among .*: add it")],
    "examples choices": [
        ({"tasks": ["snli"]}, "tasks: 'snli' is not a pronoun task"),
        ({"told": ["snli"]}, "told: 'snli', expected one of wsc273, winogrande, winobias, gap"),
    ],
    "examples transfer": [
        ({"also_score": ["snli"]}, "also_score: 'snli' is not a pronoun task"),
        ({"rate_task": "mrpc"}, "rate_task: 'mrpc', expected one of tasks"),
        ({"rate_factors": [1.0, 0.3]}, "expected distinct values, smallest first"),
        ({"tasks": ["wsc273"]}, "'wsc273' has no train split"),
        ({"variants": {"full": {"tasks": ["gap"]}}}, r"full.tasks: \['gap'\], expected a list of"),
        ({"variants": {"full": {"lambda": 1}}}, "variants.full.lambda: no such key, expected one"),
        ({"variants": {"full": {"models": ["gpt3"]}}}, r"full.models: \['gpt3'\], expected"),
        ({"seeds": [1, 2]}, r"transfer.seeds \[1, 2\]: gpt2e has several seeds"),
    ],
}
"""By the steps that are added; the values are of the last one's section."""


@pytest.mark.parametrize(
    ("steps", "changes", "message"),
    [(steps, *one) for steps, wrong in WRONG.items() for one in wrong],
)
def test_what_is_unfair_or_unknown_is_refused(root, steps, changes, message):
    values = read_values(root / "params.yaml")
    values["study"]["steps"] += steps.split()
    values["models"]["gpt2e"]["seeds"] = [1, 2]
    values[steps.split()[-1]] |= changes
    with pytest.raises(ParamsError, match=message):
        parse(values, "x")


@pytest.mark.parametrize("step", ["mentions", "mentions capacity"])
def test_near_and_far_mentions_are_those_of_one_window(root, step: str) -> None:
    values = read_values(root / "params.yaml")
    values["study"]["steps"] += step.split()
    values["models"]["gpt2"] = {"kind": "gpt2", "window": 128}
    with pytest.raises(ParamsError, match=r"mentions: its models read windows of 128 and 1024 tok"):
        parse(values, "x")
    values["models"]["gpt2"]["only"] = ["lm"]
    parse(values, "x")


@pytest.mark.parametrize("section", ["decisions", "mentions"])
def test_tokens_may_be_sorted_by_a_resolver_that_the_corpus_has(root, section: str) -> None:
    """Also by one that reads on: what tokens are sorted by is not what a model is given."""
    values = read_values(root / "params.yaml")
    values["corpus"]["resolvers"] = ["names"]
    values[section]["labels"] = "resolver:names"
    assert getattr(parse(values, "x"), section).labels == "resolver:names"
