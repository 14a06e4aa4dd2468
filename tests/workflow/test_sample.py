"""The numbers of study sample, where `make sample` has made them (a job of CI does)."""

from pathlib import Path

import pandas as pd
import pytest


def test_the_models_predict_better_than_counted_n_grams(root: Path) -> None:
    """On dev and test; entities on, off and shuffled. The pointer, trained less, is not asked."""
    path = root / "results" / "sample" / "measures.csv"
    if not path.is_file():
        pytest.skip("make sample has not been run")
    rows = pd.read_csv(path).dropna(axis="columns", how="all")
    rows = rows[(rows.step == "perplexity") & (rows.measure == "perplexity")]
    whole = rows[rows[["class", "group", "distance"]].isna().all(axis="columns")]
    found = whole.groupby(["model", "split"]).value.max().unstack()
    assert list(found) == ["dev", "test"]
    assert (found.loc[["gpt2", "gpt2e", "lstm"]] < found.loc["ngram"]).all(axis=None)
