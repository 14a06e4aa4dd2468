"""Arrays that are longer than the memory, written part by part as one safetensors file, which
`artifacts.read_arrays` maps.
"""

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from entity_transformers.artifacts import atomic

TYPES = {"int64": "I64", "int32": "I32", "float16": "F16", "uint16": "U16", "uint8": "U8"}
"""safetensors' names of the types that can be written, in the order that it gives them."""
CHUNK = 1 << 20  # bytes that are copied at once


class ArrayWriter:
    """Named arrays [N, ...] of one of `TYPES` that grow, each in a nameless file of ``folder``
    until they are whole.

    metadata  the file's, as of `artifacts.write_arrays`
    """

    def __init__(self, folder: Path, files: ExitStack) -> None:
        self._folder, self._files = folder, files
        self._spools: dict[str, IO[bytes]] = {}
        self._first: dict[str, np.ndarray] = {}
        self._rows: Counter[str] = Counter()
        self.metadata: Mapping[str, Any] = {}

    def append(self, arrays: Mapping[str, np.ndarray]) -> None:
        """More rows of each array; ValueError where their type or shape is not that of the rows
        before, or the type is none of `TYPES`.
        """
        for name, array in arrays.items():
            first = self._first.setdefault(name, array[:0])
            if array.dtype.name not in TYPES or array[:0].shape != first.shape:
                raise ValueError(f"{name}: rows {array.dtype} {array.shape} after {first.shape}")
            if array.dtype != first.dtype or not array.dtype.isnative:
                raise ValueError(f"{name}: {array.dtype} after {first.dtype}")
            if name not in self._spools:
                spool = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
                self._spools[name] = self._files.enter_context(spool)
            self._spools[name].write(np.ascontiguousarray(array).data)
            self._rows[name] += len(array)

    def write(self, path: Path) -> None:
        """The file, with the bytes that `artifacts.write_arrays` gives it."""
        types = {name: first.dtype for name, first in self._first.items()}
        order = sorted(types, key=lambda name: (list(TYPES).index(types[name].name), name))
        metadata = {"json": json.dumps(self.metadata, ensure_ascii=False)}
        header: dict[str, Any] = {"__metadata__": metadata}
        end = 0
        for name in order:
            begin, end = end, end + self._spools[name].tell()
            header[name] = {
                "dtype": TYPES[types[name].name],
                "shape": [self._rows[name], *self._first[name].shape[1:]],
                "data_offsets": [begin, end],
            }
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with path.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for name in order:
                self._spools[name].seek(0)
                shutil.copyfileobj(self._spools[name], file, CHUNK)


@contextmanager
def arrays_writer(path: Path) -> Iterator[ArrayWriter]:
    """What appends to the arrays of ``path``; the file is there when the block ends well."""
    with atomic(path) as temporary, ExitStack() as files:
        writer = ArrayWriter(temporary.parent, files)
        yield writer
        writer.write(temporary)
