"""The whole chain on a tiny study, run twice: by Snakemake and by DVC. Nothing re-runs without
cause; equal seeds give equal bytes.
"""

from __future__ import annotations

import csv
import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import yaml
from entity_transformers.cli.study import write_study
from entity_transformers.study.steps import STEPS
from tiny_study import (
    ALONE,
    ROOT,
    committed,
    copy_checkout,
    expand_stages,
    follow,
    make_study,
    planned,
    rules,
    rules_of,
    run,
    snakemake,
    stages_of_jobs,
    stale,
)

from entity_transformers.artifacts import DIGESTS
from entity_transformers.study.params import load
from entity_transformers.study.plan import Plan

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.usefixtures("forked_commands"),
]
Change = Callable[[str, Any], None]
TWO_MODELS = "models: {lstm: null}\n"  # test_every_kind.py has the others


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that Snakemake has finished and DVC has recorded."""
    folder = make_study(tmp_path_factory.mktemp("study"), TWO_MODELS)
    snakemake(folder, "--quiet", "rules")
    run("dvc", "commit", "--force", "--quiet", folder=folder)
    return folder


@pytest.fixture
def changed(study: Path) -> Iterator[Change]:
    """Changes one value of the study's params.yaml for the length of a test."""
    files = {name: (study / name).read_text() for name in ("params.yaml", "dvc.yaml")}

    def change(key: str, value: Any) -> None:
        values = yaml.safe_load((study / "params.yaml").read_text())
        *sections, last = key.split(".")
        held = values
        for section in sections:
            held = held[section]
        held[last] = value
        (study / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))

    yield change
    for name, text in files.items():
        (study / name).write_text(text)


def test_a_finished_study_is_verified_whole(study: Path) -> None:
    """DVC's own digests of files and folders among them; nothing is left out."""
    line, *told = run("entity-transformers", "verify", ".", folder=study).splitlines()
    assert not [more for more in told if "not checked" in more]
    lock = yaml.safe_load((study / "dvc.lock").read_text())
    entries = [e for s in lock["stages"].values() for e in (*s.get("outs", ()), *s.get("deps", ()))]
    assert any(entry["md5"].endswith(".dir") for entry in entries)
    right = int(line.removeprefix(".: ").split()[0])
    assert line == f".: {right} checked and right, 0 wrong"
    assert right > len({entry["path"] for entry in entries})


def test_a_second_run_has_nothing_to_do(study: Path) -> None:
    assert "Nothing to be done" in snakemake(study, "--dry-run")
    assert run("dvc", "status", folder=study).strip() == "Data and pipelines are up to date."


def test_dvc_and_snakemake_name_the_same_outputs(study: Path) -> None:
    summary = snakemake(study, "--summary").splitlines()
    made = {line.split("\t")[0] for line in summary if line.startswith("results/")}
    lock = yaml.safe_load((study / "dvc.lock").read_text())
    outs = {out["path"] for stage in lock["stages"].values() for out in stage["outs"]}
    # the rules of a folder write one of these in turn, so it is no rule's own
    assert {out for out in outs if Path(out).name == DIGESTS} == {
        f"{Path(path).parent}/{DIGESTS}" for path in outs if (study / path).is_file()
    }
    outs = {out for out in outs if Path(out).name != DIGESTS}
    folders = {out for out in outs if (study / out).is_dir()}
    loose = {path for path in made if not any(path.startswith(f"{f}/") for f in folders)}
    whole = {path for path in loose if (study / path).is_dir()}  # Snakemake's own directories
    assert loose - whole == outs - folders
    assert whole <= folders
    for folder in folders - whole:
        inside = {
            str(path.relative_to(study))
            for path in (study / folder).rglob("*")
            if path.is_file() and path.name != DIGESTS
        }
        assert inside == {path for path in made if path.startswith(f"{folder}/")}


@pytest.mark.parametrize(
    ("key", "value", "stages"),
    [
        ("run.threads", 2, ""),
        ("run.max_minutes", 5.0, ""),
        ("corpus.nested_mentions", "innermost", "corpus"),
        ("lambada.path", "x", "passages lambada"),
        ("lm.learning_rate", "3e-3", "lm"),
        ("kinds.gpt2e.memory_write", "mean", "lm@gpt2e-1 recall"),
        ("models.gpt2e.memory_gradient_windows", 1, "lm@gpt2e-1 report"),
        ("similarity.groups", {"nouns": ["NN"]}, "perplexity embeddings similarity"),
        ("ner.hidden", 9, "ner"),
        ("recall.entities", 1, "recall"),
    ],
)
def test_a_changed_value_re_runs_what_reads_it(
    study: Path, changed: Change, key: str, value: Any, stages: str
) -> None:
    """Under both tools; tests/study/test_plan.py has every value."""
    found = expand_stages(load(study / "params.yaml"))
    expected = {name for name in found if {name, name.partition("@")[0]} & set(stages.split())}
    changed(key, value)
    assert stale(study) == expected
    assert stages_of_jobs(planned(study)) == follow(found, expected)


