"""The whole chain on a tiny study, run twice: by Snakemake and by DVC. Nothing re-runs without
cause; equal seeds give equal bytes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.xdist_group("study")  # one worker: the fixture takes a minute
ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
ENVIRONMENT = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "HF_HUB_OFFLINE": "1"}
TINY: dict[str, dict[str, Any]] = {
    "corpus": {"sample_words": 6000},
    "tokenizer": {"vocabulary": 400},
    "lm": {
        "layers": 1, "heads": 2, "width": 16, "window": 32, "steps": 6, "documents_per_step": 2, "validate_every": 3, "warmup_steps": 1
    },
    "perplexity": {"stride": 32},
    "ner": {"hidden": 8, "epochs": 1},
    "anomalies": {"steps": 2, "documents": 2, "passes": 2},
    "recall": {"documents": 128, "distinct_documents": 128, "test_documents": 20, "width": 16},
    "report": {"bootstrap_samples": 100},
}  # fmt: skip
RULES = {
    "corpus": {
        "download_corpus",
        "download_lambada",
        "prepare_corpus",
        "prepare_lambada",
        "tag_lambada",
        "train_tokenizer",
        "align_corpus",
    },
    "lm": {"train_lm"},
    "perplexity": {"score_perplexity", "score_lambada"},
    "embeddings": {"extract_embeddings"},
    "similarity": {"score_similarity"},
    "probe": {"probe_attention"},
    "ner": {"train_ner", "score_ner"},
    "anomalies": {"try_anomaly", "gather_anomalies"},
    "recall": {"train_recall", "gather_recall"},
    "report": {"build_tables", "build_figures", "build_report"},
}
CHANGES: list[tuple[str, str, Any, set[str]]] = [
    ("study", "seeds", [1], set()),
    ("run", "threads", 2, set()),
    ("corpus", "nested_mentions", "innermost", {"corpus"}),
    ("tokenizer", "vocabulary", 401, {"corpus"}),
    ("lambada", "path", "x", {"corpus", "perplexity"}),
    ("lm", "learning_rate", "3e-3", {"lm", "anomalies"}),
    ("lm", "max_minutes", 5.0, {"lm", "anomalies"}),
    ("perplexity", "batch", 7, {"perplexity"}),
    ("embeddings", "batch", 7, {"embeddings", "ner", "report"}),
    ("similarity", "groups", {"nouns": ["NN"]}, {"perplexity", "embeddings", "similarity"}),
    ("probe", "pooling", "max", {"probe"}),
    ("ner", "hidden", 9, {"ner"}),
    ("anomalies", "passes", 3, {"anomalies"}),
    ("recall", "entities", 1, {"recall"}),
    ("report", "example_words", 9, {"report"}),
]


def run(*command: str, folder: Path, check: bool = True) -> str:
    """Standard output of a command in ``folder``; its errors where it fails."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert not check or done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def snakemake(folder: Path, *arguments: str, check: bool = True) -> str:
    return run(
        "snakemake",
        "--snakefile",
        str(ROOT / "Snakefile"),
        "--cores",
        "2",
        *arguments,
        folder=folder,
        check=check,
    )


