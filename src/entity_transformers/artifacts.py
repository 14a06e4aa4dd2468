"""The only module that knows file formats: atomic writing and checked reading of JSON, JSON lines,
CSV and arrays.

The digests of a run's files are recorded in run.json beside them, and every reader here refuses a
file that no longer matches (`check`). Files without such a record are read unchecked.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import cache, partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from entity_transformers.provenance import file_digest

if TYPE_CHECKING:
    import numpy as np
    from tokenizers import Tokenizer

RECORD = "run.json"
"""The record of a run, in the folder of its files; ``files`` has the sha256 of each file."""
LARGEST, MOST_GROWTH, MOST_SECONDS = 100_000_000, 64, 0.1
"""The most bytes of a JSON file (the tokenizer.json of a tokenizer of 256,000 tokens has 34
million), the factor by which a tokenizer may lengthen a text, and the CPU seconds that one of its
patterns may take for 1,024 characters (those of known tokenizers take 0.001).
"""
MOST_TOKENS = 10_000_000
"""Upper bound on a tokenizer's token ids, since arrays are as long as the highest id."""
TYPES = {
    "U64": "<u8", "I64": "<i8", "F64": "<f8", "F32": "<f4", "U32": "<u4", "I32": "<i4",
    "F16": "<f2", "U16": "<u2", "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?",
}  # fmt: skip
"""Types of arrays by safetensors' names for them, in the order of its files."""
FORMULA = r"(?='*[=+\-@\t\r\n＝＋－＠])"
"""How a text begins that a spreadsheet would compute; as OWASP says, a quote is put before it."""
guard = partial(re.sub, rf"\A{FORMULA}(?![-+]?[\d.]+(e[-+]?\d+)?\Z)", "'")
unguard = partial(re.sub, rf"\A'{FORMULA}", "")
_written: ContextVar[set[Path] | None] = ContextVar("written", default=None)


@contextmanager
def recorded() -> Iterator[set[Path]]:
    """Yield a set of the absolute paths that are written inside the block (see `note_written`)."""
    written = set[Path]()
    token = _written.set(written)
    try:
        yield written
    finally:
        _written.reset(token)


def note_written(folder: Path) -> None:
    """Report the files of a folder as written, where a library and not `atomic` wrote them."""
    if (written := _written.get()) is not None:
        written.update(path.absolute() for path in folder.iterdir() if path.is_file())


def list_digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the current sha256 of these files of a folder."""
    return {name: file_digest(folder / name) for name in names}


def write_record(
    folder: Path, names: Iterable[str], facts: Mapping[str, Any] | None = None
) -> None:
    """Write the record of a folder: the ``facts``, and the current sha256 of these files."""
    write_json(folder / RECORD, {**(facts or {}), "files": list_digests(folder, names)})


def check(path: Path) -> Path:
    """Return ``path``; ValueError if the file does not match the record beside it, or is no regular
    file (reading a pipe or a device may never end).

    A file that no record names is not checked, nor is one that this command has just written.
    """
    written = _written.get() or ()
    if path.absolute() in written or not path.exists():
        return path
    if not path.is_file():
        raise ValueError(f"{path}: not a regular file: replace it with a regular file")
    expected = read_record(path.parent).get("files", {}).get(path.name)
    if expected is not None and (found := file_digest(path)) != expected:
        raise ValueError(
            f"{path}: sha256 {found[:12]}..., expected {expected[:12]}... ({RECORD} beside it): it"
            " was changed or damaged after it was written: restore it, or delete it and run the"
            " step that writes it again"
        )
    return path


def read_record(folder: Path) -> dict[str, Any]:
    """Return the record of the run whose files are in ``folder``, empty if there is none.
    ValueError for a damaged record, or for that of a run whose place is another folder.
    """
    path = folder / RECORD
    if not path.is_file():
        return {}
    record = _load_object(path)
    if not all(isinstance(record.get(key, {}), dict) for key in ("files", "values")):
        raise ValueError(f"{path}: damaged: delete it and run the step that writes it again")
    place = record.get("place", str(folder))
    parts = Path(place).parts
    moved = place != str(folder) and folder.resolve().parts[-len(parts) :] != parts
    if moved and not folder.is_absolute():
        raise ValueError(
            f"{path}: it belongs to the files of {place}: move them back there, or delete it and"
            " run the step that writes it again"
        )
    return record


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` that replaces it if the block succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
        if (written := _written.get()) is not None:
            written.add(path.absolute())
    except OSError as error:
        if error.errno and not error.filename:
            error.filename = str(path)  # a full disk's error names no file
        raise
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside ``path`` that takes its place if the block succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield temporary
        temporary.chmod(0o755)
        shutil.rmtree(path, ignore_errors=True)
        temporary.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write an object with sorted keys; NaN or infinity raises ValueError."""
    try:
        text = json.dumps(
            value,
            indent=2,
            sort_keys=True,
            ensure_ascii=False,
            allow_nan=False,
            default=lambda number: number.item(),  # a NumPy scalar
        )
    except ValueError as error:
        raise ValueError(
            f"{path.name}: {error}: a metrics file holds finite numbers only (use n = 0 and null"
            " where there is nothing)"
        ) from None
    write_text(path, text + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object, checked (`check`); ValueError with the file's name if it holds none."""
    return _load_object(check(path))


def _load_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(read_bounded(path))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON that can be read ({error})") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path}: holds a {type(value).__name__}, expected a JSON object")
    return value


