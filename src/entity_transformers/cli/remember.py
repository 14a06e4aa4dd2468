"""Opens the files of remember, and prints what it finds."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated, cast

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from entity_transformers import runtime
from entity_transformers.artifacts import read_json, read_tokenizer
from entity_transformers.cli.demo import find_tokenizer
from entity_transformers.cli.flags import Flag
from entity_transformers.corpus.document import CorpusError, Document, join_parts, slice_document
from entity_transformers.corpus.readers import detect_format, read_corpus
from entity_transformers.models.pointer.model import GPT2Pointer
from entity_transformers.models.registry import load_model
from entity_transformers.resolve.registry import make_resolver
from entity_transformers.tasks.remember import EntityReader

SAMPLE = Path("data/sample/models/gpt2-pointer/1")
SHOWN = 8
"""Guesses that are printed."""
WIDTH = 60


def remember(
    book: Annotated[Path, Flag("a text, or a corpus in any format", "FILE", positional=True)],
    model: Annotated[
        Path, Flag("a folder with a model that has a pointer; left out: the sample's", "FOLDER")
    ] = SAMPLE,
    words: Annotated[
        PositiveInt | None, Flag("read so many words of its first document; left out: all")
    ] = None,
    known: Annotated[PositiveInt, Flag("entities that are listed")] = 20,
    write: Annotated[NonNegativeInt, Flag("tokens to write on")] = 60,
    temperature: Annotated[NonNegativeFloat, Flag("0: always the likeliest token")] = 0.8,
    seed: Annotated[int, Flag("of what it writes")] = 1,
    resolver: Annotated[str, Flag("a causal one", "NAME")] = "names-causal",
) -> None:
    """Read a text with a model that has an entity pointer (kind gpt2-pointer): who is
    known, when last seen, what may come next, and a text that goes on.
    """
    document = _read(book, words)
    config = read_json(model / "config.json") if (model / "config.json").is_file() else {}
    if config.get("model_type") != GPT2Pointer.kind.name:
        raise FileNotFoundError(
            f"{model}: no model with an entity pointer there: run a study that has one"
            " (make sample, or studies/pointer), or name another --model"
        )
    loaded = load_model(model, GPT2Pointer.kind, runtime.start("auto", 1, seed))
    tokenizer = read_tokenizer(find_tokenizer(model))
    reader = EntityReader(
        cast(GPT2Pointer, loaded),
        tokenizer,
        make_resolver(resolver),
        document,
        config["n_positions"],
    )
    _show_known(reader, document, f"{config['pointer_forms']} forms each", known)
    print("\nnext       with memory  without")
    for guess in reader.guess(SHOWN):
        print(f"{guess.text!r:10} {100 * guess.p:10.2f} % {100 * guess.alone:6.2f} %")
    if write:
        print(f"\n... {' '.join(document.words[-20:])} |", end="")
        for text in reader.write_on(write, seed, temperature):
            print(text, end="", flush=True)
        print()
    sys.stdout.flush()


def _show_known(reader: EntityReader, document: Document, memory: str, most: int) -> None:
    """Counts in a line, then the ``most`` entities that were mentioned last."""
    entities = reader.known()
    print(
        f"{document.id}: {len(document.words):,} words read; {len(entities):,} entities,"
        f" {sum(one.held for one in entities):,} of them in the memory ({memory})\n"
    )
    print(f"{'who':{WIDTH}}  mentions  words ago  in memory")
    for one in islice(entities, most):
        forms = ", ".join(one.forms)
        forms = forms if len(forms) <= WIDTH else forms[: WIDTH - 3] + "..."
        print(f"{forms:{WIDTH}} {one.mentions:9,} {one.ago:10,}  {'yes' if one.held else 'no'}")


def _read(path: Path, words: int | None) -> Document:
    """The first document, as far as it is asked for; of a running text the whole book."""
    name, _ = detect_format(path)
    corpus = read_corpus(name, path)
    document = next(iter(join_parts(corpus)), None)
    if document is None:
        raise CorpusError(f"{path}: no document in it")
    plain = replace(document, mentions=(), tags=None, named_entities=None)
    return plain if words is None else slice_document(plain, 0, min(words, len(plain.words)))
