"""compare: its differences are those of the report; other test sets are refused."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from entity_transformers.artifacts import DIGESTS
from entity_transformers.cli import main
from entity_transformers.report.records import Documents
from entity_transformers.report.two_studies import compare_scores

ROOT = Path(__file__).resolve().parents[2]
ONTOGUM = ROOT / "studies/ontogum"
Study = Callable[..., Path]


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """A study of one model whose scores are given: nats of its documents by seed."""
    params = (
        (ROOT / "studies/sample/params.yaml").read_text().replace("seeds: [1]", "seeds: [1, 2]")
    )

    def make(name: str, nats: list[list[float]], *, words: int = 90, tokens: int = 10) -> Path:
        folder = tmp_path / name
        (folder / "results/corpus").mkdir(parents=True)
        (folder / "params.yaml").write_text(params)
        counts = {"documents": 3, "sentences": 9, "words": words}
        statistics = json.dumps({"splits": {"test": counts}})
        (folder / "results/corpus/statistics.json").write_text(statistics)
        for seed, losses in enumerate(nats, 1):
            run = folder / f"results/perplexity/gpt2/{seed}"
            run.mkdir(parents=True)
            rows = [f"test,d{i},{tokens},{loss}" for i, loss in enumerate(losses)]
            (run / "documents.csv").write_text(
                "\n".join(["split,document,tokens,nll_off", *rows]) + "\n"
            )
        return folder

    return make


def run(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    main(["compare", *map(str, words)])
    return capsys.readouterr().out


def fail(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    with pytest.raises(SystemExit) as stop:
        main(["compare", *map(str, words)])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_it_gives_what_the_report_says_of_two_models_of_a_study(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same numbers by the other way: claims.csv of a committed study."""
    printed = run(capsys, ONTOGUM, ONTOGUM, "--models", "gpt2e=gpt2", "--samples", "100")
    with (ONTOGUM / "results/report/tables/claims.csv").open() as file:
        claims = [row["Measured here"].replace("−", "-") for row in csv.DictReader(file)]
    for split, claim in (("test", "test, GPT2E minus GPT2"), ("lambada", "last word")):
        (told,) = (text for text in claims if claim in text and "GPT2E unl" not in text)
        line = next(row for row in printed.splitlines() if f"  {split} (" in row)
        *_, difference, _, over_seeds, verdict = re.split(r"\s{2,}", line)
        assert difference in told
        assert over_seeds in told
        assert f": {verdict}; " in told


