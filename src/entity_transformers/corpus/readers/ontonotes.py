"""CoNLL-2012 / OntoNotes 5.0: files of rows (`conll2012`; WinoBias too), or the hub's parquet form
(`coref-data/conll2012_raw`), which is turned back into the rows that it was made from.

A parquet row is a document, its sentences a list of records: part_id, words, pos_tags and
named_entities (texts or label numbers, the latter BIO) and coref_spans ([chain, first, last], both
inclusive, within the sentence). Chains are numbered per part.
"""

import json
import logging
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path, PurePath
from typing import Any

from entity_transformers.corpus.conll2012 import ONTONOTES_TYPES, read_rows
from entity_transformers.corpus.document import CorpusError, Document, Split
from entity_transformers.corpus.files import (
    SPLIT_NAMES,
    find_files,
    open_lines,
    shown,
    split_from_path,
    split_name,
)
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.readers import Reader, recognise_files
from entity_transformers.corpus.sources import Dataset, DownloadError

log = logging.getLogger(__name__)
REPOSITORY = "coref-data/conll2012_raw"
FOLDER = "english_v4"
_LANGUAGES = frozenset(("english", "chinese", "arabic"))
_PATTERNS = ("*_gold_conll", "*_conll", "*.conll", "*.parquet")
"""Kinds of files, the best first; only the first kind present is read."""
TAGS = [
    "XX", "``", "$", "''", ",", "-LRB-", "-RRB-", ".", ":", "ADD", "AFX", "CC", "CD", "DT", "EX",
    "FW", "HYPH", "IN", "JJ", "JJR", "JJS",
    "LS", "MD", "NFP", "NN", "NNP", "NNPS", "NNS", "PDT", "POS", "PRP", "PRP$", "RB", "RBR", "RBS",
    "RP", "SYM", "TO", "UH", "VB", "VBD",
    "VBG", "VBN", "VBP", "VBZ", "WDT", "WP", "WP$", "WRB",
]  # fmt: skip
LABELS = ["O", *(f"{prefix}-{label}" for label in ONTONOTES_TYPES for prefix in "BI")]
"""What label numbers mean if the file does not say: the order on the data set's card."""


def read(path: Path, ledger: Ledger) -> Iterator[Document]:
    """Yield the documents of a file, or of a folder's best kind of files, sorted by path."""
    files = find_rows(path, ledger)
    return (document for file, split in files for document in _read_file(file, split, ledger))


def _read_file(file: Path, split: Split, ledger: Ledger) -> Iterator[Document]:
    if file.suffix == ".parquet":
        return read_parquet(file, split, ledger)
    return read_rows(open_lines(file), str(file), split, ledger)


def find_rows(root: Path, ledger: Ledger) -> list[tuple[Path, Split]]:
    """Find the files of CoNLL-2012 rows (or their parquet form) at or below ``root``, sorted, each
    with its split.

    Gold files are preferred to automatic ones, English to other languages, version 4 (with version
    9's test set) to version 12, which has the same texts; the ledger counts the files passed over.
    CorpusError if nothing is left.
    """
    if root.is_file():
        return [(root, split_from_path(PurePath(root.name)))]
    kinds = [find_files(root, (pattern, f"{pattern}.gz")) for pattern in _PATTERNS]
    files = next(filter(None, kinds), [])
    folders = {
        path: {word for name in path.relative_to(root).parts[:-1] for word in split_name(name)}
        for path in files
    }
    english = [path for path in files if not folders[path] & _LANGUAGES - {"english"}]
    older = any("v4" in folders[path] for path in english)
    chosen = [path for path in english if not (older and "v12" in folders[path])]
    if not chosen:
        hint = "run skeleton2conll first" if find_files(root, ("*_skel",)) else "in English"
        raise CorpusError(
            f"{root}: no file matches {', '.join(_PATTERNS)} ({hint}): give the folder of a"
            " CoNLL-2012 release (corpus.path)"
        )
    ledger.counts["files_of_other_kinds"] += len(set().union(*kinds).difference(files))
    ledger.counts["files_in_other_languages"] += len(files) - len(english)
    ledger.counts["files_of_other_versions"] += len(english) - len(chosen)
    above = root.name if root.name in SPLIT_NAMES else "."
    return [(path, split_from_path(PurePath(above) / path.relative_to(root))) for path in chosen]


