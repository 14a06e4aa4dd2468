"""The template language of the sample corpus: who becomes a pronoun, articles, speakers, unknown
words.
"""

from __future__ import annotations

import random

import pytest

from entity_transformers.corpus.sample.grammar import Entity, Writer, starts_with_vowel
from entity_transformers.corpus.sample.lexicon import find_tag


def test_writer_prefers_a_pronoun_only_where_it_is_clear() -> None:
    people = {
        name: Entity("she", {"new": f"{name}/NNP", "first": f"{name}/NNP"}, (f"{name}/NNP",))
        for name in ("Anna", "Berta")
    }
    for seed in range(50):
        writer = Writer(random.Random(seed), {}, people)
        assert writer.write("@Anna met @Berta:o .").words == ["Anna", "met", "Berta", "."]
        assert writer.write("@Berta said that @Anna walked .").words[0] == "Berta"
        writer.start_paragraph()
        sentence = writer.write("@Anna said that @Anna loved @Anna:p cat/NN .")
        assert " ".join(sentence.words) == "Anna said that she loved her cat ."


def test_writer_turns_speakers_into_i_and_hearers_into_you() -> None:
    people = {
        name: Entity("he", {"new": f"{name}/NNP"}, (f"{name}/NNP",)) for name in ("Ben", "Otto")
    }
    sentence = Writer(random.Random(1), {}, people).write(
        "``Ben>Otto @Ben told @Otto:o about @Ben:p cat/NN , '' @Ben said ."
    )
    assert " ".join(sentence.words) == "`` I told you about my cat , '' Ben said ."
    assert [
        (start, end) for start, end, entity in sentence.mentions if entity is people["Ben"]
    ] == [(1, 2), (5, 6), (9, 10)]


@pytest.mark.parametrize("word", "apple hour honest 8 11 18 80 umbrella Idea eel".split())
def test_an_precedes(word: str) -> None:
    assert starts_with_vowel(word)


@pytest.mark.parametrize("word", "bell uniform one European useful 7 110 house".split())
def test_a_precedes(word: str) -> None:
    assert not starts_with_vowel(word)


def test_unknown_template_word_is_named() -> None:
    with pytest.raises(KeyError, match="'blorp' is not in the lexicon"):
        find_tag("blorp")
    assert find_tag("blorp/NN") == ("blorp", "NN")
