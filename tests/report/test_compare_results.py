"""workflow/compare_results.py: it finds what differs, and nothing that only has another name."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

STUDIES = ("ontogum", "controls")


@pytest.fixture(scope="module")
def script(root: Path) -> ModuleType:
    path = root / "workflow/compare_results.py"
    spec = importlib.util.spec_from_file_location("compare_results", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["compare_results"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


OLD = {
    "report/tables/planted.csv": "Model,PPL,Pieces\nGPT2E null,12.5,7\nGPT2 wide,1e3,\n",
    "riddles/riddles.json": json.dumps({"riddle": "padding", "pieces": [1, 2.5]}),
    "perplexity/gpt2-wide/1/lambada.json": json.dumps({"last_piece": {"accuracy": 0.25}}),
    "lm/gpt2/1/timing.json": json.dumps({"seconds": 1.0}),
    "lm/gpt2/1/curve.csv": "step,pieces\n5,640\n5,650\n",
}
NEW = {
    "report/tables/recall.csv": (
        "Model,PPL,Tokens\nGPT2E unlabelled,12.5,7\nGPT2 parameter-matched,1e3,\n"
    ),
    "anomalies/anomalies.json": json.dumps({"anomaly": "padding", "tokens": [1, 2.5]}),
    "lambada/gpt2-matched/1/lambada.json": json.dumps({"last_token": {"accuracy": 0.25}}),
    "lm/gpt2/1/timing.json": json.dumps({"seconds": 2.0}),
    "lm/gpt2/1/curve.csv": "step,tokens\n5,640\n5,650\n",
}


def test_other_names_are_no_difference(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = write(tmp_path / "old", OLD), write(tmp_path / "new", NEW)
    assert script.main([str(old), str(new)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "tables: 6 values agree to the last digit, 0 differ, 0 only in OLD, 0 only in NEW",
        "metrics: 8 values agree to the last digit, 0 differ, 0 only in OLD, 0 only in NEW",
    ]


@pytest.mark.parametrize(
    ("name", "change", "line"),
    [
        (
            "report/tables/recall.csv",
            ("12.5", "12.500000000000002"),
            "different: report/tables/recall.csv: GPT2E unlabelled | PPL: 12.5 -> 12.50000",
        ),
        (
            "anomalies/anomalies.json",
            ("2.5", "2.6"),
            "different: anomalies/anomalies.json: tokens[1]: 2.5 -> 2.6",
        ),
        ("lm/gpt2/1/curve.csv", ("650", "651"), "lm/gpt2/1/curve.csv: 5 #2 | tokens: 650 -> 651"),
    ],
)
def test_another_digit_is_found(
    script: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    change: tuple[str, str],
    line: str,
) -> None:
    old = write(tmp_path / "old", OLD)
    new = write(tmp_path / "new", {**NEW, name: NEW[name].replace(*change)})
    assert script.main([str(old), str(new)]) == 1
    assert line in capsys.readouterr().out


def test_what_one_side_lacks_is_listed(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = write(tmp_path / "old", OLD)
    less = {**NEW, "report/tables/recall.csv": "Model,PPL,Tokens\nGPT2E unlabelled,12.5,7\n"}
    del less["anomalies/anomalies.json"]
    assert script.main([str(old), str(write(tmp_path / "new", less))]) == 0
    out = capsys.readouterr().out
    assert (
        "only old: report/tables/recall.csv: GPT2 parameter-matched ="
        " GPT2 parameter-matched, 1e3, \n" in out
    )
    assert "only old: anomalies/anomalies.json (the whole file)" in out
    with pytest.raises(SystemExit):
        script.main([str(tmp_path / "none"), str(old)])


@pytest.mark.parametrize("study", STUDIES)
def test_a_committed_study_equals_itself(script: ModuleType, root: Path, study: str) -> None:
    results = root / "studies" / study / "results"
    found = script.compare_tables(results, results)
    assert found.equal > 1000
    assert (found.different, found.only_old, found.only_new) == ([], [], [])


def test_an_old_study_s_files_are_found_under_their_new_names(
    script: ModuleType, root: Path, tmp_path: Path
) -> None:
    """A committed study under its old names, as far as the names of files go."""
    new = root / "studies/ontogum/results"
    old = tmp_path / "results"
    (old / "report").mkdir(parents=True)
    shutil.copytree(new / "report/tables", old / "report/tables")
    for name, was in (("anomalies", "riddles"), ("recall", "planted")):
        (old / f"report/tables/{name}.csv").rename(old / f"report/tables/{was}.csv")
    found = script.compare_tables(old, new)
    assert found.equal > 1000
    assert (found.different, found.only_old, found.only_new) == ([], [], [])
