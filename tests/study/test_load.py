"""Studies are loaded with every error named: file, key, value and what was expected."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from dvc.repo import Repo
from ruamel.yaml import YAML
from tiny_study import ROOT, TINY, make_study

from entity_transformers.study.params import ParamsError, load
from entity_transformers.study.values import PAPER, find_study, list_studies, read_values

STUDIES = list(list_studies(ROOT))


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, str(key)))
    else:
        yield path, value


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_study_loads_and_all_parsers_of_yaml_agree(path: Path) -> None:
    """Snakemake reads YAML 1.1, DVC 1.2; the parsers in C want quotes around more values."""
    assert load(path).name == ("paper" if path.stem == "params" else path.stem)
    text = path.read_text()
    values = read_values(path)
    assert yaml.safe_load(text) == yaml.load(text, yaml.CSafeLoader) == values
    for pure in (True, False):
        new = YAML(typ="safe", pure=pure).load(text)
        assert dict(leaves(values)) == dict(leaves(new))
        for (key, one), (_, other) in zip(leaves(values), leaves(new), strict=True):
            assert type(one) is type(other), key


def test_each_stage_of_dvc_depends_on_all_that_its_study_is_based_on() -> None:
    for stage in Repo(str(ROOT)).index.stages:
        chain = [find_study(stage.name.partition("@")[2], ROOT / "params.yaml")]
        while chain[-1] != STUDIES[0]:
            chain.append(find_study(read_values(chain[-1]).get("base", PAPER), chain[-1]))
        assert {*map(str, chain)} <= {one.fs_path for one in stage.deps}, stage.name


def test_an_entry_goes_on_from_another_one_of_its_study(tmp_path: Path) -> None:
    path = make_study(tmp_path)
    short = "short: {kind: bert, window: 16, positions: 32, seeds: [2]}"
    longer = "longer: {kind: bert, initial_weights: 'study:tiny/short/2'}"
    path.write_text(f"{TINY}models: {{{short}, {longer}}}\n")
    assert load(path).model("longer").lm.context == 32


@pytest.mark.parametrize(("text", "expected"), [
    ("base: nowhere\n", ["base: no study 'nowhere'", "expected one of paper, sample, tiny"]),
    ("base: tiny\n", ["base: circular"]),
    ("base: 3\n", ["base: 3, expected the name"]),
    (f"{TINY}models: {{gpt2e: {{seeds: 3}}}}\n", ["models.gpt2e.seeds: 3", "a list"]),
    ("text", ["not a mapping of sections"]),
    (f"{TINY}lmm: 3\n", ["lmm: 3", "not a key of its base, expected one of", "lm"]),
    (f"{TINY}probe: {{bach: 3}}\n", ["probe.bach: 3", "not a key of its base", "batch"]),
    (f"{TINY}models: {{other: {{kind: nope}}}}\n", ["models.other", "'nope'", "gpt2e"]),
    (f"{TINY}models: {{gpt2e: {{lerning_rate: 1}}}}\n", ["models.gpt2e", "lerning_rate"]),
    (f"{TINY}models: {{gpt2e: {{only: [lmm]}}}}\n", ["models.gpt2e.only: 'lmm'", "lambada"]),
    (f"{TINY}models: {{gpt2e: {{kind: gpt2e}}, gpt2e: {{}}}}\n", ["gpt2e is given twice"]),
    (f"{TINY}study: {{steps: [corpus, perplexity]}}\n", ["perplexity reads the output of lm"]),
    (f"{TINY}study: {{steps: [corpus, lm, pseudo_perplexity]}}\n", ["pseudo_perplexity needs"]),
    (f"{TINY}models: {{gpt2e: {{initial_weights: 'study:tiny/gpt2e/1'}}}}\n",
     ["models.gpt2e: initial_weights study:tiny/gpt2e/1: circular: gpt2e -> gpt2e"]),
    (f"{TINY}models: {{gpt2e: {{initial_weights: 'study:tiny/other/1'}}, other: {{kind: gpt2e,"
     " initial_weights: 'study:tiny/gpt2e/1'}}\n", ["circular: gpt2e -> other -> gpt2e"]),
    (f"{TINY}models: {{gpt2: {{seeds: [4]}}, gpt2e: {{initial_weights: 'study:tiny/gpt2/1'}}}}\n",
     ["models.gpt2e", "study tiny trains gpt2 with seeds 4"]),
    (f"{TINY}models: {{short: {{kind: bert, window: 16}}, long: {{kind: bert,"
     " initial_weights: 'study:tiny/short/1'}}\n", ["models.long", "window 32 here, 16 there"]),
    (f"{TINY}probe: {{splits: [test9]}}\n", ["probe", "test9"]),
    (TINY.replace("hidden: 8", "hidden: many"), ["ner.hidden: Input should be a valid integer"]),
    (TINY.replace("stride: 32", "stride: 64"), ["perplexity.stride 64", "lm.window 32"]),
    ("[" * 90, ["not YAML"]),
    ("report: " + "[" * 20_000, ["not YAML: maximum recursion depth"]),
    ('report: {title: "\\ud83d"}\n', ["not YAML: 'utf-8' codec can't encode"]),
])  # fmt: skip
def test_what_is_wrong_is_named(tmp_path: Path, text: str, expected: list[str]) -> None:
    path = make_study(tmp_path)
    path.write_text(text)
    with pytest.raises(ParamsError) as error:
        load(path)
    assert str(error.value).startswith(str(path))
    assert [part for part in expected if part not in str(error.value)] == []


def test_the_paper_s_claims_judge_no_corpus_of_one_s_own(tmp_path: Path) -> None:
    own = "base: paper\ncorpus: {format: jsonl, path: mine}\n"
    texts = ("base: paper", f"{own}report: {{paper: true}}", own, f"{own}report: {{title: Mine}}")
    study, judged = make_study(tmp_path).with_stem("mine"), []
    for text in texts:
        study.write_text(text)
        judged.append(load(study).report.paper)
    assert judged == [True, True, False, False]


def test_a_value_of_the_command_line(tmp_path: Path) -> None:
    path = make_study(tmp_path)
    assert load(path, {"lm.steps": 9}).lm.steps == 9
    with pytest.raises(ParamsError, match=r"--set lm\.stepz: no such value in"):
        load(path, {"lm.stepz": 9})


def test_every_whole_number_has_a_largest_value() -> None:
    """Those of the kinds of model are read where a model is of that kind."""
    file = ROOT / "params.yaml"
    whole = 0
    for path, value in leaves(read_values(file)):
        key, several = ".".join(path), isinstance(value, list)
        if path[0] != "kinds" and {*map(type, value if several else [value])} == {int}:
            whole += 1
            with pytest.raises(ParamsError, match=key):
                load(file, {key: [10**12] if several else 10**12})
    assert whole > 50


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "study.yaml")
    with pytest.raises(ParamsError, match=r"study\.yaml: .*not a regular file"):
        load(tmp_path / "study.yaml")
