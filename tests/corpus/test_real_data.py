"""The pinned corpora have the counts of the committed results (CI: what `fetch-data` downloads)."""

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from entity_transformers.corpus.alignment import END, load_gpt2_tokenizer
from entity_transformers.corpus.download import VARIABLE, locate
from entity_transformers.corpus.mentions import drop_singletons
from entity_transformers.corpus.readers import read_corpus
from entity_transformers.corpus.statistics import describe
from entity_transformers.steps.corpus import _count as count


@pytest.fixture(autouse=True)
def data(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(VARIABLE, str(shared_data))
    return


def find(name: str, tmp_path: Path) -> Path:
    return Path(locate(name, None, tmp_path)["root"])


def test_ontogum_has_the_counts_of_the_committed_study(root: Path, tmp_path: Path) -> None:
    keys = ("split", "measure", "nesting", "label", "group")
    with (root / "results" / "ontogum" / "measures.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["step"] == "corpus"]
    committed = {tuple(row[key] for key in keys): float(row["value"]) for row in rows}
    corpus = read_corpus(
        "ontogum", find("ontogum", tmp_path), exclude=["GUM_reddit_*"], bad_documents="skip"
    )
    found = describe((drop_singletons(document) for document in corpus), "outermost")
    counted = [row for split, counts in found["splits"].items() for row in count(split, counts)]
    assert len(counted) > 100
    for row in counted:
        assert row["value"] == committed[tuple(str(row.get(key, "")) for key in keys)]


def test_gpt2_s_encoder_has_its_known_size(tmp_path: Path) -> None:
    tokenizer = load_gpt2_tokenizer(find("gpt2-bpe", tmp_path))
    assert tokenizer.get_vocab_size() == 50_257
    assert tokenizer.encode("Hello world").ids == [15496, 995]
    assert tokenizer.token_to_id(END) == 50_256
