"""Reading, checking and aligning a corpus of CoNLL-2012's size, against reading it as one Python object a row.

Makes 1.6 million words with the sample generator, writes them in the official layout, and prints seconds, peak memory and
the ratio to the peer (rows as objects, as in the usual readers), interleaved; and the time at a quarter of the size.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from entity_transformers.corpus.alignment import align_split, learn_tokenizer
from entity_transformers.corpus.readers import read_corpus
from entity_transformers.corpus.sample import generate_corpus

WORDS = int(sys.argv[1]) if len(sys.argv) > 1 else 1_600_000
ROUNDS = 3


@dataclass
class Row:
    """A token as the usual readers keep it."""

    document: str
    part: int
    index: int
    word: str
    tag: str
    parse: str
    lemma: str
    speaker: str
    named_entity: str
    coreference: str


@dataclass
class Sentence:
    """A sentence of rows with the spans found in them."""

    rows: list[Row] = field(default_factory=list)
    coreference: list[tuple[int, tuple[int, int]]] = field(default_factory=list)
    named_entities: list[str] = field(default_factory=list)


def read_rows_as_objects(folder: Path) -> Iterator[Sentence]:
    """The peer: every row an object, every bracket looked at character by character of its column, as in AllenNLP's style."""
    for path in sorted(folder.rglob("*_conll")):
        sentence = Sentence()
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("#"):
                continue
            if not line.strip():
                yield finish(sentence)
                sentence = Sentence()
                continue
            c = line.split()
            sentence.rows.append(Row(c[0], int(c[1]), int(c[2]), c[3], c[4], c[5], c[6], c[9], c[10], c[-1]))


def finish(sentence: Sentence) -> Sentence:
    """Spans of a sentence by stacks, and its named entities as IOB tags."""
    stacks: dict[int, list[int]] = {}
    inside = None
    for i, row in enumerate(sentence.rows):
        for part in row.coreference.split("|") if row.coreference != "-" else []:
            number = int(part.strip("()"))
            if part.startswith("("):
                stacks.setdefault(number, []).append(i)
            if part.endswith(")"):
                sentence.coreference.append((number, (stacks[number].pop(), i)))
        label = row.named_entity.strip("()*")
        if "(" in row.named_entity:
            inside = label
            sentence.named_entities.append(f"B-{label}")
        else:
            sentence.named_entities.append(f"I-{inside}" if inside else "O")
        if ")" in row.named_entity:
            inside = None
    return sentence


def write_files(folder: Path, words: int) -> None:
    """The generated corpus below ``folder``."""
    for name, text in generate_corpus(words, 1).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def timed(action: Callable[[], object]) -> float:
    """Seconds that ``action`` takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def read_ours(folder: Path) -> int:
    """Words read and checked."""
    return sum(len(document.words) for document in read_corpus("ontonotes", folder))


def align_ours(folder: Path) -> int:
    """Pieces after reading, checking and aligning everything, by a byte-pair encoder learnt on the dev split."""
    documents = list(read_corpus("ontonotes", folder))
    tokenizer = learn_tokenizer([d for d in documents if d.split == "dev"], 8000, "natural")
    splits = [[d for d in documents if d.split == split] for split in ("train", "dev", "test")]
    return sum(len(align_split(s, tokenizer, split="train", policy="outermost", spacing="natural").pieces) for s in splits)


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        whole, quarter = Path(name) / "whole", Path(name) / "quarter"
        write_files(whole, WORDS)
        write_files(quarter, WORDS // 4)
        pairs = [(timed(lambda: read_ours(whole)), timed(lambda: sum(1 for _ in read_rows_as_objects(whole)))) for _ in range(ROUNDS)]
        small = statistics.median(timed(lambda: read_ours(quarter)) for _ in range(ROUNDS))
        aligned = timed(lambda: align_ours(whole))
    ours = statistics.median(pair[0] for pair in pairs)
    ratio = statistics.median(peer / own for own, peer in pairs)
    print(f"words {WORDS:,}")
    print(f"read and check        {ours:6.2f} s   {ratio:.2f} times as fast as rows as objects (target 3)")
    print(f"a quarter of the text {small:6.2f} s   {ours / small:.2f} times less (linear: 4)")
    print(f"read, check, align    {aligned:6.2f} s   (target 30)")
    print(f"peak memory           {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:6.0f} MB  (target 1,500)")


if __name__ == "__main__":
    main()
