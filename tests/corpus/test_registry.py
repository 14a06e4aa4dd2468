"""The formats that are discovered, and what importing them loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from refused import refused

from entity_transformers.corpus import readers
from entity_transformers.corpus.document import SPLITS
from entity_transformers.corpus.download import locate


def test_the_formats_of_a_study_and_what_they_have(tmp_path: Path) -> None:
    assert readers.names() == ("jsonl", "litbank", "ontogum", "ontonotes", "sample", "text")
    assert set(readers.registry()) == {*readers.names(), "lambada"}
    assert {name for name in readers.registry() if "test2" in readers.find_reader(name).splits} == {
        "jsonl",
        "ontogum",
    }
    assert [name for name, found in readers.registry().items() if found.needs_path] == ["jsonl"]
    for reader in readers.registry().values():
        assert set(reader.splits) <= set(SPLITS)
        assert list(reader.splits) == [split for split in SPLITS if split in reader.splits]
    with refused(r"corpus.format is 'conll', expected one of jsonl"):
        readers.find_reader("conll")
    with refused(r"jsonl: nothing to download, .*: give a local path"):
        locate("jsonl", None, tmp_path)


def test_asking_for_the_formats_loads_nothing_large() -> None:
    """params.yaml is checked against them wherever it is read, in the Snakefile too."""
    heavy = "torch pyarrow numpy transformers tokenizers scipy huggingface_hub requests pooch tqdm"
    script = (
        "import sys; from entity_transformers.corpus import readers; readers.names();"
        f" print(sorted(set({heavy.split()}) & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=280
    )
    assert found.stdout.strip() == "[]"
