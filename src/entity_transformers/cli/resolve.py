"""Opens the files of annotate."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import Annotated

from entity_transformers.artifacts import write_json_lines
from entity_transformers.cli.flags import Flag
from entity_transformers.corpus.document import to_row
from entity_transformers.corpus.readers import detect_format, read_corpus, registry
from entity_transformers.resolve import layers
from entity_transformers.resolve.registry import make_resolver

log = logging.getLogger(__name__)


def annotate(
    file: Annotated[Path, Flag("a corpus in any format", "FILE", positional=True)],
    output: Annotated[Path, Flag("the corpus with chains (JSON lines)", "FILE")],
    resolver: Annotated[str, Flag("names, names-causal, names-pronouns, ...", "NAME")] = "names",
    format: Annotated[str, Flag(f"auto, {', '.join(registry())}", "FORMAT")] = "auto",
) -> None:
    """Find coreference chains in a corpus and write it as the JSON lines that every study reads."""
    corpus = read_corpus(detect_format(file)[0] if format == "auto" else format, file)
    counts: Counter[str] = Counter()
    found = layers.annotate(corpus, make_resolver(resolver), None, counts)
    write_json_lines(output, map(to_row, found))
    log.info("%s", layers.show_counts(counts))
