"""What a study takes from another one: its names, what fits, and whose files become inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_study import expand_stages

from entity_transformers.cli import read_params
from entity_transformers.study.origin import (
    Origin,
    is_own_path,
    place,
    read_origin,
    read_tokenizer_origin,
)
from entity_transformers.study.params import ParamsError, load
from entity_transformers.study.plan import Plan
from entity_transformers.study.resolve import resolve_study
from entity_transformers.study.steps import STEPS
from entity_transformers.study.values import read_values

ROOT = Path(__file__).resolve().parents[2]
TAKES = {"kind": "study", "path": "study:first"}
Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes the params.yaml of a study below tmp_path/studies, the sample's but for changes."""

    def write(name: str, **sections: Any) -> Path:
        values = read_values(ROOT / "studies" / "sample" / "params.yaml")
        values["models"] = {"gpt2": {"kind": "gpt2", "role": "baseline"}}
        values["study"]["steps"] = ["corpus", "lm", "perplexity", "report"]
        for key, value in sections.items():
            values[key] = values[key] | value if key != "models" else value
        folder = tmp_path / "studies" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "params.yaml").write_text(yaml.safe_dump(values | {"root": "../.."}))
        return folder / "params.yaml"

    return write


def takes(weights: str, **entry: Any) -> dict[str, Any]:
    return {"gpt2": {"kind": "gpt2", "initial_weights": weights, **entry}}


def test_names_of_studies_and_paths_are_told_apart() -> None:
    assert read_origin("study:a-b.c/gpt2-w128/12") == Origin("a-b.c", "gpt2-w128", 12)
    assert read_tokenizer_origin("study:books") == "books"
    for value in (None, "folder", "/a/b", "hub:gpt2", "studies/books"):
        assert read_origin(value) is None
        assert read_tokenizer_origin(value) is None
    assert [*map(is_own_path, ("x", "study:a", "hub:a", None))] == [True, False, False, False]


@pytest.mark.parametrize(
    "value", ["study:", "study:books", "study:books/gpt2", "study:books/gpt2/x", "study:../a/b/1"]
)
def test_a_name_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="expected study:NAME/MODEL/SEED"):
        read_origin(value)


def test_a_tokenizer_is_named_by_the_study_alone() -> None:
    with pytest.raises(ValueError, match="expected study:NAME, as in study:books"):
        read_tokenizer_origin("study:books/gpt2/1")


def test_where_a_value_lies() -> None:
    folder = Path("studies/next")
    weights = "studies/next/../../studies/first/results/lm/gpt2/1"
    assert place("initial_weights", "study:first/gpt2/1", folder, "../..") == weights
    encoder = "studies/next/../../studies/first/results/corpus/tokenizer.json"
    assert place("path", "study:first", folder, "../..") == encoder
    assert place("initial_weights", "hub:gpt2", folder, "../..") == "hub:gpt2"
    assert place("path", "mine", folder, "../..") == "studies/next/mine"


def test_a_command_finds_the_other_studys_files(make: Make) -> None:
    make("first")
    path = make("next", models=takes("study:first/gpt2/1"), tokenizer=TAKES)
    params = read_params(path, {})
    folder = path.parent / "../../studies/first/results"
    assert params.model("gpt2").lm.initial_weights == str(folder / "lm/gpt2/1")
    assert params.tokenizer.path == str(folder / "corpus/tokenizer.json")


WRONG = [
    ("study:none/gpt2/1", {}, r"models.gpt2: initial_weights study:none/gpt2/1: no study none: "),
    ("study:first/other/1", {}, "study first trains gpt2$"),
    ("study:first/gpt2/7", {}, "study first trains seeds 1$"),
    ("study:first/gpt2/1", {"kind": "lstm"}, "of kind gpt2, from which kind lstm can't start$"),
    ("study:first/gpt2/1", {"width": 32, "layers": 1}, "layers 1 here, 2 there; width 32 here, 64"),
]


@pytest.mark.parametrize(("weights", "entry", "message"), WRONG)
def test_weights_that_do_not_fit_are_refused_before_a_rule_runs(
    make: Make, weights: str, entry: dict[str, Any], message: str
) -> None:
    make("first")
    path = make("next", models=takes(weights, **entry), tokenizer=TAKES)
    with pytest.raises(ParamsError, match=message) as error:
        load(path)
    assert str(error.value).startswith(f"{path}: models.gpt2: initial_weights {weights}: ")


