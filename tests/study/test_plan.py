"""A run's digest changes with what it depends on, and with nothing else."""

from pathlib import Path

import pytest
from tiny_study import make_study

from entity_transformers.study import code
from entity_transformers.study.params import STEPS, load
from entity_transformers.study.plan import Plan


def digests(path: Path, overrides: dict[str, object] | None = None) -> dict[tuple[str, str], str]:
    """Of every run: step and model."""
    plan = Plan(load(path, overrides), path)
    steps = [step for step in plan.steps if step.phase != "report"]
    return {(s.name, model): plan.digest(s, model) for s in steps for model, _ in plan.runs(s)}


@pytest.mark.parametrize(("key", "value", "steps"), [
    ("probe.batch", 3, {"probe"}),
    ("ner.epochs", 2, {"ner"}),
    ("recall.width", 8, {"recall"}),
    ("recall.seeds", [1, 7], set()),
    ("report.title", "Another", set()),
    ("report.bootstrap_samples", 7, set()),
])  # fmt: skip
def test_values(tmp_path: Path, key: str, value: object, steps: set[str]) -> None:
    """Each value changes exactly the runs of the steps that read it, and the report."""
    study = make_study(tmp_path)
    before, after = digests(study), digests(study, {key: value})
    assert before.keys() == after.keys()
    assert {step for (step, _), one in before.items() if after[step, _] != one} == steps
    plans = [Plan(load(study, by)) for by in ({}, {key: value})]
    assert len({plan.digest(STEPS["report"]) for plan in plans}) == 2
    old, new = (plan.values_of(STEPS["report"]) for plan in plans)
    assert {name for name in old if new[name] != old[name]} <= {key}
    assert (new.get(key) == value) == bool(steps)


def test_what_is_read_counts(tmp_path: Path) -> None:
    """An encoder changes all that reads the corpus; a model's values, what reads that model."""
    study = make_study(tmp_path)
    before = digests(study)
    after = digests(study, {"tokenizer.vocabulary": 410})
    same = {step for (step, model), one in before.items() if after[step, model] == one}
    assert same == {"recall"}
    after = digests(study, {"models.gpt2e": {"kind": "gpt2e", "labels": "gold", "steps": 7}})
    changed = {run for run, one in before.items() if after.get(run) != one}
    assert {model for _, model in changed} <= {"gpt2e", "gpt2"}
    assert {("lm", "gpt2e"), ("perplexity", "gpt2e")} <= changed
    (old := tmp_path / "own/b.jsonl").parent.mkdir()
    old.touch()
    own: dict[str, object] = {"corpus.format": "jsonl", "corpus.path": str(old.parent)}
    before = digests(study, own)
    old.rename(old.with_name("b-dev.jsonl"))
    assert digests(study, own)["corpus", ""] != before["corpus", ""]  # names tell splits


def test_records(tmp_path: Path) -> None:
    """Every study's runs are found, each once, in the plan's records."""
    path = make_study(tmp_path)
    plan = Plan(load(path), path)
    records = plan.records()
    assert len(records) == len(set(records)) == len(digests(path))
    models = plan.params.models
    assert plan.records("train") == [f"data/tiny/models/{model}/1/run.json" for model in models]
    assert list(plan.stale()) == []
    assert {"resolve.names", "corpus.readers.jsonl"} <= code.reach(["steps.corpus"])


def test_a_model_may_have_seeds_of_its_own(tmp_path: Path) -> None:
    study = make_study(tmp_path, "models: {gpt2e: {seeds: [4, 2]}}\n")
    runs = Plan(load(study), study).runs(STEPS["lm"])
    assert [seed for model, seed in runs if model == "gpt2e"] == [4, 2]
    assert [seed for model, seed in runs if model == "gpt2"] == [1]


def test_a_model_may_start_from_another_of_its_study(tmp_path: Path) -> None:
    """Its values, inputs and digest are the same however often the study has been opened."""
    later = "{kind: gpt2, initial_weights: study:tiny/gpt2/1}"
    study = make_study(tmp_path, f"models: {{later: {later}}}\n")
    plan, lm = Plan(load(study), study), STEPS["lm"]
    (again,) = {one for one, read, *_ in plan.above(lm, "later") if read == lm}
    assert again is not plan
    for ask in (Plan.values_of, Plan.digest, Plan.inputs):
        assert ask(again, lm, "later") == ask(plan, lm, "later")
    values = plan.values_of(lm, "later")
    assert "models.gpt2.kind" in values
    assert not any(key.startswith("tiny: ") for key in values)
