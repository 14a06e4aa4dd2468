"""GUM and OntoGUM: words, tags, spaces and typed entities from ``dep/``, OntoNotes-scheme chains
from ``coref/ontogum/conllu/``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from entity_transformers.corpus.conll2012 import match_chains
from entity_transformers.corpus.document import (
    SPLITS,
    CorpusError,
    Document,
    Mention,
    NamedEntity,
    Split,
    WordError,
)
from entity_transformers.corpus.files import (
    check_lines,
    find_packed,
    find_root,
    is_html,
    open_lines,
    shown,
)
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.readers import Evidence, Match, Reader
from entity_transformers.corpus.sources import RAW, pinned

_LAYERS = ("dep", "coref/ontogum/conllu")
_NAMES = frozenset(("NNP", "NNPS"))
_OPENING = re.compile(r"\(([^()]+)(\))?|([^()]+)\)")
_COLUMNS = 10
_ID = re.compile(r"([0-9]{1,6})(-[0-9]{1,6}|\.[0-9]{1,6})?")
"""Of a word (3), of a joined form (3-4) or of a word that is not in the text (3.1)."""
_ENTITY = re.compile(r"(?:^|\|)Entity=([^|]+)")


@dataclass(frozen=True, slots=True)
class TypedMention:
    """A mention of the GUM layer; ``minspan`` are the words of its head."""

    start: int
    end: int
    label: str
    minspan: tuple[int, ...]


@dataclass
class Table:
    """The words of a CoNLL-U document, their line numbers, and the non-empty ``Entity`` cells."""

    source: str
    name: str = ""
    entity_fields: tuple[str, ...] = ()
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    space_after: list[bool] = field(default_factory=list)
    sentence_starts: list[int] = field(default_factory=list)
    entities: list[tuple[int, str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def fault(self, word: int, message: str, column: int) -> CorpusError:
        """The error at a word's row."""
        return CorpusError(f"{self.source}, line {self.lines[word]}, column {column}: {message}")


def read(root: Path, ledger: Ledger) -> Iterator[Document]:
    """Documents of a GUM folder, by name. An excluded document is not even opened.

    CorpusError for a folder without documents or ``splits.md``; a bad document raises it or is
    written down.
    """
    root = root if (root / "dep").is_dir() else find_root(root)
    files = find_packed(root / "dep", ".conllu")
    splits = read_splits(open_lines(root / "splits.md"), str(root / "splits.md"))
    return ledger.accept(_read_files(root, files, splits, ledger), str(root))


def _read_files(
    root: Path, files: Mapping[str, Path], splits: Mapping[str, Split], ledger: Ledger
) -> Iterator[Document]:
    folder = root / "coref" / "ontogum" / "conllu"
    layer = find_packed(folder, ".conllu")
    for name, path in files.items():
        if not ledger.admits(name):
            continue
        try:
            dep = read_table(list(open_lines(path)), str(path))
            check_text(name, dep)
            if name not in layer or name not in splits:
                what = "chains in coref/ontogum" if name not in layer else "split in splits.md"
                raise CorpusError(
                    f"{path}: {name} has no {what}: add it, or name it in corpus.exclude"
                )
            chains = read_table(list(open_lines(layer[name])), str(layer[name]))
            yield make_document(name, splits[name], dep, chains, ledger)
        except CorpusError as error:
            ledger.reject(f"{name}#0", error)
    ledger.reject_missing(
        (splits.keys() | layer.keys()) - files.keys(),
        root / "dep",
        "splits.md or coref/ontogum names",
    )


def read_splits(lines: Iterable[str], source: str) -> dict[str, Split]:
    """Split of each document, from the bullet lists of splits.md below ``## train`` and others."""
    splits: dict[str, Split] = {}
    heading = ""
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            heading = line.strip("# \r\n")
        elif (item := line.strip()).startswith("* "):
            split = next((split for split in SPLITS if split == heading), None)
            if not split:
                raise CorpusError(
                    f"{source}, line {number}: {shown(item)} below the heading {shown(heading)},"
                    f" expected {', '.join(SPLITS)}"
                )
            splits[item[2:].strip()] = split
    if not splits:
        raise CorpusError(f"{source}: no document is listed, expected lists below ## train, ...")
    return splits


