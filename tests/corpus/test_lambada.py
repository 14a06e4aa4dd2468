"""LAMBADA: both texts, told apart, their published counts, and what is refused."""

import csv
import json
from pathlib import Path

import pytest
from refused import refused

from entity_transformers.artifacts import read_json_lines, write_json_lines, write_record
from entity_transformers.corpus.files import open_lines
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.readers.lambada import Text, make_documents, parse_passages
from entity_transformers.step import Run, execute
from entity_transformers.study.params import STEPS, load

ORIGINAL = "in my palm is a stone , `` she said , and i looked at the stone\n"
TEXT = 'In my palm is a stone," she said,\n\n“and I looked at the stone'
OPENAI = json.dumps({"text": TEXT}) + "\n"


@pytest.mark.parametrize(("line", "text"), [(ORIGINAL, "original"), (OPENAI, "openai")])
def test_the_target_follows_the_last_space(line: str, text: Text) -> None:
    [row] = parse_passages([line], "f", text, Ledger())
    assert row["text"][row["target_start"] :] == "stone"
    assert row["text"][row["target_start"] - 1] == " "
    assert row["text"] == (json.loads(line)["text"] if text == "openai" else line.rstrip("\n"))


@pytest.mark.parametrize(("name", "text", "lines", "message"), [
    ("openai as original", "original", [OPENAI], r"line 1: .*set lambada.text"),
    ("original as openai", "openai", [ORIGINAL], r"line 1: .*set lambada.text to original"),
    ("mix in original", "original", [ORIGINAL, OPENAI], r"line 2: .*expected a passage of the"),
    ("capitals", "original", ["He said no\n"] * 30, r"30 of 30 passages have capitals"),
    ("small", "openai", ['{"text": "he said no"}\n'] * 30, r"0 of 30 passages have capitals"),
    ("spaces", "original", ["     \n"], r"line 1: '' has no last word, expected a context"),
    ("empty", "original", [], r"f: no passage in this file"),
    ("no key", "openai", ['{"passage": "a b"}\n'], r"line 1: .*expected a JSON object"),
    ("web page", "original", ["<html>\n"], r"line 1: '<html>', expected a passage"),
    ("carriage return", "original", ["a b\r\n"], r"line 1, character 4: a carriage return"),
    ("surrogate", "openai", ['{"text": "a \\ud800"}\n'], r"line 1, character 3: surrogate U\+D800"),
])  # fmt: skip
def test_a_wrong_file_is_refused(name: str, text: Text, lines: list[str], message: str) -> None:
    with refused(message):
        list(parse_passages(lines, "f", text, Ledger()))


def test_skip_leaves_out_bad_passages_alone_and_names_each() -> None:
    ledger, damaged = Ledger("skip"), ["a \0 b\n", "a \udcff b\n", "a b\r\n", "  \n", OPENAI]
    lines = [line for bad in damaged for line in (ORIGINAL, bad)] + [ORIGINAL] * 300
    assert len(list(make_documents(lines, "f", "original", "test", ledger))) == len(damaged) + 300
    assert list(ledger.bad) == [f"f, line {number}" for number in (2, 4, 6, 8, 10)]
    assert all(reason.startswith(place) for place, reason in ledger.bad.items())


@pytest.mark.parametrize("policy", ["strict", "skip"])
def test_the_step_follows_the_policy_and_counts_the_bad(tmp_path, root, monkeypatch, policy: str):
    path = tmp_path / "lambada_test_plain_text.txt"
    path.write_text(ORIGINAL + "a\0b\n" + ORIGINAL + "stone\n", encoding="utf-8")
    values = {"corpus.bad_documents": policy, "lambada.text": "original", "lambada.path": str(path)}
    monkeypatch.chdir(tmp_path)
    run = Run(load(root / "params.yaml", values), STEPS["passages"])
    for split in ("train", "dev"):
        write_json_lines(run.home("corpus") / f"{split}.jsonl", [])
    write_record(run.home("corpus"), ["train.jsonl", "dev.jsonl"])
    if policy == "strict":
        with refused(r"lambada_test_plain_text.txt, line 2, character 2: a NUL byte"):
            execute(run)
        return
    execute(run)
    rows = list(read_json_lines(run.folder / "lambada.jsonl"))
    assert [row["target_start"] for row in rows] == [ORIGINAL.rindex(" ") + 1] * 2 + [0]
    with (run.folder / "rows.csv").open() as file:
        counted = {row["measure"]: row["value"] for row in csv.DictReader(file)}
    assert (counted["passages"], counted["bad_passages"]) == ("3", "1")


@pytest.mark.parametrize(("name", "text", "passages", "words"), [
    ("lambada_test_plain_text.txt", "original", 5153, 379883),
    ("lambada_development_plain_text.txt", "original", 4869, 360944),
    ("lambada_test.jsonl", "openai", 5153, 306006),
])  # fmt: skip
def test_published_counts(shared_data, name, text, passages, words):
    path = shared_data / "lambada" / name
    documents = list(make_documents(open_lines(path), str(path), text, "test", Ledger()))
    assert (len(documents), sum(len(document.words) for document in documents)) == (passages, words)


def test_both_texts_have_the_same_targets(shared_data: Path) -> None:
    """But for quotes, two targets without their space (PROVENANCE.md), seven after a line break."""
    originals = read_targets(shared_data / "lambada" / "lambada_test_plain_text.txt", "original")
    detokenised = read_targets(shared_data / "lambada" / "lambada_test.jsonl", "openai")
    pairs = zip(originals, detokenised, strict=True)
    different = [(one, two) for one, two in pairs if one != two.strip("\"'“‘’_*")]
    assert all(two.endswith(one) for one, two in different)
    assert len(different) == 2 + 7


def read_targets(path: Path, text: Text) -> list[str]:
    rows = parse_passages(open_lines(path), path.name, text, Ledger())
    return [row["text"][row["target_start"] :].lower() for row in rows]
