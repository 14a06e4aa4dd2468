"""The pinned corpora have the counts of the committed results (CI: what `fetch-data` downloads)."""

import csv
from pathlib import Path

import pytest

from entity_transformers.corpus import prepare
from entity_transformers.corpus.document import SPLITS, Documents
from entity_transformers.corpus.download import VARIABLE, locate
from entity_transformers.corpus.mentions import drop_singletons
from entity_transformers.corpus.readers import read_corpus
from entity_transformers.corpus.statistics import describe, list_counts
from entity_transformers.study.params import load

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def data(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(shared_data))


def find(name: str, tmp_path: Path) -> Path:
    return Path(locate(name, None, tmp_path)["root"])


def test_ontogum_has_the_counts_of_the_committed_study(root: Path, tmp_path: Path) -> None:
    keys = ("split", "measure", "nesting", "label", "group")
    with (root / "results" / "ontogum" / "measures.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["step"] == "corpus"]
    committed = {tuple(row[key] for key in keys): float(row["value"]) for row in rows}
    how = {"exclude": ["GUM_reddit_*"], "bad_documents": "skip"}
    corpus = read_corpus("ontogum", find("ontogum", tmp_path), **how)
    found = describe((drop_singletons(document) for document in corpus), "outermost")
    counted = [row for one in found["splits"].items() for row in list_counts(*one)]
    assert len(counted) > 100
    for row in counted:
        assert row["value"] == committed[tuple(str(row.get(key, "")) for key in keys)]


def test_another_data_set_is_the_second_test(root: Path, tmp_path: Path) -> None:
    """All of its documents, with their chains; those of the corpus stay as they are."""
    params = load(root / "studies" / "sample.yaml")
    sections = params.corpus.model_copy(update={"sample_words": 3000, "second_test": "litbank"})
    params = params.model_copy(update={"corpus": sections})
    listed = prepare.list_corpus(params.corpus, tmp_path / "cache")
    statistics, left_out = prepare.write_documents(params, listed, tmp_path)
    assert left_out["second_test"]["documents_read"] == 100
    assert not left_out["second_test"]["bad"]
    found = list(Documents(tmp_path / "test2.jsonl"))
    alone = read_corpus("litbank", find("litbank", tmp_path))
    assert [one.mentions for one in found] == [drop_singletons(one).mentions for one in alone]
    assert statistics["splits"]["test2"]["documents"] == len(found) == 100
    own = [one for split in SPLITS[:3] for one in Documents(tmp_path / f"{split}.jsonl")]
    assert {one.split for one in own} == {*SPLITS[:3]}