@pytest.mark.parametrize(
    ("key", "value"),
    [("models.more", {"kind": "gpt2e", "labels": "none"}), ("kinds.gpt2", {"dropout": 0.2})],
)
def test_what_is_added_retrains_no_other_model(
    study: Path, changed: Change, key: str, value: Any
) -> None:
    changed(key, value)
    write_study(study)
    trained = {job for job in planned(study) if job.startswith("train_lm")}
    assert trained == {"train_lm more-1"} if "more" in key else {"train_lm gpt2-1"}
    assert {stage for stage in stale(study) if stage.startswith("lm@")} <= {
        job.replace("train_lm ", "lm@") for job in trained
    }


def test_a_swap_of_two_values_is_seen(study: Path, changed: Change) -> None:
    """Snakemake compares params sorted and without names; one digest of the section tells them
    apart.
    """
    changed("ner.epochs", 8)  # with hidden 8 and epochs 1 before: the values are swapped
    changed("ner.hidden", 1)
    assert rules(planned(study)) == rules_of("ner", "report")


def test_other_rows_of_recall_retrain_none_of_the_old_ones(study: Path, changed: Change) -> None:
    rows = yaml.safe_load((study / "params.yaml").read_text())["recall"]["models"]
    changed("recall.models", {})
    assert rules(planned(study)) == {"gather_recall"} | rules_of("report")
    changed("recall.models", rows | {"keys-gradient": {"kind": "gpt2e", "labels": "gold"}})
    trained = {job for job in planned(study) if job.startswith("train_recall")}
    assert trained == {"train_recall keys-gradient-1"}


def test_a_bad_value_stops_before_any_rule(study: Path, changed: Change) -> None:
    changed("lm.heads", 3)
    output = snakemake(study, check=False)
    assert "params.yaml: " in output
    assert "width 16 is not divisible by heads 3" in output
    assert "rule " not in output


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout's code, to be edited."""
    return copy_checkout(tmp_path_factory.mktemp("checkout"))


@pytest.mark.parametrize(
    ("module", "old", "new", "steps"),
    [
        ("train/loop.py", "\nimport ", "\n# a comment\nimport ", ""),
        ("logs.py", '"%H:%M:%S"', '"%M:%S"', ""),
        ("cli/__init__.py", "import argparse", "import argparse, string", ""),
        ("tasks/similarity.py", "\nimport ", "\nimport string\nimport ", "similarity"),
        (
            "runtime.py",
            "torch.manual_seed(seed)",
            "torch.manual_seed(seed + 1)",
            " ".join(
                s.name for s in STEPS.values() if s.gpu and (s.needs, s.trains) != (None, None)
            ),
        ),
    ],
)
def test_edited_code_re_runs_what_reaches_it(
    study: Path, checkout: Path, module: str, old: str, new: str, steps: str
) -> None:
    """A comment and what changes no number re-run nothing; the code of seeds all that draws."""
    path = checkout / "src" / "entity_transformers" / module
    before = path.read_text()
    assert old in before
    path.write_text(before.replace(old, new, 1))
    try:
        found = expand_stages(load(study / "params.yaml"))
        direct = {name for name in found if name.partition("@")[0] in steps.split()}
        assert stages_of_jobs(planned(study, checkout)) == follow(found, direct)
        told = snakemake(study, "--dry-run", root=checkout)
        assert ("code.json is older than the code" in told) == bool(steps)
    finally:
        path.write_text(before)


ONE_CORE = (
    "import os, sys\n"
    "if hasattr(os, 'sched_setaffinity'): os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    "os.execvp(sys.argv[1], sys.argv[1:])\n"
)
ELSEWHERE = {"TZ": "Pacific/Chatham", "LC_ALL": "POSIX", "PYTHONHASHSEED": "7"} | ALONE


