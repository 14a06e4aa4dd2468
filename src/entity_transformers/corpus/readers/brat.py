"""brat's standoff: a text (``NAME.txt``) and its annotations (``NAME.ann``).

Every span is a mention; a discontinuous one goes from its first character to its last, and is
counted. Spans form one chain, with the lowest of their numbers, if relations named Coref... or
equivalences join them; other relations and lines of other kinds (E, A, M, N, #) are counted. Words
are those of `corpus.splitting`, cut where a span begins or ends inside one, and each line of the
text is a sentence. Format: https://brat.nlplab.org/standoff.html.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from entity_transformers.corpus.document import CorpusError, Document, Mention, make_document
from entity_transformers.corpus.files import check_text, find_files, first_line, shown
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.mentions import find_chain, join
from entity_transformers.corpus.readers import Evidence, File, Match, Reader, read_files
from entity_transformers.corpus.readers.text import read_text
from entity_transformers.corpus.splitting import split_annotated

_PATTERNS = ("*.ann",)
_NUMBER = "[0-9]{1,9}"
_SPAN = re.compile(rf"T({_NUMBER})\t\S+ ({_NUMBER} {_NUMBER}(?:;{_NUMBER} {_NUMBER})*)\t(.*)")
_RELATION = re.compile(rf"R{_NUMBER}\t(\S+) \S+:(\S+) \S+:(\S+)\s*")
_EQUIVALENCE = re.compile(r"\*\t\S+ (\S+(?: \S+)*)\s*")
_OTHER = re.compile(rf"(?:[EAMN]{_NUMBER}|#\S*)\t")
_FIRST = re.compile(rf"(?:[TREAMN]{_NUMBER}|#\S*|\*)\t")


def read(path: Path, ledger: Ledger) -> Iterator[Document]:
    """Yield the document of either of its two files, or a folder's documents, sorted by path."""
    if path.is_dir():
        texts = {text.with_suffix(".ann") for text in find_files(path, ("*.txt",))}
        ledger.counts["texts_without_annotations"] += len(texts - {*find_files(path, _PATTERNS)})
    root = path.with_suffix(".ann") if path.is_file() else path
    return read_files(_PATTERNS, _read_pair)(root, ledger)


def _read_pair(file: File, ledger: Ledger) -> Iterator[Document]:
    if ledger.admits(file.name):
        text, rows = read_text(Path(file.path).with_suffix(".txt")), list(file.lines)
        yield read_annotations(_drop_mark(text, rows), file._replace(lines=rows), ledger)


def _drop_mark(text: str, lines: Iterable[str]) -> str:
    """Return a text without a byte order mark, in place of which it has a space if the first span's
    offsets count the mark, as brat itself does.
    """
    first = next(filter(None, map(_SPAN.match, lines)), None) if text[:1] == "\ufeff" else None
    counted = first and text.startswith(first[3].split(" ")[0], int(first[2].split(" ")[0]))
    return " " * bool(counted) + text.removeprefix("\ufeff")


def read_annotations(text: str, file: File, ledger: Ledger) -> Document:
    """Return the document of a text and its annotations; CorpusError names the line of a fault."""
    spans: dict[int, tuple[int, int]] = {}
    joined: list[tuple[str, list[str]]] = []
    for number, line in enumerate(file.lines, 1):
        where = f"{file.path}, line {number}"
        check_text(line, where)
        line = line.removesuffix("\n")
        if match := _SPAN.fullmatch(line):
            if int(match[1]) in spans:
                raise CorpusError(f"{where}: a second T{match[1]}: renumber it")
            spans[int(match[1])] = _read_span(text, match[2], match[3], where)
            if ";" in match[2]:
                ledger.counts["discontinuous_mentions"] += 1
        elif match := _RELATION.fullmatch(line):
            if match[1].lower().startswith("coref"):
                joined.append((where, [match[2], match[3]]))
            else:
                ledger.counts["relations_of_other_types"] += 1
        elif match := _EQUIVALENCE.fullmatch(line):
            joined.append((where, match[1].split(" ")))
        elif _OTHER.match(line):
            ledger.counts["annotations_of_other_kinds"] += 1
        elif line.strip():
            raise CorpusError(
                f"{where}: {shown(line)}, expected an annotation such as T1, a tab, Person 0 4, a"
                " tab, Anna"
            )
    chains = {number: number for number in spans}
    for where, names in joined:
        numbers = [int(one[1:]) if re.fullmatch(f"T{_NUMBER}", one) else -1 for one in names]
        for one, other in zip(names, numbers, strict=True):
            if other not in spans:
                raise CorpusError(f"{where}: {shown(one)}, expected a span such as T1 of this file")
            join(chains, numbers[0], other)
    found = split_annotated(text, [*spans.values()])
    if not found.words:
        raise CorpusError(f"{file.path.removesuffix('.ann')}.txt: no words in this text: remove it")
    mentions = (
        Mention(*span, find_chain(chains, number))
        for number, span in zip(spans, found.spans, strict=True)
    )
    return make_document(
        file.name, file.split, found.words, found.starts, mentions, spaces=found.spaces
    )


def _read_span(text: str, pieces: str, quoted: str, where: str) -> tuple[int, int]:
    """Return a span's first character and the one after its last; CorpusError unless the text there
    is what the annotation quotes.
    """
    places = [(int(a), int(b)) for a, b in (one.split(" ") for one in pieces.split(";"))]
    parts = " ".join(text[start:end] for start, end in places)
    if not parts.strip() or parts.split() != quoted.split():
        raise CorpusError(
            f"{where}: {shown(quoted)}, but the text has {shown(parts)} there: expected character"
            " offsets in the text beside it"
        )
    return min(start for start, _ in places), max(end for _, end in places)


def recognise(path: Path) -> Match | None:
    """Recognise annotations beside a text, in a folder by the first file of them."""
    found = find_files(path, _PATTERNS) if path.is_dir() else [path.with_suffix(".ann")]
    pair = bool(found) and found[0].is_file() and found[0].with_suffix(".txt").is_file()
    if pair and (path.is_dir() or path.suffix in (".txt", ".ann")):
        first = first_line(found[0])
        if not first or _FIRST.match(first):
            return Match(Evidence.CONTENT, f"{found[0].name} has brat's annotations of a text")
    return None


READER = Reader(name="brat", read=read, recognise=recognise, patterns=("*.ann", "*.txt"))
