"""What is evaluated is not trained on: passages are found by their text and cut out of it."""

import gzip

import pytest
from refused import refused
from written import document_of

from entity_transformers.corpus import conll2012, prepare
from entity_transformers.corpus.alignment import spaced_words
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.overlap import Overlap, leave_out
from entity_transformers.corpus.readers import text as text_reader
from entity_transformers.corpus.splitting import split_text


def number_words(first: int, last: int) -> str:
    return " ".join(f"w{i}" for i in range(first, last))


def document(text: str, name: str = "a", split: str = "train") -> Document:
    words, spaces, starts = split_text([text])
    return Document(name, 0, split, "", tuple(words), tuple(starts), (), None, tuple(spaces))


def sixty() -> Overlap:
    """A passage of sixty words, of a corpus that does not tell its spaces."""
    return Overlap({"set": [document_of(number_words(0, 60))]})


def test_shares() -> None:
    """Case, punctuation and tokenisation make no difference."""
    texts = {
        "inside": number_words(50, 70), "half": number_words(90, 110),
        "other": number_words(200, 230), "short": "too short",
        "tokens": "`` I do n't know , '' said she ; it 's -- well -- the cook 's own dog .",
    }  # fmt: skip
    overlap = Overlap({"set": [document_of(text, name=name) for name, text in texts.items()]})
    overlap.compare(document(number_words(0, 100)))
    overlap.compare(document("\"I don't know,\" SAID she; it's -- well -- the cook's own dog."))
    rows = overlap.shares()[["document", "shingles", "shared"]].itertuples(index=False, name=None)
    assert list(rows) == [
        ("inside#0", 13, 13), ("half#0", 13, 3), ("other#0", 23, 0), ("short#0", 0, 0),
        ("tokens#0", 7, 7),
    ]  # fmt: skip


REST, MORE = number_words(100, 160), number_words(200, 400)


@pytest.mark.parametrize(("text", "left", "words"), [
    (f'CHAPTER I "{number_words(0, 60)}." {REST}', [REST], 65),
    (f"İİİİ {number_words(0, 60)} {REST}", [REST], 61),  # whose small form is longer
    (f"{MORE} {number_words(0, 30)} odd {number_words(31, 60)} {REST}", [MORE, REST], 60),
], ids=["opening", "small form", "inside"])  # fmt: skip
def test_a_passage_is_cut_with_the_start_of_its_text(text: str, left: list[str], words: int):
    overlap = sixty()
    made = overlap.remove(document(text))
    assert ["".join(spaced_words(piece, "natural")) for piece in made] == left
    assert [piece.name for piece in made] == ["a", "a (2)"][: len(left)]
    assert overlap.cut["set"] == {"passages": 1, "words": words}
    for piece in made:
        overlap.compare(piece)
    assert overlap.shares()["shared"].tolist() == [0]


def test_what_is_shared_by_chance_stays() -> None:
    overlap = Overlap({"set": [document_of(number_words(0, 500))]})
    text = document(f"{number_words(600, 700)} {number_words(0, 12)} {number_words(700, 800)}")
    assert overlap.remove(text) == [text]
    overlap.compare(text)
    overlap.check()
    assert overlap.summary()["set"]["shared"] == 5


def test_too_much_fails_and_names_the_text() -> None:
    overlap = Overlap({"mine": [document_of(number_words(0, 100))]})
    overlap.compare(document(number_words(0, 40)))
    with refused(r"mine, d#0: 35.5% of its text appears in training"):
        overlap.check()
    assert overlap.summary()["mine"]["largest_share"] == round(33 / 93, 6)


def test_documents_with_chains_are_not_cut() -> None:
    with refused("chains"):
        sixty().remove(document_of(number_words(0, 80), [(0, 1, 1)]))


def test_only_training_is_cut() -> None:
    text = f"{number_words(0, 60)} {REST}"
    made = leave_out([document(text), document(text, "b", "dev")], sixty())
    assert [len(piece.words) for piece in made] == [60, 120]


def test_the_opening_of_a_novel_of_litbank(unpack_novels, shared_data):
    name = "1023_bleak_house"
    annotated = shared_data / f"litbank/coref/conll/{name}_brat.conll.gz"
    with gzip.open(annotated, "rt", encoding="utf-8") as rows:
        [opening] = conll2012.read_rows(rows, name)
    overlap = Overlap({"litbank": [opening]})
    first = overlap.remove(next(text_reader.read(unpack_novels(name), Ledger())))
    assert len(first) == 1
    assert 2000 < overlap.cut["litbank"]["words"] < 2400
    overlap.compare(first[0])
    assert overlap.shares()["share"].tolist()[0] < 0.01


def test_a_corpus_has_one_second_test() -> None:
    """Nothing is read of the other data set where the corpus has the split itself."""
    own = [document("a b c", "own"), document("a b c", "gentle", split="test2")]
    with refused(r"corpus\.second_test: litbank .* has one, .* gentle"):
        list(prepare._add_second_test(own, "litbank", ()))
