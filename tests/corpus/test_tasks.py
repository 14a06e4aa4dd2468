"""Readers of tasks: what they make of a file, the published counts, and what they refuse."""

import csv
import re
from collections import Counter
from pathlib import Path

import pytest
import task_files
from refused import refused

from entity_transformers.artifacts import read_json_lines
from entity_transformers.corpus.download import VARIABLE, locate
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.tasks import Example, find_task, load_examples, registry, thin_out
from entity_transformers.corpus.tasks.pronouns import is_possessive
from entity_transformers.step import Run, execute
from entity_transformers.study.params import STEPS, load
from entity_transformers.study.values import ParamsError

SIZES = {
    "gap": {"train": 2000, "dev": 454, "test": 2000},
    "polarity": {"train": 8530, "dev": 1066, "test": 1066},
    "snli": {"train": 8846, "dev": 996, "test": 9824},
    "winobias": {"dev": 1584, "test": 1584},
    "winogrande": {"train": 9212, "dev": 1022, "test": 1267},
    "wsc273": {"test": 273},
}
"""The published sizes."""
WINOBIAS = "conll_format/dev_type1_pro_stereotype.v4_auto_conll"


def read(task: str, root: Path, policy: str = "strict") -> tuple[list[Example], Ledger]:
    ledger = Ledger(policy)  # type: ignore[arg-type]
    return list(find_task(task).read(root, ledger)), ledger


@pytest.mark.parametrize("name", SIZES)
def test_every_example_fits_its_task(name: str, tmp_path: Path) -> None:
    task = find_task(name)
    examples, _ = read(name, task_files.write_tasks(tmp_path) / task.dataset.folder)
    assert {example.split for example in examples} == {*task.splits}
    assert len({example.name for example in examples}) == len(examples)
    for example in examples:
        assert len(example.texts) == 1 + (task.shape == "entailment")
        assert (example.blank is not None) == (task.shape == "pronoun")
        among = len(example.options) or len(task.labels)
        assert example.label is None or 0 <= example.label < among


@pytest.mark.parametrize("name", SIZES)
def test_the_pinned_files_have_the_stated_sizes(name, shared_data, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(shared_data))
    examples, ledger = read(name, Path(locate(name, None, tmp_path)["root"]))
    assert Counter(example.split for example in examples) == SIZES[name]
    assert not ledger.bad


def test_a_substituted_sentence_reads_as_text(tmp_path: Path) -> None:
    root = task_files.write_tasks(tmp_path)

    def filled(task: str, number: int = 0) -> list[str]:
        example = read(task, root / find_task(task).dataset.folder)[0][number]
        return ["".join(example.fill(i)) for i in range(len(example.options))]

    start = "The men refused the women a permit because"
    assert filled("wsc273") == [f"{start} the {one} feared violence." for one in ("men", "women")]
    assert filled("wsc273", 1) == [
        f'Tom said "Check" to Ralph as he moved {name}\'s bishop.' for name in ("Ralph", "Tom")
    ]
    assert filled("winobias") == [
        f"The guard told the nurse that the {one}'s shift was over." for one in ("guard", "nurse")
    ]
    # her, whose other version is his
    assert filled("winobias", 12) == filled("winobias")
    assert filled("gap")[1] == 'Ann met Beth; "Beth" was glad, and Bob took her bag.'


def test_neither_name_of_gap_may_be_right(tmp_path: Path) -> None:
    examples, _ = read("gap", task_files.write_tasks(tmp_path) / "gap-coreference")
    assert [example.label for example in examples[:2]] == [0, None]
    assert examples[0].groups == {"gender": "feminine"}


@pytest.mark.parametrize(("pronoun", "following", "expected"), [
    ("her", " bag", True), ("her", ", and", False), ("her", " to go", False), ("her", "", False),
    ("her", " daughter's", True), ("her", " quickly", False), ("his", " bag", True),
    ("him", " bag", False), ("she", " bag", False), ("Her", " bag", True),
])  # fmt: skip
def test_her_is_told_apart_by_what_follows(pronoun: str, following: str, expected: bool) -> None:
    assert is_possessive(pronoun, following) == expected


def test_winobias_chains_are_those_of_the_files(shared_data: Path) -> None:
    """An independent reading of the columns: the right candidate is the chain's occupation."""
    root = shared_data / "winobias"
    by_name = {example.name: example for example in read("winobias", root)[0]}
    for path in sorted((root / "conll_format").iterdir()):
        split, kind, version = path.name.split("_")[:3]
        for block in path.read_text().split("#end document"):
            rows = [line.split("\t") for line in block.splitlines() if line.startswith("nw/")]
            if not rows:
                continue
            number = rows[0][0].rpartition("/")[2]
            example = by_name[f"{split}-{kind[-1]}-{number}-{version}"]
            end = next(place for place, row in enumerate(rows) if row[-1].endswith("1)"))
            assert isinstance(example.label, int)
            right = example.options[example.label].lower().removesuffix("'s")
            assert right.split()[-1] == rows[end][3].lower()


