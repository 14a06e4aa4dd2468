"""Passages whose text tells its chains: one pass of transformers' model per text."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from made import make_results
from plainly import score_continuation
from tiny import ROOT, SMALL, lively_model, tiny_entry
from tiny_study import lay_inputs
from written import teach

from entity_transformers.artifacts import write_json_lines, write_record
from entity_transformers.step import Run
from entity_transformers.steps import told_passages as step
from entity_transformers.study.params import STEPS, parse
from entity_transformers.study.values import read_values
from entity_transformers.tasks.telling import score_told, tell_each

TEXTS = [
    "Fred Rollins met Ann Lee in Boston. Then he gave her the keys, and she thanked Fred",
    "It rained in the night, and in the morning the road to the village was under water",
    "Mary Bell saw John Gray. He waved to her, but she was looking at the sky, not at John",
]
GIVEN = [(text, text.rindex(" ") + 1) for text in TEXTS]
PASSAGES = [{"text": text, "target_start": start} for text, start in GIVEN]


def test_only_what_precedes_the_last_word_is_told() -> None:
    numbers, found = tell_each(GIVEN, 1)
    assert numbers == [0, 2]
    assert [text for text, _ in found["nothing"]] == [TEXTS[0], TEXTS[2]]
    for told in ("chains", "others"):
        for (text, start), (plain, end) in zip(found[told], found["nothing"], strict=True):
            assert text != plain
            assert re.sub(r" \([^)]*\)", "", text) == plain
            assert text[start:] == plain[end:]
    names = {told: [re.findall(r"\(([^)]*)\)", text) for text, _ in found[told]] for told in found}
    assert names["chains"][0][0] == "Fred Rollins"
    for own, others in zip(names["chains"], names["others"], strict=True):
        assert len(own) == len(others) > 0
        assert all(a != b for a, b in zip(own, others, strict=True))


def test_where_nothing_is_to_be_told_nothing_is_scored() -> None:
    rows = list(score_told(SimpleNamespace(seed=1), PASSAGES[1:2]))  # type: ignore[arg-type]
    assert [(row["measure"], row["value"], row["count"]) for row in rows] == [("told", 0, 1)]


def test_scores_are_those_of_each_text(tmp_path, monkeypatch):
    """A stopped run scores nothing again; the table's differences are paired by passage."""
    monkeypatch.chdir(tmp_path)
    tokenizer = teach(" ".join(TEXTS))
    values = read_values(ROOT / "params.yaml")
    values["lm"] |= SMALL | {"window": 256}
    values["models"] = {"gpt2": {"kind": "gpt2", "role": "baseline"}}
    values["perplexity"]["stride"] = 256
    run = Run(parse(values, "tiny"), STEPS["told_passages"], "gpt2", 1)
    model = lively_model("gpt2", tokenizer.get_vocab_size(), seed=2, window=256)
    lay_inputs(run, tokenizer, model)
    run.home("passages").mkdir(parents=True)
    write_json_lines(run.home("passages") / "lambada.jsonl", PASSAGES)
    write_record(run.home("passages"), [])
    rows = list(run.step.run(run))
    monkeypatch.setattr("entity_transformers.tasks.telling.score_passages", None)
    assert list(run.step.run(run)) == rows
    found = {(r["told"], r["unit"]): r["value"] for r in rows if r["measure"] == "nll"}
    texts = tell_each(GIVEN, 1)[1]
    for told, own in texts.items():
        for unit, (text, start) in zip(("1", "3"), own, strict=True):
            expected = -score_continuation(model, tokenizer, text[:start], text[start:], 256)[0]
            assert found[told, unit] == pytest.approx(expected, rel=1e-4)
    entry = tiny_entry("gpt2")
    about = {"step": "told_passages", "model": entry.name, "seed": 1}
    measured, units = ([{**about, **row} for row in rows if ("unit" in row) == of] for of in (0, 1))
    [table] = step.tables()
    built = table.build(make_results(measured, units, (entry,), seeds=(1,)))
    column = built.columns.index("Nats minus others")
    [value] = [row[column].value for row in built.rows if row[0] == "chains"]
    gaps = [found["chains", unit] - found["others", unit] for unit in ("1", "3")]
    assert value == pytest.approx(np.mean(gaps))
