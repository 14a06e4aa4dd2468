from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import pytest

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.report.results import Results
from entity_transformers.report.spans import (
    LONE_COLOUR,
    Example,
    colour_chains,
    draw_spans,
    group_tokens,
    label_words,
    list_chains,
    name_entities,
    number_chains,
    take_example,
)

DULL = Document("dull", 0, "test", "", ("It", "rained", ".", "It", "rained", "on", "."), (0, 3))
STORY = Document(
    "story",
    1,
    "test",
    "",
    tuple("Rain fell . Ada saw the swan and she smiled .".split()),
    (0, 3),
    mentions=(Mention(3, 4, 8), Mention(5, 7, 5), Mention(8, 9, 8)),
    tags=tuple("NN VBD . NNP VBD DT NN CC PRP VBD .".split()),
)


@dataclass
class Tokens:
    """An aligned split by hand: <|endoftext|> (0), then one token per word, two for words of six
    letters or more.
    """

    tokens: np.ndarray
    gold: np.ndarray
    words: np.ndarray
    offsets: list[int]
    texts: list[str]

    def document(self, number: int) -> slice:
        return slice(self.offsets[number], self.offsets[number + 1])


def align(documents: list[Document]) -> Tokens:
    tokens, entities, words, offsets, texts = [], [], [], [0], ["<|endoftext|>"]
    for document in documents:
        ids = {
            chain: i for i, chain in enumerate(dict.fromkeys(m.chain for m in document.mentions), 1)
        }
        rows = [(0, 0, -1)]
        for index, word in enumerate(document.words):
            entity = next((ids[m.chain] for m in document.mentions if m.start <= index < m.end), 0)
            for text in (f" {word[:4]}", word[4:]) if len(word) > 5 else (f" {word}",):
                texts.append(text)
                rows.append((len(texts) - 1, entity, index))
        for token, entity, index in rows:
            tokens.append(token), entities.append(entity), words.append(index)
        offsets.append(len(tokens))
    return Tokens(*map(np.array, (tokens, entities, words)), offsets, texts)


CORPUS = align([DULL, STORY])


def test_the_passage_with_entities_that_come_back_is_taken() -> None:
    example = take_example(
        [DULL, STORY], CORPUS, CORPUS.texts.__getitem__, table_words=7, page_words=8
    )
    assert example is not None
    assert (example.document, example.words) == ("story#1", STORY.words[3:])
    assert example.entities == (1, 0, 2, 2, 0, 1, 0, 0)
    assert example.tokens[6] == (" smil", "ed")
    assert example.mentions == (Mention(0, 1, 8), Mention(2, 4, 5), Mention(5, 6, 8))
    assert example.table_words == 7


def test_no_document_has_no_example() -> None:
    assert take_example([], align([]), str, table_words=5) is None


def test_a_passage_shorter_than_asked_for_is_taken_whole() -> None:
    example = take_example([DULL], align([DULL]), str, table_words=50)
    assert example is not None
    assert example.words == DULL.words
    assert example.table_words == 7


def test_words_and_tokens_come_back_from_the_alignment() -> None:
    assert label_words(CORPUS, 1, 11).tolist() == [0, 0, 0, 1, 0, 2, 2, 0, 1, 0, 0]
    assert [
        "".join(group).strip() for group in group_tokens(CORPUS, 1, 11, CORPUS.texts.__getitem__)
    ] == list(STORY.words)


def test_entities_are_named_by_their_shortest_mention_that_is_no_pronoun() -> None:
    pronoun_first = replace(STORY, mentions=(Mention(5, 7, 8), Mention(8, 9, 8), Mention(3, 4, 8)))
    assert name_entities([DULL, STORY], CORPUS) == ["Ada", "the swan"]
    assert name_entities([pronoun_first], align([pronoun_first])) == ["Ada"]


def test_only_chains_that_come_back_get_a_colour(small: Results) -> None:
    example = small.pictures.example
    assert example is not None
    colours = colour_chains(example)
    assert colours[5] == colours[6] == LONE_COLOUR
    assert len({colours[chain] for chain in (7, 9, 4, 2)}) == 4
    assert list_chains(example)[0][2] == "Ada Lovelace · Ada · who · herself · her"


def test_chains_are_numbered_as_in_table_1() -> None:
    words = tuple("the king of France met his son and the king left".split())
    # outermost: France is within chain 7's first mention and has no word of its own
    example = Example(
        "d#0",
        words,
        (True,) * 11,
        (3, 3, 3, 3, 0, 5, 5, 0, 3, 3, 0),
        tuple((word,) for word in words),
        (Mention(0, 4, 7), Mention(3, 4, 9), Mention(5, 7, 2), Mention(5, 6, 7), Mention(8, 10, 7)),
        11,
    )
    assert number_chains(example) == {7: "3", 9: "a", 2: "5"}
    assert [number for number, _, _ in list_chains(example)] == ["3"]
    drawn = re.findall(r">\s*(\w+)\s*</span>", draw_spans(example))
    assert sorted(set(drawn) & set("35a")) == ["3", "5", "a"]


def test_every_mention_is_drawn_in_its_colour(small: Results) -> None:
    example = small.pictures.example
    assert example is not None
    html = draw_spans(example)
    for chain, colour in colour_chains(example).items():
        covered = sum(
            mention.end - mention.start for mention in example.mentions if mention.chain == chain
        )
        mentions = sum(mention.chain == chain for mention in example.mentions)
        if colour != LONE_COLOUR:  # displaCy: a slice a word, and start marker and label a mention
            assert html.count(f"background: {colour};") == covered + 2 * mentions
    assert "&lt;" in html
    assert "&amp;" in html
    assert html == draw_spans(example)


@pytest.mark.parametrize("words", [("a", "<i>", "b")])
def test_a_passage_without_mentions_is_plain_text(words: tuple[str, ...]) -> None:
    example = Example("d#0", words, (True,) * 3, (0,) * 3, (("a",),) * 3, (), 3)
    assert draw_spans(example) == "<p>a &lt;i&gt; b </p>"