def read_parquet(path: Path, split: str, ledger: Ledger) -> Iterator[Document]:
    """Yield the documents of one parquet file, part by part; a bad one is raised or recorded."""
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path, columns=["document_id", "sentences"])
        rows = table.to_pylist()
        names = _label_names(table.schema.metadata or {})
    except (pyarrow.ArrowException, OSError, ValueError, KeyError, MemoryError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        fault = f"{path}: not a parquet file of conll2012_raw ({reason[:120]}): fetch it again"
        ledger.reject(str(path), CorpusError(fault))
        return
    if not rows:
        ledger.reject(str(path), CorpusError(f"{path}: no document in this file"))
    for row in rows:
        source = f"{path}, document {shown(row['document_id'])}"
        try:
            lines = list(_write_rows(row, names))
        except (TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
            fault = f"{source}: not in the format of conll2012_raw ({shown(str(error))})"
            ledger.reject(source, CorpusError(fault))
        else:
            yield from read_rows(lines, source, split, ledger)


def _write_rows(row: Mapping[str, Any], names: tuple[list[str], list[str]]) -> Iterator[str]:
    """Yield the lines of CoNLL-2012 that say the same as a parquet row."""
    name = row["document_id"]
    for part, sentences in groupby(row["sentences"], key=lambda sentence: sentence["part_id"]):
        yield f"#begin document ({name}); part {part}\n"
        for sentence in sentences:
            words = sentence["words"]
            tags, labels = (
                [label if isinstance(label, str) else known[label] for label in sentence[key]]
                for key, known in zip(("pos_tags", "named_entities"), names, strict=True)
            )
            chains: dict[int, list[str]] = defaultdict(list)
            for chain, first, last in sentence["coref_spans"] or []:
                if not 0 <= first <= last < len(words):
                    raise ValueError(f"coref_spans: {[chain, first, last]} in {len(words)} words")
                chains[first].append(f"({chain})" if first == last else f"({chain}")
                if last > first:
                    chains[last].append(f"{chain})")
            entities = _bracket(labels)
            for i, (word, tag, entity) in enumerate(zip(words, tags, entities, strict=True)):
                cell = "|".join(chains[i]) or "-"
                yield "\t".join([name, str(part), str(i), word, tag, *"*----", entity, cell]) + "\n"
            yield "\n"
        yield "#end document\n"


def _bracket(labels: Sequence[str]) -> Iterator[str]:
    """Write B-ORG, I-ORG as (ORG*, *) and so on; ValueError for an I- without its B-."""
    for before, label, after in zip(["O", *labels], labels, [*labels[1:], "O"], strict=False):
        if label[0] == "I" and before[2:] != label[2:]:
            raise ValueError(f"{label} after {before}: is the label order different?")
        opens = f"({label[2:]}" if label[0] == "B" else ""
        closes = label != "O" and after[0] != "I"
        yield opens + "*" + ")" * closes


def _label_names(metadata: Mapping[bytes, bytes]) -> tuple[list[str], list[str]]:
    """Return the names of tags and entities by number, from metadata of the library datasets."""
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))
    except (ValueError, RecursionError):
        features = {}
    tags, labels = (_find_names(features, key) for key in ("pos_tags", "named_entities"))
    return tags or TAGS, labels or LABELS


def _find_names(features: Any, key: str) -> list[str] | None:
    """Find the first list ``names`` below ``key``, however deep: versions of datasets differ."""
    if isinstance(features, dict):
        if key in features:
            found = features[key]
            return found if key == "names" else _find_names(found, "names")
        features = list(features.values())
    if isinstance(features, list):
        return next((found for one in features if (found := _find_names(one, key))), None)
    return None


def fetch(cache: Path, *, revision: str | None, offline: bool) -> tuple[Path, str]:
    """Download the hub's copy of English CoNLL-2012; return its folder, whose name is the commit,
    and its origin. DownloadError, in one line, if the hub, the network or the licence prevents it.
    """
    import huggingface_hub

    try:
        folder = huggingface_hub.snapshot_download(
            REPOSITORY,
            repo_type="dataset",
            allow_patterns=[f"{FOLDER}/*"],
            revision=revision,
            cache_dir=cache / "hub",
            local_files_only=offline,
        )
        if not any(Path(folder).glob(f"{FOLDER}/*.parquet")):
            raise FileNotFoundError(f"no {FOLDER}/*.parquet in it")
    # the hub's transports (httpx, hf_xet, ...) vary by version, each with its own errors
    except Exception as error:
        raise DownloadError(
            "The corpus of this study, CoNLL-2012 (OntoNotes 5.0), is missing: corpus.path is not"
            f" set, and the hub's {REPOSITORY} is not available ({type(error).__name__}:"
            f" {shown(str(error), 200)}). Either log in to the hub (hf auth login), agree to the"
            f" terms on https://huggingface.co/datasets/{REPOSITORY} and run this again; or, with"
            " the LDC's licence for OntoNotes 5.0 (LDC2013T19, free of charge), set corpus.path to"
            " your folder of *_gold_conll files. The studies ontogum and sample need neither."
        ) from None
    commit = Path(folder).name
    if revision is None:
        log.warning("read the hub's newest CoNLL-2012: set corpus.revision to %s to pin it", commit)
    return Path(folder), f"hub {REPOSITORY}, commit {commit}"


READER = Reader(
    name="ontonotes",
    read=read,
    recognise=partial(
        recognise_files,
        patterns=(*_PATTERNS, *(f"{one}.gz" for one in _PATTERNS), "*_skel", "*_skel.gz"),
        begins=re.compile("#begin document").match,
        why="it begins with #begin document",
    ),
    data=(
        Dataset(
            "ontonotes",
            folder="conll-2012",
            find=lambda root: [file for file, _ in find_rows(root, Ledger())],
            fetch=fetch,
        ),
    ),
)