def read_bounded(path: Path) -> str:
    """Read UTF-8 text; ValueError if this is no regular file or has more than `LARGEST` bytes."""
    if path.exists() and not path.is_file():
        raise ValueError("not a regular file: replace it with a regular file")
    if path.stat().st_size > LARGEST:
        raise ValueError(f"more than {LARGEST:,} bytes")
    return path.read_text(encoding="utf-8")


def write_json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write one object per line, and return their number."""
    count = 0
    with json_lines_writer(path) as write:
        for count, row in enumerate(rows, 1):  # noqa: B007
            write(row)
    return count


@contextmanager
def json_lines_writer(path: Path) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Yield a function that writes one object per line; the file appears if the block succeeds."""
    with atomic(path) as temporary, temporary.open("w", encoding="utf-8") as file:

        def write(row: Mapping[str, Any]) -> None:
            file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")

        yield write


def read_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON lines file; ValueError with the number of a line without one."""
    with check(path).open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                told = getattr(error, "msg", error)
                raise ValueError(
                    f"{path}, line {number}: not JSON ({told}): run the step that writes it again"
                ) from error


def write_csv(path: Path, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Write a table with a header; None is an empty cell, and texts are guarded (`guard`)."""
    with atomic(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            texts = {key: guard(cell) for key, cell in row.items() if isinstance(cell, str)}
            writer.writerow({**row, **texts})


def read_csv(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows that `write_csv` wrote, checked (`check`), with every cell as text."""
    with check(path).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if None in row or None in row.values():
                raise ValueError(f"{path}: a row is truncated: run the step that writes it again")
            yield {name: unguard(cell) for name, cell in row.items()}


def write_arrays(
    path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any] | None = None
) -> None:
    """Write named arrays and ``metadata`` as one safetensors file."""
    write_array_parts(path, [arrays], metadata or {})


def write_array_parts(
    path: Path, parts: Iterable[Mapping[str, np.ndarray]], metadata: Mapping[str, Any]
) -> None:
    """Write arrays [N, ...] of the types in `TYPES` that come in parts of some rows each, as
    safetensors would, byte for byte, in the memory of one part. Until the arrays are complete, each
    is kept in an unnamed file beside ``path``. ValueError for rows of another type or shape than
    those before.
    """
    import numpy as np

    types = {np.dtype(kind): name for name, kind in TYPES.items()}
    first: dict[str, np.ndarray] = {}
    spools: dict[str, IO[bytes]] = {}
    rows = Counter[str]()
    with atomic(path) as temporary, ExitStack() as files:
        for part in parts:
            for name, array in part.items():
                empty = array[:0]
                known = first.setdefault(name, empty)
                like = (empty.dtype, empty.shape) == (known.dtype, known.shape)
                if not like or empty.dtype not in types:
                    raise ValueError(f"{name}: rows {empty.dtype} {array.shape} after {known!r}")
                if name not in spools:
                    spool = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115
                    spools[name] = files.enter_context(spool)
                spools[name].write(np.ascontiguousarray(array).data)
                rows[name] += len(array)
        order = sorted(first, key=lambda name: ([*types].index(first[name].dtype), name))
        # one JSON text, since safetensors writes several entries in random order
        described = {"json": json.dumps(metadata, ensure_ascii=False)}
        header: dict[str, Any] = {"__metadata__": described}
        end = 0
        for name in order:
            begin, end = end, end + spools[name].tell()
            header[name] = {
                "dtype": types[first[name].dtype],
                "shape": [rows[name], *first[name].shape[1:]],
                "data_offsets": [begin, end],
            }
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with temporary.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for name in order:
                spools[name].seek(0)
                shutil.copyfileobj(spools[name], file, 1 << 20)


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return arrays, read-only views of the file, and metadata; ValueError for a damaged file."""
    import numpy as np

    check(path)
    try:
        raw = np.memmap(path, dtype=np.uint8, mode="r")
        body = 8 + int.from_bytes(bytes(raw[:8]), "little")
        header = json.loads(bytes(raw[8:body]))
        metadata = json.loads(header.pop("__metadata__", {}).get("json", "{}"))
        arrays = {}
        for name, entry in header.items():
            start, end = entry["data_offsets"]
            view = raw[body + start : body + end].view(TYPES[entry["dtype"]])
            arrays[name] = view.reshape(entry["shape"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path}: empty, truncated or not a safetensors file ({error}): run the step that"
            " writes it again"
        ) from error
    return arrays, metadata


def read_tokenizer(path: Path) -> Tokenizer:
    """Return the tokenizer of a tokenizer.json. ValueError with the file's name if it can't be
    read, is larger than `LARGEST`, has ids of `MOST_TOKENS` or more, could make a text more than
    `MOST_GROWTH` times longer, or has a pattern that may never end.
    """
    from tokenizers import Tokenizer

    check(path)
    try:
        text = read_bounded(path)
        with panics_told(str(path)):
            found = encode_all(Tokenizer.from_str(text))
        patterns = list[str]()
        parts = json.loads(text, object_hook=partial(_note_pattern, patterns))
        if (most := max(found.get_vocab().values(), default=0)) >= MOST_TOKENS:
            raise ValueError(f"a token has the number {most}")
        growth = max(find_growth(parts[key]) for key in ("normalizer", "pre_tokenizer", "decoder"))
    except OSError:
        raise
    except Exception as error:  # tokenizers raises no narrower class
        raise ValueError(f"{path}: not a tokenizer ({error}): run step corpus again") from error
    if growth > MOST_GROWTH:
        raise ValueError(
            f"{path}: its replacements can make a text up to {growth:.3g} times longer, expected"
            f" at most {MOST_GROWTH} times: use another tokenizer"
        )
    if slow := next(filter(backtracks, patterns), ""):
        raise ValueError(
            f"{path}: its pattern {slow[:80]!r} backtracks for too long: use another tokenizer"
        )
    return found


def _note_pattern(patterns: list[str], part: dict[str, Any]) -> dict[str, Any]:
    if isinstance(part.get("Regex"), str):  # in a vocabulary it is a token with its id
        patterns.append(part["Regex"])
    return part


@cache
def backtracks(pattern: str) -> bool:
    """Tell whether a regular expression takes more than `MOST_SECONDS` for a text, or panics. It is
    tried on repetitions of each kind of character and each piece of the pattern, ending in what a
    match may need but hardly accepts. They grow, so that the first slow one is the last.
    """
    from tokenizers import Regex, pre_tokenizers

    split = pre_tokenizers.Split(Regex(pattern), "isolated").pre_tokenize_str
    named = re.findall(r"[^\W_]+|[\W_]", pattern[:10_000])
    for unit in dict.fromkeys(["a", "A", "é", "一", "1", ".", " ", "\n", *named]):
        for size in (64, 128, 256, 512, 1024):
            text = (unit * size)[:size] + "\0\n" + "".join(named)
            started = time.thread_time()
            with suppress(ValueError), panics_told(pattern):
                split(text)
                if time.thread_time() - started < MOST_SECONDS:
                    continue
            return True
    return False


def find_growth(part: Any) -> float:
    """Return the largest factor by which a part of tokenizer.json can lengthen a text."""
    if isinstance(part, list):
        return math.prod(map(find_growth, part), start=1.0)
    if not isinstance(part, dict):
        return 1.0
    own = 2.0 if part.get("type") == "ByteLevel" else 1.0
    if part.get("type") == "Replace":
        content, literal = len(part["content"]), part["pattern"].get("String")
        own = max(1.0, content / len(literal)) if literal else content + 1.0
    elif part.get("type") == "Prepend":
        own = len(part["prepend"]) + 1.0
    inner = (value for key, value in part.items() if key != "pattern")
    return own * math.prod(map(find_growth, inner), start=1.0)


@contextmanager
def panics_told(where: str) -> Iterator[None]:
    """Turn panics and errors of tokenizers' Rust code inside the block into ValueError. A panic
    (say, of a pattern that backtracks for ever) is no Exception, an error is a plain one.
    """
    try:
        yield
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"{where}: can't be encoded ({error}): use another tokenizer") from None


def encode_all(tokenizer: Tokenizer) -> Tokenizer:
    """Return the tokenizer, or a copy, without truncation, padding and dropout."""
    dropout = getattr(tokenizer.model, "dropout", None)
    if tokenizer.truncation or tokenizer.padding or dropout:
        tokenizer = type(tokenizer).from_str(tokenizer.to_str())
        tokenizer.no_truncation()
        tokenizer.no_padding()
    if dropout:
        tokenizer.model.dropout = None
    return tokenizer


def copy_file(source: Path, target: Path) -> None:
    """Copy a file atomically."""
    write_with(target, lambda temporary: shutil.copyfile(source, temporary))


def write_with(path: Path, writer: Callable[[Path], Any]) -> None:
    """Let a library that wants a file name write atomically; ``writer`` gets a temporary path.

    Whatever it raises (each library has its own error for a full disk) becomes an OSError that
    names the file.
    """
    with atomic(path) as temporary, named_errors(path):
        writer(temporary)


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Turn whatever a library raises while it writes ``path`` into an OSError that names it."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{path}: can't be written ({error})") from error
