"""One tiny study, run step by step, and every tool that reads what it left."""

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from refused import fail
from tiny_study import make_study, run_steps

from entity_transformers import cli
from entity_transformers.artifacts import check, read_csv
from entity_transformers.cli import main
from entity_transformers.study.params import load
from entity_transformers.study.plan import Plan, _open

STUDY = "studies/tiny.yaml"
MODEL = Path("data/tiny/models/gpt2e/1")
OTHER_SEED = MODEL.with_name("2")
TOKENIZER = Path("data/tiny/text/corpus/tokenizer.json")
OTHER_VALUES = [
    ("steps: 6", "steps: 7", "models.gpt2e.steps", MODEL),
    ("sample_words: 6000", "sample_words: 7000", "corpus.sample_words", "data/tiny/text/corpus"),
    ("stride: 32", "stride: 16", "perplexity.stride", "data/tiny/scores/perplexity/gpt2e/1"),
]
"""What stands in the study, what is put there, its key, and the run that was made with it."""


@pytest.fixture(scope="module", autouse=True)
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("tools")
    make_study(home, "models: {gpt2: {seeds: [4]}}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        run_steps("corpus")
        run_steps("lm", "perplexity", model="gpt2e")
        yield home


@pytest.fixture(autouse=True)
def restored(study: Path) -> Iterator[None]:
    """The study and its run, as they were before a test that changes them."""
    whole = {path: path.read_bytes() for path in (Path(STUDY), TOKENIZER)}
    yield
    for path, data in whole.items():
        path.write_bytes(data)
    shutil.rmtree(OTHER_SEED, ignore_errors=True)
    _open.cache_clear()


def test_rows_and_records() -> None:
    """A run leaves its numbers, and a record whose digest is the plan's."""
    record = json.loads((MODEL / "run.json").read_text())
    plan = Plan(load(Path(STUDY)), Path(STUDY))
    assert record["digest"] == plan.digest(plan.steps[plan.params.study.steps.index("lm")], "gpt2e")
    assert {"rows.csv", "config.json", "model.safetensors"} <= record["files"].keys()
    measures = {row["measure"] for row in read_csv(MODEL / "rows.csv")}
    assert {"parameters", "loss", "tokens_seen"} <= measures
    assert list(plan.stale()) == []
    changed = Plan(load(Path(STUDY), {"lm.steps": 7}), Path(STUDY))
    assert str(MODEL / "run.json") in list(changed.stale())


def test_damage(capsys: pytest.CaptureFixture[str]) -> None:
    TOKENIZER.write_bytes(TOKENIZER.read_bytes() + b" ")
    with pytest.raises(ValueError, match=r"sha256 .*expected .*run it|changed or damaged"):
        check(TOKENIZER)
    told = fail(capsys, "export-model", STUDY, "gpt2e", "--output", "damaged")
    assert "tokenizer.json: sha256" in told


def test_the_right_files_in_the_wrong_place_are_refused_and_made_again() -> None:
    """Those of another seed, whose values and code are the same."""
    shutil.copytree(MODEL, OTHER_SEED)
    with pytest.raises(ValueError, match="belongs to the files of data/tiny/models/gpt2e/1"):
        check(OTHER_SEED / "model.safetensors")
    plan = Plan(load(Path(STUDY), {"study.seeds": [1, 2]}), Path(STUDY))
    assert list(plan.stale()) == [str(OTHER_SEED / "run.json")]


@pytest.mark.parametrize(("line", "changed"), [
    ("run lm --study {} --model gpt2 --seed 1", [1]),
    ("run perplexity --study {} --model gpt2e --seed 1", [0, 1]),
    ("run report --study {}", [1]),
    ("export-model {} gpt2e --output x", [0, 2]),
])  # fmt: skip
def test_what_was_made_with_other_values_is_not_read(capsys, line, changed):
    study = Path(STUDY)
    whole = study.read_text()
    for before, now, key, made in (OTHER_VALUES[number] for number in changed):
        study.write_text(whole.replace(before, now))
        told = fail(capsys, *line.format(STUDY).split())
        old, new = before.split()[1], now.split()[1]
        assert f"{key}: {new} in the study, but {old} in {made}/run.json: " in told
        assert len(told.splitlines()) == 1


def test_what_another_study_made_with_other_values_is_not_started_from(capsys):
    """Neither its encoder nor its weights."""
    study, other = Path(STUDY), Path("studies/other.yaml")
    other.write_text(
        "base: tiny\ntokenizer: {kind: study, path: 'study:tiny'}\n"
        "models: {gpt2e: {initial_weights: 'study:tiny/gpt2e/1'}}\n"
    )
    whole = study.read_text()
    study.write_text(whole.replace("vocabulary: 400", "vocabulary: 410"))
    told = fail(capsys, *"run corpus --study other".split())
    assert "tokenizer.vocabulary: 410 in the study, but 400 in data/tiny/text/corpus/" in told
    _open.cache_clear()
    study.write_text(whole)
    main("run corpus --study other".split())
    study.write_text(whole.replace("warmup_steps: 1", "warmup_steps: 2"))
    _open.cache_clear()
    told = fail(capsys, *"run lm --study other --model gpt2e --seed 1".split())
    assert "models.gpt2e.warmup_steps: 2 in the study, but 1 in data/tiny/models/gpt2e/" in told


def test_export_model(capsys: pytest.CaptureFixture[str]) -> None:
    main(["export-model", "tiny", "gpt2e"])  # of a study's name, to a folder of the two
    card = Path("exported/tiny/gpt2e/README.md").read_text()
    scores = {
        row["entities"]: float(row["value"])
        for row in read_csv(Path("data/tiny/scores/perplexity/gpt2e/1/rows.csv"))
        if (row["measure"], row["split"]) == ("perplexity", "test")
        and not any(row[name] for name in ("class", "distance", "group", "unit"))
    }
    assert f"| perplexity per token, test | {scores['on']:.4g} | {scores['off']:.4g} |" in card
    assert Path("exported/tiny/gpt2e/tokenizer.json").is_file()


def test_what_transformers_cannot_run_with_is_refused_at_once() -> None:
    """It reads docstrings, which -OO takes out."""
    command = [sys.executable, "-OO", "-m", "entity_transformers", "steps"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("entity-transformers: transformers needs its docstrings")
    assert "unset PYTHONOPTIMIZE, or set it to 1" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_terminal_of_ascii_shows_what_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with LC_ALL=POSIX and PYTHONIOENCODING=ascii."""
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown, encoding="ascii"))
    monkeypatch.setattr(cli, "find_function", lambda name: lambda: print("Zoë − 1"))
    main(["steps"])
    sys.stdout.flush()
    assert shown.getvalue() == b"Zo? ? 1\n"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_closed_stream_is_one_that_nobody_reads(stream, monkeypatch):
    """As with ``>&-`` and ``2>&-``: Python has none, which libraries ask for what it is."""
    monkeypatch.setattr(sys, stream, None)
    main(["steps"])
    with getattr(sys, stream) as file:
        assert not file.isatty()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_full_disk_behind_standard_output_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", Path("/dev/full").open("w"))  # noqa: SIM115
    with pytest.raises(SystemExit) as ended:
        main(["steps"])
    assert ended.value.code == 2
    assert "standard output: No space left on device" in capsys.readouterr().err


def test_a_study_has_the_same_name_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    main(["check-study", "--study", "tiny"])
    by_name = capsys.readouterr().out
    main(["check-study", "--study", STUDY])
    assert capsys.readouterr().out == by_name


@pytest.mark.parametrize(("line", "expected"), [
    ("run lmm", "step 'lmm', expected one of corpus"),
    (f"run lm --study {STUDY}", "step lm runs per model: name one by --model and --seed"),
    (f"run corpus --study {STUDY} --model gpt2", "runs once per study"),
    ("run lm --study studies/no.yaml", "studies/no.yaml: No such file"),
    ("run lm --set steps=3", "expected SECTION.KEY=VALUE"),
    ("run lm --set lm.steps=[", "not YAML: while parsing a flow"),
    ("steps report9", "has no section of its own"),
    ("demmo", "did you mean demo?"),
    (f"run perplexity --study {STUDY} --model gpt2 --seed 1",
     "data/tiny/models/gpt2/1/run.json is missing: run step lm"),  # a run without a record
    (f"report {STUDY}", "results/tiny/measures.csv is missing"),
    (f"verify {STUDY}", "results/tiny/measures.csv is missing"),
    ("verify tinier", "no study 'tinier'"),
    (f"export-model {STUDY} gpt2 --output x", "data/tiny/models/gpt2/4: not trained yet"),
    (f"export-model {STUDY} gpt3 --output x", "model 'gpt3', expected one of"),
])  # fmt: skip
def test_errors(capsys: pytest.CaptureFixture[str], line: str, expected: str) -> None:
    assert expected in fail(capsys, *line.split())
