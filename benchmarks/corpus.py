"""Reading, checking and aligning a corpus of CoNLL-2012's size, compared with other readers.

Makes 1.6 million words with the sample generator, writes them in the official layout, and gives
seconds, peak memory and the ratio to a peer: what the reader of HF's conll2012_ontonotesv5 makes of
a sentence (words, lemmas, senses, speakers, the tree as text, every predicate's labels, chains).
Below it stands the floor of any reader in Python: every line read and split, nothing made of it.
The generated trees are flat and a predicate's labels are (V*) alone, which favours the peer: real
trees and frames cost it more, and us only their width.
"""

from __future__ import annotations

import resource
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from common import Column, Report, Sides, interleave, make_parser, ratios, write_sample

from entity_transformers.corpus.alignment import align_split, learn_tokenizer
from entity_transformers.corpus.readers import read_corpus

COLUMNS = {
    "time": Column("time", "s"),
    "ratio": Column("ratio", "ratio"),
    "memory": Column("memory", "MB"),
}


@dataclass
class Annotated:
    """A sentence with all that the usual readers keep of it."""

    document: str
    part: int
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    parse: list[str] = field(default_factory=list)
    lemmas: list[str | None] = field(default_factory=list)
    framesets: list[str | None] = field(default_factory=list)
    senses: list[float | None] = field(default_factory=list)
    speakers: list[str | None] = field(default_factory=list)
    predicates: list[str] = field(default_factory=list)
    labels: list[list[str]] = field(default_factory=list)
    frames: list[tuple[str, list[str]]] = field(default_factory=list)
    coreference: set[tuple[int, tuple[int, int]]] = field(default_factory=set)
    tree: str = ""


def read_annotated(folder: Path) -> Iterator[list[Annotated]]:
    """The peer: annotated sentences of each part, written anew after what HF's reader builds."""
    for path in sorted(folder.rglob("*_conll")):
        with path.open(encoding="utf-8") as file:
            part: list[Annotated] = []
            rows: list[str] = []
            for raw in file:
                line = raw.strip()
                if line and not line.startswith("#"):
                    rows.append(line)
                    continue
                if rows:
                    part.append(annotate(rows))
                    rows = []
                if line.startswith("#end document"):
                    yield part
                    part = []


def annotate(rows: list[str]) -> Annotated:
    """A sentence of its rows."""
    first = rows[0].split()
    sentence = Annotated(first[0], int(first[1]), labels=[[] for _ in first[10:-1]])
    current: list[str | None] = [None] * len(sentence.labels)
    opened: dict[int, list[int]] = defaultdict(list)
    clusters: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for index, row in enumerate(rows):
        c = row.split()
        add_columns(sentence, c)
        add_labels(sentence.labels, current, c[10:-1])
        if any("(V" in cell for cell in c[11:-1]):
            sentence.predicates.append(c[3])
        add_chains(clusters, opened, c[-1], index)
    sentence.frames = list(zip(sentence.predicates, sentence.labels[1:], strict=False))
    sentence.coreference = {(chain, span) for chain, spans in clusters.items() for span in spans}
    sentence.tree = "".join(sentence.parse)
    return sentence


def add_columns(sentence: Annotated, c: list[str]) -> None:
    """One row's word, tag, token of the tree, lemma, frameset, sense and speaker; "-" is None."""
    word = {"(": "-LRB-", ")": "-RRB-"}.get(c[3], c[3])
    before, _, after = c[5].partition("*")
    sentence.words.append(c[3])
    sentence.tags.append(c[4])
    sentence.parse.append(f"{before} ({c[4]} {word}){after}")
    sentence.lemmas.append(None if c[6] == "-" else c[6])
    sentence.framesets.append(None if c[7] == "-" else c[7])
    sentence.senses.append(None if c[8] == "-" else float(c[8]))
    sentence.speakers.append(None if c[9] == "-" else c[9])


def add_labels(labels: list[list[str]], current: list[str | None], cells: list[str]) -> None:
    """One row's BIO labels: the named entity's and one for each predicate of the sentence."""
    for i, cell in enumerate(cells):
        label = cell.strip("()*")
        if "(" in cell:
            labels[i].append(f"B-{label}")
            current[i] = label
        else:
            labels[i].append("O" if current[i] is None else f"I-{current[i]}")
        if ")" in cell:
            current[i] = None


def add_chains(
    clusters: dict[int, list[tuple[int, int]]], opened: dict[int, list[int]], cell: str, index: int
) -> None:
    """One row's brackets, a stack a chain."""
    for bracket in cell.split("|") if cell != "-" else []:
        chain = int(bracket.strip("()"))
        if bracket[0] == "(" and bracket[-1] == ")":
            clusters[chain].append((index, index))
        elif bracket[0] == "(":
            opened[chain].append(index)
        else:
            clusters[chain].append((opened[chain].pop(), index))


def split_lines(folder: Path) -> int:
    """The floor: fields of every line, at once forgotten."""
    fields = 0
    for path in sorted(folder.rglob("*_conll")):
        with path.open(encoding="utf-8") as file:
            fields += sum(len(line.split()) for line in file)
    return fields


def read_ours(folder: Path) -> int:
    """Words read and checked."""
    return sum(len(document.words) for document in read_corpus("ontonotes", folder))


def align_ours(folder: Path) -> int:
    """Tokens after reading, checking and aligning everything, by a byte-pair encoder learnt on the
    dev split.
    """
    documents = list(read_corpus("ontonotes", folder))
    tokenizer = learn_tokenizer([d for d in documents if d.split == "dev"], 8000, "natural")
    splits = [[d for d in documents if d.split == split] for split in ("train", "dev", "test")]
    return sum(
        len(align_split(s, tokenizer, split="train", policy="outermost", spacing="natural").tokens)
        for s in splits
    )


OURS, QUARTER = "read and check", "read and check a quarter"
PEER, FLOOR = "like HF's reader (tree as text)", "lower bound: lines split, nothing kept"
READERS: dict[str, Callable[[Path], object]] = {
    OURS: read_ours,
    PEER: lambda folder: sum(map(len, read_annotated(folder))),
    FLOOR: split_lines,
}


def main() -> None:
    """Measure and print."""
    options = make_parser(__doc__, __file__, words=1_600_000, rounds=3).parse_args()
    report = Report(__doc__, COLUMNS, options, packages=("tokenizers", "numpy"))
    with tempfile.TemporaryDirectory() as name:
        whole, quarter = Path(name) / "whole", Path(name) / "quarter"
        write_sample(whole, options.words)
        write_sample(quarter, options.words // 4)
        sides: Sides = {label: partial(action, whole) for label, action in READERS.items()}
        sides[QUARTER] = partial(read_ours, quarter)
        times = interleave(sides, options.rounds, warm_up=False)
        align = interleave({"": partial(align_ours, whole)}, 1, warm_up=False)[""]
        report.head["settings"]["columns per word"] = round(split_lines(whole) / options.words, 1)
    ours = times[OURS].wall
    for label in READERS:
        peer: dict[str, Any] = {} if label == OURS else {"ratio": ratios(times[label].wall, ours)}
        target = 3 if label == PEER else None
        report.row(label, **peer, time=times[label].wall, ratio_of=OURS, at_least=target)
    linear = ratios(ours, times[QUARTER].wall)
    report.row(QUARTER, time=times[QUARTER].wall)
    report.row("whole / quarter (linear: 4)", ratio=linear, ratio_of=QUARTER)
    report.row("read, check, align", time=align.wall[0], at_most=30)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    report.row("peak memory of the process", memory=peak, at_most=1500)
    report.write()


if __name__ == "__main__":
    main()
