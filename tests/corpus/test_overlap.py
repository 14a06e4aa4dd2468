"""What is evaluated is not trained on: passages are found by their text and cut out of it."""

import gzip
from pathlib import Path

import pytest

from entity_transformers.corpus import conll2012, prepare
from entity_transformers.corpus.alignment import spaced_words
from entity_transformers.corpus.document import CorpusError, Document, Mention
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.overlap import Overlap, leave_out
from entity_transformers.corpus.readers import text as text_reader
from entity_transformers.corpus.splitting import split_text


def number_words(first: int, last: int) -> str:
    return " ".join(f"w{i}" for i in range(first, last))


def document(text: str, name: str = "a", split: str = "train") -> Document:
    words, spaces, starts = split_text([text])
    return Document(name, 0, split, "", tuple(words), tuple(starts), (), None, tuple(spaces))


def raw(text: str, name: str = "e") -> Document:
    """As a corpus that does not tell its spaces."""
    return Document(name, 0, "test", "", tuple(text.split()), (0,))


def joined(made: Document) -> str:
    return "".join(spaced_words(made, "natural"))


def find_overlap(train: list[Document], evaluation: list[Document]) -> list[tuple[object, ...]]:
    """Name, shingles and shared ones of each evaluation document."""
    overlap = Overlap({"evaluation": evaluation})
    for document in train:
        overlap.compare(document)
    columns = ["document", "shingles", "shared"]
    return list(overlap.shares()[columns].itertuples(index=False, name=None))


def test_shares() -> None:
    evaluation = [
        raw(number_words(50, 70), "inside"),
        raw(number_words(90, 110), "half"),
        raw(number_words(200, 230), "other"),
        raw("too short", "short"),
    ]
    assert find_overlap([document(number_words(0, 100))], evaluation) == [
        ("inside#0", 13, 13), ("half#0", 13, 3), ("other#0", 23, 0), ("short#0", 0, 0),
    ]  # fmt: skip


def test_case_punctuation_and_tokenisation_make_no_difference() -> None:
    book = document("\"I don't know,\" SAID she; it's -- well -- the cook's own dog.")
    tokens = raw("`` I do n't know , '' said she ; it 's -- well -- the cook 's own dog .")
    [(_, shingles, shared)] = find_overlap([book], [tokens])
    assert shingles == shared


def test_an_opening_is_cut_where_its_text_ends() -> None:
    heading, opening, rest = "CHAPTER I", number_words(0, 60), number_words(100, 160)
    overlap = Overlap({"set": [raw(opening)]})
    [left] = overlap.remove(document(f'{heading} "{opening}." {rest}'))
    assert joined(left) == rest
    assert left.name == "a"
    assert overlap.cut["set"] == {"passages": 1, "words": 65}
    overlap.compare(left)
    assert overlap.shares()["shared"].tolist() == [0]


def test_a_passage_inside_leaves_two_documents() -> None:
    before, after = number_words(200, 400), number_words(500, 600)
    overlap = Overlap({"set": [raw(number_words(0, 60))]})
    made = overlap.remove(
        document(f"{before} {number_words(0, 30)} odd {number_words(31, 60)} {after}")
    )
    assert [joined(piece) for piece in made] == [before, after]
    assert [piece.name for piece in made] == ["a", "a (2)"]


def test_what_is_shared_by_chance_stays() -> None:
    overlap = Overlap({"set": [raw(number_words(0, 500))]})
    text = document(f"{number_words(600, 700)} {number_words(0, 12)} {number_words(700, 800)}")
    assert overlap.remove(text) == [text]
    overlap.compare(text)
    overlap.check()
    assert overlap.summary()["set"]["shared"] == 5


def test_too_much_fails_and_names_the_text() -> None:
    overlap = Overlap({"mine": [raw(number_words(0, 100))]})
    overlap.compare(document(number_words(0, 40)))
    with pytest.raises(CorpusError, match=r"mine, e#0: 35.5% of its text appears in training"):
        overlap.check()
    assert overlap.summary()["mine"]["largest_share"] == round(33 / 93, 6)


def test_a_letter_whose_small_form_is_longer_keeps_its_place() -> None:
    overlap = Overlap({"set": [raw(number_words(0, 60))]})
    [left] = overlap.remove(document(f"İİİİ {number_words(0, 60)} {number_words(100, 160)}"))
    assert joined(left) == number_words(100, 160)


def test_documents_with_chains_are_not_cut() -> None:
    overlap = Overlap({"set": [raw(number_words(0, 60))]})
    words = tuple(number_words(0, 80).split())
    with pytest.raises(CorpusError, match="chains"):
        overlap.remove(Document("a", 0, "train", "", words, (0,), (Mention(0, 1, 1),)))


def test_only_training_is_cut() -> None:
    text = f"{number_words(0, 60)} {number_words(100, 160)}"
    overlap = Overlap({"set": [raw(number_words(0, 60))]})
    made = leave_out([document(text), document(text, "b", "dev")], overlap)
    assert [len(piece.words) for piece in made] == [60, 120]


def test_the_opening_of_a_novel_of_litbank(unpack_novels, shared_data: Path) -> None:
    name = "1023_bleak_house"
    annotated = shared_data / f"litbank/coref/conll/{name}_brat.conll.gz"
    with gzip.open(annotated, "rt", encoding="utf-8") as rows:
        [opening] = conll2012.read_rows(rows, name)
    overlap = Overlap({"litbank": [opening]})
    chapters = text_reader.read(unpack_novels(name), Ledger())
    first = overlap.remove(next(chapters))
    assert len(first) == 1
    assert 2000 < overlap.cut["litbank"]["words"] < 2400
    overlap.compare(first[0])
    assert overlap.shares()["share"].tolist()[0] < 0.01


def test_a_corpus_has_one_second_test() -> None:
    """Nothing is read of the other data set where the corpus has the split itself."""
    own = [document("a b c", "own"), document("a b c", "gentle", split="test2")]
    with pytest.raises(CorpusError, match=r"corpus\.second_test: litbank .* has one, .* gentle"):
        list(prepare._add_second_test(own, "litbank", ()))
