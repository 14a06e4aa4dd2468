"""CoNLL-2012 in the hub's parquet form (`coref-data/conll2012_raw`), turned back into the rows that
it was made from.

A row is a document, its sentences a list of records: part_id, words, pos_tags and named_entities
(texts or label numbers, the latter BIO) and coref_spans ([chain, first, last], both inclusive,
within the sentence). Chains are numbered per part.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from entity_transformers.corpus.conll2012 import ONTONOTES_TYPES, read_rows
from entity_transformers.corpus.document import CorpusError, Document
from entity_transformers.corpus.files import shown
from entity_transformers.corpus.ledger import Ledger

TAGS = [
    "XX", "``", "$", "''", ",", "-LRB-", "-RRB-", ".", ":", "ADD", "AFX", "CC", "CD", "DT", "EX",
    "FW", "HYPH", "IN", "JJ", "JJR", "JJS",
    "LS", "MD", "NFP", "NN", "NNP", "NNPS", "NNS", "PDT", "POS", "PRP", "PRP$", "RB", "RBR", "RBS",
    "RP", "SYM", "TO", "UH", "VB", "VBD",
    "VBG", "VBN", "VBP", "VBZ", "WDT", "WP", "WP$", "WRB",
]  # fmt: skip
LABELS = ["O", *(f"{prefix}-{label}" for label in ONTONOTES_TYPES for prefix in "BI")]
"""What label numbers mean if the file does not say: the order on the data set's card."""


def read_parquet(path: Path, split: str, ledger: Ledger) -> Iterator[Document]:
    """Yield the documents of one parquet file, part by part; a bad one is raised or recorded."""
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path, columns=["document_id", "sentences"])
        rows = table.to_pylist()
        kinds = table.schema.metadata or {}
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
            lines = list(_write_rows(row, label_names(kinds)))
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


def label_names(metadata: Mapping[bytes, bytes]) -> tuple[list[str], list[str]]:
    """Return the names of tags and entities by number, from metadata of the library datasets."""
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))
    except (ValueError, RecursionError):
        features = {}
    return (
        _find_names(features, "pos_tags") or TAGS,
        _find_names(features, "named_entities") or LABELS,
    )


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
