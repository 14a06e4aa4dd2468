"""Opens the model of demo, and prints what it makes of a text."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import PositiveInt
from transformers.utils import logging

from entity_transformers.cli.flags import Flag
from entity_transformers.corpus.marked import has_marks, read_marked
from entity_transformers.encode.document import DocumentReader
from entity_transformers.tasks.demo import Demo, compare

EXAMPLE = (
    "[1 Anna] met [2 Bob] at [3 the station]. [1 She] gave [2 him] a book. [2 Bob] thanked [1 her],"
    " and [1 Anna] left [3 the station]."
)
SAMPLE = Path("data/sample/models/gpt2e/1")
RESOLVER = "names-pronouns"
CHECKOUT = Path(__file__).resolve().parents[3]
COLOURS = (36, 33, 35, 34)  # of entities; green and red say where the memory helps and harms


def demo(
    text: Annotated[
        str, Flag("mentions marked as in '[1 Anna] met [2 Bob].', or plain text", "TEXT", True)
    ] = EXAMPLE,
    model: Annotated[
        Path | None, Flag("a folder with a model; left out: what make sample trained", "FOLDER")
    ] = None,
    window: Annotated[
        PositiveInt | None, Flag("tokens read at once; left out: a third of the text")
    ] = None,
    resolver: Annotated[str, Flag("finds the mentions of a plain text", "NAME")] = RESOLVER,
) -> None:
    """Print what a model expects of each word of a text, with its memory and without."""
    logging.disable_progress_bar()
    if not text.strip() or has_marks(text):
        read_marked(text)  # before a model is looked for: is it one?
    folder = find_model(model)
    reader = DocumentReader.load(folder, find_tokenizer(folder))
    source = reader.encode(text, resolver)
    longest = reader.model.context or len(source.tokens)
    if window is not None and window > longest:
        raise ValueError(f"--window is {window}, but the model reads at most {longest} tokens")
    size = min(longest, window or max(2, -(-len(source.tokens) // 3)))
    reader.window = reader.stride = size
    named = "as marked" if has_marks(text) else f"found by {resolver}; a mark is [1 Anna]"
    about = f"{folder}: {reader.model.kind.label}, windows of {size} tokens; entities {named}"
    # colours are for terminals that can show them, unless NO_COLOR is set (no-color.org)
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    for line in render(compare(reader, source), about, sys.stdout.isatty() and not plain):
        print(line)


def find_model(folder: Path | None) -> Path:
    """The folder, or that of the sample's GPT2E, here or in the checkout; FileNotFoundError where
    neither was trained.
    """
    if folder is not None:
        return folder
    for home in (Path(), CHECKOUT):
        if (home / SAMPLE / "config.json").is_file():
            return home / SAMPLE
    raise FileNotFoundError(
        f"{SAMPLE}: no trained model there: run make sample, or name a folder with --model"
    )


def find_tokenizer(folder: Path) -> Path:
    """The tokenizer.json of a model's folder, or of the study that it lies in."""
    own, above = folder / "tokenizer.json", folder.resolve().parents
    study = above[2] / "text/corpus/tokenizer.json" if len(above) > 2 else own
    return study if not own.is_file() and study.is_file() else own


def render(found: Demo, about: str, colour: bool) -> Iterator[str]:
    """The lines of the demo; nats, lower is better."""

    def paint(text: str, code: int) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if colour and code else text

    def by_entity(text: str, entity: int) -> str:
        return paint(text, COLOURS[(entity - 1) % len(COLOURS)] if entity else 0)

    yield about
    for entity, forms in found.names.items():
        yield "  " + by_entity(f"{entity}  {', '.join(forms)}", entity)
    yield ""
    width = max(4, *(len(word.text) for word in found.words))
    yield f"{'word':{width}}    nats: memory  without  change   expected: memory  without"
    for word in found.words:
        change = word.on - word.off
        code = 0 if abs(change) < 0.005 else 32 if change < 0 else 31
        mark = str(word.entity) if word.entity else ""
        yield (
            by_entity(f"{word.text:{width}} {mark:>2}", word.entity)
            + f" {word.on:13.2f} {word.off:8.2f} "
            + paint(f"{change:+7.2f}", code)
            + f"   {word.expected_on!r:16}  {word.expected_off!r}"
        )
    yield ""
    change = round(found.on - found.off, 3)
    verdict = f"it {'harms' if change > 0 else 'helps'}: {change:+.3f}"
    line = f"nats per token: {found.on:.3f} with memory, {found.off:.3f} without"
    code = 0 if not change else 32 if change < 0 else 31
    yield line + paint(f" ({verdict if change else 'no difference'})", code)
    yield "next: " + ", ".join(
        f"{guess.text!r} {100 * guess.on:.1f} % ({100 * guess.off:.1f} % without)"
        for guess in found.guesses
    )