def check_text(name: str, dep: Table) -> None:
    """Refuse a table of another document and a text that was blanked."""
    if dep.name != name:
        raise CorpusError(
            f"{dep.source}: # newdoc id = {shown(dep.name)}, expected {name} as in the file's name"
        )
    for word, form in enumerate(dep.words):
        if len(form) > 1 and not form.strip("_"):
            message = (
                f"the word is {shown(form)}: a blanked text (GUM publishes reddit without its"
                " words): name it in corpus.exclude, e.g. GUM_reddit_*"
            )
            raise dep.fault(word, message, 2)


def read_table(lines: Sequence[str], source: str) -> Table:
    """The table of one document's lines; CorpusError names line, column and value of a fault."""
    check_lines(lines, source, 1)
    if lines and is_html(lines[0]):
        raise CorpusError(
            f"{source}, line 1: a web page ({shown(lines[0])}), expected CoNLL-U: download the file"
            " itself"
        )
    if lines and not lines[-1].endswith("\n"):
        raise CorpusError(
            f"{source}, line {len(lines)}: the last line has no end: the file was cut, fetch it"
            " again"
        )
    table = Table(source)
    fresh, joined_until, space = True, 0, True
    for number, line in enumerate(lines, 1):
        if line == "\n":
            fresh, joined_until = True, 0
        elif line[0] == "#":
            _read_comment(table, line)
        else:
            fields, match = _split_row(line, f"{source}, line {number}")
            spaced = "SpaceAfter=No" not in fields[9].split("|")
            if match[2] is None:
                if fresh:
                    table.sentence_starts.append(len(table.words))
                    fresh = False
                position = int(match[1])  # words of a joined form have no space between
                inside = position <= joined_until
                after = (space and position == joined_until) if inside else spaced
                _add_word(table, fields, number, after)
            elif match[2][0] == "-":
                joined_until, space = int(match[2][1:]), spaced
    if not table.words:
        raise CorpusError(
            f"{source}: no words in this document: remove the file or leave it out with"
            " corpus.exclude"
        )
    return table


def _split_row(line: str, where: str) -> tuple[list[str], re.Match[str]]:
    fields = line[:-1].split("\t")
    if len(fields) != _COLUMNS:
        raise CorpusError(f"{where}: {len(fields)} columns ({shown(line)}), expected {_COLUMNS}")
    match = _ID.fullmatch(fields[0])
    if not match:
        raise CorpusError(
            f"{where}, column 1: {shown(fields[0])}, expected a word number such as 3, 3-4 or 3.1"
        )
    return fields, match


def _read_comment(table: Table, line: str) -> None:
    key, _, value = line[1:].partition("=")
    if key.strip() == "newdoc id":
        if table.name:
            raise CorpusError(
                f"{table.source}: holds the documents {table.name} and {shown(value.strip())},"
                " expected one per file"
            )
        table.name = value.strip()
    elif key.strip() == "global.Entity":
        table.entity_fields = tuple(value.strip().split("-"))


def _add_word(table: Table, fields: Sequence[str], number: int, space_after: bool) -> None:
    word, tag, misc = fields[1], fields[4], fields[9]
    for column, value in ((2, word), (5, tag)):
        if value.split() != [value] or (column == 5 and value == "_"):
            what = "word without white space" if column == 2 else "Penn Treebank tag"
            raise CorpusError(
                f"{table.source}, line {number}, column {column}: {shown(value)}, expected a {what}"
            )
    if match := _ENTITY.search(misc):
        table.entities.append((len(table.words), match[1]))
    table.words.append(word)
    table.tags.append(tag)
    table.lines.append(number)
    table.space_after.append(space_after)


def make_document(name: str, split: str, dep: Table, chains: Table, ledger: Ledger) -> Document:
    """The document of its two tables; CorpusError where they differ."""
    _check_alignment(dep, chains)
    named = select_named(match_typed(dep), dep.tags)
    entities: list[NamedEntity] = []  # flat: the outermost of nested ones
    for mention in sorted(named, key=lambda m: (m.start, -m.end)):
        if not entities or mention.start >= entities[-1].end:
            entities.append(NamedEntity(mention.start, mention.end, mention.label))
    ledger.counts["named_entities_inside_others"] += len(named) - len(entities)
    parts = name.split("_")
    return Document(
        name=name,
        part=0,
        split=split,
        genre=parts[1] if len(parts) > 2 else "",  # bio of GUM_bio_byron
        words=tuple(dep.words),
        sentence_starts=tuple(dep.sentence_starts),
        mentions=read_chains(chains, ledger),
        tags=tuple(dep.tags),
        space_after=tuple(dep.space_after),
        named_entities=tuple(entities),
    )


