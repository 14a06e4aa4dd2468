"""The typed parameters: every study loads, both YAML dialects agree on every leaf, bad values are
named.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ruamel.yaml import YAML

from entity_transformers.kinds import KINDS
from entity_transformers.study.params import Params, ParamsError, load, parse

ROOT = Path(__file__).resolve().parents[2]
KNOWN = ", ".join(KINDS)
STUDIES = sorted([ROOT / "params.yaml", *ROOT.glob("studies/*/params.yaml")])

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60))
"""As a value 2 to the power of 60 long."""


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, str(key)))
    else:
        yield path, value


@pytest.fixture
def values() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "params.yaml").read_text())


@pytest.mark.parametrize("path", STUDIES, ids=lambda p: p.parent.name)
def test_every_study_loads(path: Path) -> None:
    assert (path.parent / load(path).root).resolve() == ROOT


@pytest.mark.parametrize("path", STUDIES, ids=lambda p: p.parent.name)
def test_yaml_1_1_and_1_2_agree_on_every_leaf(path: Path) -> None:
    """Snakemake reads YAML 1.1, DVC 1.2: a value that they read differently would re-run other
    steps.
    """
    old, new = yaml.safe_load(path.read_text()), YAML(typ="safe").load(path.read_text())
    assert dict(leaves(old)) == dict(leaves(new))
    for (key, one), (_, other) in zip(leaves(old), leaves(new), strict=True):
        assert type(one) is type(other), key


def test_numbers_may_come_as_text(values: dict[str, Any]) -> None:
    values["lm"]["learning_rate"] = "1e-05"
    assert parse(values, "x").lm.learning_rate == 1e-5


def paths_of(values: dict[str, Any], kinds: tuple[type, ...]) -> list[tuple[str, ...]]:
    return [path for path, value in leaves(values) if type(value) in kinds]


def test_no_number_is_a_truth_value_and_no_truth_value_a_text(values: dict[str, Any]) -> None:
    typed = parse(values, "x").model_dump()
    for kinds, wrong in (((int, float), True), ((bool,), "no"), ((bool,), 1)):
        for section, key in (path for path in paths_of(typed, kinds) if len(path) == 2):
            with pytest.raises(
                ParamsError,
                match=(
                    rf"x: {section}\.{key}: .*(true is not a number|valid"
                    r" boolean)"
                ),
            ):
                parse(values | {section: values[section] | {key: wrong}}, "x")
    assert len(paths_of(typed, (int, float))) > 40
    assert len([path for path in paths_of(typed, (bool,)) if len(path) == 2]) == 4


def test_no_number_in_a_list_or_beside_null_is_a_truth_value(values: dict[str, Any]) -> None:
    for section, key, wrong in (
        ("study", "seeds", [True, "2"]),
        ("recall", "seeds", [True]),
        ("run", "max_minutes", True),
    ):
        with pytest.raises(ParamsError, match=rf"{section}\.{key}.*: .*true is not a number"):
            parse(values | {section: values[section] | {key: wrong}}, "x")


def test_the_paper_is_the_root_study() -> None:
    lm = load(ROOT / "params.yaml").lm
    assert (lm.layers, lm.heads, lm.width, lm.steps, lm.documents_per_step, lm.learning_rate) == (
        12,
        12,
        768,
        100_000,
        1,
        2e-5,
    )


@pytest.mark.parametrize(
    ("section", "key", "value", "message"),
    [
        ("lm", "heads", 7, r"lm: .*width 768 is not divisible by heads 7"),
        (
            "lm",
            "compile",
            "fast",
            r"lm\.compile: .*'off', 'default' or 'reduce-overhead' \(value: 'fast'\)",
        ),
        ("lm", "layers", 0, r"lm\.layers: .* \(value: 0\)"),
        ("lm", "layres", 12, r"lm\.layres: no such key \(value: 12\), expected .*layers"),
        ("lm", "entity_gate", "zero", r"lm\.entity_gate: no such key"),
        ("lm", "steps", "many", r"lm\.steps: .*valid integer.*'many'"),
        ("run", "max_minutes", 1e26, r"run\.max_minutes: .*less than or equal to 10000000"),
        ("lm", "steps", 10**26, r"lm\.steps: .*less than or equal to 10000000000"),
        ("lm", "width", 10**7, r"lm\.width: .*less than or equal to 1000000 "),
        ("lm", "window", 10**7, r"lm\.window: .*less than or equal to 1000000 "),
        ("tokenizer", "vocabulary", 10**11, r"vocabulary: .*less than or equal to 10000000 "),
        ("lm", "learning_rate", ".nan", r"lm\.learning_rate"),
        ("study", "models", ["gpt3"], r"study\.models: no such key .*steps, seeds"),
        ("study", "steps", ["corpus", "lm", "magic"], r"study\.steps: 'magic', expected .*probe"),
        ("study", "steps", ["corpus", "corpus"], "steps must not repeat"),
        ("study", "steps", ["lm"], "lm reads what corpus writes: name it too, or leave lm out"),
        ("study", "steps", ["corpus", "ner"], "ner reads what embeddings writes"),
        (
            "models",
            "gpt2",
            {"kind": "gpt3"},
            rf"models\.gpt2\.kind: 'gpt3', expected one of {KNOWN}$",
        ),
        ("models", "a/b", {"kind": "gpt2"}, r"models\.a/b: the name is part of paths"),
        ("kinds", "gpt3", {}, rf"kinds\.gpt3: no such kind, expected one of {KNOWN}$"),
        ("kinds", "gpt2e", {"memory_life": "for ever"}, r"memory_life: .*'document' or 'epochs'"),
        ("study", "seeds", [1, 1], "must not repeat"),
        ("study", "seeds", [1, -1], r"study\.seeds\.1: .*greater than or equal to 0 \(value: -1\)"),
        ("perplexity", "stride", 2048, r"perplexity\.stride 2048 is more than lm\.window 1024"),
        ("probe", "report", "dev", "choose and report are both dev"),
        ("probe", "groups", {"all": ["NN"]}, "groups names all, which the results use"),
        ("run", "device", "tpu", r"run\.device: .*'tpu'"),
        ("recall", "models", {"a": {"kind": "b"}}, r"recall\.models\.a\.kind: 'b', expected"),
        ("recall", "models", {"a": {"kind": "gpt2", "x": 1}}, r"recall\.models\.a\.x: kind gpt2"),
        ("recall", "entities", 21, "entities 21 is more than names 20"),
        ("recall", "heads", 3, "width 64 is not divisible by heads 3"),
        ("recall", "windows", 1, r"recall\.windows: .* \(value: 1\)"),
        ("corpus", "format", "conll", r"corpus\.format: .*'conll'"),
    ],
)
def test_a_bad_value_names_file_key_and_value(
    values: dict[str, Any], section: str, key: str, value: Any, message: str
) -> None:
    values[section][key] = value
    with pytest.raises(ParamsError, match=message) as error:
        parse(values, "studies/mine/params.yaml")
    assert str(error.value).startswith("studies/mine/params.yaml: ")


def test_a_path_that_the_sample_would_not_read_is_refused(values: dict[str, Any]) -> None:
    values["corpus"] |= {"format": "sample", "path": "my-corpus"}
    with pytest.raises(ParamsError, match=r"corpus\.path names my-corpus, but format sample is"):
        parse(values, "params.yaml")


def test_labels_of_a_resolver_that_the_corpus_does_not_have_are_refused(
    values: dict[str, Any],
) -> None:
    values["models"]["gpt2e"]["labels"] = "resolver:names"
    with pytest.raises(ParamsError, match=r"models\.gpt2e\.labels: .* name names: add it there"):
        parse(values, "params.yaml")
    values["corpus"]["resolvers"] = ["names"]
    assert parse(values, "params.yaml").model("gpt2e").labels == "resolver:names"


def test_a_missing_value_is_named(values: dict[str, Any]) -> None:
    del values["ner"]["hidden"]
    with pytest.raises(ParamsError, match=r"ner\.hidden: Field required \(value: none given\)"):
        parse(values, "x")


def test_no_field_has_a_default() -> None:
    sections = [
        field.annotation
        for field in Params.model_fields.values()
        if hasattr(field.annotation, "model_fields")
    ]
    assert len(sections) > 10
    for section in [Params, *sections]:
        assert all(field.is_required() for field in section.model_fields.values())
    described = [
        field.description for section in sections for field in section.model_fields.values()
    ]
    assert all(described)


def test_a_section_that_no_step_reads_may_be_left_out(values: dict[str, Any]) -> None:
    values["study"]["steps"] = ["corpus", "lm", "perplexity", "report"]
    del values["recall"], values["ner"], values["lambada"]
    params = parse(values, "x")
    assert params.has("probe")
    assert not params.has("recall")
    assert "recall" not in params.model_dump()
    with pytest.raises(ParamsError, match=r"recall\.seeds is asked for, but the study has no"):
        _ = params.recall.seeds
    values["study"]["steps"] += ["recall"]
    with pytest.raises(ParamsError, match=r"recall: Field required"):
        parse(values, "x")


def test_a_step_that_no_model_can_do_is_named(
    values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    blind = replace(KINDS["gpt2"], name="blind", can=frozenset({"encode"}))
    monkeypatch.setitem(KINDS, "blind", blind)
    told = r"study\.steps: perplexity needs causal \(nats .*\), but static can encode: add a model"
    with pytest.raises(ParamsError, match=told):
        parse(values | {"models": {"static": {"kind": "blind"}}}, "x")
    values["recall"]["models"]["static"] = {"kind": "blind"}
    told = r"recall\.models\.static: kind blind can encode, but step recall needs causal"
    with pytest.raises(ParamsError, match=told):
        parse(values, "x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not YAML"),
        ("- 1", "holds no sections"),
        ("lm: {a: 1}\nrun: {}\nlm: {b: 2}", r"not YAML: lm is given twice \(line 3, column 1\)$"),
        ("lm: {a: 1, a: 2}", "a is given twice"),
        ("lm: " + "[" * 20_000, "not YAML: more than 20 levels deep"),
        (BOMB, r"not YAML: an alias: write the value itself \(line 2, "),
        ("lm: &all {a: 1}\nrun: {<<: *all}", "an alias: write the value itself"),
        ("a: b:c\nm: {a: {}, d: b:c}", r"b:c stands .* its ':': .* \(line 2, column 15\)$"),
        ("m:\n- [a, [b: c, 'b:c']]", r"b:c stands .* its own \(line 2, column 14\)$"),
        ("m: {d: 'GUM?'}", r"GUM\? stands .* its '\?': give it a line of its own"),
    ],
)
def test_a_file_that_is_no_params(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(text)
    with pytest.raises(ParamsError, match=message):
        load(path)
    path.write_bytes("title: Caf\u00e9".encode("latin-1"))
    with pytest.raises(ParamsError, match=r"params\.yaml: not UTF-8 at byte 10"):
        load(path)
    with pytest.raises(ParamsError, match="No such file"):
        load(tmp_path / "none.yaml")
