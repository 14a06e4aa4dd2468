"""A split aligned in parts is the split aligned at once, and memory holds a part of it."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from entity_transformers.artifacts import read_arrays, write_arrays, write_json_lines
from entity_transformers.corpus import prepare
from entity_transformers.corpus.alignment import (
    align_split,
    learn_tokenizer,
    split_parts,
    summarise,
)
from entity_transformers.corpus.document import SPLITS, Document, Mention, to_row
from entity_transformers.resolve.layers import add_layer
from entity_transformers.resolve.registry import make_resolver
from entity_transformers.streamed import TYPES, arrays_writer
from entity_transformers.study.params import load

ROOT = Path(__file__).resolve().parents[2]
WORDS = 'Ada met Bob in Málaga , 会 wrote "x\\y" and slept ; Mr. Byron smiled <|endoftext|>'.split()
HOW = {"policy": "outermost", "spacing": "natural"}


def make_document(number: int, split: str, length: int) -> Document:
    """Random words and mentions; tags are others from document to document, and none in some."""
    draw = random.Random(f"{split}/{number}")
    tags = [f"T{draw.randrange(number, number + 5)}" for _ in range(length)]
    spans = ((i, min(length, i + draw.randint(1, 3))) for i in range(0, length, 5))
    return Document(
        name=f'{split} "{number}"\n\\é',
        part=0,
        split=split,
        genre="",
        words=tuple(draw.choices(WORDS, k=length)),
        sentence_starts=(0,) if length else (),
        mentions=tuple(Mention(a, b, draw.randint(1, 4)) for a, b in spans),
        tags=None if number % 4 == 2 else tuple(tags),
    )


@pytest.fixture
def splits() -> dict[str, list[Document]]:
    """The last split has no document; in dev no tag is known."""
    lengths = {"train": [30, 1, 200, 40, 7, 7, 60], "dev": [], "test": [9], "test2": []}
    made = {
        split: [make_document(i, split, length) for i, length in enumerate(lengths[split])]
        for split in SPLITS
    }
    return made | {"dev": [make_document(2, "dev", 20)]}


@pytest.mark.parametrize("words", [1, 50, 10**6])
def test_parts_give_the_bytes_of_the_whole(
    splits: dict[str, list[Document]], words: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolvers = ["names", "names-causal"]
    params = load(ROOT / "studies/sample.yaml", {"corpus.resolvers": resolvers})
    (tmp_path / "parts").mkdir()
    for split, documents in splits.items():
        write_json_lines(tmp_path / "parts" / f"{split}.jsonl", map(to_row, documents))
    tokenizer = learn_tokenizer(splits["train"], 300, "natural")
    monkeypatch.setattr(prepare, "split_parts", partial(split_parts, words=words))
    counted = dict(prepare.align(params, tokenizer, tmp_path / "parts"))
    for split, documents in splits.items():
        whole = align_split(documents, tokenizer, split=split, **HOW)  # type: ignore[arg-type]
        counts = summarise(whole)
        for name in resolvers:
            whole, _ = add_layer(whole, documents, make_resolver(name), "outermost")
        write_arrays(tmp_path / f"{split}.safetensors", *whole.arrays())
        expected = (tmp_path / f"{split}.safetensors").read_bytes()
        assert (tmp_path / "parts" / f"{split}.safetensors").read_bytes() == expected
        assert counted[split] == counts


def test_parts_are_whole_documents_of_at_most_so_many_words(
    splits: dict[str, list[Document]],
) -> None:
    parts = list(split_parts(splits["train"], 50))
    assert [[len(d.words) for d in part] for part in parts] == [[30, 1], [200], [40, 7], [7], [60]]
    assert list(split_parts([])) == [[]]


def test_memory_does_not_grow_with_the_arrays(tmp_path: Path) -> None:
    def peak(parts: int) -> int:
        def pieces() -> Iterator[np.ndarray]:
            for number in range(parts):
                yield np.full(50_000, number, np.uint16)

        tracemalloc.start()
        with arrays_writer(tmp_path / "long.safetensors") as writer:
            for piece in pieces():
                writer.append({"tags": piece, "tokens": piece.astype(np.int32)})
            writer.tables["tags"] = np.arange(2**16, dtype=np.uint16)[::-1].copy()
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    assert peak(160) < 1.2 * peak(40)
    arrays, _ = read_arrays(tmp_path / "long.safetensors")
    numbers = np.repeat(np.arange(40), 50_000)
    assert np.array_equal(arrays["tokens"], numbers)
    assert np.array_equal(arrays["tags"], 2**16 - 1 - numbers)


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_rows_of_every_type_give_the_bytes_of_arrays_written_at_once(tmp_path, rows: int) -> None:
    generator = np.random.default_rng(rows)
    shapes = {"b": (3,), "a": (2, 3), "c": (), "none": (0,)}
    arrays = {
        f"{name}_{kind}": generator.integers(0, 99, (rows, *shape)).astype(kind)
        for name, shape in shapes.items()
        for kind in TYPES
    }
    write_arrays(tmp_path / "once.safetensors", arrays, {"who": "é"})
    with arrays_writer(tmp_path / "parts.safetensors") as writer:
        writer.metadata = {"who": "é"}
        for piece in (slice(0, 2), slice(2, 2), slice(2, None)):
            writer.append({name: array[piece] for name, array in arrays.items()})
    once, parts = (tmp_path / f"{name}.safetensors" for name in ("once", "parts"))
    assert parts.read_bytes() == once.read_bytes()


def test_rows_of_another_shape_are_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match=r"x: rows of \(2,\) after rows of \(3,\)"),
        arrays_writer(tmp_path / "a.safetensors") as writer,
    ):
        writer.append({"x": np.zeros((1, 3), np.int32)})
        writer.append({"x": np.zeros((1, 2), np.int32)})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["float32", ">i4", "bool"])
def test_a_type_that_cannot_be_written_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    with (
        pytest.raises(TypeError, match=r"x: .*, expected one of uint8, uint16, float16, int32"),
        arrays_writer(tmp_path / "a.safetensors") as writer,
    ):
        writer.append({"x": np.zeros(3, kind)})
    assert not list(tmp_path.iterdir())


def test_an_array_of_another_type_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(TypeError, match="tokens: int64 after int32"),
        arrays_writer(tmp_path / "a.safetensors") as writer,
    ):
        writer.append({"tokens": np.zeros(3, np.int32)})
        writer.append({"tokens": np.zeros(3, np.int64)})
    assert not list(tmp_path.iterdir())
