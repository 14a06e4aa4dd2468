"""compare: its differences are those of the documents; other test sets are refused."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from tiny_study import make_study

from entity_transformers.cli import main
from entity_transformers.report.frame import make, render, write_units

TOKENS = 10


@pytest.fixture(autouse=True)
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_study(tmp_path)
    monkeypatch.chdir(tmp_path)


def write(study: str, nats: list[float], tokens: int = TOKENS, name: str = "d") -> None:
    """The results of a study of one model: nats of its documents."""
    Path(f"studies/{study}.yaml").write_text("base: sample\n")
    folder = Path("results", study)
    folder.mkdir(parents=True)
    about = {"step": "perplexity", "model": "gpt2", "split": "test", "entities": "off", "seed": 1}
    units = [
        {**about, "measure": "nll", "value": value, "count": tokens, "unit": f"{name}{i}"}
        for i, value in enumerate(nats)
    ]
    write_units(make(units), folder / "units.parquet")
    (folder / "measures.csv").write_text(render(make([{**about, "measure": "loss"}])))


def run() -> None:
    main(["compare", "studies/a.yaml", "studies/b.yaml", "--models", "gpt2"])


def test_the_difference_is_paired_by_document(capsys: pytest.CaptureFixture[str]) -> None:
    """Of equally long documents the interval is that of the paired t test."""
    ours, theirs = [10.0, 20.0, 31.0], [12.0, 22.0, 32.0]
    write("a", ours)
    write("b", theirs)
    run()
    printed = capsys.readouterr().out.replace("−", "-")
    line = next(line for line in printed.splitlines() if line.strip().startswith("gpt2"))
    assert line.split()[:3] == ["gpt2", "test", "3"]
    test = stats.ttest_rel(np.array(ours) / TOKENS, np.array(theirs) / TOKENS)
    interval = test.confidence_interval(0.95)
    expected = [np.mean(np.subtract(ours, theirs)) / TOKENS, interval.low, interval.high]
    found = [float(number) for number in re.findall(r"[-+]?\d+\.\d+", line)]
    assert found == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("more", [{"tokens": 9}, {"name": "e"}])
def test_other_documents_are_refused(
    capsys: pytest.CaptureFixture[str], more: dict[str, object]
) -> None:
    write("a", [10.0, 20.0])
    write("b", [10.0, 20.0], **more)  # type: ignore[arg-type]
    with pytest.raises(SystemExit) as stop:
        run()
    assert stop.value.code == 2
    assert "scored different units or tokens of test" in capsys.readouterr().err
