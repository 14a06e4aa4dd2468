"""Pronouns that a model decides by its probabilities: one pass of transformers' model per text."""

import json
import re

import numpy as np
import pytest
import task_files
from made import make_results
from plainly import score_continuation
from tiny import ROOT, SMALL, lively_model, tiny_entry
from tiny_study import lay_inputs
from written import teach

from entity_transformers.corpus.tasks import Example
from entity_transformers.step import Run, execute
from entity_transformers.steps import choices as step
from entity_transformers.study.params import STEPS, parse
from entity_transformers.study.values import read_values
from entity_transformers.tasks.choices import judge, tell_examples

TOLD = (
    "Fred Rollins met Ann Lee in Boston. Then he (Fred Rollins) gave Rollins's (Fred Rollins's)"
    " friend her (Ann Lee's) keys; Lee's brother saw her (Ann Lee). He left, but {} stayed since"
    " she was late."
)
PLAIN = re.sub(r" \([^)]*\)", "", TOLD)


def make_example(text: str, name: str = "a", **groups: str) -> Example:
    at = text.index("{")
    return Example(name, "test", (text.format("she"),), 1, ("Fred", "Ann"), (at, at + 3), groups)


def test_chains_are_told_before_the_pronoun_and_nowhere_else() -> None:
    example = make_example(PLAIN)
    _, found = tell_examples([example], 1)
    [chains], [others] = found["chains"], found["others"]
    told = TOLD.replace("He left", "He (Fred Rollins) left")
    assert chains.texts == (told.format("she"),)
    for one in (chains, others):
        start, end = one.blank or (0, 0)
        assert one.texts[0][start:] == example.texts[0][(example.blank or (0,))[0] :]
        assert one.texts[0][start:end] == "she"
        assert re.sub(r" \([^)]*\)", "", one.texts[0]) == example.texts[0]
    pairs = zip(
        *(re.findall(r"\(([^)]*)\)", one.texts[0]) for one in (chains, others)), strict=True
    )
    assert all(ours.removesuffix("'s") != theirs.removesuffix("'s") for ours, theirs in pairs)


@pytest.mark.parametrize(
    "text",
    ["{} was late.", "Ann Lee came. Lee left because {} was late.", "Ann met Bob, and {} left."],
    ids=["nothing before", "nobody else", "nobody twice"],
)
def test_where_there_is_nothing_to_tell_an_example_is_left_out(text: str) -> None:
    assert tell_examples([make_example(text)], 1)[0] == []


def test_shares_and_margins_are_those_of_a_count_by_hand() -> None:
    examples = [
        make_example(PLAIN, f"s{number}-{version}", version=version, type=str(1 + number % 2))
        for version in ("pro", "anti")
        for number in range(4)
    ]
    nats = np.array([[-2, -1], [-3, -1], [-2, -4], [-1, -1.5]] + [[-1, -2]] * 3 + [[-5, -1]])
    rows = list(judge("winobias", examples, nats, scoring="refers"))
    shares = {
        (row.get("type"), row.get("version")): (row["value"], row["count"])
        for row in rows
        if row["measure"] == "accuracy"
    }
    assert shares == {
        (None, None): (3 / 8, 8), (None, "pro"): (1 / 2, 4), (None, "anti"): (1 / 4, 4),
        ("1", "pro"): (1 / 2, 2), ("1", "anti"): (0, 2),
        ("2", "pro"): (1 / 2, 2), ("2", "anti"): (1 / 2, 2),
    }  # fmt: skip
    margins = [row["value"] for row in rows if row["measure"] == "margin"]
    assert margins == [1, 2, -2, -0.5, -1, -1, -1, 4]
    [table, _] = step.tables()
    entry = tiny_entry("gpt2")
    about = {"step": "choices", "model": entry.name, "seed": 1}
    measured, units = ([{**about, **row} for row in rows if ("unit" in row) == of] for of in (0, 1))
    built = table.build(make_results(measured, units, (entry,), seeds=(1,)))
    found = {row[1]: row for row in built.rows}
    column = built.columns.index("minus anti")
    assert found["pro"][column].value == pytest.approx(1 / 4)  # over four sentences, paired
    deviation = np.std([1, 1, 0, -1], ddof=1) / 2
    low, high = found["pro"][column].interval
    assert (high - low) / 2 == pytest.approx(3.1824 * deviation, rel=1e-3)  # Student, 3 degrees


def test_the_likelier_text_decides(tmp_path, monkeypatch) -> None:
    values = read_values(ROOT / "params.yaml")
    values["study"]["steps"] = ["corpus", "lm", "examples", "choices"]
    values["lm"] |= SMALL | {"window": 256}
    values["models"] = {"gpt2": {"kind": "gpt2", "role": "baseline"}}
    data = task_files.write_tasks(tmp_path / "data", 6)
    row = {"ID": "told", "Text": PLAIN.format("she"), "Pronoun-offset": str(PLAIN.index("{"))}
    with (data / "gap-coreference/gap-test.tsv").open("a") as file:
        file.write(task_files.gap_row(**row) + "\n")
    tasks = ["winogrande", "winobias", "gap"]
    values["examples"] = {"tasks": tasks, "path": str(data)}
    values["choices"] |= {"tasks": tasks, "examples": {"winogrande": 3}, "batch": 4}
    params = parse(values, "tiny")
    tokenizer = teach(PLAIN + task_files.GAP_TEXT)
    monkeypatch.chdir(tmp_path)
    run = Run(params, STEPS["choices"], "gpt2", 1)
    model = lively_model("gpt2", tokenizer.get_vocab_size(), seed=2, window=256)
    lay_inputs(run, tokenizer, model)
    execute(Run(params, STEPS["examples"]))
    rows = list(run.step.run(run))
    monkeypatch.setattr("entity_transformers.tasks.choices.score_pairs", None)
    assert list(run.step.run(run)) == rows  # nothing is scored again
    read = [json.loads(line) for line in (run.home("examples") / "examples.jsonl").open()]
    margins = {
        (row["task"], row["scoring"], row.get("told"), row["unit"]): row["value"]
        for row in rows
        if row["measure"] == "margin"
    }
    tests = [row for row in read if row["split"] == "test" and row["label"] is not None]
    assert {unit for task, *_, unit in margins if task == "gap"} == {
        row["name"] for row in tests if row["task"] == "gap"
    }
    assert len([key for key in margins if key[0] == "winogrande"]) == 3
    assert {key[2] for key in margins if key[3] == "told"} == {None, "nothing", "chains", "others"}
    for (task, scoring, told, unit), margin in margins.items():
        row = next(one for one in tests if (one["task"], one["name"]) == (task, unit))
        text, (start, end) = row["texts"][0], row["blank"]
        before = text[:start]
        if told == "others":
            continue
        if told == "chains":
            before = TOLD.replace("He left", "He (Fred Rollins) left").partition("{")[0]
        nats = []
        for option in row["options"]:
            asked = before + option, text[end:]
            if scoring == "refers":
                asked = f'{text} "{text[start:end].lower()}" refers to', f" {option}"
            nats.append(score_continuation(model, tokenizer, *asked, 256)[0])
        expected = nats[row["label"]] - nats[1 - row["label"]]
        assert margin == pytest.approx(expected, rel=1e-4, abs=1e-4)
