"""LAMBADA passages (section 4.2): the original release (tokenised, lower case) and OpenAI's text,
told apart and never mixed.

The target is what follows the last space, as in the harness that published scores come from: in 7
of OpenAI's 5,153 passages that is a word, a line break and the last word.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath
from typing import Any, Literal

from entity_transformers.corpus.document import CorpusError, Document, Split, make_document
from entity_transformers.corpus.files import check_text, is_html, open_lines, shown, split_from_path
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.readers import Evidence, Match, Reader
from entity_transformers.corpus.readers.jsonl import recognise_rows
from entity_transformers.corpus.sources import RAW, pinned

Text = Literal["original", "openai"]
Row = dict[str, Any]
_FILES: dict[Text, str] = {
    "original": "lambada_test_plain_text.txt",
    "openai": "lambada_test.jsonl",
}
_LAMBADA = f"{RAW}/Victorwz/VaLM/161accd153943a502ec7e3983c448dda07f9d975/data/lambada"
_FEWEST = 20
"""Passages needed to tell the two texts apart by their capitals; fewer may be of either text."""


def parse_passages(lines: Iterable[str], source: str, text: Text, ledger: Ledger) -> Iterator[Row]:
    """Yield rows {"text": whole passage, "target_start": character offset of the target word} of
    one file given as lines.

    A passage that is of the other text, damaged or without a word raises CorpusError with its line,
    or is recorded in the ledger. A file without any passage, or most of whose passages have
    capitals as only the other text has them, raises CorpusError at its end under every policy.
    """
    count = capitals = 0
    for number, line in enumerate(lines, 1):
        if line == "\n":
            continue
        where = f"{source}, line {number}"
        with ledger.recording(where):
            check_text(line, where)
            passage = _parse(line.removesuffix("\n"), where, text)
            count += 1
            capitals += passage != passage.lower()
            yield {"text": passage, "target_start": passage.rfind(" ") + 1}
    if not count:
        raise CorpusError(f"{source}: no passage in this file, expected one per line")
    if count >= _FEWEST and 2 * capitals != count and (2 * capitals > count) != (text == "openai"):
        raise CorpusError(
            f"{source}: {capitals} of {count} passages have capitals: this is not the {text} text"
            f" ({_FILES[text]}), which is {'in' if text == 'original' else 'not in'} lower case"
        )


def _parse(line: str, where: str, text: Text) -> str:
    """Return the passage of a line; CorpusError for a line of the other text."""
    if text == "openai":
        try:
            passage = json.loads(line)["text"]
            check_text(passage, where)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if isinstance(error, CorpusError):
                raise
            raise CorpusError(
                f'{where}: {shown(line)}, expected a JSON object {{"text": ...}} of OpenAI\'s text:'
                " set lambada.text to original if this is the original one"
            ) from None
    elif line.startswith('{"') or is_html(line):
        raise CorpusError(
            f"{where}: {shown(line)}, expected a passage of the original text: set lambada.text to"
            " openai if this is OpenAI's, or download the file itself"
        )
    else:
        passage = line
    passage = passage.strip(" ")
    if not passage.rpartition(" ")[2].strip():
        raise CorpusError(
            f"{where}: {shown(passage)} has no last word, expected a context and a word to predict:"
            " remove the line"
        )
    return passage


def make_documents(
    lines: Iterable[str], source: str, text: Text, split: Split, ledger: Ledger
) -> Iterator[Document]:
    """Yield each passage as a document without chains, so that it is counted like any corpus."""
    for number, row in enumerate(parse_passages(lines, source, text, ledger)):
        yield make_document("lambada", split, row["text"].split(), [0], part=number)


def read(path: Path, ledger: Ledger) -> Iterator[Document]:
    """Read the passages of one file, whose first line tells which of the two texts it is."""
    if not path.is_file():
        raise CorpusError(
            f"{path}: a folder, expected one file of LAMBADA ({' or '.join(_FILES.values())})"
        )
    text: Text = "openai" if next(open_lines(path), "").startswith("{") else "original"
    split = split_from_path(PurePath(path.name))
    return ledger.accept(
        make_documents(open_lines(path), str(path), text, split, ledger), str(path)
    )


def recognise(path: Path) -> Match | None:
    """Recognise OpenAI's text by its rows, and the original, which is running text, by its name."""
    if match := recognise_rows(path, "lambada", "its rows have a text and none of jsonl's keys"):
        return match
    name = path.name.lower().removesuffix(".gz")
    if path.is_file() and name.startswith("lambada") and name.endswith(".txt"):
        return Match(Evidence.NAME, "it is a lambada*.txt file")
    return None


READER = Reader(
    name="lambada",
    read=read,
    recognise=recognise,
    splits=("dev", "test"),
    data=tuple(
        pinned(f"lambada-{text}", "LAMBADA", "CC BY 4.0", _LAMBADA, "lambada", (name,))
        for text, name in _FILES.items()
    ),
)
