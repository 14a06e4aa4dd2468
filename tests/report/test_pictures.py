"""Table 1's example, names of entities, tokens of a few documents, and pictures.json between."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from tiny import tiny_corpus

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.report import pictures

DULL = Document("dull", 0, "test", "", ("It", "rained", ".", "It", "rained", "on", "."), (0, 3))
STORY = Document(
    "story", 1, "test", "", tuple("Rain fell . Ada saw the swan and she smiled .".split()), (0, 3),
    mentions=(Mention(3, 4, 8), Mention(5, 7, 5), Mention(8, 9, 8)),
    tags=tuple("NN VBD . NNP VBD DT NN CC PRP VBD .".split()),
)  # fmt: skip


@dataclass
class Tokens:
    """A split aligned by hand: one token per word, two for words of six letters or more."""

    tokens: np.ndarray
    gold: np.ndarray
    words: np.ndarray
    offsets: list[int]
    texts: list[str]

    def document(self, number: int) -> slice:
        return slice(self.offsets[number], self.offsets[number + 1])


def align(documents: list[Document]) -> Tokens:
    rows, offsets, texts = [], [0], ["<|endoftext|>"]
    for document in documents:
        chains = dict.fromkeys(m.chain for m in document.mentions)
        ids = {chain: i for i, chain in enumerate(chains, 1)}
        rows.append((0, 0, -1))
        for index, word in enumerate(document.words):
            entity = next((ids[m.chain] for m in document.mentions if m.start <= index < m.end), 0)
            for text in (f" {word[:4]}", word[4:]) if len(word) > 5 else (f" {word}",):
                rows.append((len(texts), entity, index))
                texts.append(text)
        offsets.append(len(rows))
    return Tokens(*np.reshape(rows, (-1, 3)).T, offsets, texts)


CORPUS = align([DULL, STORY])


def decode(tokens: list[int]) -> str:
    return CORPUS.texts[tokens[0]]


def test_the_passage_with_entities_that_come_back_is_taken() -> None:
    example = pictures.take_example([DULL, STORY], CORPUS, decode, table_words=8)
    assert (example.document, example.words) == ("story#1", STORY.words[3:])
    assert example.entities == (1, 0, 2, 2, 0, 1, 0, 0)
    assert example.tokens[6] == (" smil", "ed")
    assert example.table_words == 8
    assert pictures.take_example([], align([]), str, table_words=5) is None
    # one that is shorter than asked for is taken whole
    example = pictures.take_example([DULL], align([DULL]), str, table_words=50)
    assert (example.words, example.table_words) == (DULL.words, 7)


def test_entities_are_named_by_their_shortest_mention_that_is_no_pronoun() -> None:
    assert pictures.label_words(CORPUS, 1, 11).tolist() == [0, 0, 0, 1, 0, 2, 2, 0, 1, 0, 0]
    pronoun_first = replace(STORY, mentions=(Mention(5, 7, 8), Mention(8, 9, 8), Mention(3, 4, 8)))
    assert pictures.name_entities([DULL, STORY], CORPUS) == ["Ada", "the swan"]
    assert pictures.name_entities([pronoun_first], align([pronoun_first])) == ["Ada"]


TINY = tiny_corpus(2, seed=3)
PLAIN = [Document(name[:-2], 0, "test", "", tuple("w" * 50), (0,)) for name in TINY.names]
N = len(TINY.tokens)
NATS = np.arange(N, dtype=np.float32)
READ = {"off": NATS, "on": NATS / 3, "entity": np.tile(np.int32([1, 2, 0]), (N, 1))}
SHARES = [np.tile(np.float32([0.5, first, 0]), (N, 1)) for first in (0.1, 0.005)]
RUNS = {
    "gpt2": [{"off": np.full(N, nats, np.float32)} for nats in (1.0, 2.234)],
    "gpt2e": [READ | {"share": share} for share in SHARES],
}


def test_nats_are_means_and_shares_percents() -> None:
    found = pictures.gather_excerpts(TINY, PLAIN, lambda tokens: f" {tokens}", RUNS)
    plain, on, off = found["scores"]
    named = [(s["model"], s["entities"], s["seeds"]) for s in found["scores"]]
    assert named == [("gpt2", "off", 2), ("gpt2e", "on", 2), ("gpt2e", "off", 2)]
    lengths = [n - 1 for n in np.diff(TINY.offsets).tolist()]
    assert [len(page["tokens"]) for page in found["pages"]] == lengths
    assert plain["nats"] == [[1.62] * n for n in lengths]
    assert off["nats"][1][0] == TINY.offsets[1] + 1  # the first token is predicted from the start
    assert on["nats"][0][:3] == [0.33, 0.67, 1.0]
    assert all(read == [[1, 50], [2, 5]] for page in on["read"] for read in page)
    assert plain["read"] == off["read"] == []
    assert found["pages"][0]["entities"] == TINY.gold[1 : TINY.offsets[1]].tolist()


def test_a_character_of_several_tokens_is_whole() -> None:
    short = list("a–é!".encode())
    corpus = tiny_corpus(1, seed=3, shortest=len(short) + 1, longest=len(short) + 2)
    corpus.tokens[1:] = short
    decode = lambda tokens: bytes(tokens).decode("utf-8", "replace")  # noqa: E731
    page = pictures.gather_excerpts(corpus, PLAIN[:1], decode, {})["pages"][0]
    assert page["tokens"] == ["a", "", "", "–", "", "é", "!"]


@pytest.mark.parametrize("there", [True, False])
def test_pictures_keep_them(there: bool) -> None:
    found = pictures.gather_excerpts(TINY, PLAIN, lambda tokens: " a", RUNS) if there else None
    written = pictures.write_pictures(pictures.Pictures(excerpts=found))
    assert ("excerpts" in written) == there  # without them the file is as it was
    read = pictures.parse_pictures(json.loads(json.dumps(written)))
    assert read.excerpts == found
    assert pictures.write_pictures(read) == written
    with pytest.raises(ValueError, match=r"pictures.json: clouds is wrong: run"):
        pictures.parse_pictures(written | {"clouds": 3})
