"""WinoBias (Zhao et al., 2018): two occupations and a pronoun, once of the stereotypical gender and
once of the other. Type 1 requires world knowledge, type 2 is decided by syntax.

The files are in CoNLL-2012's format, with one chain of the correct occupation and the pronoun; the
other occupation is found by its name. The pronoun is replaced by an occupation as it stands in the
sentence, with 's for *his*, and for *her* where the sentence's other version has *his*.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

from entity_transformers.corpus.conll2012 import read_rows
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.sources import RAW, pinned
from entity_transformers.corpus.tasks import Example, Task, read_each, read_lines
from entity_transformers.corpus.tasks.pronouns import GENDERS, is_possessive, write_option

_COMMIT = "0bce984dd081bbc10b0622f326727a024c607895"
_WINOBIAS = f"{RAW}/uclanlp/corefBias/{_COMMIT}/WinoBias/wino/data"
_SPLITS, _TYPES, _VERSIONS = ("dev", "test"), ("1", "2"), ("pro", "anti")
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


def read(root: Path, ledger: Ledger) -> Iterator[Example]:
    """Yield all sentences of the eight files; ``groups`` holds the type, the version and the
    pronoun's gender. The two versions of a sentence share a number.
    """
    for split, kind in product(_SPLITS, _TYPES):
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
            yield from read_each(rows, _make_example, ledger)


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


def _make_example(sentence: Sentence) -> Example:
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


TASK = Task(
    pinned("winobias", "WinoBias", "MIT", _WINOBIAS, "winobias", ("conll_format/*_conll",)),
    "pronoun",
    ("dev", "test"),
    read,
)
