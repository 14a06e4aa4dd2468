"""Arrays of an aligned corpus as small as they get on the way: `shrink` and `grow` are inverses, to
the byte.
"""

from __future__ import annotations

import io
import json
import lzma
from pathlib import Path

import numpy as np

from entity_transformers.artifacts import read_arrays, write_arrays

SUFFIX = ".npz.xz"
SIZES = (np.int8, np.int16, np.int32)


def shrink(source: Path, target: Path) -> None:
    """Write a file of arrays as differences in their smallest types, compressed; what has no order
    (tokens, bytes) as it is.
    """
    arrays, metadata = read_arrays(source)
    packed: dict[str, np.ndarray] = {}
    kinds = {}
    for name, array in arrays.items():
        steps = np.diff(array.astype(np.int64), prepend=0)
        plain = array.astype(np.int64)
        # a column of runs and counts is smaller as its steps, one of ids as it stands
        ordered = int((steps != 0).sum()) < len(plain) // 2 or name in ("words", "documents")
        values = steps if ordered else plain
        kinds[name] = {"type": str(array.dtype), "steps": ordered}
        packed[name] = _smallest(values)
    facts = json.dumps({"kinds": kinds, "metadata": metadata}, ensure_ascii=False)
    packed["facts"] = np.frombuffer(facts.encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **packed)
    target.write_bytes(lzma.compress(buffer.getvalue(), preset=1))


def grow(source: Path, target: Path) -> None:
    """Write again what `shrink` read."""
    with np.load(io.BytesIO(lzma.decompress(source.read_bytes()))) as packed:
        facts = json.loads(packed["facts"].tobytes())
        arrays = {}
        for name, kind in facts["kinds"].items():
            values = packed[name].astype(np.int64)
            values = np.cumsum(values) if kind["steps"] else values
            arrays[name] = values.astype(kind["type"])
    write_arrays(target, arrays, facts["metadata"])


def _smallest(values: np.ndarray) -> np.ndarray:
    """The values in the smallest type that holds them all; ids of a large vocabulary in uint16."""
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    if low >= 0 and 127 < high < 65536:
        return values.astype(np.uint8 if high < 256 else np.uint16)
    for size in SIZES:
        if np.iinfo(size).min <= low and high <= np.iinfo(size).max:
            return values.astype(size)
    return values