def make_study(folder: Path) -> Path:
    values = yaml.safe_load((ROOT / "studies" / "sample" / "params.yaml").read_text())
    for section, changes in TINY.items():
        values[section] |= changes
    values["root"] = str(ROOT)
    (folder / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    (folder / "dvc.yaml").symlink_to(ROOT / "dvc.yaml")
    run("dvc", "init", "--no-scm", "--quiet", folder=folder)
    return folder


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that Snakemake has finished and DVC has recorded."""
    folder = make_study(tmp_path_factory.mktemp("study"))
    snakemake(folder, "--quiet", "rules")
    run("dvc", "commit", "--force", "--quiet", folder=folder)
    return folder


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
    run("env", f"PYTHON={sys.executable}", "bash", str(tmp_path / "commands.sh"), folder=ROOT)
    for name in (target, "results/corpus/train.safetensors", "results/corpus/tokenizer.json"):
        assert (folder / name).read_bytes() == (study / name).read_bytes()


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
        "build-tables",
        "build-report",
    ]
    assert sorted(steps, key=commands.index) == steps
    assert len(commands) == len(re.findall(r"\| tee logs/", script))
    assert commands[-1] == "build-report"


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


@pytest.fixture
def changed(study: Path) -> Iterator[Any]:
    """Changes one value of the study's params.yaml for the length of a test."""
    path = study / "params.yaml"
    before = path.read_text()

    def change(section: str, key: str, value: Any) -> None:
        values = yaml.safe_load(before)
        values[section][key] = value
        path.write_text(yaml.safe_dump(values, sort_keys=False))

    yield change
    path.write_text(before)


def planned(folder: Path) -> set[str]:
    """Rules that Snakemake would run."""
    return set(re.findall(r"^rule (\w+):", snakemake(folder, "--dry-run"), flags=re.MULTILINE)) - {
        "all"
    }


def follow(steps: set[str]) -> set[str]:
    """The steps and all that depend on them, by the results that dvc.yaml names as dependencies."""
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    reads = {
        step: {dep.split("/")[1] for dep in stage["deps"] if dep.startswith("results/")}
        for step, stage in stages.items()
    }
    for _ in stages:
        steps = steps | {step for step in stages if reads[step] & steps}
    return steps


def stale(folder: Path) -> set[str]:
    """Steps whose params DVC sees changed."""
    status = json.loads(run("dvc", "status", "--json", folder=folder))
    return {
        stage.split("@")[0]
        for stage, causes in status.items()
        if "params.yaml" in json.dumps(causes)
    }


def committed(folder: Path) -> dict[str, bytes]:
    """What git would hold of a study's results but times and provenance: metrics, tables, curves
    and figures.
    """
    kinds = {".json", ".csv", ".md", ".png", ".txt"}
    # and the tables that show times:
    timed = {"timing.json", "manifest.json", "source.json", "lambada_source.json"}
    timed |= {
        "table2.md",
        "table2.csv",
        "tables.txt",
        "claims.md",
        "claims.csv",
        "models.md",
        "models.csv",
    }
    files = (
        path
        for path in sorted((folder / "results").rglob("*"))
        if path.suffix in kinds and path.name not in timed
    )
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_second_run_has_nothing_to_do(study: Path) -> None:
    assert "Nothing to be done" in snakemake(study, "--dry-run")
    assert run("dvc", "status", folder=study).strip() == "Data and pipelines are up to date."


def test_dvc_and_snakemake_name_the_same_outputs(study: Path) -> None:
    summary = snakemake(study, "--summary").splitlines()
    made = {line.split("\t")[0] for line in summary if line.startswith("results/")}
    lock = yaml.safe_load((study / "dvc.lock").read_text())
    outs = {out["path"] for stage in lock["stages"].values() for out in stage["outs"]}
    folders = {out for out in outs if (study / out).is_dir()}
    assert {
        path for path in made if not any(path.startswith(f"{folder}/") for folder in folders)
    } == outs - folders
    for folder in folders:
        inside = {
            str(path.relative_to(study)) for path in (study / folder).rglob("*") if path.is_file()
        }
        assert inside == {path for path in made if path.startswith(f"{folder}/")}


@pytest.mark.parametrize(
    ("section", "key", "value", "steps"), CHANGES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_a_changed_value_re_runs_the_steps_that_read_it(
    study: Path, changed: Any, section: str, key: str, value: Any, steps: set[str]
) -> None:
    changed(section, key, value)
    assert stale(study) == steps
    assert planned(study) == {rule for step in follow(steps) for rule in RULES[step]}


def test_a_swap_of_two_values_is_seen(study: Path, changed: Any) -> None:
    """Snakemake compares params sorted and without names; one digest of the section tells them
    apart.
    """
    changed("ner", "epochs", 8)  # with hidden 8 and epochs 1 before: the values are swapped
    path = study / "params.yaml"
    path.write_text(path.read_text().replace("  hidden: 8\n", "  hidden: 1\n"))
    assert planned(study) == RULES["ner"] | RULES["report"]


def test_other_recall_variants_retrain_none_of_the_old_ones(study: Path, changed: Any) -> None:
    changed("recall", "variants", [])
    assert planned(study) == {"gather_recall"} | RULES["report"]
    changed("recall", "variants", ["gpt2", "keys-values-gradient", "keys-gradient"])
    jobs = re.findall(r"^train_recall +(\d+)", snakemake(study, "--dry-run"), flags=re.MULTILINE)
    assert jobs[0] == "1"


def test_a_bad_value_stops_before_any_rule(study: Path, changed: Any) -> None:
    changed("lm", "heads", 3)
    output = snakemake(study, check=False)
    assert "params.yaml: 1 bad parameter" in output
    assert "width 16 is not divisible by heads 3" in output
    assert "rule " not in output


def test_the_same_seed_gives_the_same_bytes_under_dvc(
    study: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    again = make_study(tmp_path_factory.mktemp("again"))
    run("dvc", "repro", "--quiet", folder=again)
    one, other = committed(study), committed(again)
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
    remote, clone = tmp_path_factory.mktemp("remote"), make_study(tmp_path_factory.mktemp("clone"))
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


@pytest.mark.parametrize("candidates", [[], ["validation-seen", "padding"]])
def test_another_list_of_candidates_retrains_none_of_the_old_ones(
    study: Path, changed: Any, candidates: list[str]
) -> None:
    changed("anomalies", "candidates", candidates)
    assert planned(study) == {"gather_anomalies"} | RULES["report"]


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
        f"| perplexity a token, test | {scores['on']['perplexity']:.4g} |"
        f" {scores['off']['perplexity']:.4g} |" in ((tmp_path / "README.md").read_text())
    )
    load = (
        "from transformers import AutoModelForCausalLM, AutoTokenizer; import"
        " entity_transformers.lm.gpt2e, sys\n"
    )
    load += "AutoModelForCausalLM.from_pretrained(sys.argv[1])\nAutoTokenizer.from_pretrained(sys.argv[1])\n"
    run(sys.executable, "-c", load, str(tmp_path), folder=tmp_path)
    assert "gpt2 has no entity attention" in run(
        *command, "--model", "gpt2", folder=study, check=False
    )


def test_words_and_chains_alone_reach_the_last_table(study: Path, tmp_path: Path) -> None:
    """A user's JSON lines without tags and named entities, and one model: what can't be measured is
    said, nothing fails.
    """
    rows = [
        json.loads(line)
        for split in ("train", "dev", "test")
        for line in (study / f"results/corpus/{split}.jsonl").open()
    ]
    kept = ("name", "part", "split", "words", "mentions")
    (tmp_path / "mine.jsonl").write_text(
        "".join(json.dumps({key: row[key] for key in kept}) + "\n" for row in rows)
    )
    values = yaml.safe_load((study / "params.yaml").read_text())
    values["corpus"] |= {"format": "jsonl", "path": "mine.jsonl"}
    values["study"]["models"] = ["gpt2e"]
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    snakemake(tmp_path, "--quiet", "rules")
    assert (tmp_path / "results/report/report.html").stat().st_size > 50_000
    scores = json.loads((tmp_path / "results/ner/gpt2e/1/metrics.json").read_text())["test"][
        "span"
    ]["micro"]
    assert (scores["support"], scores["predicted"], scores["f1"]) == (0, 0, 0.0)
    assert "Nothing to be done" in snakemake(tmp_path, "--dry-run")
    with (tmp_path / "mine.jsonl").open("a") as file:
        file.write(json.dumps({"name": "more", "words": ["One", "more", "."]}) + "\n")
    assert (
        planned(tmp_path) >= RULES["corpus"] - {"download_lambada", "prepare_lambada"} | RULES["lm"]
    )


@pytest.mark.parametrize("name", ["statistics.json", "alignment.json"])
def test_the_corpus_is_the_approved_one(study: Path, name: str) -> None:
    """Counts of the generated corpus, of what its reader finds and of its tokens: integers, the
    same on every machine.
    """
    assert json.loads((study / "results/corpus" / name).read_text()) == json.loads(
        (ROOT / "tests/golden" / name).read_text()
    )


def test_the_paper_study_stops_at_the_first_rule_without_its_corpus(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text(
        (ROOT / "params.yaml").read_text().replace("root: .", f"root: {ROOT}")
    )
    output = snakemake(tmp_path, check=False)
    assert "Error in rule download_corpus" in output
    for part in ("OntoNotes", "corpus.path", "studies/ontogum", "studies/sample"):
        assert part in output
    assert not (tmp_path / "results/corpus/train.jsonl").exists()
