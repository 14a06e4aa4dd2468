"""LitBank: every published count, the splits of fold 0, and what is refused."""

import csv
from collections import Counter
from pathlib import Path

import pytest
from conll_files import write
from refused import refused

from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.mentions import count_overlaps, drop_singletons
from entity_transformers.corpus.readers.litbank import read

COLUMNS = "sentences tokens entities chains_ge2 mentions nested_mentions crossing_pairs".split()


@pytest.mark.slow
def test_every_count_of_every_document_is_the_published_one(shared_data: Path) -> None:
    documents = list(read(shared_data / "litbank", Ledger()))
    with (shared_data / "litbank" / "counts.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    found = {}
    for d in documents:
        overlaps, chains = count_overlaps(d.mentions), len({m.chain for m in d.mentions})
        kept = len({m.chain for m in drop_singletons(d).mentions})
        sizes = [len(d.sentence_starts), len(d.words), chains, kept, len(d.mentions)]
        found[d.name] = [*sizes, overlaps["nested"], overlaps["crossing"]]
    assert found == {row["doc"]: [int(row[key]) for key in COLUMNS] for row in rows}
    assert Counter(d.split for d in documents) == {"train": 80, "dev": 10, "test": 10}
    assert sum(len(drop_singletons(d).mentions) for d in documents) == 23340
    assert all(d.tags is None and d.named_entities is None for d in documents)


def write_folder(root: Path, **splits: str) -> Path:
    fields = "\t_" * 8
    for name in ("a_brat", "b_brat"):
        head = f"#begin document ({name}); part 0\n"
        text = f"{head}{name}\t0\t0\tSir{fields}\t(0)\n\n#end document\n"
        write(root / f"coref/conll/{name}.conll", text)
    for split in ("train", "dev", "test"):
        write(root / f"splits/0/{split}.ids", splits.get(split, ""))
    return root


def test_split_comes_from_the_first_fold(tmp_path: Path) -> None:
    root = write_folder(tmp_path, train="b_brat.tsv\n", test="\na_brat\n")
    found = [(d.name, d.split) for d in read(root, Ledger())]
    assert found == [("a_brat", "test"), ("b_brat", "train")]


@pytest.mark.parametrize(("train", "message", "found", "bad", "excluded"), [
    ("b", "a_brat.conll: a_brat is not listed in splits/0: add it there", "b", "a", ""),
    ("abcd", "coref/conll: no file for c_brat, which splits/0 lists: add it, or name it in",
     "ab", "c", "d"),
])  # fmt: skip
def test_a_document_of_no_split_or_no_file_is_bad(tmp_path, train, message, found, bad, excluded):
    root = write_folder(tmp_path, train="".join(f"{one}_brat.tsv\n" for one in train))
    with refused(message):
        list(read(root, Ledger()))
    ledger = Ledger("skip", exclude=("d_*",))
    assert [d.name for d in read(root, ledger)] == [f"{one}_brat" for one in found]
    assert list(ledger.bad) == [f"{bad}_brat#0"]
    assert ledger.excluded == [f"{one}_brat" for one in excluded]


def test_a_folder_without_splits_is_an_error(tmp_path: Path) -> None:
    root = write_folder(tmp_path, train="b_brat.tsv\n")
    (root / "splits/0/dev.ids").unlink()
    with refused(r"dev.ids: No such file"):
        read(root, Ledger("skip"))
