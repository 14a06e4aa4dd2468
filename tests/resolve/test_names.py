"""Names by spelling: which are one entity, and what a causal answer may depend on."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from written import document_of

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.resolve import names as module
from entity_transformers.resolve.names import REACH, find_names

WORDS = """Mr. Mrs. Miss Captain Dr . , ; " the The and of said hope Hope Darcy Bingley Elizabeth
Jane Fitzwilliam Bennet DARCY HOUSE House Duke New York Street de van J. I 's II June English NASA
Wellington Darcy's Mr Sir you Young he He her she himself""".split()
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=40)
STARTS = st.sets(st.integers(1, 39))


def document(text: str) -> Document:
    """Sentences start after a full stop of its own."""
    found = (0, *(i + 1 for i, w in enumerate(text.split()[:-1]) if w == "."))
    return document_of(text, sentence_starts=found)


def entities(text: str, causal: bool = False) -> list[set[str]]:
    """The surfaces of each entity, by first appearance."""
    doc = document(text)
    found: dict[int, set[str]] = {}
    for m in find_names(causal).resolve(doc):
        found.setdefault(m.chain, set()).add(" ".join(doc.words[m.start : m.end]))
    return list(found.values())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("case", "text", "number"), [
    ("title and last name", "he met Mr. Darcy and Darcy bowed", 1),
    ("full name after title", "then Mr. Darcy came ; it was Fitzwilliam Darcy himself", 1),
    ("title after full name", "then Fitzwilliam Darcy came ; she saw Mr. Darcy", 1),
    ("given name after full name", "then Elizabeth Bennet came ; she saw Elizabeth", 1),
    ("full name after given name", "so Elizabeth came ; and Miss Elizabeth Bennet sat", 1),
    ("last name after title", "he met Mr. Bingley , and Bingley bowed", 1),
    ("knight by given name", "so Sir William Lucas came ; and Sir William sat", 1),
    ("initial", "it was J. Smith ; I mean John Smith", 1),
    ("no full stop", "he met Mr Verloc and Mr. Verloc bowed", 1),
    ("capitals throughout", "he met Mr. Darcy ; MR. DARCY bowed", 1),
    ("possessive in the word", "he met Darcy , in Darcy's house", 1),
    ("of", "he met the Duke of Wellington , and Wellington bowed", 1),
    ("particle", "he met Lady Catherine de Bourgh , and Lady Catherine bowed", 1),
    ("husband, wife, daughter", "saw Mr. Bennet , Mrs. Bennet and Miss Bennet ;", 3),
    ("officer and his wife", "saw Colonel Forster and Mrs. Forster ;", 2),
    ("officer and another's given name", "saw Fitzwilliam Darcy and Colonel Fitzwilliam ;", 2),
    ("brothers", "saw John Reed and William Reed ;", 2),
    ("father and son", "saw George II and George III ;", 2),
    ("woman and a last name", "saw Georgiana Darcy ; then Darcy spoke", 2),
    ("place and a part of its name", "from New York to York ;", 2),
    ("street and its first word", "from Baker Street to Baker ;", 2),
])  # fmt: skip
def test_names_of_one_entity_and_of_several(case: str, text: str, number: int, causal: bool):
    found = entities(text, causal)
    assert len(found) == number, found
    assert number > 1 or len(found[0]) >= 2, found


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("text", "spans"), [
    ("the Duke of Wellington met Mr. Fitzwilliam Darcy", [(0, 4), (5, 8)]),
    ("so she saw the Rev. Mr. Collins", [(3, 7)]),
    ("we saw Mr. and Mrs. Gardiner", [(4, 6)]),
    ("the king and the Captain saw the Queen", []),
    ("in June the French came on Sunday", []),
    ("the British Museum is closed", [(0, 3)]),
    ("by George Bush Jr. himself", [(1, 4)]),
    ("I say , he is IN THE HOUSE OF USHER now", []),
    ("they work at NASA today", [(3, 4)]),
    ("we know Mr. Young and Mrs. Such", [(2, 4), (5, 7)]),
    ("he met Ada . Mr. Byron left", [(2, 3), (4, 6)]),
    ("Section A. J. is over", []),
    ("he , Ludwig van Beethoven , wrote", [(2, 5)]),
])  # fmt: skip
def test_spans(text: str, spans: list[tuple[int, int]], causal: bool) -> None:
    found = [(m.start, m.end) for m in find_names(causal).resolve(document(text))]
    assert found == spans


