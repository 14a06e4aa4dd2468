"""Tasks of a pronoun or a blank and the candidates for its place: Winograd schemas, Winogrande,
WinoBias and GAP. A candidate is written as it would stand there, with 's or without, in lower case
or not.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import groupby, product
from pathlib import Path

from entity_transformers.corpus.conll2012 import read_rows
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.sources import RAW, pinned
from entity_transformers.corpus.tasks import Example, Task, read_each, read_lines

GENDERS = {
    **dict.fromkeys(("he", "him", "his", "himself"), "masculine"),
    **dict.fromkeys(("she", "her", "hers", "herself"), "feminine"),
}
"""The gender of a pronoun, as GAP and WinoBias annotate it."""
_POSSESSIVE = frozenset(("my", "his", "our", "their", "its", "hers"))
_ARTICLES = frozenset(("the", "a", "an", "she", "he", "it", "they", "my", "his", "her", "their"))
_NO_NOUN = frozenset(
    (
        "to for and or but because that if when while as at in on with from by about of into over"
        " up out down after before since until who which where why how what so then than a an the"
        " this these some any all it he she they him them his is was were are be been had has have"
        " did does do would could will can may might should not again back away too also either"
        " yet still there here now soon just although though through during without under against"
        " behind around off across along toward towards inside onto upon via despite like more"
        " very really once home well alone something nothing someone one every many later"
    ).split()
)
"""Words that begin no noun phrase after a possessive."""


def is_possessive(pronoun: str, following: str) -> bool:
    """Whether the pronoun stands for a possessor. *her* is an object if a mark, a function word or
    a word in -ly follows, otherwise a possessive.
    """
    if pronoun.lower() != "her":
        return pronoun.lower() in _POSSESSIVE
    word = re.match(r"\s*([\w'-]*)", following)
    found = word[1].lower() if word else ""
    return bool(found.strip("'")) and found not in _NO_NOUN and not found.endswith("ly")


def write_option(candidate: str, before: str, possessive: bool) -> str:
    """Write a candidate as it stands after the text ``before``: its article is capitalised only at
    the start of a sentence, and a possessor takes 's.

    This is the rule of lm-evaluation-harness for wsc273; there only a full stop ends a sentence.
    """
    first, space, rest = candidate.partition(" ")
    if first.lower() in _ARTICLES and space:
        begins = not before.strip() or before.rstrip()[-1] in ".!?"
        first = first.capitalize() if begins else first.lower()
    return first + space + rest + ("'s" if possessive else "")


_WSC273_COMMIT = "72486e3223baa48b843bd6f39447f1937674024e"
_WSC273 = f"{RAW}/vid-koci/bert-commonsense/{_WSC273_COMMIT}/data"
_MASK = "[MASK]"
_POSSESSED = frozenset(
    (
        'education place empty bathroom "Dibs!" bishop. turn shoulders. bunk back, toy. silence.'
        " concentration. legs arms bassinet. chest will. boyfriend."
    ).split()
)
"""The words that follow [MASK] where it replaces *his* or *her* before a possessed noun. The file
omits the pronoun; these are the 26 schemas of the original collection with a possessive there.
"""
Block = tuple[int, list[str]]
"""The number of a block, counted from 1, and its lines."""


def _read_wsc273(root: Path, ledger: Ledger) -> Iterator[Example]:
    """Yield the blocks, all test: the sentence, [MASK], both candidates, and the right one."""
    return read_each(_split_blocks(root), _make_wsc273, ledger)


def _split_blocks(root: Path) -> Iterator[tuple[str, Block]]:
    lines = read_lines(root, "wsc273.txt")
    number = 0
    for filled, group in groupby(lines, key=lambda line: bool(line[1].strip())):
        if filled:
            block, number = list(group), number + 1
            yield block[0][0], (number, [line for _, line in block])


def _make_wsc273(block: Block) -> Example:
    number, (sentence, mask, candidates, right) = block
    before, after = (" ".join(part.split()) for part in sentence.split(mask.strip()))
    # sorted, since the file always has the right candidate first
    named = sorted(part.strip() for part in candidates.split(","))
    possessive = after.split()[0] in _POSSESSED
    start = before + " " * bool(before)
    text = start + _MASK + ("" if after[0] in ".,;!?" else " ") + after
    return Example(
        name=str(number),
        split="test",
        texts=(text,),
        label=named.index(right.strip()),
        options=tuple(write_option(option, before, possessive) for option in named),
        blank=(len(start), len(start) + len(_MASK)),
    )


WSC273 = Task(
    pinned("wsc273", "WSC273", "CC BY 4.0", _WSC273, "wsc273", ("wsc273.txt",)),
    "pronoun",
    _read_wsc273,
    splits=("test",),
)

_WINOGRANDE = f"{RAW}/zhang-edward/WinoGrande/ea61adace986f13f152757273a9b0840887efe65/data"
_WINOGRANDE_FILES = ("train_l.jsonl", "dev.jsonl")
_DEV_TENTH = 10


def _read_winogrande(root: Path, ledger: Ledger) -> Iterator[Example]:
    """Yield the examples: every tenth pair of twins of train_l is dev, the rest train; the authors'
    dev is test, since their own test set has no answers.
    """
    twins: dict[str, int] = {}
    for example in read_each(read_lines(root, "train_l.jsonl"), _make_winogrande, ledger):
        pair = twins.setdefault(example.name.rpartition("-")[0], len(twins))
        yield example if (pair + 1) % _DEV_TENTH else replace(example, split="dev")
    for example in read_each(read_lines(root, "dev.jsonl"), _make_winogrande, ledger):
        yield replace(example, split="test")


def _make_winogrande(line: str) -> Example:
    row = json.loads(line)
    before, after = row["sentence"].split("_")
    options = (row["option1"], row["option2"])
    if not after.strip() or any(one.lower() not in row["sentence"].lower() for one in options):
        raise ValueError("expected both options in the sentence, and words after its blank")
    return Example(
        name=row["qID"],
        split="train",
        texts=(row["sentence"],),
        label=("1", "2").index(row["answer"]),
        options=options,
        blank=(len(before), len(before) + 1),
    )


WINOGRANDE = Task(
    pinned("winogrande", "Winogrande 1.1", "CC BY", _WINOGRANDE, "winogrande", _WINOGRANDE_FILES),
    "pronoun",
    _read_winogrande,
)

_WINOBIAS_COMMIT = "0bce984dd081bbc10b0622f326727a024c607895"
_WINOBIAS = f"{RAW}/uclanlp/corefBias/{_WINOBIAS_COMMIT}/WinoBias/wino/data"
_WINOBIAS_SPLITS, _TYPES, _VERSIONS = ("dev", "test"), ("1", "2"), ("pro", "anti")
OCCUPATIONS = (
    "accountant", "analyst", "assistant", "attendant", "auditor", "baker", "carpenter", "cashier",
    "ceo", "chief", "cleaner", "clerk", "construction worker", "cook", "counselor", "designer",
    "developer", "driver", "editor", "farmer", "guard", "hairdresser", "housekeeper", "janitor",
    "laborer", "lawyer", "librarian", "manager", "mechanic", "mover", "nurse", "physician",
    "receptionist", "salesperson", "secretary", "sheriff", "supervisor", "tailor", "teacher",
    "writer",
)  # fmt: skip
_OCCUPATION = re.compile(rf"\b(?:(?:the|a|an) )?({'|'.join(OCCUPATIONS)})\b", re.IGNORECASE)
_BEGIN = re.compile(r"#begin document \((.*)\);")
Sentence = tuple[Document, Document | None, str, Mapping[str, str]]
"""A document of one sentence, its other version, its split, and its type and version."""


def _read_winobias(root: Path, ledger: Ledger) -> Iterator[Example]:
    """Yield all sentences of the eight files; ``groups`` holds the type, the version and the
    pronoun's gender. The two versions of a sentence share a number.
    """
    for split, kind in product(_WINOBIAS_SPLITS, _TYPES):
        found = {
            version: dict(_read_file(root, f"{split}_type{kind}_{version}_stereotype", ledger))
            for version in _VERSIONS
        }
        for version, other in zip(_VERSIONS, reversed(_VERSIONS), strict=True):
            groups = {"type": kind, "version": version}
            rows = [
                (where, (document, found[other].get(number, (None, ""))[0], split, groups))
                for number, (document, where) in found[version].items()
            ]
            yield from read_each(rows, _make_winobias, ledger)


def _read_file(root: Path, name: str, ledger: Ledger) -> Iterator[tuple[str, tuple[Document, str]]]:
    """Yield the number of each sentence, with its document and its place in the file."""
    file = f"conll_format/{name}.v4_auto_conll"
    begins: dict[str, str] = {}

    def list_lines() -> Iterator[str]:
        for where, line in read_lines(root, file):
            if begin := _BEGIN.match(line):
                begins[begin[1]] = where
            yield f"{line}\n"

    for document in read_rows(list_lines(), f"{root}, {file}", ledger=ledger):
        yield document.name.rpartition("/")[2], (document, begins[document.name])


def _make_winobias(sentence: Sentence) -> Example:
    from entity_transformers.corpus.alignment import spaced_words  # loads NumPy

    document, twin, split, groups = sentence
    words = document.words
    place = next(m.start for m in document.mentions if words[m.start].lower() in GENDERS)
    named = next(m for m in document.mentions if words[m.end - 1].lower() not in GENDERS)
    pieces, word = spaced_words(document, "natural"), words[place]
    before = "".join(pieces[:place])
    start = len(before) + len(pieces[place]) - len(pieces[place].lstrip())
    candidates = {match[1].lower(): match[0] for match in _OCCUPATION.finditer(before)}
    right = _OCCUPATION.findall(" ".join(words[named.start : named.end]))
    if len(candidates) != 2:
        raise ValueError(f"has {', '.join(candidates)} before {word}, expected two occupations")
    possessive = _has_possessor(document, twin, place)
    number = document.name.rpartition("/")[2]
    return Example(
        name=f"{split}-{groups['type']}-{number}-{groups['version']}",
        split=split,
        texts=("".join(pieces),),
        label=list(candidates).index(right[0].lower()),
        options=tuple(write_option(one, before, possessive) for one in candidates.values()),
        blank=(start, start + len(word)),
        groups={**groups, "gender": GENDERS[word.lower()]},
    )


def _has_possessor(document: Document, twin: Document | None, place: int) -> bool:
    """Whether the pronoun at a place stands for a possessor. For *her* the sentence's other version
    decides, provided that it has as many words.
    """
    word, following = document.words[place], document.words[place + 1 : place + 2]
    if word.lower() == "her" and twin is not None and len(twin.words) == len(document.words):
        word = twin.words[place]
    return is_possessive(word, "".join(following))


WINOBIAS = Task(
    pinned("winobias", "WinoBias", "MIT", _WINOBIAS, "winobias", ("conll_format/*_conll",)),
    "pronoun",
    _read_winobias,
    splits=("dev", "test"),
)

_GAP_COMMIT = "83135f26025cdd705c04f77e940d0c9201116b80"
_GAP = f"{RAW}/google-research-datasets/gap-coreference/{_GAP_COMMIT}"
_GAP_FILES = {"train": "development", "dev": "validation", "test": "test"}


def _read_gap(root: Path, ledger: Ledger) -> Iterator[Example]:
    """Yield the examples; the authors' development file is train, their validation file dev."""
    for split, file in _GAP_FILES.items():
        lines = read_lines(root, f"gap-{file}.tsv")
        names = next(lines, ("", ""))[1].split("\t")
        rows = ((where, dict(zip(names, line.split("\t"), strict=False))) for where, line in lines)
        yield from read_each(rows, partial(_make_gap, split), ledger)


def _make_gap(split: str, row: Mapping[str, str]) -> Example:
    text, pronoun, start = row["Text"], row["Pronoun"], int(row["Pronoun-offset"])
    end = start + len(pronoun)
    if text[start:end] != pronoun:
        raise ValueError("the pronoun is not at its offset")
    right = [("FALSE", "TRUE").index(row[f"{name}-coref"]) for name in "AB"]
    if sum(right) == 2:
        raise ValueError("A-coref and B-coref are both TRUE")
    possessive = is_possessive(pronoun, text[end:])
    return Example(
        name=row["ID"],
        split=split,
        texts=(text,),
        label=right.index(1) if any(right) else None,
        options=tuple(write_option(row[name], text[:start], possessive) for name in "AB"),
        blank=(start, end),
        groups={"gender": GENDERS[pronoun.lower()]},
    )


GAP = Task(
    pinned("gap", "GAP", "Apache 2.0, text CC BY-SA", _GAP, "gap-coreference", ("gap-*.tsv",)),
    "pronoun",
    _read_gap,
)
