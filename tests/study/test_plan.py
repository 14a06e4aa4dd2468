"""What each run of each step depends on: Snakemake's digests and DVC's stages agree on every leaf
of params.yaml and on every digest of code.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_study import expand_stages, outs_of

from entity_transformers.artifacts import read_json, write_json
from entity_transformers.cli import read_params
from entity_transformers.kinds import KINDS
from entity_transformers.study import plan as plans
from entity_transformers.study.code import digest_modules, reach
from entity_transformers.study.params import Params, load, parse
from entity_transformers.study.plan import Plan, find_code, list_code
from entity_transformers.study.stages import CODE
from entity_transformers.study.steps import STEPS
from entity_transformers.study.values import read_values

ROOT = Path(__file__).resolve().parents[2]
STUDY = ROOT / "studies" / "ontogum" / "params.yaml"
STUDIES = sorted(path.parent.name for path in (ROOT / "studies").glob("*/params.yaml"))
Stage = dict[str, Any]
Change = Callable[[dict[str, Any]], None]


def read_study() -> dict[str, Any]:
    """A study with all steps, a model matched to another one and one with a value of its own."""
    values = read_values(STUDY)
    values["models"]["gpt2-matched"] = {"kind": "gpt2", "matched_to": "gpt2e"}
    values["models"]["slow"] = {"kind": "gpt2e", "labels": "gold", "learning_rate": 1e-4}
    values["models"]["pointer"] = {"kind": "gpt2e-pointer", "labels": "gold"}
    values["models"] |= {kind: {"kind": kind} for kind in ("word2vec", "fasttext", "glove")}
    values["study"]["steps"].insert(-1, "analogies")
    values["analogies"] = {"most_frequent": 30_000}
    return values


def values_of(stage: Stage, values: Any) -> list[Any]:
    """The values of params.yaml that the stage depends on."""
    keys = [key for key in stage["params"] if isinstance(key, str)]
    return [plans._take(values, key) for key in sorted(set(keys))]


def digests_of(params: Params) -> dict[str, str]:
    """The digest of every run, or step that runs once, by the name of its stage."""
    plan, found = Plan(params), {}
    for step in plan.steps:
        if step.needs is None:
            found[step.name] = plan.digest(step)
        else:
            for model, seed in plan.runs(step):
                found[f"{step.name}@{model}-{seed}"] = plan.digest(step, model)
    return found


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    else:
        yield path


OTHERS: dict[str, list[Any]] = {
    "format": ["litbank"], "kind": ["gpt2", "trained"], "text": ["openai"],
    "bad_documents": ["strict"],
    "nested_mentions": ["drop"], "spacing": ["every_word"], "schedule": ["constant"],
    "final_weights": ["last"], "precision": ["float32"], "compile": ["default"],
    "entity_gate": ["zero"], "entity_values": ["both", "hidden"], "memory_write": ["mean"],
    "memory_life": ["epochs"], "role": ["other"], "labels": ["shuffled"], "reads": ["window"],
    "matched_to": ["slow"], "ner_context": ["sentence"], "pooling": ["mean", "max"],
    "tokens": ["mention"], "choose": ["train"], "report": ["train"], "facts": [["town"]],
    "candidates": [["padding"]], "splits": [["dev"]], "seeds": [[1]], "exclude": [["x"]],
    "device": ["cpu"], "learning_rate": [2e-3], "warmup": [0.5], "decay": [0.5], "heads": [2],
    "layers": [3], "window": [300], "stride": [100], "title": ["x"],
}  # fmt: skip


def flipped(key: str, value: Any) -> list[Any]:
    """Other values that a leaf may have."""
    if isinstance(value, bool):
        return [not value]
    if key in OTHERS:
        return [other for other in OTHERS[key] if other != value]
    if value is None:
        return [1, "x"]
    if isinstance(value, int | float):
        return [value + 1, value * 2, value / 2]
    return [["X"], "x"]


def flips() -> Iterator[tuple[str, dict[str, Any]]]:
    """The study with one leaf changed, for each leaf that may change alone."""
    values = read_study()
    for path in leaves(values):
        # another kind of model or other steps: dvc.yaml itself is another
        if path in (("root",), ("study", "steps")) or (path[0] == "models" and path[2] == "kind"):
            continue
        old = plans._take(values, ".".join(path))
        for other in flipped(path[-1], old):
            changed = copy.deepcopy(values)
            plans._take(changed, ".".join(path[:-1]))[path[-1]] = other
            try:
                parse(changed, "x")
            except ValueError:
                continue
            yield ".".join(path), changed
            break


def test_snakemake_and_dvc_agree_on_every_leaf() -> None:
    """A changed value changes the digest of the very runs whose stages name a key that holds it."""
    values = read_study()
    params = parse(values, "x")
    stages, before = expand_stages(params), digests_of(params)
    assert set(stages) == set(before)
    flipped_keys, silent = 0, set()
    for key, changed in flips():
        after = digests_of(parse(changed, "x"))
        by_dvc = {
            name
            for name, stage in stages.items()
            if values_of(stage, values) != values_of(stage, changed)
        }
        by_snakemake = {name for name in before if after.get(name, before[name]) != before[name]}
        assert by_snakemake == by_dvc, key
        flipped_keys += 1
        if not by_dvc:
            silent.add(key)
    assert flipped_keys > 110
    assert silent == {f"run.{key}" for key in values["run"]}  # where it runs re-runs nothing


def test_snakemake_and_dvc_agree_on_the_code() -> None:
    params = parse(read_study(), "x")
    plan, stages = Plan(params), expand_stages(params)
    for step in plan.steps:
        runs: list[Any] = [None] if step.needs is None else plan.runs(step)
        for run in runs:
            name = step.name if run is None else f"{step.name}@{run[0]}-{run[1]}"
            file = f"{params.root}/{CODE}"
            named = next(k[file] for k in stages[name]["params"] if isinstance(k, dict))
            assert set(named) == set(plan.code_keys(step, run and run[0]))
    written = list_code()
    for stage in stages.values():
        keys = next(next(iter(k.values())) for k in stage["params"] if isinstance(k, dict))
        assert all(plans._take(written, key) == find_code(key) for key in keys)


@pytest.mark.parametrize(
    ("change", "old_runs"),
    [
        (lambda v: v["models"].update(more={"kind": "gpt2e", "layers": 1}), "lm@"),
        (lambda v: v["kinds"].update(gpt2={"dropout": 0.2}), "lm@gpt2e"),
        (lambda v: v["study"].update(seeds=[1, 2, 3, 4]), "lm@"),
    ],
    ids=["a model", "values of another kind", "a seed"],
)
def test_what_is_added_retrains_no_other_model(change: Change, old_runs: str) -> None:
    values = read_study()
    params = parse(values, "x")
    change(values)
    after = parse(values, "x")
    one, other = digests_of(params), digests_of(after)
    names = [name for name in one if name.startswith(old_runs)]
    assert [name for name in names if one[name] != other[name]] == []
    stages, others = expand_stages(params), expand_stages(after)
    for name in names:
        assert {str(key) for key in stages[name]["params"]} == {
            str(key) for key in others[name]["params"]
        }


@pytest.mark.parametrize("name", STUDIES)
def test_stages_come_after_those_whose_files_they_read(name: str) -> None:
    """So `dvc repro --single-item`, which goes by the order of the file, does what `dvc repro` does
    without reading every other study.
    """
    params = load(ROOT / "studies" / name / "params.yaml")
    made: set[str] = set()
    for stage, body in expand_stages(params).items():
        own = [dep for dep in body.get("deps", []) if dep.startswith("results/")]
        missing = [dep for dep in own if dep not in made and str(Path(dep).parent) not in made]
        assert not missing, (stage, missing)
        made |= outs_of(body)


def test_another_kind_is_another_model() -> None:
    values = read_study()
    one = digests_of(parse(values, "x"))
    values["models"]["gpt2e-unlabelled"]["kind"] = "gpt2"
    other = digests_of(parse(values, "x"))
    changed = {name for name in one if other[name] != one[name]}
    assert {name.partition("@")[2][:-2] for name in changed - {"report"}} == {"gpt2e-unlabelled"}
    assert {f"{step}@gpt2e-unlabelled-1" for step in ("lm", "perplexity", "probe")} <= changed


def test_a_kind_with_a_trainer_of_its_own_depends_on_that_and_on_the_words() -> None:
    params = parse(read_study(), "x")
    stages, words = expand_stages(params), "results/corpus/train.jsonl"
    assert words in stages["lm@word2vec-1"]["deps"]
    assert words not in stages["lm@gpt2-1"]["deps"]
    assert not [name for name in stages if name.endswith("word2vec-1") and "perplexity" in name]
    own = KINDS["word2vec"].params
    for step in ("lm", "embeddings"):
        modules = ["models.static.word2vec", f"cli.static.{step}"]
        assert find_code(f"{step}.word2vec") == digest_modules(modules, params=own)
        assert not reach([f"cli.static.{step}"]) & {f"cli.{step}", "train.loop"}
    assert find_code("ner") == digest_modules(["cli.ner"])


def test_a_matched_model_depends_on_the_one_that_it_matches() -> None:
    values = read_study()
    before = digests_of(parse(values, "x"))
    values["models"]["gpt2e"]["entity_values"] = "both"
    after = digests_of(parse(values, "x"))
    changed = {name.split("-")[0] for name in before if after[name] != before[name]}
    assert "lm@gpt2-matched-1" in {name for name in before if after[name] != before[name]}
    assert before["lm@gpt2-1"] == after["lm@gpt2-1"]
    assert changed == {"lm@gpt2e", "lm@gpt2", "report"}
    plan = Plan(parse(values, "x"))
    assert plan.code_keys(STEPS["lm"], "gpt2-matched") == ["lm.gpt2", "kinds.gpt2e"]


def test_a_number_as_yaml_1_1_reads_it_is_the_same_number() -> None:
    values = read_study()
    before = digests_of(parse(values, "x"))
    values["models"]["slow"]["learning_rate"] = "1e-4"
    assert digests_of(parse(values, "x")) == before


def test_a_row_of_the_recall_table_does_not_depend_on_the_others() -> None:
    values = read_study()
    step = STEPS["recall"]
    before = Plan(parse(values, "x")).digest_entry(step, "keys-detached")
    values["recall"]["models"]["more"] = {"kind": "gpt2"}
    values["recall"]["seeds"] = [7]
    assert Plan(parse(values, "x")).digest_entry(step, "keys-detached") == before
    values["recall"]["models"]["keys-detached"]["entity_values"] = "both"
    assert Plan(parse(values, "x")).digest_entry(step, "keys-detached") != before


def test_a_changed_file_of_the_users_changes_the_digest(tmp_path: Path) -> None:
    values = read_study()
    (tmp_path / "mine.jsonl").write_text("{}")
    values["corpus"] |= {"format": "jsonl", "path": str(tmp_path / "mine.jsonl")}
    before = digests_of(parse(values, "x"))["corpus"]
    (tmp_path / "mine.jsonl").write_text("{} ")
    assert digests_of(parse(values, "x"))["corpus"] != before
    assert str(tmp_path / "mine.jsonl") in expand_stages(parse(values, "x"))["corpus"]["deps"]


def test_a_step_that_is_not_named_is_not_planned() -> None:
    values = read_study()
    values["study"]["steps"] = ["corpus", "lm", "perplexity"]
    for section in ("lambada", "recall", "ner", "probe", "embeddings", "report"):
        del values[section]
    params = parse(values, "x")
    per_run = {
        f"{step}@{entry.name}-{seed}"
        for step in ("lm", "perplexity")
        for entry in params.entries(*STEPS[step].needs or ())
        for seed in params.study.seeds
    }
    assert set(expand_stages(params)) == {"corpus"} | per_run
    files = Plan(params).targets()
    assert not [file for file in files if "lambada" in file or "passages" in file]
    assert "results/perplexity/gpt2/1/perplexity.json" in files


def test_a_row_is_there_exactly_where_the_model_can(monkeypatch: pytest.MonkeyPatch) -> None:
    blind = replace(KINDS["gpt2"], name="blind", can=frozenset({"encode"}))
    monkeypatch.setitem(KINDS, "blind", blind)
    values = read_study()
    values["models"]["static"] = {"kind": "blind"}
    params = parse(values, "x")
    plan = Plan(params)
    per_run = [step for step in plan.steps if step.needs is not None]
    with_static = {step.name for step in per_run if ("static", 1) in plan.runs(step)}
    assert with_static == {"lm", "embeddings", "similarity", "ner"}
    assert "results/perplexity/static/1/perplexity.json" not in plan.measured()
    assert "results/similarity/static/1/similarity.json" in plan.measured()
    with pytest.raises(
        ValueError,
        match=r"models\.static: kind blind can encode, but step perplexity needs causal \(nats",
    ):
        params.require("static", "perplexity")


def test_a_clone_finds_what_was_made_with_other_values(tmp_path: Path) -> None:
    """By the report's values.json, but for files of which Snakemake has records of its own."""
    values = read_study()
    values["study"]["seeds"] = [1]
    plan = Plan(parse(values, "x"), tmp_path)
    for step in plan.steps:
        for run in [(None, None)] if step.needs is None else plan.runs(step):
            for file in plans.outputs(step, *run):
                (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / file).touch()
    (tmp_path / plans.RECORDED).unlink()
    assert plan.outdated() == []  # nothing is recorded
    write_json(tmp_path / plans.RECORDED, plan.recorded())
    assert plan.outdated() == []
    values["models"]["slow"]["learning_rate"] = 2e-4
    values["perplexity"]["stride"] = 7
    changed = Plan(parse(values, "x"), tmp_path).outdated()
    trained = plans.outputs(STEPS["lm"], "slow", 1)
    runs = plan.runs(STEPS["perplexity"])
    scored = {plans.outputs(STEPS["perplexity"], *run)[0] for run in runs}
    assert {trained[0], *scored} <= {*changed}
    assert not any("/gpt2/" in file for file in changed if file.startswith("results/lm"))
    for file in trained:
        record = tmp_path / ".snakemake/metadata" / base64.b64encode(file.encode()).decode()
        record.parent.mkdir(parents=True, exist_ok=True)
        record.touch()
    again = Plan(parse(values, "x"), tmp_path).outdated()
    assert {*changed} - {*again} == {trained[0]}


def test_values_that_name_another_study_are_those_that_the_commands_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Commands record values.json with paths instead of study:NAME; a clone compares by it."""
    home = ROOT / "studies" / "pointer-ontogum"
    monkeypatch.chdir(home)
    given = read_params(Path("params.yaml"), {})
    written = parse(read_values(Path("params.yaml")), "x")
    assert given.tokenizer.path != written.tokenizer.path == "study:pointer"
    assert Plan(given).recorded() == Plan(written).recorded() == read_json(plans.RECORDED)
