"""The tagger of LAMBADA's targets: what it sees, what it learns, how it is scored."""

from itertools import product

import pytest
from written import document_of

from entity_transformers.corpus import tagging
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.tagging import CONTEXT, Tagger, learn_tagger, make_windows

NAMES, NOUNS, VERBS = ("Ada", "Ben", "Cleo"), ("dog", "owl", "goat"), ("saw", "met", "fed")


def make_document(text: str, tags: str) -> Document:
    return document_of(text, tags=tuple(tags.split()))


def make_corpus() -> list[Document]:
    """Names start a sentence or follow a verb, nouns follow "the", "she" is the one pronoun."""
    clauses = [f"{name} {verb} the {noun} ." for name, verb, noun in product(NAMES, VERBS, NOUNS)]
    turned = [f"she {verb} {name} ." for name, verb in product(NAMES, VERBS)]
    return [make_document(" ".join(clauses), " ".join(["NNP VBD DT NN ."] * len(clauses))),
            make_document(" ".join(turned), " ".join(["PRP VBD NNP ."] * len(turned)))]  # fmt: skip


def learn(*more: Document) -> Tagger:
    tagger = learn_tagger([*make_corpus(), *more], lower_case=True)
    assert tagger is not None
    return tagger


def tag(text: str, tagger: Tagger) -> list[str]:
    return tagger.tag(make_windows(text.split(), tagger.lower_case))


def test_known_words_are_told() -> None:
    expected = "pronouns other proper_nouns other proper_nouns other other nouns".split()
    assert tag("she met Ada . Ben saw the owl", learn()) == expected


def test_unknown_words_are_told_by_what_stands_before() -> None:
    text = "Ben fed the zebra . she met Zora . Ben fed the yak . she saw Yolanda ."
    tagger = learn(make_document(text, "NNP VBD DT NN . PRP VBD NNP . " * 2))
    assert not tagger.known & {"zebra", "zora", "walrus", "wanda"}
    assert tag("ben saw the walrus", tagger)[-1] == "nouns"
    assert tag("she saw wanda", tagger)[-1] == "proper_nouns"


def test_nothing_after_a_word_and_nothing_far_before_it_is_seen() -> None:
    words = "one two three four five six".split()
    windows = make_windows(words, False)
    assert windows[0] == ("", "", "", "one")
    assert all(windows[i] == tuple([*["", "", ""], *words][i : i + CONTEXT + 1]) for i in range(6))
    for i in range(6):
        assert make_windows([*words[: i + 1], "else"], False)[i] == windows[i]
    tagger = learn()
    assert tag("she met Ada", tagger) == tag("she met Ada . Ben saw", tagger)[:3]


def test_running_text_is_split_as_the_corpora_are() -> None:
    words = tagging.split_words("\"I don't,\" she'd said—to well-kept Mr. O.")
    assert words == "\" I do n't , \" she 'd said — to well-kept Mr . O .".split()
    tokenised = "`` no need . we wo n't be that long . '' shane"
    assert tagging.split_words(tokenised) == tokenised.split()


def test_the_target_follows_its_passage() -> None:
    text = "She met Ada.\n\n\"Don't go, O'Hara"
    row = {"text": text, "target_start": text.index("O'Hara")}
    assert tagging.target_window(row, False) == ("n't", "go", ",", "O'Hara")
    row = {"text": "so Ada", "target_start": 3}
    assert tagging.target_window(row, True) == ("", "", "so", "ada")


@pytest.mark.parametrize("corpus", [
    [], [document_of("she met Ada")], [make_document("dog owl", "NN NNS")],
    [make_document("a b", "XX XX")],
])  # fmt: skip
def test_without_tags_to_learn_there_is_no_tagger(corpus: list[Document]) -> None:
    assert learn_tagger(corpus, True) is None
    tags = tagging.tag_targets(corpus, make_corpus(), [{"text": "she met ada", "target_start": 8}])
    assert tags == {"n": 1, "lower_case": True, "shares": None, "dev": None}


def test_last_words_are_those_with_letters() -> None:
    text = document_of("she met Ada . ( 1984 ) Go ! '' yes", sentence_starts=(0, 4, 7, 10))
    assert tagging.find_last_words(text) == [2, 7, 10]


def test_scores_are_those_of_the_pairs() -> None:
    pairs = [
        ("nouns", "nouns"), ("nouns", "nouns"), ("nouns", "other"), ("proper_nouns", "nouns"),
        ("other", "other"),
    ]  # fmt: skip
    scores = tagging.score_groups(pairs)
    assert (scores["n"], scores["accuracy"]) == (5, 3 / 5)
    assert scores["groups"]["nouns"] == {"n": 3, "recall": 2 / 3, "precision": 2 / 3}
    assert scores["groups"]["proper_nouns"] == {"n": 1, "recall": 0.0, "precision": None}
    assert scores["groups"]["pronouns"] == {"n": 0, "recall": None, "precision": None}
    assert scores["groups"]["other"] == {"n": 1, "recall": 1.0, "precision": 1 / 2}


@pytest.mark.parametrize("capitals", [False, True])
def test_shares_are_of_the_passages(capitals: bool) -> None:
    passages = [
        {"text": text if capitals else text.lower(), "target_start": text.rindex(" ") + 1}
        for text in ["she saw the goat", "Ben met Ada", "she saw Cleo", "she met the dog ; Ada saw"]
    ]
    tags = tagging.tag_targets(make_corpus(), make_corpus(), passages)
    assert (tags["n"], tags["lower_case"]) == (4, not capitals)
    assert tags["shares"] == {"nouns": 0.25, "proper_nouns": 0.5, "pronouns": 0.0, "other": 0.25}
