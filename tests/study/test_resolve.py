"""A study as its differences: what a study.yaml comes to, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from entity_transformers.kinds import KINDS
from entity_transformers.study.params import ALWAYS, ParamsError, load, parse, sections_of
from entity_transformers.study.resolve import dump_yaml, resolve_study
from entity_transformers.study.stages import render_stages
from entity_transformers.study.values import read_values

ROOT = Path(__file__).resolve().parents[2]
STUDIES = [ROOT / "params.yaml", *sorted(ROOT.glob("studies/*/params.yaml"))]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A folder studies/mine beside a full params.yaml."""
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    folder = tmp_path / "studies" / "mine"
    folder.mkdir(parents=True)
    return folder


def resolve(study: Path, text: str) -> dict[str, Any]:
    (study / "study.yaml").write_text(f"base: ../../params.yaml\n{text}")
    values: dict[str, Any] = yaml.safe_load(resolve_study(study))
    return values


@pytest.mark.parametrize("kind", KINDS)
def test_a_study_may_have_a_model_of_any_kind(study: Path, kind: str) -> None:
    labels = ", labels: gold" if "guided" in KINDS[kind].can else ""
    text = f"models: {{mine: {{kind: {kind}, width: 72{labels}}}}}\n"
    params = parse(resolve(study, text), "params.yaml")
    entry = params.model("mine")
    assert (entry.kind, entry.lm.width) == (KINDS[kind], 72)
    stages = yaml.safe_load(render_stages(params))
    run = next(part["runs"]["mine-1"] for part in stages["vars"] if "runs" in part)
    assert (run["model"], run["kind"]) == ("mine", kind)


def test_what_is_not_named_is_the_base_s(study: Path) -> None:
    values = resolve(study, "lm: {width: 96, heads: 4}\nstudy: {seeds: [3, 4]}\n")
    base = read_values(ROOT / "params.yaml")
    assert values["lm"] == base["lm"] | {"width": 96, "heads": 4}
    assert values["study"]["seeds"] == [3, 4]
    assert values["root"] == "../.."
    untouched = sections_of(base["study"]["steps"]) - {"lm", "study", "root"}
    assert {name: values[name] for name in untouched} == {name: base[name] for name in untouched}


def test_models_are_added_changed_and_taken_out_by_name(study: Path) -> None:
    values = resolve(
        study,
        "models:\n"
        "  gpt2: null\n"
        "  gpt2e: {learning_rate: 1.0e-3}\n"
        "  more: {kind: gpt2e, labels: none}\n",
    )
    assert values["models"] == {
        "gpt2e": {"kind": "gpt2e", "role": "proposed", "labels": "gold", "learning_rate": 1e-3},
        "more": {"kind": "gpt2e", "labels": "none"},
    }


def test_two_entries_of_one_kind_have_different_switches(study: Path) -> None:
    values = resolve(
        study, "models: {far: {kind: gpt2e, labels: gold, memory_gradient_windows: 3}}\n"
    )
    assert values["models"]["far"]["memory_gradient_windows"] == 3
    assert "memory_gradient_windows" not in values["models"]["gpt2e"]


def test_a_study_has_the_sections_of_its_steps(study: Path) -> None:
    values = resolve(study, "study: {steps: [corpus, lm, perplexity]}\n")
    assert set(values) == {*ALWAYS, "perplexity", "similarity"}


def test_a_study_may_be_based_on_another(study: Path) -> None:
    resolve(study, "lm: {width: 96, heads: 4}\ncorpus: {format: jsonl, path: texts/mine.jsonl}\n")
    further = study.parent / "further"
    further.mkdir()
    (further / "study.yaml").write_text("base: ../mine/study.yaml\nlm: {layers: 3}\n")
    values = yaml.safe_load(resolve_study(further))
    assert (values["lm"]["width"], values["lm"]["layers"]) == (96, 3)
    assert values["corpus"]["path"] == "../mine/texts/mine.jsonl"
    assert values["root"] == "../.."


def test_what_another_study_s_values_are_does_not_matter_yet(study: Path) -> None:
    """All are resolved before any is checked: a key that is new is in none of them."""
    other = study.parent / "other"
    other.mkdir()
    (other / "params.yaml").write_text("lm: {layers: 3}\n")
    tokens = "tokenizer: {kind: study, path: study:other}\n"
    values = resolve(study, f"{tokens}lm: {{initial_weights: study:other/gpt2/1}}\n")
    (study / "params.yaml").write_text(resolve_study(study))
    assert values["lm"]["initial_weights"] == "study:other/gpt2/1"
    with pytest.raises(ParamsError, match=r"other.params\.yaml: \d+ bad parameters\n  root"):
        load(study / "params.yaml")


