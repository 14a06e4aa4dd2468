"""Tables of single steps against numbers by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made import make_results, make_rows, make_study
from tiny import tiny_entry

from entity_transformers.kinds import ModelEntry
from entity_transformers.report import corpus, intervals, lm, memories, perplexity, vectors
from entity_transformers.report.memories import RECALLED, describe, draw_recall
from entity_transformers.report.results import Results
from entity_transformers.report.table import MISSING, Number

Entries = dict[str, ModelEntry]


def list_rows(table: Any) -> list[dict[str, Any]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def test_the_largest_cache_is_told_in_bits_per_byte(entries: Entries) -> None:
    about = {"model": "gpt2", "seed": 1, "split": "test"}
    rows = make_rows(about | {"step": "perplexity", "entities": "off"}, bits_per_byte=2)
    for size, value in ((0, 5.25), (64, 4.5), (1024, 4)):
        rows += make_rows(about | {"step": "cache", "size": size}, loss=value)
    results = make_results(rows, None, (entries["gpt2"],))
    assert lm.read_cached(results, entries["gpt2"]) == 2 * (4 / 5.25)


def test_the_corpus_table_has_what_some_split_has() -> None:
    about = {"step": "corpus", "split": "test"}
    rows = make_rows(about, words=7, chains=0, kept_mentions=0, merged_spans=0, sentences=2)
    rows += make_rows({**about, "group": "unknown"}, words=7)
    table = corpus.build_corpus(make_results(rows, None, ()))
    assert {row[0]: row[1].value for row in table.rows} == {"Sentences": 2, "Words": 7}
    assert table.note == ""
    other = corpus.build_corpus(make_results(rows, None, (), second_test="litbank"))
    assert other.note.strip() == "Split test2 is another data set, litbank."


def test_table_5_has_the_papers_labels_first_and_f1_by_documents(entries: Entries) -> None:
    rows, units = [], []
    for model, right in (("gpt2", 3), ("gpt2e", 5)):
        run = {"step": "ner", "model": model, "seed": 1, "split": "test"}
        for about in ({"average": "micro"}, {"label": "GPE"}, {"label": "PERSON"}):
            own = {**run, **about, "count": 8}
            rows += make_rows(own, span_f1=2 * right / 16, span_precision=0.5, span_predicted=8)
        absent = {"label": "ANIMAL", "count": 0}  # of the training text, neither here nor found
        rows += make_rows(run | absent, span_f1=0, span_predicted=0)
        for unit in range(4):
            units += make_rows(run | {"unit": f"d{unit}"}, correct=right, predicted=8, gold=8)
    results = make_results(rows, units, (entries["gpt2"], entries["gpt2e"]), seeds=(1,))
    table = list_rows(vectors.TABLE5.build(results))
    assert [row["Label"] for row in table] == ["PERSON", "GPE", "Overall"]
    assert str(table[0]["GPT2E F1"]) == "62.5%"
    assert str(table[0]["Paper GPT2E F1"]) == "51.5%"
    assert str(table[1]["Paper GPT2 F1"]) == MISSING
    gap = list_rows(vectors.OVERALL.build(results))[-1]
    assert gap["Model"] == "GPT2E − GPT2"
    assert gap["Span micro F1"].value == pytest.approx(2 / 8)
    assert gap["Span micro F1"].interval == pytest.approx((0.25, 0.25))  # all documents are alike
    assert str(gap["Span macro F1"]) == MISSING


def test_the_probe_s_shares_are_of_questions(entries: Entries) -> None:
    rows, units = [], []
    for model, right in (("gpt2", (1, 4)), ("gpt2e", (2, 8))):
        whole = {"step": "probe", "seed": 1, "model": model, "split": "test"}
        run = {**whole, "attention": "self", "entities": "off", "group": "all"}
        rows += make_rows(run | {"count": 12}, accuracy=0.5, layer=2, head=1)
        rows += make_rows(run | {"split": "dev"}, chosen_accuracy=0.5)
        for unit, (value, count) in enumerate(zip(right, (2, 10), strict=True)):
            own = {"unit": f"d{unit}", "count": count}
            units += make_rows(run | own, correct=value, nearest=value - 1)
        rows += make_rows(whole, mentions_left_out=0.125)
        rows += make_rows(whole | {"group": "all", "count": 12}, accuracy_nearest=0.25)
    results = make_results(rows, units, (entries["gpt2"], entries["gpt2e"]), seeds=(1,))
    plain, ours, gap = list_rows(vectors.HEADS.build(results))
    assert (plain["Model"], plain["Head"], str(plain["Chosen at"])) == ("GPT2", "2-1", "50.0%")
    assert plain["Accuracy"].value == pytest.approx(5 / 12)
    assert plain["Minus nearest"].value == pytest.approx(2 / 12)
    assert str(plain["Nearest"]) == "25.0%"
    assert str(plain["Chance"]) == MISSING
    assert gap["Accuracy"].value == pytest.approx(ours["Accuracy"].value - 5 / 12)


def test_a_memory_is_weighed_and_held_against_the_baseline(entries: Entries) -> None:
    pointer = replace(tiny_entry("gpt2-pointer"), name="pointer", role="proposed")
    rows, units = [], []
    read = (("gpt2", "none", 0, 5.0), ("gpt2", "none", 8, 4.5), ("pointer", "lagged", 0, 4.0))
    for model, labels, size, loss in read:
        run = {"step": "mentions", "model": model, "seed": 1, "split": "test"}
        run |= {"labels": labels, "size": size}
        rows += make_rows(run | {"count": 400}, loss=loss)
        rows += make_rows(run | {"place": "far", "count": 90}, loss=loss - 1)
        rows += make_rows(run, entities=3)
        for unit in range(4):
            own = {"scope": "all", "count": 100, "unit": f"d{unit}"}
            units += make_rows(run | own, nll=100 * loss)
    results = make_results(rows, units, (entries["gpt2"], pointer), seeds=(1,))
    plain, cached, ours = list_rows(memories.MENTIONS.build(results))
    lm = pointer.lm
    assert cached["KiB"].value == 8 * 4 * (entries["gpt2"].lm.width + 1) / 1024
    entity = lm.width + lm.pointer_forms * lm.pointer_tokens + 2
    waiting = (lm.entity_lag + lm.pointer_tokens) * (lm.width + 2)
    assert ours["KiB"].value == 4 * (3 * entity + waiting) / 1024
    assert (plain["Against the baseline"], ours["Later, far"].value) == (MISSING, 3)
    assert ours["Against the baseline"].interval == pytest.approx((-1, -1))


def test_further_models_meet_the_baseline_and_what_was_trained_like_them(entries):
    """Two further models, one with twice the rate of gpt2e's kind, and gpt2e-unlabelled like it."""
    twice = entries["gpt2e"].lm.model_copy(update={"learning_rate": 0.5})
    own = {"gpt2-matched": entries["gpt2-matched"].lm}
    own |= {"gpt2e-unlabelled": twice, "gpt2e-shuffled": twice}
    changed = {name: replace(entries[name], role="other", lm=lm) for name, lm in own.items()}
    made = make_study()
    results = replace(made, entries=tuple(changed.get(one.name, one) for one in made.entries))
    table = list_rows(perplexity.OTHERS.build(results))
    rows = {(row["Model"], row["Minus"]): row for row in table}
    assert [*rows] == [
        ("GPT2E unlabelled", "GPT2"), ("GPT2E shuffled", "GPT2"),
        ("GPT2E shuffled", "GPT2E unlabelled"), ("GPT2 parameter-matched", "GPT2"),
    ]  # fmt: skip
    sides = (changed[name] for name in ("gpt2e-shuffled", "gpt2e-unlabelled"))
    shuffled, unlabelled = (
        results.mean(intervals.loss("test", "on", model=model)) for model in sides
    )
    found = rows["GPT2E shuffled", "GPT2E unlabelled"]["Difference"]
    assert found.value == pytest.approx(shuffled - unlabelled, abs=1e-3)
    assert perplexity.OTHERS.build(replace(results, paper=False)).rows == ()