def test_the_same_seed_gives_the_same_bytes_under_dvc_and_elsewhere(
    study: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In another time zone, locale and folder, with another hash seed, umask and one core: some by
    DVC, the others in one process, where what a command leaves behind may not change the next.
    """
    again = make_study(tmp_path_factory.mktemp("again"), TWO_MODELS)
    elsewhere = f"umask 077 && exec {shlex.join([sys.executable, '-c', ONE_CORE])} "
    repro = f"{elsewhere} dvc repro --quiet perplexity@gpt2e-1"
    run("bash", "-c", repro, folder=again, **ELSEWHERE)
    script = run(sys.executable, str(ROOT / "workflow/commands.py"), str(again), folder=ROOT)
    for done in ("align-corpus", "train-lm --model gpt2e"):
        assert f"entity-transformers {done}" not in script
    (again / "commands.sh").write_text(script)
    runner = shlex.join([sys.executable, str(ROOT / "tests/helpers/in_one_process.py")])
    run("bash", "-c", f"{elsewhere} {runner} commands.sh", folder=again, **ELSEWHERE)
    one, other = dict(committed(study)), dict(committed(again))
    assert set(one) == set(other)
    assert [name for name in one if one[name] != other[name]] == []
    assert "Nothing to be done" in snakemake(again, "--dry-run")


def test_deleted_outputs_of_a_finished_training_come_back_without_training(study: Path) -> None:
    weights = study / "results/lm/gpt2e/1/model.safetensors"
    before = weights.read_bytes()
    weights.unlink()
    output = snakemake(study, "results/lm/gpt2e/1/model.safetensors")
    assert "finished before: restored" in output
    assert weights.read_bytes() == before
    snakemake(study, "--touch", "--quiet", "rules")


def test_a_pulled_clone_runs_nothing_again(
    study: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Git brings params, dvc.lock and what is not cached; DVC the rest; after a touch Snakemake
    takes all as up to date.
    """
    remote, clone = (
        tmp_path_factory.mktemp("remote"),
        make_study(tmp_path_factory.mktemp("clone"), TWO_MODELS),
    )
    run("dvc", "remote", "add", "--default", "--force", "local", str(remote), folder=study)
    run("dvc", "push", "--quiet", folder=study)
    lock = yaml.safe_load((study / "dvc.lock").read_text())
    cached = {
        str(p.relative_to(remote / "files/md5")).replace("/", "")
        for p in (remote / "files/md5").rglob("*")
        if p.is_file()
    }
    for out in (
        out
        for stage in lock["stages"].values()
        for out in stage["outs"]
        if out["md5"] not in cached
    ):
        (clone / out["path"]).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (study / out["path"]).is_dir() else shutil.copy
        copy(study / out["path"], clone / out["path"])
    shutil.copy(study / "dvc.lock", clone / "dvc.lock")
    run("dvc", "remote", "add", "--default", "local", str(remote), folder=clone)
    run("dvc", "pull", "--quiet", folder=clone)
    assert run("dvc", "status", folder=clone).strip() == "Data and pipelines are up to date."
    snakemake(clone, "--touch", "--forceall", "--quiet", "rules")
    assert "Nothing to be done" in snakemake(clone, "--dry-run")


def test_git_s_versions_of_a_study_are_compared(study: Path, tmp_path: Path) -> None:
    """`dvc params diff` and `dvc metrics diff` against a commit: dvc.yaml is a real file in it."""
    for name in ("params.yaml", "results"):
        copy = shutil.copytree if (study / name).is_dir() else shutil.copy
        copy(study / name, tmp_path / name)
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org"]
    run("git", "init", "--quiet", folder=tmp_path)
    run("dvc", "init", "--quiet", folder=tmp_path)
    write_study(tmp_path)
    run("git", "add", "--all", folder=tmp_path)
    run(*git, "commit", "--quiet", "--message", "before", folder=tmp_path)
    for name, old, new in (
        ("params.yaml", "width: 16", "width: 32"),
        ("results/report/metrics/gpt2.json", '"dev_loss": ', '"dev_loss": 1'),
    ):
        path = tmp_path / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new, 1))

    def diff(kind: str) -> Any:
        return json.loads(run("dvc", kind, "diff", "--json", "HEAD", folder=tmp_path))

    assert diff("params")["params.yaml"] == {"lm.width": {"old": 16, "new": 32, "diff": 16}}
    metrics = diff("metrics")
    assert list(metrics) == ["results/report/metrics/gpt2.json"]
    found = metrics["results/report/metrics/gpt2.json"]["dev_loss"]["diff"]
    assert found == pytest.approx(10)  # 5 became 15


def test_the_commands_do_without_snakemake_what_it_does(study: Path, tmp_path: Path) -> None:
    """Run in the order of the script, they leave the bytes that Snakemake's run left."""
    folder, target = make_study(tmp_path), "results/corpus/alignment.json"
    script = run(
        sys.executable, str(ROOT / "workflow/commands.py"), str(folder), target, folder=ROOT
    )
    assert (
        re.findall(r"^entity-transformers ([\w-]+)", script, flags=re.MULTILINE)[-1]
        == "align-corpus"
    )
    (tmp_path / "commands.sh").write_text(script)
    run("bash", str(tmp_path / "commands.sh"), folder=ROOT, PYTHON=sys.executable)
    for name in (target, "results/corpus/train.safetensors", "results/corpus/tokenizer.json"):
        assert (folder / name).read_bytes() == (study / name).read_bytes()


