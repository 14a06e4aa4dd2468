"""Entries of models: what each key gives; a wrong one is named with place, value, expectation."""

from typing import Any

import pytest
from tiny import SAMPLE, tiny_entry, tiny_params

from entity_transformers import kinds
from entity_transformers.corpus.layers import CHANGES, EXPECTED, LABELS
from entity_transformers.kinds import KINDS, ROLES, KindError, resolve
from entity_transformers.study.params import load

Models = dict[str, dict[str, Any]]
PARAMS = tiny_params()


def resolve_entry(
    models: Models, name: str = "a", lm: Any = None, of_kind: Models | None = None
) -> kinds.ModelEntry:
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
    shared = KINDS[kind].params.model_fields.keys() & kinds.LmParams.model_fields.keys()
    assert shared == {"width", "initial_weights"}
    assert resolve_entry({"a": {"kind": kind}}, lm={"width": 24, "steps": 9}).lm.width == 24
    assert resolve_entry({"a": {"kind": kind, "width": 8}}).lm.width == 8


def test_role_and_labels_may_be_left_out_and_are_no_params() -> None:
    bare = resolve_entry({"a": {"kind": "gpt2e"}})
    assert (bare.name, bare.kind.name, bare.role, bare.labels) == ("a", "gpt2e", "other", "none")
    for role in ROLES:
        assert resolve_entry({"a": {"kind": "gpt2", "role": role}}).role == role
    for labels in (*LABELS, "resolver:names", *(f"{c}-resolver:names" for c in CHANGES)):
        assert resolve_entry({"a": {"kind": "gpt2e", "labels": labels}}).labels == labels
    for name, label in {"gpt2e": "", "gpt2e-unlabelled": " unlabelled", "mine": " mine"}.items():
        assert resolve_entry({name: {"kind": "gpt2e"}}, name).label == f"GPT2E{label}"


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_a_value_that_can_what_it_says(name: str) -> None:
    kind, entry = KINDS[name], tiny_entry(name)
    assert kind.name == name
    assert kind.can <= kinds.CAPABILITIES.keys()
    assert kind.era in kinds.ERAS
    assert all(field.description for field in kind.params.model_fields.values())
    assert (entry, hash(entry)) == (tiny_entry(name), hash(tiny_entry(name)))
    assert entry.can(kind.can)
    assert not entry.can({*kind.can, "nothing else"})
    with pytest.raises(AttributeError):
        entry.role = "control"
    with pytest.raises(ValueError, match="frozen"):
        entry.lm.width = 9


FREE = "expected an entry without matched_to: other"


@pytest.mark.parametrize(("kind", "more", "message"), [
    *((kind, {}, f".kind: {kind!r}, expected one of {', '.join(KINDS)}")
      for kind in (None, "gpt3", ["gpt2"])),
    ("gpt2", {"role": "king"}, ".role: 'king', expected one of " + ", ".join(ROLES)),
    *(("gpt2e", {"labels": labels}, f".labels: {labels!r}, expected one of {', '.join(EXPECTED)}")
      for labels in ("golden", None, "resolver:")),
    ("gpt2-antecedent", {}, ".labels: none, but kind gpt2-antecedent learns from labels"),
    ("gpt2-antecedent", {"labels": "gold", "antecedent_layer": 3}, ": Value error, antecedent_"),
    ("gpt2-pointer", {"labels": "lagged"}, ".labels: 'lagged', but kind gpt2-pointer lags"),
    ("gpt2-pointer", {"labels": "lagged-resolver:names"}, ".labels: 'lagged-resolver:names', but"),
    ("gpt2", {"labels": "gold"}, ".labels: 'gold', but kind gpt2 reads no entities: leave labels"),
    ("gpt2", {"memory_write": "last"}, ".memory_write: kind gpt2 has no such key; it has "),
    ("gpt2e", {"memory_write": "first"}, ".memory_write: Input should be 'last' or 'mean'"),
    ("gpt2", {"layers": True}, ".layers: Value error, true is not a number"),
    ("gpt2", {"heads": 3}, ": Value error, width 16 is not divisible by heads 3"),
    ("gpt2e", {"entity_gate": "zero", "entity_residual": False}, ": Value error, entity_gate zero"),
    *(("gpt2", {"matched_to": to}, f".matched_to: {to!r}, {FREE}") for to in ("c", "a", "matched")),
    ("fasttext", {"longest": 2}, ": Value error, shortest 3 exceeds longest 2"),
    ("gpt2", {"initial_weights": "study:books"}, ".initial_weights: Value error, 'study:books'"),
    *((kind, changes, f": Value error, {told}") for kind, changes, told in (
        ("bert", {"random_share": 0.3}, "mask_share 0.8 and random_share 0.3 add up to more"),
        ("electra", {"width": 18}, "width 18 and heads 2: a generator a quarter as wide can't"),
        ("electra", {"width": 36, "heads": 9}, "width 36 and heads 9: a generator a quarter as"),
        ("elmo", {"hidden": 16}, "hidden 16 is projected to width 16, which must be small"),
        ("transformer-xl", {"width": 15, "heads": 3}, "width 15 is odd, but distances are encoded"),
        ("lstm", {"input_dropout": 0.4}, "input_dropout 0.4 acts where dropout 0.1 does: set one"),
        ("lstm", {"residual": True, "hidden": 24}, "residual needs layers of equal width"),
        ("lstm", {"layers": 1, "hidden": 24}, "hidden 24 is for all layers but the last, but"),
        ("lstm", {"layers": 1, "dropout": 0.0, "hidden_dropout": 0.2}, "hidden_dropout 0.2 is"),
    )),
], ids=lambda value: str(value)[:60])  # fmt: skip
def test_a_wrong_entry_is_named_with_key_value_and_what_is_expected(kind, more, message):
    others: Models = {"other": {"kind": "gpt2e"}, "matched": {"kind": "gpt2", "matched_to": "a"}}
    with pytest.raises(KindError) as error:
        resolve_entry({"a": {"kind": kind, **more}, **others})
    assert str(error.value).startswith(f"models.a{message}")