def _check_alignment(dep: Table, chains: Table) -> None:
    """Both layers must have the same words and sentences."""
    for word, (ours, theirs) in enumerate(zip(dep.words, chains.words, strict=False)):
        if ours != theirs:
            place = f"{dep.source}, line {dep.lines[word]}"
            message = f"the word is {shown(theirs)}, expected {shown(ours)} as in {place}"
            raise chains.fault(word, message, 2)
    if (len(dep.words), dep.sentence_starts) != (len(chains.words), chains.sentence_starts):
        raise CorpusError(
            f"{chains.source}: other words or sentences than in {dep.source}: was the file cut?"
        )


def read_chains(table: Table, ledger: Ledger) -> tuple[Mention, ...]:
    """Mentions of the OntoGUM layer.

    A bracket without a partner raises CorpusError; where the ledger says skip only the bracket is
    dropped, and counted as ``unmatched_brackets``, as the one document that has any
    (GENTLE_poetry_road, upstream's slip) is fine otherwise.
    """
    try:
        mentions, unmatched = match_chains(table.entities, None)
    except WordError as error:
        raise table.fault(error.word, str(error), 10) from None
    if unmatched and ledger.policy == "strict":
        message = (
            f"{unmatched[0]}: correct the file, name it in corpus.exclude, or set"
            " corpus.bad_documents to skip to drop the bracket"
        )
        raise table.fault(unmatched[0].word, message, 10)
    if unmatched:
        ledger.counts["unmatched_brackets"] += len(unmatched)
    return tuple(mentions)


def match_typed(table: Table) -> list[TypedMention]:
    """Mentions of the GUM layer with type and head, one stack per chain; CorpusError at a cell that
    is none or closes what was never opened, and for what is never closed.
    """
    stacks: dict[str, list[tuple[int, str, list[int]]]] = defaultdict(list)
    mentions: list[TypedMention] = []
    for word, cell in table.entities:
        try:
            if _OPENING.sub("", cell):
                raise ValueError
            for opening, closed, closing in _OPENING.findall(cell):
                key = closing
                if opening:
                    values = dict(zip(table.entity_fields, opening.split("-"), strict=False))
                    key, minspan = values["GRP"], values["minspan"].split(",")
                    heads = [word + int(position) - 1 for position in minspan]
                    stacks[key].append((word, values["etype"].upper(), heads))
                if closed or closing:
                    start, label, heads = stacks[key].pop()
                    if not start <= min(heads) <= max(heads) <= word:
                        raise ValueError
                    mentions.append(TypedMention(start, word + 1, label, tuple(heads)))
        except (ValueError, LookupError):
            message = (
                f"Entity={shown(cell)}: expected such as (7-time-new-nnnnn-cf8-1-sgl)6) of the"
                f" fields {'-'.join(table.entity_fields)}, heads inside, each closed once"
            )
            raise table.fault(word, message, 10) from None
    for key, opened in stacks.items():
        if opened:
            message = f"Entity=({shown(key)} is never closed in this document"
            raise table.fault(opened[0][0], message, 10)
    return mentions


def select_named(mentions: Sequence[TypedMention], tags: Sequence[str]) -> list[TypedMention]:
    """The named mentions: those with a proper noun among their head's words."""
    return [m for m in mentions if any(tags[word] in _NAMES for word in m.minspan)]


def recognise(path: Path) -> Match | None:
    """By the folders of its two layers."""
    for root in (path, find_root(path)):
        if (root / "dep").is_dir() and (root / "coref" / "ontogum").is_dir():
            return Match(Evidence.LAYOUT, "it has the folders dep and coref/ontogum")
    return None


READER = Reader(
    name="ontogum",
    form="a folder of GUM with dep, coref/ontogum and splits.md",
    read=read,
    recognise=recognise,
    splits=SPLITS,
    data=(
        pinned(
            "ontogum",
            "GUM V11.1.0",
            "annotations CC BY 4.0, texts by genre (LICENSE.txt)",
            f"{RAW}/amir-zeldes/gum/72ce5ac14978a324c2fd18d49484e65292cbe316",
            "gum",
            (
                *(f"{layer}/*.conllu{end}" for layer in _LAYERS for end in ("", ".gz")),
                "splits.md",
            ),
            listed="gum",
        ),
    ),
)
