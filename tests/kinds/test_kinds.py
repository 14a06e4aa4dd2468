"""Entries of models: what each key of params.yaml gives, and that a wrong one is named with its
place, its value and what is expected.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from tiny import SAMPLE, tiny_entry, tiny_params

from entity_transformers.corpus.layers import CHANGES, EXPECTED, LABELS
from entity_transformers.kinds import (
    CAPABILITIES,
    KINDS,
    ROLES,
    Kind,
    KindError,
    LmParams,
    ModelEntry,
    param_keys,
    resolve,
)
from entity_transformers.kinds.params import GPT2EParams
from entity_transformers.study.params import ParamsError, load, parse

Models = dict[str, dict[str, Any]]
PARAMS = tiny_params()


def resolve_entry(
    models: Models,
    name: str = "a",
    lm: dict[str, Any] | None = None,
    of_kind: Models | None = None,
) -> ModelEntry:
    """Entry ``name`` over the values of `tiny_params`, ``lm`` changed."""
    values = PARAMS.lm.model_dump() | (lm or {})
    return resolve(name, models, values, PARAMS.kinds if of_kind is None else of_kind, KINDS)


def test_an_entry_has_its_own_values_over_its_kinds_over_those_of_lm() -> None:
    models: Models = {"a": {"kind": "gpt2e", "layers": 3}, "b": {"kind": "gpt2"}}
    of_kind = {"gpt2e": PARAMS.kinds["gpt2e"] | {"layers": 4, "heads": 1, "memory_write": "mean"}}
    a, b = (resolve_entry(models, name, {"window": 9}, of_kind).lm for name in models)
    assert (a.layers, a.heads, a.window, a.memory_write) == (3, 1, 9, "mean")
    assert (b.layers, b.heads, b.window) == (2, 2, 9)


@pytest.mark.parametrize("kind", [name for name in KINDS if "static" in KINDS[name].can])
def test_a_static_kind_takes_only_its_width_and_where_it_starts_from_lm(kind: str) -> None:
    entry = resolve_entry({"a": {"kind": kind}}, lm={"width": 24, "steps": 9})
    shared = set(KINDS[kind].params.model_fields) & set(LmParams.model_fields)
    assert shared == {"width", "initial_weights"}
    assert entry.lm.width == 24
    assert entry.initial_weights is None
    assert resolve_entry({"a": {"kind": kind, "width": 8}}).lm.width == 8


def test_role_and_labels_may_be_left_out_and_are_no_params() -> None:
    bare = resolve_entry({"a": {"kind": "gpt2e"}})
    assert (bare.name, bare.kind.name, bare.role, bare.labels) == ("a", "gpt2e", "other", "none")
    for role in ROLES:
        assert resolve_entry({"a": {"kind": "gpt2", "role": role}}).role == role
    for labels in (*LABELS, "resolver:names", *(f"{c}-resolver:names" for c in CHANGES)):
        assert resolve_entry({"a": {"kind": "gpt2e", "labels": labels}}).labels == labels


@pytest.mark.parametrize(
    ("name", "label"),
    [("gpt2e", "GPT2E"), ("gpt2e-unlabelled", "GPT2E unlabelled"), ("mine", "GPT2E mine")],
)
def test_tables_write_the_kind_then_what_the_name_adds(name: str, label: str) -> None:
    assert resolve_entry({name: {"kind": "gpt2e"}}, name).label == label


def test_a_kind_can_what_it_says() -> None:
    gpt2, gpt2e = tiny_entry("gpt2"), tiny_entry("gpt2e")
    assert gpt2.can({"causal", "attend"})
    assert gpt2e.can({"causal", "attend", "entities"})
    assert not gpt2.can({"causal", "entities"})
    assert gpt2.can(set())
    for kind in KINDS.values():
        assert kind.can <= CAPABILITIES.keys()
    with pytest.raises(ValueError, match=r"kind x: unknown capabilities \['fly'\]"):
        Kind("x", "X", 2000, "memory", LmParams, frozenset({"fly", "causal"}), "nowhere")


KNOWN = ", ".join(KINDS)
LAYERS = ", ".join(EXPECTED)
WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, f"models.a.kind: None, expected one of {KNOWN}"),
    ({"kind": "gpt3"}, f"models.a.kind: 'gpt3', expected one of {KNOWN}"),
    ({"kind": ["gpt2"]}, f"models.a.kind: ['gpt2'], expected one of {KNOWN}"),
    (
        {"kind": "gpt2", "role": "king"},
        "models.a.role: 'king', expected one of baseline, proposed, control, other",
    ),
    ({"kind": "gpt2e", "labels": "golden"}, f"models.a.labels: 'golden', expected one of {LAYERS}"),
    ({"kind": "gpt2e", "labels": None}, f"models.a.labels: None, expected one of {LAYERS}"),
    (
        {"kind": "gpt2e", "labels": "resolver:"},
        f"models.a.labels: 'resolver:', expected one of {LAYERS}",
    ),
    (
        {"kind": "gpt2-antecedent"},
        "models.a.labels: none, but kind gpt2-antecedent learns from labels: give them, or take the"
        " kind without",
    ),
    (
        {"kind": "gpt2-antecedent", "labels": "gold", "antecedent_layer": 3},
        "models.a: Value error, antecedent_layer 3 is more than layers 2",
    ),
    (
        {"kind": "gpt2", "labels": "gold"},
        "models.a.labels: 'gold', but kind gpt2 reads no entities: leave it out",
    ),
    (
        {"kind": "gpt2", "memory_write": "last"},
        "models.a.memory_write: kind gpt2 has no such key; it has "
        + ", ".join(KINDS["gpt2"].params.model_fields),
    ),
    (
        {"kind": "gpt2e", "memory_write": "first"},
        "models.a.memory_write: Input should be 'last' or 'mean' (value: 'first')",
    ),
    (
        {"kind": "gpt2", "layers": True},
        "models.a.layers: Value error, true is not a number",
    ),
    ({"kind": "gpt2", "heads": 3}, "models.a: Value error, width 16 is not divisible by heads 3"),
    (
        {"kind": "gpt2e", "entity_gate": "zero", "entity_residual": False},
        "models.a: Value error, entity_gate zero without entity_residual would give a constant"
        " output",
    ),
    (
        {"kind": "gpt2", "matched_to": "c"},
        "models.a.matched_to: 'c', expected an entry without matched_to: other",
    ),
    (
        {"kind": "gpt2", "matched_to": "a"},
        "models.a.matched_to: 'a', expected an entry without matched_to: other",
    ),
    (
        {"kind": "gpt2", "matched_to": "matched"},
        "models.a.matched_to: 'matched', expected an entry without matched_to: other",
    ),
    (
        {"kind": "word2vec", "layers": 2},
        "models.a.layers: kind word2vec has no such key; it has "
        + ", ".join(KINDS["word2vec"].params.model_fields),
    ),
    (
        {"kind": "fasttext", "longest": 2},
        "models.a: Value error, shortest 3 is more than longest 2",
    ),
    (
        {"kind": "glove", "labels": "gold"},
        "models.a.labels: 'gold', but kind glove reads no entities: leave it out",
    ),
    (
        {"kind": "gpt2", "initial_weights": "study:books/gpt2"},
        "models.a.initial_weights: Value error, 'study:books/gpt2', expected study:NAME/MODEL/SEED,"
        " as in study:books/gpt2/1",
    ),
]


@pytest.mark.parametrize(("entry", "message"), WRONG, ids=lambda value: str(value)[:60])
def test_a_wrong_entry_is_named_with_key_value_and_what_is_expected(
    entry: dict[str, Any], message: str
) -> None:
    others: Models = {"other": {"kind": "gpt2e"}, "matched": {"kind": "gpt2", "matched_to": "a"}}
    with pytest.raises(KindError) as error:
        resolve_entry({"a": entry, **others})
    assert str(error.value) == message


def test_entries_matched_to_each_other_or_to_none_at_all_are_refused() -> None:
    circle: Models = {
        "a": {"kind": "gpt2", "matched_to": "b"},
        "b": {"kind": "gpt2", "matched_to": "a"},
    }
    for name, other in (("a", "b"), ("b", "a")):
        with pytest.raises(KindError) as error:
            resolve_entry(circle, name)
        assert str(error.value) == (
            f"models.{name}.matched_to: '{other}', expected an entry without matched_to: there is"
            " none"
        )
    for models in ({"a": {"kind": "gpt2"}}, {"a": {"kind": "gpt2"}, "b": {"kind": "gpt2e"}}):
        with pytest.raises(KindError, match=r"kinds\.gpt2\.matched_to: 'b', but only an entry of"):
            resolve_entry(models, of_kind=PARAMS.kinds | {"gpt2": {"matched_to": "b"}})


def test_an_entry_matched_to_a_wrong_one_names_the_wrong_one() -> None:
    models: Models = {"a": {"kind": "gpt2", "matched_to": "b"}, "b": {"kind": "gpt3"}}
    with pytest.raises(KindError, match=r"^models\.b\.kind: 'gpt3'"):
        resolve_entry(models)


def test_a_missing_key_is_named_with_where_to_give_it() -> None:
    of_kind = {"gpt2e": {k: v for k, v in PARAMS.kinds["gpt2e"].items() if k != "memory_life"}}
    with pytest.raises(KindError) as error:
        resolve_entry({"a": {"kind": "gpt2e"}}, of_kind=of_kind)
    assert str(error.value) == (
        "models.a: memory_life is missing: give it in lm, in kinds.gpt2e or here"
    )
    with pytest.raises(KindError) as error:
        resolve_entry({"a": {"kind": "gpt2e"}}, of_kind={})
    own = GPT2EParams.model_fields.keys() - LmParams.model_fields.keys()
    required = [name for name in own if GPT2EParams.model_fields[name].is_required()]
    assert str(error.value).count(" is missing") == len(required)


def test_a_wrong_value_is_named_where_it_stands() -> None:
    with pytest.raises(KindError, match=r"^lm\.layers \(for models\.a\): .*greater than 0.*: 0\)$"):
        resolve_entry({"a": {"kind": "gpt2"}}, lm={"layers": 0})
    kinds = {"gpt2e": PARAMS.kinds["gpt2e"] | {"memory_life": "year", "odd": 1}}
    with pytest.raises(KindError) as error:
        resolve_entry({"a": {"kind": "gpt2e"}}, of_kind=kinds)
    first, second = str(error.value).split("\n  ")
    assert first == (
        "kinds.gpt2e.memory_life: Input should be 'document' or 'epochs' (value: 'year')"
    )
    assert second.startswith("kinds.gpt2e.odd: kind gpt2e has no such key; it has ")


@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        ("models", {"gpt2": {"kind": "gpt3"}}, "models.gpt2.kind: 'gpt3', expected one of "),
        ("kinds", {"gpt3": {}}, f"kinds.gpt3: no such kind, expected one of {KNOWN}"),
        ("models", {}, "models: Dictionary should have at least 1 item"),
    ],
)
def test_params_name_file_and_entry(section: str, values: Any, message: str) -> None:
    with pytest.raises(ParamsError) as error:
        parse(PARAMS.model_dump(mode="json") | {section: values}, "my/params.yaml")
    assert str(error.value).startswith("my/params.yaml: ")
    assert "\n" not in str(error.value)
    assert message in str(error.value)


def test_params_give_entries_by_name_and_by_what_they_can() -> None:
    params = load(SAMPLE)
    assert params.model("gpt2e").name == "gpt2e"
    assert [entry.name for entry in params.entries("causal")] == list(params.models)
    assert [entry.name for entry in params.entries("causal", "entities")] == ["gpt2e"]
    with pytest.raises(KindError, match="model 'gpt3', expected one of gpt2, gpt2e"):
        params.model("gpt3")


@pytest.mark.parametrize("values", ["hidden", "both"])
@pytest.mark.parametrize("more", [{}, {"entity_layer_norm": True, "entity_gate": "zero"}])
def test_a_matched_entry_has_its_other_s_extra_numbers(values: str, more: dict[str, Any]) -> None:
    models: Models = {
        "a": {"kind": "gpt2", "matched_to": "b", "role": "control"},
        "b": {"kind": "gpt2e", "entity_values": values, **more},
    }
    a, b = (resolve_entry(models, name) for name in models)
    assert (a.extra, b.extra) == (b.lm.count_extra(), 0)
    width = b.lm.width
    projections = (5 if values == "both" else 4) * width * (width + 1)
    assert a.extra == projections + (2 * width + 1 if more else 0)


def test_the_keys_that_decide_an_entry_are_its_own_its_kinds_and_those_of_what_it_matches() -> None:
    models: Models = {
        "gpt2": {"kind": "gpt2"},
        "gpt2e": {"kind": "gpt2e"},
        "wide": {"kind": "gpt2", "matched_to": "gpt2e"},
        "circle": {"kind": "gpt2", "matched_to": "circle"},
        "lost": {"kind": "gpt3", "matched_to": "nothing"},
    }
    of_kind = {"gpt2e": {}}
    assert param_keys("gpt2", models, of_kind) == ["lm", "models.gpt2"]
    assert param_keys("gpt2e", models, of_kind) == ["lm", "kinds.gpt2e", "models.gpt2e"]
    assert param_keys("wide", models, of_kind) == [
        "lm",
        "models.wide",
        "kinds.gpt2e",
        "models.gpt2e",
    ]
    both = {"gpt2": {}, "gpt2e": {}}
    assert param_keys("wide", models, both)[:3] == ["lm", "kinds.gpt2", "models.wide"]
    assert param_keys("circle", models, of_kind) == ["lm", "models.circle"]
    assert param_keys("lost", models, of_kind) == ["lm", "models.lost"]


def test_no_other_key_decides_an_entry() -> None:
    """Whatever else changes in the params, the entry stays; whatever key of its changes shows."""
    models: Models = {
        "a": {"kind": "gpt2", "matched_to": "b"},
        "b": {"kind": "gpt2e"},
        "c": {"kind": "gpt2e"},
    }
    before = resolve_entry(models)
    assert resolve_entry(models | {"c": {"kind": "gpt2e", "layers": 5}}) == before
    assert resolve_entry(models | {"b": {"kind": "gpt2e", "entity_values": "both"}}) != before
    assert resolve_entry(models, lm={"layers": 5}) != before
    kinds = {"gpt2e": PARAMS.kinds["gpt2e"] | {"entity_values": "both"}}
    assert resolve_entry(models, of_kind=kinds) != before


def test_an_entry_is_a_value() -> None:
    entry = tiny_entry()
    assert replace(entry) == entry == tiny_entry()
    for kind in KINDS:
        assert hash(tiny_entry(kind)) == hash(tiny_entry(kind))
    with pytest.raises(AttributeError):
        entry.role = "control"  # type: ignore[misc]
    with pytest.raises(ValueError, match="frozen"):
        entry.lm.layers = 9


LIGHT = f"""
import sys
import entity_transformers.kinds
from entity_transformers.study.params import load
params = load(__import__("pathlib").Path({str(SAMPLE)!r}))
assert params.model("gpt2e").lm.layers
found = {{"torch", "transformers", "numpy", "entity_transformers.models"}} & sys.modules.keys()
print(sorted(found))
"""


def test_reading_params_and_entries_imports_neither_torch_nor_numpy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIGHT], capture_output=True, text=True, check=False, timeout=1800
    )
    assert done.stdout.split("\n")[0] == "[]", done.stderr