def test_entries_matched_to_each_other_or_to_none_at_all_are_refused() -> None:
    circle = {one: {"kind": "gpt2", "matched_to": other} for one, other in ("ab", "ba")}
    for name, other in ("ab", "ba"):
        message = rf"^models\.{name}\.matched_to: '{other}', expected an .*_to: none exists$"
        with pytest.raises(KindError, match=message):
            resolve_entry(circle, name)
    with pytest.raises(KindError, match=r"kinds\.gpt2\.matched_to: 'b', but only an entry of"):
        resolve_entry({"a": {"kind": "gpt2"}}, of_kind={"gpt2": {"matched_to": "b"}})
    with pytest.raises(KindError, match=r"^models\.b\.kind: 'gpt3'"):
        resolve_entry({"a": {"kind": "gpt2", "matched_to": "b"}, "b": {"kind": "gpt3"}})


def test_what_is_missing_or_wrong_is_named_where_it_is_to_be_given() -> None:
    of_kind = {"gpt2e": {k: v for k, v in PARAMS.kinds["gpt2e"].items() if k != "memory_write"}}
    two = {"gpt2e": PARAMS.kinds["gpt2e"] | {"memory_write": "first", "odd": 1}}
    for lm, given, message in (
        ({}, of_kind, r"models.a: memory_write is missing: give it in lm, in kinds.gpt2e or here"),
        ({"layers": 0}, None, r"lm\.layers \(for models\.a\): .*greater than 0.*: 0\)"),
        ({}, two, r"kinds\.gpt2e\.memory_write: Input should be 'last' or 'mean' .*'first'\)"
                  r"\n  kinds\.gpt2e\.odd: kind gpt2e has no such key; it has [^\n]*"),
        ({}, {}, "(.* is missing.*\n?){6}"),
    ):  # fmt: skip
        with pytest.raises(KindError, match=rf"^{message}$"):
            resolve_entry({"a": {"kind": "gpt2e"}}, lm=lm, of_kind=given)


def test_params_give_entries_by_name_and_by_what_they_can() -> None:
    params = load(SAMPLE)
    found = [entry.name for entry in params.entries("causal", "entities")]
    assert found == ["gpt2e", "gpt2-pointer"]
    with pytest.raises(KindError, match="model 'gpt3', expected one of gpt2, gpt2e"):
        params.model("gpt3")


def test_no_other_key_decides_an_entry() -> None:
    """Whatever else changes in the params, the entry stays; whatever key of its changes shows."""
    models: Models = {"a": {"kind": "gpt2", "matched_to": "b"}, "b": {"kind": "gpt2e"}}
    before = resolve_entry(models)
    assert resolve_entry(models | {"c": {"kind": "gpt2e", "layers": 5}}) == before
    assert resolve_entry(models | {"b": {"kind": "gpt2e", "entity_values": "both"}}) != before
    assert resolve_entry(models, lm={"layers": 5}) != before
    kinds = {"gpt2e": PARAMS.kinds["gpt2e"] | {"entity_values": "both"}}
    assert resolve_entry(models, of_kind=kinds) != before
