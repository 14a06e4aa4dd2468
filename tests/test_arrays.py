"""Arrays written part by part are the file that is written at once; memory holds a part."""

import tracemalloc
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from entity_transformers.artifacts import TYPES, arrays_writer, read_arrays, write_arrays


def test_memory_does_not_grow_with_the_arrays(tmp_path: Path) -> None:
    def peak(parts: int) -> int:
        tracemalloc.start()
        with arrays_writer(tmp_path / "long.safetensors") as writer:
            for number in range(parts):
                writer.append({"tokens": np.full(50_000, number, np.int32)})
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    assert peak(160) < 1.2 * peak(40)
    arrays, _ = read_arrays(tmp_path / "long.safetensors")
    assert np.array_equal(arrays["tokens"], np.repeat(np.arange(40), 50_000))


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_rows_of_every_type_give_the_bytes_of_arrays_written_at_once(tmp_path, rows):
    generator = np.random.default_rng(rows)
    shapes = {"b": (3,), "a": (2, 3), "c": (), "none": (0,)}
    arrays = {
        f"{name}_{kind}": generator.integers(0, 99, (rows, *shapes[name])).astype(kind)
        for name, kind in product(shapes, TYPES)
    }
    write_arrays(tmp_path / "once.safetensors", arrays, {"who": "é"})
    with arrays_writer(tmp_path / "parts.safetensors") as writer:
        writer.metadata = {"who": "é"}
        for piece in (slice(0, 2), slice(2, 2), slice(2, None)):
            writer.append({name: array[piece] for name, array in arrays.items()})
    once, parts = (tmp_path / f"{name}.safetensors" for name in ("once", "parts"))
    assert parts.read_bytes() == once.read_bytes()


@pytest.mark.parametrize(("first", "then", "message"), [
    (np.zeros((1, 3), np.int32), np.zeros((1, 2), np.int32), r"x: rows int32 \(1, 2\) after"),
    (np.zeros(3, np.int32), np.zeros(3, np.int64), "x: int64 after int32"),
    (np.zeros(3, np.float32), np.zeros(3, np.float32), r"x: rows float32"),
])  # fmt: skip
def test_another_shape_or_type_is_refused_and_leaves_nothing(tmp_path, first, then, message):
    path, refused = tmp_path / "a.safetensors", pytest.raises(ValueError, match=message)
    with refused, arrays_writer(path) as writer:
        writer.append({"x": first})
        writer.append({"x": then})
    assert not list(tmp_path.iterdir())
