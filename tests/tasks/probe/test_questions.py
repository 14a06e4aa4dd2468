"""The questions and the baselines against hand-counted examples and loops over mentions."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from written import write_documents

from entity_transformers.corpus.alignment import align_split, learn_tokenizer
from entity_transformers.corpus.document import Document, Mention
from entity_transformers.tasks.probe.questions import (
    ask,
    credit_choices,
    find_places,
    pool_attention,
)

GROUPS = {"nouns": ["NN"], "names": ["NNP"], "pronouns": ["PRP"]}


def align(*documents, policy="outermost"):
    tokenizer = learn_tokenizer(documents, 300, "natural")
    return align_split(documents, tokenizer, split="dev", policy=policy, spacing="natural")


def write(
    words: str, mentions: list[tuple[int, int, int]], tags: str | None = None, name: str = "one"
) -> Document:
    return Document(
        name,
        0,
        "dev",
        "",
        tuple(words.split()),
        (0,),
        tuple(Mention(*m) for m in mentions),
        tuple(tags.split()) if tags else None,
    )


#                 0   1    2    3   4   5    6   7
STORY = write(
    "Ann met the dog . Ann saw it",
    [(0, 1, 1), (2, 4, 2), (5, 6, 1), (7, 8, 2)],
    "NNP VBD DT NN . NNP VBD PRP",
)


def test_baselines_of_a_story_counted_by_hand():
    """ "Ann": the nearest mention is the dog (wrong), the same word is right, one of two at random.
    "it": nearest is Ann, no same word.
    """
    questions = ask([STORY], align(STORY), GROUPS, window=99, tokens="head")
    assert (questions.documents, questions.mentions, questions.later, len(questions)) == (
        1,
        4,
        2,
        2,
    )
    assert questions.group.tolist() == [1, 2]
    assert questions.candidates.tolist() == [2, 3]
    assert questions.baselines["nearest"].tolist() == [0, 0]
    assert questions.baselines["same_head"].tolist() == [1, 0]
    assert questions.baselines["chance"].tolist() == [1 / 2, 1 / 3]


def test_the_same_word_in_another_case_counts_and_the_nearest_of_several_is_taken():
    story = write(
        "Ann bob ann Bob ANN",
        [(0, 1, 1), (1, 2, 2), (2, 3, 3), (3, 4, 2), (4, 5, 1)],
        "NNP NNP NNP NNP NNP",
    )
    questions = ask([story], align(story), GROUPS, window=99, tokens="head")
    assert questions.baselines["same_head"].tolist() == [
        1,
        0,
    ]  # the nearest "ann" is of another chain
    assert questions.baselines["nearest"].tolist() == [0, 0]


def test_heads_groups_and_tokens_of_mentions():
    story = write(
        "the dog of Ann ran . this ran", [(0, 4, 1), (6, 7, 1)], "DT NN IN NNP VBD . DT VBD"
    )
    corpus = align(story)
    places = list(find_places([story], corpus, GROUPS, "head"))
    assert [(p.word, p.group) for p in places] == [("dog", 0), ("this", -1)]
    assert [corpus.words[p.start : p.end].tolist() for p in places] == [
        [1] * (p.end - p.start) if p.word == "dog" else [6] for p in places
    ]
    whole = list(find_places([story], corpus, GROUPS, "mention"))
    assert sorted(set(corpus.words[whole[0].start : whole[0].end].tolist())) == [0, 1, 2, 3]
    assert [p.entity for p in whole] == [1, 1]


def test_without_tags_the_last_word_is_the_head():
    story = write("the old dog ran . it", [(0, 3, 1), (5, 6, 1)])
    assert [(p.word, p.group) for p in find_places([story], align(story), GROUPS, "head")] == [
        ("dog", -1),
        ("it", -1),
    ]


def find_plainly(documents, corpus, window, tokens):
    """(document, asking mention, candidates, which are right) of every question, by loops; mentions
    as spans of probed tokens.
    """
    found = []
    for d in range(len(corpus)):
        offset = int(corpus.offsets[d])
        mine = [p for p in find_places(documents, corpus, GROUPS, tokens) if p.document == d]
        for mention in mine:

            def window_of(token: int, offset: int = offset) -> int:
                return (token - offset) // window

            def whole(p: Any, window_of: Any = window_of) -> bool:
                return window_of(p.start) == window_of(p.end - 1)

            earlier = [
                p
                for p in mine
                if p.end <= mention.start
                and whole(p)
                and window_of(p.start) == window_of(mention.start)
            ]
            if whole(mention) and any(p.entity == mention.entity for p in earlier):
                found.append((mention, earlier, [p.entity == mention.entity for p in earlier]))
    return found


@pytest.mark.parametrize("tokens", ["head", "mention"])
@pytest.mark.parametrize("window", [8, 24, 999])
def test_questions_equal_loops_over_mentions(documents, corpus, window, tokens):
    questions = ask(documents, corpus, GROUPS, window=window, tokens=tokens)
    expected = find_plainly(documents, corpus, window, tokens)
    assert len(questions) == len(expected) > 5
    assert questions.document.tolist() == [mention.document for mention, *_ in expected]
    assert questions.candidates.tolist() == [len(earlier) for _, earlier, _ in expected]
    np.testing.assert_allclose(
        questions.baselines["chance"], [np.mean(right) for *_, right in expected]
    )
    np.testing.assert_array_equal(
        questions.baselines["nearest"], [right[-1] for *_, right in expected]
    )
    alike = [
        [i for i, p in enumerate(earlier) if p.word == mention.word]
        for mention, earlier, _ in expected
    ]
    same_head = [
        right[places[-1] if places else -1]
        for places, (*_, right) in zip(alike, expected, strict=True)
    ]
    np.testing.assert_array_equal(questions.baselines["same_head"], same_head)
    asked = [(first, w) for first, w in questions.windows.items()]
    assert [int(first + q) for first, w in asked for q in w.queries] == [
        mention.end - 1 for mention, *_ in expected
    ]


def test_no_candidate_is_later_and_every_question_has_an_answer(documents, corpus):
    questions = ask(documents, corpus, GROUPS, window=16, tokens="mention")
    for asked in questions.windows.values():
        starts = asked.tokens[asked.firsts]
        assert (starts[None, :] < asked.queries[:, None])[asked.earlier].all()
        assert (asked.earlier & asked.same).any(1).all()
        assert not asked.earlier[np.arange(len(asked.askers)), asked.askers].any()


def test_the_later_mentions_of_a_split_are_those_whose_entity_came_before(documents, corpus):
    questions = ask(documents, corpus, GROUPS, window=16, tokens="head")
    later = 0
    for d in range(len(corpus)):
        seen: set[int] = set()
        for place in (p for p in find_places(documents, corpus, GROUPS, "head") if p.document == d):
            later += place.entity in seen
            seen.add(place.entity)
    assert questions.later == later > len(questions)


def test_a_window_is_made_when_it_is_asked_for_and_another_is_unknown(documents, corpus):
    windows = ask(documents, corpus, GROUPS, window=16, tokens="head").windows
    first = next(iter(windows))
    assert list(windows) == sorted(windows)
    assert windows[first] is not windows[first]
    assert first + 1 not in windows
    assert windows.get(10**9) is None


def test_questions_take_less_than_a_hundred_bytes_per_mention():
    """Windows as arrays of their own took 650."""
    documents = write_documents(300, longest=120, mentions=60, longest_mention=2)
    corpus = align(*documents)
    tracemalloc.start()
    questions = ask(documents, corpus, GROUPS, window=32, tokens="head")
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert questions.mentions > 2500
    assert len(questions) > 1000
    assert held / questions.mentions < 100


def test_a_mention_that_the_windows_edge_cuts_is_neither_asked_nor_a_candidate():
    story = write(
        "Ann the dog Ann Ann", [(0, 1, 1), (1, 3, 2), (3, 4, 1), (4, 5, 1)], "NNP DT NN NNP NNP"
    )
    corpus = align(story)
    cut = int(np.flatnonzero(corpus.words == 2)[0])  # the window ends inside "the dog"
    whole = ask([story], corpus, GROUPS, window=99, tokens="mention")
    questions = ask([story], corpus, GROUPS, window=cut, tokens="mention")
    assert whole.candidates.tolist() == [2, 3]
    assert questions.candidates.tolist() == [1]
    assert (questions.later, len(questions)) == (2, 1)


@pytest.mark.parametrize("mentions", [[], [(0, 1, 1)], [(0, 1, 1), (1, 2, 2)]])
def test_nothing_to_ask_is_defined(mentions):
    story = write("Ann ran", mentions, "NNP VBD")
    questions = ask([story], align(story), GROUPS, window=99, tokens="head")
    assert (len(questions), questions.later, questions.windows) == (0, 0, {})
    assert all(len(answers) == 0 for answers in questions.baselines.values())
    empty = ask([], align(), GROUPS, window=99, tokens="head")
    assert (len(empty), empty.documents, empty.mentions) == (0, 0, 0)


def test_documents_of_another_corpus_are_refused(documents, corpus):
    with pytest.raises(ValueError, match="align the corpus again"):
        ask(documents[1:], corpus, GROUPS, window=16, tokens="head")


def test_attention_to_a_mention_is_the_sum_or_the_maximum_over_its_tokens():
    story = write("Ann ran Ann", [(0, 1, 1), (2, 3, 1)], "NNP VBD NNP")
    (asked,) = ask([story], align(story), GROUPS, window=99, tokens="head").windows.values()
    asked = replace(asked, tokens=np.array([1, 2, 4]), firsts=np.array([0, 2]))
    rows = np.array([[[0.5, 0.1, 0.2, 0.0, 0.2]]])
    np.testing.assert_allclose(pool_attention(rows, asked, "sum"), [[[0.3, 0.2]]])
    np.testing.assert_allclose(pool_attention(rows, asked, "max"), [[[0.2, 0.2]]])


def test_equal_scores_are_a_draw_and_later_mentions_do_not_matter():
    story = write(
        "a b a c a", [(0, 1, 1), (1, 2, 2), (2, 3, 1), (3, 4, 3), (4, 5, 1)], "NN NN NN NN NN"
    )
    (asked,) = ask([story], align(story), GROUPS, window=99, tokens="head").windows.values()
    assert asked.askers.tolist() == [2, 4]
    scores = np.array([[0.2, 0.2, 9.0, 9.0, 9.0], [0.1, 0.3, 0.3 * (1 + 1e-8), 0.3, 9.0]])
    np.testing.assert_allclose(credit_choices(scores, asked), [1 / 2, 1 / 3])
    # weights that vanish are a draw of all
    np.testing.assert_allclose(credit_choices(np.zeros((2, 5)), asked), [1 / 2, 2 / 4])