BAD = [
    (
        "lm: {layres: 3}",
        r"study\.yaml: lm\.layres: 3, but its base has no such key, expected one of",
    ),
    ("probes: {batch: 3}", r"probes: \{'batch': 3\}, but its base has no such key"),
    ("lm: 3", r"study\.yaml: lm: 3, expected a mapping: initial_weights, "),
    (
        "models: {gpt3: null}",
        r"models\.gpt3: None, but its base has no such key, expected one of gpt2",
    ),
    ("models: {gpt2: gpt2e}", r"models\.gpt2: 'gpt2e', expected a mapping: kind, role"),
    (
        "models: {gpt2: {kind: rnn}}",
        rf"models\.gpt2\.kind: 'rnn', expected one of {', '.join(KINDS)}$",
    ),
    ("models: {gpt2: {layres: 3}}", r"models\.gpt2\.layres: kind gpt2 has no such key; it has"),
    ("lm: {heads: 5}", r"width 768 is not divisible by heads 5"),
    (
        "study: {steps: [corpus, lm, rumour]}",
        r"study\.steps: 'rumour', expected steps of analogies, cache",
    ),
    ("root: .", r"root: '\.', but it comes from base: leave it out"),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=[text for text, _ in BAD])
def test_a_wrong_difference_names_file_key_and_value(study: Path, text: str, message: str) -> None:
    with pytest.raises(ParamsError, match=message) as error:
        resolve(study, text)
    assert str(error.value).startswith(str(study / "study.yaml"))


@pytest.mark.parametrize(
    ("base", "message"),
    [
        (
            "base: ../../nowhere.yaml",
            r"base: '\.\./\.\./nowhere\.yaml', expected the params\.yaml or",
        ),
        ("lm: {layers: 2}", r"base: None, expected the params\.yaml or study\.yaml"),
        ("base: 3", r"base: 3, expected"),
        ("base: study.yaml", r"base: circular, .*mine/study\.yaml -> .*mine/study\.yaml: end at a"),
        ("base: ../other/study.yaml", r"circular, .*mine/.* -> .*other/.* -> .*mine/.*: end at a"),
    ],
)
def test_a_base_that_is_missing_or_circular(study: Path, base: str, message: str) -> None:
    (study / "study.yaml").write_text(base + "\n")
    other = study.parent / "other"
    other.mkdir()
    (other / "study.yaml").write_text("base: ../mine/study.yaml\n")
    with pytest.raises(ParamsError, match=message):
        resolve_study(study)


def test_what_is_written_is_read_alike_by_both_dialects() -> None:
    from ruamel.yaml import YAML

    values = {"lm": {"rate": 1e-05, "compile": "off", "on": True, "none": None, "text": "1e5"}}
    text = dump_yaml(values)
    assert yaml.safe_load(text) == values
    assert YAML(typ="safe").load(text)["lm"]["rate"] == 1e-05


def test_dvc_reads_what_dvc_has_written_of_it(tmp_path: Path) -> None:
    """`dvc exp run -S` writes params.yaml without the quotes that DVC's parser wants in braces; it
    may put a value with a colon where there was none.
    """
    from dvc.utils.serialize import load_yaml, modify_yaml

    values: dict[str, Any] = {
        "models": {"a": {"labels": "gold"}, "b": {"steps": 1, "deep": {"c": ["x:y"]}}, "c": {}},
        "lists": {"of": [["u:v", 1], {"w": "x:y"}, ["GUM?", "?b"]], "short": [1, 2]},
        "title": {"text": "a: b?", "url": "http://x/y"},
    }
    path = tmp_path / "params.yaml"
    path.write_text(dump_yaml(values))
    assert "short: [1, 2]" in path.read_text()
    with modify_yaml(str(path)) as there:
        for held in (there, values):
            held["models"]["a"]["labels"] = "resolver:names"
            held["models"]["b"]["steps"] = "study:a/b"
            held["lists"]["of"][1]["w"] = "z?"
    assert load_yaml(str(path)) == yaml.safe_load(path.read_text()) == values


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.parent.name)
def test_a_label_of_any_entry_may_be_an_experiment(path: Path, tmp_path: Path) -> None:
    """As `dvc exp run -S models.NAME.labels=resolver:x` puts it into params.yaml."""
    from dvc.utils.hydra import apply_overrides
    from dvc.utils.serialize import load_yaml

    copy = tmp_path / "params.yaml"
    copy.write_text(path.read_text())
    names = list(yaml.safe_load(copy.read_text())["models"])
    apply_overrides(str(copy), [f"+models.{name}.extra=resolver:x" for name in names])
    assert {entry["extra"] for entry in load_yaml(str(copy))["models"].values()} == {"resolver:x"}
