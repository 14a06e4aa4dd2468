"""Opens the files of remember, and prints what it finds."""

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt
from transformers import TextStreamer

from entity_transformers.cli.demo import open_model
from entity_transformers.cli.flags import Flag
from entity_transformers.corpus.document import CorpusError, Document, join_parts, slice_document
from entity_transformers.corpus.readers import detect_format, read_corpus
from entity_transformers.encode.document import DocumentReader
from entity_transformers.resolve.registry import make_resolver
from entity_transformers.tasks.remember import KEPT, TextMemory, Way, keep_nothing

log = logging.getLogger(__name__)
SAMPLE = "data/sample/models/gpt2/1"
SAMPLING = {"do_sample": True, "top_p": 0.9, "top_k": 0, "repetition_penalty": 1.1}
"""Of what it writes, beside the temperature."""
WIDTH, LATEST = 60, 24
EVERY = 5.0
"""Seconds from one line of progress to the next."""


def remember(
    book: Annotated[Path, Flag("a text, or a corpus in any format", "FILE", positional=True)],
    model: Annotated[
        str | None, Flag("as for demo (default: SmolLM2, or that of make sample)", "MODEL")
    ] = None,
    tokens: Annotated[PositiveInt, Flag("how many tokens of the first document are read")] = 12_000,
    window: Annotated[PositiveInt, Flag("tokens read at once; windows overlap by half")] = 256,
    kept: Annotated[PositiveInt, Flag("tokens kept beside the window", "TOKENS")] = 64,
    policy: Annotated[str, Flag(f"what is kept: {', '.join(KEPT)}", "POLICY")] = "half names",
    known: Annotated[NonNegativeInt, Flag("how many entities are listed")] = 20,
    write: Annotated[NonNegativeInt, Flag("how many tokens are generated")] = 80,
    temperature: Annotated[NonNegativeFloat, Flag("0 always takes the likeliest token")] = 0.7,
    seed: Annotated[int, Flag("random seed of sampling")] = 1,
    resolver: Annotated[str, Flag("a causal one", "NAME")] = "names-causal",
) -> None:  # fmt: skip
    """Read a text in a small window with a memory of the names that have left it. Shows who is
    known, what is kept in how many bytes and how much it helps, and continues the text.
    """
    document, finder = _read(book, tokens), make_resolver(resolver)
    name, reader = open_model(model, SAMPLE, seed)
    reader.window, reader.stride = window, -(-window // 2)
    memory = TextMemory(reader, cut(reader, document, tokens), finder, policy=policy, budget=kept)
    ways = {
        f"beside {policy}": memory.keep,
        "beside as many recent tokens": memory.keep_recent,
        "window alone": keep_nothing,
    }
    count = len(memory.past) - 1
    print(
        f"{document.id}: {count:,} tokens, read by {name} in windows of {window} beside {kept} kept"
        " ones",
        flush=True,
    )
    found: Mapping[str, Way] = {}
    last = time.monotonic()
    for done, found in memory.read(ways):
        if (now := time.monotonic()) - last >= EVERY:
            listed = (f"{way.losses[1:done].mean():.3f} {each}" for each, way in found.items())
            log.info("%d of %d tokens, nats per token: %s", done - 1, count, ", ".join(listed))
            last = now
    _show_losses(memory, found)
    _show_known(memory, known)
    kept_now = memory.kept
    print(f"\nkept: {len(kept_now)} tokens, {kept_now.nbytes} bytes:{reader.decode(kept_now)}")
    if write:
        sampling = {"temperature": temperature, **SAMPLING}
        how: dict[str, Any] = sampling if temperature else {"do_sample": False}
        for each, remembers in (("with what is kept", True), ("window alone", False)):
            end = reader.decode(memory.past.tokens[-LATEST:])
            print(f"\n{each}: ...{end} |", end="", flush=True)
            streamer = _Printer(cast(Any, reader.tokenizer), skip_prompt=True)
            memory.continue_text(write, seed, remembers=remembers, streamer=streamer, **how)
            TextStreamer.end(streamer)
            print()


class _Printer(TextStreamer):
    """Prints text as it is written, word by word."""

    def end(self) -> None:
        """A window has ended; its last word or character may go on in the next."""
        self.next_tokens_are_prompt = True

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        print(text.replace("\n", " "), end="", flush=True)


def _show_losses(memory: TextMemory, found: Mapping[str, Way]) -> None:
    names = memory.source.entity_ids > 0
    print(f"\n{'nats per token':{WIDTH // 2}}  all  in names")
    for name, way in found.items():
        inside = f"{way.losses[names].mean():9.3f}" if names.any() else ""
        print(f"{name:{WIDTH // 2}}{way.losses[1:].mean():6.3f} {inside}")


def _show_known(memory: TextMemory, most: int) -> None:
    """Counts in a line, then the ``most`` entities that were mentioned last."""
    entities = memory.known()
    held = sum(one.kept for one in entities)
    print(f"\n{len(entities):,} entities, {held:,} of them kept\n")
    print(f"{'who':{WIDTH}}  mentions  words ago  kept")
    for one in entities[:most]:
        forms = ", ".join(one.forms)
        forms = forms if len(forms) <= WIDTH else forms[: WIDTH - 3] + "..."
        print(f"{forms:{WIDTH}} {one.mentions:9,} {one.ago:10,}  {'yes' if one.kept else 'no'}")


def cut(reader: DocumentReader, document: Document, tokens: int) -> Document:
    """The words of a document that have begun within so many ``tokens``, its last one whole."""
    words = reader.encode(document).words
    return slice_document(document, 0, int(words[: tokens + 1][-1]) + 1)


def _read(path: Path, words: int) -> Document:
    """At most so many words of the first document; of a running text, of the whole book."""
    parts = read_corpus(detect_format(path)[0], path)
    plain = (replace(part, mentions=(), tags=None, named_entities=None) for part in parts)
    document = next(join_parts(plain), None)
    if document is None:
        raise CorpusError(f"{path}: no document in it")
    return slice_document(document, 0, min(words, len(document.words)))