def test_differences_by_hand(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    one = study("a", [[10.0, 21.0, 32.0, 9.0, 8.0], [11.0, 20.0, 33.0, 9.0, 7.0]])
    other = study("b", [[12.0, 24.0, 36.0, 11.0, 10.0], [12.0, 22.0, 35.0, 10.0, 9.0]])
    printed = run(capsys, one, other)
    (line,) = (row for row in printed.splitlines() if row.startswith("gpt2 "))
    model, split, a, b, gap, documents, seeds, verdict = re.split(r"\s{2,}", line)
    assert (model, split) == ("gpt2", "test (5)")
    assert (float(a), float(b)) == (round(160 / 100, 4), round(181 / 100, 4))
    gaps = np.array([-13 / 50, -8 / 50])
    assert float(gap) == pytest.approx(gaps.mean(), abs=1e-4)
    half = stats.t.ppf(0.975, 1) * gaps.std(ddof=1) / np.sqrt(2)
    assert [float(n) for n in re.findall(r"[-+][\d.]+", seeds)] == pytest.approx(
        [gaps.mean() - half, gaps.mean() + half], abs=1e-4
    )
    low, high = map(float, re.findall(r"[-+][\d.]+", documents))
    assert -0.31 <= low < gaps.mean() < high <= -0.14  # of documents that differ by 1.5 to 3 nats
    assert verdict == "not shown"  # two seeds are too few
    for seed in (one, other):
        (seed / "results/perplexity/gpt2/2/documents.csv").unlink()
    assert run(capsys, one, other).rstrip().endswith("A is better")
    assert run(capsys, other, one).rstrip().endswith("B is better")
    assert run(capsys, one, one).rstrip().endswith("the same")


def test_fewer_than_five_documents_say_nothing(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = study("a", [[10.0, 20.0, 30.0, 9.0]]), study("b", [[12.0, 24.0, 36.0, 11.0]])
    (line,) = (row for row in run(capsys, one, other).splitlines() if row.startswith("gpt2 "))
    gap, documents, seeds, verdict = re.split(r"\s{2,}", line)[4:]
    assert (gap, documents, seeds, verdict) == ("-0.3500", "-", "-", "no interval")


def test_entities_are_compared_where_both_have_them() -> None:
    def table(**nll: float) -> dict[int, Documents]:
        return {1: Documents(
            np.array(["test"] * 2), np.array(["a", "b"]), np.array([1, 1]),
            {name: np.array([value, value]) for name, value in nll.items()},
        )}  # fmt: skip

    both = compare_scores("m", "test", table(on=1.0, off=2.0), table(on=3.0, off=5.0), samples=10)
    one = compare_scores("m", "test", table(on=1.0, off=2.0), table(off=5.0), samples=10)
    assert both is not None
    assert one is not None
    assert (both.condition, both.value) == ("on", -2.0)
    assert (one.condition, one.value) == ("off", -3.0)
    assert compare_scores("m", "dev", table(on=1.0), table(on=1.0), samples=10) is None


def test_other_test_sets_are_refused_and_it_is_said_why(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    one = study("a", [[1.0, 2.0, 3.0]])
    assert "test has 90 words in A, 91 in B: score both on the same corpus" in fail(
        capsys, one, study("words", [[1.0, 2.0, 3.0]], words=91)
    )
    assert "d0 has 10 and 11 tokens: another text, or another byte-pair encoder" in fail(
        capsys, one, study("tokens", [[1.0, 2.0, 3.0]], tokens=11)
    )
    fewer = fail(capsys, one, study("fewer", [[1.0, 2.0]]))
    assert "3 and 2 documents of test, d2 is in one of them alone" in fewer
    error = fail(capsys, one, one, "--splits", "train")
    assert "no scores by document of train in common" in error
    error = fail(capsys, one, one, "--models", "gpt2=bert")
    assert "--models bert: study B has gpt2, gpt2e, lstm" in error
    empty = study("empty", [])
    assert "no scores by document in common" in fail(capsys, one, empty)
    assert "none: no params.yaml in it, expected the folder of a study" in fail(
        capsys, one, one.parent / "none"
    )
    seeds = study("seeds", [[1.0, 2.0, 3.0]])
    (seeds / "results/perplexity/gpt2/1").rename(seeds / "results/perplexity/gpt2/2")
    assert "gpt2: A has seeds 1, B has 2: train one in common" in fail(capsys, one, seeds)


def test_one_test_set_can_be_asked_for_where_another_differs(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = study("a", [[1.0, 2.0, 3.0]]), study("b", [[1.0, 2.0, 3.0]])
    for side, last in ((one, 4.0), (other, 6.0)):
        scores = side / "results/perplexity/gpt2/1/documents.csv"
        scores.write_text(f"split,document,tokens,nll_off\ndev,d0,2,{last}\ntest,d0,{last:.0f},1\n")
    assert "another text, or another byte-pair encoder" in fail(capsys, one, other)
    printed = run(capsys, one, other, "--splits", "dev")
    assert "gpt2   dev (1)  2.0000  3.0000  -1.0000" in printed
    assert "test (" not in printed


def test_the_models_that_are_not_compared_are_not_told(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = study("a", [[1.0, 2.0, 3.0]]), study("b", [[1.0, 2.0, 3.0]])
    text = (other / "params.yaml").read_text()
    (other / "params.yaml").write_text(text.replace("  lstm:", "  lstm2:"))
    assert "models." not in run(capsys, one, other, "--models", "gpt2")


def test_what_differs_between_the_studies_is_told(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = study("a", [[1.0, 2.0, 3.0]]), study("b", [[1.0, 2.0, 3.0]])
    text = (other / "params.yaml").read_text()
    (other / "params.yaml").write_text(text.replace("learning_rate: 0.002", "learning_rate: 0.003"))
    assert "  lm.learning_rate: 0.002 in A, 0.003 in B\n" in run(capsys, one, other)
    assert not (one / DIGESTS).exists()  # it writes nothing