def test_a_shorter_window_takes_the_first_positions_where_the_kind_can(make: Make) -> None:
    make("first", models={"gpt2": {"kind": "gpt2"}, "bert": {"kind": "bert"}})
    window = load(make("plain")).model("gpt2").lm.window
    weights = {kind: f"study:first/{kind}/1" for kind in ("gpt2", "bert")}

    def begin(kind: str, length: int) -> None:
        entry = {"kind": kind, "initial_weights": weights[kind], "window": length}
        load(make("next", models={"gpt2": {"kind": "gpt2"}, "one": entry}, tokenizer=TAKES))

    begin("gpt2", window // 2)
    for kind, length in (("gpt2", 2 * window), ("bert", window // 2)):
        with pytest.raises(ParamsError, match=f"window {length} here, {window} there"):
            begin(kind, length)


def test_a_matched_model_starts_from_one_of_the_same_form_alone(make: Make) -> None:
    first = {"gpt2": {"kind": "gpt2"}, "gpt2e": {"kind": "gpt2e"}}
    wide = {"kind": "gpt2", "matched_to": "gpt2e"}
    make("first", models=first | {"wide": wide})
    models = {"gpt2e": {"kind": "gpt2e", "initial_weights": "study:first/gpt2/1"}}
    good = models | {"wide": wide | {"initial_weights": "study:first/wide/1"}}
    load(make("next", models=good, tokenizer=TAKES))
    bad = models | {"wide": wide | {"initial_weights": "study:first/gpt2/1"}}
    with pytest.raises(ParamsError, match="matched numbers per layer here, 0 there"):
        load(make("next", models=bad, tokenizer=TAKES))


def test_the_encoder_must_be_that_of_the_weights(make: Make) -> None:
    make("first")
    with pytest.raises(ParamsError, match=r"set tokenizer to \{kind: study, path: study:first\}"):
        load(make("next", models=takes("study:first/gpt2/1")))


@pytest.mark.parametrize(
    "tokenizer", [{"kind": "gpt2", "path": "study:first"}, {"kind": "study", "path": None}]
)
def test_kind_and_path_of_the_encoder_go_together(make: Make, tokenizer: dict[str, Any]) -> None:
    make("first")
    with pytest.raises(ParamsError, match="kind study, and no other, has a path study:NAME"):
        load(make("next", tokenizer=tokenizer))


def test_studies_that_start_from_each_other_are_refused(make: Make) -> None:
    make("first", models=takes("study:next/gpt2/1"), tokenizer=TAKES | {"path": "study:next"})
    path = make("next", models=takes("study:first/gpt2/1"), tokenizer=TAKES)
    with pytest.raises(ParamsError, match="circular"):
        load(path)


def test_the_files_are_inputs_of_the_runs_and_of_the_encoder(make: Make) -> None:
    make("first")
    more = {"gpt2e": {"kind": "gpt2e", "initial_weights": "study:first/gpt2/1"}}
    models = takes("study:first/gpt2/1") | more | {"new": {"kind": "gpt2"}}
    params = load(make("next", models=models, tokenizer=TAKES))
    plan = Plan(params)
    weights = [
        f"../../studies/first/results/lm/gpt2/1/{name}"
        for name in ("config.json", "model.safetensors")
    ]
    encoder = "../../studies/first/results/corpus/tokenizer.json"
    assert plan.taken(STEPS["lm"], "gpt2") == plan.taken(STEPS["lm"], "gpt2e") == weights
    assert plan.taken(STEPS["lm"], "new") == plan.taken(STEPS["perplexity"], "gpt2") == []
    assert plan.taken(STEPS["corpus"]) == [encoder]
    stages = expand_stages(params)
    assert set(weights) <= set(stages["lm@gpt2e-1"]["deps"])
    assert not any("first" in file for file in stages["lm@new-1"]["deps"])
    assert encoder in stages["corpus"]["deps"]
    assert plan.studies() == {
        ("first", "encoder"): ["results/corpus/tokenizer.json"],
        ("first", "weights"): [file[len("../../studies/first/") :] for file in weights],
    }


def test_what_the_other_study_depends_on_is_part_of_the_digest(make: Make) -> None:
    def digest(part: str = "weights", **sections: Any) -> str:
        make("first", **sections)
        params = load(path)
        return Plan(params, path.parent).digest_study("first", part)

    make("first")
    path = make("next", models=takes("study:first/gpt2/1"), tokenizer=TAKES)
    before = digest()
    assert digest() == before
    assert digest(lm={"learning_rate": 0.5}) != before
    assert digest(corpus={"sample_words": 9000}) != before
    assert digest(perplexity={"batch": 3}) == before
    assert digest(run={"threads": 2}) == before
    encoder = digest("encoder")
    assert encoder != before
    assert digest("encoder", lm={"learning_rate": 0.5}) == encoder  # it needs no training
    assert digest("encoder", corpus={"sample_words": 9000}) != encoder


def test_a_study_based_on_another_one_keeps_the_name(make: Make, tmp_path: Path) -> None:
    make("first")
    make("next", models=takes("study:first/gpt2/1"), tokenizer=TAKES)
    deep = tmp_path / "studies" / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "study.yaml").write_text("base: ../../next/params.yaml\nlm: {steps: 500}\n")
    values = yaml.safe_load(resolve_study(deep))
    assert values["models"]["gpt2"]["initial_weights"] == "study:first/gpt2/1"
    assert values["tokenizer"]["path"] == "study:first"
    assert values["root"] == "../../.."
