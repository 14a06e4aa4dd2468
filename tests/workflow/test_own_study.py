"""A study from its first file on: what is planned, what is refused before anything runs, and one's
own text up to the report by DVC.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from tiny_study import (
    ROOT,
    copy_checkout,
    make_study,
    planned,
    python_path,
    rules,
    rules_of,
    run,
    snakemake,
)

from entity_transformers.study.params import load
from entity_transformers.study.steps import STEPS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.usefixtures("forked_commands"),
]


def test_a_study_runs_the_steps_that_it_names(
    tmp_path: Path,
) -> None:
    """No passages, nothing of LAMBADA, no synthetic recall for who asks for a table of nats."""
    few = "study: {steps: [corpus, lm, perplexity]}\n"
    folder = make_study(tmp_path, few)
    jobs = planned(folder)
    assert rules(jobs) == rules_of("corpus", "lm", "perplexity")
    assert "score_perplexity gpt2e-1" in jobs
    values = yaml.safe_load((folder / "params.yaml").read_text())
    assert not {"lambada", "recall", "ner"} & set(values)


def test_a_model_that_a_step_can_t_use_is_named(tmp_path: Path) -> None:
    """Asked for by its file: no rule runs."""
    output = snakemake(
        make_study(tmp_path), "results/perplexity/rnn/1/perplexity.json", check=False
    )
    assert "model 'rnn', expected one of gpt2, gpt2e" in output
    assert not (tmp_path / "results").exists()


def test_each_command_comes_after_those_that_write_what_it_reads(tmp_path: Path) -> None:
    script = run(
        sys.executable, str(ROOT / "workflow/commands.py"), str(make_study(tmp_path)), folder=ROOT
    )
    commands = re.findall(r"^entity-transformers ([\w-]+) ", script, flags=re.MULTILINE)
    steps = [
        "prepare-corpus",
        "align-corpus",
        "train-lm",
        "extract-embeddings",
        "train-ner",
        "score-ner",
    ]
    assert sorted(steps, key=commands.index) == steps
    assert len(commands) == len(re.findall(r"\| tee logs/", script))
    assert commands[-1] == list(STEPS["report"].rules)[-1].replace("_", "-")


def test_commands_of_a_study_that_is_not_there_are_an_error(tmp_path: Path) -> None:
    printed = run(
        sys.executable,
        str(ROOT / "workflow/commands.py"),
        str(tmp_path / "absent"),
        folder=ROOT,
        check=False,
    )
    assert "absent" in printed
    assert "entity-transformers()" not in printed


def test_the_paper_study_stops_at_the_first_rule_without_its_corpus(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text(
        (ROOT / "params.yaml").read_text().replace("root: .", f"root: {ROOT}")
    )
    output = snakemake(tmp_path, check=False)
    assert "Error in rule download_corpus" in output
    for part in ("OntoNotes", "corpus.path", "studies/ontogum", "studies/sample"):
        assert part in output
    assert not (tmp_path / "results/corpus/train.jsonl").exists()


def test_a_bad_corpus_is_refused_before_anything_else_begins(tmp_path: Path) -> None:
    """With a core to spare, on which a step that needs no corpus (recall) could begin meanwhile."""
    (tmp_path / "bad.jsonl").write_text('{"name": "a", "words": ["A", "b c"]}\n')
    folder = make_study(tmp_path)
    values = yaml.safe_load((folder / "params.yaml").read_text())
    values["corpus"] |= {"format": "jsonl", "path": "bad.jsonl"}
    (folder / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    output = snakemake(folder, check=False)
    assert "bad.jsonl" in output
    assert "Error in rule prepare_corpus" in output
    # each job opens its log first
    assert [path.name for path in (folder / "logs").iterdir()] == ["corpus"]


def test_a_study_of_one_s_own_text_reaches_its_report(tmp_path: Path) -> None:
    """`init`, then the study that it wrote, as it stands but for its length, by `dvc repro`;
    Snakemake takes all that DVC made as done.
    """
    root = copy_checkout(tmp_path / "checkout")
    for name in ("params.yaml", "code.json"):
        shutil.copy(ROOT / name, root / name)
    sentences = "It was a dark night. Anna met Bob at the station, and she gave him a book.\n\n"
    (tmp_path / "book.txt").write_text(sentences * 90)
    command = (sys.executable, "-m", "entity_transformers", "init", "mine")
    run(*command, "--corpus", str(tmp_path / "book.txt"), folder=root)
    study = root / "studies/mine"
    text = (study / "study.yaml").read_text()
    (study / "study.yaml").write_text(
        re.sub(r"(?m)^  (steps|warmup_steps): \d+$", r"  \1: 8", text)
    )
    run(*command[:-2], "write-study", "studies/mine", folder=root)
    assert load(study / "params.yaml").lm.steps == 8
    run("dvc", "init", "--no-scm", "--quiet", folder=study)
    run("dvc", "repro", "--quiet", folder=study, PYTHONPATH=python_path(root / "src"))
    assert "Nothing to be done" in snakemake(study, "--dry-run", root=root)
    table = (study / "results/report/tables/controls.md").read_text()
    assert "GPT2E unlabelled" in table
    assert "| Paper" not in (study / "results/report/tables/table2.md").read_text()


def test_snakemake_s_linter_says_what_docs_answer_and_nothing_else() -> None:
    """That rules name no environment of their own: docs/running.md."""
    output = run(
        "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--lint",
        folder=ROOT / "studies/sample", check=False,
    )  # fmt: skip
    found = set(re.findall(r"^    \* (.*)$", output, re.MULTILINE))
    assert found == {"Specify a conda environment or container for each rule.:"}
