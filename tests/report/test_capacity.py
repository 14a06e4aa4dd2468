"""Memories of bounded size: rows from capacity.json, differences at equal entries and bytes, the
picture.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entity_transformers.artifacts import read_json, write_json
from entity_transformers.kinds import KINDS, resolve
from entity_transformers.report import mentions
from entity_transformers.report.capacity import (
    Reading,
    as_heavy,
    build_capacity,
    count_bytes,
    measure,
    say_capacity,
)
from entity_transformers.report.capacity_figure import draw_capacity
from entity_transformers.report.cells import MISSING, Number
from entity_transformers.report.frame import Frame
from entity_transformers.report.measures import Tree, collect
from entity_transformers.report.results import Results
from entity_transformers.study.params import load

ROOT = Path(__file__).resolve().parents[2]
TOKENS = [100, 300, 200, 300, 100]
MODELS: dict[str, dict[str, Any]] = {
    "gpt2": {"kind": "gpt2", "role": "baseline"},
    "gpt2-pointer": {"kind": "gpt2-pointer", "role": "proposed", "labels": "gold"},
}
WIDTH = 128
CACHES = {0: 6.0, 64: 5.7, 256: 5.4, 1024: 5.2}
"""The baseline's loss with each."""
MEMORIES = {(64, 0): 5.5, (32, 32): 5.4, (128, 128): 5.3, (500, 512): 5.35}
KNOWN = [40, 600, 50, 70, 240]
SEEDS = (1, 2)


