"""Tokens of a few documents on the page: means over seeds, texts, and the file between."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tiny import tiny_corpus

from entity_transformers.corpus.document import Document
from entity_transformers.report.excerpts import gather_excerpts
from entity_transformers.report.pictures import Pictures, parse_pictures, write_pictures

CORPUS = tiny_corpus(2, seed=3)
DOCUMENTS = [
    Document(name.partition("#")[0], 0, "test", "", tuple("w" * 50), (0,)) for name in CORPUS.names
]
N = len(CORPUS.tokens)
RUNS = {
    "gpt2": [{"off": np.full(N, 1.0, np.float32)}, {"off": np.full(N, 2.234, np.float32)}],
    "gpt2e": [
        {
            "off": np.arange(N, dtype=np.float32),
            "on": np.arange(N, dtype=np.float32) / 3,
            "entity": np.tile(np.int32([1, 2, 0]), (N, 1)),
            "share": np.tile(np.float32([0.5, first, 0]), (N, 1)),
        }
        for first in (0.1, 0.005)
    ],
}


def test_nats_are_means_and_shares_percents() -> None:
    found = gather_excerpts(CORPUS, DOCUMENTS, lambda tokens: f" {tokens}", RUNS)
    plain, on, off = found.scores
    assert [(s.model, s.entities, s.seeds) for s in found.scores] == [
        ("gpt2", "off", 2),
        ("gpt2e", "on", 2),
        ("gpt2e", "off", 2),
    ]
    lengths = [n - 1 for n in np.diff(CORPUS.offsets).tolist()]
    assert [len(page.tokens) for page in found.pages] == lengths
    assert plain.nats == tuple((1.62,) * n for n in lengths)
    assert off.nats[1][0] == CORPUS.offsets[1] + 1  # the first token is predicted from the start
    assert on.nats[0][:3] == (0.33, 0.67, 1.0)
    assert {read for page in on.read for read in page} == {((1, 50), (2, 5))}
    assert plain.read == off.read == ()
    assert found.pages[0].entities == tuple(CORPUS.gold[1 : CORPUS.offsets[1]].tolist())


def test_a_character_of_several_tokens_is_whole() -> None:
    text = "a–é!".encode()
    short = list(text)
    corpus = tiny_corpus(1, seed=3, shortest=len(short) + 1, longest=len(short) + 2)
    corpus.tokens[1:] = short
    decode = lambda tokens: bytes(tokens).decode("utf-8", "replace")  # noqa: E731
    page = gather_excerpts(corpus, DOCUMENTS[:1], decode, {}).pages[0]
    assert page.tokens == ("a", "", "", "–", "", "é", "!")


@pytest.mark.parametrize("there", [True, False])
def test_pictures_keep_them(there: bool) -> None:
    found = gather_excerpts(CORPUS, DOCUMENTS, lambda tokens: " a", RUNS) if there else None
    written = write_pictures(Pictures(excerpts=found))
    assert ("excerpts" in written) == there  # without them the file is as it was
    read = parse_pictures(json.loads(json.dumps(written)))
    assert read.excerpts == found
    assert write_pictures(read) == written
    with pytest.raises(ValueError, match=r"pictures.json: kept: .*: collect the pictures again"):
        parse_pictures(written | {"kept": 3})
