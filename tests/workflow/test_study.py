"""Two tiny studies under Snakemake and DVC: what a change asks for is made, and no more."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import checkout
import psutil
import pytest
from checkout import BIN, GIT, LIMIT, ROOT, commit, planned, read_records, run, snakemake

pytestmark = pytest.mark.slow
NOTHING = "Nothing to be done"
CURRENT = "Data and pipelines are up to date."
TAGGER = ("hidden: 8", "hidden: 9")
WEIGHTS = "data/tiny/models/gpt2e/1/model.safetensors"
ALL = {"train_lm", "score_perplexity", "score_embeddings", "score_ner", "make_report"}
TRAINED = ("--", "data/tiny/models/gpt2e/1/run.json")


@pytest.fixture(scope="module", autouse=True)
def forked_commands() -> Iterator[None]:
    """Every `entity-transformers` that is started here, also by Snakemake and DVC, is a fork, as
    under `make study`.
    """
    waits = ["sh", "-c", "echo $ENTITY_TRANSFORMERS_FORKS; cat"]
    command = [sys.executable, str(ROOT / "workflow/forks.py"), *waits]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ENTITY_TRANSFORMERS_FORKS", server.stdout.readline().strip())
            yield
        server.communicate()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which Snakemake has made both studies, and DVC and git have recorded them."""
    folder = checkout.make_checkout(tmp_path_factory.mktemp("finished"))
    jobs = {"make_corpus tiny", "train_lm tiny gpt2e", "make_corpus next", "train_lm next gpt2e"}
    assert planned(folder, "next") == jobs | {"score_perplexity next gpt2e", "make_report next"}
    snakemake(folder, "--quiet", "rules", study="next")
    assert {job for job in planned(folder) if "lm" in job or "corpus" in job} == set()
    snakemake(folder, "--quiet", "rules")
    run("dvc", "commit", "--force", "--quiet", folder=folder)
    commit(folder)
    return folder