@pytest.mark.parametrize(("folder", "file", "damage", "message"), [
    ("winogrande", "dev.jsonl", lambda s: s.replace('"answer": "1"', '"answer": "3"', 1), "tuple"),
    ("winogrande", "dev.jsonl", lambda s: s.replace('"Maria"', '"Zoe"', 1), "both options"),
    ("winogrande", "dev.jsonl", lambda s: s.replace('"option1"', '"choice1"', 1), "KeyError"),
    ("winogrande", "dev.jsonl", lambda s: s.replace("Maria", r"Maria \ud83d", 1), "surrogate"),
    ("gap-coreference", "gap-test.tsv", lambda s: s.replace("TRUE", "yes", 1), "tuple.index"),
    ("gap-coreference", "gap-test.tsv", lambda s: s.replace("\t15\t", "\t16\t", 1), "offset"),
    ("wsc273", "wsc273.txt", lambda s: s.replace("because [MASK]", "they", 1), "ValueError"),
    ("snli", "labels.test", lambda s: s.replace("neutral", "maybe", 1), "tuple.index"),
    ("winobias", WINOBIAS, lambda s: s.replace("nurse", "aunt", 1), "has guard before his"),
    ("winobias", WINOBIAS, lambda s: s.replace("his", "its", 1), "StopIteration"),
])  # fmt: skip
def test_a_bad_line_is_named_or_left_out(folder, file, damage, message, tmp_path):
    path = task_files.write_tasks(tmp_path) / folder / file
    task = next(one.name for one in registry().values() if one.dataset.folder == folder)
    whole = len(read(task, tmp_path / folder)[0])
    path.write_text(damage(path.read_text()))
    with refused(rf"line \d+: .*{message}"):
        read(task, tmp_path / folder)
    examples, ledger = read(task, tmp_path / folder, "skip")
    assert re.search(message, next(iter(ledger.bad.values())))
    assert len(ledger.bad) == 1
    assert whole - 1 <= len(examples) <= whole


def test_premises_of_snli_s_dev_are_not_in_its_train(shared_data: Path) -> None:
    examples, _ = read("snli", shared_data / "snli")
    premises = {s: {e.texts[0] for e in examples if e.split == s} for s in ("train", "dev")}
    assert not premises["train"] & premises["dev"]


def test_examples_are_thinned_out_evenly() -> None:
    examples = [Example(str(i), "test" if i % 2 else "dev", ("a",), 0) for i in range(20)]
    assert thin_out(examples, None) == examples
    assert [e.name for e in thin_out(examples, 2)] == ["0", "1", "10", "11"]
    assert thin_out(examples, 100) == examples


def test_the_step_leaves_the_examples_that_the_readers_read(tmp_path, root, monkeypatch):
    data = task_files.write_tasks(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    run = Run(load(root / "params.yaml", {"examples.path": str(data)}), STEPS["examples"])
    execute(run)
    written = run.folder / "examples.jsonl"
    found = load_examples(written, ("wsc273", "gap"))
    assert found["gap"] == read("gap", data / "gap-coreference")[0]
    whole = {name: read(name, data / find_task(name).dataset.folder)[0] for name in SIZES}
    assert Counter((row["task"], row["split"]) for row in read_json_lines(written)) == {
        (name, split): count
        for name, examples in whole.items()
        for split, count in Counter(e.split for e in examples).items()
    }
    with (run.folder / "rows.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["measure"] == "examples"]
    counted = {(row["task"], row["split"], row["label"]): int(row["value"]) for row in rows}
    gap = Counter(example.split for example in whole["gap"])
    assert {split: counted["gap", split, ""] for split in gap} == gap
    assert counted["gap", "total", "option 0"] == sum(one.label == 0 for one in whole["gap"])
    names = find_task("snli").labels
    pairs = Counter(names[int(e.label or 0)] for e in load_examples(written, ("snli",))["snli"])
    assert {name: counted["snli", "total", name] for name in pairs} == pairs
    with pytest.raises(ValueError, match=r"no example of task stories: add it to examples.tasks"):
        load_examples(written, ("stories",))


def test_an_unknown_task_is_refused(root: Path) -> None:
    with pytest.raises(ParamsError, match=r"examples.tasks.0: 'wsc274', expected one of gap"):
        load(root / "params.yaml", {"examples.tasks": ["wsc274"]})
