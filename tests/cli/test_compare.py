"""compare: its differences are those of the documents; other test sets are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from entity_transformers.cli import main
from entity_transformers.report.frame import make, render, write_units

ROOT = Path(__file__).resolve().parents[2]
PARAMS = ROOT / "params.yaml"


def write(folder: Path, nats: list[list[float]], tokens: int = 10, name: str = "d") -> Path:
    """The results of a study of one model: nats of its documents by seed."""
    folder.mkdir()
    about = {"step": "perplexity", "model": "gpt2", "split": "test", "entities": "off"}
    units = [
        {
            **about,
            "measure": "nll",
            "seed": seed,
            "value": value,
            "count": tokens,
            "unit": f"{name}{i}",
        }
        for seed, losses in enumerate(nats, 1)
        for i, value in enumerate(losses)
    ]
    write_units(make(units), folder / "units.parquet")
    (folder / "measures.csv").write_text(render(make([{**about, "measure": "loss", "seed": 1}])))
    return folder


def run(capsys: pytest.CaptureFixture[str], ours: Path, theirs: Path, *more: str) -> str:
    main(["compare", str(PARAMS), str(ours), str(PARAMS), str(theirs), "--models", "gpt2", *more])
    return capsys.readouterr().out


def test_the_difference_is_paired_by_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = write(tmp_path / "a", [[10, 20, 31]])
    theirs = write(tmp_path / "b", [[12, 22, 32]])
    last = next(line for line in run(capsys, ours, theirs).splitlines() if line.startswith("gpt2"))
    assert last.split()[:4] == ["gpt2", "test", "3", "−0.1667"]


@pytest.mark.parametrize("more", [{"tokens": 9}, {"name": "e"}])
def test_other_documents_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: dict[str, object]
) -> None:
    ours = write(tmp_path / "a", [[10.0, 20.0]])
    theirs = write(tmp_path / "b", [[10.0, 20.0]], **more)  # type: ignore[arg-type]
    with pytest.raises(SystemExit) as stop:
        run(capsys, ours, theirs)
    assert stop.value.code == 2
    assert "scored different units or tokens of test" in capsys.readouterr().err