@pytest.fixture
def home(finished: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed, in a folder whose name shells would take apart."""
    return Path(shutil.copytree(finished, tmp_path / "Ada's home", symlinks=True))


def change(folder: Path, old: str, new: str, file: str = "studies/tiny.yaml") -> None:
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1))


def remade(before: dict[str, Any], folder: Path) -> set[str]:
    """Steps whose runs have other records than before."""
    after = read_records(folder)
    return {name.split("/")[3] for name in after if after[name] != before.get(name)}


def ask(folder: Path, *command: str) -> Any:
    printed = run("dvc", *command, "--json", folder=folder)
    return json.loads(next(line for line in printed.splitlines() if line.startswith(("{", "["))))


def test_a_finished_study_has_nothing_to_do_under_either_tool(finished: Path) -> None:
    assert NOTHING in snakemake(finished)
    assert NOTHING in snakemake(finished, "--dry-run", study="next")
    assert run("dvc", "status", folder=finished).strip() == CURRENT


def test_the_paper_s_study_is_that_of_params_yaml(finished: Path) -> None:
    jobs = planned(finished, "paper")
    assert {"make_corpus paper", "train_lm paper gpt2", "make_report paper"} <= jobs
    assert not (finished / "data/paper").exists()


@pytest.mark.parametrize(("old", "new", "tiny", "other"), [
    (*TAGGER, {"score_ner", "make_report"}, set()),
    ("samples: 100", "samples: 200", {"make_report"}, {"make_report"}),
    ("steps: 6", "steps: 7", ALL, {"train_lm", "score_perplexity", "make_report"}),
    ("seeds: [1]", "seeds: [1, 2]", ALL, {"train_lm", "score_perplexity", "make_report"}),
])  # fmt: skip
def test_a_changed_value_re_runs_what_depends_on_it(home, old, new, tiny, other):
    """In the study, and in the one that is based on it and starts from its weights."""
    before = read_records(home)
    change(home, "checkpoint_every: 2", "checkpoint_every: 3")  # on which nothing depends
    change(home, old, new)
    assert {job.split()[0] for job in planned(home)} == tiny
    jobs = {tuple(job.split()[:2]) for job in planned(home, "next")}
    assert {rule for rule, study in jobs if study == "next"} == other
    assert {rule for rule, study in jobs if study == "tiny"} <= {"train_lm"}
    assert (("train_lm", "tiny") in jobs) == ("steps: 7" in new)
    assert read_records(home) == before  # a dry run hides nothing for good


def test_edited_code_re_runs_what_reaches_it(home: Path) -> None:
    ner = "src/entity_transformers/steps/ner.py"
    change(home, "import logging", "# a comment\nimport logging", ner)
    assert NOTHING in snakemake(home, "--dry-run")
    change(home, "import logging", "import logging\nADDED = 1", ner)
    assert planned(home) == {"score_ner tiny gpt2e", "make_report tiny"}


def test_dvc_runs_compares_and_goes_back(home: Path) -> None:
    """A tagger's value re-runs the tagger; earlier results come back, whatever the files' times."""
    before, numbers = read_records(home), ask(home, "metrics", "show")
    change(home, *TAGGER)
    printed = run("dvc", "repro", "report@tiny", folder=home)
    ran = set(re.findall(r"\(Rule: (\w+)\)", printed))
    assert ran - {"all", "corpus", "train", "score"} == {"score_ner", "make_report"}
    assert remade(before, home) == {"ner"}
    assert NOTHING in snakemake(home, "--dry-run")
    assert ask(home, "params", "diff")["studies/tiny.yaml"]["ner.hidden"]["new"] == 9
    assert "results/tiny/metrics.json" in str(numbers)
    ask(home, "metrics", "diff", "--all")
    run("dvc", "plots", "diff", "HEAD", "--targets", "results/tiny/curves.csv", folder=home)
    assert "dev_loss_on" in (home / "dvc_plots/index.html").read_text()
    commit(home)
    run(*GIT, "checkout", "--quiet", "HEAD~1", folder=home)
    run("dvc", "checkout", "--quiet", folder=home)
    assert read_records(home) == before
    assert run("dvc", "status", folder=home).strip() == CURRENT
    for study in ("tiny", "next"):
        assert NOTHING in snakemake(home, "--dry-run", study=study)


def test_a_stage_that_fails_below_a_folder_with_braces_says_why(finished, tmp_path):
    """DVC formats the folder's name; its line and the study's are both there."""
    home = Path(shutil.copytree(finished, tmp_path / "br{a}ce", symlinks=True))
    change(home, "vocabulary: 400", "vocabulary: 7")
    told = run("dvc", "repro", "corpus@tiny", folder=home, check=False)
    assert "tokenizer.vocabulary: Input should be greater than or equal to 257" in told
    assert "failed to reproduce 'corpus@tiny': failed to run: snakemake" in told


def test_experiments_are_run_here_and_in_a_folder_of_their_own(home: Path) -> None:
    before = read_records(home)
    run("dvc", "exp", "run", "-S", "studies/tiny.yaml:ner.epochs=2", "report@tiny", folder=home)
    assert remade(before, home) == {"ner"}
    changed = ask(home, "params", "diff")["studies/tiny.yaml"]
    assert {name: one["new"] for name, one in changed.items()} == {"ner.epochs": 2}
    assert len(ask(home, "exp", "show")[1]["experiments"]) == 1
    run(*GIT, "checkout", "--quiet", ".", folder=home)
    run("dvc", "checkout", "--quiet", folder=home)
    # its package is the one of this checkout, whose code is the same
    temp = ("--temp", "-S", "studies/tiny.yaml:ner.epochs=3", "report@tiny")
    run("dvc", "exp", "run", *temp, folder=home)
    assert read_records(home) == before
    assert len(ask(home, "exp", "show")[1]["experiments"]) == 2


def test_a_pulled_clone_runs_nothing_again_but_what_changes(finished: Path, tmp_path: Path) -> None:
    """Also where git writes files with Windows' ends of lines elsewhere."""
    clone, remote = tmp_path / "clone", str(tmp_path / "remote")
    elsewhere = ("--quiet", "--config", "core.autocrlf=true", str(finished), str(clone))
    run(*GIT, "clone", *elsewhere, folder=tmp_path)
    assert b"\r" not in (clone / "params.yaml").read_bytes()
    assert run("git", "status", "--short", folder=clone) == ""
    run("dvc", "push", "--quiet", "--remote", "here", folder=add_remote(finished, remote))
    run("dvc", "pull", "--quiet", "--remote", "here", folder=add_remote(clone, remote))
    assert run("dvc", "status", folder=clone).strip() == CURRENT
    before = read_records(clone)
    assert before == read_records(finished)
    for study in ("tiny", "next"):  # of the report, git does not keep the page
        assert planned(clone, study) == set()
    change(clone, *TAGGER)
    assert planned(clone) == {"score_ner tiny gpt2e", "make_report tiny"}
    run("dvc", "repro", "score@tiny", folder=clone)
    assert remade(before, clone) == {"ner"}


def add_remote(folder: Path, url: str) -> Path:
    run("dvc", "remote", "add", "--local", "--force", "here", url, folder=folder)
    return folder


@pytest.mark.parametrize(("wrong", "told"), [
    ("widht: 16", "studies/tiny.yaml: lm.widht: 16, which is not a key of its base"),
    ("width: 17", "width 17 is not divisible by heads 2"),
])  # fmt: skip
def test_a_bad_study_stops_before_any_rule_with_one_message(home, wrong, told):
    change(home, "width: 16", wrong)
    said = snakemake(home, check=False)
    [line] = [line for line in said.splitlines() if line.startswith("snakemake: ")]
    assert told in line
    assert "Traceback" not in said
    assert not re.search(r"^rule ", said, re.M)


def let_make_run(home: Path) -> None:
    """Without setting anything up."""
    (home / ".venv").mkdir()
    (home / ".venv/bin").symlink_to(BIN)
    for name in ("pyproject.toml", "requirements.txt"):
        (home / name).touch()
    (home / ".venv/ready").touch()


def test_make_knows_the_studies(home: Path) -> None:
    let_make_run(home)

    def make(*words: str, check: bool = True) -> str:
        alone = {"MAKEFLAGS": "", "MAKELEVEL": "0", "FORKS": ""}
        return run("make", *words, folder=home, check=check, **alone)

    known = " ".join(sorted(["paper", *(path.stem for path in home.glob("studies/*.yaml"))]))
    for target in ("study", "report", "clean"):
        said = make(target, "STUDY=none", check=False)
        assert f"no study 'none', expected one of {known}\n" in said
    page = home / "results/tiny/report.html"
    page.unlink()
    make("report", "STUDY=tiny")
    assert page.is_file()
    assert f"Report: {page}" in make("study", "STUDY=tiny")
    make("clean", "STUDY=tiny")
    assert not (home / "data/tiny").exists()
    assert (home / "results/tiny/README.md").is_file()
    targets = {line.split()[0] for line in make("help").splitlines()}
    assert targets >= {"sample", "study", "report", "test", "check", "commands", "clean"}


def test_the_commands_do_without_snakemake_what_it_does(home: Path) -> None:
    """In one process, where a command may leave nothing behind that changes the next's bytes."""

    def digests() -> dict[str, dict[str, str]]:
        """Of all but the rows of trainings, which hold times."""
        found = {name: one["files"] for name, one in read_records(home).items()}
        for name, files in found.items():
            files["rows.csv"] = "" if "models" in name else files["rows.csv"]
        return found

    before = digests()
    for folder in ("data", "results", "work"):
        shutil.rmtree(home / folder)
    script = run(sys.executable, "workflow/commands.py", "studies/next.yaml", folder=home)
    assert script.count("\nentity-transformers run ") == 6
    (home / "commands.sh").write_text(script)
    run("bash", "commands.sh", folder=home, PYTHON=sys.executable)
    after = digests()
    assert len(after) == 5
    assert after == {name: before[name] for name in after}
    assert NOTHING in snakemake(home, "--dry-run", study="next")


@pytest.mark.parametrize("file", [WEIGHTS, "data/tiny/text/corpus/test.safetensors"])
def test_a_damaged_file_is_named_and_made_again(home: Path, file: str) -> None:
    path, whole = home / file, (home / file).read_bytes()
    middle = len(whole) // 2
    path.unlink()
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    change(home, "stride: 32", "stride: 16")
    said = snakemake(home, check=False)
    assert f"{file}: sha256 " in said
    assert "delete it and run the step that writes it again" in said
    path.unlink()
    snakemake(home, "--quiet", "rules")
    assert path.read_bytes() == whole


def test_a_damaged_record_is_made_again(home: Path) -> None:
    record = home / "data/tiny/scores/ner/gpt2e/1/run.json"
    record.unlink()
    record.write_text("{")
    assert planned(home) == {"score_ner tiny gpt2e", "make_report tiny"}


def test_of_a_run_that_failed_no_record_is_left(home: Path) -> None:
    """Nor where its old values come back: its files are gone."""
    change(home, *TAGGER)
    path = home / "src/entity_transformers/tasks/ner/training.py"
    text = path.read_text()
    path.write_text(text + "\nraise OSError('no disk')\n")
    assert "no disk" in snakemake(home, check=False)
    path.write_text(text)
    change(home, *reversed(TAGGER))
    assert "score_ner" in snakemake(home, "--dry-run", "--", "score")
    assert not list(home.glob("data/**/*.stale"))


def start(folder: Path, *command: str) -> subprocess.Popen[bytes]:
    """Snakemake in the middle of a training, once that has saved its state."""
    state = folder / "work/lm"
    shutil.rmtree(state)
    usual = ("snakemake", "--configfile", "studies/tiny.yaml", *TRAINED)
    process = subprocess.Popen(command or usual,
        cwd=folder, env=checkout.environment(folder, MAKEFLAGS=""), start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        # a shell's background job ignores SIGINT, and what it starts does too
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # fmt: skip
    checkout.wait_for(lambda: list(state.glob("*/checkpoints/step-*")), process)
    return process


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_training_that_is_stopped_goes_on(home: Path, sent: int) -> None:
    """Another Snakemake is told to wait; after a kill the stale lock names its cure."""
    change(home, "steps: 6", "steps: 150")
    process = start(home)
    if sent == signal.SIGKILL:
        os.killpg(process.pid, signal.SIGSTOP)  # so that it has not ended when the other one asks
        assert "locked" in snakemake(home, *TRAINED, check=False)
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, sent)
    process.wait(LIMIT)
    for one in family if sent == signal.SIGKILL else ():
        if one.is_running():
            one.kill()
    psutil.wait_procs(family, LIMIT)
    if sent == signal.SIGKILL:
        assert "--unlock" in snakemake(home, *TRAINED, check=False)
        snakemake(home, "--unlock")
    snakemake(home, "--quiet", "rules", *TRAINED)
    assert "resuming from step" in (home / "logs/tiny/lm/gpt2e/1.log").read_text()
    assert NOTHING in snakemake(home, "--dry-run", *TRAINED)


def test_a_study_ends_with_its_make(home: Path) -> None:
    """Even if that alone is killed."""
    let_make_run(home)
    change(home, "steps: 6", "steps: 600")
    process = start(home, "make", "study", "STUDY=tiny")
    family = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    _, alive = psutil.wait_procs([*family, process], LIMIT)
    assert not alive
    assert "saved at step" in (home / "logs/tiny/lm/gpt2e/1.log").read_text()
