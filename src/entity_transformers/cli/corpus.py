"""Tools for corpora: what is in one, chains for one, and downloads."""

import json as json_format
import logging
from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

from entity_transformers.artifacts import write_json_lines
from entity_transformers.cli.flags import Flag
from entity_transformers.corpus.document import to_row
from entity_transformers.corpus.download import datasets, locate
from entity_transformers.corpus.readers import detect_format, read_corpus, registry
from entity_transformers.corpus.statistics import compare_with_conll2012, describe, format_table
from entity_transformers.resolve import registry as resolvers

log = logging.getLogger(__name__)
FORMAT = Annotated[str, Flag(f"of the corpus: auto, {', '.join(registry())}", "FORMAT")]


def choose_format(format: str, path: Path) -> str:
    """The format that is named; of auto that which the path is recognised as, which is logged."""
    if format != "auto":
        return format
    found, why = detect_format(path)
    log.info("read as %s, since %s (--format names another)", found, why)
    return found


def annotate(
    file: Annotated[Path, Flag("a corpus in any format", "FILE", positional=True)],
    output: Annotated[Path, Flag("where the corpus with chains is written, as JSON lines", "FILE")],
    resolver: Annotated[
        str, Flag("names, names-causal, ..., or file:PATH for the chains of a file", "NAME")
    ] = "names",
    format: FORMAT = "auto",
) -> None:
    """Find coreference chains in a corpus and write it as the JSON lines that every study reads."""
    corpus = read_corpus(detect_format(file)[0] if format == "auto" else format, file)
    counts: Counter[str] = Counter()
    found = resolvers.annotate(corpus, resolvers.make_resolver(resolver), None, counts)
    write_json_lines(output, map(to_row, found))
    log.info("%s", resolvers.show_counts(counts))


def fetch_data(
    folder: Annotated[Path, Flag("set ENTITY_TRANSFORMERS_DATA to it", "FOLDER", positional=True)],
) -> None:
    """Download every data set whose files are pinned, those of tasks too; what is there already is
    only checked.
    """
    for name, dataset in datasets().items():
        if dataset.files:
            found = locate(name, None, folder)
            log.info("%s: %d files in %s", name, len(found["files"]), found["root"])


def inspect_corpus(
    path: Annotated[Path, Flag("a file or folder", positional=True)],
    format: FORMAT = "auto",
    nested_mentions: Annotated[
        Literal["outermost", "innermost", "drop"], Flag("which of several nested mentions are kept")
    ] = "outermost",
    bad_documents: Annotated[
        Literal["strict", "skip"], Flag("stop at a bad document, or leave it out and count it")
    ] = "skip",
    exclude: Annotated[tuple[str, ...], Flag("document names to leave out", "PATTERN")] = (),
    json: Annotated[bool, Flag("print a JSON object instead of a table")] = False,
) -> None:
    """Print the counts of any corpus on disk, beside the known sizes of a whole CoNLL-2012."""
    found = choose_format(format, path)
    corpus = read_corpus(found, path, exclude=exclude, bad_documents=bad_documents)
    statistics = describe(corpus, nested_mentions)
    statistics["left_out"] = corpus.ledger.as_dict()
    if json:
        print(json_format.dumps(statistics, indent=2, sort_keys=True, ensure_ascii=False))
        return
    print(format_table(statistics))
    if found == "ontonotes" and {"train", "dev", "test"} <= set(statistics["splits"]):
        print(compare_with_conll2012(statistics))