def entry(labels: str, size: int, loss: float) -> dict[str, Any]:
    return {
        "labels": labels,
        "size": size,
        "theta": None,
        "weight": 0.0,
        "entities": [0] * 5,
        "loss": loss,
        "groups": {"place": {"far": {"tokens": 80, "loss": loss + 1}}},
        "documents": {
            "all": [loss * n for n in TOKENS],
            "far": [(loss + 1) * n / 10 for n in TOKENS],
        },
    }


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    documents = [
        {"document": f"a/{d}", "tokens": {"all": n, "far": n // 10}} for d, n in enumerate(TOKENS)
    ]
    facts = {"split": "test", "documents": documents}
    for seed in SEEDS:
        found = [entry("none", size, loss) for size, loss in CACHES.items()]
        write_json(tmp_path / f"mentions/gpt2/{seed}/mentions.json", facts | {"scored": found})
        found = [
            {
                **entry("lagged", size, loss),
                "rows": rows,
                "entities": [min(rows, known) for known in KNOWN],
            }
            for (rows, size), loss in MEMORIES.items()
        ]
        path = tmp_path / f"capacity/gpt2-pointer/{seed}/capacity.json"
        write_json(path, facts | {"scored": found})
    return Tree(tmp_path, tuple((model, seed) for model in MODELS for seed in SEEDS))


@pytest.fixture
def results(tree: Tree) -> Results:
    params = load(ROOT / "params.yaml")
    shape = params.lm.model_dump() | {"width": WIDTH, "heads": 2}
    entries = tuple(resolve(name, MODELS, shape, params.kinds, KINDS) for name in MODELS)
    frame = Frame(chain(measure(tree), mentions.measure(tree)))
    steps = ("mentions", "capacity")
    return Results("x", entries, SEEDS, frame, steps=steps, bootstrap_samples=200)


def test_every_number_has_a_unit(tree: Tree) -> None:
    rows = 2 + 1 + 2 * len(TOKENS)  # loss and entities, by place, nats of documents of two scopes
    found = collect(tree, ["capacity"])
    assert len(found) == len(SEEDS) * len(MEMORIES) * rows


def test_a_memory_weighs_what_its_entities_and_tokens_do(results: Results) -> None:
    pointer = results.entries[1]
    weights = {
        key: count_bytes(results, pointer, Reading(key[0], "lagged", key[1])) for key in MEMORIES
    }
    lm: Any = pointer.lm
    entity = 4 * (WIDTH + lm.pointer_forms * lm.pointer_tokens + 2)
    waiting = 4 * (lm.entity_lag + lm.pointer_tokens) * (WIDTH + 2)
    token = 4 * (WIDTH + 1)
    for (rows, size), weight in weights.items():
        held = np.mean([min(rows, known) for known in KNOWN])
        assert weight == pytest.approx(waiting + held * entity + size * token)
    assert as_heavy(results, pointer, Reading(64, "lagged", 0)) == 256
    assert as_heavy(results, pointer, Reading(500, "lagged", 512)) == 1024


def test_each_memory_is_held_to_as_many_recent_tokens_and_to_no_fewer_bytes(
    results: Results,
) -> None:
    table = build_capacity(results)
    cells = {name: [row[i] for row in table.rows] for i, name in enumerate(table.columns)}
    assert [str(one) for one in cells["Entities"]] == ["32", "64", "128", "500"]
    assert [str(one) for one in cells["Recent tokens"]] == ["32", "0", "128", "512"]
    equal = [one.value if isinstance(one, Number) else None for one in
             cells["Against as many recent tokens"]]  # fmt: skip
    assert equal == [pytest.approx(-0.3), pytest.approx(-0.2), pytest.approx(-0.1), None]
    assert [str(one) for one in cells["Recent tokens of no fewer bytes"]] == [
        "256", "256", "1,024", "1,024",
    ]  # fmt: skip
    for name in ("Against these", "Far, against these"):
        found = [one.value for one in cells[name] if isinstance(one, Number)]
        assert found == pytest.approx([0.0, 0.1, 0.1, 0.15])


def test_another_pointer_is_held_to_the_one_under_test(tmp_path: Path, tree: Tree) -> None:
    """With the same entries; a memory that only one of the two has is not compared."""
    models = MODELS | {"gpt2-pointer-words": {"kind": "gpt2-pointer", "labels": "gold"}}
    for seed in SEEDS:
        found = read_json(tmp_path / f"capacity/gpt2-pointer/{seed}/capacity.json")
        for one in found["scored"]:
            for scope, nats in one["documents"].items():
                one["documents"][scope] = [
                    value + 0.05 * n for value, n in zip(nats, TOKENS, strict=True)
                ]
        found["scored"][0]["rows"] += 1
        path = tmp_path / f"capacity/gpt2-pointer-words/{seed}/capacity.json"
        write_json(path, found)
    params = load(ROOT / "params.yaml")
    shape = params.lm.model_dump() | {"width": WIDTH, "heads": 2}
    entries = tuple(resolve(name, models, shape, params.kinds, KINDS) for name in models)
    runs = Tree(tree.root, tuple((model, seed) for model in models for seed in SEEDS))
    frame = Frame(chain(measure(runs), mentions.measure(runs)))
    table = build_capacity(Results("x", entries, SEEDS, frame, bootstrap_samples=200))
    place = table.columns.index("Against the model under test")
    cells = {(str(row[2]), str(row[0])): row[place] for row in table.rows}
    words = {key[1]: cell for key, cell in cells.items() if key[0].endswith("words")}
    assert words["65"] is MISSING
    for rows in ("32", "128", "500"):
        cell = words[rows]
        assert isinstance(cell, Number)
        assert cell.value == pytest.approx(0.05)
        assert cells["GPT2 pointer", rows] is MISSING


def test_the_page_tells_the_heaviest_within_each_cache(results: Results) -> None:
    (said,) = say_capacity(results)
    assert said.startswith("In no more bytes than recent tokens alone, GPT2 pointer has 0.0000 [")
    assert "against 256 (32 entities, 32 tokens); +0.1500" in said
    assert said.endswith("against 1,024 (500 entities, 512 tokens).")
    assert say_capacity(Results("x", results.entries[:1], SEEDS, results.frame)) == ()
    assert say_capacity(Results("x", results.entries, SEEDS)) == ()


def test_a_line_for_each_share_of_recent_tokens(results: Results) -> None:
    figure = draw_capacity(results)
    assert figure is not None
    entries, weights = figure.axes
    lines = {str(line.get_label()): np.array(line.get_xydata()) for line in entries.get_lines()}
    assert lines.keys() == {
        "GPT2, recent tokens alone",
        "GPT2 pointer, 0% recent tokens",
        "GPT2 pointer, 50% recent tokens",
        "GPT2 pointer, 51% recent tokens",
    }
    alone = [(size, loss) for size, loss in CACHES.items() if size]
    np.testing.assert_allclose(lines["GPT2, recent tokens alone"], alone)
    np.testing.assert_allclose(lines["GPT2 pointer, 50% recent tokens"], [(64, 5.4), (256, 5.3)])
    heavy = {str(line.get_label()): np.array(line.get_xydata()) for line in weights.get_lines()}
    np.testing.assert_allclose(heavy["GPT2, recent tokens alone"][:, 0], [32.25, 129, 516])
    assert draw_capacity(Results("x", results.entries, SEEDS)) is None
