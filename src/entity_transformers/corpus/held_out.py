"""Dev and test for a corpus that names no splits: whole documents, or the end of a plain text."""

import hashlib
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import replace

from entity_transformers.corpus.document import CorpusError, Document, Split, slice_document

SHARE = 20
"""A twentieth of the corpus goes to each split that is held out."""
FEWEST = 5
"""Fewest documents of a split for which the report gives an interval and a verdict."""
LEAST = 200
"""Words that a part of plain text needs in order to count as one of these documents."""


def hold_out(documents: Sequence[Document], missing: Sequence[Split]) -> list[Document]:
    """Return the documents with a twentieth of train moved to each ``missing`` split, and with at
    least `FEWEST` documents moved to each where that leaves train the majority.

    Whole documents are drawn by a digest of their names if each split can have one and if there are
    at least ``SHARE`` or some have chains, tags or named entities. Otherwise, as with the chapters
    of one book, they are one text, whose end is cut off, and in parts, at sentence starts inside no
    mention. CorpusError if the text is too short for that.
    """
    train = [document for document in documents if document.split == "train"]
    others = [document for document in documents if document.split != "train"]
    plain = not any(one.mentions or one.tags or one.named_entities for one in train)
    names = {one.name for one in train}  # the parts of one name stay together
    if len(names) <= len(missing) or (plain and len(train) < SHARE):
        return [*_cut(train, missing), *others]
    fewest = FEWEST if 2 * FEWEST * len(missing) < len(names) else 1
    splits = draw_splits(names, missing, fewest)
    return [*(replace(one, split=splits[one.name]) for one in train), *others]


def draw_splits(names: Collection[str], held: Sequence[Split], fewest: int = 1) -> dict[str, Split]:
    """Assign names to splits by their digests: a twentieth of them, and at least ``fewest``, go to
    each of the splits ``held``, all others to train.
    """
    order = sorted(names, key=lambda name: hashlib.sha256(name.encode(errors="replace")).digest())
    share = max(fewest, round(len(order) / SHARE))
    splits: dict[str, Split] = dict.fromkeys(order, "train")
    for index, split in enumerate(held):
        splits |= dict.fromkeys(order[share * index : share * (index + 1)], split)
    return splits


def _cut(train: Sequence[Document], missing: Sequence[Split]) -> list[Document]:
    """Cut off the end of the text, a twentieth for each split, in the splits' order; `FEWEST` parts
    of `LEAST` words where that leaves train two thirds.
    """
    words = sum(len(one.words) for one in train)
    enough = FEWEST * LEAST if 3 * FEWEST * LEAST * len(missing) <= words else 0
    left = list(train)
    found: list[Document] = []
    for index, split in enumerate(reversed(missing)):
        share, size = max(words // SHARE, enough), sum(len(one.words) for one in left)
        left, tail = _split_at(left, min(words - (index + 1) * share, size - share // 2))
        if not left or not tail:
            raise CorpusError(
                f"no sentence of this text of {words} words begins near its end, where"
                f" {' and '.join(missing)} should begin: give a longer text"
            )
        # under a new name, since parts of the same name may be joined later
        named = (
            replace(one, name=f"{one.name} ({split})", part=part, split=split)
            for part, one in enumerate(_divide(tail) if enough else tail)
        )
        found = [*named, *found]
    return [*left, *found]


def _divide(text: list[Document]) -> list[Document]:
    """Divide the text into `FEWEST` similar parts, unless it already has as many documents."""
    if len(text) >= FEWEST:
        return text
    words, left, parts = sum(len(one.words) for one in text), text, list[Document]()
    for index in reversed(range(1, FEWEST)):
        left, part = _split_at(left, index * words // FEWEST)
        parts = [*part, *parts]
    return [*left, *parts]


def _split_at(text: Sequence[Document], wanted: int) -> tuple[list[Document], list[Document]]:
    """Split the text at the last start of a sentence among its first ``wanted`` words that is
    inside no mention or named entity.
    """
    before, after = list[Document](), list[Document]()
    for document in text:
        size, cut = len(document.words), 0
        if wanted >= size:
            cut = size
        elif wanted > 0:
            starts = document.sentence_starts[: bisect_right(document.sentence_starts, wanted)]
            spans = [(one.start, one.end) for one in document.mentions]
            spans += [(one.start, one.end) for one in document.named_entities or ()]
            cut = next(at for at in reversed(starts) if not any(a < at < b for a, b in spans))
        if cut:
            before.append(slice_document(document, 0, cut))
        if cut < size:
            after.append(slice_document(document, cut, size))
        wanted -= size
    return before, after