def test_a_trained_model_is_exported_with_its_card(study: Path, tmp_path: Path) -> None:
    command = [
        "entity-transformers",
        "export-model",
        "--results",
        "results",
        "--seed",
        "1",
        "--output",
        str(tmp_path),
    ]
    run(*command, "--model", "gpt2e", folder=study)
    scores = json.loads((study / "results/perplexity/gpt2e/1/perplexity.json").read_text())[
        "splits"
    ]["test"]
    assert (
        f"| perplexity per token, test | {scores['on']['perplexity']:.4g} |"
        f" {scores['off']['perplexity']:.4g} |" in ((tmp_path / "README.md").read_text())
    )
    load = (
        "from transformers import AutoModelForCausalLM, AutoTokenizer\n"
        "import entity_transformers, sys\n"
        "model = AutoModelForCausalLM.from_pretrained(sys.argv[1])\n"
        "longest = AutoTokenizer.from_pretrained(sys.argv[1]).model_max_length\n"
        "assert longest == model.config.n_positions, longest\n"
    )
    run(sys.executable, "-c", load, str(tmp_path), folder=tmp_path)
    plain = tmp_path / "plain"
    run(*command, "--model", "gpt2", "--output", str(plain), folder=study)
    assert "A language model of kind GPT2, without entities." in (plain / "README.md").read_text()
    run(sys.executable, "-c", load, str(plain), folder=tmp_path)


READS_WORDS = """
study:
  steps: [corpus, passages, lm, perplexity, lambada, embeddings, similarity, probe, cache, ner,
    report]
models: {gpt2: null, lstm: null}
"""
HOSTILE = (
    "-rf", "two words", "it's", 'say "no"', "$(touch owned)", "`touch owned`", "; touch owned #",
    "--help", "line\nbreak", "tab\there", "../up", "C:\\down", "*?[a]", "{model} {{x}}", "%s%n",
    "<script>owned()</script>", "a,b", "=1+1", "| a |", "Zoë-\u4eba-\U0001f600", "\u202eevil",
    "null", "1e5",
)  # fmt: skip


def test_words_and_chains_alone_reach_the_last_table(study: Path, tmp_path: Path) -> None:
    """A user's JSON lines without tags and named entities, and one model: what can't be measured is
    said, nothing fails. Whatever the study's folder, the corpus, the documents, genres and some
    words are called, it stays a name.
    """
    rows = [
        json.loads(line)
        for split in ("train", "dev", "test")
        for line in (study / f"results/corpus/{split}.jsonl").open()
    ]
    kept = ("name", "part", "split", "genre", "words", "mentions")
    name = " ".join(HOSTILE)
    for number, (row, word) in enumerate(zip(rows, cycle(HOSTILE), strict=False)):
        row |= {"name": f"{name} {number}", "genre": name}
        row["words"][0] = "".join(word.split())
    home = tmp_path / 'it\'s a "$(touch owned)" -x {model} \u4eba'
    home.mkdir()
    corpus = "-my $(touch owned) 'corpus' \u00eb.jsonl"
    (home / corpus).write_text(
        "".join(json.dumps({key: row[key] for key in kept}) + "\n" for row in rows)
    )
    folder = make_study(home, READS_WORDS)
    values = yaml.safe_load((folder / "params.yaml").read_text())
    values["corpus"] |= {"format": "jsonl", "path": corpus}
    (folder / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    snakemake(folder, "--quiet", "rules")
    assert all((folder / file).is_file() for file in Plan(load(folder / "params.yaml")).targets())
    scores = json.loads((folder / "results/ner/gpt2e/1/metrics.json").read_text())["test"]["span"][
        "micro"
    ]
    assert (scores["support"], scores["predicted"], scores["f1"]) == (0, 0, 0.0)
    with (folder / "results/perplexity/gpt2e/1/documents.csv").open(newline="") as file:
        told = {row["document"].rpartition("#")[0] for row in csv.DictReader(file)}
    assert told == {row["name"] for row in rows if row["split"] != "train"}
    assert "<script>owned()" not in (folder / "results/report/report.html").read_text()
    assert not list(tmp_path.rglob("owned"))
    assert "Nothing to be done" in snakemake(folder, "--dry-run")
    with (folder / corpus).open("a") as file:
        file.write(json.dumps({"name": "more", "words": ["One", "more", "."]}) + "\n")
    assert rules(planned(folder)) >= rules_of("corpus", "lm")
