"""The examples that one of two trials alone has right, against a count by hand."""

import pytest

from entity_transformers.report.transfer import pair_up


def judge(model: str, variant: str, right: str) -> list[dict[str, object]]:
    """Rows as they are read from rows.csv, in which every value is text."""
    about = {"step": "transfer", "model": model, "seed": "3", "split": "test", "task": "rte"}
    about |= {"variant": variant, "measure": "right"}
    return [about | {"value": value, "unit": str(i)} for i, value in enumerate(right)]


def test_pairs() -> None:
    """Models in one variant; full before others; entities beside others' full, in either order."""
    kept = {"step": "transfer", "model": "a", "measure": "accuracy", "value": "0.5"}
    trials = [
        ("a", "full", "11000"), ("a", "small", "10100"), ("b", "full", "01111"),
        ("b", "entities", "00001"), ("b", "entities-shuffled", "11110"),
        ("b", "entities-no-auxiliary", "00011"),
    ]  # fmt: skip
    first, *found = pair_up([kept, *(row for trial in trials for row in judge(*trial))])
    assert first == kept
    places = {(row["seed"], row["task"], row["split"], row["count"]) for row in found}
    assert places == {("3", "rte", "test", 5)}
    pairs = {}
    for row in found:
        key = (row["model"], row["variant"], row.get("against"), row.get("other"))
        assert row["measure"] == ("only_second" if key in pairs else "only_first")
        pairs[key] = (*pairs.get(key, ()), row["value"])
    assert pairs == {
        ("a", "full", None, "small"): (1, 1),
        ("a", "full", "b", None): (1, 3),
        ("b", "entities", "a", "full"): (1, 2),
        ("b", "full", None, "entities"): (3, 0),
        ("b", "full", None, "entities-shuffled"): (1, 1),
        ("b", "full", None, "entities-no-auxiliary"): (2, 0),
        ("b", "entities", None, "entities-shuffled"): (1, 4),
        ("b", "entities", None, "entities-no-auxiliary"): (0, 1),
    }


def test_other_examples_are_refused() -> None:
    """Two trials judged on different examples can't be paired."""
    with pytest.raises(ValueError, match="different examples of rte, test"):
        list(pair_up([*judge("a", "full", "10"), *judge("b", "full", "101")]))
