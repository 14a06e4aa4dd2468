"""GUM and OntoGUM: words, tags, spaces and typed entities from ``dep/``, OntoNotes-scheme chains
from ``coref/ontogum/conllu/``.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from entity_transformers.corpus.document import (
    SPLITS,
    CorpusError,
    Document,
    NamedEntity,
    Split,
    make_document,
)
from entity_transformers.corpus.files import find_packed, find_root, open_lines, shown
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.readers import Evidence, Match, Reader, conllu
from entity_transformers.corpus.readers.conllu import (
    Table,
    match_brackets,
    read_mentions,
    split_documents,
)
from entity_transformers.corpus.sources import RAW, pinned

_LAYERS = ("dep", "coref/ontogum/conllu")
_NAMES = frozenset(("NNP", "NNPS"))


def read(root: Path, ledger: Ledger) -> Iterator[Document]:
    """Yield the documents of a GUM folder, by name. An excluded document is not even opened.

    CorpusError for a folder without documents or ``splits.md``; a bad document raises it or is
    recorded.
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
        with ledger.recording(f"{name}#0"):
            dep = read_table(open_lines(path), str(path))
            check_text(name, dep)
            if name not in layer or name not in splits:
                what = "chains in coref/ontogum" if name not in layer else "split in splits.md"
                raise CorpusError(
                    f"{path}: {name} has no {what}: add it, or name it in corpus.exclude"
                )
            chains = read_table(open_lines(layer[name]), str(layer[name]))
            yield join_layers(name, splits[name], dep, chains, ledger)
    ledger.reject_missing(
        (splits.keys() | layer.keys()) - files.keys(),
        root / "dep",
        "splits.md or coref/ontogum names",
    )


def read_splits(lines: Iterable[str], source: str) -> dict[str, Split]:
    """Return each document's split, from the lists in splits.md below ``## train`` and so on."""
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


def read_table(lines: Iterable[str], source: str) -> Table:
    """Return the table of the only document of a file."""
    blocks = list(split_documents(lines))
    if len(blocks) != 1:
        names = " and ".join(shown(block.name) for block in blocks) or "no document"
        raise CorpusError(f"{source}: holds {names}, expected one document per file")
    return conllu.read_table(blocks[0], source)


def check_text(name: str, dep: Table) -> None:
    """Refuse the table of another document, a blanked-out text and a word without a tag."""
    if dep.name != name:
        raise CorpusError(
            f"{dep.source}: # newdoc id = {shown(dep.name)}, expected {name} as in the file name"
        )
    for word, form in enumerate(dep.words):
        if len(form) > 1 and not form.strip("_"):
            message = (
                f"the word is {shown(form)}: a blanked text (GUM publishes reddit without its"
                " words): name it in corpus.exclude, e.g. GUM_reddit_*"
            )
            raise dep.fault(dep.lines[word], message, 2)
    if "_" in dep.tags:
        line = dep.lines[dep.tags.index("_")]
        raise dep.fault(line, "'_', expected a Penn Treebank tag", 5)


def join_layers(name: str, split: str, dep: Table, chains: Table, ledger: Ledger) -> Document:
    """Return the document of its two tables; CorpusError if they differ."""
    for word, (ours, theirs) in enumerate(zip(dep.words, chains.words, strict=False)):
        if ours != theirs:
            place = f"{dep.source}, line {dep.lines[word]}"
            message = f"the word is {shown(theirs)}, expected {shown(ours)} as in {place}"
            raise chains.fault(chains.lines[word], message, 2)
    if (len(dep.words), dep.sentence_starts) != (len(chains.words), chains.sentence_starts):
        raise CorpusError(
            f"{chains.source}: words or sentences differ from {dep.source}: is the file truncated?"
        )
    entities = [entity for entity, is_name in match_typed(dep) if is_name]
    parts = name.split("_")
    return make_document(
        name,
        split,
        dep.words,
        dep.sentence_starts,
        read_mentions(chains, ledger),
        genre=parts[1] if len(parts) > 2 else "",  # bio in GUM_bio_byron
        tags=dep.tags,
        spaces=dep.space_after,
        named_entities=entities,
    )


def match_typed(table: Table) -> list[tuple[NamedEntity, bool]]:
    """Return the mentions of the GUM layer with their types, and whether each is a name, with a
    proper noun among the words of its head. CorpusError for a bracket without a partner, or without
    fields for type and head.
    """
    found, unmatched = match_brackets(table)
    for line, message in unmatched:
        raise table.fault(line, f"{message} in this document", 10)
    mentions = []
    for one in found:
        try:
            heads = [one.start + int(word) - 1 for word in one.fields["minspan"].split(",")]
            if not one.start <= min(heads) <= max(heads) < one.end:
                raise ValueError
            label = one.fields["etype"].upper()
        except (ValueError, LookupError):
            message = (
                f"({shown('-'.join(one.fields.values()))}: expected a type (etype) and the head's"
                " words inside the mention (minspan), as in (7-time-new-nnnnn-cf8-1-sgl)"
            )
            raise table.fault(one.line, message, 10) from None
        is_name = any(table.tags[word] in _NAMES for word in heads)
        mentions.append((NamedEntity(one.start, one.end, label), is_name))
    return mentions


def recognise(path: Path) -> Match | None:
    """Recognise the folders of the two layers."""
    for root in (path, find_root(path)):
        if (root / "dep").is_dir() and (root / "coref" / "ontogum").is_dir():
            return Match(Evidence.LAYOUT, "it has the folders dep and coref/ontogum")
    return None


READER = Reader(
    name="ontogum",
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
            (*(f"{layer}/*.conllu{end}" for layer in _LAYERS for end in ("", ".gz")), "splits.md"),
            listed="gum",
        ),
    ),
)
