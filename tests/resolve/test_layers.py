"""A resolver's answers as documents and as labels of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from entity_transformers.artifacts import read_arrays, write_arrays, write_json_lines
from entity_transformers.corpus.alignment import AlignedCorpus, align_split, learn_tokenizer
from entity_transformers.corpus.document import Document, Mention, to_row
from entity_transformers.corpus.labels import give
from entity_transformers.corpus.readers import read_corpus
from entity_transformers.resolve.base import Overlaps, Resolver, ResolverError
from entity_transformers.resolve.layers import Summary, add_layer, annotate
from entity_transformers.resolve.registry import make_resolver

TEXTS = (
    "then Mr. Darcy bowed to Jane and Jane smiled at Darcy .",
    "so Ada Byron wrote ; later Ada slept .",
)
DOCUMENTS = [
    Document(f"d{i}", 0, "train", "", tuple(text.split()), (0,), mentions=(Mention(0, 3, 1),))
    for i, text in enumerate(TEXTS)
]


def write_annotated(
    documents: Sequence[Document], resolver: Resolver, path: Path, overlaps: Overlaps = "keep"
) -> Summary:
    summary = Summary()
    write_json_lines(path, map(to_row, annotate(documents, resolver, overlaps, summary)))
    return summary


@dataclass
class Fixed:
    """The same spans for every document."""

    answer: Sequence[Mention]
    name: str = "fixed"
    causal: bool = False

    def resolve(self, document: Document) -> Sequence[Mention]:
        return self.answer

    def unused(self) -> list[str]:
        return ["e#0"]


@pytest.fixture
def corpus() -> AlignedCorpus:
    tokenizer = learn_tokenizer(DOCUMENTS, 300, "natural")
    return align_split(DOCUMENTS, tokenizer, split="train", policy="outermost", spacing="natural")


def test_the_layer_is_gold_of_the_resolver_s_documents(corpus: AlignedCorpus) -> None:
    resolver = make_resolver("names")
    layered, summary = add_layer(corpus, DOCUMENTS, resolver, "outermost")
    labels = layered.layers["resolver:names"]
    resolved = list(annotate(DOCUMENTS, resolver, "keep", Summary()))
    tokenizer = learn_tokenizer(DOCUMENTS, 300, "natural")
    again = align_split(resolved, tokenizer, split="train", policy="outermost", spacing="natural")
    assert labels.dtype == corpus.gold.dtype
    assert labels.tolist() == again.gold.tolist() != corpus.gold.tolist()
    assert np.array_equal(layered.gold, corpus.gold)
    assert (summary.counts["mentions"], summary.counts["entities"]) == (6, 3)
    per_word = {
        int(w): int(n) for w, n in zip(corpus.words[corpus.document(0)], labels, strict=False)
    }
    assert per_word == {
        -1: 0,
        0: 0,
        1: 1,
        2: 1,
        3: 0,
        4: 0,
        5: 2,
        6: 0,
        7: 2,
        8: 0,
        9: 0,
        10: 1,
        11: 0,
    }


def test_the_layer_is_stored_and_given_by_its_name(corpus: AlignedCorpus, tmp_path: Path) -> None:
    layered, _ = add_layer(corpus, DOCUMENTS, make_resolver("names"), "outermost")
    write_arrays(tmp_path / "train.safetensors", *layered.arrays())
    assert "resolver:names" in read_arrays(tmp_path / "train.safetensors")[0]
    read = AlignedCorpus.load(tmp_path / "train.safetensors")
    given = give(read, "resolver:names")
    assert np.array_equal(given.given, layered.layers["resolver:names"])
    with pytest.raises(ValueError, match=r"no labels 'resolver:stanza', it has .*resolver:names"):
        give(read, "resolver:stanza")


def test_other_documents_are_refused(corpus: AlignedCorpus) -> None:
    resolver = make_resolver("names")
    with pytest.raises(ResolverError, match="aligned from 2 documents, 1 are given"):
        add_layer(corpus, DOCUMENTS[:1], resolver, "outermost")
    with pytest.raises(ResolverError, match="d0#0 where d1#0 is given"):
        add_layer(corpus, DOCUMENTS[::-1], resolver, "outermost")
    longer = replace(DOCUMENTS[1], words=(*DOCUMENTS[1].words, "!"))
    with pytest.raises(ResolverError, match="d1#0: 9 words are aligned, 10 given"):
        add_layer(corpus, [DOCUMENTS[0], longer], resolver, "outermost")


def test_annotated_documents_are_read_as_a_corpus(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    summary = write_annotated(DOCUMENTS, make_resolver("names"), path)
    read = list(read_corpus("jsonl", path))
    assert [d.words for d in read] == [d.words for d in DOCUMENTS]
    assert read[0].mentions == (
        Mention(1, 3, 1), Mention(5, 6, 2), Mention(7, 8, 2), Mention(10, 11, 1),
    )  # fmt: skip
    assert summary.lines() == ["2 documents, 21 words, 6 mentions, 3 entities, 0 overlaps"]


def test_what_was_lost_is_told(tmp_path: Path) -> None:
    nested = Fixed([Mention(0, 4, 1), Mention(1, 2, 2), Mention(2, 3, 2)])
    summary = write_annotated(DOCUMENTS * 4, nested, tmp_path / "kept.jsonl")
    assert summary.counts["overlaps"] == 16
    assert "lost_mentions" not in summary.counts
    lines = summary.lines()
    assert lines[1] == (
        "d0#0, words 1-2 'Mr.' of entity 2 lies inside words 0-4 'then Mr. Darcy bowed' of entity 1"
    )
    assert lines[-2:] == ["and 6 more overlaps", "no document asked for e#0"]
    summary = write_annotated(DOCUMENTS, nested, tmp_path / "flat.jsonl", "outermost")
    assert summary.counts["lost_mentions"] == 4
    assert summary.counts["lost_chains"] == 2
    with pytest.raises(ResolverError, match="lies inside"):
        write_annotated(DOCUMENTS, nested, tmp_path / "none.jsonl", "refuse")
    assert not (tmp_path / "none.jsonl").exists()
