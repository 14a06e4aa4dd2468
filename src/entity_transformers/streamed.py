"""Arrays that are longer than the memory, written part by part as one safetensors file, which
`artifacts.read_arrays` maps; and read one after the other.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from entity_transformers.artifacts import atomic, check, map_arrays

TYPES = {"uint8": "U8", "uint16": "U16", "float16": "F16", "int32": "I32", "int64": "I64"}
"""safetensors' names of the types that can be written, in its order, the last of which comes first
in a file.
"""
CHUNK = 1 << 20  # bytes that are copied at once


class ArrayWriter:
    """Named arrays [N, ...] of one of `TYPES` that grow, each in a nameless file of ``folder``
    until they are whole.

    metadata  the file's, as of `artifacts.write_arrays`
    """

    def __init__(self, folder: Path, files: ExitStack) -> None:
        self._folder, self._files = folder, files
        self._spools: dict[str, IO[bytes]] = {}
        self._types: dict[str, np.dtype[Any]] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}  # of a row
        self._rows: Counter[str] = Counter()
        self.metadata: Mapping[str, Any] = {}

    def append(self, arrays: Mapping[str, np.ndarray]) -> None:
        """More rows of each array, of the type and shape that it began with; another type raises
        TypeError, another shape ValueError.
        """
        for name, array in arrays.items():
            if name not in self._spools:
                if array.dtype.name not in TYPES or not array.dtype.isnative:
                    raise TypeError(f"{name}: {array.dtype}, expected one of {', '.join(TYPES)}")
                spool = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
                self._spools[name] = self._files.enter_context(spool)
                self._types[name], self._shapes[name] = array.dtype, array.shape[1:]
            if array.dtype != self._types[name]:
                raise TypeError(f"{name}: {array.dtype} after {self._types[name]}")
            if (row := array.shape[1:]) != self._shapes[name]:
                raise ValueError(f"{name}: rows of {row} after rows of {self._shapes[name]}")
            self._spools[name].write(np.ascontiguousarray(array).data)
            self._rows[name] += len(array)

    def write(self, path: Path) -> None:
        """The file, with the bytes that `artifacts.write_arrays` gives it."""
        order = sorted(self._spools, key=lambda name: (-self._rank(name), name))
        header: dict[str, Any] = {
            "__metadata__": {"json": json.dumps(self.metadata, ensure_ascii=False)}
        }
        end = 0
        for name in order:
            begin, end = end, end + self._spools[name].tell()
            kind, row = self._types[name], self._shapes[name]
            header[name] = {
                "dtype": TYPES[kind.name],
                "shape": [self._rows[name], *row],
                "data_offsets": [begin, end],
            }
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with path.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for name in order:
                self._spools[name].seek(0)
                shutil.copyfileobj(self._spools[name], file, CHUNK)

    def _rank(self, name: str) -> int:
        return list(TYPES).index(self._types[name].name)


@contextmanager
def arrays_writer(path: Path) -> Iterator[ArrayWriter]:
    """What appends to the arrays of ``path``; the file is there when the block ends well."""
    with atomic(path) as temporary, ExitStack() as files:
        writer = ArrayWriter(temporary.parent, files)
        yield writer
        writer.write(temporary)


class ArrayFile(Mapping[str, np.ndarray]):
    """Arrays of a file by name, as those of `read_arrays`, but mapped anew at each request,
    so that the pages of one that is no longer held take no room.
    """

    def __init__(self, path: Path) -> None:
        self._path = check(path)
        self._names = list(map_arrays(path)[0])

    def __getitem__(self, name: str) -> np.ndarray:
        return map_arrays(self._path)[0][name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
