"""extract-embeddings of a small trained model, in parts of any size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from tiny import tiny_params
from written import write_documents

from entity_transformers.artifacts import read_arrays, write_arrays, write_json_lines
from entity_transformers.cli import main
from entity_transformers.corpus.alignment import align_split, learn_tokenizer
from entity_transformers.corpus.document import to_row

ROWS = ("train", "dev", "entity", "group")
PAIR = ("words", "mentions")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus without a test split, and a GPT2E that was trained on it for two steps."""
    home = tmp_path_factory.mktemp("study")
    values = tiny_params(steps=2, warmup_steps=1, validate_every=2, window=32).model_dump(
        mode="json"
    )
    values["models"] = {"gpt2e": {"kind": "gpt2e", "labels": "gold"}}
    (home / "params.yaml").write_text(yaml.safe_dump(values))
    documents = write_documents(16, longest=50, mentions=8)
    corpus = home / "corpus"
    corpus.mkdir()
    tokenizer = learn_tokenizer(documents, 300, "natural")
    tokenizer.save(str(corpus / "tokenizer.json"))
    splits = {"train": documents[:8], "dev": documents[8:], "test": [], "test2": []}
    for split, part in splits.items():
        aligned = align_split(part, tokenizer, split=split, policy="outermost", spacing="natural")
        write_arrays(corpus / f"{split}.safetensors", *aligned.arrays())
        write_json_lines(corpus / f"{split}.jsonl", map(to_row, part))
    run(home, "train-lm", "--work", str(home / "work"), "--output", str(home / "lm"))
    return home


def run(study: Path, command: str, *more: str) -> None:
    main([
        command, "--params", str(study / "params.yaml"), "--corpus", str(study / "corpus"),
        "--model", "gpt2e", "--seed", "1", *more,
    ])  # fmt: skip


def extract(study: Path, name: str, *more: str) -> dict[str, np.ndarray]:
    """The arrays of both files."""
    output = study / name
    run(study, "extract-embeddings", "--lm", str(study / "lm"), "--output", str(output), *more)
    return {
        key: array
        for file in PAIR
        for key, array in read_arrays(output / f"{file}.safetensors")[0].items()
    }


@pytest.mark.parametrize("context", ["word", "sentence"])
@pytest.mark.parametrize("most", [1, 60])
def test_parts_of_documents_give_the_vectors_of_the_whole(
    study: Path, monkeypatch: pytest.MonkeyPatch, context: str, most: int
) -> None:
    how = ("--embeddings.ner_context", context)
    whole = extract(study, f"whole-{context}", *how)
    monkeypatch.setattr("entity_transformers.cli.embeddings.PART", most)
    parts = extract(study, f"{most}-{context}", *how)
    assert parts.keys() == whole.keys() > {*ROWS, "vectors", "memory_on"}
    assert len(whole["entity"]) > 20
    for name, array in whole.items():
        assert (parts[name].dtype, parts[name].shape) == (array.dtype, array.shape), name
        if name in ROWS:
            np.testing.assert_array_equal(parts[name], array, err_msg=name)
        else:
            np.testing.assert_allclose(
                parts[name].astype(float), array.astype(float), rtol=2e-3, atol=2e-3, err_msg=name
            )


def test_splits_without_documents_have_no_mentions(study: Path) -> None:
    """The file holds all the arrays that score-similarity reads, without a row."""
    found = extract(study, "empty", "--embeddings.splits", "[test]")
    assert len(found["entity"]) == len(found["memory_on"]) == 0
    assert found["word_on"].shape[1] == found["vectors"].shape[1]
