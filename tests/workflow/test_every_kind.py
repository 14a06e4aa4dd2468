"""Every kind of model in one study, from the corpus to the report: what each can is in the tables,
and what it can't is a dash with its reason.
"""

from __future__ import annotations

import csv
import os
import sys
from pathlib import Path

import pytest
import yaml
from entity_transformers.cli.study import write_study
from entity_transformers.study.steps import STEPS as PLANNED
from tiny_study import ROOT, python_path, run

from entity_transformers.kinds import KINDS
from entity_transformers.study.params import Params, load

pytestmark = pytest.mark.slow
STEPS = (
    "corpus", "passages", "lm", "perplexity", "pseudo_perplexity", "lambada", "cache",
    "mentions", "short_windows", "capacity", "analogies", "excerpts",
    "embeddings", "similarity", "probe", "ner", "report",
)  # fmt: skip
TINY = {
    "corpus": {"sample_words": 12000},
    "tokenizer": {"vocabulary": 400},
    "lm": {
        "layers": 1,
        "heads": 4,
        "width": 16,
        "window": 32,
        "steps": 6,
        "documents_per_step": 2,
        "validate_every": 3,
        "warmup_steps": 1,
    },
    "kinds": {
        "word2vec": {"epochs": 1},
        "fasttext": {"epochs": 1, "buckets": 1000},
        "glove": {"epochs": 2},
    },
    "perplexity": {"stride": 32},
    "mentions": {"caches": [4, 8], "tokens": 200},
    "short_windows": {"sizes": [16, 32], "caches": [8]},
    "capacity": {"memories": [[2, 4]]},
    "pseudo_perplexity": {"documents": 2},
    "ner": {"hidden": 8, "epochs": 1},
    "report": {"bootstrap_samples": 100},
}
COLUMNS = {
    "PPL per word": "causal",
    "Bits per byte": "causal",
    "LAMBADA accuracy": "causal",
    "Mentions apart": "encode",
    "NER F1": "encode",
}
"""Of table `overview`: what a model must be able to do for it."""


def read_table(study: Path, name: str) -> dict[str, dict[str, str]]:
    """A table of the report by the label of the row's model."""
    with (study / f"results/report/tables/{name}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {next(iter(row.values())): row for row in rows}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study of one model of each kind, with gold labels where it reads any."""
    folder = tmp_path_factory.mktemp("kinds")
    models = {
        name: {"kind": name, **({"labels": "gold"} if kind.can & {"entities", "guided"} else {})}
        for name, kind in KINDS.items()
    }
    sample = os.path.relpath(ROOT / "studies/sample/study.yaml", folder)
    own = {"base": sample, "study": {"steps": [*STEPS]}, "models": models} | TINY
    (folder / "study.yaml").write_text(yaml.safe_dump(own, sort_keys=False))
    write_study(folder)
    script = run(sys.executable, "workflow/commands.py", str(folder), folder=ROOT)
    (folder / "commands.sh").write_text(script)
    path = python_path(ROOT / "src")
    one = str(ROOT / "tests/helpers/in_one_process.py")
    printed = run(sys.executable, one, "commands.sh", folder=folder, PYTHONPATH=path)
    assert f"{script.count('| tee logs/')} commands done" in printed
    return folder


@pytest.fixture(scope="module")
def params(study: Path) -> Params:
    return load(study / "params.yaml")


def test_each_step_has_results_of_the_kinds_that_meet_its_needs(
    study: Path, params: Params
) -> None:
    for name in STEPS:
        step = PLANNED[name]
        if step.needs is not None:
            found = {path.parent.parent.name for path in study.glob(f"results/{name}/*/1/*.json")}
            assert found == {entry.name for entry in params.entries() if entry.can(step.needs)}, (
                name
            )


def test_the_overview_has_a_row_for_each_and_a_number_where_one_can_be(
    study: Path, params: Params
) -> None:
    rows = read_table(study, "overview")
    assert set(rows) == {entry.kind.label for entry in params.entries()}
    for entry in params.entries():
        row = rows[entry.kind.label]
        assert int(row["Parameters"]) > 0
        assert int(row["Tokens seen"]) > 0
        for column, need in COLUMNS.items():
            assert bool(row[column]) == entry.can({need}), (entry.name, column)


def test_a_dash_of_the_overview_has_its_reason(study: Path, params: Params) -> None:
    note = (study / "results/report/tables/overview.md").read_text().rpartition("\n\n")[2]
    blind = {entry.kind.label for entry in params.entries() if not entry.can({"causal"})}
    reason = "no perplexity and no LAMBADA, because nothing is predicted from the past alone"
    assert f": {reason}" in note
    assert set(note.partition(f": {reason}")[0].rpartition(". ")[2].split(", ")) == blind


def test_what_is_hidden_is_never_beside_causal_numbers(study: Path, params: Params) -> None:
    masked = {entry.name for entry in params.entries() if entry.can({"masked"})}
    hidden = read_table(study, "pseudo_perplexity")
    assert len(hidden) == len(masked)
    assert not set(hidden) & set(read_table(study, "table2"))
