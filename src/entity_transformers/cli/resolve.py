"""Opens the files of annotate."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

from entity_transformers.cli.flags import Flag
from entity_transformers.resolve.base import Overlaps
from entity_transformers.resolve.layers import annotate_file

log = logging.getLogger(__name__)


def annotate(
    file: Annotated[Path, Flag("a corpus in any format", "FILE", positional=True)],
    output: Annotated[Path, Flag("the corpus with chains (JSON lines)", "FILE")],
    resolver: Annotated[str, Flag("names, names-causal, names-pronouns, ...", "NAME")] = "names",
    format: Annotated[str, Flag("auto, or a format's name")] = "auto",
    overlaps: Annotated[Overlaps, Flag("what becomes of spans that overlap")] = "keep",
) -> None:
    """Find coreference chains in a corpus and write it as the JSON lines that every study reads."""
    summary = annotate_file(file, output, resolver, format=format, overlaps=overlaps)
    log.info("%s", "\n".join(summary.lines()))