def test_a_title_s_full_stop_may_stand_apart() -> None:
    doc = document_of("he met Mr . Guppy and Mr. Guppy and the Captain . Then")
    assert find_names().resolve(doc) == [Mention(2, 5, 1), Mention(6, 8, 1)]


def test_a_sentence_s_first_word_needs_evidence() -> None:
    assert entities("Hope was lost . she had no hope") == entities("Marley was dead") == []
    assert entities("Jacob Marley was dead") == [{"Jacob Marley"}]
    assert entities("Emma was dead") == [{"Emma"}]  # a known given name


def test_causal_evidence_stands_before() -> None:
    doc = document("Hope was lost . she was called Hope")
    assert find_names(causal=True).resolve(doc) == [Mention(7, 8, 1)]
    assert find_names().resolve(doc) == [Mention(0, 1, 1), Mention(7, 8, 1)]
    doc = document("she was called Hope . Hope was lost")
    assert find_names(causal=True).resolve(doc) == [Mention(3, 4, 1), Mention(5, 6, 1)]


def pronouns(text: str) -> list[tuple[str, str]]:
    """Each pronoun with the first name of its entity."""
    doc = document(text)
    first: dict[int, str] = {}
    found = []
    for m in find_names(causal=True, pronouns=True).resolve(doc):
        surface = " ".join(doc.words[m.start : m.end])
        if surface.lower() in module._PRONOUNS:
            found.append((surface, first[m.chain]))
        first.setdefault(m.chain, surface)
    return found


def test_he_and_she_are_the_latest_person() -> None:
    text = "so Mr. Darcy met Jane Bennet ; He liked her , but she told Mrs. Long of his pride"
    assert pronouns(text) == [("He", "Mr. Darcy"), ("her", "Jane Bennet"), ("she", "Jane Bennet"),
                              ("his", "Mr. Darcy")]  # fmt: skip
    assert pronouns("in London he saw it , she told me and they went") == []
    assert find_names(pronouns=True).name == "names-pronouns"


def test_a_pronoun_tells_the_gender() -> None:
    text = "so Captain Ahab came ; he saw Mrs. Long and she saw him"
    assert pronouns(text) == [("he", "Captain Ahab"), ("she", "Mrs. Long"), ("him", "Captain Ahab")]
    assert pronouns("so Captain Ahab came ; she left , and he left") == [("she", "Captain Ahab")]
    assert pronouns("so Captain Ahab came ; it was Mr. John Ahab or Captain Ahab ; she left") == []
    assert pronouns("here in London , she left") == []  # a single word may be a place


def test_a_pronoun_does_not_reach_far() -> None:
    near, far = ("so Mr. Darcy came" + " and" * n + " he left" for n in (REACH - 3, REACH + 3))
    assert [len(pronouns(text)) for text in (near, far)] == [1, 0]


def make(words: list[str], starts: set[int]) -> Document:
    found = (0, *sorted(start for start in starts if start < len(words)))
    return document_of(words, sentence_starts=found)


@settings(max_examples=400)
@given(TEXTS, STARTS, TEXTS, STARTS, st.integers(0, 39), st.booleans())
def test_a_causal_answer_depends_on_nothing_later(words, starts, others, other_starts, t, pronouns):
    """Whatever follows word t: the same mentions that end at t or before, of the same entities."""
    t = min(t, len(words) - 1)
    kept = {start for start in starts if start <= t}
    changed = make([*words[: t + 1], *others], kept | {t + 1 + start for start in other_starts})
    resolver = find_names(causal=True, pronouns=pronouns)
    answers = [resolver.resolve(d) for d in (make(words, starts), changed)]
    before, after = ([m for m in answer if m.end <= t] for answer in answers)
    assert before == after


@given(TEXTS, STARTS, st.booleans(), st.booleans())
def test_spans_are_apart_and_entities_numbered(words, starts, causal, pronouns):
    doc = make(words, starts)
    found = find_names(causal, pronouns).resolve(doc)
    assert all(first.end <= second.start for first, second in pairwise(found))
    assert all(0 <= m.start < m.end <= len(words) for m in found)
    inside = (set(doc.sentence_starts) & set(range(m.start + 1, m.end)) for m in found)
    assert not any(inside)
    numbers = list(dict.fromkeys(m.chain for m in found))
    assert numbers == list(range(1, len(numbers) + 1))
    assert found == find_names(causal, pronouns).resolve(doc)
    without = [m for m in found if words[m.start].lower() not in module._PRONOUNS]
    spans = [(m.start, m.end) for m in find_names(causal).resolve(doc)]
    assert [(m.start, m.end) for m in without] == spans
