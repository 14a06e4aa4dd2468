"""Opens the files of download-lambada, prepare-lambada and tag-lambada."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Annotated

from entity_transformers.artifacts import read_json, read_json_lines, write_json, write_json_lines
from entity_transformers.corpus.stored import Documents
from entity_transformers.cli.flags import Flag
from entity_transformers.cli.sources import find_listed, user_path, write_sample
from entity_transformers.corpus.download import locate
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.lines import open_lines
from entity_transformers.corpus.readers.lambada import Text, parse_passages
from entity_transformers.corpus.readers.sample import PASSAGES, read_passages
from entity_transformers.corpus.tagging import tag_targets
from entity_transformers.study.params import Params

log = logging.getLogger(__name__)


def download_lambada(
    params: Params, cache: Path, output: Annotated[Path, Flag("the list (JSON)", "FILE")]
) -> None:
    """The file of passages: on disk, downloaded, or the package's own."""
    if params.lambada.text == "sample":
        text = "\n".join(read_passages()) + "\n"
        write_json(output, write_sample({PASSAGES: text}, cache, "passages"))
    else:
        write_json(
            output, locate(f"lambada-{params.lambada.text}", user_path(params.lambada.path), cache)
        )


def prepare_lambada(
    params: Params,
    source: Annotated[Path, Flag("list of download-lambada", "FILE")],
    output: Path,
    cache: Path | None = None,
) -> None:
    """The passages as JSON lines, and how many they are; corpus.bad_documents says whether a bad
    one stops or is left out and named.
    """
    listed = find_listed(source, cache)
    path = listed / read_json(source)["files"][0]["path"]
    text: Text = "openai" if params.lambada.text == "openai" else "original"
    ledger = Ledger(policy=params.corpus.bad_documents)
    count = write_json_lines(
        output / "lambada.jsonl", parse_passages(open_lines(path), str(path), text, ledger)
    )
    write_json(output / "lambada_statistics.json", {"passages": count, "bad": ledger.bad})
    log.info("%d passages, %d left out", count, len(ledger.bad))


def tag_lambada(
    params: Params,
    corpus: Path,
    passages: Path,
    output: Annotated[Path, Flag("lambada_tags.json", "FILE")],
) -> None:
    """Parts of speech of the passages' target words, and how well the tagger does on dev."""
    rows = list(read_json_lines(passages / "lambada.jsonl"))
    train, dev = (Documents(corpus / f"{split}.jsonl") for split in ("train", "dev"))
    tags = {"text": params.lambada.text, **tag_targets(train, dev, rows)}
    write_json(output, tags)
    log.info(
        "%s",
        (
            json.dumps(tags, indent=2, sort_keys=True, ensure_ascii=False)
            if tags["shares"]
            else f"{corpus / 'train.jsonl'} has no parts of speech: the targets' are left out"
        ),
    )
