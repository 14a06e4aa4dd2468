"""The studies of every system: one budget, one size, one line of descent."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny import ROOT

from entity_transformers.kinds import KINDS, ModelEntry
from entity_transformers.models.registry import build_model
from entity_transformers.study.origin import read_origin
from entity_transformers.study.params import Params, load

ALONE = {
    "gpt2-antecedent",  # of a study of its own: its labels are of training alone
    "gpt2-pointer", "gpt2e-pointer",  # of studies/pointer: a question of its own
}  # fmt: skip
SAME_LM = {"taglm": "elmo"}  # trained once: taggers differ in what they read of it
BUDGET = (
    "steps", "documents_per_step", "window", "accumulation", "memory_gradient_windows",
    "warmup_steps", "schedule", "final_weights",
)  # fmt: skip


def read(name: str) -> Params:
    return load(Path(ROOT, "studies", name, "params.yaml"))


@pytest.fixture(params=["systems-books", "systems", "systems-books-gpu", "systems-gpu"])
def study(request: pytest.FixtureRequest) -> Params:
    return read(request.param)


def neural(study: Params) -> list[ModelEntry]:
    return [entry for entry in study.entries() if not entry.can({"static"})]


@pytest.mark.parametrize("size", ["", "-gpu"])
def test_every_kind_is_there_under_its_name(size: str) -> None:
    books, systems = read(f"systems-books{size}"), read(f"systems{size}")
    assert set(KINDS) - ALONE <= set(systems.models)
    assert set(KINDS) - ALONE - set(SAME_LM) <= set(books.models)
    for study, name in itertools.product((books, systems), set(KINDS) - ALONE - set(SAME_LM)):
        assert study.model(name).kind.name == name


def test_all_that_learn_from_running_text_read_the_same_tokens(study: Params) -> None:
    budgets = {tuple(getattr(entry.lm, name) for name in BUDGET) for entry in neural(study)}
    assert len(budgets) == 1


def test_parameters_are_within_five_percent(study: Params) -> None:
    """But for the blocks that entities bring, beside which a GPT2 as large stands."""
    with torch.device("meta"):  # shapes without numbers
        counts = {
            entry.name: build_model(
                replace(entry, lm=entry.lm.model_copy(update={"initial_weights": None})),
                study.tokenizer.vocabulary,
                0,
                seed=1,
            ).count_parameters()
            for entry in neural(study)
        }
    for entry in neural(study):
        larger = entry.can({"entities"}) or entry.name == "gpt2-matched"
        size = counts["gpt2-matched" if larger else "gpt2"]
        assert abs(counts[entry.name] / size - 1) < 0.05, entry.name


@pytest.mark.parametrize("size", ["", "-gpu"])
def test_every_system_goes_on_from_its_own_weights(size: str) -> None:
    books, ontogum = read(f"systems-books{size}"), read(f"systems{size}")
    for entry in ontogum.entries():
        origin = read_origin(entry.initial_weights)
        assert origin is not None
        assert origin.study == f"systems-books{size}"
        assert origin.model == SAME_LM.get(entry.name, entry.name)
        assert origin.model in books.models
        first = books.model(origin.model)
        assert first.initial_weights is None
        if entry in neural(ontogum):
            shapes = [
                [getattr(one.lm, name, None) for name in ("layers", "heads", "width", "hidden")]
                for one in (first, entry)
            ]
            assert shapes[0] == shapes[1], entry.name