RECALL = {
    "gpt2": {"kind": "gpt2"},
    "whole": {"kind": "gpt2", "reads": "document"},
    "detached": {"kind": "gpt2e", "labels": "gold"},
    "gradient": {"kind": "gpt2e", "memory_gradient_windows": 2},
}
CALLED = (
    "GPT2 (no memory)", "GPT2 that sees the whole document",
    "GPT2E: keys from E, memory detached (the paper)",
    "GPT2E: keys from E, gradient through the memory",
)  # fmt: skip


def make_recall(later: dict[str, tuple[float, ...]]) -> Results:
    rows = []
    for model, values in later.items():
        for seed, value in enumerate(values, 1):
            run = {"step": "recall", "model": model, "seed": seed}
            rows += make_rows(run, chance=0.1, documents=96, entities=2, windows=3, window=12)
            for distance, right in {"0": 1.0, "1": value, "later": value}.items():
                rows += make_rows(run | {"distance": distance, "count": 40}, accuracy=right)
    return make_results(rows, None, (), recall=RECALL)


def test_recall_says_what_carries_the_fact() -> None:
    assert tuple(map(describe, RECALL.values())) == CALLED
    values = (0.09, 0.13)
    results = make_recall({"gradient": (0.9, 0.2), "detached": values, "whole": (0.8,)})
    table = RECALLED.build(results)
    assert [row[0] for row in table.rows] == [*CALLED[1:]]
    assert table.rows[1][2] == Number(np.mean(values), 2, np.std(values, ddof=1))
    assert "Chance is 0.10" in table.note
    assert draw_recall(results) is not None
    assert RECALLED.build(make_recall({})).rows == ()
